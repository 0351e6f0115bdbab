"""The informers of Kueue's objects, started when the cluster has Kueue.

Only projections are kept: a Workload of Kueue embeds whole pod templates, and there is one for each JobSet.
:meth:`QueueSources.unknown` names what cannot be read because of a missing permission or definition; gangctl retries it
for as long as it runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from gangctl.api.objects import Object
from gangctl.client.client import EVERYTHING, Client, Selection
from gangctl.client.resources import NAMESPACES, Resource
from gangctl.controllers.caches import Observer
from gangctl.controllers.policy_sources import project_whole
from gangctl.controllers.queues import kinds
from gangctl.controllers.queues.presence import PERIOD_SECONDS, Presence
from gangctl.controllers.source import RETRY_SECONDS, Source
from gangctl.kueue.names import KUEUE_NAMESPACE
from gangctl.kueue.objects import (
    AdmissionCheck,
    ClusterQueue,
    Cohort,
    LocalQueue,
    PriorityClass,
    QueuedWorkload,
    ResourceFlavor,
)
from gangctl.kueue.reading import (
    read_check,
    read_cluster_queue,
    read_cohort,
    read_flavor,
    read_local_queue,
    read_priority_class,
    read_workload,
)
from gangctl.runtime.informer import InformerObserver, InformerOptions, Store

T = TypeVar("T")


def _labels(raw: dict[str, Any]) -> Mapping[str, str]:
    labels = (raw.get("metadata") or {}).get("labels")
    return {str(key): str(value) for key, value in labels.items()} if isinstance(labels, dict) else {}


def _owner(workload: QueuedWorkload) -> list[str]:
    return [workload.owner_uid] if workload.owner_uid else []


def _configuration(raw: dict[str, Any]) -> str:
    data = raw.get("data")
    text = data.get(kinds.CONFIG_KEY) if isinstance(data, dict) else None
    return text if isinstance(text, str) else ""


class QueueSources:
    """All informers; ``on_presence`` is called when Kueue is found, or found to be absent."""

    def __init__(
        self,
        client: Client,
        on_presence: Callable[[], None] = lambda: None,
        *,
        namespace: str = KUEUE_NAMESPACE,
        observer: Observer = lambda _: InformerObserver(),
        period_seconds: float = PERIOD_SECONDS,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        """Watch nothing yet; ``namespace`` is Kueue's."""
        self._client = client
        self._on_presence = on_presence
        self._observer = observer
        self._options = InformerOptions(cap_delay_seconds=retry_seconds)
        self._running: dict[str, asyncio.Task[None]] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._on_known: list[Callable[[], None]] = []
        self.presence = Presence(client, self._changed, period_seconds=period_seconds)
        self.cluster_queues: Source[ClusterQueue] = self._source(kinds.CLUSTER_QUEUES, read_cluster_queue)
        self.cohorts: Source[Cohort] = self._source(kinds.COHORTS, read_cohort)
        self.local_queues: Source[LocalQueue] = self._source(kinds.LOCAL_QUEUES, read_local_queue)
        self.flavors: Source[ResourceFlavor] = self._source(kinds.RESOURCE_FLAVORS, read_flavor)
        self.workloads: Source[QueuedWorkload] = self._source(
            kinds.QUEUED_WORKLOADS,
            read_workload,
            Store(
                {
                    "owner": lambda w: [w.owner_uid] if w.owner_uid else [],
                    "local_queue": lambda w: [(w.namespace, w.queue)],
                }
            ),
        )
        self.checks: Source[AdmissionCheck] = self._source(kinds.ADMISSION_CHECKS, read_check)
        self.priorities: Source[PriorityClass] = self._source(kinds.PRIORITY_CLASSES, read_priority_class)
        self.limit_ranges: Source[Object] = self._source(
            kinds.LIMIT_RANGES, project_whole, Store({"namespace": lambda raw: [raw["metadata"]["namespace"]]})
        )
        self.runtime_classes: Source[Object] = self._source(kinds.RUNTIME_CLASSES, project_whole)
        self.namespaces: Source[Mapping[str, str]] = self._source(NAMESPACES, _labels)
        """Labels of each namespace."""
        configured = Selection(field_selector=f"metadata.name={kinds.CONFIG_NAME}")
        self.configuration: Source[str] = self._source(
            kinds.CONFIG_MAPS, _configuration, namespace=namespace, selection=configured
        )
        """Kueue's own configuration, as text."""

    @property
    def all(self) -> tuple[Source[Any], ...]:
        """Every source."""
        return (
            self.cluster_queues,
            self.cohorts,
            self.local_queues,
            self.flavors,
            self.workloads,
            self.checks,
            self.priorities,
            self.limit_ranges,
            self.runtime_classes,
            self.namespaces,
            self.configuration,
        )

    @property
    def present(self) -> bool | None:
        """Whether the cluster has Kueue; None while that is not known."""
        return self.presence.present

    def on_known(self, call: Callable[[], None]) -> None:
        """Also call this when another source becomes known."""
        self._on_known.append(call)

    def unknown(self) -> list[str]:
        """What cannot be read, each as a short text."""
        return [trouble for source in self.all if (trouble := source.trouble())]

    def unsettled(self) -> list[str]:
        """What may be known in a moment; excludes what cannot be read, and everything if Kueue is absent."""
        if not self.presence.answered.is_set():
            return ["kueue"]
        running = (source for source in self.all if source.informer.resource.qualified_name in self._running)
        return [source.informer.resource.plural for source in running if not source.settled.is_set()]

    async def settled(self) -> None:
        """Wait until nothing is :meth:`unsettled` any more."""
        await self.presence.answered.wait()
        for source in self.all:
            if source.informer.resource.qualified_name in self._running:
                await source.settled.wait()

    async def run(self) -> None:
        """Check for Kueue, and keep everything current from then on, until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._tasks = group
            group.create_task(self.presence.run(), name="kueue-presence")

    def _source(
        self,
        resource: Resource,
        project: Callable[[dict[str, Any]], T],
        store: Store[T] | None = None,
        *,
        namespace: str | None = None,
        selection: Selection = EVERYTHING,
    ) -> Source[T]:
        return Source(
            self._client,
            resource,
            project,
            observer=self._observer(resource),
            on_change=self._notify_known,
            on_absent=self.presence.trigger,
            store=store,
            namespace=namespace,
            selection=selection,
            options=self._options,
        )

    def _notify_known(self) -> None:
        for call in self._on_known:
            call()

    def _changed(self) -> None:
        """Start informers of what is served now; a running one retries a missing resource by itself."""
        if self.present and self._tasks is not None:
            for source in self.all:
                resource = source.informer.resource
                ours = resource.group == kinds.CLUSTER_QUEUES.group
                name = resource.qualified_name
                if name not in self._running and (not ours or resource.plural in self.presence.served):
                    self._running[name] = self._tasks.create_task(
                        source.informer.run(), name=f"queues-{resource.plural}"
                    )
        self._on_presence()
