"""The facts of a JobSet in Kueue's queues: one function, for what the controller writes and what commands print."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Protocol

from gangctl.api.jobset import JobSet
from gangctl.kueue.amounts import age
from gangctl.kueue.blocked import Blocked, blocked, selects
from gangctl.kueue.configuration import KueueConfiguration
from gangctl.kueue.objects import ClusterQueue, LocalQueue, QueuedWorkload
from gangctl.kueue.order import head_of, in_order, is_queued
from gangctl.kueue.states import phase_of
from gangctl.kueue.stuck import Owner, Stuck, effect_of_head, stuck_workload, without_workload

MOST_PODSETS: Final = 18
"""Podsets of a Workload since Kueue 0.19."""


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """State of a JobSet in Kueue; ``workload`` is None if Kueue has created none (yet)."""

    local_queue: str
    cluster_queue: str
    workload: QueuedWorkload | None = None
    blocked: Blocked | None = None
    stuck: Stuck | None = None
    never: str = ""
    """Why it can never be admitted, with the arithmetic; empty if unknown."""
    cluster: str = ""
    """The worker cluster on which MultiKueue runs it, or ran it; empty for none."""
    queues_known: bool = True
    """Whether ClusterQueues may be read."""


class QueueObjects(Protocol):
    """Kueue's objects at one moment, from informers or from a listing."""

    @property
    def queues_known(self) -> bool:
        """Whether LocalQueues and ClusterQueues may be read."""

    @property
    def configuration(self) -> KueueConfiguration:
        """Kueue's configuration; its defaults where it is not known."""

    @property
    def podset_limit(self) -> int | None:
        """Podsets that a Workload of this Kueue may have; None if unknown."""

    def has_priority_class(self, name: str) -> bool | None:
        """Whether a WorkloadPriorityClass of this name exists; None if unknown."""

    def workloads_of(self, uid: str) -> Iterable[QueuedWorkload]:
        """Kueue's Workloads that a JobSet of this UID controls, finished ones as well."""

    def local_queue(self, namespace: str, name: str) -> LocalQueue | None:
        """A LocalQueue; None if there is none."""

    def cluster_queue(self, name: str) -> ClusterQueue | None:
        """A ClusterQueue; None if there is none."""

    def labels(self, namespace: str) -> Mapping[str, str] | None:
        """Labels of a namespace; None if unknown."""

    def inside(self, cluster_queue: str) -> Iterable[QueuedWorkload]:
        """Kueue's Workloads in a ClusterQueue that have not finished."""


@dataclass(frozen=True, slots=True)
class Head:
    """The first Workload that waits in a StrictFIFO queue, at one time; ``behind`` are the others that wait."""

    workload: QueuedWorkload
    behind: int
    queue: ClusterQueue
    now: datetime

    def effect(
        self, reader: str | None, *, joined: bool = False, impossible: bool = False, kept: bool = False
    ) -> Stuck | None:
        """Its effect on those behind it, and on one that has ``joined``; None if it blocks none.

        ``reader`` is the namespace of the readers, None for those who may read all that the objects were read from.
        ``impossible`` is one that can never be admitted. ``kept`` texts have absolute times.
        """
        return effect_of_head(
            self.workload,
            self.behind + joined,
            self.queue,
            self.now,
            impossible=impossible,
            kept=kept,
            reader=reader,
        )

    def precedes(self, workload: QueuedWorkload) -> bool:
        """Whether Kueue tries it, and nothing else, before another Workload of its queue."""
        if workload.uid == self.workload.uid or not is_queued(workload):
            return False
        return head_of(in_order([self.workload, workload], self.queue), self.queue) is self.workload


Never = Callable[[str, str], str]
"""Why the JobSet of a namespace and name can never be admitted, empty if that is not known."""


