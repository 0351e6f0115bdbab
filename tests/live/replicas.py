"""Several gangctl behind a balancer, each as a user of its own, so that the audit log tells who wrote what."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tests.controlplane.api import Object
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for
from tests.live.balancer import Balancer
from tests.live.gangctl import Gangctl, install_rights
from tests.manifests.files import MANIFESTS

NAMES = ("gangctl-a", "gangctl-b")
LEASE_SECONDS = 15
"""The default. A quarter of it proved too short beside another control plane on the same two cores: a leader could not
renew it in time, and what was done within the Lease on a quiet machine took a fifth of a second more."""
TIMEOUT_SECONDS = 2
DELAY_SECONDS = 3


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


@asynccontextmanager
async def two_replicas(
    plane: ControlPlane,
    kubeconfigs: Mapping[str, Path] | None = None,
    *,
    program: Sequence[str] = ("-m", "gangctl"),
    manifests: Path = MANIFESTS,
) -> AsyncIterator[Replicas]:
    """Both ready and behind the balancer, one of them leading; see :func:`replicas_of`."""
    flags = dict.fromkeys(NAMES, ())
    async with replicas_of(plane, flags, kubeconfigs, program=program, manifests=manifests) as (balancer, both):
        yield Replicas(plane, balancer, (both[0], both[1]))


@asynccontextmanager
async def replicas_of(
    plane: ControlPlane,
    flags: Mapping[str, Sequence[str]],
    kubeconfigs: Mapping[str, Path] | None = None,
    *,
    program: Sequence[str] = ("-m", "gangctl"),
    manifests: Path = MANIFESTS,
) -> AsyncIterator[tuple[Balancer, list[Gangctl]]]:
    """All of them ready and behind the balancer; ``flags`` by name, further ones, say which there are.

    ``kubeconfigs`` by name take them another way. ``program`` and ``manifests``, for their rights, may be those of
    another version.
    """
    common = [
        "--leader-elect=true",
        *("--lease-duration", str(LEASE_SECONDS)),
        *("--webhook-timeout", str(TIMEOUT_SECONDS)),
        *("--shutdown-delay", str(DELAY_SECONDS)),
    ]
    async with Balancer() as balancer, AsyncExitStack() as stack:
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
