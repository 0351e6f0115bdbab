"""The life of one gang in random worlds, in which each of the controllers that move it may stop: what gangctl says.

Kueue admits it, JobSet makes and resumes its Job, the Job controller makes its pods, the scheduler places them, and the
kubelet starts and ends them. What may be said in it is decided here by the world itself, and not by what gangctl reads.

1. Where all controllers run, only what a user asked for and what is full keeps a gang.
2. A gang that waits for good is blocked in the end, and not by a controller that runs.
3. One that runs has no cause.
4. A gangctl that is started anew says the same of a world in which nothing happens any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from random import Random
from typing import Any, Final, NamedTuple

from gangctl.api.scheduling import Scheduled
from gangctl.gang.reasons import Reason
from gangctl.kueue.blocked import JobFacts, stuck_at, stuck_workload, without_workload
from gangctl.kueue.objects import QueuedWorkload
from gangctl.kueue.queues import QueueFacts
from gangctl.readiness.causes import jobs, pods, queue, scheduler, starting
from gangctl.readiness.causes.context import Context as Causes
from gangctl.readiness.evaluate import evaluate
from gangctl.readiness.facts import NodeFacts, PodFacts, Snapshot
from gangctl.readiness.result import Readiness
from tests.gang.pipeline import read
from tests.jobsets import jobset, rj
from tests.kueue.workloads import no, queued, yes
from tests.readiness.snapshots import CREATED, REFUSAL, Context, condition, rfc3339
from tests.search.mutants import Patch
from tests.search.walks import Model, Walk, blocking

SIZE: Final = 2
ACTORS: Final = ("kueue", "jobset", "job", "scheduler", "kubelet")
_QUICK: Final = 15
"""Seconds that a controller may always take."""
_LOST: Final = 40
"""Seconds after which a node that says nothing counts as lost (node-monitor-grace-period)."""
_TOLERATED: Final = 300
"""Seconds for which pods tolerate that."""
_SETTLED: Final = (1, 10, 20, 60, 300, 600, 600, 1200, 1200)


class Pod(NamedTuple):
    """One pod; times are Unix seconds, 0 for what has not happened."""

    attempt: int
    made: int
    placed: int = 0
    ready: int = 0
    refused_at: int = 0
    turned: int = 0
    """When it was not ready any more, because its node is lost."""
    deleted: int = 0


class Job(NamedTuple):
    """Its Job."""

    attempt: int
    suspended: bool
    failed: bool = False
    deleted: bool = False


class State(NamedTuple):
    """Everything that changes."""

    now: int
    queue: bool
    """Whether it is in a queue of Kueue."""
    suspend: bool
    runs: frozenset[str] = frozenset(ACTORS)
    silent: int = 0
    """Since when the kubelet does not run."""
    lost: int = 0
    """Since when its node counts as lost, which is kube-controller-manager's to say, as the Job controller's work."""
    stay: bool = False
    """Whether pods on nodes do not end: a finalizer, a process that cannot be killed."""
    room: bool = True
    quota: bool = True
    workload: str = ""
    """Kueue's: empty without one, else waits, admitted or evicted."""
    at: int = 0
    """Since when that is so."""
    evicted: int = 0
    stopped: tuple[bool, int] | None = None
    """JobSet's condition Suspended, and since when."""
    attempt: int = 0
    restarting: tuple[bool, int] | None = None
    """JobSet's condition RestartingJobSet, which is true until all of its Jobs are ready, and since when."""
    active: bool = False
    """JobSet's count of its Jobs that have pods, by which Kueue knows whether it still runs."""
    changed: int = CREATED
    """When any of its objects changed for the last time."""
    job: Job | None = None
    pods: tuple[Pod, ...] = ()
    scheduled: Scheduled | None = None

    @property
    def ready(self) -> bool:
        """All pods of it run."""
        own = [pod for pod in self.pods if pod.attempt == self.attempt and not pod.deleted]
        return len(own) == SIZE and all(pod.ready and not pod.turned for pod in own)

    @property
    def settled(self) -> bool:
        """What JobSet and its Job do is what is asked of them."""
        return self.job is not None and self.job.suspended is self.suspend and not self.job.failed


def _kueue(state: State) -> State:
    if not state.queue:
        return state
    if not state.workload:
        return state._replace(workload="waits", at=state.now)
    if state.workload == "evicted" and not state.active:
        state = state._replace(workload="waits", at=state.now)
    if state.workload == "waits" and state.quota:
        return state._replace(workload="admitted", at=state.now, suspend=False)
    if state.workload == "admitted" and not state.quota:
        return state._replace(workload="evicted", at=state.now, evicted=state.now, suspend=True)
    return state


