"""Each phase, of groups and of whole JobSets, with when it began; on every generation and level."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gangctl.api.scheduling import Generation, Scheduled
from gangctl.gang.spares import spare_groups
from gangctl.readiness.evaluate import evaluate
from gangctl.readiness.facts import QueueFacts
from gangctl.readiness.phases import GangPhase
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
    Scene,
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
STAGES = jobset("js", rj("a", 1, 2, 2), rj("b", 1, 4, 4), mode="Gang", startupPolicy={"startupPolicyOrder": "InOrder"})
DEPENDS = jobset("js", rj("a", 1, 2, 2, mode="Gang"), rj("b", 1, 4, 4, mode="Gang", depends_on="a"))
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
def test_all_pods_in_one_state(
    generation: Generation, raw: dict[str, Any], state: Changes, phase: GangPhase, since: int
) -> None:
    scene = Scene(raw, generation)
    found = evaluate(scene.snapshot(scene.pods(state)), NOW)
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
def test_one_pod_of_each_group_is_unlike_the_others(
    generation: Generation, raw: dict[str, Any], first: Changes, rest: Changes, expected: tuple[GangPhase, int]
) -> None:
    scene = Scene(raw, generation)
    pods = [pod for job in scene.planned() for pod in [scene.pod(job, n, rest) for n in range(job.pods)]]
    firsts = {
        group.name: next(n for n, pod in enumerate(pods) if job_group(scene, pod) == group.name)
        for group in scene.plan.groups
    }
    for number in firsts.values():
        blank = {"phase": "Pending", "node": "", "placed_at": 0, "ready": False, "ready_at": 0, "refused": ""}
        pods = changed(pods, number, **{**blank, **first})
    found = evaluate(scene.snapshot(pods), NOW)
    assert {group.phase for group in found.groups} == {expected[0]}
    assert (found.phase, found.since) == expected


def job_group(scene: Scene, pod: Any) -> str:
    references = {(job.replicated_job, job.index): job.reference for job in scene.planned()}
    reference = references[pod.replicated_job, pod.job_index]
    assert reference is not None
    return reference.group


@generations
def test_stranded_pods_are_those_that_hold_nodes_for_nothing(generation: Generation) -> None:
    scene = Scene(REPLICAS, generation)
    pods = [*scene.pods(READY, index=0), *scene.pods(RUNNING, index=1, count=3), *scene.pods(REFUSED, index=1, count=1)]
    found = evaluate(scene.snapshot(pods), NOW)
    assert [group.counts.stranded for group in found.groups] == [0, 3]
    assert (found.phase, found.counts.stranded, found.counts.placed) == (P.PARTIALLY_PLACED, 3, 7)


def test_nothing_is_made_yet() -> None:
    scene = Scene(WHOLE)
    found = evaluate(scene.snapshot(jobs=[], groups={}, workload=None), NOW)
    assert (found.phase, found.since) == (P.PENDING, CREATED)
    assert found.admitted_at == found.created_at == CREATED
    made = evaluate(scene.snapshot(), NOW)
    assert (made.phase, made.since) == (P.WAITING_FOR_PODS, CREATED)


def test_without_a_plan_readiness_is_that_of_all_pods() -> None:
    scene = Scene(WHOLE, None, stamped=False)
    pods = scene.pods(READY)
    found = evaluate(scene.snapshot(pods), NOW)
    assert (found.phase, found.level, [group.name for group in found.groups]) == (P.READY, "None", ["js"])
    half = evaluate(scene.snapshot(changed(pods, slice(0, 5), node="", ready=False)), NOW)
    assert (half.phase, half.counts.stranded) == (P.PARTIALLY_PLACED, 5)


def test_pods_without_a_gang_disturb_nothing() -> None:
    scene = Scene(jobset("js", rj("free", 1, 5, 5), rj("b", 1, 2, 2, mode="Gang")))
    pods = [*scene.pods(REFUSED, only="free"), *scene.pods(READY, only="b")]
    found = evaluate(scene.snapshot(pods), NOW)
    assert (found.phase, found.counts.wanted, found.counts.created) == (P.READY, 2, 2)


# What is suspended or over


@each(
    ("queue", "facts", "gates", "phase"),
    [
        ("", None, "", P.SUSPENDED),
        ("main", None, "", P.SUSPENDED),
        ("main", waits_in(QuotaReserved=no("Pending")), "", P.QUEUED),
        ("main", QueueFacts("main", "cq"), "", P.QUEUED),
        ("main", waits_in(), "example.com/check", P.GATED),
    ],
    ids=["no queue", "no Kueue", "in a queue", "no Workload yet", "gated"],
)
def test_a_suspended_jobset(queue: str, facts: QueueFacts | None, gates: str, phase: GangPhase) -> None:
    notes = {"kueue.x-k8s.io/admission-gated-by": gates} if gates else {}
    scene = Scene({**WHOLE, "metadata": with_notes(notes)}, suspend=True, queue=queue)
    found = evaluate(scene.snapshot(queue=facts), NOW)
    assert (found.phase, found.since, found.admitted_at) == (phase, CREATED, 0)
    assert {group.phase for group in found.groups} == {phase}
    assert (found.counts.wanted, found.counts.stranded) == (10, 0)


def with_notes(notes: dict[str, str]) -> dict[str, Any]:
    metadata: dict[str, Any] = WHOLE["metadata"]
    return {**metadata, "annotations": {**metadata["annotations"], **notes}}


def test_a_suspension_began_when_jobset_says() -> None:
    scene = Scene(WHOLE, suspend=True, end=condition("Suspended", LOST))
    pods = scene.pods(READY, deleting=True)
    assert evaluate(scene.snapshot(pods), NOW).since == LOST


@pytest.mark.parametrize(("outcome", "phase"), [("Completed", P.SUCCEEDED), ("Failed", P.FAILED)])
def test_a_jobset_that_is_over(outcome: str, phase: GangPhase) -> None:
    scene = Scene(WHOLE, end=condition(outcome, LOST))
    found = evaluate(scene.snapshot(scene.pods(READY, count=1)), NOW)
    assert (found.phase, found.since, found.counts.wanted, found.counts.stranded) == (phase, LOST, 0, 0)
    assert {group.phase for group in found.groups} == {phase}
    assert found.causes == ()


def test_groups_that_had_succeeded_before_their_jobset_failed() -> None:
    scene = Scene(EACH, end=condition("Failed", LOST))
    jobs = [*scene.jobs(only="a", succeeded=2, complete=True), *scene.jobs(only="b", failed=1)]
    found = evaluate(scene.snapshot(jobs=jobs), NOW)
    assert [group.phase for group in found.groups] == [P.SUCCEEDED, P.FAILED]
    assert found.phase is P.FAILED


def test_a_group_whose_pods_have_all_finished_holds_nothing_back() -> None:
    scene = Scene(EACH)
    jobs = [*scene.jobs(only="a", succeeded=2, complete=True), *scene.jobs(only="b")]
    found = evaluate(scene.snapshot(scene.pods(READY, only="b"), jobs=jobs), NOW)
    assert [group.phase for group in found.groups] == [P.SUCCEEDED, P.READY]
    assert (found.phase, found.since, found.counts.finished) == (P.READY, READY_AT, 2)
    assert (found.placed_at, found.ready_at) == (PLACED_AT, READY_AT)


# Restarts


def test_a_restart() -> None:
    scene = Scene(WHOLE, restarts=1, end=condition("RestartingJobSet", LOST))
    early = [replace(pod, attempt=0, deleting=True) for pod in scene.pods(READY)]
    new = scene.pods(PENDING, created=LOST + 5)
    jobs = scene.jobs(attempt=0, deleting=True)
    begun = evaluate(scene.snapshot(early, jobs=jobs), NOW)
    assert (begun.phase, begun.since, begun.attempt) == (P.RESTARTING, LOST, 1)
    both = evaluate(scene.snapshot([*early, *new[:3]]), NOW)
    assert (both.phase, both.counts.created, both.counts.placed) == (P.RESTARTING, 3, 0)
    assert evaluate(scene.snapshot(jobs=jobs), NOW).phase is P.RESTARTING
    assert evaluate(scene.snapshot(new[:3]), NOW).phase is P.WAITING_FOR_PODS
    all_new = evaluate(scene.snapshot([*early, *new], groups=scene.groups(initially_scheduled())), NOW)
    assert (all_new.phase, all_new.since, all_new.been_ready) == (P.SCHEDULING, LOST + 5, False)


def test_what_the_scheduler_said_in_an_earlier_attempt_does_not_count() -> None:
    """The condition is terminal, and the PodGroup outlives a restart."""
    scene = Scene(WHOLE, restarts=1)
    pods = scene.pods(RUNNING, created=PLACED_AT + 50, placed_at=PLACED_AT + 60)
    found = evaluate(scene.snapshot(pods, groups=scene.groups(initially_scheduled())), NOW)
    assert (found.phase, found.placed_at) == (P.STARTING, PLACED_AT + 60)


# Queues


def test_a_gang_that_was_admitted_was_free_from_then_on() -> None:
    scene = Scene(WHOLE, queue="main")
    queue = waits_in(Admitted=yes(since=rfc3339(CREATED + 42)))
    found = evaluate(scene.snapshot(queue=queue), NOW)
    assert (found.phase, found.since, found.admitted_at) == (P.WAITING_FOR_PODS, CREATED + 42, CREATED + 42)
    assert (found.local_queue, found.cluster_queue) == ("main", "cq")


def test_without_a_queue_a_gang_was_free_when_it_was_resumed() -> None:
    scene = Scene(WHOLE, end=condition("Suspended", CREATED + 42, status=False))
    assert evaluate(scene.snapshot(), NOW).admitted_at == CREATED + 42


def test_kueue_remembers_that_all_pods_were_ready() -> None:
    scene = Scene(WHOLE, queue="main")
    pods = changed(scene.pods(RUNNING), slice(0, 9), **READY)
    for told in (no("WaitForRecovery"), yes()):
        found = evaluate(scene.snapshot(pods, queue=waits_in(Admitted=yes(), PodsReady=told)), NOW)
        assert found.phase is P.DEGRADED
    found = evaluate(scene.snapshot(pods, queue=waits_in(Admitted=yes(), PodsReady=no("WaitForStart"))), NOW)
    assert found.phase is P.PARTIALLY_READY


# What the scheduler says


def test_the_pod_group_tells_what_its_pods_do_not() -> None:
    scene = Scene(WHOLE)
    said = Scheduled(status=False, reason="Unschedulable", message="no", since=rfc3339(LOST))
    found = evaluate(scene.snapshot(scene.pods(), groups=scene.groups(said)), NOW)
    assert (found.phase, found.since) == (P.UNSCHEDULABLE, LOST)


@pytest.mark.parametrize("reason", ["Unschedulable", "SchedulerError"])
def test_refused_since_the_first_pod_was(reason: str) -> None:
    scene = Scene(WHOLE)
    pods = changed(scene.pods(), 1, refused=reason, refused_at=LOST)
    pods = changed(pods, 2, refused=reason, refused_at=LOST - 9)
    found = evaluate(scene.snapshot(pods), NOW)
    assert (found.phase, found.since) == (P.UNSCHEDULABLE, LOST - 9)


# More pods than the minimum, and fewer


def test_extras_strand_nobody_and_are_ready_only_all_together() -> None:
    """Grown where minCount cannot change: the gang is placed with its minimum."""
    scene = Scene(REPLICAS, Generation.V1ALPHA2)
    groups = scene.groups(min_counts=(("", 2),))
    some = [*scene.pods(READY, count=3), *scene.pods(REFUSED, count=1)]
    found = evaluate(scene.snapshot(some, groups=groups), NOW)
    assert (found.phase, found.counts.stranded) == (P.PARTIALLY_READY, 0)
    assert (found.counts.minimum, found.counts.wanted) == (4, 8)
    assert evaluate(scene.snapshot(scene.pods(READY), groups=groups), NOW).phase is P.READY
    few = evaluate(scene.snapshot([*scene.pods(READY, count=1), *scene.pods(REFUSED, count=3)], groups=groups), NOW)
    assert (few.phase, few.counts.stranded) == (P.PARTIALLY_PLACED, 2)


def test_a_gang_that_has_grown_is_not_degraded() -> None:
    small = Scene(jobset("js", rj("w", 1, 2, 2, mode="Gang")))
    large = Scene(jobset("js", rj("w", 1, 4, 4, mode="Gang")))
    ready = evaluate(small.snapshot(small.pods(READY)), NOW)
    pods = [*large.pods(READY, count=2), *large.pods(PENDING, count=2, created=NOW)]
    grown = evaluate(large.snapshot(pods), NOW, ready)
    assert grown.phase is P.PARTIALLY_PLACED
    again = evaluate(large.snapshot(pods), NOW + 1, grown)
    assert again.phase is P.PARTIALLY_PLACED


def test_on_the_last_stretch_fewer_pods_are_a_whole_gang() -> None:
    """Where minCount cannot change it stays larger than the gang can be again."""
    scene = Scene(REPLICAS, Generation.V1ALPHA2)
    jobs = scene.jobs(succeeded=1)
    found = evaluate(scene.snapshot(scene.pods(READY, count=3), jobs=jobs), NOW)
    assert (found.phase, found.counts.minimum, found.counts.wanted, found.counts.finished) == (P.READY, 8, 6, 2)
    waiting = evaluate(scene.snapshot(scene.pods(RUNNING, count=3), jobs=jobs), NOW)
    assert waiting.phase is P.STARTING


def test_outsiders_must_be_ready_too_but_place_nobody() -> None:
    scene = Scene(WHOLE)
    jobs = [*scene.jobs(only="a"), *scene.jobs(only="b", index=0, group=""), *scene.jobs(only="b", index=1)]
    groups = scene.groups(min_counts=(("", 6),))
    loose = scene.pods(READY, only="b", index=0, group="")
    rest = [*scene.pods(REFUSED, only="a"), *scene.pods(REFUSED, only="b", index=1)]
    found = evaluate(scene.snapshot([*loose, *rest], jobs=jobs, groups=groups), NOW)
    assert found.phase is P.UNSCHEDULABLE
    well = [*scene.pods(READY, only="a"), *scene.pods(READY, only="b", index=1)]
    assert evaluate(scene.snapshot(well, jobs=jobs, groups=groups), NOW).phase is P.PARTIALLY_READY
    assert evaluate(scene.snapshot([*well, *loose], jobs=jobs, groups=groups), NOW).phase is P.READY


# Stages


@each("raw", [STAGES, DEPENDS], ids=["in order", "depends on"])
@each(
    ("first", "phase"),
    [(PENDING, P.SCHEDULING), (RUNNING, P.STARTING), (READY, P.PARTIALLY_READY)],
)
def test_a_stage_that_has_not_come_does_not_make_the_jobset_look_broken(
    raw: dict[str, Any], first: Changes, phase: GangPhase
) -> None:
    scene = Scene(raw)
    found = evaluate(scene.snapshot(scene.pods(first, only="a"), jobs=scene.jobs(only="a")), NOW)
    assert found.groups[1].phase is P.PENDING
    assert found.phase is phase


def test_a_stage_that_has_come_counts() -> None:
    scene = Scene(STAGES)
    pods = [*scene.pods(READY, only="a"), *scene.pods(REFUSED, only="b", created=READY_AT)]
    assert evaluate(scene.snapshot(pods), NOW).phase is P.UNSCHEDULABLE
    both = evaluate(scene.snapshot([*scene.pods(READY, only="a"), *scene.pods(READY, only="b")]), NOW)
    assert both.phase is P.READY


def test_stages_without_a_plan_strand_nobody() -> None:
    scene = Scene(STAGES, stamped=False)
    found = evaluate(scene.snapshot(scene.pods(READY, only="a"), jobs=scene.jobs(only="a")), NOW)
    assert (found.phase, found.counts.stranded, found.counts.wanted) == (P.PARTIALLY_READY, 0, 6)


def test_the_next_stage_is_awaited_once_the_last_has_finished() -> None:
    scene = Scene(DEPENDS)
    found = evaluate(scene.snapshot(jobs=scene.jobs(only="a", succeeded=2, complete=True)), NOW)
    assert [group.phase for group in found.groups] == [P.SUCCEEDED, P.PENDING]
    assert found.phase is P.PENDING


# The phase of a JobSet


def test_the_jobset_is_as_far_as_the_least_of_its_groups() -> None:
    scene = Scene(REPLICAS)
    for state, phase in ((PENDING, P.SCHEDULING), (REFUSED, P.UNSCHEDULABLE), (RUNNING, P.STARTING)):
        pods = [*scene.pods(READY, index=0), *scene.pods(state, index=1)]
        found = evaluate(scene.snapshot(pods), NOW)
        assert [group.phase for group in found.groups] == [P.READY, phase]
        assert found.phase is phase
        assert found.ready_at == 0


def test_of_groups_that_run_the_worst_is_told() -> None:
    scene = Scene(REPLICAS)
    lost = changed(scene.pods(READY, index=0), 0, ready=False, ready_at=LOST)
    found = evaluate(scene.snapshot([*lost, *scene.pods(RUNNING, index=1)]), NOW)
    assert [group.phase for group in found.groups] == [P.DEGRADED, P.STARTING]
    assert (found.phase, found.since) == (P.DEGRADED, LOST)


def test_a_jobset_without_pods_waits_for_nothing() -> None:
    scene = Scene(jobset("js", rj("w", 0, 4, 4, mode="Gang")))
    found = evaluate(scene.snapshot(), NOW)
    assert (found.phase, found.counts.wanted) == (P.PENDING, 0)


def test_a_jobset_on_its_way_out_is_not_degraded() -> None:
    stays = Scene(WHOLE)
    ready = evaluate(stays.snapshot(stays.pods(READY)), NOW)
    scene = Scene(WHOLE, deleting=True)
    pods = changed(stays.pods(READY), 0, deleting=True)
    found = evaluate(scene.snapshot(pods, jobs=stays.jobs(), groups=stays.groups()), NOW, ready)
    assert (found.phase, found.counts.stranded) == (P.WAITING_FOR_PODS, 0)


def test_a_gang_whose_index_failed_for_good_is_ready_with_the_others() -> None:
    scene = Scene(jobset("js", rj("w", 1, 4, 4), mode="Gang", uid="u"))
    jobs = scene.jobs(failed=2, failed_indexes=1)
    found = evaluate(scene.snapshot(scene.pods(READY, count=3), jobs=jobs), NOW)
    assert (found.phase, found.counts.wanted, found.counts.ready) == (GangPhase.READY, 3, 3)


@levels
@each("state", [PENDING, REFUSED, READY])
def test_groups_of_the_next_attempt_are_no_gangs(raw: dict[str, Any], state: Changes) -> None:
    scene = Scene({**raw, "spec": {**raw["spec"], "failurePolicy": {"maxRestarts": 1}}})
    groups = scene.groups(initially_scheduled())
    spares = {
        each.name: replace(groups[next(iter(groups))], name=each.name, scheduled=None)
        for each in spare_groups(scene.plan)
    }
    assert len(spares) == len(groups)
    with_spares = evaluate(scene.snapshot(scene.pods(state), groups={**groups, **spares}), NOW)
    assert with_spares == evaluate(scene.snapshot(scene.pods(state), groups=groups), NOW)
