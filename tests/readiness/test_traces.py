"""What a restarted gangctl, without earlier state, derives from pods."""

from __future__ import annotations

from dataclasses import replace

from gangctl.readiness.evaluate import evaluate
from gangctl.readiness.membership import members
from gangctl.readiness.result import GangPhase, GroupReadiness, Readiness
from tests.jobsets import jobset, rj
from tests.readiness.snapshots import NOW, PLACED_AT, READY, READY_AT, Context, changed
from tests.rows import each


def only(readiness: Readiness) -> GroupReadiness:
    (group,) = readiness.groups
    return group


@each("mode", ["Gang", None])
def test_a_pod_that_is_no_longer_ready_shows_that_the_gang_was(mode: str | None) -> None:
    """Also where pods are made one by one, of which nothing is missing."""
    context = Context(jobset("js", rj("w", 1, 4, 4), mode=mode))
    pods = changed(context.pods(READY), 0, ready=False, ready_at=READY_AT + 60)
    group = only(evaluate(context.snapshot(pods), NOW))
    assert (group.phase, group.been_ready, group.since) == (GangPhase.DEGRADED, True, READY_AT + 60)


@each(
    ("started_at", "phase"),
    [(PLACED_AT + 60, GangPhase.PARTIALLY_READY), (PLACED_AT, GangPhase.DEGRADED), (0, GangPhase.DEGRADED)],
)
def test_a_first_status_that_is_late_is_no_loss(started_at: int, phase: GangPhase) -> None:
    """By a clock that is ahead, or from a kubelet that is busy: it writes startTime and Ready at once."""
    context = Context(jobset("js", rj("w", 1, 4, 4), mode="Gang"))
    late = {"ready": False, "started_at": started_at, "ready_at": PLACED_AT + 61}
    pods = changed(context.pods(READY, ready_at=PLACED_AT + 20), 0, **late)
    assert evaluate(context.snapshot(pods), NOW).phase is phase


@each("mode", ["Gang", None])
def test_a_group_that_has_finished_was_placed_when_its_last_pod_was(mode: str | None) -> None:
    context = Context(jobset("js", rj("w", 1, 2, 2), mode=mode))
    ended = context.pods(READY, phase="Succeeded", ready=False)
    pods = changed(ended, 1, placed_at=PLACED_AT + 5)
    jobs = context.jobs(succeeded=2, complete=True, active=False)
    group = only(evaluate(context.snapshot(pods, jobs=jobs), NOW))
    assert group.placed_at == PLACED_AT + 5


def test_a_finished_gang_without_pods_has_no_time_of_placement() -> None:
    context = Context(jobset("js", rj("w", 1, 2, 2), mode="Gang"))
    jobs = context.jobs(succeeded=2, complete=True, active=False)
    assert only(evaluate(context.snapshot([], jobs=jobs), NOW)).placed_at == 0


def test_unlinked_jobs_are_not_needed_for_the_minimum() -> None:
    """They are in the gang and not in its group: no scheduler counts them."""
    context = Context(jobset("js", rj("a", 1, 1, 1), rj("b", 2, 3, 3), mode="Gang"))
    jobs = [*context.jobs(only="a"), *context.jobs(only="b", index=0, group=""), *context.jobs(only="b", index=1)]
    pods = [
        replace(pod, group="" if (pod.job_index, pod.replicated_job) == (0, "b") else pod.group)
        for pod in context.pods(READY)
    ]
    (group,) = members(context.snapshot(pods, jobs=jobs, groups=context.groups(min_counts=(("", 6),))))
    assert (group.minimum, group.needed, group.wanted) == (6, 4, 7)
