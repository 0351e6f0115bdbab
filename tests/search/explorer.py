"""The explorer: all states of a world, breadth first, so that the first trace to a violation is a shortest one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from tests.search import facts, invariants
from tests.search.actions import Actions
from tests.search.apiserver import Touched
from tests.search.scheduler import members
from tests.search.state import FOREIGN, KNOWN, ORPHAN, RESYNC, Object, State
from tests.search.world import NUMBER, World

LOSE: Final = NUMBER["fault.lose-trigger"]
REST: Final = "..."
_LONGEST: Final = 400
"""Steps until a world is at rest if nothing goes wrong any more."""
_CURES: Final = {False: "suspend the jobset", True: "set spec.active"}
"""By whether Kueue resumes the JobSet."""


@dataclass(frozen=True)
class Violation:
    """What is wrong, and the shortest way to it: a list of actions for :func:`replay`."""

    world: World
    what: str
    trace: tuple[str, ...]
    states: int
    """States that were visited until it was noticed."""

    def __str__(self) -> str:
        actions = "".join(f"\n        {action!r}," for action in self.trace)
        name = self.world.name
        return f"{name}: {self.what} (after {self.states} states)\n    replay(named({name!r}), [{actions}\n    ])"


@dataclass
class Explored:
    """The result of one world."""

    world: World
    states: int = 0
    complete: bool = False
    """Every reachable state was visited."""
    violations: list[Violation] = field(default_factory=list)


class Explorer:
    """Visits the states of one world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.actions = Actions(world)
        self._parents: dict[State, tuple[State, str] | None] = {}
        self._fates: dict[State, str] = {}
        self._torn: dict[object, str] = {}

    def run(self, limit: int, *, violations: int = 1) -> Explored:
        """Visit at most ``limit`` states, or until there are so many different violations."""
        result = Explored(self.world)
        seen: set[str] = set()
        for state, what in self._visit(limit, result):
            kind = _kind(what)
            if kind not in seen:
                seen.add(kind)
                result.violations.append(Violation(self.world, what, self._trace(state), result.states))
            if len(seen) >= violations:
                break
        return result

    def _visit(self, limit: int, result: Explored) -> Iterator[tuple[State, str]]:
        """Violations, each with the state it is in."""
        start = self.actions.settle(self.actions.start())
        self._parents[start] = None
        wave = [start]
        while wave:
            following: list[State] = []
            for state in wave:
                result.states += 1
                what = self.check(state)
                if what:
                    yield state, what
                if result.states >= limit:
                    return
                try:
                    steps = self.actions.successors(state)
                except Touched as touched:
                    yield state, str(touched)
                    continue
                for name, new in steps:
                    if new not in self._parents:
                        self._parents[new] = state, name
                        following.append(new)
            wave = following
        result.complete = True

    def _trace(self, state: State) -> tuple[str, ...]:
        names: list[str] = []
        entry = self._parents[state]
        while entry is not None:
            names.append(entry[1])
            entry = self._parents[entry[0]]
        return tuple(reversed(names))

    def check(self, state: State) -> str:
        """What is wrong in a state, or in the end that follows from it; empty if nothing is."""
        key = state.jobset, state.jobs, state.objects
        torn = self._torn.get(key)
        if torn is None:
            torn = self._torn[key] = self._check_torn(state)
        return torn or self.fate(state)

    def _check_torn(self, state: State) -> str:
        counts = {one.name: one.counts[0][1] for one in state.objects if one.kind == "CompositePodGroup"}
        if any(one.owner == FOREIGN for one in state.objects):
            return ""
        asks = state.jobset is not None and bool(self.world.mode or self.world.gangs)
        gangs = facts.gangs(self.actions.views, state)
        apart = invariants.apart(gangs) if self.world.pathways else ""
        return apart or invariants.torn(gangs, asks_for_gangs=asks, group_counts=counts)

    def fate(self, state: State) -> str:
        """What is wrong in the end if nothing goes wrong from this state on."""
        path: list[State] = []
        places: dict[State, int] = {}
        fate: str | None = self._fates.get(state)
        while fate is None:
            places[state] = len(path)
            path.append(state)
            if len(path) > _LONGEST:
                fate = "no rest: it goes on and on"
                break
            try:
                step = self.actions.fair(state)
            except Touched as touched:
                fate = str(touched)
                break
            if step is None:
                fate = self._at_rest(state)
                break
            state = step[1]
            fate = self._fates.get(state)
            if fate is None and state in places:
                fate = self._in_circle(path[places[state] :])
        for passed in reversed(path):
            if not fate and not passed.due & ~(RESYNC | KNOWN) and not passed.writes:
                fate = self._late(passed)
            self._fates[passed] = fate
        return fate

    def _late(self, state: State) -> str:
        """Whether the gang waits for the resync in a state that is at rest without it, although no trigger was lost."""
        step = self.actions.fair(state)
        if step is None or step[0] != "gangctl.resync" or state.budget[LOSE] != self.world.budget[LOSE]:
            return ""
        what = self._at_rest(state)
        return f"until the resync: {what}" if what else ""

    def _in_circle(self, circle: list[State]) -> str:
        if any(state.objects != circle[0].objects for state in circle):
            return "no rest: gangctl writes again and again"
        for state in circle:
            if state.writes and not self._is_refused(state):
                return f"no rest: {state.writes[0].verb} of {state.writes[0].name} is repeated"
        return self._at_rest(circle[0])

    def _is_refused(self, state: State) -> bool:
        step = self.actions.fair(state)
        return step is not None and step[1].objects == state.objects

    def _at_rest(self, state: State) -> str:
        jobset = state.jobset
        if (foreign := next((one for one in state.objects if one.owner == FOREIGN), None)) is not None:
            return self._unreported(state, foreign)
        # The gang that a queue admits in its place may need what its groups claim.
        kept = self.world.queue and not self.world.devices
        if jobset is None or jobset.ended or (jobset.suspended and not kept):
            return self._garbage(state)
        # Kubernetes 1.35 does not protect a Workload that pods name: gangctl keeps it there.
        orphan = next((one.name for one in state.objects if one.owner == ORPHAN), "")
        if orphan and not jobset.deleting and self.world.generation.capabilities.pod_groups:
            return f"{orphan} is left, and nothing controls it"
        immutable = not self.world.generation.capabilities.min_count_mutable
        views = self.actions.views
        waiting = invariants.waits(facts.gangs(views, state), immutable=immutable, reported=True)
        return waiting or invariants.unprepared(*facts.spares(views, state))

    def _unreported(self, state: State, foreign: Object) -> str:
        """Whether pods wait for another owner's object, and no event says what to do."""
        if not members(state.jobs, foreign.name) or state.jobset is None or state.jobset.ended:
            return ""
        events = [event for event in self.actions.decision(state).reported if foreign.name in event]
        if not events:
            return f"{foreign.name} belongs to another owner, and no event says so"
        if foreign.deleting and not any(_CURES[self.world.queue] in event.lower() for event in events):
            return f"{foreign.name} is held by pods that wait for it, and no event says what cures it"
        return ""

    def _garbage(self, state: State) -> str:
        """What is left although no pod needs it: of a JobSet that is gone, has ended, or is suspended by its user."""
        if any(job is not None and job.waiting + job.bound + job.ending for job in state.jobs):
            return ""
        left = [one.name for one in state.objects if one.owner not in {ORPHAN, FOREIGN}]
        return f"{left[0]} is left" if left else ""