def _jobset(state: State) -> State:
    if state.job is None:
        state = state._replace(job=Job(state.attempt, state.suspend))
    job = state.job
    assert job is not None
    if job.failed:
        # Its pods and its group are of an attempt: those of the next one have other names.
        state = state._replace(attempt=state.attempt + 1, restarting=(True, state.now), scheduled=None)
        state = state._replace(job=job._replace(failed=False, deleted=True))
    elif not job.deleted and job.suspended is not state.suspend:
        state = state._replace(job=job._replace(suspended=state.suspend), stopped=(state.suspend, state.now))
    state = state._replace(active=bool(state.pods))
    if state.restarting is not None and state.restarting[0] and state.ready:
        state = state._replace(restarting=(False, state.now))
    if state.suspend and state.stopped is None:
        state = state._replace(stopped=(True, state.now))
    return state


def _nodes(state: State) -> State:
    """A node that says nothing is lost after a while, and its pods are deleted later, by its taint."""
    quiet = state.now - state.silent if state.silent else 0
    if quiet >= _LOST:
        pods = tuple(pod._replace(turned=state.now) if pod.ready and not pod.turned else pod for pod in state.pods)
        state = state._replace(lost=state.lost or state.now, pods=pods)
    if state.lost and state.now - state.lost >= _TOLERATED:
        pods = tuple(pod._replace(deleted=state.now) if pod.placed and not pod.deleted else pod for pod in state.pods)
        state = state._replace(pods=pods)
    return state


def _job(state: State) -> State:
    state, job = _nodes(state), state.job
    if job is None:
        return state
    if job.deleted or job.suspended or job.failed:
        pods = tuple(pod if pod.deleted else pod._replace(deleted=state.now) for pod in state.pods)
        # A pod without a node is gone at once.
        pods = tuple(pod for pod in pods if pod.placed)
        return state._replace(pods=pods, job=None if job.deleted and not pods else job)
    missing = SIZE - sum(not pod.deleted for pod in state.pods)
    return state._replace(pods=(*state.pods, *(Pod(job.attempt, state.now) for _ in range(missing))))


def _scheduler(state: State) -> State:
    left = [pod for pod in state.pods if not pod.placed and not pod.deleted]
    if not left or sum(not pod.deleted for pod in state.pods) < SIZE:
        return state
    if state.room and not state.lost:
        scheduled = state.scheduled
        if scheduled is None or not scheduled.status:
            scheduled = Scheduled(True, "Scheduled", "", rfc3339(state.now))
        pods = tuple(pod if pod not in left else pod._replace(placed=state.now, refused_at=0) for pod in state.pods)
        return state._replace(pods=pods, scheduled=scheduled)
    said = state.scheduled or Scheduled(False, "Unschedulable", "pod group is unschedulable", rfc3339(state.now))
    pods = tuple(pod if pod not in left else pod._replace(refused_at=pod.refused_at or state.now) for pod in state.pods)
    return state._replace(pods=pods, scheduled=said)


def _kubelet(state: State) -> State:
    left = [pod for pod in state.pods if state.stay or not (pod.deleted and pod.placed)]
    pods = (
        pod._replace(ready=state.now, turned=0) if pod.placed and (pod.turned or not pod.ready) else pod for pod in left
    )
    return state._replace(pods=tuple(pods), lost=0)


_DO: Final = {"kueue": _kueue, "jobset": _jobset, "job": _job, "scheduler": _scheduler, "kubelet": _kubelet}


def settle(state: State) -> State:
    """The state after all controllers that run have done what they can."""
    before = None
    while before != state:
        before = state
        for actor in ACTORS:
            state = _DO[actor](state) if actor in state.runs else state
    return state


def first(draw: Random) -> State:
    """A JobSet that has just been created."""
    queue = draw.random() < 0.5
    runs = frozenset(actor for actor in ACTORS if draw.random() < 0.95)
    suspend = queue or draw.random() < 0.2
    silent = 0 if "kubelet" in runs else CREATED + 1
    return State(
        CREATED + 1,
        queue,
        suspend,
        runs,
        silent,
        stay=draw.random() < 0.2,
        room=draw.random() < 0.8,
        quota=draw.random() < 0.8,
    )


_ACTIONS: Final = (
    *(f"{seconds} s pass" for seconds in (1, 30, 400)),
    *(f"{actor} stops" for actor in ACTORS),
    *(f"{actor} starts" for actor in ACTORS),
    *("room goes", "room comes", "quota goes", "quota comes"),
    *("a user suspends", "a user resumes", "a pod fails", "pods stay", "pods end"),
)


