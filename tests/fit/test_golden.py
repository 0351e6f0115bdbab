"""The verdicts on 29 gangs against the first try of Kueue 0.19 (K3), with the ceilings (K4).

A later try of Kueue admits row 5. Amounts are written as in manifests: quotas in units of CPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gangctl.fit.clusterstate import Held
from gangctl.kueue.objects import ClusterQueue, Cohort, ResourceFlavor, ResourceGroup
from tests.fit.asking import ask, grouped, known, pods, taken_flavors
from tests.fit.queues import Written, group, holder
from tests.rows import each

Scale = Mapping[str, int]
UNITS: Scale = {"cpu": 1000}
LABELLED = ResourceFlavor("f1", node_labels={"type": "a"})
REORDERED = "FitsReordered"


def scaled(written: Written, unit: int) -> Written:
    if isinstance(written, int):
        return written * unit
    nominal, borrowing, lending = written
    return nominal * unit, None if borrowing is None else borrowing * unit, None if lending is None else lending * unit


def quotas(**flavors: Mapping[str, Written] | Written) -> ResourceGroup:
    """One resource group; a bare number is CPU."""
    resources = {flavor: each if isinstance(each, Mapping) else {"cpu": each} for flavor, each in flavors.items()}
    return group(
        {
            flavor: {name: scaled(written, UNITS.get(name, 1)) for name, written in each.items()}
            for flavor, each in resources.items()
        }
    )


def queue(name: str, *groups: ResourceGroup, cohort: str = "", **fields: Any) -> ClusterQueue:
    return ClusterQueue(name, cohort, groups, selector=(), **fields)


def pair(own: Written, sibling: Written, **fields: Any) -> tuple[ClusterQueue, ClusterQueue]:
    """Two members of one cohort that exists by name only."""
    return queue("a", quotas(f1=own), cohort="c"), queue("b", quotas(f1=sibling), cohort="c", **fields)


def tree() -> tuple[Held, ...]:
    return (
        Cohort("root", groups=(quotas(f1=100),)),
        Cohort("child", "root", (quotas(f1=(20, 7, None)),)),
        queue("a", quotas(f1=10), cohort="child"),
        queue("b", quotas(f1=(5, None, 1)), cohort="child"),
        queue("z", quotas(f1=3), cohort="root"),
    )


def cpu(name: str, amount: str, spec: Mapping[str, Any] | None = None, count: int = 1) -> dict[str, Any]:
    return pods(name, count, spec, cpu=amount)


def accelerated(count: int) -> dict[str, Any]:
    return pods("w", count, cpu="1", gpu="1")


@dataclass(frozen=True)
class Row:
    """Kueue's answer to a gang; ``says`` is gangctl's reason."""

    number: int
    held: Sequence[Held]
    gang: Sequence[dict[str, Any]]
    says: str = "Fits"
    flavors: tuple[str, ...] | None = None
    ceiling: int | None = None
    short: Mapping[tuple[str, str], int] = field(default_factory=dict)

    @property
    def never(self) -> bool:
        return self.says.startswith("Never")


EXCEEDS = "NeverExceedsQuota"
TEN = (queue("a", quotas(f1=10)),)
TWO = (queue("a", quotas(f1=10, f2=10)),)
TRAP = (queue("a", quotas(f1=10, f2=6)),)
REPELLED = {"key": "k", "value": "v", "effect": "NoSchedule"}
SPARED = {"key": "k", "operator": "Exists"}

ROWS = [
    Row(1, TEN, [cpu("w", "2", count=4)], flavors=("f1",)),
    Row(2, TEN, [cpu("w", "1", count=11)], EXCEEDS, short={("f1", "cpu"): 1000}),
    Row(3, TEN, [cpu("v", "1", count=6), cpu("w", "1", count=5)], EXCEEDS, short={("f1", "cpu"): 1000}),
    Row(4, TWO, [cpu("v", "6"), cpu("w", "6")], flavors=("f1", "f2")),
    Row(5, TRAP, [cpu("v", "6"), cpu("w", "10")], REORDERED, flavors=("f2", "f1")),
    Row(6, TRAP, [cpu("v", "10"), cpu("w", "6")], flavors=("f1", "f2")),
    Row(7, pair(10, 5), [cpu("w", "15")], ceiling=15),
    Row(8, pair((10, 2, None), 5), [cpu("w", "13")], EXCEEDS, ceiling=12),
    Row(9, pair(10, (5, None, 3)), [cpu("w", "13")], ceiling=13),
    Row(10, pair((10, None, 0), 5), [cpu("w", "15")], ceiling=15),
    Row(11, tree(), [cpu("w", "38")], ceiling=38),
    Row(12, tree(), [cpu("w", "39")], EXCEEDS, ceiling=38, short={("f1", "cpu"): 1000}),
    Row(13, pair(10, 5, stop_policy="Hold"), [cpu("w", "15")], ceiling=15),
    Row(
        14,
        [queue("a", quotas(f1=10), cohort="c"), Cohort("c", groups=(quotas(f2=100),))],
        [cpu("w", "11")],
        EXCEEDS,
        ceiling=10,
    ),
    Row(15, TEN, [pods("w", 1, cpu="1", memory="1Gi")], "NeverUndeclaredResource", short={("", "memory"): 2**30}),
    Row(16, TEN, [pods("w", 1, cpu="1", memory="0")], flavors=("f1",)),
    Row(17, TEN, [pods("w", 100)], flavors=("",)),
    Row(
        18,
        [queue("a", quotas(f1={"cpu": 1000, "pods": 5}))],
        [cpu("w", "100m", count=6)],
        EXCEEDS,
        short={("f1", "pods"): 1},
    ),
    Row(19, [*TEN, LABELLED], [cpu("w", "1", {"nodeSelector": {"type": "b"}})], "NeverNoFlavor"),
    Row(20, [*TEN, LABELLED], [cpu("w", "1", {"nodeSelector": {"zone": "b"}})]),
    Row(21, [*TEN, ResourceFlavor("f1", taints=(REPELLED,))], [cpu("w", "1")], "NeverNoFlavor"),
    Row(22, [*TEN, ResourceFlavor("f1", taints=({**REPELLED, "effect": "PreferNoSchedule"},))], [cpu("w", "1")]),
    Row(23, [*TEN, ResourceFlavor("f1", taints=(REPELLED,), tolerations=(SPARED,))], [cpu("w", "1")]),
    Row(24, [queue("a", quotas(f1={"cpu": 100, "gpu": 0}, f2={"cpu": 1, "gpu": 8}))], [accelerated(2)], EXCEEDS),
    Row(25, [queue("a", quotas(f1=100), quotas(f2={"gpu": 8}))], [accelerated(2)], flavors=("f1",)),
    Row(
        26,
        [queue("a", quotas(f1={"gpu": 0}), cohort="c"), queue("b", quotas(f1={"gpu": 8}), cohort="c")],
        [pods("w", 8, gpu="1")],
        ceiling=8,
    ),
    Row(
        27,
        [*TWO, ResourceFlavor("f1", topology="t"), ResourceFlavor("f2", topology="t")],
        [grouped(cpu("v", "6"), "g"), grouped(cpu("w", "6"), "g")],
        EXCEEDS,
    ),
    Row(28, [queue("a", quotas(f1=1))], [cpu("w", "333.5m", count=3)], EXCEEDS, short={("f1", "cpu"): 2}),
    Row(29, [*TEN, holder("u", "a", {("f1", "cpu"): 8000})], [cpu("w", "10")], "WaitsForQuota", flavors=("f1",)),
]
NEVER = {2, 3, 8, 12, 14, 15, 18, 19, 21, 24, 27, 28}


def test_all_rows_are_here_and_exactly_these_are_refused() -> None:
    assert [row.number for row in ROWS] == list(range(1, 30))
    assert {row.number for row in ROWS if row.never} == NEVER


@each("row", ROWS, ids=lambda row: str(row.number))
def test_the_verdict_for_a_gang_agrees_with_kueue(row: Row) -> None:
    report = ask(known(*row.held), *row.gang)
    expected = "never" if row.never else "not-now" if row.says == "WaitsForQuota" else "fits"
    assert (report["verdict"], report["reason"]) == (expected, row.says), report["message"]
    assert report["unknown"] == []
    assert report["reorder"] == (row.says == REORDERED)
    if row.flavors is not None:
        assert tuple(taken_flavors(report)) == row.flavors
    if row.never:
        assert all(podset["flavors"] == {} for podset in report["podSets"])
        assert 'by ClusterQueue "a"' in report["message"]
    if row.ceiling is not None:
        unit = UNITS.get(report["limits"][0]["resource"], 1)
        assert [limit["maximum"] for limit in report["limits"]] == [row.ceiling * unit]
    short = {(limit["flavor"], limit["resource"]): limit["missing"] for limit in report["limits"] if limit["missing"]}
    assert row.short.items() <= short.items()


def test_a_podset_can_be_split_over_flavors_of_two_resource_groups() -> None:
    report = ask(known(*ROWS[24].held), *ROWS[24].gang)
    assert [podset["flavors"] for podset in report["podSets"]] == [{"cpu": "f1", "gpu": "f2"}]
