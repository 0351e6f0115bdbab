"""
Which worker runs what, and in which order.

The tests of a file stay on one worker, which sets up their fixtures once, and so do those of an older Kubernetes minor,
whose plane is started once. The tests of the control plane come first, because they take longest: the many short ones
fill what is left on either worker.
"""

from __future__ import annotations

import pytest

from tests.controlplane.minors import NEWEST


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        older = [str(minor) for mark in item.iter_markers("minor") for minor in mark.args if minor != NEWEST]
        if not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(older[0] if older else item.nodeid.partition("::")[0]))
    items.sort(key=lambda item: item.get_closest_marker("controlplane") is None)
