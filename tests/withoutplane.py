"""
`--without-controlplane` leaves out tests that need a real control plane, and prints how many those are.

Tests that need no more than promtool or Prometheus run where those are built: they take seconds.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import pytest

from tests.controlplane.binaries import find_binary, owner
from tests.controlplane.fixtures import PROMETHEUS, needs_only
from tests.controlplane.promtool2 import find_promtool_2

_BUILT: Final = "(make controlplane)"
_PROMTOOL_2: Final = "promtool of Prometheus 2 (make test fetches it)"
_FIXTURES: Final = {"promtool": "promtool", "prometheus_binary": "prometheus"}
_NOT_RUN: Final = pytest.StashKey[Counter[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--without-controlplane", action="store_true", help="leave out tests that need a control plane, and count them"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_NOT_RUN] = Counter()


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Any:
    """After the tiers: what the full tier alone runs is not counted."""
    answer = yield
    if config.option.without_controlplane:
        lacking = {item: missing for item in items if (missing := _missing(item))}
        config.hook.pytest_deselected(items=[*lacking])
        items[:] = [item for item in items if item not in lacking]
        config.stash[_NOT_RUN].update(lacking.values())
    return answer


def _missing(item: pytest.Item) -> str:
    """What a test lacks to run without a control plane."""
    if not item.get_closest_marker("controlplane"):
        return ""
    if not needs_only(item, PROMETHEUS):
        return f"the control plane {_BUILT}"
    used: list[str] = getattr(item, "fixturenames", [])
    for binary in (_FIXTURES[name] for name in used if name in _FIXTURES):
        if not find_binary(owner(binary), binary):
            return f"{binary} {_BUILT}"
    return _PROMTOOL_2 if "promtool_2" in used and not find_promtool_2() else ""


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker of xdist deselects, and another process prints."""
    if hasattr(session.config, "workeroutput"):
        not_run = session.config.stash[_NOT_RUN]
        session.config.workeroutput["not_run"] = {**not_run}


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Every worker collects the same."""
    counts: Counter[str] = Counter(getattr(node, "workeroutput", {}).get("not_run", {}))
    if counts:
        node.config.stash[_NOT_RUN] = counts


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for missing, count in config.stash[_NOT_RUN].items():
        terminalreporter.write_line(f"not run: {count} tests that need {missing}")
