"""Each phase, of groups and of whole JobSets, with when it began; on every generation and level."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gangctl.api.scheduling import Generation, Scheduled
from gangctl.gang.desired import spare_groups
from gangctl.gang.reasons import Reason
from gangctl.kueue.queues import QueueFacts
from gangctl.readiness.evaluate import evaluate
from gangctl.readiness.result import PODS, GangPhase, Usage
from tests.gang.pipeline import GENERATIONS
from tests.jobsets import jobset, rj
from tests.kueue.workloads import no, yes
from tests.readiness.snapshots import (
    BORN,
    CREATED,
    GATED,
    NOW,
    PENDING,
    PLACED,
    PLACED_AT,
    READY,
    READY_AT,
    REFUSED,
    RUNNING,
    Changes,
    Context,
    changed,
    condition,
    initially_scheduled,
    rfc3339,
    waits_in,
)
from tests.rows import each

P = GangPhase
WHOLE = jobset("js", rj("a", 1, 2, 2), rj("b", 2, 4, 4), mode="Gang")
EACH = jobset("js", rj("a", 1, 2, 2, mode="Gang"), rj("b", 2, 4, 4, mode="Gang"))
REPLICAS = jobset("js", rj("b", 2, 4, 4, mode="ReplicatedGang"))
LEVELS = {"JobSet": WHOLE, "ReplicatedJob": EACH, "Replica": REPLICAS}
LOST = NOW - 60

levels = each("raw", LEVELS.values(), ids=LEVELS)
generations = each("generation", GENERATIONS)


@generations
@levels
@each(
    ("state", "phase", "since"),
    [
        (PENDING, P.SCHEDULING, BORN),
        (GATED, P.GATED, BORN),
        (REFUSED, P.UNSCHEDULABLE, PLACED_AT),
        (PLACED, P.STARTING, PLACED_AT),
        (RUNNING, P.STARTING, PLACED_AT),
        (READY, P.READY, READY_AT),
    ],
)
def test_the_phase_of_a_gang_with_all_pods_in_one_state(
    generation: Generation, raw: dict[str, Any], state: Changes, phase: GangPhase, since: int
) -> None:
    context = Context(raw, generation)
    found = evaluate(context.snapshot(context.pods(state)), NOW)
    assert (found.phase, found.since) == (phase, since)
    assert {(group.phase, group.since) for group in found.groups} == {(phase, since)}
    assert found.level == next(level for level, known in LEVELS.items() if known is raw)


@generations
@levels
@each(
    ("first", "rest", "expected"),
    [
        ({"deleting": True}, PENDING, (P.WAITING_FOR_PODS, CREATED)),
        (GATED, PENDING, (P.GATED, BORN)),
        (REFUSED, PENDING, (P.UNSCHEDULABLE, PLACED_AT)),
        (PLACED, REFUSED, (P.PARTIALLY_PLACED, PLACED_AT)),
        (READY, RUNNING, (P.PARTIALLY_READY, READY_AT)),
        ({**RUNNING, "ready_at": PLACED_AT + 1}, READY, (P.PARTIALLY_READY, READY_AT)),
        ({**RUNNING, "ready_at": LOST}, READY, (P.DEGRADED, LOST)),
        ({"created": LOST}, READY, (P.DEGRADED, LOST)),
    ],
    ids=["missing", "gated", "refused", "placed", "ready", "never ready", "not ready any more", "replaced"],
)
def test_the_phase_of_a_gang_with_one_different_pod_in_each_group(
    generation: Generation, raw: dict[str, Any], first: Changes, rest: Changes, expected: tuple[GangPhase, int]
) -> None:
    context = Context(raw, generation)
    pods = [pod for job in context.planned() for pod in [context.pod(job, n, rest) for n in range(job.pods)]]
    firsts = {
        group.name: next(n for n, pod in enumerate(pods) if job_group(context, pod) == group.name)
        for group in context.plan.groups
    }
    for number in firsts.values():
        blank = {"phase": "Pending", "node": "", "placed_at": 0, "ready": False, "ready_at": 0, "refused": ""}
        pods = changed(pods, number, **{**blank, **first})
    found = evaluate(context.snapshot(pods), NOW)
    assert {group.phase for group in found.groups} == {expected[0]}
    assert (found.phase, found.since) == expected


def job_group(context: Context, pod: Any) -> str:
    references = {(job.replicated_job, job.index): job.reference for job in context.planned()}
    reference = references[pod.replicated_job, pod.job_index]
    assert reference is not None
    return reference.group


@generations
def test_stranded_pods_are_placed_pods_of_gangs_that_cannot_start(generation: Generation) -> None:
    context = Context(REPLICAS, generation)
    pods = [
        *context.pods(READY, index=0),
        *context.pods(RUNNING, index=1, count=3),
        *context.pods(REFUSED, index=1, count=1),
    ]
    found = evaluate(context.snapshot(pods), NOW)
    assert [group.counts.stranded for group in found.groups] == [0, 3]
    assert (found.phase, found.counts.stranded, found.counts.placed) == (P.PARTIALLY_PLACED, 3, 7)


ELASTIC = '[{"name": "w", "replicatedJobs": ["w"], "minCount": 3}]'


@generations
@each(("ready", "rest", "phase"), [(2, RUNNING, P.PARTIALLY_READY), (3, PENDING, P.READY), (5, PENDING, P.READY)])
def test_a_gang_with_a_min_count_is_ready_with_that_many_pods(
    generation: Generation, ready: int, rest: Changes, phase: GangPhase
) -> None:
    context = Context(jobset("js", rj("w", 1, 5, 5), annotations={"gangctl.dev/gangs": ELASTIC}), generation)
    pods = [*context.pods(READY, count=ready), *context.pods(rest, count=5 - ready)]
    pods = [replace(pod, name=f"p{number}") for number, pod in enumerate(pods)]
    found = evaluate(context.snapshot(pods), NOW)
    assert (found.phase, found.counts.ready, found.counts.wanted) == (phase, ready, 5)


def test_the_phase_of_a_jobset_without_objects() -> None:
    context = Context(WHOLE)
    found = evaluate(context.snapshot(jobs=[], groups={}, workload=None), NOW)
    assert (found.phase, found.since) == (P.PENDING, CREATED)
    assert found.admitted_at == found.created_at == CREATED
    made = evaluate(context.snapshot(), NOW)
    assert (made.phase, made.since) == (P.WAITING_FOR_PODS, CREATED)


def test_without_a_plan_readiness_is_that_of_all_pods() -> None:
    context = Context(WHOLE, None, stamped=False)
    pods = context.pods(READY)
    found = evaluate(context.snapshot(pods), NOW)
    assert (found.phase, found.level, [group.name for group in found.groups]) == (P.READY, "None", ["js"])
    half = evaluate(context.snapshot(changed(pods, slice(0, 5), node="", ready=False)), NOW)
    assert (half.phase, half.counts.stranded) == (P.PARTIALLY_PLACED, 5)


def test_pods_without_a_gang_do_not_change_the_phase() -> None:
    context = Context(jobset("js", rj("free", 1, 5, 5), rj("b", 1, 2, 2, mode="Gang")))
    pods = [*context.pods(REFUSED, only="free"), *context.pods(READY, only="b")]
    found = evaluate(context.snapshot(pods), NOW)
    assert (found.phase, found.counts.wanted, found.counts.created) == (P.READY, 2, 2)


# What is suspended or over


@each(
    ("queue", "kueue", "facts", "gates", "phase"),
    [
        ("", None, None, "", P.SUSPENDED),
        ("main", False, None, "", P.SUSPENDED),
        ("main", None, None, "", P.QUEUED),
        ("main", True, waits_in(QuotaReserved=no("Pending")), "", P.QUEUED),
        ("main", True, QueueFacts("main", "cq"), "", P.QUEUED),
        ("main", True, waits_in(), "example.com/check", P.GATED),
    ],
    ids=["no queue", "no Kueue", "not known", "in a queue", "no Workload yet", "gated"],
)
def test_the_phase_of_a_suspended_jobset(
    queue: str, kueue: bool | None, facts: QueueFacts | None, gates: str, phase: GangPhase
) -> None:
    notes = {"kueue.x-k8s.io/admission-gated-by": gates} if gates else {}
    context = Context({**WHOLE, "metadata": with_notes(notes)}, suspend=True, queue=queue)
    found = evaluate(context.snapshot(queue=facts, kueue=kueue), NOW)
    assert (found.phase, found.since, found.admitted_at) == (phase, CREATED, 0)
    assert {group.phase for group in found.groups} == {phase}
    assert (found.counts.wanted, found.counts.stranded) == (10, 0)


def with_notes(notes: dict[str, str]) -> dict[str, Any]:
    metadata: dict[str, Any] = WHOLE["metadata"]
    return {**metadata, "annotations": {**metadata["annotations"], **notes}}


def test_a_suspension_starts_at_the_time_of_its_condition() -> None:
    context = Context(WHOLE, suspend=True, end=condition("Suspended", LOST))
    pods = context.pods(READY, deleting=True)
    assert evaluate(context.snapshot(pods), NOW).since == LOST


@each(("suspend", "ending", "ready"), [(False, False, 10), (False, True, 0), (True, True, 0)])
def test_a_jobset_that_is_being_deleted_is_there_until_its_pods_are_gone(
    suspend: bool, ending: bool, ready: int
) -> None:
    """A deletion in the foreground, as Argo CD does it, deletes Jobs and pods first."""
    context = Context(WHOLE, suspend=suspend, deleting=True)
    found = evaluate(context.snapshot(context.pods(READY, deleting=ending), jobs=context.jobs(deleting=True)), NOW + 30)
    assert (found.phase, found.since, found.counts.ready) == (P.TERMINATING, NOW, ready)
    assert [cause.reason for cause in found.causes] == [Reason.PODS_TERMINATING]


@pytest.mark.parametrize(("outcome", "phase"), [("Completed", P.SUCCEEDED), ("Failed", P.FAILED)])
def test_the_phase_of_a_finished_jobset(outcome: str, phase: GangPhase) -> None:
    context = Context(WHOLE, end=condition(outcome, LOST))
    found = evaluate(context.snapshot(context.pods(READY, count=1)), NOW)
    assert (found.phase, found.since, found.counts.wanted, found.counts.stranded) == (phase, LOST, 0, 0)
    assert {group.phase for group in found.groups} == {phase}
    assert found.causes == ()


def test_succeeded_groups_of_a_failed_jobset_stay_succeeded() -> None:
    context = Context(EACH, end=condition("Failed", LOST))
    jobs = [*context.jobs(only="a", succeeded=2, complete=True), *context.jobs(only="b", failed=1)]
    found = evaluate(context.snapshot(jobs=jobs), NOW)
    assert [group.phase for group in found.groups] == [P.SUCCEEDED, P.FAILED]
    assert found.phase is P.FAILED


def test_a_finished_group_does_not_hold_back_the_jobset() -> None:
    context = Context(EACH)
    jobs = [*context.jobs(only="a", succeeded=2, complete=True), *context.jobs(only="b")]
    found = evaluate(context.snapshot(context.pods(READY, only="b"), jobs=jobs), NOW)
    assert [group.phase for group in found.groups] == [P.SUCCEEDED, P.READY]
    assert (found.phase, found.since, found.counts.finished) == (P.READY, READY_AT, 2)
    assert (found.placed_at, found.ready_at) == (PLACED_AT, READY_AT)


# Restarts


def test_the_phase_during_a_restart() -> None:
    context = Context(WHOLE, restarts=1, end=condition("RestartingJobSet", LOST))
    early = [replace(pod, attempt=0, deleting=True) for pod in context.pods(READY)]
    new = context.pods(PENDING, created=LOST + 5)
    jobs = context.jobs(attempt=0, deleting=True)
    begun = evaluate(context.snapshot(early, jobs=jobs), NOW)
    assert (begun.phase, begun.since, begun.attempt) == (P.RESTARTING, LOST, 1)
    both = evaluate(context.snapshot([*early, *new[:3]]), NOW)
    assert (both.phase, both.counts.created, both.counts.placed) == (P.RESTARTING, 3, 0)
    assert evaluate(context.snapshot(jobs=jobs), NOW).phase is P.RESTARTING
    assert evaluate(context.snapshot(new[:3]), NOW).phase is P.WAITING_FOR_PODS
    all_new = evaluate(context.snapshot([*early, *new], groups=context.groups(initially_scheduled())), NOW)
    assert (all_new.phase, all_new.since, all_new.been_ready) == (P.SCHEDULING, LOST + 5, False)


def test_a_scheduler_condition_of_an_earlier_attempt_is_ignored() -> None:
    """The condition is terminal, and the PodGroup outlives a restart."""
    context = Context(WHOLE, restarts=1)
    pods = context.pods(RUNNING, created=PLACED_AT + 50, placed_at=PLACED_AT + 60)
    found = evaluate(context.snapshot(pods, groups=context.groups(initially_scheduled())), NOW)
    assert (found.phase, found.placed_at) == (P.STARTING, PLACED_AT + 60)


# Queues


def test_a_queued_gang_is_admitted_at_the_time_of_kueue() -> None:
    context = Context(WHOLE, queue="main")
    queue = waits_in(Admitted=yes(since=rfc3339(CREATED + 42)))
    found = evaluate(context.snapshot(queue=queue), NOW)
    assert (found.phase, found.since, found.admitted_at) == (P.WAITING_FOR_PODS, CREATED + 42, CREATED + 42)
    assert (found.local_queue, found.cluster_queue) == ("main", "cq")


def test_a_gang_without_a_queue_is_admitted_when_it_is_resumed() -> None:
    context = Context(WHOLE, end=condition("Suspended", CREATED + 42, status=False))
    assert evaluate(context.snapshot(), NOW).admitted_at == CREATED + 42


def test_pods_ready_of_a_workload_shows_that_the_gang_was_ready() -> None:
    context = Context(WHOLE, queue="main")
    pods = changed(context.pods(RUNNING), slice(0, 9), **READY)
    for reported in (no("WaitForRecovery"), yes()):
        found = evaluate(context.snapshot(pods, queue=waits_in(Admitted=yes(), PodsReady=reported)), NOW)
        assert found.phase is P.DEGRADED
    found = evaluate(context.snapshot(pods, queue=waits_in(Admitted=yes(), PodsReady=no("WaitForStart"))), NOW)
    assert found.phase is P.PARTIALLY_READY


# Conditions of the scheduler


def test_a_condition_of_the_pod_group_sets_the_phase() -> None:
    context = Context(WHOLE)
    condition = Scheduled(status=False, reason="Unschedulable", message="no", since=rfc3339(LOST))
    found = evaluate(context.snapshot(context.pods(), groups=context.groups(condition)), NOW)
    assert (found.phase, found.since) == (P.UNSCHEDULABLE, LOST)


@pytest.mark.parametrize("reason", ["Unschedulable", "SchedulerError"])
def test_a_gang_is_unschedulable_since_its_first_refused_pod(reason: str) -> None:
    context = Context(WHOLE)
    pods = changed(context.pods(), 1, refused=reason, refused_at=LOST)
    pods = changed(pods, 2, refused=reason, refused_at=LOST - 9)
    found = evaluate(context.snapshot(pods), NOW)
    assert (found.phase, found.since) == (P.UNSCHEDULABLE, LOST - 9)


# More pods than the minimum, and fewer


def test_pods_above_the_minimum_are_never_stranded_but_required_for_readiness() -> None:
    """Grown where minCount cannot change: the gang is placed with its minimum."""
    context = Context(REPLICAS, Generation.V1ALPHA2)
    groups = context.groups(min_counts=(("", 2),))
    some = [*context.pods(READY, count=3), *context.pods(REFUSED, count=1)]
    found = evaluate(context.snapshot(some, groups=groups), NOW)
    assert (found.phase, found.counts.stranded) == (P.PARTIALLY_READY, 0)
    assert (found.counts.minimum, found.counts.wanted) == (4, 8)
    assert evaluate(context.snapshot(context.pods(READY), groups=groups), NOW).phase is P.READY
    few = evaluate(
        context.snapshot([*context.pods(READY, count=1), *context.pods(REFUSED, count=3)], groups=groups), NOW
    )
    assert (few.phase, few.counts.stranded) == (P.PARTIALLY_PLACED, 2)


def test_a_gang_that_has_grown_is_not_degraded() -> None:
    small = Context(jobset("js", rj("w", 1, 2, 2, mode="Gang")))
    large = Context(jobset("js", rj("w", 1, 4, 4, mode="Gang")))
    ready = evaluate(small.snapshot(small.pods(READY)), NOW)
    pods = [*large.pods(READY, count=2), *large.pods(PENDING, count=2, created=NOW)]
    grown = evaluate(large.snapshot(pods), NOW, ready)
    assert grown.phase is P.PARTIALLY_PLACED
    again = evaluate(large.snapshot(pods), NOW + 1, grown)
    assert again.phase is P.PARTIALLY_PLACED


def test_a_gang_whose_pods_have_partly_succeeded_is_ready_with_the_rest() -> None:
    """Where minCount cannot change it stays larger than the gang can be again."""
    context = Context(REPLICAS, Generation.V1ALPHA2)
    jobs = context.jobs(succeeded=1)
    found = evaluate(context.snapshot(context.pods(READY, count=3), jobs=jobs), NOW)
    assert (found.phase, found.counts.minimum, found.counts.wanted, found.counts.finished) == (P.READY, 8, 6, 2)
    waiting = evaluate(context.snapshot(context.pods(RUNNING, count=3), jobs=jobs), NOW)
    assert waiting.phase is P.STARTING


def test_unlinked_jobs_count_for_readiness_but_not_for_placement() -> None:
    context = Context(WHOLE)
    jobs = [*context.jobs(only="a"), *context.jobs(only="b", index=0, group=""), *context.jobs(only="b", index=1)]
    groups = context.groups(min_counts=(("", 6),))
    loose = context.pods(READY, only="b", index=0, group="")
    rest = [*context.pods(REFUSED, only="a"), *context.pods(REFUSED, only="b", index=1)]
    found = evaluate(context.snapshot([*loose, *rest], jobs=jobs, groups=groups), NOW)
    assert found.phase is P.UNSCHEDULABLE
    well = [*context.pods(READY, only="a"), *context.pods(READY, only="b", index=1)]
    assert evaluate(context.snapshot(well, jobs=jobs, groups=groups), NOW).phase is P.PARTIALLY_READY
    assert evaluate(context.snapshot([*well, *loose], jobs=jobs, groups=groups), NOW).phase is P.READY


# The phase of a JobSet


def test_the_phase_of_a_jobset_is_that_of_its_slowest_group() -> None:
    context = Context(REPLICAS)
    for state, phase in ((PENDING, P.SCHEDULING), (REFUSED, P.UNSCHEDULABLE), (RUNNING, P.STARTING)):
        pods = [*context.pods(READY, index=0), *context.pods(state, index=1)]
        found = evaluate(context.snapshot(pods), NOW)
        assert [group.phase for group in found.groups] == [P.READY, phase]
        assert found.phase is phase
        assert found.ready_at == 0


def test_of_running_groups_the_worst_phase_is_reported() -> None:
    context = Context(REPLICAS)
    lost = changed(context.pods(READY, index=0), 0, ready=False, ready_at=LOST)
    found = evaluate(context.snapshot([*lost, *context.pods(RUNNING, index=1)]), NOW)
    assert [group.phase for group in found.groups] == [P.DEGRADED, P.STARTING]
    assert (found.phase, found.since) == (P.DEGRADED, LOST)


def test_a_jobset_without_pods_is_pending() -> None:
    context = Context(jobset("js", rj("w", 0, 4, 4, mode="Gang")))
    found = evaluate(context.snapshot(), NOW)
    assert (found.phase, found.counts.wanted) == (P.PENDING, 0)


def test_a_terminating_jobset_is_not_degraded() -> None:
    stays = Context(WHOLE)
    ready = evaluate(stays.snapshot(stays.pods(READY)), NOW)
    context = Context(WHOLE, deleting=True)
    pods = changed(stays.pods(READY), 0, deleting=True)
    found = evaluate(context.snapshot(pods, jobs=stays.jobs(), groups=stays.groups()), NOW, ready)
    assert (found.phase, found.counts.stranded) == (P.TERMINATING, 0)
    assert (ready.deleting, found.deleting) == (False, True)


def test_a_gang_with_a_permanently_failed_index_is_ready_with_the_rest() -> None:
    context = Context(jobset("js", rj("w", 1, 4, 4), mode="Gang", uid="u"))
    jobs = context.jobs(failed=2, failed_indexes=1)
    found = evaluate(context.snapshot(context.pods(READY, count=3), jobs=jobs), NOW)
    assert (found.phase, found.counts.wanted, found.counts.ready) == (GangPhase.READY, 3, 3)


@levels
@each("state", [PENDING, REFUSED, READY])
def test_groups_of_the_next_attempt_are_not_counted(raw: dict[str, Any], state: Changes) -> None:
    context = Context({**raw, "spec": {**raw["spec"], "failurePolicy": {"maxRestarts": 1}}})
    groups = context.groups(initially_scheduled())
    spares = {
        each.name: replace(groups[next(iter(groups))], name=each.name, scheduled=None)
        for each in spare_groups(context.plan)
    }
    assert len(spares) == len(groups)
    with_spares = evaluate(context.snapshot(context.pods(state), groups={**groups, **spares}), NOW)
    assert with_spares == evaluate(context.snapshot(context.pods(state), groups=groups), NOW)


def test_usage_is_of_pods_with_nodes_by_resource() -> None:
    context = Context(jobset("js", rj("w", 1, 3, 3, mode="Gang")))
    gpus = (("nvidia.com/gpu", 8),)
    ready, running, pending = changed(context.pods(READY), slice(None), extended=gpus)
    pods = [ready, replace(running, ready=False, ready_at=0), replace(pending, node="", ready=False, ready_at=0)]
    assert evaluate(context.snapshot(pods), NOW).usage == (Usage("nvidia.com/gpu", 16, 8), Usage(PODS, 2, 1))
    leaving = [replace(ready, deleting=True), *pods[1:]]
    assert evaluate(context.snapshot(leaving), NOW).usage == (Usage("nvidia.com/gpu", 16, 0), Usage(PODS, 2, 0))
