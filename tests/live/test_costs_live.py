"""docs/scaling.md reckons with what a gang costs on a real cluster."""

from __future__ import annotations

import re
from typing import Final

import pytest

from tests.controlplane.plane import ControlPlane
from tests.docpages import ROOT
from tests.live.cluster import Cluster
from tests.live.costs import PODS, measure
from tests.live.gangctl import USER, Gangctl, create_namespaces

pytestmark = [pytest.mark.controlplane, pytest.mark.xdist_group("costs")]

TEXT: Final = (ROOT / "docs" / "scaling.md").read_text(encoding="utf-8")
NEARLY: Final = 0.15
ROUGHLY: Final = 0.4
"""Who writes a status how often depends on timing, and objects have grown or not when they are looked at."""
ENDPOINTS: Final = "system:serviceaccount:kube-system:endpoint"
"""How the names of the two controllers begin that look after the pods' Service."""


def told(pattern: str) -> float:
    """The number at the group of a pattern that the page has once."""
    (found,) = re.findall(pattern, TEXT)
    return float(found.replace(",", ""))


async def test_a_gang_costs_what_the_page_says() -> None:
    async with ControlPlane.start("1.37", ("jobset",)) as plane, Gangctl(plane) as gangctl:
        await create_namespaces(plane, ["costs"])
        costs = await measure(Cluster(plane, "costs"), {"gangctl": gangctl.process.pid}, many=2)
    assert "A gang is a JobSet of one\nJob with ten pods" in TEXT
    assert PODS == 10
    most = told(r"both deleted at the end, 3 Events \| (\d+), measured")
    assert most - 1 <= costs.writes[USER].total() <= most, costs.writes[USER]
    events = {
        user: sum(n for what, n in each.items() if what.endswith("events")) for user, each in costs.writes.items()
    }
    assert events[USER] == told(r"gangctl's share is (\d+) Events")
    # What endpoint controllers tell is of updates that met others': the busier the machine, the more.
    told_always = sum(count for user, count in events.items() if not user.startswith(ENDPOINTS))
    assert told_always == pytest.approx(told(r"a gang, measured: (\d+), and"), rel=ROUGHLY)
    assert told_always <= told(r"gangctl's share is \d+ Events of (\d+)") == told(r"\| (\d+) a gang, measured: ")
    writes = sum(each.total() for each in costs.writes.values())
    assert writes == pytest.approx(told(r"which the test plays \| (\d+), measured"), rel=ROUGHLY)
    assert len(costs.lines) == pytest.approx(told(r"\| (\d+) of [\d,]+ bytes, measured"), rel=NEARLY)
    assert costs.bytes_of_an_event == pytest.approx(told(r"\d+ of ([\d,]+) bytes, measured"), rel=NEARLY)
    for kind, pattern in {
        "Pod": r"100,000 pods \| ([\d.]+) KB",
        "JobSet": r"JobSet ([\d.]+),",
        "Job": r" Job ([\d.]+),",
        "Workload": r"Workload ([\d.]+),",
        "PodGroup": r"PodGroup ([\d.]+) KB",
    }.items():
        assert costs.stored[kind] / 1000 == pytest.approx(told(pattern), rel=ROUGHLY), kind
    assert costs.microseconds() > 0
    assert costs.seconds["gangctl"] > 0
