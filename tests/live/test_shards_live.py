"""Shards: each namespace is reconciled by the leader of its shard only, whichever replica is killed."""

from __future__ import annotations

import itertools
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

import pytest

from gangctl.runtime.shards import lease_names, shard_of
from tests.controlplane.api import ApiFailure, Object, path_of
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, read_until, wait_for
from tests.jobsets import jobset, rj
from tests.live.balancer import Balancer
from tests.live.cluster import Cluster
from tests.live.gangctl import OWN_NAMESPACE, Gangctl, create_namespaces
from tests.live.replicas import LEASE, leads, replicas_of, run_out, without_lease

pytestmark = pytest.mark.controlplane

SHARDS: Final = 2
NAMES: Final = ("gangctl-s", "gangctl-t", "gangctl-u")
LEASES: Final = lease_names(LEASE, SHARDS)
DIVIDED: Final = (f"--shards={SHARDS}",)
PODS: Final = 4
"""Of each JobSet here."""


@dataclass
class Shards:
    """The replicas, and a namespace in each shard."""

    plane: ControlPlane
    balancer: Balancer
    every: list[Gangctl]
    clusters: list[Cluster]

    async def leader(self, number: int, among: Sequence[Gangctl] = ()) -> Gangctl:
        """Who leads a shard."""

        async def one() -> Gangctl:
            found = [each for each in among or self.every if each.process.running and await _leads(each, number)]
            if len(found) != 1:
                raise NotYet(f"{len(found)} lead shard {number}")
            return found[0]

        return await wait_for(one, what=f"a leader of shard {number}", interval=0.05)

    async def standby(self) -> Gangctl:
        """Who leads none, once the others do."""

        async def one() -> Gangctl:
            found = [each for each in self.every if not await leads(each)]
            if len(found) != 1:
                raise NotYet(f"{len(found)} stand by")
            return found[0]

        return await wait_for(one, what="a replica that stands by")

    def writers(self, number: int, since: int) -> set[str]:
        """Who wrote in the namespace of a shard: users of replicas, each of which held the shard's Lease then."""
        cluster = self.clusters[number]
        entries = [entry for each in self.every for entry in self.writes(each, cluster, since)]
        assert without_lease(self.plane, entries, LEASES[number]) == []
        return {entry["user"]["username"] for entry in entries}

    async def made(self, cluster: Cluster, since: int, number: int) -> list[str]:
        """Names of what was created in a namespace, so many at least: an answer may be there before its entry is."""
        found = [
            entry["objectRef"]["name"]
            for each in self.every
            for entry in self.writes(each, cluster, since)
            if entry["verb"] == "create" and entry["responseStatus"]["code"] == 201
        ]
        if len(found) < number:
            raise NotYet(f"{len(found)} of {number}")
        return found

    def writes(self, replica: Gangctl, cluster: Cluster, since: int) -> list[Object]:
        """What a replica wrote in a namespace, without events."""
        found = self.plane.writes_by(replica.user, since).objects
        return [entry for entry in found if entry["objectRef"].get("namespace") == cluster.namespace]


async def _leads(replica: Gangctl, number: int) -> bool:
    return await replica.metric("gangctl_shard_leader_election_master_status", {"shard": str(number)}) == 1


async def _namespaces(plane: ControlPlane) -> list[Cluster]:
    """A new namespace in each shard."""
    found: list[Cluster] = []
    for number in range(SHARDS):
        names = (f"shard-{number}-{secrets.token_hex(3)}" for _ in itertools.count())
        name = next(name for name in names if shard_of(name, SHARDS) == number)
        await create_namespaces(plane, [name])
        found.append(Cluster(plane, name))
    return found


async def _grant_leases(plane: ControlPlane) -> None:
    """The Leases of further shards; the first is that of the manifests."""
    rules = [
        {
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "resourceNames": [f"gangctl-shard-{number}" for number in range(1, SHARDS)],
            "verbs": ["get", "update"],
        }
    ]
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "shards"}}
    binding = {
        **role,
        "kind": "RoleBinding",
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "shards"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name} for name in NAMES],
    }
    for plural, body in (("roles", {**role, "rules": rules}), ("rolebindings", binding)):
        path = path_of("rbac.authorization.k8s.io/v1", plural, namespace=OWN_NAMESPACE, name="shards")
        await plane.api.patch(path, body, kind="apply", fieldManager="test", force=True)


@asynccontextmanager
async def shards(plane: ControlPlane, *flags: Sequence[str]) -> AsyncIterator[Shards]:
    """Three replicas, each with these flags of its own; two shards."""
    clusters = await _namespaces(plane)
    await create_namespaces(plane, [OWN_NAMESPACE])
    await _grant_leases(plane)
    named = dict(zip(NAMES, flags or [DIVIDED] * 3, strict=True))
    async with replicas_of(plane, named) as (balancer, every):
        yield Shards(plane, balancer, every, clusters)


async def create(cluster: Cluster, name: str) -> None:
    await cluster.create_jobset(jobset(name, rj("w", 2, 2, 2, mode="ReplicatedGang")))


