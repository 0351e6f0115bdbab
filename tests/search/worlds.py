"""The worlds: a table, and a generator for more."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from tests.search.world import ReplicatedJob, World

MINORS: Final = ("1.35", "1.36", "1.37")
FAST: Final = frozenset({"jobset", "job", "kubelet", "gc", "watch"})
"""Only gangctl's reconcile and writes, the scheduler, pods, users and faults come in any order."""
STALE: Final = frozenset({"jobset", "job", "kubelet", "gc"})
"""The watches, too."""
SLOW: Final = frozenset({"job", "kubelet"})
"""JobSet's controller and the garbage collector, too."""

_PAIR: Final = (ReplicatedJob("w", 1, 2, 2),)
_THREE: Final = (ReplicatedJob("w", 1, 3, 3),)
_TWO_JOBS: Final = (ReplicatedJob("w", 2, 1, 1),)
_MIXED: Final = (ReplicatedJob("a", 1, 1, 1), ReplicatedJob("b", 1, 2, 2))
_FRAGILE: Final = (ReplicatedJob("w", 1, 2, 2, backoff=0),)
_SLICES: Final = (ReplicatedJob("w", 2, 2, 2, mode="ReplicatedGang"),)

_EACH_REPLICA: Final = '[{"name": "each", "replicatedJobs": ["w"], "perReplica": true}]'
_ALL: Final = '[{"name": "all", "replicatedJobs": ["w"]}]'
GANGS: Final = '[{"name": "front", "replicatedJobs": ["a"]}, {"name": "rest", "replicatedJobs": ["b", "c"]}]'


def _on(*minors: str, **world: object) -> tuple[World, ...]:
    """The same world on several minors."""
    one = World(**world)  # type: ignore[arg-type]
    return tuple(replace(one, name=f"{one.name}-{minor}", minor=minor) for minor in minors)


