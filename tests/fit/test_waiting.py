"""Gangs that can fit, but not now: who holds the quota, and what Kueue would preempt."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

import pytest

from gangctl.api.meta import QUEUE_PRIORITY
from gangctl.fit.clusterstate import Outlook
from gangctl.fit.verdict import FitRequest, fit
from gangctl.kueue.objects import CheckState, Condition, PodPriorityClass, PriorityClass, RunTime
from tests.fit.asking import CONFIGURATION, NAMESPACE, QUEUE, ask, cpu, gist, known, pods, queue, taken_flavors
from tests.fit.queues import group, holder
from tests.jobsets import jobset

GATES_OFF: Final = "featureGates: {ReclaimablePods: false}\n"


class TestNotNow:
    FULL = holder("u", "a", {("f1", "cpu"): 8000}, owner_kind="JobSet", owner_name="big", priority=3)

    def test_the_report_names_the_holders_of_the_quota(self) -> None:
        report = ask(known(queue(), self.FULL), cpu(10))
        assert gist(report) == ("not-now", "WaitsForQuota")
        assert report["holders"] == [
            {
                "name": "big",
                "namespace": "team",
                "kind": "JobSet",
                "clusterQueue": "a",
                "priority": 3,
                "resources": {"cpu": 8000},
            }
        ]
        assert report["limits"] == [
            {
                "flavor": "f1",
                "resource": "cpu",
                "requested": 10_000,
                "maximum": 10_000,
                "nominal": 10_000,
                "used": 8000,
                "free": 2000,
                "closed": 0,
                "missing": 0,
                "limit": 'nominalQuota of ClusterQueue "a"',
            }
        ]
        assert '8 cpu in flavor "f1" short now, in use by "team/big"' in report["message"]

    def test_a_deactivated_workload_holds_no_quota_while_its_pods_end(self) -> None:
        assert gist(ask(known(queue(), replace(self.FULL, active=False)), cpu(10))) == ("fits", "Fits")

    @pytest.mark.parametrize(("own", "reason"), [(3, "WaitsForQuota"), (4, "NeedsPreemption"), (None, "QueueBlocked")])
    def test_a_gang_of_higher_priority_needs_preemption(self, own: int | None, reason: str) -> None:
        classes = [] if own is None else [PriorityClass("mine", own)]
        snapshot = known(queue(within_queue="LowerPriority"), self.FULL, *classes)
        raw = jobset("js", cpu(10))
        raw["metadata"]["labels"] = {QUEUE_PRIORITY: "mine"}
        assert gist(fit(FitRequest(raw, NAMESPACE, {}, QUEUE), snapshot)) == ("not-now", reason)

    def test_reclaiming_lent_quota_needs_preemption(self) -> None:
        lent = holder("u", "b", {("f1", "cpu"): 15_000})
        members = queue(cohort="c", reclaim="Any"), queue("b", cohort="c")
        report = ask(known(*members, lent), cpu(10))
        assert gist(report) == ("not-now", "NeedsPreemption")
        assert report["preempts"] == [
            {
                "name": "w-u",
                "namespace": "team",
                "kind": "Workload",
                "clusterQueue": "b",
                "priority": 0,
                "resources": {"cpu": 15_000},
                "why": "InCohortReclamation",
            }
        ]
        assert 'Kueue would preempt "team/w-u" for it, which frees 15 cpu' in report["message"]

    def test_a_queue_that_does_not_borrow_keeps_its_workloads(self) -> None:
        members = queue(cohort="c", reclaim="Any"), queue("b", cohort="c")
        report = ask(known(*members, holder("u", "b", {("f1", "cpu"): 1000})), cpu(20))
        assert gist(report) == ("not-now", "WaitsForQuota")
        assert report["preempts"] == []
        assert [each["name"] for each in report["holders"]] == ["w-u"]

    @pytest.mark.parametrize(
        ("named", "reason"), [("high", "NeedsPreemption"), ("", "WaitsForQuota"), ("lost", "QueueBlocked")]
    )
    def test_the_priority_of_the_pods_counts_without_one_of_kueue(self, named: str, reason: str) -> None:
        snapshot = known(queue(within_queue="LowerPriority"), self.FULL, PodPriorityClass("high", 4))
        report = ask(snapshot, pods("w", 10, {"priorityClassName": named} if named else {}, cpu="1"))
        assert gist(report) == ("not-now", reason)
        assert ('PriorityClass "lost" does not exist, and without it Kueue' in report["message"]) is (named == "lost")

    def test_preemption_for_a_gang_of_unknown_priority_is_unknown(self) -> None:
        """Kueue's gate for a default class is off up to 0.19, and on since 0.20."""
        snapshot = known(queue(within_queue="LowerPriority"), self.FULL, PriorityClass("default", 9))
        report = ask(snapshot, cpu(10))
        assert gist(report) == ("not-now", "WaitsForQuota")
        assert "its priority is not known" in report["message"]

    def test_a_priority_class_that_may_be_the_default_leaves_the_priority_unknown(self) -> None:
        snapshot = known(queue(within_queue="LowerPriority"), self.FULL)
        snapshot.unread = frozenset({PodPriorityClass})
        report = ask(snapshot, cpu(10))
        assert gist(report) == ("not-now", "WaitsForQuota")
        assert "its priority is not known" in report["message"]

    def test_a_waiting_jobset_has_the_priority_of_its_workload(self) -> None:
        raw, own = jobset("js", cpu(10)), holder("own", "", {}, priority=9)
        request = FitRequest(raw, NAMESPACE, {}, QUEUE, new=False, workload=own)
        assert gist(fit(request, known(queue(within_queue="LowerPriority"), self.FULL)))[1] == "NeedsPreemption"

    @pytest.mark.parametrize(
        ("new", "gates", "reason"),
        [(False, "", "Fits"), (True, "", "NeverExceedsQuota"), (False, GATES_OFF, "NeverExceedsQuota")],
    )
    def test_jobs_that_have_succeeded_need_no_quota_after_an_eviction(self, new: bool, gates: str, reason: str) -> None:
        raw = jobset("js", {**cpu(3), "replicas": 4})
        raw["status"] = {"replicatedJobsStatus": [{"name": "w", "succeeded": 1}]}
        request = FitRequest(raw, NAMESPACE, {}, QUEUE, new=new)
        assert gist(fit(request, known(queue(), configuration=CONFIGURATION + gates)))[1] == reason

    EVICTED: Final = {
        "Evicted": Condition(status=True, reason="PodsReadyTimeout"),
        "Requeued": Condition(status=False, reason="PodsReadyTimeout"),
    }

    @pytest.mark.parametrize(
        ("fields", "reason"),
        [
            ({}, "Fits"),
            ({"active": False}, "Deactivated"),
            ({"conditions": EVICTED, "requeue_at": "2026-03-01T12:00:00Z"}, "QueueBackoff"),
            ({"conditions": {**EVICTED, "Requeued": Condition(status=True, reason="BackoffFinished")}}, "Fits"),
            ({"checks": (CheckState("budget", "Ready"), CheckState("nodes", "Retry"))}, "FailedCheckWithoutQuota"),
            ({"conditions": {"Finished": Condition(status=True, reason="FailedToStart")}}, "FailedToStart"),
        ],
    )
    def test_a_workload_that_kueue_does_not_try_does_not_fit(self, fields: dict[str, Any], reason: str) -> None:
        own = holder("own", "", {}, **{"conditions": {}, **fields})
        request = FitRequest(jobset("js", cpu(10)), NAMESPACE, {}, QUEUE, new=False, workload=own)
        report = fit(request, known(queue()))
        assert gist(report)[1] == reason
        assert ("before 2026-03-01T12:00:00Z" in report["message"]) is (reason == "QueueBackoff")

    @pytest.mark.parametrize("active", [True, False])
    def test_a_workload_that_kueue_does_not_try_has_no_start(self, active: bool) -> None:
        now = datetime(2026, 3, 1, tzinfo=UTC)
        running = {name: Condition(status=True, since=now.isoformat()) for name in ("QuotaReserved", "Admitted")}
        held = replace(self.FULL, conditions=running, run_time=RunTime(3600))
        own = holder("own", "", {}, conditions={}, active=active)
        request = FitRequest(jobset("js", cpu(10)), NAMESPACE, {}, QUEUE, workload=own, outlook=Outlook(now))
        assert (fit(request, known(queue(), held))["starts"] is not None) is active

    def test_too_many_workloads_leave_preemption_unknown(self) -> None:
        each_one = [holder(f"u{n}", "a", {("f1", "cpu"): 10}) for n in range(1000)]
        snapshot = known(queue(within_queue="Any", when_can_preempt="MayStopSearch"), *each_one)
        assert "would preempt some of the many" not in ask(snapshot, cpu(1))["message"]
        report = fit(FitRequest(jobset("js", cpu(10)), NAMESPACE, {}, QUEUE), snapshot, preemptions=100)
        assert gist(report) == ("not-now", "WaitsForQuota")
        assert "whether Kueue would preempt some of the many workloads is not known" in report["message"]

    @pytest.mark.parametrize(
        ("ready", "reason"), [(None, "WaitsForPodsReady"), (False, "WaitsForPodsReady"), (True, "Fits")]
    )
    def test_nothing_is_admitted_before_others_are_ready_if_kueue_blocks(self, ready: bool | None, reason: str) -> None:
        conditions = {"QuotaReserved": Condition(status=True)}
        conditions |= {} if ready is None else {"PodsReady": Condition(status=ready)}
        other = holder("u", "b", {("f1", "cpu"): 1000}, conditions=conditions)
        blocking = CONFIGURATION + "waitForPodsReady: {blockAdmission: true}\n"
        report = ask(known(queue(), queue("b"), other, configuration=blocking), cpu(10))
        assert gist(report)[1] == reason
        assert [each["name"] for each in report["holders"]] == (["w-u"] if reason != "Fits" else [])
        assert gist(ask(known(queue(), queue("b"), other), cpu(10))) == ("fits", "Fits")

    def test_a_gang_fits_a_second_flavor_that_is_free(self) -> None:
        flavors = (group({"f1": {"cpu": 10_000}, "f2": {"cpu": 10_000}}),)
        report = ask(known(queue(groups=flavors), self.FULL), cpu(10))
        assert gist(report) == ("fits", "Fits")
        assert taken_flavors(report) == ["f2"]

    def test_a_queue_in_debt_has_nothing_free(self) -> None:
        report = ask(known(queue(), holder("u", "a", {("f1", "cpu"): 12_000})), cpu(10))
        assert gist(report) == ("not-now", "WaitsForQuota")
        assert report["limits"][0]["free"] == 0
