"""
Which worker runs what, and in which order.

The tests of a file stay on one worker, which sets up their fixtures once, and so do those of an older Kubernetes minor,
whose plane is started once. Files with tests of the control plane come first, because they take longest: the many short
ones fill what is left on either worker. When a worker comes to those it needs no plane any more; idle ones would take a
quarter of two cores.
"""

from __future__ import annotations

import pytest

from tests.controlplane.minors import NEWEST
from tests.controlplane.plane import RUNNING

_AFTER_PLANES = pytest.StashKey[bool]()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        older = [str(minor) for mark in item.iter_markers("minor") for minor in mark.args if minor != NEWEST]
        if not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(older[0] if older else item.nodeid.partition("::")[0]))
    items.sort(key=lambda item: item.get_closest_marker("controlplane") is None)
    with_planes = {_group(item) for item in items if item.get_closest_marker("controlplane")}
    for item in items:
        item.stash[_AFTER_PLANES] = _group(item) not in with_planes


def _group(item: pytest.Item) -> str:
    return "_".join(sorted({str(mark.args[0]) for mark in item.iter_markers("xdist_group")}))


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.stash[_AFTER_PLANES]:
        while RUNNING:
            RUNNING.pop().suspend()