def _kind(what: str) -> str:
    """The same violation with other numbers and names is no other one."""
    words = (word for word in what.replace(",", "").split() if not any(c.isdigit() for c in word))
    return " ".join(words)


def replay(world: World, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Repeat these actions: after each its name, and what is wrong then.

    A name may be the beginning of one (``gangctl.write``); ``...`` is all that follows if nothing goes wrong any more.
    What gangctl does is left out where it is not possible: a repaired gangctl has fewer writes, or others. ValueError
    for any other action that is not possible.
    """
    explorer = Explorer(world)
    actions = explorer.actions
    state = actions.settle(actions.start())
    for number, name in enumerate(names):
        if name == REST:
            state = _rest(explorer, state)
        else:
            steps = dict(actions.successors(state))
            full = next((step for step in steps if step == name or step.startswith(f"{name} ")), None)
            if full is None and not name.startswith("gangctl."):
                raise ValueError(f"action {number} of {world.name}: {name!r} is not possible, these are: {list(steps)}")
            state = state if full is None else steps[full]
        yield name, explorer.check(state)


def _rest(explorer: Explorer, state: State) -> State:
    for _ in range(_LONGEST):
        step = explorer.actions.fair(state)
        if step is None or step[0] == "gangctl.resync":
            return state
        state = step[1]
    return state


__all__ = ["REST", "Explored", "Explorer", "Violation", "replay"]