TABLE: Final[tuple[World, ...]] = (
    *_on(*MINORS, name="tail", jobs=_THREE, steps={"pod.succeeds": 3, "pod.fails": 1}, eager=STALE),
    *_on(*MINORS, name="suspend", jobs=_PAIR, steps={"pod.succeeds": 2, "user.suspend": 1}, eager=STALE),
    *_on(
        *MINORS,
        name="init-and-workers",
        jobs=_MIXED,
        steps={"pod.succeeds": 3, "user.suspend": 1, "pod.fails": 1},
        eager=FAST,
    ),
    *_on(
        *MINORS, name="restart", jobs=_FRAGILE, max_restarts=1, steps={"pod.succeeds": 1, "pod.fails": 2}, eager=STALE
    ),
    *_on(
        *MINORS,
        name="restart-of-all",
        jobs=(ReplicatedJob("w", 2, 1, 1, backoff=0),),
        max_restarts=1,
        steps={"pod.succeeds": 2, "pod.fails": 2},
        eager=SLOW,
    ),
    *_on(
        "1.36", "1.37", name="slices", jobs=_SLICES, mode="", steps={"pod.succeeds": 2, "user.suspend": 1}, eager=FAST
    ),
    *_on(
        "1.36",
        "1.37",
        name="slices-restart-alone",
        jobs=(ReplicatedJob("w", 2, 2, 2, backoff=0, mode="ReplicatedGang"),),
        mode="",
        max_restarts=1,
        restart_job=True,
        steps={"pod.succeeds": 2, "pod.fails": 2},
        eager=FAST,
    ),
    *_on(
        "1.36",
        "1.37",
        name="each-replicated-job",
        jobs=(ReplicatedJob("a", 1, 2, 2, mode="Gang"), ReplicatedJob("b", 1, 2, 2, mode="Gang", depends_on="a")),
        mode="",
        steps={"pod.succeeds": 2, "user.suspend": 1},
        eager=FAST,
    ),
    *_on(
        "1.36",
        "1.37",
        name="several-gangs",
        jobs=(ReplicatedJob("a"), ReplicatedJob("b"), ReplicatedJob("c")),
        mode="",
        gangs=GANGS,
        steps={"pod.succeeds": 2, "pod.fails": 1, "user.suspend": 1},
        eager=FAST,
    ),
    World(
        "composite",
        _SLICES,
        mode="",
        composite=True,
        steps={"pod.succeeds": 4, "pod.fails": 1, "user.suspend": 1},
        eager=FAST,
    ),
    World(
        "composite-restart",
        (ReplicatedJob("w", 2, 1, 1, backoff=0, mode="ReplicatedGang"),),
        mode="",
        composite=True,
        max_restarts=1,
        steps={"pod.succeeds": 2, "pod.fails": 2},
        eager=FAST,
    ),
    *_on(
        "1.36",
        "1.37",
        name="slices-of-a-pathways-job",
        jobs=(ReplicatedJob("worker", 2, 2, 2),),
        mode="",
        pathways=True,
        steps={"pod.succeeds": 1, "user.suspend": 1},
        eager=FAST,
    ),
    World(
        "slices-start-together",
        (ReplicatedJob("worker", 2, 2, 2),),
        mode="",
        composite=True,
        pathways=True,
        steps={"pod.succeeds": 1, "user.suspend": 1},
        eager=FAST,
    ),
    *_on(
        *MINORS,
        name="failed-indexes",
        jobs=(ReplicatedJob("w", 1, 3, 3, per_index=True),),
        steps={"pod.index-fails": 1, "pod.fails": 1, "pod.succeeds": 1},
        eager=STALE,
    ),
    *_on(
        *MINORS,
        name="work-queue",
        jobs=(ReplicatedJob("w", 1, 3, None),),
        steps={"pod.succeeds": 2, "pod.fails": 2},
        eager=FAST,
    ),
    *_on(
        "1.36",
        "1.37",
        name="success-policy",
        jobs=(ReplicatedJob("a", 1, 2, 2, leader_decides=True), ReplicatedJob("b", 1, 2, 2)),
        steps={"pod.succeeds": 2, "pod.fails": 1},
        eager=FAST,
    ),
    World("resize", _PAIR, steps={"user.resize": 1, "pod.succeeds": 1, "user.suspend": 1}, eager=STALE),
    *_on(
        *MINORS,
        name="held-in-deletion",
        jobs=_THREE,
        held=True,
        steps={"user.delete": 1, "pod.succeeds": 2, "pod.fails": 1},
        eager=STALE,
    ),
    *_on(
        "1.36",
        "1.37",
        name="quota",
        jobs=_FRAGILE,
        max_restarts=3,
        quota=1,
        steps={"pod.fails": 2},
        eager=FAST,
    ),
    World("quota-for-spares", _FRAGILE, max_restarts=3, quota=2, steps={"pod.fails": 3}, eager=FAST),
    *_on(
        *MINORS,
        name="in-a-queue",
        jobs=_PAIR,
        queue=True,
        steps={"pod.succeeds": 2, "pod.fails": 1, "user.suspend": 2},
        eager=STALE,
    ),
    *_on(
        *MINORS, name="deleted", jobs=_PAIR, steps={"user.delete": 1, "user.create": 1, "pod.succeeds": 1}, eager=SLOW
    ),
    World("deleted-in-foreground", _PAIR, steps={"user.delete-foreground": 1, "user.create": 1}, eager=SLOW),
    *_on(*MINORS, name="orphaned", jobs=_PAIR, steps={"user.delete-orphan": 1, "user.create": 1}, eager=STALE),
    *_on(
        "1.36",
        "1.37",
        name="orphaned-one-by-one",
        jobs=_PAIR,
        steps={"user.delete-orphan": 1, "user.create": 1},
        eager=SLOW,
    ),
    *_on(
        "1.36",
        "1.37",
        name="group-deleted-by-hand",
        jobs=_PAIR,
        steps={"user.delete-group": 1, "pod.succeeds": 1, "pod.fails": 1},
        eager=SLOW,
    ),
    *_on(
        *MINORS,
        name="workload-deleted-by-hand",
        jobs=_PAIR,
        steps={"user.delete-workload": 1, "pod.succeeds": 1, "pod.fails": 1},
        eager=STALE,
    ),
    World("edited", _PAIR, steps={"user.edit-group": 1, "pod.succeeds": 1, "pod.fails": 1}, eager=STALE),
    *_on(
        "1.36",
        "1.37",
        name="foreign",
        jobs=_PAIR,
        steps={"foreign.create": 1, "foreign.delete": 1, "user.suspend": 1},
        eager=FAST,
    ),
    *_on(
        "1.36",
        "1.37",
        name="crash",
        jobs=_PAIR,
        steps={"fault.crash": 1, "user.suspend": 1, "pod.succeeds": 1},
        eager=STALE,
    ),
    *_on(
        "1.36",
        "1.37",
        name="refused-and-late",
        jobs=_PAIR,
        steps={"fault.refuse": 1, "fault.late": 1, "user.suspend": 1, "pod.succeeds": 1},
        eager=FAST,
    ),
    *_on(
        "1.36",
        "1.37",
        name="spares-refused-and-late",
        jobs=_FRAGILE,
        max_restarts=1,
        steps={"fault.refuse": 1, "fault.late": 1, "user.delete-group": 1},
        eager=STALE,
    ),
    *_on(
        "1.36",
        "1.37",
        name="lost-trigger",
        jobs=_FRAGILE,
        max_restarts=1,
        steps={"fault.lose-trigger": 1, "pod.succeeds": 1, "pod.fails": 1, "user.suspend": 1},
        eager=STALE,
    ),
    *_on(
        "1.36",
        "1.37",
        name="restart-alone-in-a-shared-gang",
        jobs=(ReplicatedJob("a", 1, 1, 1), ReplicatedJob("b", 1, 3, 3, backoff=0)),
        max_restarts=2,
        restart_job=True,
        steps={"pod.succeeds": 3, "pod.fails": 2},
        eager=FAST,
    ),
    *_on(
        "1.36", "1.37", name="stray", jobs=_MIXED, stray="a", steps={"pod.succeeds": 1, "user.suspend": 1}, eager=FAST
    ),
    World(
        "restart-in-the-tail",
        (ReplicatedJob("a", 1, 2, 2), ReplicatedJob("b", 1, 1, 1, backoff=0)),
        max_restarts=2,
        steps={"pod.succeeds": 2, "pod.fails": 2},
        eager=FAST,
    ),
    World("late-in-the-tail", _THREE, steps={"fault.late": 1, "pod.succeeds": 2, "pod.fails": 1}, eager=FAST),
    *_on(
        "1.36",
        "1.37",
        name="failover",
        jobs=_PAIR,
        steps={"fault.failover": 1, "user.suspend": 1, "pod.succeeds": 1, "pod.fails": 1},
        eager=STALE,
    ),
    World(
        "failover-in-a-restart",
        _FRAGILE,
        max_restarts=1,
        steps={"fault.failover": 1, "pod.fails": 1, "pod.succeeds": 1},
        eager=STALE,
    ),
    *_on(
        *MINORS,
        name="evicted",
        jobs=_PAIR,
        steps={"pod.evicted": 2, "pod.succeeds": 2, "user.suspend": 1},
        eager=frozenset({"jobset", "job", "gc", "watch"}),
    ),
    *_on(
        *MINORS,
        name="admitted-by-a-queue",
        jobs=_MIXED,
        queue=True,
        suspended=True,
        steps={"pod.succeeds": 2, "pod.evicted": 1, "user.suspend": 1},
        eager=FAST,
    ),
    *_on(
        "1.36",
        "1.37",
        name="enough-pods",
        jobs=(ReplicatedJob("a", 1, 3, 3),),
        mode="",
        gangs='[{"name": "most", "replicatedJobs": ["a"], "minCount": 2}]',
        minimum=2,
        steps={"pod.succeeds": 3, "pod.fails": 1, "user.suspend": 1},
        eager=FAST,
    ),
    *_on(
        "1.36",
        "1.37",
        name="first-job-decides",
        jobs=_TWO_JOBS,
        any_succeeds=True,
        steps={"pod.succeeds": 2, "pod.fails": 1, "user.suspend": 1},
        eager=STALE,
    ),
    World(
        "devices-one-after-another",
        _TWO_JOBS,
        mode="",
        gangs=_EACH_REPLICA,
        devices=1,
        steps={"pod.succeeds": 2, "pod.fails": 1, "user.suspend": 1},
        eager=FAST,
    ),
    World(
        "devices-in-a-queue",
        _PAIR,
        mode="",
        gangs=_ALL,
        devices=1,
        queue=True,
        suspended=True,
        steps={"pod.succeeds": 2, "user.suspend": 2},
        eager=FAST,
    ),
    World(
        "devices-in-a-restart",
        _FRAGILE,
        mode="",
        gangs=_ALL,
        devices=1,
        max_restarts=2,
        steps={"pod.succeeds": 1, "pod.fails": 2, "user.suspend": 1},
        eager=STALE,
    ),
    World("two-jobs-slowly", _TWO_JOBS, steps={"pod.succeeds": 1, "user.suspend": 1}, eager=frozenset()),
    World("spurious", _PAIR, steps={"gangctl.resync": 2, "user.suspend": 1, "pod.succeeds": 1}, eager=STALE),
)


