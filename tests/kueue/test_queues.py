"""The order of the waiting Workloads of a ClusterQueue."""

from __future__ import annotations

import itertools

from gangctl.kueue.configuration import Ordering
from gangctl.kueue.objects import ClusterQueue, QueuedWorkload
from gangctl.kueue.queues import head_of, in_order, is_queued
from tests.kueue.workloads import ago, no, queued, yes

BEST = ClusterQueue(name="q", strategy="BestEffortFIFO")
STRICT = ClusterQueue(name="q", strategy="StrictFIFO")
CLAIMS = "KueueDRAIntegration feature does not support use of resource claims"
NO_FIT = no("Pending", "couldn't assign flavors to pod set w: insufficient unused quota")


def names(workloads: list[QueuedWorkload]) -> list[str]:
    return [workload.name for workload in workloads]


def test_priority_comes_before_age_and_age_before_the_uid() -> None:
    line = [
        queued("high", priority=10, created=ago(seconds=1)),
        queued("old", created=ago(hours=9)),
        queued("b", created=ago(hours=1)),
        queued("c", created=ago(hours=1)),
        queued("young", created=ago(minutes=1)),
        queued("low", priority=-1, created=ago(days=9)),
    ]
    for shuffled in itertools.permutations(line):
        for queue in (BEST, STRICT):
            assert names(in_order(shuffled, queue)) == names(line)


def test_evictions_for_readiness_or_by_checks_move_a_workload_to_the_end() -> None:
    first = queued("first", created=ago(hours=2), Evicted=yes("PodsReadyTimeout", since=ago(minutes=3)))
    checked = queued("checked", created=ago(hours=2), Evicted=yes("AdmissionCheck", since=ago(minutes=2)))
    second = queued("second", created=ago(hours=1))
    preempted = queued("preempted", created=ago(hours=3), Evicted=yes("Preempted", since=ago(minutes=1)))
    everybody = [first, checked, second, preempted]
    assert names(in_order(everybody, BEST)) == ["preempted", "second", "first", "checked"]
    # With requeuingStrategy.timestamp Creation, readiness does not.
    assert names(in_order(everybody, BEST, Ordering(by_creation=True))) == ["preempted", "first", "second", "checked"]
    assert names(in_order([first, second], STRICT, Ordering(by_creation=True))) == ["first", "second"]


def test_an_ended_eviction_does_not_count() -> None:
    again = queued("again", created=ago(hours=2), Evicted=no("QuotaReserved", since=ago(minutes=3)))
    assert names(in_order([queued("other"), again], BEST)) == ["again", "other"]


def test_only_waiting_workloads_are_in_the_order() -> None:
    away = [
        queued(QuotaReserved=yes()),
        queued(QuotaReserved=yes(), Admitted=yes()),
        queued(QuotaReserved=yes(), Evicted=yes("Preempted")),
        queued(Finished=yes("Succeeded")),
        queued(active=False),
        queued(deleting=True),
        queued(QuotaReserved=no("AdmissionGated")),
        queued(QuotaReserved=no("OnHold")),
        queued(WaitingForReplacementPods=yes()),
        queued(has_variants=True),
        queued(QuotaReserved=no("Inadmissible", CLAIMS), Requeued=no("Inadmissible")),
        queued(QuotaReserved=no("Misconfigured", CLAIMS), Requeued=no("Inadmissible")),
    ]
    assert not [workload for workload in away if is_queued(workload)]
    assert in_order(away, BEST) == []
    for waiting in (queued(), queued(QuotaReserved=NO_FIT), queued(QuotaReserved=no("Inadmissible", "LocalQueue x"))):
        assert is_queued(waiting)


def test_a_preempting_workload_stays_at_the_head_unless_the_queue_is_strict() -> None:
    message = "couldn't assign flavors to pod set w. Pending the preemption of 2 workload(s)"
    for reason in ("Pending", "WaitingForPreemptedWorkloads"):
        preemptor = queued("preemptor", created=ago(minutes=1), QuotaReserved=no(reason, message))
        other = queued("other", priority=5, created=ago(hours=1))
        assert names(in_order([other, preemptor], BEST)) == ["preemptor", "other"]
        assert names(in_order([other, preemptor], STRICT)) == ["other", "preemptor"]


def test_a_workload_that_does_not_fit_is_the_head_if_the_queue_is_strict() -> None:
    stuck = queued("stuck", created=ago(hours=4), QuotaReserved=NO_FIT)
    new = queued("new", created=ago(hours=1))
    unseen = queued("unseen", created=ago(hours=2), QuotaReserved=no("PendingEvaluation"))
    strict = in_order([stuck, new, unseen], STRICT)
    assert head_of(strict, STRICT) is stuck
    assert head_of(strict, BEST) is None


def test_a_strict_queue_skips_workloads_in_backoff_or_of_other_namespaces() -> None:
    late = queued("late", priority=3, requeue_at=ago(seconds=-9), Requeued=no("AdmissionCheck"))
    message = "workload namespace doesn't match ClusterQueue selector"
    foreign = [
        queued(f"foreign-{reason}", priority=2, QuotaReserved=no(reason, message))
        for reason in ("Pending", "Misconfigured")
    ]
    line = in_order([queued("next"), late, *foreign], STRICT)
    assert names(line)[0] == "late"
    head = head_of(line, STRICT)
    assert head is not None
    assert head.name == "next"
    assert head_of([], STRICT) is None


def test_a_strict_queue_skips_what_kueue_has_not_queued_again() -> None:
    """Whatever the reason is, Kueue tries it only once the condition is True."""
    for reason in ("Inadmissible", "ClusterQueueStopped", "LocalQueueStopped", "NewInKueue"):
        first = queued("first", priority=9, QuotaReserved=NO_FIT, Requeued=no(reason))
        line = in_order([first, queued("next")], STRICT)
        assert getattr(head_of(line, STRICT), "name", "") == "next", reason
        again = queued("first", priority=9, QuotaReserved=NO_FIT, Requeued=yes(reason))
        assert head_of(in_order([again, queued("next")], STRICT), STRICT) is again


def test_a_workload_with_an_invalid_time_comes_last() -> None:
    assert names(in_order([queued("x", created="soon"), queued("y")], BEST)) == ["y", "x"]


def test_without_priority_sorting_what_was_preempted_by_a_borrower_comes_after_it() -> None:
    reclaimed = {"Preempted": yes("InCohortReclaimWhileBorrowing", since=ago(minutes=1)), "Evicted": yes("Preempted")}
    line = [queued("first", created=ago(hours=3), **reclaimed), queued("second", created=ago(hours=1))]
    assert names(in_order(line, BEST)) == ["first", "second"]
    assert names(in_order(line, BEST, Ordering(by_priority=False))) == ["second", "first"]
    other = queued("first", created=ago(hours=3), Preempted=yes("InClusterQueue"), Evicted=yes("Preempted"))
    assert names(in_order([other, line[1]], BEST, Ordering(by_priority=False))) == ["first", "second"]
