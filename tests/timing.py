"""
Where the time of a test run goes: each worker's collection and CPU seconds, and how long every plane took to start.

pytest's own `--durations` has the slowest tests; `.ci/timed` has the steps around pytest.
"""

from __future__ import annotations

import resource
import time
from typing import Any, Final

import pytest

from tests.controlplane.plane import STARTS

_WORKERS: Final = pytest.StashKey[list[dict[str, Any]]]()
_COLLECTED: Final = pytest.StashKey[float]()
_OUTPUT: Final = "timing"


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_WORKERS] = []


def pytest_collection_finish(session: pytest.Session) -> None:
    session.config.stash[_COLLECTED] = time.process_time()


def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    if _COLLECTED not in config.stash:
        return
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    timing = {
        "worker": getattr(config, "workerinput", {}).get("workerid", "pytest"),
        "collection": config.stash[_COLLECTED],
        "own": own.ru_utime + own.ru_stime,
        "children": children.ru_utime + children.ru_stime,
        "planes": list(STARTS),
    }
    if hasattr(config, "workeroutput"):
        config.workeroutput[_OUTPUT] = timing
    else:
        config.stash[_WORKERS].append(timing)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take what a worker of xdist has measured; one that crashed has sent nothing."""
    if timing := getattr(node, "workeroutput", {}).get(_OUTPUT):
        node.config.stash[_WORKERS].append(timing)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    timings = [each for each in config.stash[_WORKERS] if each["planes"] or each["worker"] != "pytest"]
    if not timings:
        return
    terminalreporter.section("CPU seconds and planes", "-")
    for each in sorted(timings, key=lambda timing: str(timing["worker"])):
        terminalreporter.line(
            f"{each['worker']}: {each['collection']:.1f} CPU s until collected, {each['own']:.0f} in all, "
            f"{each['children']:.0f} of its children, {len(each['planes'])} planes"
        )
        for name, seconds in each["planes"]:
            terminalreporter.line(f"    {seconds:5.1f} s to start {name}")