def act(state: State, action: str) -> State:
    """The state after it."""
    state = state._replace(now=state.now + 1)
    match action.split():
        case [seconds, "s", "pass"]:
            return state._replace(now=state.now + int(seconds))
        case [actor, "stops"] if actor in ACTORS:
            silent = state.silent or state.now if actor == "kubelet" else state.silent
            return state._replace(runs=state.runs - {actor}, silent=silent)
        case [actor, "starts"]:
            return state._replace(runs=state.runs | {actor}, silent=0 if actor == "kubelet" else state.silent)
        case ["pods", verb]:
            return state._replace(stay=verb == "stay")
        case ["room", verb]:
            return state._replace(room=verb == "comes")
        case ["quota", verb]:
            return state._replace(quota=verb == "comes")
        case ["a", "user", verb]:
            return state if state.queue else state._replace(suspend=verb == "suspends")
        case _:
            job = state.job
            # The Job controller sees it.
            if job is None or job.suspended or job.deleted or "job" not in state.runs or not state.ready:
                return state
            return state._replace(job=job._replace(failed=True))


@cache
def _context(
    queue: bool, suspend: bool, attempt: int, stopped: tuple[bool, int] | None, restarting: tuple[bool, int] | None
) -> Context:
    raw = jobset("js", rj("w", 1, SIZE, SIZE), mode="Gang")
    context = Context(raw, restarts=attempt, suspend=suspend, queue="main" if queue else "")
    conditions = context.raw["status"]["conditions"]
    if stopped is not None:
        conditions.append(condition("Suspended", stopped[1], status=stopped[0]))
    if restarting is not None:
        conditions.append(condition("RestartingJobSet", restarting[1], status=restarting[0]))
    context.jobset = read(context.raw)
    return context


def snapshot_of(state: State) -> Snapshot:
    """What gangctl knows of it."""
    context = _context(state.queue, state.suspend, state.attempt, state.stopped, state.restarting)
    planned = context.planned()[0]
    jobs = []
    if state.job is not None:
        job = replace(context.job(planned), attempt=state.job.attempt, deleting=state.job.deleted)
        jobs.append(replace(job, suspended=state.job.suspended, active=bool(state.pods)))
    pods = [_seen(context.pod(planned, number), number, pod) for number, pod in enumerate(state.pods)]
    groups = context.groups(state.scheduled, created=rfc3339(CREATED)) if state.queue or not state.suspend else {}
    facts = _facts(state) if state.queue else None
    nodes = {"n": NodeFacts("n", not state.lost, "NodeStatusUnknown" if state.lost else "", state.lost)}
    return context.snapshot(pods, jobs=jobs, groups=groups, queue=facts, kueue=state.queue, nodes=nodes)


def _facts(state: State) -> QueueFacts:
    workload, now = _workload(state), datetime.fromtimestamp(state.now, UTC)
    if workload is None:
        stuck = without_workload(now - datetime.fromtimestamp(CREATED, UTC), podsets=1)
        return QueueFacts("main", "", stuck=stuck)
    owner = JobFacts(pods=len(state.pods))
    stuck = stuck_workload(workload, owner, now)
    return QueueFacts("main", "cq", workload, stuck=stuck, stuck_at=stuck_at(workload, owner, None))


def _workload(state: State) -> QueuedWorkload | None:
    if not state.workload:
        return None
    since = rfc3339(state.at)
    given: dict[str, Any] = {"QuotaReserved": no("Pending", "insufficient quota for cpu", since=since)}
    if state.workload != "waits":
        given = {"QuotaReserved": yes("QuotaReserved", since=since), "Admitted": yes("Admitted", since=since)}
    if state.evicted and state.workload != "admitted":
        given["Evicted"] = yes("Preempted", "Preempted to accommodate a workload", since=rfc3339(state.evicted))
    return queued("jobset-js", created=rfc3339(CREATED), pods={"w": SIZE}, **given)


def _seen(pod: PodFacts, number: int, one: Pod) -> PodFacts:
    pod = replace(pod, name=f"js-w-0-{number}-{one.made}", created=one.made, attempt=one.attempt)
    pod = replace(pod, deleting=one.deleted > 0, deleted_at=one.deleted + 30 if one.deleted else 0)
    if one.placed:
        pod = replace(pod, node="n", placed_at=one.placed)
        started: dict[str, Any] = {"phase": "Running", "started_at": one.placed, "ready_at": one.turned or one.ready}
        return replace(pod, ready=not one.turned, **started) if one.ready else pod
    return replace(pod, refused="Unschedulable", refusal=REFUSAL, refused_at=one.refused_at) if one.refused_at else pod


