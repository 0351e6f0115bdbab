"""The life of a gang, step by step: as it is followed, and as a controller sees it that has just been started."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from gangctl.api.scheduling import Generation
from gangctl.gang.reasons import Reason
from gangctl.readiness.evaluate import COUNTING_SECONDS, evaluate
from gangctl.readiness.facts import PodFacts, Snapshot
from gangctl.readiness.result import PODS, GangPhase, Readiness
from gangctl.readiness.seconds import held
from tests.gang.pipeline import GENERATIONS
from tests.jobsets import jobset, rj
from tests.kueue.workloads import no, yes
from tests.readiness.snapshots import (
    BORN,
    CREATED,
    NOW,
    PENDING,
    PLACED,
    PLACED_AT,
    READY,
    READY_AT,
    RUNNING,
    Context,
    changed,
    condition,
    initially_scheduled,
    rfc3339,
    waits_in,
)

P = GangPhase
RAW = jobset("js", rj("a", 1, 2, 2), rj("b", 2, 3, 3), mode="Gang")


@dataclass
class Followed:
    """A controller that follows one JobSet, and beside it one that is started anew before every step."""

    before: Readiness | None = None
    phases: list[GangPhase] = field(default_factory=list)

    def see(self, snapshot: Snapshot, now: int, phase: GangPhase, since: int) -> Readiness:
        """Both have the same readiness at a step."""
        anew = evaluate(snapshot, now)
        self.before = evaluate(snapshot, now, self.before)
        assert (self.before.phase, self.before.since) == (phase, since)
        assert (anew.phase, anew.since) == (phase, since), "a restart of gangctl changes the answer"
        assert anew.counts == self.before.counts
        self.phases.append(phase)
        return self.before


def _renewed(pods: Sequence[PodFacts], which: int, at: int, **state: Any) -> list[PodFacts]:
    """With one pod replaced by one that is made at that time."""
    fields = {"phase": "Pending", "node": "", "placed_at": 0, "ready": False, "ready_at": 0, **state}
    return changed(pods, which, name="js-a-0-x", created=at, **fields)


@pytest.mark.parametrize("generation", GENERATIONS)
def test_a_gang_goes_through_the_phases_from_creation_to_readiness(generation: Generation) -> None:
    followed = Followed()
    queued = Context(RAW, generation, queue="main", suspend=True)
    waiting = waits_in(QuotaReserved=no("Pending"))
    followed.see(queued.snapshot(jobs=[], groups={}, workload=None, queue=waiting), CREATED + 1, P.QUEUED, CREATED)

    admitted_at = CREATED + 30
    context = Context(RAW, generation, queue="main", end=condition("Suspended", admitted_at + 1, status=False))
    queue = waits_in(Admitted=yes(since=rfc3339(admitted_at)))
    nothing = context.snapshot(jobs=[], groups={}, workload=None, queue=queue)
    followed.see(nothing, admitted_at + 1, P.PENDING, admitted_at)
    followed.see(context.snapshot(queue=queue), admitted_at + 2, P.WAITING_FOR_PODS, admitted_at)
    followed.see(context.snapshot(context.pods()[:7], queue=queue), BORN, P.WAITING_FOR_PODS, admitted_at)
    followed.see(context.snapshot(context.pods(), queue=queue), BORN + 1, P.SCHEDULING, BORN)

    groups = context.groups(initially_scheduled())
    some = [*context.pods(PLACED)[:3], *context.pods(PENDING)[3:]]
    followed.see(context.snapshot(some, queue=queue), PLACED_AT, P.PARTIALLY_PLACED, PLACED_AT)

    def step(pods: list[PodFacts]) -> Snapshot:
        return context.snapshot(pods, queue=queue, groups=groups)

    placed = followed.see(step(context.pods(RUNNING)), PLACED_AT + 1, P.STARTING, PLACED_AT)
    assert (placed.placed_at, placed.first_ready_at, placed.ready_at) == (PLACED_AT, 0, 0)
    first = changed(context.pods(RUNNING), 0, ready=True, ready_at=READY_AT - 9)
    followed.see(step(first), READY_AT - 9, P.PARTIALLY_READY, READY_AT - 9)
    ready_pods = changed(context.pods(READY), 0, ready_at=READY_AT - 9)
    ready = followed.see(step(ready_pods), READY_AT, P.READY, READY_AT)
    assert (ready.placed_at, ready.first_ready_at, ready.ready_at) == (PLACED_AT, READY_AT - 9, READY_AT)
    assert (ready.been_ready, ready.causes, ready.look_again) == (True, (), None)


@pytest.mark.parametrize("generation", GENERATIONS)
def test_a_gang_goes_through_the_phases_of_a_loss_and_a_restart(generation: Generation) -> None:
    followed = Followed()
    context = Context(RAW, generation)
    groups = context.groups(initially_scheduled())
    ready_pods = context.pods(READY)

    def step(pods: list[PodFacts]) -> Snapshot:
        return context.snapshot(pods, groups=groups)

    followed.see(step(ready_pods), READY_AT, P.READY, READY_AT)
    lost = READY_AT + 100
    followed.see(step(changed(ready_pods, 0, ready=False, ready_at=lost)), lost + 1, P.DEGRADED, lost)
    leaving = changed(ready_pods, 0, ready=False, ready_at=lost, deleting=True)
    followed.see(step(leaving), lost + 2, P.DEGRADED, lost)
    gone = step(_renewed(ready_pods, 0, lost + 3))
    assert evaluate(gone, lost + 3).phase is P.DEGRADED
    followed.before = evaluate(gone, lost + 3, followed.before)
    assert (followed.before.phase, followed.before.since) == (P.DEGRADED, lost)
    again = {**READY, "placed_at": lost + 4, "ready_at": lost + 20}
    whole = _renewed(ready_pods, 0, lost + 3, **again)
    back = followed.see(step(whole), lost + 20, P.READY, lost + 20)
    assert (back.placed_at, back.ready_at) == (PLACED_AT, READY_AT), "of the first time"

    restarted = lost + 40
    anew = Context(RAW, generation, restarts=1, end=condition("RestartingJobSet", restarted))
    old = [replace(pod, deleting=True) for pod in whole]
    leave = anew.snapshot(old, jobs=context.jobs(deleting=True), groups=groups)
    left = followed.see(leave, restarted + 1, P.RESTARTING, restarted)
    assert (left.attempt, left.been_ready, left.placed_at, left.ready_at) == (1, False, 0, 0)
    new = anew.pods(RUNNING, created=restarted + 10, placed_at=restarted + 20)
    up = anew.snapshot(new, groups=groups)
    followed.see(up, restarted + 20, P.STARTING, restarted + 20)
    new = anew.pods(READY, created=restarted + 10, placed_at=restarted + 20, ready_at=restarted + 30)
    followed.see(anew.snapshot(new, groups=groups), restarted + 30, P.READY, restarted + 30)

    over = Context(RAW, generation, restarts=1, end=condition("Completed", NOW))
    done = over.snapshot(jobs=over.jobs(succeeded=3, complete=True), groups={}, workload=None)
    end = followed.see(done, NOW, P.SUCCEEDED, NOW)
    assert end.ready_at == restarted + 30
    assert followed.phases[-1].over


def test_an_eviction_resets_the_readiness() -> None:
    context = Context(RAW, queue="main")
    first = waits_in(Admitted=yes(since=rfc3339(CREATED)))
    groups = context.groups(initially_scheduled())
    ready = evaluate(context.snapshot(context.pods(READY), queue=first, groups=groups), NOW - 200)
    evicted = Context(RAW, queue="main", suspend=True, end=condition("Suspended", NOW - 190))
    leaving = context.pods(READY, deleting=True)
    waits = evaluate(evicted.snapshot(leaving, queue=waits_in(), groups=groups), NOW - 180, ready)
    assert (waits.phase, waits.since, waits.been_ready, waits.ready_at) == (P.QUEUED, NOW - 190, False, 0)
    second = waits_in(Admitted=yes(since=rfc3339(NOW - 90)))
    new = context.pods(PENDING, created=NOW - 80)
    for before in (ready, waits, None):
        found = evaluate(context.snapshot(new, queue=second, groups=groups), NOW, before)
        assert (found.phase, found.since, found.placed_at) == (P.SCHEDULING, NOW - 80, 0)
        assert not found.been_ready


@pytest.mark.parametrize(
    ("reason", "evicted"),
    [
        ("Preempted", Reason.PREEMPTED),
        ("PodsReadyTimeout", Reason.EVICTED_AS_NOT_READY),
        ("ClusterQueueStopped", Reason.QUEUE_BLOCKED),
        ("NodeFailures", Reason.NODE_LOST),
        ("NextVersion", None),
    ],
)
def test_why_kueue_took_a_gang_is_known_while_it_waits(reason: str, evicted: Reason | None) -> None:
    """Kueue frees its quota within a second, so that it only waits for some by the time gangctl sees it."""
    context = Context(RAW, queue="main", suspend=True)
    gone = waits_in(Evicted=yes(reason), QuotaReserved=no("Pending"))
    assert evaluate(context.snapshot(queue=gone), NOW).evicted is evicted
    again = waits_in(Evicted=no("QuotaReserved"), QuotaReserved=yes(), Admitted=yes())
    assert evaluate(context.snapshot(queue=again), NOW).evicted is None
    assert evaluate(Context(RAW, queue="main").snapshot(queue=gone), NOW).evicted is None


def test_a_start_after_an_eviction_is_no_restart() -> None:
    """The JobSet restarted once, was ready again, and is evicted and admitted later."""
    context = Context(RAW, queue="main", restarts=1)
    first, second = (waits_in(Admitted=yes(since=rfc3339(at))) for at in (CREATED, NOW - 90))
    begun = evaluate(context.snapshot(context.pods(RUNNING), queue=first), PLACED_AT)
    assert held(begun)[PODS].restarting == 8
    ready = evaluate(context.snapshot(context.pods(READY), queue=first), READY_AT, begun)
    suspended = Context(RAW, queue="main", restarts=1, suspend=True)
    waits = evaluate(suspended.snapshot(suspended.pods(READY, deleting=True), queue=waits_in()), NOW - 190, ready)
    pods = context.pods(RUNNING, created=NOW - 80, placed_at=NOW - 70)
    again = evaluate(context.snapshot(pods, queue=second), NOW - 60, waits)
    for stood in (waits, again):
        assert (stood.been_ready, held(stood)[PODS].incomplete, held(stood)[PODS].restarting) == (False, 8, 0)


def test_a_restart_that_was_evicted_begins_with_its_next_admission() -> None:
    context = Context(RAW, queue="main", restarts=1, end=condition("RestartingJobSet", CREATED + 60))
    found = evaluate(context.snapshot(queue=waits_in(Admitted=yes(since=rfc3339(NOW - 90)))), NOW)
    assert (found.phase, found.since) == (P.WAITING_FOR_PODS, NOW - 90)


@pytest.mark.parametrize("stamped", [True, False])
def test_a_recreated_jobset_starts_with_new_readiness(*, stamped: bool) -> None:
    raws = [{**RAW, "metadata": {**RAW["metadata"], "uid": uid}} for uid in ("old", "new")]
    old, new = (Context(raw, stamped=stamped) for raw in raws)
    ready = evaluate(old.snapshot(old.pods(READY)), NOW)
    early = old.pods(READY, deleting=True, created=CREATED - 1)
    found = evaluate(new.snapshot([*early, *new.pods(PENDING)]), NOW, ready)
    assert (found.phase, found.been_ready, found.ready_at) == (P.SCHEDULING, False, 0)


def test_a_gang_whose_pods_succeed_is_not_degraded() -> None:
    """Pods that succeed are gone from what is followed a moment before their Jobs count them."""
    context = Context(RAW)
    pods = context.pods(READY)
    before = evaluate(context.snapshot(pods), NOW)
    one = evaluate(context.snapshot(pods[1:]), NOW, before)
    assert (one.phase, one.since, one.counts.ready, one.counts.wanted) == (P.READY, READY_AT, 7, 8)
    assert one.look_again == NOW + COUNTING_SECONDS
    jobs = [*context.jobs(only="a", succeeded=1), *context.jobs(only="b")]
    counted = evaluate(context.snapshot(pods[1:], jobs=jobs), NOW + 2, one)
    assert (counted.phase, counted.look_again) == (P.READY, None)
    two = evaluate(context.snapshot(pods[2:], jobs=jobs), NOW + 4, counted)
    assert (two.phase, two.look_again) == (P.READY, NOW + 4 + COUNTING_SECONDS)
    late = evaluate(context.snapshot(pods[2:], jobs=jobs), NOW + 4 + COUNTING_SECONDS, two)
    assert (late.phase, late.look_again is None or late.look_again > NOW + 4 + COUNTING_SECONDS) == (P.DEGRADED, True)


def test_a_large_gang_whose_pods_succeed_together_is_not_degraded_while_they_are_counted() -> None:
    """The Job controller counts 500 pods at once, and the next ones when it has taken off the finalizers of these."""
    context = Context(jobset("js", rj("a", 1, 2000, 2000), mode="Gang"))
    ready = evaluate(context.snapshot(context.pods(READY)), NOW)
    ended = evaluate(context.snapshot(), NOW, ready)
    found = ended
    for seconds, succeeded in ((2, 500), (27, 500), (28, 1000), (53, 1000), (54, 1500), (79, 1500)):
        found = evaluate(context.snapshot(jobs=context.jobs(succeeded=succeeded)), NOW + seconds, found)
        assert (found.phase, found.counts.wanted) == (P.READY, 2000 - succeeded)
    assert evaluate(context.snapshot(jobs=context.jobs(succeeded=1500)), NOW + 600, found).phase is P.DEGRADED
    # Not where pods have failed since.
    failed = context.snapshot(jobs=context.jobs(failed=1))
    noticed = evaluate(failed, NOW + 30, ended)
    assert evaluate(failed, NOW + 30 + COUNTING_SECONDS, noticed).phase is P.DEGRADED
    before = evaluate(context.snapshot(context.pods(READY), jobs=context.jobs(failed=1)), NOW)
    earlier = evaluate(failed, NOW, before)
    assert evaluate(failed, NOW + 30, earlier).phase is P.READY


@pytest.mark.parametrize("how", ["terminating", "not ready", "replaced"])
def test_a_lost_pod_degrades_the_gang_at_once(how: str) -> None:
    context = Context(RAW)
    pods = context.pods(READY)
    before = evaluate(context.snapshot(pods), NOW)
    after = {
        "terminating": changed(pods, 0, deleting=True),
        "not ready": changed(pods, 0, ready=False, ready_at=NOW),
        "replaced": _renewed(pods, 0, NOW),
    }
    assert evaluate(context.snapshot(after[how]), NOW, before).phase is P.DEGRADED


@pytest.mark.parametrize("generation", GENERATIONS)
def test_a_pod_lost_before_readiness_does_not_degrade_the_gang(generation: Generation) -> None:
    context = Context(RAW, generation)
    groups = context.groups(initially_scheduled())
    pods = _renewed(context.pods(RUNNING, ready_at=PLACED_AT + 1), 0, PLACED_AT + 50)
    found = evaluate(context.snapshot(pods, groups=groups), NOW)
    assert (found.phase, found.been_ready) == (P.PARTIALLY_PLACED, False)
    late = changed(_renewed(context.pods(READY), 0, PLACED_AT + 50), 1, ready_at=PLACED_AT + 99)
    assert evaluate(context.snapshot(late, groups=groups), NOW).phase is P.PARTIALLY_PLACED


@pytest.mark.parametrize(("after", "phase"), [(1, P.STARTING), (10, P.DEGRADED)])
def test_pods_whose_readiness_changed_show_that_the_gang_was_ready(after: int, phase: GangPhase) -> None:
    """The kubelet writes startTime and its first condition Ready at once."""
    context = Context(RAW)
    pods = context.pods(RUNNING, started_at=PLACED_AT, ready_at=PLACED_AT + after)
    assert evaluate(context.snapshot(pods), NOW).phase is phase


def test_a_deleted_pod_is_missing_for_a_restarted_controller() -> None:
    context = Context(RAW)
    pods = context.pods(READY)[1:]
    found = evaluate(context.snapshot(pods, groups=context.groups(initially_scheduled())), NOW)
    assert found.phase is P.DEGRADED
    scattered = Context(RAW, None)
    assert evaluate(scattered.snapshot(scattered.pods(READY)[1:]), NOW).phase is P.WAITING_FOR_PODS
    failed = scattered.snapshot(scattered.pods(READY)[1:], jobs=scattered.jobs(failed=1))
    assert evaluate(failed, NOW).phase is P.DEGRADED


def test_a_stage_that_ends_before_it_is_ready_does_not_hide_when_the_rest_was() -> None:
    stages = jobset("js", rj("a", 1, 2, 2, mode="Gang"), rj("b", 1, 4, 4, mode="Gang", depends_on="a"))
    context = Context(stages)
    first, done = context.jobs(only="a"), context.jobs(only="a", succeeded=2, complete=True)
    placed = evaluate(context.snapshot(context.pods(PLACED, only="a"), jobs=first), PLACED_AT)
    over = evaluate(context.snapshot(jobs=done), PLACED_AT + 5, placed)
    pods = context.pods(READY, only="b", placed_at=PLACED_AT + 9)
    ready = evaluate(context.snapshot(pods, jobs=[*done, *context.jobs(only="b")]), READY_AT, over)
    assert (ready.phase, ready.placed_at, ready.ready_at) == (P.READY, PLACED_AT + 9, READY_AT)


def test_a_finished_gang_keeps_its_times_without_its_workload() -> None:
    context = Context(RAW, queue="main")
    queue = waits_in(Admitted=yes(since=rfc3339(CREATED + 9)))
    ready = evaluate(context.snapshot(context.pods(READY), queue=queue), READY_AT)
    over = Context(RAW, queue="main", end=condition("Completed", NOW))
    found = evaluate(over.snapshot(jobs=over.jobs(complete=True)), NOW, ready)
    assert (found.phase, found.ready_at) == (P.SUCCEEDED, READY_AT)


def test_before_jobset_0_12_the_time_of_a_restart_is_remembered() -> None:
    """Before JobSet 0.12 no condition has the start of a restart."""
    first = Context(RAW)
    ready = evaluate(first.snapshot(first.pods(READY)), NOW - 100)
    context = Context(RAW, restarts=1)
    failed = changed(first.pods(READY), 0, ready=False, ready_at=NOW - 90)
    begun = evaluate(context.snapshot(failed, jobs=first.jobs(deleting=True)), NOW - 80, ready)
    assert (begun.phase, begun.since) == (P.RESTARTING, NOW - 90)
    leaving = [pod for pod in failed if pod.ready]
    still = evaluate(context.snapshot(leaving, jobs=first.jobs(deleting=True)), NOW - 70, begun)
    assert (still.phase, still.since) == (P.RESTARTING, NOW - 90)
    waits = evaluate(context.snapshot(), NOW - 60, still)
    assert (waits.phase, waits.since) == (P.WAITING_FOR_PODS, NOW - 60)
    assert evaluate(context.snapshot(), NOW, waits).since == NOW - 60
