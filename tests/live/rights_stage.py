"""The cluster and the gangctl in it that the checks of rights are about, and what they did since a right was taken."""

from __future__ import annotations

from dataclasses import replace
from http import HTTPStatus
from typing import Final

import aiohttp

from tests.controlplane.api import ApiFailure, Object
from tests.controlplane.wait import NotYet, read_until, wait_for, wait_until
from tests.jobsets import jobset, rj
from tests.live.cluster import Cluster
from tests.live.gangctl import Gangctl
from tests.live.rights import Right, refusals

RELISTED: Final = 6
"""Refusals of a watch after which little is seen without it.

The fifth makes an informer list again, and the sixth comes after that list. The next list is a long time later
(:meth:`Stage.unseen`).
"""
COMPOSITES: Final = "compositepodgroups"
_READS: Final = frozenset({"get", "list"})


class Stage:
    """A cluster, a gangctl in it, and its refused requests and logs since rights were taken from it."""

    def __init__(self, cluster: Cluster, gangctl: Gangctl, suffix: str = "") -> None:
        """``suffix`` is that of the names of gangctl's roles."""
        self.cluster = cluster
        self.api = cluster.api
        self.gangctl = gangctl
        self.suffix = suffix
        self._audited = 0
        self._said = 0
        self._blind = 0

    def mark(self) -> None:
        """Ignore earlier refusals and logs."""
        self._audited = self.cluster.plane.audit_position
        self._said = len(self.gangctl.log)

    @property
    def since(self) -> str:
        """Its logs since."""
        return self.gangctl.log[self._said :]

    def audited(self) -> list[Object]:
        """Everything that the API server was asked since."""
        return self.cluster.plane.audit(self._audited)

    def refused(self, right: Right) -> list[Object]:
        """Requests that were refused for want of this right."""
        own = [entry for entry in self.audited() if entry["user"].get("username") == self.gangctl.user]
        return [entry for entry in refusals(own) if right.covers(entry)]

    async def reported(self, right: Right, times: int = 1) -> None:
        """Wait until the API server has refused, and gangctl has logged it or recorded an event."""

        async def both() -> bool:
            notes = [event["note"] for event in await self.cluster.events()]
            text = "\n".join([self.since.replace('\\"', '"'), *notes])
            if right.words not in text or len(self.refused(right)) < times:
                raise NotYet(f"{len(self.refused(right))} refusals; gangctl said: {text[-1500:]}")
            return True

        await wait_for(both, f"gangctl to say that it {right.words}")

    async def blind(self, *rights: Right) -> None:
        """Wait until what changes from now on is not seen for want of these rights to watch."""
        for right in rights:
            await self.reported(right, RELISTED)
        self._blind = self.cluster.plane.audit_position

    def read(self, *rights: Right) -> bool:
        """Whether it has listed or got what it may not watch since it was made blind."""
        audited = self.cluster.plane.audit(self._blind)
        own = [entry for entry in audited if entry["user"].get("username") == self.gangctl.user]
        reads = {replace(right, verb=verb) for right in rights for verb in _READS}
        return any(
            right.covers(entry) for right in reads for entry in own if entry["responseStatus"]["code"] == HTTPStatus.OK
        )

    async def unseen(self, seen: bool, *rights: Right) -> None:
        """What has changed since is not seen, unless by a list, of which there is one every now and then."""
        if not seen:
            return

        await wait_until(lambda: self.read(*rights), "the list that shows it: no watch does")

    async def refused_again(self, *rights: Right) -> None:
        """Wait until something is refused once more for want of each of these."""
        before = [(right, len(self.refused(right))) for right in rights]
        for right, times in before:
            await self.reported(right, times + 1)

    async def launch(self) -> None:
        """Start gangctl without waiting for anything."""
        await self.gangctl.process.launch()

    async def start(self) -> None:
        """Start gangctl, and wait until it is ready."""
        await self.launch()
        await self.ready()

    async def ready(self) -> None:
        """Wait until gangctl is ready."""
        await self.gangctl.process.wait_ready()

    async def unready(self) -> None:
        """It runs, and is not ready."""
        assert self.gangctl.process.running
        try:
            status, _ = await self.gangctl.fetch("/readyz")
        except (aiohttp.ClientError, OSError):
            return
        assert status == 503

    async def jobset(
        self, name: str = "js", pods: int = 2, *, suspend: bool = False, of: tuple[Right, ...] = ()
    ) -> str:
        """Create a JobSet that asks for a gang, or for two that start together if rights are ``of`` these; its UID."""
        raw = jobset(name, rj("w", 1, pods, pods, mode="Gang"), suspend=suspend)
        if any(right.resource == COMPOSITES for right in of):
            raw = together(name, suspend=suspend)
        created = await wait_for(
            lambda: self.cluster.create_jobset(raw), what="the JobSet to be accepted", tolerate=(ApiFailure,)
        )
        assert "gang-ref" in str(created["spec"])
        uid: str = created["metadata"]["uid"]
        return uid

    async def suspend(self, *, suspend: bool, name: str = "js") -> None:
        await self.cluster.patch_jobset(name, {"spec": {"suspend": suspend}})

    async def has(self, plural: str) -> int:
        """How many Workloads or groups there are."""
        return len(await self.api.list(collection(self.cluster, plural)))

    async def composites(self, count: int) -> None:
        """Wait until there are so many CompositePodGroups."""
        await read_until(lambda: self.has(COMPOSITES), lambda there: there == count, f"{count} CompositePodGroups")


def collection(cluster: Cluster, plural: str, name: str | None = None) -> str:
    """Path of Workloads or groups, or of one of them."""
    if plural == COMPOSITES:
        return cluster.path("scheduling.k8s.io/v1alpha3", plural, name)
    return cluster.scheduling(plural, name)


def together(name: str, *, suspend: bool = False) -> Object:
    """A JobSet with two gangs that start together."""
    return jobset(name, rj("w", 2, 1, 1, mode="ReplicatedGang"), options='{"composite": true}', suspend=suspend)