def _done(state: State) -> bool:
    """Whether it runs, and nothing else is asked of it."""
    return state.ready and state.settled and not state.suspend


def wrong(state: State, readiness: Readiness) -> str:
    """What it must not say now; empty if it may."""
    if _done(state):
        return f"a gang that runs has {readiness.causes[0].reason}" if readiness.causes else ""
    stopped = (set(ACTORS) - state.runs) | ({"kubelet"} if state.stay else set())
    evicting = state.workload == "evicted"
    may = {
        Reason.SUSPENDED: state.suspend,
        Reason.WORKLOAD_MISSING: "kueue" in stopped and not state.workload,
        Reason.EVICTED_HOLDS_QUOTA: evicting and bool(stopped & {"kueue", "jobset"}),
        Reason.PREEMPTED: evicting and bool(stopped & {"jobset", "job", "kubelet"}),
        Reason.PODS_MISSING: not state.suspend and bool(stopped & {"jobset", "job"}),
        Reason.RESTARTING: bool(stopped & {"jobset", "job", "kubelet"}),
        Reason.PODS_TERMINATING: bool(stopped & {"job", "kubelet"}),
        Reason.UNSCHEDULABLE: any(pod.refused_at for pod in state.pods),
        Reason.SCHEDULER_SILENT: "scheduler" in stopped,
        Reason.STARTING: "kubelet" in stopped,
        Reason.NODE_LOST: state.lost > 0,
        Reason.NOT_READY: state.lost > 0,
    }
    return next((f"{reason} blocks" for reason in sorted(blocking(readiness)) if not may.get(reason, False)), "")


def too_soon(state: State, reasons: set[Reason]) -> str:
    """Which of these blocks, although whoever should act may just be about to."""
    at_once = {
        *(Reason.SUSPENDED, Reason.UNSCHEDULABLE, Reason.PODS_TERMINATING, Reason.NODE_LOST),
        # Its pods may have waited, or should have ended, for long when their JobSet changes.
        *(Reason.SCHEDULER_SILENT, Reason.RESTARTING),
    }
    late = state.now - state.changed >= _QUICK
    return "" if late else next((f"{reason} blocks at once" for reason in sorted(reasons - at_once)), "")


def in_the_end(state: State, readiness: Readiness) -> str:
    """What is missing in the answer of a world in which nothing happens any more."""
    waits = state.workload == "waits" and any(cause.reason is Reason.WAITING_FOR_QUOTA for cause in readiness.causes)
    if (state.ready and not state.suspend) or waits or blocking(readiness):
        return ""
    return f"it is {readiness.phase} for good, and nothing blocks"


def _objects(state: State) -> tuple[object, ...]:
    return state.suspend, state.workload, state.stopped, state.attempt, state.job, state.pods, state.scheduled


def _states(walk: Walk) -> Iterator[State]:
    state = settle(first(Random(walk.seed)))
    yield state
    for action in (*walk.actions, *(f"{seconds} s pass" for seconds in _SETTLED)):
        before, state = state, settle(act(state, action))
        if _objects(before) != _objects(state):
            # In a long step they may have changed at its begin.
            state = state._replace(changed=before.now + 1)
        yield state


def _violation(walk: Walk) -> str:
    before: Readiness | None = None
    for state in _states(walk):
        snapshot = snapshot_of(state)
        known, before = blocking(before) if before is not None else set(), evaluate(snapshot, state.now, before)
        if what := wrong(state, before) or too_soon(state, blocking(before) - known):
            return what
    assert before is not None
    if what := in_the_end(state, before):
        return what
    anew = evaluate(snapshot, state.now)
    return "" if blocking(anew) == blocking(before) else f"started anew it says {sorted(blocking(anew))}"


def _nothing(_: object) -> Any:
    return lambda *_args: ("", "", ())


def _never(_: object) -> Any:
    return 10**9


_MUTANTS: Final = (
    ("an eviction whose pods stay takes its time", Patch(queue, "_holding", _nothing)),
    ("pods that stay take their time", Patch(pods, "pod_stays", lambda _: lambda *_args: False)),
    ("controllers are late at once", Patch(Causes, "late", lambda _: lambda *_args: True)),
    ("controllers that make Jobs and pods are never late", Patch(jobs, "SOON", _never)),
    ("a scheduler is never late", Patch(scheduler, "QUICK", _never)),
    ("a restart is never late", Patch(pods, "LONG", _never)),
    ("containers are never late", Patch(starting, "LONG", _never)),
)

MODEL: Final = Model(_ACTIONS, _violation, _MUTANTS)