def queue_facts(
    jobset: JobSet,
    pods: int,
    now: datetime,
    objects: QueueObjects,
    *,
    never: Never,
    head: Callable[[ClusterQueue], Head | None],
    kept: bool = False,
) -> QueueFacts:
    """The facts of a JobSet that names a queue and has this many pods left.

    ``head`` returns the head of a StrictFIFO queue. ``kept`` texts are stored for all readers of the JobSet's
    namespace: they have absolute times, and name no other namespace's Workload.
    """
    workload = current(objects.workloads_of(jobset.uid)) if jobset.uid else None
    local_queue = objects.local_queue(jobset.namespace, jobset.queue)
    name = (workload.cluster_queue if workload is not None else "") or (
        local_queue.cluster_queue if local_queue else ""
    )
    waits = not jobset.finished and (workload is None or phase_of(workload).waits)
    closed = obstacle(objects, jobset.namespace, jobset.queue) if waits else None
    reason = never(*jobset.key) if waits and jobset.suspend else ""
    if workload is None:
        stuck = unqueued(jobset, now, objects, kept=kept)
    else:
        owner, timeout = Owner(jobset.finished, pods), ready_timeout(objects)
        stuck = stuck_workload(workload, owner, now, blocked=closed, ready_timeout=timeout, kept=kept)
        queue = objects.cluster_queue(name) if stuck is None and waits and not reason else None
        first = head(queue) if queue is not None else None
        if first is not None and first.precedes(workload):
            impossible = bool(never(first.workload.namespace, first.workload.owner_name))
            reader = jobset.namespace if kept else None
            # Its Workload may be newer than the head is known for.
            stuck = first.effect(reader, joined=not first.behind, impossible=impossible, kept=kept)
    return QueueFacts(
        local_queue=jobset.queue,
        cluster_queue=name,
        workload=workload,
        blocked=closed,
        stuck=stuck,
        never=reason,
        cluster=workload.cluster if workload is not None else "",
        queues_known=objects.queues_known,
    )


def current(workloads: Iterable[QueuedWorkload]) -> QueuedWorkload | None:
    """The current one of Kueue's Workloads for one JobSet.

    One that has not finished before one that has, then one with quota, then the newest that is not being deleted.
    """

    def rank(workload: QueuedWorkload) -> tuple[bool, bool, bool, str, str]:
        finished, quota = workload.holds("Finished"), workload.holds("QuotaReserved")
        return not finished, quota, not workload.deleting, workload.created, workload.name

    return max(workloads, key=rank, default=None)


def obstacle(objects: QueueObjects, namespace: str, name: str) -> Blocked | None:
    """What blocks a LocalQueue for all JobSets; None where it is open, and where that is not known."""
    if not objects.queues_known:
        return None
    local_queue = objects.local_queue(namespace, name)
    queue = objects.cluster_queue(local_queue.cluster_queue) if local_queue is not None else None
    return blocked(name, local_queue, queue, objects.labels(namespace))


def pods_ready_seconds(configuration: KueueConfiguration, podset_limit: int | None) -> int | None:
    """The timeout of ``waitForPodsReady``; None if it is off or unknown."""
    ready = configuration.wait_for_pods_ready
    # It is on by default since 0.19, the first version that takes so many podsets.
    on = ready.on if ready.on is not None else podset_limit is not None and podset_limit >= MOST_PODSETS
    return ready.timeout if configuration.known and on else None


def ready_timeout(objects: QueueObjects) -> timedelta | None:
    """How long Kueue waits for the pods of an admitted Workload; None if it does not, or if that is not known."""
    seconds = pods_ready_seconds(objects.configuration, objects.podset_limit)
    return None if seconds is None else timedelta(seconds=seconds)


def unqueued(jobset: JobSet, now: datetime, objects: QueueObjects, *, kept: bool = False) -> Stuck | None:
    """Why Kueue has made no Workload for a JobSet with a queue; None while that is normal."""
    waited = age(jobset.created, now)
    if waited is None or not jobset.suspend or jobset.finished:
        return None
    configuration, labels = objects.configuration, objects.labels(jobset.namespace)
    selector = configuration.managed_namespaces
    missing = jobset.priority_class if objects.has_priority_class(jobset.priority_class) is False else ""
    return without_workload(
        waited,
        podsets=len(jobset.replicated_jobs),
        podset_limit=objects.podset_limit,
        frameworks=configuration.frameworks if configuration.known else None,
        managed=None if selector is None or labels is None else selects(selector, labels),
        missing_priority_class=missing,
        made=jobset.created if kept else "",
    )


def waiting_in(queue: ClusterQueue, objects: QueueObjects) -> list[QueuedWorkload]:
    """Workloads in a ClusterQueue, without those of stopped LocalQueues, which Kueue does not try."""

    def is_open(workload: QueuedWorkload) -> bool:
        local_queue = objects.local_queue(workload.namespace, workload.queue)
        return local_queue is not None and local_queue.stop_policy == "None"

    return [workload for workload in objects.inside(queue.name) if is_open(workload)]


def find_head(queue: ClusterQueue, inside: Iterable[QueuedWorkload], now: datetime) -> Head | None:
    """The head of a StrictFIFO queue with these Workloads; None for another strategy, and where nothing waits."""
    if queue.strategy != "StrictFIFO":
        return None
    ordered = in_order(inside, queue)
    first = head_of(ordered, queue)
    return None if first is None else Head(first, len(ordered) - 1, queue, now)
