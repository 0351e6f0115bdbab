"""What is not known of quota whose use is known, where the Workloads that use it may not be read."""

from __future__ import annotations

from typing import Any

from gangctl.fit.clusterstate import UNREAD
from gangctl.fit.report import FitReport
from tests.fit.asking import CONFIGURATION, ask, cpu, known, queue
from tests.fit.queues import group, holder
from tests.rows import each

BLOCKING = CONFIGURATION + "waitForPodsReady: {blockAdmission: true}\n"
EARLY = {"when_can_preempt": "MayStopSearch"}
ONE = (group({"f1": {"cpu": 20_000}}),)
TWO = (group({"f1": {"cpu": 10_000}, "f2": {"cpu": 10_000}}),)


def answer(count: int, *held: Any, used: int = 0, configuration: str = CONFIGURATION, **fields: Any) -> FitReport:
    """On so many CPUs, where Workloads that may not be read use some of the first flavor."""
    snapshot = known(queue(**fields), *held, configuration=configuration)
    snapshot.quotas.use("a", {("f1", "cpu"): used * 1000}, 1)
    snapshot.workloads_known = False
    return ask(snapshot, cpu(count))


@each(
    ("fields", "reason"),
    [
        ({}, "Fits"),
        ({"within_queue": "Any"}, "Fits"),
        (EARLY, "Fits"),
        ({"within_queue": "Any", **EARLY}, "MayFit"),
        ({"reclaim": "Any", **EARLY}, "MayFit"),
        ({"within_queue": "Any", "prefers_preemption": True}, "MayFit"),
        ({"within_queue": "Any", **EARLY, "groups": ONE}, "Fits"),
    ],
)
def test_kueue_may_preempt_in_a_flavor_before_one_that_is_free(fields: dict[str, Any], reason: str) -> None:
    report = answer(2, used=9, **{"groups": TWO, **fields})
    assert report["reason"] == reason, report["message"]
    doubt = f"which flavors Kueue gives it (flavorFungibility): {UNREAD}"
    assert report["unknown"] == [doubt] * (reason == "MayFit")


def test_nothing_is_preempted_while_others_might_be_before_it() -> None:
    own = holder("u", "a", {("f1", "cpu"): 5000}, priority=-1, namespace="t")
    report = answer(6, own, used=5, within_queue="LowerPriority")
    assert (report["verdict"], report["reason"], report["preempts"]) == ("not-now", "WaitsForQuota", [])
    (doubt,) = report["unknown"]
    assert doubt == f"who else holds what it waits for, and whether Kueue would preempt some of them: {UNREAD}"
    assert report["message"].endswith(f"not known: {doubt}.")


def test_others_may_not_be_ready() -> None:
    report = answer(1, configuration=BLOCKING)
    assert report["reason"] == "MayFit"
    assert report["unknown"] == [f"for whose pods Kueue waits first (waitForPodsReady.blockAdmission): {UNREAD}"]
