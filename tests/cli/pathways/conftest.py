"""Fixtures of the tests of ``gangctl pathways``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def log_of_its_own() -> Iterator[None]:
    """Commands that ask a cluster send the log to their stderr, which ends with the test."""
    yield
    structlog.reset_defaults()
