"""Makes the controllers and webhooks of a process by its settings, and connects them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Final

from gangctl.api.jobset import JobSet
from gangctl.api.objects import Key
from gangctl.controllers.checks.controller import CheckController
from gangctl.controllers.gangs import ReplicaGangs
from gangctl.controllers.namespaces import ServedNamespaces
from gangctl.controllers.pathways import controller as pathways
from gangctl.controllers.queues.sources import QueueSources
from gangctl.controllers.queues.verdicts import VerdictMetrics, Verdicts, reader
from gangctl.controllers.queues.view import ALL, QueueView
from gangctl.controllers.readiness.controller import ReadinessController, ReadinessObserver
from gangctl.controllers.readiness.events import ReadinessEvents
from gangctl.controllers.readiness.evictions import Evictions
from gangctl.controllers.readiness.gangobjects import GangObjects
from gangctl.controllers.readiness.sources import ActiveNamespaces, QueueStatuses, ReadinessSources
from gangctl.gang.desired import Lifecycle, while_suspended
from gangctl.manager.policies import ReplicaPolicies, without_queues
from gangctl.manager.readinessmetrics import ReadinessMetrics
from gangctl.manager.settings import ControllerSettings
from gangctl.manager.webhooks import Webhooks
from gangctl.pathways.options import PathwaysOptions
from gangctl.readiness.evaluate import evaluate
from gangctl.readiness.facts import Snapshot
from gangctl.readiness.metrics import RowLimits
from gangctl.runtime.manager import Manager
from gangctl.webhooks.configurations import served_terms

VERDICTS: Final = "verdicts"
VERDICT_WORKERS: Final = 2


class Wiring:
    """What the settings enable, made in the event loop that it will run in; nothing is started."""

    def __init__(self, manager: Manager, settings: ControllerSettings) -> None:
        """Set up each with the manager, after those that it asks."""
        self.gangs = ReplicaGangs(
            manager,
            _served(manager, settings),
            schedulers=settings.gang_scheduler,
            workers=settings.workers,
            discovery_seconds=settings.discovery_period,
        )
        self.queues = ReplicaQueues(manager, settings, self.gangs) if settings.kueue != "off" else None
        view = self.queues.view if self.queues is not None else None
        self.policies = None
        if settings.policies != "off":
            fit = view.fit if view is not None else without_queues
            self.policies = ReplicaPolicies(manager, settings, self.gangs, fit=fit)
        self.checks = None
        if self.queues is not None and settings.kueue_check:
            policies = (self.policies.scan_view, self.policies.keeper) if self.policies is not None else (None, None)
            self.checks = CheckController(manager, self.gangs, self.queues.sources, *policies)
            self.queues.early = self.checks.awaits
        self.readiness = None
        if settings.readiness != "off":
            self.readiness = _readiness(manager, self.gangs, self.queues, settings)
        self.pathways = None
        if settings.pathways:
            self.pathways = pathways.setup(
                manager,
                self.gangs,
                settings.pathways_options or PathwaysOptions(),
                fail_open=settings.unavailable == "allow",
            )
        self.webhooks = Webhooks(manager, settings, self.gangs, self.policies, view)


def _served(manager: Manager, settings: ControllerSettings) -> ServedNamespaces:
    """The namespaces whose objects the webhooks are sent."""
    terms = served_terms(settings.webhooks(manager.own_namespace))
    namespaces = ServedNamespaces(manager.reader, terms, observer=manager.metrics.informer_observer)
    if namespaces.informer is not None:
        manager.metrics.track_informers(namespaces.informer)
        manager.watching["namespaces"] = namespaces.informer.run
        manager.checks["namespaces"] = namespaces.unready
    return namespaces


class ReplicaQueues:
    """The informers of Kueue, :attr:`view` that answers from them, and the verdicts on waiting JobSets."""

    def __init__(self, manager: Manager, settings: ControllerSettings, gangs: ReplicaGangs) -> None:
        """Decide from now on which objects a suspended JobSet keeps."""
        self._gangs = gangs
        self.on_presence: list[Callable[[], None]] = []
        """Called when Kueue comes, changes or goes."""
        self.early: Callable[[JobSet], bool | None] = lambda _: False
        """Whose groups are made before the first start: those that an enabled mode holds back. None if unknown."""
        self.sources = QueueSources(
            manager.reader,
            self._presence_changed,
            namespace=settings.kueue_namespace,
            observer=manager.metrics.informer_observer,
            period_seconds=settings.discovery_period,
        )
        manager.metrics.track_informers(*(source.informer for source in self.sources.all))
        self.view = QueueView(self.sources, manager.clock.wall)
        gangs.assessments.suspended = self._suspended
        self.verdicts = Verdicts(
            gangs.caches.jobsets,
            self.view,
            reader(manager.reader),
            gangs.record_event,
            self._enqueue,
            follows=gangs.namespaces.follows,
            metrics=VerdictMetrics(manager.metrics.registry),
        )
        gangs.namespaces.on_change.append(self.verdicts.recheck_in)
        self._controller = manager.controller(VERDICTS, self.verdicts.reconcile, VERDICT_WORKERS, admits=manager.admits)
        manager.watching["queues"] = self.sources.run
        manager.leading[VERDICTS] = self._lead
        manager.checks["queues"] = self._unready

    def _suspended(self, jobset: JobSet) -> Lifecycle:
        return while_suspended(jobset, queues=self.view.known, early=self.early(jobset))

    def _unready(self) -> str | None:
        """What may be known in a moment, so that the first evaluation does not lack it."""
        missing = self.sources.unsettled()
        return f"waiting for {', '.join(missing)}" if missing else None

    async def _lead(self) -> None:
        """Evaluate waiting JobSets, until cancelled."""
        # Before that no JobSet is known to wait, and the loop below would enqueue none.
        await self._gangs.caches.jobsets.synced.wait()
        for key in self.verdicts.waiting():
            self._controller.enqueue(key)
        try:
            await self._controller.run()
        finally:
            self.verdicts.forget()

    def _enqueue(self, key: Key, seconds: float) -> None:
        self._controller.enqueue(key, seconds)

    def _presence_changed(self) -> None:
        self._gangs.recheck(lambda jobset: bool(jobset.queue) and jobset.suspend)
        self.verdicts.changed(ALL)
        for call in self.on_presence:
            call()


def _observers(
    manager: Manager,
    gangs: ReplicaGangs,
    queues: ReplicaQueues | None,
    settings: ControllerSettings,
    snapshot: Callable[[JobSet, datetime], Snapshot],
) -> Iterator[ReadinessObserver]:
    """What follows the readiness of all gangs, by the settings."""
    clock = manager.clock
    yield ReadinessMetrics(
        manager.metrics.registry,
        limits=RowLimits(gangs=settings.metrics_jobset_limit),
        wall=lambda: clock.wall().timestamp(),
    )
    yield (
        ReadinessEvents(gangs.record_event, gangs.caches.jobset, decided=queues.verdicts.decided, clock=clock)
        if queues is not None
        else ReadinessEvents(gangs.record_event, gangs.caches.jobset, clock=clock)
    )
    if settings.gang_objects:
        objects = GangObjects(manager, jobset=gangs.caches.jobset, follows=gangs.namespaces.follows)
        manager.metrics.track_informers(objects.informer)

        async def write_gang_objects() -> None:
            # Before that a JobSet without a stamp seems to be in no served namespace, and its object would be deleted.
            await gangs.namespaces.known()
            await objects.run()

        manager.leading["gangobjects"] = write_gang_objects
        gangs.followers.append(objects.jobset_changed)
        yield objects
    if settings.evict_stranded:
        evictions = Evictions(
            manager,
            jobset=gangs.caches.restarted_jobset,
            snapshot=snapshot,
            record_event=gangs.record_event,
            default=settings.evict_stranded_after,
        )
        manager.leading["evictions"] = evictions.run
        gangs.followers.append(evictions.jobset_changed)
        yield evictions


def _readiness(
    manager: Manager, gangs: ReplicaGangs, queues: ReplicaQueues | None, settings: ControllerSettings
) -> ReadinessController:
    """What the leader follows for readiness, and its observers."""
    share = manager.share

    # Functions, because what is made first is given methods of the controller, which is made from it.
    def mark_all() -> None:
        controller.mark_all()

    def snapshot(jobset: JobSet, now: datetime) -> Snapshot:
        return controller.snapshot(jobset, now)

    sources = ReadinessSources(
        manager.reader,
        mark_all,
        observer=manager.metrics.informer_observer,
        namespaces=ActiveNamespaces(gangs.caches.jobsets, share) if share.divided else None,
    )
    # Only one informer of events is exported, under their common name: that of refused pods, which come first.
    manager.metrics.track_informers(*(source.informer for source in reversed(sources.all)))
    observers = list(_observers(manager, gangs, queues, settings, snapshot))
    controller = ReadinessController(
        gangs.caches,
        gangs.assessments,
        sources,
        evaluate,
        observers,
        follows=gangs.namespaces.follows,
        queues=QueueStatuses(queues.view, queues.verdicts.never) if queues is not None else None,
        clock=manager.clock,
        share=share,
    )
    gangs.followers.append(controller.mark)
    if queues is not None:
        controller.follow(queues.view, queues.sources.workloads.informer)
        queues.verdicts.follow(controller.mark)
        # Those behind a head that can never be admitted wait for a person, and not for quota.
        queues.verdicts.follow(queues.view.heads.note_verdict)
        queues.on_presence.append(controller.mark_held)

    async def known() -> None:
        """Wait for the sources of others: JobSets and their gangs, who is followed, and Kueue if present."""
        await gangs.known()
        await gangs.namespaces.known()
        if queues is not None:
            await queues.sources.settled()

    manager.leading["readiness"] = lambda: controller.run(known)
    return controller
