"""A gang that never fits by gangctl is not admitted by a real Kueue: random quotas, and a gang alone in each."""

from __future__ import annotations

import sys
from collections import Counter

import pytest

from gangctl.fit.report import FitReport
from gangctl.fit.verdict import FitRequest, fit
from tests.controlplane.api import path_of
from tests.controlplane.plane import ControlPlane
from tests.fit.trees import tree
from tests.live.accounts import Accounts
from tests.live.cluster import JOBSETS
from tests.live.quotatrees import CHECK, NAMESPACE, all_of, decided, install, snapshot_of

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.timeout(1800),
    pytest.mark.full("a search; that what is told is what Kueue does is shown in test_kueue_cli_live"),
]

TREES = 200
SEED = 20_260_300
NEVER = {"ExceedsMaxQuota", "NoMatchingFlavor", "Misconfigured"}


@pytest.mark.parametrize(
    "observed",
    [
        pytest.param(False, marks=pytest.mark.xdist_group("never-older"), id="older"),
        pytest.param(True, marks=pytest.mark.xdist_group("never-newer"), id="newer"),
    ],
)
async def test_kueue_never_admits_a_gang_that_never_fits(observed: bool) -> None:
    trees = [tree(SEED + index, check=CHECK) for index in range(TREES)]
    gates = {"UnadmittedWorkloadsObservability": observed}
    beside = ("jobset", "kueue")
    async with ControlPlane.start("1.37", beside, scheduler=False, kueue_gates=gates, kueue_metrics=True) as plane:
        accounts = await Accounts.of(plane)
        await install(plane, trees, accounts)
        knowledge = await snapshot_of(plane)
        jobsets = path_of(JOBSETS, "jobsets", namespace=NAMESPACE)
        await all_of(plane.api.create(jobsets, each.jobset) for each in trees)
        workloads = await decided(plane, accounts, trees)
        created = {raw["metadata"]["name"]: raw for raw in await plane.api.list(jobsets)}
    reported: dict[str, FitReport] = {}
    reserved: dict[str, bool] = {}
    reasons: dict[str, str] = {}
    for each in trees:
        raw = created[each.name]
        workload = workloads[raw["metadata"]["uid"]]
        reported[each.name] = fit(FitRequest(raw, NAMESPACE, {}, each.name, new=False), knowledge)
        reserved[each.name] = workload.holds("QuotaReserved")
        reasons[each.name] = workload.conditions["QuotaReserved"].reason
    count = Counter((report["reason"], reserved[name]) for name, report in reported.items())
    refused = [name for name, has in reserved.items() if not has]
    never = [name for name, report in reported.items() if report["verdict"] == "never"]
    lines = [
        f"seeds {SEED} to {SEED + TREES - 1}: Kueue gives quota to {TREES - len(refused)} of {TREES}",
        f"of the {len(refused)} it leaves waiting, gangctl says never of {len(set(never) & set(refused))}",
        *(f"  {why:24} {'quota' if has else 'waits':6} {number}" for (why, has), number in sorted(count.items())),
    ]
    sys.stdout.write("\n" + "\n".join(lines) + "\n")
    wrong = {name: reported[name]["message"] for name in never if reserved[name]}
    assert wrong == {}, "refused what Kueue admits"
    missed = {
        name: (reasons[name], reported[name]["message"]) for name in refused if reported[name]["verdict"] == "fits"
    }
    assert missed == {}, "promised what Kueue does not give"
    assert len(never) > TREES / 5, "the trees are too large to say anything"
    assert TREES - len(refused) > TREES / 5, "the trees are too small to say anything"
    if observed:
        assert {reasons[name] for name in never} <= NEVER
