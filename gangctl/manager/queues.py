"""The queue part of the process: the informers of Kueue, the answers from them, and the events of waiting JobSets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gangctl.api.jobset import JobSet
from gangctl.api.objects import Key
from gangctl.controllers.queues.sources import QueueSources
from gangctl.controllers.queues.verdicts import VerdictMetrics, Verdicts, reader
from gangctl.controllers.queues.view import ALL, QueueView
from gangctl.gang.desired import Lifecycle, while_suspended
from gangctl.manager.gangs import Dependencies, GangPart, error_policy
from gangctl.runtime.controller import Controller, ControllerOptions

NAME: Final = "verdicts"
WORKERS: Final = 2


class QueuePart:
    """Wires the parts for Kueue; :attr:`view` answers webhooks, policies and controllers."""

    def __init__(self, dependencies: Dependencies) -> None:
        """Make everything that needs no gangs; :meth:`connect` makes the rest. Nothing is started."""
        clients, settings, metrics = dependencies.clients, dependencies.settings, dependencies.metrics
        self._dependencies = dependencies
        self.sources = QueueSources(
            clients.reader,
            self._presence_changed,
            namespace=settings.kueue_namespace,
            observer=metrics.informer_observer,
            period_seconds=settings.discovery_period,
        )
        self.view = QueueView(self.sources)
        self.early: Callable[[JobSet], bool] = lambda _: False
        """Whose groups are made before the first start: those that an enabled mode holds back."""
        self.verdicts: Verdicts | None = None
        """Verdicts of waiting JobSets, once :meth:`connect` was called."""
        self._gangs: GangPart | None = None
        self._on_presence: list[Callable[[], None]] = []
        self._controller: Controller[Key] | None = None
        for source in self.sources.all:
            metrics.track_informer(source.informer)

    def suspended(self, jobset: JobSet) -> Lifecycle:
        """Which objects a suspended JobSet keeps."""
        return while_suspended(jobset, queues=self.view.known, early=self.early(jobset))

    def connect(self, gangs: GangPart) -> None:
        """Make the verdicts on the JobSets of ``gangs``, and notify their controller when Kueue comes or goes."""
        self._gangs = gangs
        self.verdicts = Verdicts(
            gangs.caches.jobsets,
            self.view,
            reader(self._dependencies.clients.reader),
            gangs.record_event,
            self._enqueue,
            metrics=VerdictMetrics(self._dependencies.registry),
        )
        self._controller = Controller(
            NAME,
            self.verdicts.reconcile,
            admits=gangs.share.admits,
            options=ControllerOptions(workers=WORKERS),
            error_policy=error_policy,
            observer=self._dependencies.metrics.controller_observer(NAME),
        )

    def follow(self, on_never: Callable[[Key], None], on_presence: Callable[[], None]) -> None:
        """Call ``on_never`` with each JobSet whose reason for never fitting changes.

        ``on_presence`` is called when Kueue comes or goes.
        """
        if self.verdicts is not None:
            self.verdicts.follow(on_never)
        self._on_presence.append(on_presence)

    def unready(self) -> str | None:
        """What may be known in a moment, so that the first evaluation does not lack it."""
        missing = self.sources.unsettled()
        return f"waiting for {', '.join(missing)}" if missing else None

    async def watch(self) -> None:
        """Check for Kueue and follow it until cancelled: on every replica."""
        await self.sources.run()

    async def lead(self) -> None:
        """Evaluate waiting JobSets, until cancelled: on the leader."""
        if self._gangs is None or self.verdicts is None or self._controller is None:
            raise RuntimeError("there are no JobSets to attend to")
        await self._gangs.caches.jobsets.synced.wait()
        for key in self.verdicts.waiting():
            self._controller.enqueue(key)
        try:
            await self._controller.run()
        finally:
            self.verdicts.forget()

    def _enqueue(self, key: Key, seconds: float) -> None:
        if self._controller is not None:
            self._controller.enqueue(key, seconds)

    def _presence_changed(self) -> None:
        if self._gangs is not None:
            self._gangs.recheck(lambda jobset: bool(jobset.queue) and jobset.suspend)
        if self.verdicts is not None:
            self.verdicts.changed(ALL)
        for call in self._on_presence:
            call()