async def have_gangs(cluster: Cluster, *names: str) -> None:
    """Wait until each has its Workload and its two PodGroups."""

    async def all_there() -> bool:
        gangs = await cluster.gangs()
        objects = (*gangs.workloads.values(), *gangs.groups.values())
        found = Counter(each["metadata"]["ownerReferences"][0]["name"] for each in objects)
        if missing := [name for name in names if found[name] != 3]:
            raise NotYet(f"{missing} of {found}")
        return True

    await wait_for(all_there, what="the gangs", interval=0.02)


async def created_events(cluster: Cluster, count: int) -> list[str]:
    """JobSets of which it is told that their gangs were made, one for each time, once there are so many at least."""

    async def so_many() -> list[str]:
        found = [each["regarding"]["name"] for each in await cluster.events() if each["reason"] == "WorkloadCreated"]
        if len(found) < count:
            raise NotYet(f"{sorted(found)}")
        return sorted(found)

    return await wait_for(so_many, what=f"{count} gangs to be reported")


async def reported(replica: Gangctl, cluster: Cluster, gangs: int) -> None:
    """Wait until a replica tells of so many JobSets with gangs in a namespace."""
    await read_until(
        lambda: replica.metric("gangctl_gangs", {"namespace": cluster.namespace}),
        lambda value: value == gangs,
        f"{gangs} gangs of {cluster.namespace} to be reported",
    )


async def follows(replica: Gangctl, pods: int) -> None:
    """Wait until a replica follows so many pods, or more: other tests' namespaces may have some of its shard."""
    await read_until(
        lambda: replica.metric("gangctl_informer_objects", {"resource": "pods"}),
        lambda value: value >= pods,
        f"{pods} pods to be followed",
    )


async def test_a_namespace_is_reconciled_by_the_leader_of_its_shard_only(bare: Cluster) -> None:
    async with shards(bare.plane) as ground:
        leaders = [await ground.leader(number) for number in range(SHARDS)]
        standby = await ground.standby()
        assert len({leaders[0].user, leaders[1].user, standby.user}) == 3
        position = ground.plane.audit_position
        # The balancer sends webhooks to whichever replica: each answers for the namespaces of all.
        for cluster in ground.clusters:
            for name in ("a", "b", "c"):
                await create(cluster, name)
        for cluster in ground.clusters:
            await have_gangs(cluster, "a", "b", "c")
        for number, cluster in enumerate(ground.clusters):
            assert ground.writers(number, position) == {leaders[number].user}
            for each in ground.every:
                await reported(each, cluster, 3 if each is leaders[number] else 0)
        for leader in leaders:
            await follows(leader, 3 * PODS)
        assert await standby.metric("gangctl_informer_objects", {"resource": "pods"}) == 0


@pytest.mark.parametrize("number", [0, pytest.param(1, marks=pytest.mark.full("the other shard is taken over alike"))])
async def test_the_shard_of_a_killed_leader_is_taken_over_without_disturbing_the_other(
    bare: Cluster, number: int
) -> None:
    async with shards(bare.plane) as ground:
        leader, standby = await ground.leader(number), await ground.standby()
        other = await ground.leader(1 - number)
        cluster, elsewhere = ground.clusters[number], ground.clusters[1 - number]
        position = ground.plane.audit_position
        await leader.process.kill()
        await run_out(ground.plane, LEASES[number])

        async def created() -> bool:
            """Calls fail for as long as the balancer has not noticed."""
            await create(cluster, "after")
            return True

        await wait_for(created, what="a JobSet to be taken", interval=0.1, tolerate=(ApiFailure,))
        await have_gangs(cluster, "after")
        await create(elsewhere, "after")
        await have_gangs(elsewhere, "after")
        assert ground.writers(number, position) == {standby.user}
        assert ground.writers(1 - number, position) == {other.user}
        await leader.process.start()
        assert await ground.leader(number) is standby


async def test_replicas_with_different_shard_counts_write_nothing_twice(bare: Cluster) -> None:
    """A rollout from one to two shards: for its length, two replicas look after what is in the second."""
    async with shards(bare.plane, (), DIVIDED, DIVIDED) as ground:
        whole, *divided = ground.every
        # Both kinds stand for the first Lease; the second is for those with shards alone.
        second = await ground.leader(1, among=divided)
        position = ground.plane.audit_position
        names = [f"j{number}" for number in range(8)]
        for name in names:
            for cluster in ground.clusters:
                await create(cluster, name)
        for cluster in ground.clusters:
            await have_gangs(cluster, *names)
        await whole.end()
        await ground.balancer.settled(*divided)
        for cluster in ground.clusters:
            await create(cluster, "last")
            await have_gangs(cluster, "last")
        assert await ground.leader(1, among=divided) is second
        assert await ground.leader(0, among=divided) is not second
        for cluster in ground.clusters:
            assert await created_events(cluster, len(names) + 1) == sorted([*names, "last"])
            made = await wait_for(partial(ground.made, cluster, position, 3 * (len(names) + 1)), "all to be logged")
            assert len(made) == len(set(made)) == 3 * (len(names) + 1)
