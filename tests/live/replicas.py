"""Several gangctl behind a balancer, each as a user of its own, so that the audit log tells who wrote what."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.controlplane.api import Object, path_of
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for
from tests.live.balancer import Balancer
from tests.live.gangctl import OWN_NAMESPACE, Gangctl, install_rights
from tests.manifests.files import MANIFESTS

NAMES = ("gangctl-a", "gangctl-b")
LEASE_SECONDS = 15
"""The default of gangctl, for tests that wait until a leader is followed that has not given its Lease back.

A quarter of it proved too short beside another control plane on the same two cores: a leader could not renew it in
time, and what was done within the Lease on a quiet machine took a fifth of a second more."""
LONG_LEASE_SECONDS = 60
"""Where nobody waits for a Lease to run out: a leader that stands still for some seconds goes on leading."""
TIMEOUT_SECONDS = 10
"""How long API servers wait for an answer. The default of gangctl: whoever is refused then was not kept waiting by a
machine that stood still for a moment."""
DELAY_SECONDS = 3
_TICK_SECONDS: Final = 0.1


@dataclass
class Replicas:
    """Both, and what is between them and the API server."""

    plane: ControlPlane
    balancer: Balancer
    both: tuple[Gangctl, Gangctl]

    async def roles(self) -> tuple[Gangctl, Gangctl]:
        """The leader and the other one."""

        async def told() -> tuple[Gangctl, Gangctl]:
            leading = [await leads(each) for each in self.both]
            if sorted(leading) != [False, True]:
                raise NotYet(f"leading: {leading}")
            return self.both if leading[0] else (self.both[1], self.both[0])

        return await wait_for(told, what="one leader")

    def writes(self, replica: Gangctl, since: int) -> list[Object]:
        """What a replica wrote, refused or not, without events and Leases."""
        return self.plane.writes_by(replica.user, since).objects


async def leads(replica: Gangctl) -> bool:
    return await replica.metric("gangctl_leader") == 1


def moment(entry: Object) -> datetime:
    """When the API server received a request."""
    return datetime.fromisoformat(entry["requestReceivedTimestamp"])


def now() -> datetime:
    return datetime.now(UTC)


class Stalls:
    """For how many seconds the machine stood still while the block ran: nobody could do anything then; ``async with``.

    Told by a task that wants to run ten times a second. What it is late by no more than that is not counted.
    """

    def __init__(self) -> None:
        """Nothing is measured yet."""
        self.seconds = 0.0
        self._due = 0.0
        self._ticker: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._due = time.monotonic() + _TICK_SECONDS
        self._ticker = asyncio.create_task(self._tick(), name="stalls")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._ticker is not None:
            self._ticker.cancel()
            await asyncio.wait({self._ticker})
        # What woke the block after a stall may have run before the task did.
        self._count()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(max(0.0, self._due - time.monotonic()))
            self._count()

    def _count(self) -> None:
        """Take what passed since the task should have run, and when it is to run next."""
        late = time.monotonic() - self._due
        if late > _TICK_SECONDS:
            self.seconds += late
        self._due = time.monotonic() + _TICK_SECONDS


@asynccontextmanager
async def two_replicas(
    plane: ControlPlane,
    kubeconfigs: Mapping[str, Path] | None = None,
    *,
    program: Sequence[str] = ("-m", "gangctl"),
    manifests: Path = MANIFESTS,
    lease_seconds: float = LONG_LEASE_SECONDS,
    webhook_timeout: int = TIMEOUT_SECONDS,
) -> AsyncIterator[Replicas]:
    """Both ready and behind the balancer, one of them leading; see :func:`replicas_of`."""
    async with replicas_of(
        plane,
        dict.fromkeys(NAMES, ()),
        kubeconfigs,
        program=program,
        manifests=manifests,
        lease_seconds=lease_seconds,
        webhook_timeout=webhook_timeout,
    ) as (balancer, both):
        yield Replicas(plane, balancer, (both[0], both[1]))


@asynccontextmanager
async def replicas_of(
    plane: ControlPlane,
    flags: Mapping[str, Sequence[str]],
    kubeconfigs: Mapping[str, Path] | None = None,
    *,
    program: Sequence[str] = ("-m", "gangctl"),
    manifests: Path = MANIFESTS,
    lease_seconds: float = LONG_LEASE_SECONDS,
    webhook_timeout: int = TIMEOUT_SECONDS,
) -> AsyncIterator[tuple[Balancer, list[Gangctl]]]:
    """All of them ready and behind the balancer; ``flags`` by name, further ones, say which there are.

    ``kubeconfigs`` by name take them another way. ``program`` and ``manifests``, for their rights, may be those of
    another version. No Lease is left: the next test need not wait for that of a replica that was killed.
    """
    common = [
        "--leader-elect=true",
        *("--lease-duration", str(lease_seconds)),
        *("--webhook-timeout", str(webhook_timeout)),
        *("--shutdown-delay", str(DELAY_SECONDS)),
    ]
    async with Balancer() as balancer, AsyncExitStack() as stack:
        leases = path_of("coordination.k8s.io/v1", "leases", namespace=OWN_NAMESPACE)
        stack.push_async_callback(plane.api.delete, leases)
        every = []
        for name, further in flags.items():
            await install_rights(plane, name, manifests)
            kubeconfig = (kubeconfigs or {}).get(name)
            replica = Gangctl(
                plane,
                *common,
                *further,
                name=name,
                user=name,
                kubeconfig=kubeconfig,
                program=program,
                webhook_url=balancer.url,
            )
            stack.push_async_callback(replica.close)
            await replica.process.launch()
            every.append(replica)
        for replica in every:
            await replica.process.wait_ready()
        balancer.replicas = list(every)
        await balancer.settled(*every)
        yield balancer, every
