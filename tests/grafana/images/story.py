"""Six hours of three teams on one cluster, by the minute: when each gang is created, starts, runs and ends.

They share two ClusterQueues, first come, first served. A node is lost, a JobSet is too large for its quota, one waits
for an image, and one finds no nodes. The same every time.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from gangctl.gang.reasons import Reason
from gangctl.readiness.result import GangPhase

HOURS: Final = 6
END: Final = HOURS * 60
"""The minute that is now."""
START: Final = -90
"""Before the time shown: what runs at its beginning was created earlier."""
QUOTA: Final = {"gpus": 96, "cpus": 64}
"""Pods of gangs that a ClusterQueue admits at once."""
_NODE_LOST: Final = 200
_TOO_LARGE, _NO_NODES, _NO_IMAGE = 255, 282, 318


@dataclass(frozen=True)
class Tenant:
    """A team with its queue, and what it runs."""

    namespace: str
    local_queue: str
    cluster_queue: str
    names: tuple[str, ...]
    sizes: tuple[int, ...]
    every: float
    runs: tuple[float, float]


TENANTS: Final = (
    Tenant("team-a", "research", "gpus", ("llm", "vision", "speech"), (8, 16, 32), 30, (45, 150)),
    Tenant("team-b", "batch", "gpus", ("sweep", "finetune"), (4, 8), 15, (15, 60)),
    Tenant("team-c", "eval", "cpus", ("eval", "export"), (4, 12), 10, (8, 35)),
)


@dataclass(frozen=True)
class Step:
    """From a minute on: the phase, why it is not ready, and how many pods are placed and ready."""

    minute: float
    phase: GangPhase
    reason: Reason | None = None
    placed: int = 0
    ready: int = 0


@dataclass
class Gang:
    """One JobSet; its steps are in the order of time."""

    tenant: Tenant
    name: str
    pods: int
    steps: list[Step] = field(default_factory=list)
    admitted: float | None = None
    scheduled: float | None = None

    @property
    def created(self) -> float:
        """The minute of the first step."""
        return self.steps[0].minute

    @property
    def first_pod_ready(self) -> float | None:
        """The minute at which the first of its pods was ready."""
        return next((step.minute for step in self.steps if step.ready), None)

    @property
    def first_ready(self) -> float | None:
        """The minute at which all pods were ready for the first time."""
        return next((step.minute for step in self.steps if step.phase is GangPhase.READY), None)


def gangs() -> list[Gang]:
    """Everything that happened."""
    chance = random.Random(7)
    found: list[Gang] = []
    for queue, quota in QUOTA.items():
        found += _queue([gang for gang in _created(chance) if gang.tenant.cluster_queue == queue], quota, chance)
    return [*found, *_held_back()]


def _created(chance: random.Random) -> Iterator[Gang]:
    for tenant in TENANTS:
        minute, number = float(START), 0
        while (minute := minute + chance.expovariate(1 / tenant.every)) < END:
            number += 1
            gang = Gang(tenant, f"{chance.choice(tenant.names)}-{number}", chance.choice(tenant.sizes))
            gang.steps.append(Step(minute, GangPhase.QUEUED, Reason.WAITING_FOR_QUOTA))
            yield gang


def _queue(waiting: list[Gang], quota: int, chance: random.Random) -> list[Gang]:
    """Admit each when those before it leave enough; the end of a gang is known when it starts."""
    running: list[tuple[float, int]] = []
    now = float(START)
    lost = False
    for gang in sorted(waiting, key=lambda gang: gang.created):
        now = max(now, gang.created)
        while sum(pods for end, pods in running if end > now) + gang.pods > quota:
            now = min(end for end, _ in running if end > now)
        end = _run(gang, now + 0.1, chance)
        if not lost and (gang.first_ready or END) < _NODE_LOST - 10 and end > _NODE_LOST + 30 and gang.pods > 8:
            lost = True
            end = _lose_a_node(gang)
        running.append((end, gang.pods))
    return waiting


def _run(gang: Gang, admitted: float, chance: random.Random) -> float:
    """From its admission to its end, which is returned."""
    pods = gang.pods
    gang.admitted = admitted
    gang.scheduled = admitted + chance.uniform(0.1, 0.6) + (chance.uniform(2, 9) if chance.random() < 0.15 else 0)
    pulled = gang.scheduled + chance.lognormvariate(0.2, 0.5)
    ready = pulled + chance.lognormvariate(-0.2, 0.7) * (1 + pods / 16)
    end = ready + chance.uniform(*gang.tenant.runs)
    gang.steps += [
        Step(admitted, GangPhase.SCHEDULING),
        Step(gang.scheduled, GangPhase.STARTING, Reason.STARTING, pods),
        Step(pulled, GangPhase.PARTIALLY_READY, Reason.NOT_READY, pods, pods // 2),
        Step(ready, GangPhase.READY, None, pods, pods),
    ]
    if chance.random() < 0.06:
        crash = ready + (end - ready) / 3
        gang.steps += [
            Step(crash, GangPhase.DEGRADED, Reason.CRASH_LOOP, pods, pods - 1),
            Step(crash + 2, GangPhase.RESTARTING, Reason.RESTARTING, pods),
            Step(crash + 4.5, GangPhase.READY, None, pods, pods),
        ]
    gang.steps.append(Step(end, GangPhase.FAILED if chance.random() < 0.05 else GangPhase.SUCCEEDED))
    return end


def _lose_a_node(gang: Gang) -> float:
    """Two of its pods are gone, and have no place for a quarter of an hour; it runs for longer than is shown."""
    pods, left = gang.pods, gang.pods - 2
    gang.steps = [step for step in gang.steps if step.minute < _NODE_LOST] + [
        Step(_NODE_LOST, GangPhase.DEGRADED, Reason.NODE_LOST, left, left),
        Step(_NODE_LOST + 3, GangPhase.RESTARTING, Reason.RESTARTING, left),
        Step(_NODE_LOST + 5, GangPhase.PARTIALLY_PLACED, Reason.UNSCHEDULABLE, left),
        Step(_NODE_LOST + 19, GangPhase.STARTING, Reason.STARTING, pods),
        Step(_NODE_LOST + 21, GangPhase.PARTIALLY_READY, Reason.NOT_READY, pods, pods - 1),
        Step(_NODE_LOST + 22, GangPhase.READY, None, pods, pods),
    ]
    return float(END)


def _held_back() -> list[Gang]:
    """Those that an operator finds when he opens the dashboard."""
    research, batch, evaluation = TENANTS
    return [
        Gang(batch, "sweep-wide", 128, [Step(_TOO_LARGE, GangPhase.QUEUED, Reason.NEVER_FITS)]),
        Gang(
            research,
            "llm-70b",
            16,
            [
                Step(_NO_NODES - 16, GangPhase.QUEUED, Reason.WAITING_FOR_QUOTA),
                Step(_NO_NODES - 1, GangPhase.SCHEDULING),
                Step(_NO_NODES, GangPhase.UNSCHEDULABLE, Reason.UNSCHEDULABLE),
            ],
            admitted=_NO_NODES - 1,
        ),
        Gang(
            evaluation,
            "eval-nightly",
            6,
            [
                Step(_NO_IMAGE - 2, GangPhase.SCHEDULING),
                Step(_NO_IMAGE, GangPhase.STARTING, Reason.IMAGE_PULL, 6),
                Step(_NO_IMAGE + 4, GangPhase.PARTIALLY_READY, Reason.IMAGE_PULL, 6, 5),
            ],
            admitted=_NO_IMAGE - 2,
            scheduled=_NO_IMAGE,
        ),
    ]
