"""Stuck workloads are reported with evidence and remedy; those that only wait are not."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gangctl.gang.reasons import Reason
from gangctl.kueue.amounts import moment
from gangctl.kueue.blocked import (
    JOBSET_FRAMEWORK,
    Blockage,
    Blocked,
    JobFacts,
    ReadyTimeouts,
    Stuck,
    stuck_at,
    stuck_workload,
    without_workload,
)
from gangctl.kueue.objects import CheckState, ClusterQueue, Condition, QueuedWorkload
from gangctl.kueue.queues import find_head
from tests.kueue.workloads import NOW, ago, no, queued, yes
from tests.rows import each

GONE = JobFacts(pods=0)
HOUR = timedelta(hours=1)


def found(workload: QueuedWorkload, owner: JobFacts = GONE, **given: Any) -> Stuck | None:
    return stuck_workload(workload, owner, NOW, **given)


def minutes(start: int, recovery: int | None = None) -> ReadyTimeouts:
    return ReadyTimeouts(timedelta(minutes=start), timedelta(minutes=start if recovery is None else recovery))


def holding(**conditions: Condition) -> QueuedWorkload:
    return queued(QuotaReserved=yes("QuotaReserved", since=ago(hours=1)), **conditions)


def named(stuck: Stuck | None, reason: Reason, *words: str) -> None:
    assert stuck is not None
    assert stuck.reason is reason
    assert stuck.evidence
    assert stuck.remedy
    for word in words:
        assert word in stuck.message


@each(
    "workload",
    [
        queued(),
        queued(QuotaReserved=no("Pending", "insufficient unused quota")),
        queued(QuotaReserved=no("ExceedsMaxQuota", "more than maximum capacity")),
        queued(QuotaReserved=no("AdmissionGated")),
        queued(QuotaReserved=no("Pending"), Evicted=yes("Preempted"), Requeued=yes("Preempted")),
        holding(),
        holding(Admitted=yes()),
        queued(Admitted=yes()),
        queued(active=False),
        queued(active=False, QuotaReserved=yes(since=ago(hours=1))),
        queued(active=False, QuotaReserved=yes(since=ago(hours=1)), Evicted=no(since=ago(hours=1))),
        queued(active=False, Evicted=yes("Deactivated")),
        replace(holding(Evicted=yes("Deactivated", since=ago(hours=1))), active=False),
        queued(Finished=yes("Succeeded")),
        queued(Finished=yes("Failed")),
    ],
)
def test_waiting_running_and_deactivated_workloads_are_not_stuck(workload: QueuedWorkload) -> None:
    assert found(workload) is None


def test_an_evicted_workload_without_pods_that_keeps_its_quota_is_stuck() -> None:
    evicted = holding(Admitted=yes(), Evicted=yes("Preempted", since=ago(minutes=6)))
    named(found(evicted), Reason.EVICTED_HOLDS_QUOTA, "evicted 6m ago", "14811", "delete its Workload")
    assert found(evicted, JobFacts(pods=1)) is None, "its pods are still there"
    assert found(evicted, JobFacts(pods=None)) is None, "its pods are not known"
    just_now = holding(Admitted=yes(), Evicted=yes("Preempted", since=ago(minutes=4)))
    assert found(just_now) is None


def test_a_workload_that_keeps_its_quota_after_its_job_is_stuck() -> None:
    done = JobFacts(finished=True, pods=0)
    for workload in (holding(), holding(Admitted=yes()), holding(Admitted=yes(), Evicted=yes("Preempted"))):
        named(found(workload, done), Reason.FINISHED_HOLDS_QUOTA, "its JobSet has finished")
        assert found(workload, JobFacts(finished=True, pods=2)) is None
    just_now = queued(QuotaReserved=yes("QuotaReserved", since=ago(minutes=4)))
    assert found(just_now, done) is None


def test_unready_pods_are_reported_before_kueue_evicts_them() -> None:
    waiting = holding(Admitted=yes(since=ago(minutes=20)), PodsReady=no("WaitForStart", since=ago(hours=9)))
    stuck = found(waiting, JobFacts(pods=4), timeouts=minutes(30))
    named(stuck, Reason.PODS_NOT_READY, "not all ready after 20m (WaitForStart)", "evicts it in 10m")
    named(found(waiting, timeouts=minutes(20)), Reason.PODS_NOT_READY, "evicts it now")
    assert found(waiting, timeouts=minutes(41, 1)) is None, "there is time"
    assert found(waiting, timeouts=None) is None
    lost = holding(Admitted=yes(since=ago(days=2)), PodsReady=no("WaitForRecovery", since=ago(minutes=20)))
    named(found(lost, timeouts=minutes(30)), Reason.PODS_NOT_READY, "after 20m (WaitForRecovery)", "evicts it in 10m")
    named(found(lost, timeouts=minutes(120, 30)), Reason.PODS_NOT_READY, "evicts it in 10m")
    assert found(lost, timeouts=minutes(30, 0)) is None, "it never does"
    ready = holding(Admitted=yes(since=ago(days=2)), PodsReady=yes("Started"))
    assert found(ready, timeouts=minutes(30)) is None


STARTING = holding(Admitted=yes(since=ago(minutes=20)), PodsReady=no("WaitForStart"))
LOST = holding(Admitted=yes(since=ago(days=2)), PodsReady=no("WaitForRecovery", since=ago(minutes=9)))
EVICTED = holding(Admitted=yes(), Evicted=yes("Preempted", since=ago(minutes=4)))


@each(
    ("workload", "owner", "at"),
    [
        (STARTING, JobFacts(pods=4), ago(minutes=-10)),
        (LOST, JobFacts(pods=4), ago(minutes=4)),
        (EVICTED, GONE, ago(minutes=-1)),
        (EVICTED, JobFacts(pods=1), None),
        (holding(Admitted=yes(), Evicted=yes("Preempted", since="9999-12-31T23:59:59Z")), GONE, None),
        (holding(Admitted=yes(since="0001-01-01T00:00:00+05:00"), PodsReady=no("WaitForStart")), GONE, None),
        (holding(Admitted=yes(), PodsReady=yes("Started")), JobFacts(pods=4), None),
        (queued(QuotaReserved=no("Pending")), GONE, None),
    ],
)
def test_it_is_known_when_time_alone_makes_a_workload_stuck(
    workload: QueuedWorkload, owner: JobFacts, at: str | None
) -> None:
    due, timeouts = moment(at or ""), minutes(60, 10)
    assert stuck_at(workload, owner, timeouts) == due
    if due is not None:
        seen = [stuck_workload(workload, owner, due + timedelta(seconds=by), timeouts=timeouts) for by in (-1, 0)]
        assert [stuck is not None for stuck in seen] == [False, True]


def test_an_eviction_because_of_unready_pods_is_reported() -> None:
    evicted = queued(
        QuotaReserved=no("Pending"),
        Evicted=yes("PodsReadyTimeout"),
        Requeued=no("PodsReadyTimeout"),
        requeue_at=ago(seconds=-90),
        requeue_count=3,
    )
    named(found(evicted), Reason.EVICTED_AS_NOT_READY, "3 times", "tried again in 1m30s", "dependsOn")
    named(found(replace(evicted, requeue_count=1)), Reason.EVICTED_AS_NOT_READY, "evicted it once because")


KEPT: list[tuple[QueuedWorkload, JobFacts, str]] = [
    (holding(Admitted=yes(), Evicted=yes("Preempted", since=ago(minutes=6))), GONE, "evicted at 2026-03-01T11:54:00Z"),
    (
        holding(Admitted=yes(since=ago(minutes=20)), PodsReady=no("WaitForStart")),
        JobFacts(pods=4),
        "not all ready since 2026-03-01T11:40:00Z (WaitForStart), and Kueue evicts it at 2026-03-01T12:10:00Z",
    ),
    (
        queued(QuotaReserved=no("Pending"), Evicted=yes("PodsReadyTimeout"), requeue_at=ago(seconds=-90)),
        GONE,
        "tried again at 2026-03-01T12:01:30Z",
    ),
]


@each(("workload", "owner", "words"), KEPT)
def test_a_stored_message_has_timestamps_and_does_not_change(
    workload: QueuedWorkload, owner: JobFacts, words: str
) -> None:
    texts = {
        stuck.message
        for hours in (0, 2, 48)
        for stuck in [stuck_workload(workload, owner, NOW + hours * HOUR, timeouts=minutes(30), kept=True)]
        if stuck is not None
    }
    assert len(texts) == 1
    assert words in texts.pop()


@pytest.mark.parametrize("state", ["Retry", "Rejected"])
def test_a_failed_check_without_quota_is_stuck(state: str) -> None:
    checks = (CheckState("good", "Ready"), CheckState("bad", state))
    wedged = queued(checks=checks, QuotaReserved=no("Pending", "The workload has failed admission checks"))
    named(found(wedged), Reason.FAILED_CHECK_WITHOUT_QUOTA, f"bad ({state})")
    backing_off = queued(checks=checks, requeue_at=ago(seconds=-9), Requeued=no("AdmissionCheck"))
    assert found(backing_off) is None, "Kueue resets it in time"
    assert found(holding()) is None


def test_a_stopped_queue_is_reported_for_waiting_workloads_only() -> None:
    closed = Blocked(Blockage.CLUSTER_QUEUE_STOPPED, 'ClusterQueue "q" is stopped')
    named(found(queued(), blocked=closed), Reason.QUEUE_BLOCKED, 'ClusterQueue "q" is stopped')
    assert found(holding(Admitted=yes()), blocked=closed) is None


def test_a_job_that_failed_to_start_is_reported() -> None:
    conflict = queued(Finished=yes("FailedToStart", 'conflict for nodeSelector: conflict for key "type"'))
    named(found(conflict), Reason.FAILED_TO_START, 'conflict for key "type"', "create it anew")
    named(found(queued(Finished=yes("FailedToStart"))), Reason.FAILED_TO_START, "does not say why")


def test_a_workload_deactivated_by_kueue_is_stuck() -> None:
    rejected = queued(active=False, Evicted=yes("DeactivatedDueToAdmissionCheck", "check a said no"))
    ending = replace(rejected, conditions={**rejected.conditions, "QuotaReserved": yes(since=ago(hours=1))})
    words = "an admission check that rejected it: check a said no", "spec.active"
    for workload in (rejected, ending):
        named(found(workload), Reason.DEACTIVATED, *words)


STRICT = ClusterQueue(name="q", strategy="StrictFIFO")
HEAD = queued("head", created=ago(hours=5), QuotaReserved=no("Pending", "maximum capacity", since=ago(hours=4)))


def effect(
    *workloads: QueuedWorkload,
    queue: ClusterQueue = STRICT,
    reader: str | None = None,
    impossible: bool = False,
    kept: bool = False,
) -> Stuck | None:
    head = find_head(queue, workloads, NOW)
    return None if head is None else head.effect(reader, impossible=impossible, kept=kept)


def test_the_head_of_a_strict_queue_that_does_not_fit_is_reported() -> None:
    line = queued("second"), HEAD, queued("third")
    stuck = effect(*line)
    named(stuck, Reason.HEAD_BLOCKS_QUEUE, '"t/head" does not fit now', "for 4h", "2 behind it wait")
    stuck = effect(*line, impossible=True)
    named(stuck, Reason.HEAD_BLOCKS_QUEUE, '"t/head" can never fit', "delete or shrink it")
    named(effect(*line, kept=True), Reason.HEAD_BLOCKS_QUEUE, "since 2026-03-01T08:00:00Z; 2 behind")
    named(effect(*line, reader="t"), Reason.HEAD_BLOCKS_QUEUE, '"t/head" does not fit now')
    unnamed = effect(*line, impossible=True, reader="u")
    named(unnamed, Reason.HEAD_BLOCKS_QUEUE, '"another namespace\'s workload" can never fit')
    assert "t/head" not in str(unnamed)
    assert effect(*line, queue=ClusterQueue(name="q")) is None, "others pass in BestEffortFIFO"


def test_a_head_that_kueue_refuses_as_it_is_does_not_go_by_itself() -> None:
    refusal = no("Pending", "resources didn't satisfy LimitRange constraints: x")
    stuck = effect(replace(HEAD, conditions={"QuotaReserved": refusal}), queued("second"))
    named(stuck, Reason.HEAD_BLOCKS_QUEUE, "is refused by Kueue as it is")
    assert stuck is not None
    assert not stuck.waits


def test_a_head_without_followers_or_a_first_try_is_not_reported() -> None:
    assert effect() is None
    assert effect(HEAD) is None
    fresh = replace(HEAD, conditions={"QuotaReserved": no("PendingEvaluation", "not evaluated yet")})
    assert effect(fresh, queued("second")) is None
    failed = effect(replace(fresh, checks=(CheckState("nodes", "Retry"),)), queued("second"))
    named(failed, Reason.HEAD_BLOCKS_QUEUE, "is passed over because of checks", "nodes (Retry)", "delete the Workload")
    assert failed is not None
    assert not failed.waits
    named(effect(HEAD, impossible=True), Reason.HEAD_BLOCKS_QUEUE, "0 behind it")
    assert effect(queued("a", created=ago(hours=9)), queued("b")) is None


@each(
    ("workload", "reason"),
    [
        (queued(QuotaReserved=no("Pending")), Reason.PRIORITY_CLASS_MISSING),
        (queued(priority_class="low", QuotaReserved=yes(), Admitted=yes()), Reason.PRIORITY_CLASS_MISSING),
        (
            holding(Admitted=yes(), Evicted=yes("Preempted", since=ago(minutes=6))),
            Reason.EVICTED_HOLDS_QUOTA,
        ),
        (queued(priority_class="high", QuotaReserved=no("Pending")), None),
        (queued(active=False, priority_class="low"), None),
        (queued(priority_class="low", Finished=yes("Succeeded")), None),
    ],
)
def test_a_workload_whose_job_names_a_missing_class_is_stuck(workload: QueuedWorkload, reason: Reason | None) -> None:
    stuck = found(workload, missing_priority_class="high")
    assert (stuck.reason if stuck is not None else None) == reason


@each(
    ("given", "reason", "words"),
    [
        ({"frameworks": {"batch/job"}}, Reason.FRAMEWORK_NOT_ENABLED, "integrations.frameworks"),
        ({"managed": False}, Reason.NAMESPACE_NOT_MANAGED, "managedJobsNamespaceSelector"),
        ({"missing_priority_class": "high"}, Reason.PRIORITY_CLASS_MISSING, 'WorkloadPriorityClass "high"'),
        ({"podsets": 19, "podset_limit": 18}, Reason.TOO_MANY_PODSETS, "19 replicatedJobs"),
        ({}, Reason.WORKLOAD_MISSING, "in 1h"),
        (
            {"frameworks": {JOBSET_FRAMEWORK}, "managed": True, "podset_limit": 18},
            Reason.WORKLOAD_MISSING,
            "what it logs",
        ),
        ({"podsets": 18, "podset_limit": 18}, Reason.WORKLOAD_MISSING, "no Workload"),
    ],
)
def test_a_jobset_without_a_workload_is_reported(given: dict[str, Any], reason: Reason, words: str) -> None:
    facts = {"podsets": 2, **given}
    named(without_workload(HOUR, **facts), reason, words)
    assert without_workload(timedelta(seconds=5), **facts) is None, "Kueue needs a moment"
