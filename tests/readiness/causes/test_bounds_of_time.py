"""The second from which on a cause is late; before it, the readiness has the time of the next evaluation."""

from __future__ import annotations

from dataclasses import replace

from gangctl.gang.reasons import Reason
from gangctl.kueue.queues import QueueFacts
from gangctl.readiness.evaluate import evaluate
from gangctl.readiness.result import Readiness
from tests.jobsets import jobset, rj
from tests.kueue.workloads import ago, no, queued
from tests.readiness.causes.finding import reasons
from tests.readiness.snapshots import NOW, PENDING, Context
from tests.rows import each

JS = jobset("js", rj("w", 1, 4, 4), mode="Gang")


def reported(readiness: Readiness, reason: Reason) -> list[bool]:
    """Whether each cause with this reason blocks."""
    return [cause.blocking for cause in readiness.causes if cause.reason is reason]


@each(("age", "late"), [(14, False), (15, True)])
def test_a_scheduler_is_reported_as_silent_after_15_seconds(age: int, late: bool) -> None:
    context = Context(JS)
    readiness = evaluate(context.snapshot(context.pods(PENDING, created=NOW - age)), NOW)
    assert reported(readiness, Reason.SCHEDULER_SILENT) == [late]
    assert (readiness.look_again == NOW + 1) is not late


@each(("age", "late"), [(29, False), (30, True)])
def test_a_gate_without_a_name_is_reported_after_30_seconds(age: int, late: bool) -> None:
    context = Context(JS, queue="main", suspend=True)
    workload = queued(QuotaReserved=no("AdmissionGated", since=ago(seconds=age)))
    snapshot = context.snapshot(groups={}, jobs=context.jobs(active=False), queue=QueueFacts("main", "cq", workload))
    readiness = evaluate(snapshot, NOW)
    assert reported(readiness, Reason.ADMISSION_GATED) == [late]
    assert (readiness.look_again == NOW + 1) is not late


def test_pods_of_the_last_attempt_count_for_the_minimum_if_they_name_the_group() -> None:
    """A restart has a group of its own: the scheduler waits for it while pods of the last attempt are still there."""
    context, last = Context(JS, restarts=1), Context(JS)
    pods = [*context.pods(PENDING)[:2], *last.pods(PENDING)[2:]]
    assert len({pod.group for pod in pods}) == 2
    assert reasons(context.snapshot(pods)) == [Reason.RESTARTING]
    same = [replace(pod, group=pods[0].group) for pod in pods]
    assert Reason.SCHEDULER_SILENT in reasons(context.snapshot(same))
    assert Reason.SCHEDULER_SILENT not in reasons(context.snapshot(same[:3]))


def test_terminating_pods_count_for_the_minimum() -> None:
    context = Context(JS)
    pods = [*context.pods(PENDING)[:2], *context.pods(PENDING, deleting=True)[2:]]
    assert Reason.SCHEDULER_SILENT in reasons(context.snapshot(pods))
    assert Reason.SCHEDULER_SILENT not in reasons(context.snapshot(pods[:3]))


def test_without_the_scheduling_api_a_silent_scheduler_is_not_reported() -> None:
    context = Context(JS, None)
    assert Reason.SCHEDULER_SILENT not in reasons(context.snapshot(context.pods(PENDING)))
