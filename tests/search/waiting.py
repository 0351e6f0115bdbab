"""A gang of two that waits for its nodes, in random worlds: what gangctl says of it, and what keeps it.

The world knows whether the scheduler runs, how many pods have room, and whether volumes are made. What may be said in
it is decided here by the world itself, and not by what gangctl reads:

1. A scheduler that runs is not silent, and what it refused before it chose nodes no longer counts.
2. A gang that waits for good is blocked in the end, by what keeps it.
3. One that runs has no cause.
4. A gangctl that is started anew says the same of a world in which nothing happens any more.

The scheduler is that of each minor (``schedule_one.go``, plugins GangScheduling and VolumeBinding): up to 1.35 it takes
pods one by one, and holds them on their nodes for the others; since 1.36 it places a group as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any, Final, NamedTuple

from gangctl.api.scheduling import TESTED, Generation, Observed, Scheduled
from gangctl.gang.reasons import Reason
from gangctl.readiness import moments
from gangctl.readiness.causes import scheduler
from gangctl.readiness.evaluate import evaluate
from gangctl.readiness.facts import PodFacts, Snapshot, unix
from gangctl.readiness.membership import Group
from gangctl.readiness.result import GangPhase, Readiness
from tests.jobsets import jobset, rj
from tests.readiness.snapshots import CREATED, REFUSAL, Context, rfc3339
from tests.search.mutants import Patch
from tests.search.walks import Model, Walk, blocking

SIZE: Final = 2
_PERMIT: Final = 300
"""Seconds that 1.35 holds a pod on its node for the others of its gang."""
_BIND: Final = 600
"""Seconds that the scheduler waits for volumes (bindTimeoutSeconds)."""
_SLOW: Final = 300
"""Seconds after which it is no longer normal that volumes are not there."""
_SETTLED: Final = (1, 10, 20, 60, 300, 600, 600, 1200, 1200)
"""Seconds that pass without anything happening, before it is said what is so in the end."""

_SINGLE: Final = (
    "0/4 nodes are available: 4 Insufficient cpu. "
    "preemption: 0/4 nodes are available: 4 No preemption victims found for incoming pod."
)
_TIMED_OUT: Final = 'pod "p" rejected due to timeout after waiting 5m0s at plugin GangScheduling'
_PRE_BIND: Final = 'running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded'


class Pod(NamedTuple):
    """One member; times are Unix seconds, 0 for what has not happened."""

    made: int
    gated: bool = False
    nominated: bool = False
    refused: str = ""
    message: str = ""
    refused_at: int = 0
    placed: int = 0


class State(NamedTuple):
    """Everything that changes, and what it happens in."""

    now: int
    generation: Generation
    volumes: bool
    """Its pods have claims, of which volumes are made once a node is chosen."""
    pods: tuple[Pod, ...]
    room: int = 0
    """Pods for which nodes have room, those that are there included."""
    runs: bool = True
    """The scheduler."""
    made: bool = True
    """Volumes, once a node is chosen."""
    condition: Scheduled | None = None
    held: tuple[int, ...] = (0, 0)
    """Since when the scheduler holds each pod on its node for the others (1.35); it forgets that when it restarts."""
    binds: int = 0
    """Since when it waits for volumes."""
    started: int = 0
    """When the scheduler was started again."""
    chosen: int = 0
    """When it chose these nodes for the first time."""

    @property
    def bound(self) -> bool:
        """All pods run."""
        return all(pod.placed for pod in self.pods)


def _changed(state: State, number: int, **changes: Any) -> State:
    pod = state.pods[number]._replace(**changes)
    return state._replace(pods=(*state.pods[:number], pod, *state.pods[number + 1 :]))


def _refuse(state: State, numbers: Sequence[int], reason: str, message: str) -> State:
    """The condition of a pod keeps the time at which it was first false; a nomination goes."""
    for number in numbers:
        since = state.pods[number].refused_at or state.now
        state = _changed(state, number, nominated=False, refused=reason, message=message, refused_at=since)
    held = tuple(0 if number in numbers else at for number, at in enumerate(state.held))
    return state._replace(held=held, binds=0, chosen=state.chosen if reason == "SchedulerError" else 0)


def _bind(state: State, numbers: Sequence[int]) -> State:
    for number in numbers:
        state = _changed(state, number, placed=state.now, refused="", message="", refused_at=0)
    return state._replace(binds=0, chosen=0, held=(0, 0))


def _choose(state: State, numbers: Sequence[int]) -> State:
    """All pods have nodes: they are bound, or wait for their volumes there."""
    if not state.volumes or state.made:
        return _bind(state, numbers)
    for number in numbers:
        state = _changed(state, number, nominated=True)
    return state._replace(binds=state.now, chosen=state.chosen or state.now)


def schedule(state: State) -> State:
    """What the scheduler does now."""
    left = [number for number, pod in enumerate(state.pods) if not pod.placed]
    if not state.runs or not left or any(state.pods[number].gated for number in left):
        return state
    if state.binds:
        if state.made:
            return _bind(state, left)
        if state.now - state.binds < _BIND:
            return state
        state = _refuse(state, left, "SchedulerError", _PRE_BIND)
    free = state.room - (SIZE - len(left))
    if state.generation is Generation.V1ALPHA1:
        return _one_by_one(state, left, free)
    if free >= len(left):
        if state.condition is None or not state.condition.status:
            state = state._replace(condition=Scheduled(status=True, reason="Scheduled", since=rfc3339(state.now)))
        return _choose(state, left)
    if state.condition is None:
        no = Scheduled(False, "Unschedulable", "pod group is unschedulable", rfc3339(state.now))
        state = state._replace(condition=no)
    return _refuse(state, left, "Unschedulable", REFUSAL)


def _one_by_one(state: State, left: Sequence[int], free: int) -> State:
    """1.35: each pod for which there is room is held on its node until those of the gang are."""
    late = [number for number in left if state.held[number] and state.now - state.held[number] >= _PERMIT]
    state = _refuse(state, late, "Unschedulable", _TIMED_OUT) if late else state
    free -= sum(at > 0 for at in state.held)
    for number in left:
        if state.held[number]:
            continue
        if free <= 0:
            state = _refuse(state, [number], "Unschedulable", _SINGLE)
            continue
        free -= 1
        held = tuple(state.now if each == number else at for each, at in enumerate(state.held))
        state = _changed(state, number, nominated=True)._replace(held=held)
    return _choose(state, left) if all(state.held[number] for number in left) else state


def first(draw: Random) -> State:
    """Its pods have just been made."""
    generation, volumes, pod = draw.choice(TESTED), draw.random() < 0.5, Pod(CREATED + 1, gated=draw.random() < 0.2)
    room, runs, made = draw.randint(0, SIZE), draw.random() < 0.8, draw.random() < 0.7
    return State(pod.made, generation, volumes, (pod,) * SIZE, room, runs, made)


_ACTIONS: Final = (
    *(f"{seconds} s pass" for seconds in (1, 10, 30, 120, 400, 700)),
    *(f"there is room for {count}" for count in range(SIZE + 1)),
    *("the scheduler stops", "the scheduler starts", "volumes are made", "volumes are not made"),
    *("the gates go", "pod 0 is made anew", "all pods are made anew"),
)


def act(state: State, action: str) -> State:
    """The state after it, before the scheduler has looked."""
    # Conditions have whole seconds: what happens within one is not told apart.
    state = state._replace(now=state.now + 1)
    match action.split():
        case [seconds, "s", "pass"]:
            return state._replace(now=state.now + int(seconds))
        case ["there", "is", "room", "for", count]:
            # Nodes do not go from under pods that run.
            return state._replace(room=max(int(count), sum(pod.placed > 0 for pod in state.pods)))
        case ["the", "scheduler", verb]:
            runs = verb == "starts"
            return state if runs is state.runs else state._replace(runs=runs, held=(0, 0), binds=0, started=state.now)
        case ["volumes", "are", *rest]:
            return state._replace(made=rest == ["made"])
        case ["the", "gates", "go"]:
            return state._replace(pods=tuple(pod._replace(gated=False) for pod in state.pods))
        case [which, *_]:
            anew = range(SIZE) if which == "all" else range(1)
            for number in anew:
                state = state._replace(pods=(*state.pods[:number], Pod(state.now), *state.pods[number + 1 :]))
            return state._replace(held=(0, 0), binds=0, chosen=0 if which == "all" else state.chosen)
    raise ValueError(action)


@cache
def _context(generation: Generation, volumes: bool) -> Context:
    claims = [{"name": "data", "ephemeral": {"volumeClaimTemplate": {}}}]
    pod = {"volumes": claims} if volumes else {}
    return Context(jobset("js", rj("w", 1, SIZE, SIZE, pod=pod), mode="Gang"), generation)


def snapshot_of(state: State) -> Snapshot:
    """What gangctl knows of it."""
    context = _context(state.generation, state.volumes)
    job = context.planned()[0]
    pods = [_seen(context.pod(job, number), number, pod) for number, pod in enumerate(state.pods)]
    groups: dict[str, Observed] = context.groups(state.condition, created=rfc3339(CREATED))
    return context.snapshot(pods, groups=groups)


def _seen(pod: PodFacts, number: int, one: Pod) -> PodFacts:
    pod = replace(pod, name=f"js-w-0-{number}-{one.made}", created=one.made)
    if one.gated:
        return replace(pod, gates=("example.com/wait",), refused="SchedulingGated", refused_at=one.made)
    if one.placed:
        return replace(pod, node="n", placed_at=one.placed, phase="Running", ready=True, ready_at=one.placed)
    nominated = "n" if one.nominated else ""
    return replace(pod, nominated=nominated, refused=one.refused, refusal=one.message, refused_at=one.refused_at)


def wrong(state: State, readiness: Readiness) -> str:
    """What it must not say now; empty if it may."""
    said = blocking(readiness)
    if state.bound:
        return "" if readiness.phase is GangPhase.READY and not readiness.causes else "a gang that runs has a cause"
    left = [pod for pod in state.pods if not pod.placed]
    gated = any(pod.gated for pod in left)
    waits = state.runs and state.binds > 0
    may = {
        Reason.PODS_GATED: gated,
        Reason.SCHEDULER_SILENT: not gated and (not state.runs or _restarted(state)),
        # A pod that finds no node itself keeps an earlier nomination: then it is not known which of both is newer.
        Reason.UNSCHEDULABLE: any(pod.refused for pod in left) and (not waits or _refused_since(state)),
        Reason.VOLUME_NOT_BOUND: 0 < state.chosen <= state.now - _SLOW or any(pod.message == _PRE_BIND for pod in left),
    }
    for reason in said:
        if not may.get(reason, False):
            return f"{reason} blocks"
    return ""


def in_the_end(state: State, readiness: Readiness) -> str:
    """What is missing in the answer of a world in which nothing happens any more."""
    said = blocking(readiness)
    if state.bound:
        return ""
    if any(pod.gated and not pod.placed for pod in state.pods):
        wanted = {Reason.PODS_GATED}
    elif not state.runs:
        wanted = {Reason.SCHEDULER_SILENT, Reason.UNSCHEDULABLE, Reason.VOLUME_NOT_BOUND}
    else:
        wanted = {Reason.VOLUME_NOT_BOUND if state.binds else Reason.UNSCHEDULABLE}
    return (
        "" if said & wanted else f"{' or '.join(sorted(wanted))} should block, and there is {sorted(said) or 'nothing'}"
    )


def _restarted(state: State) -> bool:
    """Whether a scheduler that was away may wait for volumes since a moment ago: no object has since when."""
    made = min(pod.made for pod in state.pods if not pod.placed)
    return state.binds > 0 and made <= state.now - _BIND < state.started


def _refused_since(state: State) -> bool:
    """Whether pods were refused after their group had been placed, perhaps with others."""
    placed = unix(state.condition.since) if state.condition is not None and state.condition.status else state.now
    return any(pod.refused_at > placed for pod in state.pods if not pod.placed)


def _states(walk: Walk) -> Iterator[State]:
    state = first(Random(walk.seed))
    yield (state := schedule(state))
    for action in (*walk.actions, *(f"{seconds} s pass" for seconds in _SETTLED)):
        yield (state := schedule(act(state, action)))


def _violation(walk: Walk) -> str:
    before: Readiness | None = None
    for state in _states(walk):
        snapshot = snapshot_of(state)
        before = evaluate(snapshot, state.now, before)
        if what := wrong(state, before):
            return what
    assert before is not None
    if what := in_the_end(state, before):
        return what
    if any(pod.nominated and pod.refused for pod in state.pods):
        # Since when it is nominated is not known to one that did not see it.
        return ""
    anew = evaluate(snapshot, state.now)
    return "" if blocking(anew) == blocking(before) else f"started anew it says {sorted(blocking(anew))}"


def _any_refusal(_: object) -> Any:
    return lambda _, pod: bool(pod.refused) and not pod.node and not pod.gates


def _any_condition(_: object) -> Any:
    return property(lambda group: None if group.scheduled is None or group.scheduled.status else group.scheduled)


def _from_the_first(_: object) -> Any:
    return lambda phase, group, totals, found, life: moments._written(phase, group, totals, found, life) or life.now


_MUTANTS: Final = (
    ("a refusal counts from before nodes were chosen", Patch(Group, "refuses", _any_refusal)),
    ("the condition of a group counts for pods that came after it", Patch(Group, "rejected", _any_condition)),
    (
        "the scheduler is late from the creation of pods that had gates, or were refused",
        Patch(moments, "since", _from_the_first),
    ),
    ("nothing is said of a wait for volumes", Patch(scheduler, "_binding_of", lambda _: lambda *_: None)),
    (
        "a silent scheduler is none",
        Patch(
            scheduler, "_silent", lambda silent: lambda *found, late: replace(silent(*found, late=late), blocking=False)
        ),
    ),
)

MODEL: Final = Model(_ACTIONS, _violation, _MUTANTS)
