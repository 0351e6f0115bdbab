"""The parts of a process by what they are about, and what each knows of the others."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry

from gangctl.api.jobset import JobSet
from gangctl.client.client import Client
from gangctl.gang.assess import Lifecycle
from gangctl.manager.checks import CheckPart
from gangctl.manager.gangs import Clients, GangPart
from gangctl.manager.pathways import PathwaysPart
from gangctl.manager.policies import PolicyPart, without_queues
from gangctl.manager.queues import QueuePart
from gangctl.manager.readiness import ReadinessPart
from gangctl.manager.settings import ControllerSettings
from gangctl.manager.webhooks import WebhookPart
from gangctl.runtime.events import EventRecorder
from gangctl.runtime.metrics import RuntimeMetrics
from gangctl.runtime.shards import Share

Work = Callable[[], Coroutine[None, None, None]]
"""Something to do until cancelled."""


@dataclass(frozen=True, slots=True)
class Outside:
    """What the parts share with the rest of the process."""

    clients: Clients
    settings: ControllerSettings
    own_namespace: str
    recorder: EventRecorder
    metrics: RuntimeMetrics
    registry: CollectorRegistry
    may_register: Callable[[], bool]
    """Whether this replica may change the registration of webhooks."""
    applier: Client
    """Like the writer of ``clients``, for server-side apply in the name of the admission checks."""
    share: Share = field(default_factory=Share)
    """The namespaces that this replica looks after while it leads."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What was not switched off."""

    gangs: GangPart
    queues: QueuePart | None
    policies: PolicyPart | None
    checks: CheckPart | None
    readiness: ReadinessPart | None
    pathways: PathwaysPart | None
    webhooks: WebhookPart

    def watching(self) -> list[Work]:
        """What every replica does."""
        return [part.watch for part in self._all() if part is not None]

    def leading(self) -> list[Work]:
        """What the leader does."""
        return [part.lead for part in self._all() if part is not None]

    def _all(
        self,
    ) -> tuple[
        GangPart, QueuePart | None, PolicyPart | None, CheckPart | None, ReadinessPart | None, PathwaysPart | None
    ]:
        return self.gangs, self.queues, self.policies, self.checks, self.readiness, self.pathways

    def evaluating(self) -> AbstractAsyncContextManager[None]:
        """Policies are evaluated for as long as the block runs."""
        return self.policies.evaluating() if self.policies is not None else nullcontext()


def compose(outside: Outside) -> Parts:
    """Make them; nothing is started. In the event loop that everything will run in."""
    clients, settings = outside.clients, outside.settings
    queues = QueuePart(clients, settings, outside.metrics) if settings.kueue != "off" else None
    suspended = queues.suspended if queues is not None else _retired
    gangs = GangPart(
        clients,
        settings,
        outside.own_namespace,
        outside.recorder,
        outside.metrics,
        registry=outside.registry,
        suspended=suspended,
        share=outside.share,
    )
    if queues is not None:
        queues.attend(gangs, outside.registry)
    policies = None
    if settings.policies != "off":
        policies = PolicyPart(
            clients,
            settings,
            outside.own_namespace,
            gangs,
            metrics=outside.metrics,
            registry=outside.registry,
            fit=queues.view.fit if queues is not None else without_queues,
        )
    checks = None
    if queues is not None and (settings.kueue_check or settings.kueue_gate):
        checks = CheckPart(
            clients,
            outside.applier,
            settings,
            gangs=gangs,
            sources=queues.sources,
            policies=policies,
            metrics=outside.metrics,
        )
        queues.early = checks.awaits
    readiness = None
    if settings.readiness != "off":
        readiness = ReadinessPart(
            clients,
            settings,
            gangs,
            queues,
            suspended=suspended,
            metrics=outside.metrics,
            registry=outside.registry,
        )
    pathways = None
    if settings.pathways:
        pathways = PathwaysPart(
            clients, settings, gangs, outside.recorder, metrics=outside.metrics, registry=outside.registry
        )
    webhooks = WebhookPart(
        clients.reader,
        settings,
        outside.own_namespace,
        gangs,
        policies,
        registry=outside.registry,
        may_write=outside.may_register,
        queues=queues.view if queues is not None else None,
    )
    return Parts(gangs, queues, policies, checks, readiness, pathways, webhooks)


def _retired(_: JobSet) -> Lifecycle:
    """Nobody but a person suspends."""
    return Lifecycle.RETIRED
