"""What failures cost, as Prometheus metrics: losses, recoveries, attempts, and the time for which resources are held.

Each is counted from the moment at which this replica leads. Queues have series of their own as long as there is room;
when a new one needs room, it takes that of the queue that has had no gang for longest, else it is counted under
``(others)``, resource by resource.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry, Metric

from gangctl.readiness.losses import Losses
from gangctl.readiness.metrics import OTHERS, THE_OTHERS, Queue, queue_of
from gangctl.readiness.result import GangPhase, Readiness
from gangctl.readiness.seconds import HeldTime, held
from gangctl.readiness.starts import Attempts
from gangctl.runtime.families import Family, FirstCome

QUEUE: Final = ("namespace", "local_queue", "cluster_queue")
HELD: Final = (*QUEUE, "resource")

MOST_LOSSES: Final = 200
"""Pairs of ClusterQueue and reason that are counted on their own."""
MOST_RECOVERIES: Final = 40
"""Such pairs that have histograms of their own; one is some 20 series."""
MOST_HELD: Final = 1000
"""Pairs of queue and resource that have sums of their own."""
MOST_RESOURCES: Final = 20
"""Resources that have series of their own among queues that have none; what is beyond is one more."""

RECOVERY_SECONDS: Final = (5, 10, 20, 40, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 43200, 86400)
"""Upper bounds: from the replacement of a pod to a day until a node comes back."""

DISRUPTIONS: Final = Family(
    "gangctl_gang_disruptions_total",
    "counter",
    "Times at which a gang that had been ready was no longer ready and had not finished, by reason.",
    ("cluster_queue", "reason"),
)
RECOVERY: Final = Family(
    "gangctl_gang_recovery_seconds",
    "histogram",
    "Seconds from the loss of a member of a ready gang until the gang was ready again, in the same or a later attempt, "
    "by the reason of the loss.",
    ("cluster_queue", "reason"),
    RECOVERY_SECONDS,
)
ATTEMPTS: Final = Family(
    "gangctl_gang_attempts_total",
    "counter",
    "Attempts of JobSets that began: all pods that start together got nodes, the first time or after a restart.",
    QUEUE,
)
DEGRADED: Final = Family(
    "gangctl_gang_degraded_seconds_total",
    "counter",
    "Seconds that JobSets spent in the phase degraded, in total.",
    QUEUE,
)
ALLOCATED: Final = Family(
    "gangctl_gang_allocated_resource_seconds_total",
    "counter",
    "Seconds for which pods of gangs were on nodes, times what they request of the resource: 1 of pods, or an extended "
    "resource such as nvidia.com/gpu.",
    HELD,
)
READY: Final = Family(
    "gangctl_gang_ready_resource_seconds_total",
    "counter",
    "The part of gangctl_gang_allocated_resource_seconds_total for which the pods were ready.",
    HELD,
)
INCOMPLETE: Final = Family(
    "gangctl_gang_incomplete_resource_seconds_total",
    "counter",
    "The part of gangctl_gang_allocated_resource_seconds_total for which the gang was not ready: other pods of it were "
    "missing, had no node or were not ready.",
    HELD,
)
RESTARTING: Final = Family(
    "gangctl_gang_restart_resource_seconds_total",
    "counter",
    "The part of gangctl_gang_incomplete_resource_seconds_total from a restart of the JobSet until it was ready again.",
    HELD,
)

_OF_RESOURCES: Final = (ALLOCATED, READY, INCOMPLETE, RESTARTING)
"""In the order of the fields of :class:`gangctl.readiness.seconds.Held`."""
SCRAPED: Final = (DEGRADED, ATTEMPTS, *_OF_RESOURCES)
"""Families that are computed at each scrape; the others are updated by changes."""
LIMITED: Final = (*SCRAPED, DISRUPTIONS, RECOVERY)
"""Families whose label sets are limited: all."""


class _Place(NamedTuple):
    """One sum of held resources."""

    queue: Queue
    resource: str


class CostMetrics:
    """The collectors, in one registry, notified of every change of a gang that the leader follows."""

    def __init__(self, registry: CollectorRegistry, queues: int, dropped: Callable[[Family, int], None]) -> None:
        """At most ``queues`` have series of their own; ``dropped`` is called for each that has not."""
        self._queues = queues
        self._dropped = dropped
        self._disruptions = DISRUPTIONS.counter(registry)
        self._recovery = RECOVERY.histogram(registry)
        self._known_losses: FirstCome[tuple[str, str]] = FirstCome(MOST_LOSSES)
        self._known_recoveries: FirstCome[tuple[str, str]] = FirstCome(MOST_RECOVERIES)
        self._resources: FirstCome[str] = FirstCome(MOST_RESOURCES)
        self.forget()

    def forget(self) -> None:
        """End the sums: this replica no longer leads."""
        self._losses = Losses()
        self._degraded: HeldTime[tuple[str, str], Queue] = HeldTime(self._queues)
        self._held: HeldTime[tuple[str, str], _Place] = HeldTime(MOST_HELD, len(_OF_RESOURCES))
        self._attempts: HeldTime[tuple[str, str], Queue] = HeldTime(self._queues)
        """A JobSet holds nothing there but the place of its queue."""
        self._begun: Attempts | None = None

    def leads(self, wall: float) -> None:
        """Count attempts that begin after ``wall``, Unix time."""
        self._begun = Attempts(wall)

    def on_status_change(self, before: Readiness | None, now: Readiness | None, monotonic: float) -> None:
        """Count what a change shows; ``before`` is what was passed last. ``monotonic`` is in seconds."""
        stated = now or before
        if stated is None:
            return
        self._count_time(stated, now, monotonic)
        noticed = self._losses.stands(before, now)
        if noticed.begun is not None:
            self._disruptions.labels(*self._pair(self._known_losses, stated.cluster_queue, noticed.begun.value))
            self._recovery.labels(*self._pair(self._known_recoveries, stated.cluster_queue, noticed.begun.value))
        if noticed.loss is not None:
            pair = self._pair(self._known_losses, stated.cluster_queue, noticed.loss.value, DISRUPTIONS)
            self._disruptions.labels(*pair).inc()
            # At 0 until the gang recovers, so that the first recovery is an increase, too.
            self._recovery.labels(*self._pair(self._known_recoveries, stated.cluster_queue, noticed.loss.value))
        if (recovery := noticed.recovery) is not None:
            pair = self._pair(self._known_recoveries, stated.cluster_queue, recovery.reason.value, RECOVERY)
            self._recovery.labels(*pair).observe(recovery.seconds)
        self._count_attempt(stated, now, monotonic)

    def _count_attempt(self, stated: Readiness, now: Readiness | None, monotonic: float) -> None:
        if self._begun is None:
            return
        if now is None:
            self._begun.forget(stated.key)
            self._attempts.put(stated.key, {}, monotonic)
            return
        begins = self._begun.stands(now)
        if begins or not now.phase.over:
            # At 0 before the first attempt, for the same reason.
            beyond = self._attempts.put(now.key, {queue_of(now): (THE_OTHERS, (0,))}, monotonic)
            if begins:
                self._attempts.add(now.key, (1,))
                if beyond:
                    self._dropped(ATTEMPTS, beyond)
        if now.phase.over:
            # No attempt of it begins any more: its queue needs no series for it.
            self._attempts.put(now.key, {}, monotonic)

    def scraped(self, monotonic: float) -> Iterable[Metric]:
        """The families :data:`SCRAPED`, up to ``monotonic``."""
        for family, of_queues in ((DEGRADED, self._degraded), (ATTEMPTS, self._attempts)):
            yield family.metric([(queue, number) for queue, (number,) in of_queues.sums(monotonic)])
        sums = [((*queue, resource), numbers) for (queue, resource), numbers in self._held.sums(monotonic)]
        for number, family in enumerate(_OF_RESOURCES):
            yield family.metric([(labels, numbers[number]) for labels, numbers in sums])

    def _count_time(self, stated: Readiness, now: Readiness | None, monotonic: float) -> None:
        queue = queue_of(stated)
        is_degraded = now is not None and now.phase is GangPhase.DEGRADED
        beyond = self._degraded.put(stated.key, {queue: (THE_OTHERS, (1,))} if is_degraded else {}, monotonic)
        if beyond:
            self._dropped(DEGRADED, beyond)
        amounts = held(now) if now is not None else {}
        places = {
            _Place(queue, resource): (_Place(THE_OTHERS, self._resource(resource)), tuple(amount))
            for resource, amount in amounts.items()
        }
        # The families share their places: one without sums of its own has none in all of them.
        if beyond := self._held.put(stated.key, places, monotonic):
            for family in _OF_RESOURCES:
                self._dropped(family, beyond)

    def _resource(self, name: str) -> str:
        return name if self._resources.has_place(name) else OTHERS

    def _pair(
        self, first: FirstCome[tuple[str, str]], cluster_queue: str, reason: str, counted: Family | None = None
    ) -> tuple[str, str]:
        """The labels of a loss; ``counted`` is the family in which one more is counted."""
        if first.has_place((cluster_queue, reason)):
            return cluster_queue, reason
        if counted is not None:
            self._dropped(counted, 1)
        return OTHERS, reason
