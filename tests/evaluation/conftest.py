"""Fixtures of tests that start a policy evaluator."""

from collections.abc import Iterator

import pytest

from tests.runtime.workerprocesses import children


@pytest.fixture
def nobody_is_left() -> Iterator[None]:
    """No worker outlives the test."""
    yield
    assert not children()
