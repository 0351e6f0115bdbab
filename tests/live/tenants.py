"""Some thirty gangs of several tenants, side by side on one control plane: at least one in every phase."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gangctl.gang.reasons import Reason
from gangctl.readiness.result import GangPhase
from tests.controlplane.api import Object
from tests.jobsets import jobset, rj
from tests.live.kueue import PRIORITY, QUEUE_NAME
from tests.live.plays import PLAY, RESTARTS

POOL: Final = "gangctl.dev/pool"
NOBODY: Final = "example.org/nobody"
PHANTOM: Final = "phantom"
"""A scheduler that is configured in gangctl, and does not run."""
FINALIZER: Final = "example.org/stays"

TEAM: Final = "team-a"
QUEUED: Final = "team-q"
"""Whose JobSets go through queues."""
PODLESS: Final = "team-podless"
JOBLESS: Final = "team-jobless"
NAMESPACES: Final = (TEAM, QUEUED, PODLESS, JOBLESS)

ROOM: Final = "room"
NODES: Final[Mapping[str, tuple[int, str]]] = {
    ROOM: (4, "32"),
    "half-1": (1, "2"),
    "half-2": (1, "2"),
    "half-3": (1, "2"),
    "lost": (1, "2"),
    "full": (1, "2"),
}
"""How many nodes of how many CPUs each pool has."""

LATE: Final = 7
"""Gangs that become ready long after their admission."""


@dataclass(frozen=True)
class Gang:
    """A JobSet, and its expected report in its last phase; without a phase it does not stay."""

    name: str
    body: Object
    namespace: str = TEAM
    phase: GangPhase | None = None
    reason: Reason | None = None
    after: bool = field(default=False)
    """Made once the others run."""


def pods(
    name: str, count: int, play: str, *, pool: str = ROOM, finalizers: bool = False, job: Any = None, **pod: Any
) -> Object:
    """A ReplicatedJob of one Job with so many pods of one CPU, which play like this."""
    made = rj(name, 1, count, count, cpu="1", pod={"nodeSelector": {POOL: pool}, **pod}, job=job)
    metadata: Object = {"labels": {PLAY: play}, **({"finalizers": [FINALIZER]} if finalizers else {})}
    made["template"]["spec"]["template"]["metadata"] = metadata
    return made


def gang(
    name: str,
    phase: GangPhase | None,
    reason: Reason | None = None,
    *replicated_jobs: Object,
    namespace: str = TEAM,
    queue: str = "",
    priority: str = "",
    after: bool = False,
    **spec: Any,
) -> Gang:
    """A gang; in the namespace of queues it goes through one."""
    raw = jobset(name, *(replicated_jobs or (pods("w", 2, "ready"),)), mode="Gang", namespace=namespace, **spec)
    raw["metadata"]["labels"] = {
        "team": "a",
        **({QUEUE_NAME: queue} if queue else {}),
        **({PRIORITY: priority} if priority else {}),
    }
    return Gang(name, raw, namespace, phase, reason, after)


def queued(name: str, queue: str, phase: GangPhase | None, reason: Reason | None = None, **further: Any) -> Gang:
    """A gang in a queue."""
    replicated_job = further.pop("of", None) or pods("w", 2, "ready")
    return gang(name, phase, reason, replicated_job, namespace=QUEUED, queue=queue, **further)


UNGANGED: Final = gang("unganged", GangPhase.READY)
"""Made while gangctl does not run: it asks for a gang, and gets none."""

CONFLICT: Final = gang("conflict", GangPhase.SCHEDULING, Reason.NAME_CONFLICT, suspend=True)
"""Resumed once another client has created the Workload that it should have."""

HALVES: Final = tuple(
    gang(
        name, GangPhase.PARTIALLY_PLACED, Reason.UNSCHEDULABLE, pods("w", 2, "none", pool=name, job={"backoffLimit": 6})
    )
    for name in ("half-1", "half-2")
)
"""Each loses a pod, and its node takes no other one: two that may hold what the other one needs."""

HALF_ALONE: Final = queued(
    "half-3",
    "alone",
    GangPhase.PARTIALLY_PLACED,
    Reason.UNSCHEDULABLE,
    of=pods("w", 2, "none", pool="half-3", job={"backoffLimit": 6}),
)
"""The same, in a queue of its own: no other gang there can be placed in part with it, however slow the machine is."""

RECOVERING: Final = gang("ready-2", GangPhase.READY, None, pods("w", 4, "ready"))
"""One of its pods ceases to be ready, and is ready again."""

DEGRADED: Final = gang("degraded", GangPhase.DEGRADED, Reason.NOT_READY)
"""One of its pods ceases to be ready."""

LOST: Final = gang("lost", None, None, pods("w", 2, "ready", pool="lost"))
"""Its node goes, and in the end its pods do."""

GANGS: Final = (
    CONFLICT,
    *HALVES,
    HALF_ALONE,
    DEGRADED,
    LOST,
    gang("suspended", GangPhase.SUSPENDED, Reason.SUSPENDED, suspend=True),
    gang("gated", GangPhase.GATED, Reason.PODS_GATED, pods("w", 2, "ready", schedulingGates=[{"name": NOBODY}])),
    gang("jobless", GangPhase.PENDING, Reason.JOB_CREATION_REFUSED, namespace=JOBLESS),
    gang("podless", GangPhase.WAITING_FOR_PODS, Reason.POD_CREATION_REFUSED, namespace=PODLESS),
    gang("unmade", GangPhase.WAITING_FOR_PODS, Reason.PODS_MISSING, pods("w", 2, "ready", job={"managedBy": NOBODY})),
    gang("unseen", GangPhase.SCHEDULING, Reason.SCHEDULER_SILENT, pods("w", 2, "ready", schedulerName=PHANTOM)),
    gang("roomless", GangPhase.UNSCHEDULABLE, Reason.UNSCHEDULABLE, pods("w", 2, "ready", pool="nowhere")),
    gang("starting", GangPhase.STARTING, Reason.STARTING, pods("w", 2, "none")),
    gang("partly", GangPhase.PARTIALLY_READY, Reason.STARTING, pods("a", 1, "ready"), pods("b", 1, "none")),
    gang("ready-1", GangPhase.READY),
    RECOVERING,
    gang(
        "restarting",
        GangPhase.RESTARTING,
        Reason.RESTARTING,
        pods("w", 2, "fail", finalizers=True),
        failurePolicy={"maxRestarts": 3},
    ),
    gang("loops", GangPhase.READY, None, pods("w", 2, "loop"), failurePolicy={"maxRestarts": RESTARTS}),
    # One that has finished has no series of its own.
    gang("succeeded", None, None, pods("w", 2, "finish")),
    gang("failed", None, None, pods("w", 2, "fail")),
    gang("near", GangPhase.READY, options=f'{{"topologyKey": "{POOL}"}}'),
    gang("image", GangPhase.STARTING, Reason.IMAGE_PULL, pods("w", 2, "image")),
    gang("crash", GangPhase.STARTING, Reason.CRASH_LOOP, pods("w", 2, "crash")),
    gang("weak", None, None, pods("w", 2, "ready", pool="full", priorityClassName="low")),
    gang("strong", GangPhase.READY, None, pods("w", 2, "ready", pool="full", priorityClassName="high"), after=True),
    queued("huge", "main", GangPhase.QUEUED, Reason.NEVER_FITS, of=pods("w", 200, "ready")),
    queued("held", "held", GangPhase.QUEUED, Reason.QUEUE_BLOCKED),
    queued("inactive", "main", GangPhase.QUEUED, Reason.SUSPENDED, of=pods("w", 2, "none")),
    queued("classless", "main", GangPhase.QUEUED, Reason.PRIORITY_CLASS_MISSING, priority="no-such-class"),
    queued("greedy", "greedy", GangPhase.READY),
    queued("starved", "starved", GangPhase.QUEUED, Reason.WAITING_FOR_QUOTA, after=True),
    queued("patient", "contested", GangPhase.QUEUED, Reason.WAITING_FOR_QUOTA, priority="low"),
    queued("urgent", "contested", GangPhase.READY, priority="high", after=True),
    queued("early", "main", GangPhase.READY),
    *(queued(f"late-{n}", "main", GangPhase.READY, of=pods("w", 2, "late"), after=True) for n in range(LATE)),
)

ROGUES: Final = tuple(gang(f"rogue-{n}", GangPhase.SUSPENDED, suspend=True) for n in range(2))
"""Break a policy that only warns, once the others have been scanned."""
for _rogue in ROGUES:
    del _rogue.body["metadata"]["labels"]["team"]

CROWD: Final = 140
"""More than gangctl works on at once, and a hundred more."""


def crowd() -> list[Gang]:
    """Gangs of whose pods none is ever made, for gangctl to have something to do."""
    return [gang(f"crowd-{n}", None, None, pods("w", 1, "ready", job={"managedBy": NOBODY})) for n in range(CROWD)]
