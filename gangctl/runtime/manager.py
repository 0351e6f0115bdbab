"""What the controllers of one process share, and the work that they add to it.

A controller is set up with a manager: it makes its queue, follows its informers, and adds what runs on every replica,
what runs on the leader, and its readiness checks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from typing import TypeVar

from gangctl.client.client import Client, ServerClock
from gangctl.errors import ApiError
from gangctl.runtime.controller import Action, Controller, ControllerOptions, ErrorPolicy, default_error_policy, retry
from gangctl.runtime.election import unwrapped_leadership_loss
from gangctl.runtime.events import EventRecorder
from gangctl.runtime.families import new_registry
from gangctl.runtime.metrics import RuntimeMetrics
from gangctl.runtime.probes import Check
from gangctl.runtime.shards import Share

K = TypeVar("K", bound=Hashable)
Work = Callable[[], Coroutine[None, None, None]]
"""Work that runs until cancelled, or ends by itself."""


def any_refusal_may_end(key: Hashable, error: Exception) -> Action:
    """Every refusal of the API server may end with time: permissions are granted, classes created, webhooks return."""
    if isinstance(error, ApiError):
        return retry(error.retry_after or 0.0)
    return default_error_policy(key, error)


class Manager:
    """Of one process; everything is made in the event loop that it will run in, and nothing is started."""

    def __init__(
        self,
        reader: Client,
        writer: Client,
        *,
        metrics: RuntimeMetrics | None = None,
        recorder: EventRecorder | None = None,
        share: Share | None = None,
        own_namespace: str = "",
        may_register: Callable[[], bool] = lambda: True,
        standby: bool = False,
    ) -> None:
        """``reader`` reads and proves; the guard of ``writer`` stops writes while this replica does not lead.

        ``share`` are the namespaces that this replica manages while it leads. ``may_register`` is whether it may change
        the registration of webhooks. ``standby`` is whether this replica does not lead before :meth:`lead` is called.
        """
        self.reader = reader
        self.clock = ServerClock(reader)
        """For what compares the present with a time that the cluster's objects have."""
        self.writer = writer
        self.metrics = metrics or RuntimeMetrics(new_registry())
        self.recorder = recorder or EventRecorder(reader, instance="")
        self.share = share or Share()
        self.own_namespace = own_namespace
        self.may_register = may_register
        self._leads = not standby
        self.watching: dict[str, Work] = {}
        """The work of every replica, by the name of its task."""
        self.leading: dict[str, Work] = {}
        """The work of the leader, with shards of each shard's."""
        self.leading_first: dict[str, Work] = {}
        """The work of the first shard's leader: what belongs to no namespace."""
        self.checks: dict[str, Check] = {}
        """What has to be known before this replica is ready."""

    def controller(
        self,
        name: str,
        reconcile: Callable[[K], Awaitable[Action]],
        workers: int,
        *,
        admits: Callable[[K], bool] = lambda _: True,
        error_policy: ErrorPolicy = any_refusal_may_end,
    ) -> Controller[K]:
        """A queue with its workers, and metrics of both; run it as work of the leader."""
        return Controller(
            name,
            reconcile,
            admits=admits,
            options=ControllerOptions(workers=workers),
            error_policy=error_policy,
            observer=self.metrics.controller_observer(name),
        )

    def admits(self, key: tuple[str, str]) -> bool:
        """Whether this replica reconciles what has this key now, for work that begins with the keys of all that exists.

        Otherwise a standby would keep the key of each object that it ever saw, and a new leader begin with those.
        """
        return self._leads and self.share.admits(key)

    async def lead(self) -> None:
        """Run the leader's work; when one part reports lost leadership, all end with that."""
        # Before the work begins: it enqueues all that exists, which ``admits`` would drop.
        self._leads = True
        try:
            with unwrapped_leadership_loss():
                async with asyncio.TaskGroup() as group:
                    for name, work in (self.leading | (self.leading_first if self.share.first else {})).items():
                        group.create_task(work(), name=name)
        finally:
            self._leads = False
