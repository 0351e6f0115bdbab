"""What must hold of gangs, whatever happens: of facts, so that every search can check it.

1. All or nothing: no gang can be started in part.
2. If nothing goes wrong any more, every pod that can exist is placed in the end.
3. gangctl comes to rest, and then a reconcile writes nothing.
4. The groups of a restart exist before it: it needs no gangctl.
5. What another owner made is not touched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Gang(NamedTuple):
    """A gang of the present attempt, or with an empty name the Jobs without one."""

    name: str
    min_count: int | None
    """minCount of its group, None while there is no group."""
    can_exist: int
    """Pods that can still exist at once."""
    needed: int
    """Pods that are enough to start it: fewer than all only if its user says so."""
    members: int
    """Pods that name the group and have not finished."""
    waiting: int
    bound: int
    ready: bool
    """Whether the scheduler places its pods."""
    timely: bool = True
    """Its group was created with the right number, as far as gangctl could know."""
    shared: bool = False
    """The next attempt has the same minCount, so that it is not lowered."""
    parent: str = ""
    grown: int = 0
    """Pods that a resize has added: until gangctl follows it, the gang may start without them."""
    behind: bool = False
    """Another gang has the device that it needs, and runs."""


def torn(gangs: Sequence[Gang], *, asks_for_gangs: bool, group_counts: Mapping[str, int]) -> str:
    """Why a gang can start in part now: the rest may never find room. Empty if none can.

    ``group_counts`` holds the minGroupCount of each CompositePodGroup.
    """
    unplaced: dict[str, int] = {}
    started: set[str] = set()
    for gang in gangs:
        if not gang.name:
            if asks_for_gangs and gang.waiting:
                return "pods of a gang name no group"
            continue
        if gang.can_exist:
            unplaced[gang.parent] = unplaced.get(gang.parent, 0) + 1
        if gang.bound:
            started.add(gang.parent)
        if gang.waiting and not gang.bound and gang.ready and (gang.min_count or 0) < gang.needed - gang.grown:
            return f"{gang.name} can start with {gang.min_count} of {gang.needed} pods"
    for parent, count in group_counts.items():
        if parent not in started and parent in unplaced and count < unplaced[parent]:
            ready = any(gang.ready and gang.waiting and gang.parent == parent for gang in gangs)
            if ready:
                return f"{parent} can start with {count} of {unplaced[parent]} gangs"
    return ""


def apart(gangs: Sequence[Gang]) -> str:
    """Which gang of a job that needs all of its gangs can start without the others; empty if none can."""
    for gang in gangs:
        starts = gang.waiting and not gang.bound and gang.ready
        if starts and any(
            other.can_exist and not (gang.parent and gang.parent == other.parent)
            for other in gangs
            if other is not gang
        ):
            return f"{gang.name} can start without the other gangs of its job"
    return ""


def unprepared(spares: Mapping[str, int | None], needed: Mapping[str, int]) -> str:
    """Which group of the next restart is missing, or has another minCount than it ``needed``; empty if none."""
    for name, pods in needed.items():
        if spares.get(name) != pods:
            return f"{name} is not prepared for a restart: minCount {spares.get(name)}, needed {pods}"
    return ""


def waits(gangs: Sequence[Gang], *, immutable: bool, reported: bool) -> str:
    """Why a gang waits although nothing happens any more; empty if none does.

    Where minCount is immutable, a pod that is replaced in the tail cannot start: allowed if the number was right when
    the group was made, and an event says so (``reported``).
    """
    for gang in gangs:
        if not gang.waiting:
            kept = immutable and gang.min_count is not None and not gang.members and not gang.shared
            if kept and 0 < gang.can_exist < (gang.min_count or 0):
                return f"{gang.name} is kept with minCount {gang.min_count} for {gang.can_exist} pods, and would wait"
            continue
        if gang.min_count is None:
            return f"{gang.name or 'a pod'} waits, and has no group"
        if gang.behind:
            continue
        tail = gang.can_exist < gang.min_count
        if immutable and tail and gang.timely and reported:
            continue
        known = ", and no event says so" if immutable and tail and gang.timely else ""
        return f"{gang.name} waits: minCount {gang.min_count}, {gang.can_exist} pods can exist{known}"
    return ""
