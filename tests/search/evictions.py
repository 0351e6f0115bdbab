"""Every state of a gang that loses nodes, and what the cure does in it: one gang of three on nodes for one pod each.

In one world it needs two pods, and there are nodes for two: one pod is to spare.

Time is in steps. What the cure may do is said here of the state itself, and not by what gangctl asks:

1. It evicts no gang that is whole.
2. It evicts none that can become whole: while a node of it may return, the scheduler has not decided, or a node comes.
3. It evicts none that has not been short of pods for the delay, and none again within it.
4. If nothing happens any more, a gang that is short of pods holds no node in the end, and another gang that waits for
   these nodes has them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import zip_longest
from typing import Any, Final, NamedTuple

from gangctl.readiness import eviction
from gangctl.readiness.autoscaling import ScaleUp
from gangctl.readiness.facts import NodeFacts, PodFacts, Snapshot
from gangctl.readiness.membership import Group
from tests.jobsets import jobset, rj
from tests.readiness.snapshots import NOW, Context
from tests.search.mutants import Patch

DELAY: Final = 2
"""Steps for which the gang may be short of pods."""
SECONDS: Final = 10
"""In a step."""
SIZE: Final = 3
_OLD: Final = DELAY + 1
_OTHER: Final = 2
"""Pods of the other gang."""

UNDECIDED, REFUSED, MISSING = -1, -2, -3
"""Instead of a node: the scheduler has not looked, has found none, or the pod does not exist."""


class Pod(NamedTuple):
    """One member: on a node, or not, and for how many steps."""

    node: int = UNDECIDED
    age: int = 0
    """Since it was placed; without a node since it was made."""


class State(NamedTuple):
    """The gang, the nodes and what else is there; ages end at :data:`_OLD`, because nothing differs beyond."""

    pods: tuple[Pod, ...] = (Pod(),) * SIZE
    up: tuple[bool, ...] = (True,) * SIZE
    leaving: tuple[int, ...] = ()
    """Lost nodes on which a pod of it is still there, on its way out."""
    other: str = "absent"
    """The other gang: absent, waits, or runs, on the nodes in ``taken``."""
    taken: tuple[int, ...] = ()
    scaling: bool = False
    """An autoscaler adds a node."""
    short: int = 0
    """For how many steps some pods have nodes, and others do not."""
    evicted: int = _OLD
    """Steps since the last eviction."""
    lost: int = 0
    returned: int = 0
    scaled: int = 0
    """How often each has happened."""

    @property
    def placed(self) -> list[Pod]:
        """Members with a node."""
        return [pod for pod in self.pods if pod.node >= 0]

    @property
    def free(self) -> list[int]:
        """Nodes that are up, with nothing on them."""
        used = {pod.node for pod in self.placed} | {*self.taken, *self.leaving}
        return [number for number, up in enumerate(self.up) if up and number not in used]


@dataclass(frozen=True)
class World:
    """What may happen."""

    name: str
    losses: int = 1
    returns: int = 1
    scale_ups: int = 1
    replaced_late: bool = False
    """``podReplacementPolicy: Failed``: a pod is made anew only when the lost one has ended."""
    spare: int = 0
    """Pods that it does not need, and for which there is no node at first."""

    @property
    def needed(self) -> int:
        """Its minCount."""
        return SIZE - self.spare

    @property
    def first(self) -> State:
        """The state in which everything begins."""
        return State(up=(True,) * self.needed)


WORLDS: Final = (
    World("a node is lost"),
    World("two nodes are lost", losses=2, scale_ups=0),
    World("pods are made anew late", replaced_late=True),
    World("a pod is to spare", spare=1),
)


@cache
def _context(needed: int) -> Context:
    gangs = f'[{{"name": "g", "replicatedJobs": ["w"], "minCount": {needed}}}]'
    return Context(jobset("js", rj("w", 1, SIZE, SIZE), annotations={"gangctl.dev/gangs": gangs}))


def _name(number: int) -> str:
    return f"w-{number}"


def snapshot_of(world: World, state: State) -> Snapshot:
    """What gangctl knows of it."""
    context = _context(world.needed)
    job = context.planned()[0]
    pods: list[PodFacts] = []
    for number, pod in enumerate(state.pods):
        at = NOW - pod.age * SECONDS
        made = replace(context.pod(job, number), name=_name(number), created=at)
        if pod.node >= 0:
            up = state.up[pod.node]
            made = replace(made, node=f"n{pod.node}", placed_at=at, phase="Running", ready=up, ready_at=at)
        elif pod.node == REFUSED:
            made = replace(made, refused="Unschedulable", refusal="none", refused_at=at)
        if pod.node != MISSING:
            pods.append(made)
    ghosts = enumerate(state.leaving)
    pods += [
        replace(context.pod(job, 0), name=f"ghost-{index}", deleting=True, node=f"n{node}") for index, node in ghosts
    ]
    nodes = {f"n{number}": NodeFacts(f"n{number}", ready=up) for number, up in enumerate(state.up)}
    return context.snapshot(pods, nodes=nodes)


def decided(world: World, state: State) -> list[int]:
    """The members that the cure evicts now."""
    return _decided(world, State(state.pods, state.up, state.leaving, scaling=state.scaling, short=state.short))


@cache
def _decided(world: World, state: State) -> list[int]:
    scale_ups = {_name(number): ScaleUp(_name(number), "TriggeredScaleUp", "", NOW) for number in range(SIZE)}
    seen = dict.fromkeys(
        [group.name for group in _context(world.needed).plan.groups], float(NOW - state.short * SECONDS)
    )
    found = eviction.stranded(snapshot_of(world, state), NOW, DELAY * SECONDS, seen, scale_ups if state.scaling else {})
    names = {pod.name for gang in found for pod in gang.evict}
    return [number for number in range(SIZE) if _name(number) in names]


def wrong(world: World, state: State, members: list[int]) -> str:
    """Why these members must not be evicted; empty if they may."""
    if not members:
        return ""
    if not _is_short(world, state):
        return "a gang that is whole, or has no node, is evicted"
    if any(pod.node == UNDECIDED for pod in state.pods):
        return "it is evicted before the scheduler has decided"
    if not _has_quorum(world, state) and not state.leaving:
        return "it is evicted before its pods are made"
    if any(not state.up[pod.node] for pod in state.placed):
        return "it is evicted while a node may return"
    if state.scaling and any(pod.node == REFUSED for pod in state.pods):
        return "it is evicted while an autoscaler adds a node"
    if state.short < DELAY:
        return f"it is evicted after {state.short} of {DELAY} steps"
    return "it is evicted again within the delay" if state.evicted < DELAY else ""


def _with(state: State, number: int, pod: Pod) -> State:
    return state._replace(pods=(*state.pods[:number], pod, *state.pods[number + 1 :]))


def schedule(world: World, state: State) -> State:
    """The scheduler places as many members without a node as it can, or none if the gang would not be whole."""
    if not _has_quorum(world, state):
        return state
    waiting = [number for number, pod in enumerate(state.pods) if pod.node in {UNDECIDED, REFUSED}]
    whole = len(state.placed) + min(len(waiting), len(state.free)) >= world.needed
    nodes = state.free if whole else []
    for number, node in zip_longest(waiting, nodes[: len(waiting)], fillvalue=REFUSED):
        state = _with(state, number, Pod(REFUSED, state.pods[number].age) if node == REFUSED else Pod(node))
    return state


def replace_lost(world: World, state: State) -> State:
    """Pods on lost nodes are deleted and made anew; of a pod that has to end first, once its node is back."""
    for number, pod in enumerate(state.pods):
        if pod.node >= 0 and not state.up[pod.node]:
            state = _with(state, number, Pod(MISSING if world.replaced_late else UNDECIDED))
            state = state._replace(leaving=(*state.leaving, pod.node))
    return state


def make_missing(state: State) -> State:
    """Pods whose predecessors have ended are made."""
    if not state.leaving:
        for number, pod in enumerate(state.pods):
            state = _with(state, number, Pod()) if pod.node == MISSING else state
    return state


def place_other(state: State) -> State:
    """The other gang starts where it has room."""
    if state.other == "waits" and len(state.free) >= _OTHER:
        return state._replace(other="runs", taken=tuple(state.free[:_OTHER]))
    return state


def tick(world: World, state: State) -> State:
    """One step of time."""
    pods = tuple(pod._replace(age=min(_OLD, pod.age + 1)) for pod in state.pods)
    state = state._replace(pods=pods, evicted=min(_OLD, state.evicted + 1))
    return state._replace(short=min(_OLD, state.short + 1) if _is_short(world, state) else 0)


def _is_short(world: World, state: State) -> bool:
    return 0 < len(state.placed) < world.needed


def _has_quorum(world: World, state: State) -> bool:
    return sum(pod.node != MISSING for pod in state.pods) >= world.needed


def evict(state: State, members: list[int]) -> State:
    """The pods go, and are made anew."""
    for number in members:
        state = _with(state, number, Pod())
    return state._replace(evicted=0)


def _settled(world: World, state: State) -> State:
    """Of a gang that has become short of pods just now, no time has passed."""
    return state if _is_short(world, state) else state._replace(short=0)


def actions(world: World, state: State) -> Iterator[tuple[str, State]]:
    """What may happen, and the state after it."""
    yield "time passes", tick(world, state)
    yield "the scheduler looks", schedule(world, state)
    yield "pods on lost nodes are deleted", replace_lost(world, state)
    yield "pods are made", make_missing(state)
    yield "the other gang starts", place_other(state)
    for number, up in enumerate(state.up):
        if up and state.lost < world.losses and number not in state.taken:
            down = tuple(is_up and node != number for node, is_up in enumerate(state.up))
            yield f"node {number} is lost", state._replace(up=down, lost=state.lost + 1)
        if not up and state.returned < world.returns:
            back = tuple(is_up or node == number for node, is_up in enumerate(state.up))
            left = tuple(node for node in state.leaving if node != number)
            yield f"node {number} returns", state._replace(up=back, leaving=left, returned=state.returned + 1)
    if state.other == "absent":
        yield "another gang comes", state._replace(other="waits")
    if state.other == "runs":
        yield "the other gang ends", state._replace(other="absent", taken=())
    if any(pod.node == REFUSED for pod in state.pods) and not state.scaling and state.scaled < world.scale_ups:
        yield "an autoscaler adds a node", state._replace(scaling=True, scaled=state.scaled + 1)
    if state.scaling:
        yield "the node comes", state._replace(scaling=False, up=(*state.up, True))
        yield "no node comes", state._replace(scaling=False)


def in_the_end(world: World, state: State) -> str:
    """Why nodes are held for nothing if nothing happens any more but time; empty if they are not."""
    state = state._replace(scaling=False)
    for _ in range(3 * _OLD):
        state = _settled(world, replace_lost(world, state))
        state = _settled(world, schedule(world, make_missing(state)))
        state = _settled(world, _cured(world, place_other(state)))
        state = _settled(world, tick(world, state))
    if _is_short(world, state):
        return "a gang that cannot be completed holds its nodes"
    return "another gang waits, and there is room" if state.other == "waits" and len(state.free) >= _OTHER else ""


def _cured(world: World, state: State) -> State:
    members = decided(world, state)
    return evict(state, members) if members else state


class Found(NamedTuple):
    """A violation, and what led to it."""

    what: str
    trace: tuple[str, ...]


def search(world: World) -> tuple[int, Found | None]:
    """How many states there are, and the first that violates anything."""
    _decided.cache_clear()
    first = world.first
    came: dict[State, tuple[State, str] | None] = {first: None}
    queue = deque([first])
    while queue:
        state = queue.popleft()
        members = decided(world, state)
        what = wrong(world, state, members) or in_the_end(world, state)
        if what:
            return len(came), Found(what, _trace(came, state))
        following = list(actions(world, state))
        if members:
            following.append(("gangctl evicts", evict(state, members)))
        for name, after in following:
            settled = _settled(world, after)
            if settled not in came:
                came[settled] = state, name
                queue.append(settled)
    return len(came), None


def _trace(came: dict[State, tuple[State, str] | None], state: State) -> tuple[str, ...]:
    steps: list[str] = []
    while (before := came[state]) is not None:
        state, name = before
        steps.append(name)
    return tuple(reversed(steps))


def _constantly(value: object) -> Any:
    return lambda _: lambda *_args: value


def _from_the_oldest(_: object) -> Any:
    def time(
        group: Group, placed: Sequence[PodFacts], unplaced: Sequence[PodFacts], seen: float, delay: float
    ) -> float:
        if len(group.bound) < group.needed:
            return seen + delay
        return delay + max(min(pod.created for pod in unplaced), *(pod.placed_at or pod.created for pod in placed))

    return time


MUTANTS: Final = (
    (
        "a node that may return and pods that are not decided do not count",
        Patch(eviction, "_may_complete", _constantly(False)),
    ),
    ("a node that an autoscaler adds does not count", Patch(ScaleUp, "running", _constantly(False))),
    ("there is no delay", Patch(eviction, "_time", _constantly(0.0))),
    ("the delay counts from a pod to spare", Patch(eviction, "_time", _from_the_oldest)),
    ("nothing is evicted", Patch(eviction, "stranded", _constantly(()))),
)
"""What each brings back, and how."""
