"""Kueue's objects in a running gangctl: whether the cluster has Kueue, and the informers of what a fit depends on.

Kueue may be installed, upgraded and removed while gangctl runs, so this is checked periodically. Absence is normal, and
not logged. It counts only after several checks in a row: a starting API server does not list all its resources at once,
and a replacement of Kueue's definitions removes them for a moment. Presence counts at once. Until either is established
the answer is unknown, and gangctl deletes nothing.

Only projections are kept: a Workload of Kueue embeds whole pod templates, and there is one for each JobSet.
:meth:`QueueSources.unknown` names what cannot be read because of a missing permission or definition; gangctl retries it
for as long as it runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from math import inf
from typing import Any, Final, TypeVar

import structlog

from gangctl.api.objects import Object
from gangctl.api.store import Store
from gangctl.client.client import EVERYTHING, Client, Selection
from gangctl.client.resources import NAMESPACES, Resource
from gangctl.cluster import kinds
from gangctl.cluster.kinds import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    CONFIG_MAPS,
    CONFIG_NAME,
    ESSENTIAL,
    LIMIT_RANGES,
    LOCAL_QUEUES,
    PRIORITY_CLASSES,
    QUEUED_WORKLOADS,
    RESOURCE_FLAVORS,
    RUNTIME_CLASSES,
)
from gangctl.controllers.caches import Observer
from gangctl.controllers.policy_sources import project_whole
from gangctl.controllers.polling import PERIOD_SECONDS, Polling
from gangctl.controllers.source import RETRY_SECONDS, InformerSource
from gangctl.kueue.configuration import CONFIG_KEY
from gangctl.kueue.names import GROUP, KUEUE_NAMESPACE, VERSION
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
from gangctl.runtime.informer import InformerObserver, InformerOptions

ABSENT_CHECKS: Final = 3
"""Absence counts after this many checks in a row."""
_DOCUMENT: Final = f"apis/{GROUP}/{VERSION}"

log = structlog.get_logger(__name__)


class Presence(Polling):
    """Keeps :attr:`present` current; ``on_change`` is called when it, the served kinds, or the podset limit change."""

    def __init__(
        self, client: Client, on_change: Callable[[], None], *, period_seconds: float = PERIOD_SECONDS
    ) -> None:
        """Check every ``period_seconds``, and at once when :meth:`trigger` is called."""
        super().__init__("Kueue", period_seconds)
        self._client = client
        self._on_change = on_change
        self._missed = 0
        self._missed_at = -inf
        self._limit_read = ""
        self.answered = asyncio.Event()
        """Set once the API server has answered."""
        self.present: bool | None = None
        """None while it is not known."""
        self.served: frozenset[str] = frozenset()
        """Plural names of the resources that were served at the last check."""
        self.podset_limit: int | None = None
        """How many podsets a Workload of Kueue may have, by its definition."""

    async def _check(self) -> bool:
        resources = await self._client.discovery.resources(GROUP, VERSION)
        self.answered.set()
        # Discovery lists subresources, too, such as workloads/status.
        served = frozenset(name for resource in resources if "/" not in (name := str(resource.get("name", "/"))))
        if served >= ESSENTIAL:
            self._missed, self._missed_at = 0, -inf
            self._settle(True, served)
            # Last: without a readable schema Kueue is there all the same.
            await self._read_limit()
            return True
        now = asyncio.get_running_loop().time()
        # Each informer of Kueue's kinds triggers a check when its kind is gone: together they are one.
        if now - self._missed_at >= self._period / 2:
            self._missed, self._missed_at = self._missed + 1, now
        if self._missed >= ABSENT_CHECKS and self.present is not False:
            self._settle(False, frozenset())
        return True

    def _settle(self, present: bool, served: frozenset[str]) -> None:
        if (present, served) == (self.present, self.served):
            return
        if present != bool(self.present):
            log.info("Kueue found" if present else "Kueue is gone")
        self.present, self.served = present, served
        self._on_change()

    async def _read_limit(self) -> None:
        """The size limit is in the definition's schema, whose URL changes with it."""
        index = (await self._client.discovery.openapi_v3()).get("paths")
        entry = index.get(_DOCUMENT) if isinstance(index, dict) else None
        address = str(entry.get("serverRelativeURL", "")) if isinstance(entry, dict) else ""
        if address and address != self._limit_read:
            limit = podset_limit(await self._client.discovery.openapi_v3(_DOCUMENT))
            # Noted after the read, so that a failed one is repeated.
            self._limit_read = address
            if limit != self.podset_limit:
                self.podset_limit = limit
                self._on_change()


