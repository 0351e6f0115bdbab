"""The gang part of the process: discovery, caches, controller and the view that the webhooks answer from."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry

from gangctl.api.jobset import JobSet
from gangctl.api.meta import JOBSET_API_VERSION
from gangctl.api.objects import Key
from gangctl.api.scheduling import ApiState, Generation, Observed
from gangctl.client.client import Client
from gangctl.controllers.caches import GangCaches
from gangctl.controllers.discovery import DiscoveryLoop
from gangctl.controllers.gangs import Assessments, GangController, PodReader
from gangctl.controllers.reporter import GangMetrics, GangReporter
from gangctl.controllers.writer import Writer
from gangctl.errors import ApiError
from gangctl.gang.desired import Lifecycle
from gangctl.gang.diff import Kind
from gangctl.gang.reasons import Notice
from gangctl.gang.resolve import ClusterRules
from gangctl.manager.settings import ControllerSettings
from gangctl.runtime.controller import Action, Controller, ControllerOptions, default_error_policy, in_parts, retry
from gangctl.runtime.events import Event, EventRecorder, EventType, ObjectReference
from gangctl.runtime.metrics import RuntimeMetrics
from gangctl.runtime.shards import Share

NAME = "gangs"


@dataclass(frozen=True, slots=True)
class Clients:
    """``reader`` reads and proves; the guard of ``writer`` stops writes while this replica does not lead."""

    reader: Client
    writer: Client


@dataclass(frozen=True, slots=True)
class Dependencies:
    """Dependencies that the parts share with the rest of the process."""

    clients: Clients
    settings: ControllerSettings
    own_namespace: str
    recorder: EventRecorder
    metrics: RuntimeMetrics
    registry: CollectorRegistry
    may_register: Callable[[], bool]
    """Whether this replica may change the registration of webhooks."""
    applier: Client
    """Like the writer of ``clients``, for server-side apply under the field manager of the admission checks."""
    share: Share = field(default_factory=Share)
    """The namespaces that this replica manages while it leads."""


def error_policy(key: object, error: Exception) -> Action:
    """Every refusal of the API server may end with time.

    Permissions are granted, classes are created, webhooks return.
    """
    if isinstance(error, ApiError):
        return retry(error.retry_after or 0.0)
    return default_error_policy(str(key), error)


def event_of(regarding: ObjectReference, notice: Notice) -> Event:
    """The event of a reconcile with a notice about this object."""
    kind: EventType = "Warning" if notice.is_warning else "Normal"
    return Event(regarding, notice.reason.value, notice.message, "Reconcile", kind)


class GangPart:
    """Wires the parts for gangs; it is also the :class:`~gangctl.webhooks.gangs.GangView`."""

    def __init__(
        self,
        dependencies: Dependencies,
        suspended: Callable[[JobSet], Lifecycle],
    ) -> None:
        """Make everything, start nothing; in the event loop that everything will run in.

        ``suspended`` returns which objects a suspended JobSet keeps.
        """
        clients, settings, metrics = dependencies.clients, dependencies.settings, dependencies.metrics
        self.share = dependencies.share
        self._schedulers = frozenset(settings.gang_scheduler)
        self._recorder = dependencies.recorder
        self._clients = clients
        self._gang_metrics = GangMetrics(dependencies.registry)
        self._followers: list[Callable[[Key], None]] = []
        self._on_state: list[Callable[[ApiState], None]] = []
        self._followed: tuple[Generation | None, bool] = (None, False)
        clock = asyncio.get_running_loop().time
        self.caches = GangCaches(
            clients.reader,
            self._enqueue,
            clock,
            metrics.informer_observer,
            on_lost=self._on_lost,
        )
        self.discovery = DiscoveryLoop(
            clients.reader, dependencies.own_namespace, self._on_generation, period_seconds=settings.discovery_period
        )
        self.assessments = Assessments(lambda: self.discovery.state, self.rules, suspended)
        reconciler = GangController(
            self.caches,
            self._writer,
            PodReader(clients.reader),
            GangReporter(self.record_event, self._gang_metrics),
            self.assessments,
        )
        self.controller: Controller[Key] = Controller(
            NAME,
            reconciler.reconcile,
            admits=self.share.admits,
            options=ControllerOptions(workers=settings.workers),
            error_policy=error_policy,
            observer=metrics.controller_observer(NAME),
        )
        self._metrics = metrics
        for informer in self.caches.informers.values():
            metrics.track_informer(informer)

    @property
    def state(self) -> ApiState:
        """The last result of discovery."""
        return self.discovery.state

    def rules(self, generation: Generation) -> ClusterRules:
        """Rules for decisions on this cluster."""
        return ClusterRules(generation, self._schedulers, self.state.lacks, known=True)

    def claimed(self, namespace: str, jobset: str) -> str | None:
        """Name of another controller's Workload for this JobSet."""
        return self.caches.claimed(namespace, jobset)

    def scheduling(self, kind: Kind, namespace: str, name: str) -> Observed | None:
        """The Workload or PodGroup of this name, with any owner."""
        return self.caches.scheduling(kind, namespace, name)

    def unready(self) -> str:
        """The caches that are not synced, empty when all are."""
        if not self.discovery.settled.is_set():
            return "discovery has not finished"
        missing = self.caches.unsynced()
        return f"waiting for {', '.join(missing)}" if missing else ""

    async def synced(self) -> None:
        """Wait until the webhooks can answer from memory."""
        await self.discovery.settled.wait()

    def record_event(self, jobset: JobSet, notice: Notice) -> None:
        """Record an event on a JobSet; never waits."""
        regarding = ObjectReference(JOBSET_API_VERSION, "JobSet", jobset.namespace, jobset.name, jobset.uid)
        self._recorder.record(event_of(regarding, notice))

    def follow(self, on_change: Callable[[Key], None]) -> None:
        """Call this with the key of each JobSet that changes, or whose gang's objects change."""
        self._followers.append(on_change)

    def on_state(self, found: Callable[[ApiState], None]) -> None:
        """Call this with each state that discovery finds, the first included."""
        self._on_state.append(found)

    def recheck(self, concerned: Callable[[JobSet], bool]) -> None:
        """Reconcile these: something else that they depend on has changed."""
        for jobset in self.caches.jobsets.store.values():
            if concerned(jobset):
                self.controller.enqueue(jobset.key)

    async def watch(self) -> None:
        """Keep caches and discovery current until cancelled: on every replica."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.caches.run(), name="caches")
            group.create_task(self.discovery.run(), name="discovery")

    async def lead(self) -> None:
        """Reconcile, once everything is synced, until cancelled: on the leader."""
        await self.synced()
        # A cluster may lack JobSets, and the set of informers may change: neither is waited for.
        await self.caches.informers["jobs"].synced.wait()
        await in_parts(self.caches.jobsets.store.keys(), self.controller.enqueue)
        await self.controller.run()

    def _enqueue(self, key: Key, seconds: float | None) -> None:
        if seconds is not None:
            self.controller.enqueue(key, seconds)
        for follow in self._followers:
            follow(key)

    def _on_lost(self) -> None:
        # An upgrade of the cluster changes what it serves, and this is the first sign of it.
        self.discovery.trigger()

    async def _on_generation(self, state: ApiState) -> None:
        self._gang_metrics.found(state)
        for found in self._on_state:
            found(state)
        # Whether policies are served does not change the objects.
        if self.discovery.settled.is_set() and (state.generation, state.composite) == self._followed:
            return
        self._followed = state.generation, state.composite
        await self.caches.follow(state.generation, composite=state.composite)
        for plural, informer in self.caches.informers.items():
            if plural in {"workloads", "podgroups", "compositepodgroups"}:
                self._metrics.track_informer(informer)

    def _writer(self, generation: Generation) -> Writer:
        return Writer(self._clients.writer, generation, self.caches.overlay)
