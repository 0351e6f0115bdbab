"""Properties of readiness for any snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from gangctl.api.jobset import read_jobset
from gangctl.api.pods import FINISHED
from gangctl.api.scheduling import ApiState, Generation, Scheduled
from gangctl.gang.desired import JobProgress, Lifecycle, assess
from gangctl.gang.resolve import ClusterRules
from gangctl.readiness.evaluate import COUNTING_SECONDS, ORDER, evaluate
from gangctl.readiness.facts import PodFacts, Snapshot
from gangctl.readiness.report import gang_object
from gangctl.readiness.result import Counts, GangPhase
from tests.gang.pipeline import GENERATIONS
from tests.jobsets import jobset, rj
from tests.kueue.workloads import no, yes
from tests.readiness.snapshots import (
    CREATED,
    GATED,
    NOW,
    PENDING,
    PLACED,
    READY,
    REFUSED,
    RUNNING,
    Context,
    changed,
    condition,
    initially_scheduled,
    rfc3339,
    waits_in,
)
from tests.strategies import PROPERTY, gangs, hostile_jobsets, rarely

RAWS = (
    jobset("js", rj("a", 1, 2, 2), rj("b", 2, 3, 3), mode="Gang"),
    jobset("js", rj("a", 1, 2, 2, mode="Gang"), rj("b", 2, 3, 3, mode="Gang")),
    jobset("js", rj("b", 3, 2, 2, mode="ReplicatedGang")),
    jobset("js", rj("a", 1, 2, 2), rj("b", 1, 2, 2), mode="Gang", startupPolicy={"startupPolicyOrder": "InOrder"}),
    jobset("js", rj("free", 1, 2, 2), rj("b", 1, 3, 3, mode="Gang")),
)
KNOWN = st.sampled_from(RAWS)
STATES = (PENDING, GATED, REFUSED, PLACED, RUNNING, READY)
ENDS = (None, condition("Completed", NOW - 5), condition("Failed", NOW - 5), condition("Suspended", NOW - 5))
SAID = (None, initially_scheduled(), Scheduled(status=False, reason="Unschedulable", since=rfc3339(NOW - 50)))
times = st.integers(CREATED - 10, NOW)
pods_changes = st.fixed_dictionaries(
    {},
    optional={
        "created": times,
        "placed_at": times,
        "ready_at": times,
        "refused_at": times,
        "deleting": st.just(True),
        "attempt": st.integers(0, 2),
        "phase": st.sampled_from(["Pending", "Running", "Succeeded", "Failed", ""]),
        "restarts": st.integers(0, 3),
        "node": st.sampled_from(["", "n0"]),
        "group": st.sampled_from(["", "other", "a/b/c"]),
        "job_index": st.integers(0, 3),
    },
)


@st.composite
def _pods(draw: st.DrawFn, context: Context) -> list[PodFacts]:
    pods: list[PodFacts] = []
    for job in context.planned():
        for number in range(draw(st.integers(0, job.pods))):
            pod = context.pod(job, number, draw(st.sampled_from(STATES)))
            pods.append(replace(pod, **draw(rarely(pods_changes, {}))))
    return pods


@st.composite
def contexts(draw: st.DrawFn, raws: st.SearchStrategy[dict[str, Any]] = KNOWN) -> tuple[Context, Snapshot]:
    """A JobSet anywhere in its life."""
    generation: Generation | None = draw(st.sampled_from([*GENERATIONS, None]))
    context = Context(
        draw(raws),
        generation,
        restarts=draw(st.integers(0, 1)),
        suspend=draw(rarely(st.just(True), False)),
        end=draw(rarely(st.sampled_from(ENDS), None)),
        queue=draw(st.sampled_from(["", "main"])),
        stamped=draw(rarely(st.just(False), True)),
        deleting=draw(rarely(st.just(True), False)),
    )
    reported = draw(
        st.sampled_from([waits_in(), waits_in(Admitted=yes()), waits_in(Admitted=yes(), PodsReady=no("x"))])
    )
    return context, context.snapshot(
        draw(_pods(context)),
        jobs=draw(_jobs(context)),
        groups=draw(st.sampled_from([{}, context.groups(draw(st.sampled_from(SAID)))])),
        queue=draw(st.sampled_from([None, reported])) if context.jobset.queue else None,
    )


@st.composite
def _jobs(draw: st.DrawFn, context: Context) -> list[JobProgress]:
    jobs = []
    for job in context.jobs():
        match draw(st.integers(0, 5)):
            case 0:
                continue
            case 1:
                jobs.append(replace(job, succeeded=1))
            case 2:
                jobs.append(replace(job, succeeded=3, complete=True))
            case 3:
                others = (replace(job, deleting=True), replace(job, attempt=0), replace(job, failed=1))
                jobs.append(draw(st.sampled_from([*others, replace(job, jobset_uid="x")])))
            case _:
                jobs.append(job)
    return jobs


def consistent(counts: Counts) -> None:
    assert 0 <= counts.ready <= counts.placed <= counts.created
    assert counts.stranded in {0, counts.placed}
    assert min(counts.desired, counts.wanted, counts.finished) >= 0


@PROPERTY
@given(contexts())
def test_counts_are_consistent(drawn: tuple[Context, Snapshot]) -> None:
    context, snapshot = drawn
    found = evaluate(snapshot, NOW)
    for group in found.groups:
        consistent(group.counts)
        if group.phase is GangPhase.READY:
            assert group.counts.ready >= group.counts.wanted > 0
            assert group.been_ready
        if group.phase is GangPhase.PARTIALLY_PLACED:
            assert group.counts.placed > 0
            assert group.counts.stranded == (0 if context.jobset.deleting else group.counts.placed)
        assert group.since > 0
    assert found.counts == sum((group.counts for group in found.groups), Counts())
    assert found.phase in {group.phase for group in found.groups} | {GangPhase.PARTIALLY_READY, GangPhase.FAILED}
    assert not (found.phase.settled and found.causes)


@PROPERTY
@given(contexts(), st.randoms(use_true_random=False))
def test_readiness_does_not_depend_on_the_order_of_objects(drawn: tuple[Context, Snapshot], random: Any) -> None:
    _, snapshot = drawn
    pods, jobs = list(snapshot.pods), list(snapshot.jobs)
    random.shuffle(pods)
    random.shuffle(jobs)
    other = evaluate(replace(snapshot, pods=pods, jobs=jobs), NOW)
    one = evaluate(snapshot, NOW)
    assert replace(other, causes=()) == replace(one, causes=())
    assert [cause.reason for cause in other.causes] == [cause.reason for cause in one.causes]


@PROPERTY
@given(contexts(), st.data())
def test_a_pod_that_becomes_ready_never_worsens_the_phase(drawn: tuple[Context, Snapshot], data: st.DataObject) -> None:
    _, snapshot = drawn
    alive = [pod.phase not in FINISHED and not pod.deleting for pod in snapshot.pods]
    waiting = [n for n, pod in enumerate(snapshot.pods) if alive[n] and not pod.ready]
    assume(waiting)
    which = data.draw(st.sampled_from(waiting))
    before = evaluate(snapshot, NOW)
    fields = {**READY, "gates": (), "refused": "", "ready_at": NOW, "placed_at": snapshot.pods[which].placed_at or NOW}
    after = evaluate(replace(snapshot, pods=changed(snapshot.pods, which, **fields)), NOW, before)
    for old, new in zip(before.groups, after.groups, strict=True):
        assert ORDER.index(new.phase) >= ORDER.index(old.phase)
        assert new.counts.ready >= old.counts.ready
    assert ORDER.index(after.phase) >= ORDER.index(before.phase)


@PROPERTY
@given(contexts(), st.integers(0, 600))
def test_evaluating_again_changes_nothing(drawn: tuple[Context, Snapshot], later: int) -> None:
    _, snapshot = drawn
    one = evaluate(snapshot, NOW)
    two = evaluate(snapshot, NOW + later, one)
    three = evaluate(snapshot, NOW + later + COUNTING_SECONDS, two)
    for found in (two, three):
        assert (found.phase, found.since, found.counts) == (one.phase, one.since, one.counts)
        assert found.groups == one.groups
    assert one == evaluate(snapshot, NOW)


@PROPERTY
@given(contexts(gangs()))
def test_every_gang_has_a_readiness(drawn: tuple[Context, Snapshot]) -> None:
    _, snapshot = drawn
    found = evaluate(snapshot, NOW)
    for group in found.groups:
        consistent(group.counts)
    assert gang_object(found)["status"]["phase"] == found.phase.value
    assert replace(evaluate(snapshot, NOW + 1, found), causes=(), look_again=None).groups == found.groups


def _hostile_pods(uid: str) -> st.SearchStrategy[Sequence[PodFacts]]:
    numbers = st.integers(-(2**40), 2**40)
    moments = st.one_of(st.just(0), st.integers(0, 253_402_300_799))
    return st.lists(
        st.builds(
            PodFacts,
            namespace=st.sampled_from(["", "t"]),
            name=st.text(max_size=3),
            jobset=st.sampled_from(["", "js", uid]),
            replicated_job=st.text("ab", max_size=2),
            job_index=numbers,
            attempt=numbers,
            group=st.text("a/b", max_size=5),
            scheduler=st.text(max_size=3),
            priority=numbers,
            created=moments,
            deleting=st.booleans(),
            phase=st.text(max_size=3),
            gates=st.lists(st.text(max_size=3), max_size=2).map(tuple),
            node=st.sampled_from(["", "n0"]),
            placed_at=moments,
            refused=st.sampled_from(["", "Unschedulable"]),
            refused_at=moments,
            ready=st.booleans(),
            ready_at=moments,
            restarts=numbers,
        ),
        max_size=6,
    )


@PROPERTY
@given(hostile_jobsets(), st.sampled_from(Lifecycle), st.sampled_from([*GENERATIONS, None]), st.data())
def test_hostile_objects_raise_no_error(
    raw: dict[str, Any], suspended: Lifecycle, generation: Generation | None, data: st.DataObject
) -> None:
    stored, _ = read_jobset(raw)
    assessment = assess(stored, ClusterRules(generation or GENERATIONS[-1]), suspended)
    pods = data.draw(_hostile_pods(stored.uid))
    pods = [replace(pod, jobset=stored.name, namespace=stored.namespace) for pod in pods]
    names = [each.name for each in assessment.plan.groups] if assessment.plan is not None else []
    pods += [replace(pod, group=data.draw(st.sampled_from(names))) for pod in pods if names]
    snapshot = Snapshot(stored, assessment, [], pods, {}, None, ApiState(generation))
    found = evaluate(snapshot, NOW)
    for group in found.groups:
        consistent(group.counts)
    gang_object(evaluate(snapshot, NOW + 0.5, found))
