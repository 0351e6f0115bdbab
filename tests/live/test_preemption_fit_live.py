"""What a fit says of preemption is what a real Kueue does: random quotas with running workloads, and a gang in each."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass

import pytest

from gangctl.fit.report import FitReport
from gangctl.fit.verdict import FitRequest, fit
from gangctl.kueue.objects import QueuedWorkload
from gangctl.kueue.reading import read_workload
from tests.controlplane.api import path_of
from tests.controlplane.plane import ControlPlane
from tests.fit.trees import busy_tree
from tests.live.accounts import Accounts
from tests.live.cluster import JOBSETS
from tests.live.quotatrees import CHECK, NAMESPACE, all_of, decided, install, path, run, snapshot_of

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.timeout(1800),
    pytest.mark.full("a search; single cases of preemption are in tests/fit/test_preemption.py"),
]

TREES = 200
SEED = 20_261_125
ROOM = {"fits": "quota", "NeedsPreemption": "preempts"}


@dataclass(frozen=True)
class Outcome:
    """What a fit says, or what happened: quota, preempts or waits, and the names of the preempted workloads."""

    what: str
    preempted: frozenset[str] = frozenset()


def said(report: FitReport) -> Outcome:
    what = ROOM.get(report["reason"]) or ROOM.get(report["verdict"], "waits")
    return Outcome(what, frozenset(each["name"] for each in report["preempts"]))


def happened(own: QueuedWorkload, others: list[QueuedWorkload]) -> Outcome:
    if own.holds("QuotaReserved"):
        return Outcome("quota")
    evicted = frozenset(each.name for each in others if each.holds("Evicted"))
    return Outcome("preempts" if evicted else "waits", evicted)


@pytest.mark.parametrize(
    "fair",
    [
        pytest.param(False, marks=pytest.mark.xdist_group("preemption"), id="classical"),
        pytest.param(True, marks=pytest.mark.xdist_group("fair-sharing"), id="fair"),
    ],
)
async def test_kueue_preempts_the_workloads_that_a_fit_names(fair: bool) -> None:
    trees = [busy_tree(SEED + index, check=CHECK, fair=fair) for index in range(TREES)]
    async with ControlPlane.start(
        "1.37", ("jobset", "kueue"), scheduler=False, kueue_metrics=True, kueue_fair_sharing=fair
    ) as plane:
        accounts = await Accounts.of(plane)
        await install(plane, trees, accounts)
        await run(plane, trees, accounts)
        knowledge = await snapshot_of(plane)
        reported = {each.name: fit(FitRequest(each.jobset, NAMESPACE, {}, each.name), knowledge) for each in trees}
        jobsets = path_of(JOBSETS, "jobsets", namespace=NAMESPACE)
        await all_of(plane.api.create(jobsets, each.jobset) for each in trees)
        workloads = await decided(plane, accounts, trees)
        uids = {raw["metadata"]["name"]: raw["metadata"]["uid"] for raw in await plane.api.list(jobsets)}
        others = [read_workload(raw) for raw in await plane.api.list(path("workloads", namespace=NAMESPACE))]
    differs = {}
    exact = 0
    count: Counter[tuple[str, str]] = Counter()
    for each in trees:
        own = workloads[uids[each.name]]
        found = happened(own, [other for other in others if other.name.startswith(f"{each.name}-r")])
        expected = said(reported[each.name])
        count[reported[each.name]["reason"], found.what] += 1
        exact += found == expected
        # No quota is released here, so Kueue decides anew, and may add others to those that are being evicted.
        if found.what != expected.what or not expected.preempted <= found.preempted:
            why = own.conditions["QuotaReserved"]
            differs[each.name] = (expected, found, reported[each.name]["message"], f"{why.reason}: {why.message}")
    lines = [
        f"seeds {SEED} to {SEED + TREES - 1}, {sum(len(tree.running) for tree in trees)} running workloads",
        f"{TREES - len(differs)} of {TREES} as predicted, {exact} of them with exactly the preempted workloads",
        *(f"  {why:24} {what:8} {number}" for (why, what), number in sorted(count.items())),
        *(f"  {name}: {each}" for name, each in differs.items()),
    ]
    sys.stdout.write("\n" + "\n".join(lines) + "\n")
    assert differs == {}
    assert exact > TREES * 0.98
    assert count["NeedsPreemption", "preempts"] > TREES / 10, "too little is preempted to say anything"
    assert count["WaitsForQuota", "waits"] > TREES / 10, "too little waits to say anything"
