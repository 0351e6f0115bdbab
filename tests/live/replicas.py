"""Several gangctl behind a balancer, each as a separate user, so that the audit log shows the author of a write."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tests.controlplane.api import Object, path_of
from tests.controlplane.audit_log import describe
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for
from tests.live.balancer import Balancer
from tests.live.gangctl import OWN_NAMESPACE, Gangctl, prepare
from tests.live.load import Load
from tests.live.observe import webhooks_noticed
from tests.manifests.files import MANIFESTS

NAMES = ("gangctl-a", "gangctl-b")
LEASE_SECONDS = 15
"""The default of gangctl, for tests that wait until a leader is followed that has not given its Lease back."""
LONG_LEASE_SECONDS = 60
"""For tests that do not wait for a Lease to expire: a leader that freezes for some seconds keeps leading."""
TIMEOUT_SECONDS = 30
"""How long API servers wait for an answer, the most that they can: whoever is refused then was not kept waiting by a
machine that stood still for a moment."""
DELAY_SECONDS = 3
"""How long a terminating replica continues to answer."""
UNTIL_TOLD_SECONDS = 3600
"""The same for tests that send a second signal when no request is routed to it any more, see :meth:`Replicas.leave`."""
LEASES: Final = path_of("coordination.k8s.io/v1", "leases", namespace=OWN_NAMESPACE)
LEASE: Final = "gangctl"


@dataclass
class Replicas:
    """Both, and what is between them and the API server."""

    plane: ControlPlane
    balancer: Balancer
    both: tuple[Gangctl, Gangctl]

    async def roles(self) -> tuple[Gangctl, Gangctl]:
        """The leader and the other one."""

        async def reported() -> tuple[Gangctl, Gangctl]:
            leading = [await leads(each) for each in self.both]
            if sorted(leading) != [False, True]:
                raise NotYet(f"leading: {leading}")
            return self.both if leading[0] else (self.both[1], self.both[0])

        return await wait_for(reported, what="one leader")

    def writes(self, replica: Gangctl, since: int) -> list[Object]:
        """What a replica wrote, refused or not, without events and Leases."""
        return self.plane.writes_by(replica.user, since).objects

    async def freeze(self) -> tuple[Gangctl, Gangctl]:
        """Have the leader hang while it holds the Lease; it, and the other one."""
        while True:
            leader, other = await self.roles()
            leader.process.pause()
            if (await holder(self.plane)) == identity(leader):
                self.balancer.hung.add(leader)
                await self.balancer.settled(other)
                return leader, other
            # It has lost the Lease between these two looks.
            leader.process.resume()

    async def thaw(self, replica: Gangctl) -> None:
        """Let a frozen one go on, and be sent to."""
        replica.process.resume()
        self.balancer.hung.discard(replica)
        await self.balancer.settled(*self.both)

    async def leave(self, replica: Gangctl, load: Load) -> None:
        """
        Have a replica end as one of a Deployment does, without a moment of its own choice.

        It answers until it is told a second time, which is when no connection leads to it. In a cluster that takes
        some seconds at most, here as long as it takes.
        """
        replica.process.terminate()
        (other,) = {*self.both} - {replica}
        await self.balancer.settled(other)

        async def left() -> bool:
            await load.burst()
            if count := self.balancer.connections[replica]:
                raise NotYet(f"{count} connections lead to it")
            return True

        await wait_for(left, what=f"nobody to be connected to {replica.process.name}")
        await replica.end()


async def leads(replica: Gangctl) -> bool:
    return await replica.metric("gangctl_leader_election_master_status") == 1


def moment(entry: Object) -> datetime:
    """When the API server received a request."""
    return datetime.fromisoformat(entry["requestReceivedTimestamp"])


def now() -> datetime:
    return datetime.now(UTC)


def identity(replica: Gangctl) -> str:
    """What a replica calls itself in a Lease, since its last start."""
    return str(re.findall(r'"identity": "([^"]+)"', replica.log)[-1])


async def holder(plane: ControlPlane, lease: str = LEASE) -> str:
    """The holder of a Lease, as the API server has it; empty where it was released."""
    return str((await plane.api.get(f"{LEASES}/{lease}"))["spec"].get("holderIdentity") or "")


async def run_out(plane: ControlPlane, lease: str = LEASE) -> None:
    """Have the Lease of a replica that is dead run out now, and not when the time is over that it was taken for."""
    await plane.api.patch(f"{LEASES}/{lease}", {"spec": {"leaseDurationSeconds": 1}})


def deeds(entries: Iterable[Object]) -> list[tuple[str, str, str]]:
    """What was really changed: verb, resource, name."""
    return [
        (entry["verb"], entry["objectRef"]["resource"], entry["objectRef"]["name"])
        for entry in entries
        if entry["responseStatus"]["code"] < 300
    ]


def without_lease(plane: ControlPlane, entries: Iterable[Object], lease: str = LEASE) -> list[str]:
    """Those of these writes whose author did not hold the Lease: another replica was the last before to write it."""
    held = sorted((moment(each), each["user"]["username"]) for each in plane.audit() if _took(each, lease))
    found = []
    for entry in entries:
        before = [user for at, user in held if at <= moment(entry)]
        if not before or before[-1] != entry["user"]["username"]:
            found.append(f"{entry['user']['username']}: {describe(entry)}; last to hold it: {before[-1:]}")
    return found


def _took(entry: Object, lease: str) -> bool:
    reference = entry.get("objectRef", {})
    return (
        (reference.get("resource"), reference.get("namespace"), reference.get("name"))
        == ("leases", OWN_NAMESPACE, lease)
        and entry["verb"] in {"create", "update"}
        and entry["stage"] == "ResponseComplete"
        and entry["responseStatus"]["code"] < 300
    )


@asynccontextmanager
async def two_replicas(
    plane: ControlPlane,
    kubeconfigs: Mapping[str, Path] | None = None,
    *,
    program: Sequence[str] = ("-m", "gangctl"),
    manifests: Path = MANIFESTS,
    lease_seconds: float = LONG_LEASE_SECONDS,
    webhook_timeout: int = TIMEOUT_SECONDS,
    shutdown_delay: float = DELAY_SECONDS,
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
        shutdown_delay=shutdown_delay,
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
    shutdown_delay: float = DELAY_SECONDS,
) -> AsyncIterator[tuple[Balancer, list[Gangctl]]]:
    """All of them ready and behind the balancer; ``flags`` by name, further ones, say which there are.

    ``kubeconfigs`` by name take them another way. ``program`` and ``manifests``, for their rights, may be those of
    another version. No Lease is left: the next test need not wait for that of a replica that was killed.
    """
    common = [
        "--leader-elect=true",
        *("--lease-duration", str(lease_seconds)),
        *("--webhook-timeout", str(webhook_timeout)),
        *("--shutdown-delay", str(shutdown_delay)),
    ]
    async with Balancer() as balancer, AsyncExitStack() as stack:
        stack.push_async_callback(plane.api.delete, LEASES)
        every = []
        for name, further in flags.items():
            await prepare(plane, name, manifests)
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
            # How it ends is what tests are about that have it end.
            stack.push_async_callback(replica.process.kill)
            await replica.process.launch()
            every.append(replica)
        for replica in every:
            await replica.process.wait_ready()
        balancer.replicas = list(every)
        await balancer.settled(*every)
        await webhooks_noticed(plane)
        yield balancer, every
