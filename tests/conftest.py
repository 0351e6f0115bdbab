"""Fixtures that every test may use."""

import os
import signal
from collections.abc import Iterator

import pytest
import structlog

# A shell starts what runs in the background with SIGINT ignored, and every process that a test starts would inherit it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# What a plane is made of is written in Go, which collects garbage whenever a heap has doubled. Planes live for minutes:
# here it has to triple.
os.environ.setdefault("GOGC", "200")

pytest_plugins = (
    # Before the fixtures: of two hooks that want to be first pytest calls the one that came last, and that one marks.
    "tests.order",
    "tests.controlplane.fixtures",
    "tests.live.fixtures",
    "tests.tiers",
    "tests.withoutplane",
    "tests.timing",
)


@pytest.fixture(autouse=True)
def _logs_of_their_own() -> Iterator[None]:
    """Commands that a test calls in this process set up logging for all of it: undo that."""
    yield
    structlog.reset_defaults()
