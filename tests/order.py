"""
Which worker runs what, and in which order.

The tests of a file stay on one worker, which sets up their fixtures once, and so do those of an older Kubernetes minor,
whose plane is started once. What takes longest comes first, and the many short tests fill what is left on either
worker:

    0    files with tests on the planes of the session that have gangctl, one for each minor
    1    on the session's bare plane
    2    on planes of their own
    3    without a plane

A worker that comes to the next of these needs none of the planes before. They are paused: six idle planes would take a
quarter of two cores. Of the first, older minors are last, since their planes are needed for few tests.
"""

from __future__ import annotations

import pytest

from tests.controlplane.minors import MINORS, NEWEST
from tests.controlplane.plane import RUNNING

_WITHOUT_A_PLANE = 3
_LONGEST = ("tests/pythons/", "tests/faults/test_faults.py", "tests/policies/test_hostile.py")
"""Minutes each, without a plane: begun last, one would keep its worker while the other has nothing left to do."""
_PHASE = pytest.StashKey[int]()


class _Worker:
    """How far this process has come."""

    phase = 0


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        older = [str(minor) for mark in item.iter_markers("minor") for minor in mark.args if minor != NEWEST]
        if not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(older[0] if older else item.nodeid.partition("::")[0]))
    phases: dict[str, int] = {}
    for item in items:
        phases[_group(item)] = min(_phase(item), phases.get(_group(item), _WITHOUT_A_PLANE))
    for item in items:
        item.stash[_PHASE] = phases[_group(item)]
    items.sort(key=lambda item: (item.stash[_PHASE], _is_older(item), _phase(item), not _is_long(item)))


def _group(item: pytest.Item) -> str:
    return "_".join(sorted({str(mark.args[0]) for mark in item.iter_markers("xdist_group")}))


def _is_older(item: pytest.Item) -> bool:
    return _group(item) in MINORS.keys() - {NEWEST}


def _is_long(item: pytest.Item) -> bool:
    return item.nodeid.startswith(_LONGEST)


def _phase(item: pytest.Item) -> int:
    if not item.get_closest_marker("controlplane"):
        return _WITHOUT_A_PLANE
    fixtures = set(getattr(item, "fixturenames", ()))
    return 0 if "shared_planes" in fixtures else 1 if "bare_planes" in fixtures else 2


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.stash[_PHASE] > _Worker.phase:
        _Worker.phase = item.stash[_PHASE]
        while RUNNING:
            RUNNING.pop().suspend()
