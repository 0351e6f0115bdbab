"""The readiness part of the process: what the leader follows for it, and its observers."""

from __future__ import annotations

import asyncio

from gangctl.controllers.queues.view import Affected
from gangctl.controllers.readiness.controller import LocalQueueKey, ReadinessController, ReadinessObserver
from gangctl.controllers.readiness.events import ReadinessEvents
from gangctl.controllers.readiness.gangobjects import GANGS, GangObjects
from gangctl.controllers.readiness.gangobjects import NAME as OBJECTS
from gangctl.controllers.readiness.sources import ActiveNamespaces, QueueStatuses, ReadinessSources
from gangctl.kueue.checks import of_jobset
from gangctl.kueue.objects import QueuedWorkload
from gangctl.manager.gangs import Clients, Dependencies, GangPart
from gangctl.manager.queues import QueuePart
from gangctl.manager.readinessmetrics import ReadinessMetrics
from gangctl.readiness.evaluate import evaluate
from gangctl.readiness.facts import is_followed
from gangctl.runtime.metrics import RuntimeMetrics


class ReadinessPart:
    """Wires the parts for readiness; :attr:`controller` has the readiness of each JobSet."""

    def __init__(self, dependencies: Dependencies, gangs: GangPart, queues: QueuePart | None) -> None:
        """Make everything, start nothing."""
        clients, metrics = dependencies.clients, dependencies.metrics
        self._gangs = gangs
        self._queues = queues
        share = gangs.share
        self._sources = ReadinessSources(
            clients.reader,
            self._known,
            observer=metrics.informer_observer,
            namespaces=ActiveNamespaces(gangs.caches.jobsets, share) if share.divided else None,
        )
        for source in reversed(self._sources.all):
            # Only one informer of events is listed, under their common name: that of refused pods, which come first.
            metrics.track_informer(source.informer)
        self._objects = _gang_objects(clients, gangs, metrics) if dependencies.settings.gang_objects else None
        observers: list[ReadinessObserver] = [
            ReadinessMetrics(dependencies.registry),
            ReadinessEvents(gangs.record_event, gangs.caches.jobset),
        ]
        if self._objects is not None:
            observers.append(self._objects)
            gangs.follow(self._objects.jobset_changed)
        self.controller = ReadinessController(
            gangs.caches,
            gangs.assessments,
            self._sources,
            evaluate,
            observers,
            queues=QueueStatuses(queues.view, self._never) if queues is not None else None,
            share=share,
        )
        gangs.follow(self.controller.mark)
        if queues is not None:
            queues.follow(self.controller.mark, self.controller.mark_at)
            queues.view.subscribe(self._affected)
            queues.view.heads.subscribe(self._head_changed)
            queues.sources.workloads.informer.subscribe(self._workload_changed)

    async def lead(self) -> None:
        """Compute and notify, until cancelled: on the leader."""
        async with asyncio.TaskGroup() as group:
            if self._objects is not None:
                group.create_task(self._objects.run(), name=OBJECTS)
            group.create_task(self.controller.run(self._seen), name="readiness")

    async def _seen(self) -> None:
        """Wait for the sources of others: JobSets and their gangs, and Kueue if present."""
        await self._gangs.synced()
        await self._gangs.caches.informers["jobs"].synced.wait()
        if self._queues is not None:
            await self._queues.sources.settled()

    def _known(self) -> None:
        self.controller.mark_all()

    def _never(self, key: tuple[str, str]) -> str:
        verdicts = self._queues.verdicts if self._queues is not None else None
        return verdicts.never(key) if verdicts is not None else ""

    def _head_changed(self, cluster_queue: str) -> None:
        self.controller.mark_at(lambda queue_key: self._leads_to(queue_key) == cluster_queue)

    def _affected(self, affected: Affected) -> None:
        for key in affected.jobsets:
            self.controller.mark(key)
        self.controller.mark_at(lambda queue_key: affected.concerns(queue_key, self._leads_to(queue_key)))

    def _leads_to(self, queue_key: LocalQueueKey) -> str:
        return self._queues.view.cluster_queue_of(queue_key) if self._queues is not None else ""

    def _workload_changed(self, old: QueuedWorkload | None, new: QueuedWorkload | None) -> None:
        changed = new or old
        if changed is not None and of_jobset(changed):
            self.controller.mark((changed.namespace, changed.owner_name))


def _gang_objects(clients: Clients, gangs: GangPart, metrics: RuntimeMetrics) -> GangObjects:
    objects = GangObjects(
        clients.reader,
        clients.writer,
        jobset=gangs.caches.jobset,
        follows=is_followed,
        informer_observer=metrics.informer_observer(GANGS),
        controller_observer=metrics.controller_observer(OBJECTS),
        share=gangs.share,
    )
    metrics.track_informer(objects.informer)
    return objects
