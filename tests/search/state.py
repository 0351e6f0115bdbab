"""One state of a world: immutable, compared by value."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

FOREIGN: Final = -1
"""Owner of what is neither gangctl's nor an orphan."""
ORPHAN: Final = 0

RESYNC: Final = 1
"""After minutes, without a trigger."""
SOON: Final = 2
"""After seconds: it waits for something, or a write was refused."""
NOW: Final = 4
"""It was triggered."""
KNOWN: Final = 8
"""It has reconciled before."""

Ended = Literal["", "Completed", "Failed"]
Finished = Literal["", "Decided", "Complete", "Failed"]


class JobSet(NamedTuple):
    """The stored JobSet; ``uid`` counts those of this name."""

    uid: int
    stamped: bool
    own: tuple[int, ...]
    """Restarts of single Jobs."""
    suspended: bool = False
    deleting: Literal["", "held", "foreground", "orphan"] = ""
    restarts: int = 0
    ended: Ended = ""
    resized: int = 0
    """Pods added to each Job of the first ReplicatedJob."""


class Job(NamedTuple):
    """A stored Job and its pods, by their number: which of them is which makes no difference."""

    owner: int
    attempt: int
    own: int
    size: int
    group: str
    """What its pods name: a PodGroup, on 1.35 ``WORKLOAD/TEMPLATE/KEY``, nothing without a gang."""
    suspended: bool
    deleting: bool = False
    finished: Finished = ""
    waiting: int = 0
    """Pods without a node."""
    bound: int = 0
    ending: int = 0
    """Pods on a node that are being deleted."""
    succeeded: int = 0
    failed: int = 0
    lost: int = 0
    """Indexes that failed permanently."""


class Object(NamedTuple):
    """A Workload, PodGroup or CompositePodGroup."""

    kind: str
    name: str
    uid: int
    owner: int
    counts: tuple[tuple[str, int], ...]
    """minCount by template, that of a group under the empty name."""
    deleting: bool = False
    placed: bool = False
    """The scheduler has placed it once."""
    parent: str = ""
    timely: bool = True
    """When gangctl decided to create it, it knew of no pod that had finished and that it counts."""


class Write(NamedTuple):
    """A write of gangctl that the API server has not received."""

    verb: Literal["create", "patch", "delete"]
    kind: str
    name: str
    uid: int = 0
    counts: tuple[tuple[str, int], ...] = ()
    owner: int = 0
    parent: str = ""
    timely: bool = True
    batch: int = 0
    """Writes of one batch are concurrent: the rest of it is done when one is refused."""
    ends_refused: bool = True
    """A refusal ends the reconcile, and it is repeated; else it goes on with the next call."""
    ends_failed: bool = True
    """The same of a failure of the API server."""
    call: int = 0
    """Those of one call of the writer end with the first refusal."""


class State(NamedTuple):
    """Everything; ``seen_`` is what gangctl's caches hold."""

    jobset: JobSet | None
    jobs: tuple[Job | None, ...]
    objects: tuple[Object, ...]
    """By kind and name."""
    seen_jobset: JobSet | None
    seen_jobs: tuple[int, ...]
    """Numbers of what gangctl keeps of a Job (:meth:`tests.search.views.Views.number`), 0 without one."""
    seen_objects: tuple[Object, ...]
    watched: tuple[Object, ...]
    """The same without gangctl's own writes, where another replica may take over; else nothing."""
    due: int
    """When gangctl reconciles again: a sum of :data:`RESYNC`, :data:`SOON`, :data:`NOW` and :data:`KNOWN`."""
    writes: tuple[Write, ...]
    late: Write | None
    budget: tuple[int, ...]
    """How often each of :data:`tests.search.world.STEPS` may still happen."""


def find(objects: tuple[Object, ...], kind: str, name: str) -> Object | None:
    """The object of a kind with a name."""
    for one in objects:
        if one.name == name and one.kind == kind:
            return one
    return None


def put(objects: tuple[Object, ...], new: Object) -> tuple[Object, ...]:
    """With an object in place of the one of its kind and name."""
    kept = [one for one in objects if one.name != new.name or one.kind != new.kind]
    kept.append(new)
    kept.sort()
    return tuple(kept)


def drop(objects: tuple[Object, ...], old: Object) -> tuple[Object, ...]:
    """Without an object."""
    return tuple(one for one in objects if one != old)
