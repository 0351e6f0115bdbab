"""The API server's side of gangctl's writes, the garbage collector, and the protection of PodGroups."""

from __future__ import annotations

from typing import NamedTuple

from tests.search.scheduler import members
from tests.search.state import FOREIGN, ORPHAN, Object, State, Write, drop, find, put
from tests.search.world import World


class Touched(Exception):  # noqa: N818 -- it is what happened
    """gangctl changed what another owner made."""


class Answer(NamedTuple):
    """What the API server has after a write, and what gangctl was given; None of it where the write was refused."""

    objects: tuple[Object, ...]
    given: Object | None
    refused: bool = False


def receive(world: World, state: State, write: Write) -> Answer:
    """Carry out a write, or refuse it."""
    one = find(state.objects, write.kind, write.name)
    if one is not None and one.owner == FOREIGN and write.verb != "create" and one.uid == write.uid:
        raise Touched(f"{write.verb} of another owner's {write.kind} {write.name}")
    if write.verb == "create":
        return _create(world, state, write, one)
    if one is None or one.uid != write.uid:
        # A delete that finds nothing has succeeded; a patch tests the UID.
        return Answer(state.objects, None, refused=write.verb == "patch")
    if write.verb == "patch":
        if not world.generation.capabilities.min_count_mutable:
            return Answer(state.objects, None, refused=True)
        new = one._replace(counts=write.counts)
        # As for a create, a response does not make the event of the placing old.
        known = find(state.seen_objects, one.kind, one.name)
        return Answer(put(state.objects, new), new._replace(placed=known.placed if known is not None else new.placed))
    going = one._replace(deleting=True)
    # Only PodGroups have a finalizer.
    left = put(state.objects, going) if one.kind == "PodGroup" else drop(state.objects, one)
    # gangctl keeps the object as it knew it: the response to a delete is not read.
    known = find(state.seen_objects, one.kind, one.name)
    return Answer(left, known._replace(deleting=True) if known is not None and known.uid == one.uid else going)


def _create(world: World, state: State, write: Write, one: Object | None) -> Answer:
    objects = state.objects
    if one is not None:
        # 409, and gangctl reads it: its own, perhaps being deleted, or another owner's. It remembers what it wanted.
        # The watch event that a gang was placed is news even if a response has shown it.
        own, as_wanted = one.owner == write.owner, one.counts == write.counts
        return Answer(objects, one._replace(placed=False) if own and as_wanted else None, refused=not own)
    if write.kind == "PodGroup":
        if world.quota is not None and sum(each.kind == "PodGroup" for each in objects) >= world.quota:
            return Answer(objects, None, refused=True)
        if world.minor == "1.36" and not any(each.kind == "Workload" and each.owner == write.owner for each in objects):
            return Answer(objects, None, refused=True)
    new = Object(
        write.kind,
        write.name,
        _fresh(state, write),
        write.owner,
        write.counts,
        parent=write.parent,
        timely=write.timely,
    )
    return Answer(put(objects, new), new)


def _fresh(state: State, write: Write) -> int:
    """A UID that nothing in the state remembers: the smallest, so that histories with one outcome are one state."""
    taken = {one.uid for one in state.seen_objects if one.name == write.name and one.kind == write.kind}
    pending = (*state.writes, *((state.late,) if state.late is not None else ()))
    taken |= {each.uid for each in pending if each.name == write.name and each.kind == write.kind}
    return next(uid for uid in range(1, len(taken) + 2) if uid not in taken)


def collect(state: State) -> State:
    """One pass of the garbage collector: dependents of owners that are gone, or deleted in the foreground."""
    jobset = state.jobset
    uid = 0 if jobset is None else jobset.uid
    foreground = jobset is not None and jobset.deleting == "foreground"
    jobs = tuple(
        job._replace(deleting=True)
        if job is not None and job.owner != ORPHAN and (job.owner != uid or foreground)
        else job
        for job in state.jobs
    )
    objects = state.objects
    for one in objects:
        if one.owner in {ORPHAN, FOREIGN, uid}:
            continue
        if one.kind != "PodGroup":
            objects = drop(objects, one)
        elif not one.deleting:
            objects = put(objects, one._replace(deleting=True))
    if foreground and not any(job is not None and job.owner == uid for job in jobs):
        jobset = None
    return state._replace(jobset=jobset, jobs=jobs, objects=objects)


def released(state: State) -> list[Object]:
    """PodGroups in deletion that no pod names any more: their finalizer can be removed."""
    return [
        one for one in state.objects if one.deleting and one.kind == "PodGroup" and not members(state.jobs, one.name)
    ]
