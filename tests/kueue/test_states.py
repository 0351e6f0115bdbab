"""K18: a phase is the same with the older and the newer reasons of Kueue."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangctl.kueue.objects import CheckState, Condition
from gangctl.kueue.states import QueuePhase, eviction_of, phase_of, status_of
from tests.kueue.workloads import NOW, ago, no, queued, yes
from tests.rows import each

MISMATCH = "workload namespace doesn't match ClusterQueue selector"
INVALID = (
    "resources validation failed: spec.podSets[0].template.spec.containers[0]: requests must not exceed its limits"
)
NO_QUOTA = "couldn't assign flavors to pod set w: insufficient quota for cpu in flavor f"

BOTH: list[tuple[Condition, Condition, QueuePhase]] = [
    (no("Pending", NO_QUOTA), no("WaitingForQuota", NO_QUOTA), QueuePhase.PENDING),
    (no("Pending", NO_QUOTA), no("ExceedsMaxQuota", NO_QUOTA), QueuePhase.PENDING),
    (no("Pending", NO_QUOTA), no("NoMatchingFlavor", NO_QUOTA), QueuePhase.PENDING),
    (no("Pending", "Preempting"), no("WaitingForPreemptedWorkloads", "Preempting"), QueuePhase.PENDING),
    (no("Pending", "no room"), no("TopologyPlacementFailed", "no room"), QueuePhase.PENDING),
    (no("Pending", "evicted"), no("PendingEvaluation", "evicted"), QueuePhase.PENDING),
    (no("Pending", MISMATCH), no("Misconfigured", MISMATCH), QueuePhase.BLOCKED),
    (no("Pending", INVALID), no("Misconfigured", INVALID), QueuePhase.BLOCKED),
    (no("Pending", "ClusterQueue q is inactive"), no("Suspended", "ClusterQueue q is inactive"), QueuePhase.BLOCKED),
    (no("Pending", "ClusterQueue q not found"), no("Misconfigured", "ClusterQueue q not found"), QueuePhase.BLOCKED),
    *(
        (no("Inadmissible", message), no(granular, message), QueuePhase.BLOCKED)
        for granular, message in (
            ("Misconfigured", "LocalQueue main doesn't exist"),
            ("Misconfigured", "ClusterQueue q doesn't exist"),
            ("Misconfigured", "LocalQueue main is terminating or missing"),
            ("Misconfigured", "KueueDRAIntegration feature does not support use of resource claims"),
            ("Suspended", "LocalQueue main is inactive"),
            ("Suspended", "ClusterQueue q is inactive"),
            ("Suspended", "ClusterQueue q is stopped"),
        )
    ),
    (no("AdmissionGated", "by: x/y"), no("AdmissionGated", "by: x/y"), QueuePhase.GATED),
    (no("OnHold"), no("OnHold"), QueuePhase.ON_HOLD),
    (no("Waiting", "waiting for all"), no("WaitingForPodsReady", "waiting for all"), QueuePhase.WAITING_FOR_PODS_READY),
]


@each(("older", "newer", "phase"), BOTH)
def test_older_and_newer_reasons_have_the_same_phase(older: Condition, newer: Condition, phase: QueuePhase) -> None:
    for condition in (older, newer):
        status = status_of(queued(QuotaReserved=condition), NOW)
        assert status.phase is phase
        assert status.label == str(phase)
        assert (status.reason, status.message, status.since) == (condition.reason, condition.message, condition.since)


ELSEWHERE = st.fixed_dictionaries(
    {},
    optional={
        "Admitted": st.sampled_from([yes("Admitted"), no("NoReservation"), no("NoReservationUnsatisfiedChecks")]),
        "Evicted": st.sampled_from(
            [yes("Preempted"), yes("ClusterQueueStopped"), yes("Deactivated"), no("QuotaReserved")]
        ),
        "Requeued": st.sampled_from([yes("BackoffFinished"), no("PodsReadyTimeout"), no("LocalQueueStopped")]),
        "Finished": st.sampled_from([yes("Succeeded"), yes("FailedToStart")]),
        "active": st.booleans(),
        "requeue_at": st.sampled_from(["", ago(minutes=-1)]),
        "gates": st.sampled_from([(), ("x/y",)]),
    },
)


@given(st.sampled_from(BOTH), ELSEWHERE, st.sampled_from([None, True, False]))
def test_older_and_newer_reasons_agree_with_any_other_conditions(
    said: tuple[Condition, Condition, QueuePhase], elsewhere: dict[str, object], queue_open: bool | None
) -> None:
    older, newer = (
        status_of(queued(QuotaReserved=condition, **elsewhere), NOW, queue_open=queue_open) for condition in said[:2]
    )
    assert (older.phase, older.label, older.detail) == (newer.phase, newer.label, newer.detail)


@each("message", ["LocalQueue main is inactive", "ClusterQueue q doesn't exist", MISMATCH])
def test_a_resumed_queue_no_longer_blocks(message: str) -> None:
    for reason in ("Inadmissible", "Suspended", "Misconfigured", "Pending"):
        workload = queued(QuotaReserved=no(reason, message))
        assert phase_of(workload) is QueuePhase.BLOCKED
        assert phase_of(workload, queue_open=True) is QueuePhase.PENDING


def test_an_open_queue_does_not_change_a_misconfigured_workload() -> None:
    for reason in ("Pending", "Misconfigured"):
        assert phase_of(queued(QuotaReserved=no(reason, INVALID)), queue_open=True) is QueuePhase.BLOCKED


def test_a_stopped_queue_blocks_before_the_workload_has_the_condition() -> None:
    assert phase_of(queued(), queue_open=False) is QueuePhase.BLOCKED
    assert phase_of(queued(QuotaReserved=no("Pending", NO_QUOTA)), queue_open=False) is QueuePhase.BLOCKED
    admitted = queued(QuotaReserved=yes("QuotaReserved"), Admitted=yes("Admitted"))
    assert phase_of(admitted, queue_open=False) is QueuePhase.ADMITTED, "held queues do not stop what runs"


def test_a_new_workload_is_pending_since_it_was_created() -> None:
    status = status_of(queued(created=ago(seconds=3)), NOW)
    assert (status.phase, status.reason, status.message, status.detail) == (QueuePhase.PENDING, "", "", "")
    assert status.since == ago(seconds=3)
    assert status.label == "Pending"


def test_an_unknown_reason_is_reported() -> None:
    status = status_of(queued(QuotaReserved=no("WaitingForTheMoon", "it is new")), NOW)
    assert status.phase is QueuePhase.PENDING
    assert status.label == "Pending (WaitingForTheMoon)"


@pytest.mark.parametrize(
    "reason", ["UnsatisfiedChecks", "UnsatisfiedAdmissionChecks", "PendingDelayedTopologyRequests"]
)
def test_a_workload_that_waits_for_checks_holds_quota(reason: str) -> None:
    checks = (CheckState("a", "Ready"), CheckState("b", "Pending", "not yet"), CheckState("c", "Retry"))
    workload = queued(
        checks=checks,
        cluster_queue="q",
        QuotaReserved=yes("QuotaReserved", since=ago(minutes=7)),
        Admitted=no(reason, "The workload has not all checks ready", since=ago(hours=2)),
    )
    status = status_of(workload, NOW)
    assert status.phase is QueuePhase.QUOTA_RESERVED
    assert status.reason == reason
    assert status.since == ago(minutes=7), "since it has the quota"
    assert status.detail == "waits for checks b (Pending: not yet), c (Retry)"
    assert status_of(replace(workload, checks=()), NOW).detail == ""
    later = replace(workload, requeue_at=ago(seconds=-90))
    assert status_of(later, NOW).detail == f"{status.detail}; it is evicted in 1m30s"
    assert status_of(replace(later, checks=checks[:2]), NOW).detail == "waits for check b (Pending: not yet)"
    dispatched = replace(workload, checks=checks[:2], nominated=("west", "east"))
    expected = "waits for check b (Pending: not yet); it waits in the queues of worker clusters west, east"
    assert status_of(dispatched, NOW).detail == expected


def test_a_workload_with_quota_and_no_admission_condition_has_its_phase() -> None:
    status = status_of(queued(QuotaReserved=yes("QuotaReserved", "Quota reserved in q")), NOW)
    assert (status.phase, status.reason) == (QueuePhase.QUOTA_RESERVED, "QuotaReserved")


def test_unready_pods_of_an_admitted_workload_are_reported() -> None:
    running = {"QuotaReserved": yes("QuotaReserved"), "Admitted": yes("Admitted")}
    assert status_of(queued(**running), NOW).detail == ""
    assert status_of(queued(**running, PodsReady=yes("Started")), NOW).detail == ""
    status = status_of(queued(**running, PodsReady=no("WaitForRecovery")), NOW)
    assert (status.phase, status.detail) == (QueuePhase.ADMITTED, "not all of its pods are ready (WaitForRecovery)")


@each(
    ("reason", "phase"),
    [
        ("Succeeded", QueuePhase.SUCCEEDED),
        ("Failed", QueuePhase.FAILED),
        ("FailedToStart", QueuePhase.FAILED),
        ("OutOfSync", QueuePhase.FAILED),
        ("OwnerNotFound", QueuePhase.FAILED),
    ],
)
def test_finished_has_precedence_over_other_phases(reason: str, phase: QueuePhase) -> None:
    everything = {"QuotaReserved": yes(), "Admitted": yes(), "Evicted": yes("Preempted")}
    status = status_of(queued(active=False, **everything, Finished=yes(reason, "done")), NOW)
    assert (status.phase, status.reason, status.message) == (phase, reason, "done")


@each(
    ("reason", "preempted", "words"),
    [
        ("Preempted", "InClusterQueue", "to free quota for another Workload of the same ClusterQueue"),
        ("Preempted", "SomethingNew", "to free quota for another Workload"),
        ("PodsReadyTimeout", "", "because its pods were not all ready in time"),
        ("AdmissionCheck", "", "because an admission check asked to try again later"),
        ("ClusterQueueStopped", "", "because its ClusterQueue was stopped"),
        ("NodeFailures", "", "because nodes under its pods failed"),
        ("Deactivated", "", "because it was deactivated"),
        ("DeactivatedDueToAdmissionCheck", "", "because it was deactivated by an admission check that rejected it"),
        (
            "DeactivatedDueToRequeuingLimitExceeded",
            "",
            "because it was deactivated after it was queued again too often",
        ),
        ("DeactivatedDueToMaximumExecutionTimeExceeded", "", "after its maximum execution time"),
        ("DeactivatedDueToBoredom", "", "because it was deactivated (Boredom)"),
        ("Boredom", "", "(Boredom)"),
    ],
)
def test_evictions_hold_quota_until_the_pods_are_gone(reason: str, preempted: str, words: str) -> None:
    conditions = {"QuotaReserved": yes(), "Admitted": yes(), "Evicted": yes(reason, "why", ago(seconds=9))}
    if preempted:
        conditions["Preempted"] = yes(preempted)
    status = status_of(queued(active=not reason.startswith("Deactivated"), **conditions), NOW)
    assert status.phase is QueuePhase.EVICTING
    assert (status.reason, status.message, status.since) == (reason, "why", ago(seconds=9))
    assert status.detail.startswith("evicted ")
    assert words in status.detail


def test_an_eviction_is_remembered_until_quota_is_reserved_again() -> None:
    evicted = queued(QuotaReserved=no("Pending"), Evicted=yes("Preempted"), Requeued=yes("Preempted"))
    status = status_of(evicted, NOW)
    assert (status.phase, status.detail) == (QueuePhase.PENDING, "evicted to free quota for another Workload")
    assert eviction_of(queued(Evicted=no("QuotaReserved"))) is None


@pytest.mark.parametrize("reason", ["PodsReadyTimeout", "AdmissionCheck"])
def test_a_backoff_has_its_remaining_time(reason: str) -> None:
    workload = queued(
        requeue_at=ago(seconds=-250),
        requeue_count=2,
        QuotaReserved=no("Pending"),
        Evicted=yes(reason),
        Requeued=no(reason),
    )
    status = status_of(workload, NOW)
    assert status.phase is QueuePhase.BACKOFF
    assert status.detail.endswith("; is tried again in 4m10s, for the 2nd time")
    over = replace(workload, requeue_at=ago(seconds=1), requeue_count=11)
    assert status_of(over, NOW).detail.endswith("; is about to be tried again, for the 11th time")
    untimed = replace(workload, requeue_at="", requeue_count=0)
    assert status_of(untimed, NOW).detail.endswith("; is tried again")
    finished = replace(workload, requeue_at="", conditions={**workload.conditions, "Requeued": yes("BackoffFinished")})
    assert phase_of(finished) is QueuePhase.PENDING


@each("reason", ["ClusterQueueStopped", "LocalQueueStopped"])
@each("vocabulary", ["Pending", "PendingEvaluation"])
def test_a_workload_evicted_by_a_stopped_queue_is_blocked_until_it_resumes(reason: str, vocabulary: str) -> None:
    workload = queued(QuotaReserved=no(vocabulary), Evicted=yes(reason), Requeued=no(reason))
    assert phase_of(workload) is QueuePhase.BLOCKED
    assert phase_of(workload, queue_open=True) is QueuePhase.PENDING


def test_a_deactivated_workload_with_quota_is_being_evicted() -> None:
    status = status_of(queued(active=False, QuotaReserved=yes(), Admitted=yes()), NOW)
    assert (status.phase, status.reason, status.detail) == (QueuePhase.EVICTING, "", "")


def test_deactivation_is_read_from_the_spec() -> None:
    evicted = {"QuotaReserved": no("Pending"), "Evicted": yes("Deactivated", "The workload is deactivated")}
    status = status_of(queued(active=False, **evicted), NOW)
    assert (status.phase, status.reason) == (QueuePhase.DEACTIVATED, "Deactivated")
    assert phase_of(queued(active=False)) is QueuePhase.DEACTIVATED
    again = queued(QuotaReserved=no("Deactivated"), Evicted=yes("Deactivated"), Requeued=no("Deactivated"))
    assert status_of(again, NOW).label == "Pending"


def test_a_gated_workload_is_recognized_with_either_reason() -> None:
    for condition in (no("AdmissionGated", "by: x/y"), no("Inadmissible", "LocalQueue main doesn't exist")):
        workload = queued(gates=("x/y", "gangctl.dev/gang"), QuotaReserved=condition)
        status = status_of(workload, NOW)
        assert (status.phase, status.detail) == (QueuePhase.GATED, "gated by x/y, gangctl.dev/gang")
        assert phase_of(workload, queue_open=False) is QueuePhase.BLOCKED
    assert status_of(queued(QuotaReserved=no("AdmissionGated")), NOW).detail == ""


def test_every_phase_has_a_description() -> None:
    sentences = {phase.sentence for phase in QueuePhase}
    assert len(sentences) == len(QueuePhase)
    assert all(sentence.endswith(".") for sentence in sentences)


def test_a_waiting_workload_has_no_quota() -> None:
    assert {phase for phase in QueuePhase if not phase.waits} == {
        QueuePhase.QUOTA_RESERVED,
        QueuePhase.ADMITTED,
        QueuePhase.EVICTING,
        QueuePhase.DEACTIVATED,
        QueuePhase.SUCCEEDED,
        QueuePhase.FAILED,
    }