def named(name: str) -> World:
    """The world of this name."""
    return next(world for world in TABLE if world.name == name)


_EACH: Final = tuple(job._replace(mode="Gang") for job in _MIXED)
_SEVERAL: Final = (*_MIXED, ReplicatedJob("c", 1, 1, 1))
_SHAPES: Final = (
    *(("Gang", "", jobs) for jobs in (_PAIR, _THREE, _MIXED, _TWO_JOBS)),
    *(("", "", jobs) for jobs in (_SLICES, _EACH)),
    ("", GANGS, _SEVERAL),
)
"""Mode, gangs and ReplicatedJobs of generated worlds."""
_FAULTS: Final = ("fault.crash", "fault.lose-trigger", "fault.refuse", "fault.late", "gangctl.resync")
_USERS: Final = ("user.suspend", "user.delete-group", "user.delete-workload", "user.delete", "user.delete-orphan")


def generated(seed: int) -> Iterator[World]:
    """More worlds, without end: the same for the same seed."""
    chance = random.Random(seed)
    number = 0
    while True:
        number += 1
        yield _draw(chance, f"generated-{seed}-{number}")


def _draw(chance: random.Random, name: str) -> World:
    mode, gangs, shape = chance.choice(_SHAPES)
    minor = chance.choice(MINORS)
    restarts = chance.choice((0, 0, 1, 2))
    if minor == "1.35" and mode == "":
        minor = "1.37"
    jobs = tuple(
        job._replace(
            backoff=0 if restarts else 6,
            per_index=not restarts and job.parallelism > 1 and chance.random() < 0.2,
            completions=None if not restarts and chance.random() < 0.2 else job.completions,
        )
        for job in shape
    )
    steps: dict[str, int] = {"pod.succeeds": chance.choice((0, 1, 2, 3)), "pod.fails": chance.choice((0, 1, 2))}
    if any(job.per_index and job.completions is not None for job in jobs):
        steps["pod.index-fails"] = 1
    jobs = tuple(job._replace(per_index=job.per_index and job.completions is not None) for job in jobs)
    steps[chance.choice(_USERS)] = 1
    steps["user.create"] = int("user.delete" in steps or "user.delete-orphan" in steps)
    steps[chance.choice(_FAULTS)] = 1
    composite = mode == "" and minor == "1.37" and chance.random() < 0.5
    return World(
        name,
        jobs,
        minor=minor,
        mode=mode,
        gangs=gangs,
        composite=composite,
        devices=int(gangs != "" and minor == "1.37" and not composite),
        max_restarts=restarts,
        restart_job=bool(restarts) and chance.random() < 0.3,
        queue=chance.random() < 0.2,
        steps=_paid(steps),
        eager=chance.choice((FAST, FAST, STALE, SLOW)),
    )


def _paid(steps: Mapping[str, int]) -> Mapping[str, int]:
    return {step: count for step, count in steps.items() if count}
