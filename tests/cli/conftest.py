"""Fixtures of the command line's tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

Golden = Callable[[Path, str], None]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write the golden files instead of comparing with them"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With ``--update-golden``, run what writes a golden file, and nothing else."""
    if config.getoption("--update-golden", default=False):
        others = [item for item in items if "golden" not in getattr(item, "fixturenames", ())]
        items[:] = [item for item in items if item not in others]
        config.hook.pytest_deselected(items=others)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compare a text with a file, or write the file: ``pytest tests/cli --update-golden``."""

    def compare(file: Path, text: str) -> None:
        if request.config.getoption("--update-golden", default=False):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        assert file.exists(), f"{file} is missing: pytest tests/cli --update-golden writes it"
        assert text == file.read_text()

    return compare


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "GANGCTL_DEBUG", "_GANGCTL_COMPLETE", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)