def podset_limit(document: Mapping[str, Any]) -> int | None:
    """``maxItems`` of ``spec.podSets`` in the OpenAPI document of Kueue's version; None if absent."""
    components = document.get("components")
    schemas = components.get("schemas") if isinstance(components, dict) else None
    for schema in schemas.values() if isinstance(schemas, dict) else ():
        kinds = schema.get("x-kubernetes-group-version-kind") if isinstance(schema, dict) else None
        if {"group": GROUP, "version": VERSION, "kind": "Workload"} not in (kinds if isinstance(kinds, list) else ()):
            continue
        part: Any = schema
        for step in ("properties", "spec", "properties", "podSets", "maxItems"):
            part = part.get(step) if isinstance(part, dict) else None
        return part if isinstance(part, int) else None
    return None


T = TypeVar("T")


def _labels(raw: dict[str, Any]) -> Mapping[str, str]:
    labels = (raw.get("metadata") or {}).get("labels")
    return {str(key): str(value) for key, value in labels.items()} if isinstance(labels, dict) else {}


def _configuration(raw: dict[str, Any]) -> str:
    data = raw.get("data")
    text = data.get(CONFIG_KEY) if isinstance(data, dict) else None
    return text if isinstance(text, str) else ""


class QueueSources:
    """All informers; ``on_presence`` is called when Kueue is found, changes, or is found to be absent."""

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
        self.all: list[InformerSource[Any]] = []
        """Every source."""
        self.presence = Presence(client, self._changed, period_seconds=period_seconds)
        self.cluster_queues: InformerSource[ClusterQueue] = self._source(CLUSTER_QUEUES, read_cluster_queue)
        self.cohorts: InformerSource[Cohort] = self._source(COHORTS, read_cohort)
        self.local_queues: InformerSource[LocalQueue] = self._source(
            LOCAL_QUEUES, read_local_queue, kinds.local_queue_store()
        )
        self.flavors: InformerSource[ResourceFlavor] = self._source(RESOURCE_FLAVORS, read_flavor)
        self.workloads: InformerSource[QueuedWorkload] = self._source(
            QUEUED_WORKLOADS,
            read_workload,
            kinds.workload_store(),
        )
        self.checks: InformerSource[AdmissionCheck] = self._source(ADMISSION_CHECKS, read_check)
        self.priorities: InformerSource[PriorityClass] = self._source(PRIORITY_CLASSES, read_priority_class)
        self.limit_ranges: InformerSource[Object] = self._source(
            LIMIT_RANGES, project_whole, Store({"namespace": lambda raw: [raw["metadata"]["namespace"]]})
        )
        self.runtime_classes: InformerSource[Object] = self._source(RUNTIME_CLASSES, project_whole)
        self.namespaces: InformerSource[Mapping[str, str]] = self._source(NAMESPACES, _labels)
        """Labels of each namespace."""
        configured = Selection(field_selector=f"metadata.name={CONFIG_NAME}")
        self.configuration: InformerSource[str] = self._source(
            CONFIG_MAPS, _configuration, namespace=namespace, selection=configured
        )
        """Kueue's own configuration, as text."""
        self._by_plural = {source.informer.resource.plural: source for source in self.all}

    @property
    def present(self) -> bool | None:
        """Whether the cluster has Kueue; None while that is not known."""
        return self.presence.present

    def on_known(self, call: Callable[[], None]) -> None:
        """Also call this when another source becomes known."""
        self._on_known.append(call)

    def trouble(self, resource: Resource) -> str:
        """Why a kind cannot be read; empty if it is known, and for one that is not followed."""
        source = self._by_plural.get(resource.plural)
        return source.trouble() if source is not None else ""

    def unknown(self) -> list[str]:
        """What could change a ``never`` and cannot be read, each as a short text."""
        decisive = (source for plural, source in self._by_plural.items() if plural not in kinds.HARMLESS)
        return [trouble for source in decisive if (trouble := source.trouble())]

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
    ) -> InformerSource[T]:
        source = InformerSource(
            self._client,
            resource,
            project,
            observer=self._observer(resource),
            on_change=self._notify_known,
            # An informer notices before the next check that Kueue's definitions were removed.
            on_absent=self.presence.trigger,
            store=store,
            namespace=namespace,
            selection=selection,
            options=self._options,
        )
        self.all.append(source)
        return source

    def _notify_known(self) -> None:
        for call in self._on_known:
            call()

    def _changed(self) -> None:
        """Start informers of what is served now; a running one retries a missing resource by itself."""
        if self.present and self._tasks is not None:
            for source in self.all:
                resource = source.informer.resource
                # Kinds of other groups are not in Kueue's discovery: they are followed where Kueue is.
                ours = resource.group == CLUSTER_QUEUES.group
                name = resource.qualified_name
                if name not in self._running and (not ours or resource.plural in self.presence.served):
                    self._running[name] = self._tasks.create_task(
                        source.informer.run(), name=f"queues-{resource.plural}"
                    )
        self._on_presence()
