"""docs/scaling.md reckons with what a gang costs on a real cluster."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

import pytest

from tests.controlplane.plane import ControlPlane
from tests.docpages import ROOT
from tests.live.cluster import Cluster
from tests.live.costs import PODS, measure
from tests.live.gangctl import USER, Gangctl, create_namespaces

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.xdist_group("costs"),
    pytest.mark.full("it holds a page against one gang; that gangctl writes no more is in the lifecycle tests"),
]

TEXT: Final = (ROOT / "docs" / "scaling.md").read_text(encoding="utf-8")
OURS: Final = Counter(
    {"create workloads": 1, "create podgroups": 1, "delete workloads": 1, "delete podgroups": 1, "create events": 3}
)
"""What gangctl writes of a gang whatever happens meanwhile; minCount follows at the tail, or the tail is too short."""
OTHERS: Final = {
    "system:kube-scheduler": Counter({"create pods/binding": PODS, "create events": PODS}),
    "system:serviceaccount:kube-system:job-controller": Counter(
        {"create pods": PODS, "patch pods": PODS, "create events": PODS + 1}
    ),
    "jobset-controller": Counter({"create jobs": 1, "create services": 1, "create events": 1}),
    "admin": Counter({"create jobsets": 1, "patch pods/status": 2 * PODS}),
}
"""What others write at least. How often a status is updated, and how many updates meet others', is chance."""
CHANGES: Final = 5
"""Of a pod, at least: created, bound, running, succeeded, let go."""


def reported(pattern: str) -> float:
    """The number at the group of a pattern that the page has once."""
    (found,) = re.findall(pattern, TEXT)
    return float(found.replace(",", ""))


async def test_the_requests_of_a_gang_are_those_of_the_page() -> None:
    async with ControlPlane.start("1.37", ("jobset",)) as plane, Gangctl(plane):
        await create_namespaces(plane, ["costs"])
        costs = await measure(Cluster(plane, "costs"), {}, many=0)
    assert "A gang is a JobSet of one\nJob with ten pods" in TEXT
    assert PODS == 10
    ours = Counter(costs.writes[USER])
    del ours["patch podgroups"]
    assert ours == OURS
    assert reported(r"both deleted at the end, 3 Events \| (\d+), measured") == OURS.total() + 1
    assert reported(r"gangctl's share is (\d+) Events") == OURS["create events"]
    for user, each in OTHERS.items():
        assert each <= costs.writes[user], user
    least = OURS.total() + sum(each.total() for each in OTHERS.values())
    assert least <= reported(r"which the test simulates \| (\d+), measured") <= 2 * least
    events = OURS["create events"] + sum(each["create events"] for each in OTHERS.values())
    assert events == reported(r"a gang, measured: (\d+), and")
    assert events <= reported(r"gangctl's share is \d+ Events of (\d+)") == reported(r"\| (\d+) a gang, measured: ")
    assert len(costs.lines) >= CHANGES * PODS
    assert CHANGES * PODS <= reported(r"\| (\d+) of [\d,]+ bytes, measured") <= 2 * CHANGES * PODS
    assert _alike(costs.bytes_of_an_event, reported(r"\d+ of ([\d,]+) bytes, measured"))
    for kind, pattern in {
        "Pod": r"100,000 pods \| ([\d.]+) KB",
        "JobSet": r"JobSet ([\d.]+),",
        "Job": r" Job ([\d.]+),",
        "Workload": r"Workload ([\d.]+),",
        "PodGroup": r"PodGroup ([\d.]+) KB",
    }.items():
        assert _alike(costs.stored[kind] / 1000, reported(pattern)), kind


def _alike(size: float, page: float) -> bool:
    """Objects have all of their status or little of it yet when they are looked at: no more than half of them."""
    return page / 2 <= size <= page * 2
