"""The parts of a process by subject, and the connections between them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass

from gangctl.gang.desired import Lifecycle
from gangctl.manager.checks import CheckPart
from gangctl.manager.gangs import Dependencies, GangPart
from gangctl.manager.pathways import PathwaysPart
from gangctl.manager.policies import PolicyPart, without_queues
from gangctl.manager.queues import QueuePart
from gangctl.manager.readiness import ReadinessPart
from gangctl.manager.webhooks import WebhookPart

Work = Callable[[], Coroutine[None, None, None]]
"""Work that runs until cancelled."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The enabled parts."""

    gangs: GangPart
    queues: QueuePart | None
    policies: PolicyPart | None
    checks: CheckPart | None
    readiness: ReadinessPart | None
    pathways: PathwaysPart | None
    webhooks: WebhookPart

    def watching(self) -> list[Work]:
        """The work of every replica."""
        return [part.watch for part in (self.gangs, self.queues, self.policies, self.checks) if part is not None]

    def leading(self) -> list[Work]:
        """The work of the leader."""
        parts = (self.gangs, self.queues, self.policies, self.checks, self.readiness, self.pathways)
        return [part.lead for part in parts if part is not None]

    def evaluating(self) -> AbstractAsyncContextManager[None]:
        """A context in which policies are evaluated."""
        return self.policies.evaluating() if self.policies is not None else nullcontext()


def compose(dependencies: Dependencies) -> Parts:
    """Make the parts in the event loop that everything will run in; nothing is started."""
    settings = dependencies.settings
    queues = QueuePart(dependencies) if settings.kueue != "off" else None
    # Without Kueue only the user suspends.
    gangs = GangPart(dependencies, queues.suspended if queues is not None else lambda _: Lifecycle.RETIRED)
    if queues is not None:
        queues.connect(gangs)
    policies = None
    if settings.policies != "off":
        policies = PolicyPart(dependencies, gangs, fit=queues.view.fit if queues is not None else without_queues)
    checks = None
    if queues is not None and settings.kueue_check:
        checks = CheckPart(dependencies, gangs, queues.sources, policies)
        queues.early = checks.awaits
    readiness = ReadinessPart(dependencies, gangs, queues) if settings.readiness != "off" else None
    pathways = PathwaysPart(dependencies, gangs) if settings.pathways else None
    webhooks = WebhookPart(dependencies, gangs, policies, queues.view if queues is not None else None)
    return Parts(gangs, queues, policies, checks, readiness, pathways, webhooks)
