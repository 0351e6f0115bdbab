"""Namespaces are divided the same way everywhere, and each shard has at most one leader and, if it can, one."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangctl.client.client import Client, Settings
from gangctl.client.responses import Response
from gangctl.client.transport import Request, Transport
from gangctl.errors import LeadershipLostError, UnavailableError
from gangctl.runtime.controller import WorkQueue
from gangctl.runtime.election import LeaseElection, ShardElection
from gangctl.runtime.shards import MOST_SHARDS, Share, lease_names, shard_of
from tests.client.clock import VirtualClock, until
from tests.rows import each
from tests.runtime.test_election import LeaseServer

NAMESPACES = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)


def test_a_namespace_is_in_the_same_shard_in_every_version() -> None:
    """Two replicas of different versions that disagreed would both reconcile it, or neither."""
    assert [shard_of(name, 4) for name in ("default", "team-a", "team-b", "kube-system")] == [2, 2, 3, 2]


@given(NAMESPACES, st.integers(1, MOST_SHARDS))
def test_every_namespace_is_in_exactly_one_share(namespace: str, total: int) -> None:
    shares = [Share(total) for _ in range(total)]
    for number, share in enumerate(shares):
        share.take(number)
    holders = [number for number, share in enumerate(shares) if share.holds(namespace)]
    assert holders == [shard_of(namespace, total)]
    assert [share.first for share in shares] == [True] + [False] * (total - 1)


@each("total", [2, 3, 4, 8])
@each("names", ["team-{:02}", "user-{:04}", "ml-{}-prod", "{:03}"])
def test_similar_namespace_names_are_spread_over_the_shards(names: str, total: int) -> None:
    found = Counter(shard_of(names.format(number), total) for number in range(512))
    mean = 512 / total
    assert len(found) == total
    assert all(0.5 * mean < count < 1.5 * mean for count in found.values()), found


def test_no_namespace_is_held_before_a_shard_is_led() -> None:
    share = Share(2)
    assert not any(share.holds(f"n{number}") for number in range(100))
    assert not share.first
    share.take(1)
    assert {share.holds(f"n{number}") for number in range(100)} == {True, False}
    share.release()
    assert not any(share.holds(f"n{number}") for number in range(100))


def test_without_shards_every_namespace_is_held_even_by_a_standby() -> None:
    share = Share()
    share.take(0)
    share.release()
    assert (share.holds("any"), share.first, share.divided) == (True, True, False)


def test_objects_of_other_shards_are_not_projected() -> None:
    share = Share(2)
    share.take(shard_of("here", 2))
    away = next(name for name in map(str, range(100)) if not share.holds(name))
    project = share.within(lambda raw: str(raw["metadata"]["name"]))
    assert project({"metadata": {"namespace": "here", "name": "a"}}) == "a"
    assert project({"metadata": {"namespace": away, "name": "a"}}) is None


async def test_a_queue_does_not_admit_keys_of_other_shards(clock: VirtualClock) -> None:
    share = Share(2)
    queue: WorkQueue[tuple[str, str]] = WorkQueue(clock=clock, admits=share.admits)
    share.take(shard_of("here", 2))
    away = next(name for name in map(str, range(100)) if not share.holds(name))
    queue.add(("here", "a"))
    queue.add((away, "a"))
    queue.add_after((away, "b"), 1)
    queue.add_failed(("here", "b"))
    share.take(shard_of(away, 2))
    await clock.advance(10)
    assert (len(queue), len(queue._failures)) == (1, 0)
    assert await queue.get() == ("here", "a")


class LeaseServers(Transport):
    """A server for each Lease."""

    def __init__(self) -> None:
        self.leases = {name: LeaseServer() for name in lease_names("gangctl", 2)}

    async def send(self, request: Request, *, throttled: bool = True, guard: object = None) -> Response:
        name = request.body["metadata"]["name"] if request.method == "POST" else request.path.rpartition("/")[2]
        return await self.leases[name].send(request, throttled=throttled, guard=guard)

    @property
    def holders(self) -> list[str]:
        return [each.holder for each in self.leases.values()]


class Replica:
    """One that stands for both shards until it ends."""

    def __init__(self, servers: LeaseServers, identity: str, clock: VirtualClock) -> None:
        client = Client(servers, Settings(throttled=False))
        self.share = Share(2)
        elections = [
            LeaseElection(client, name=name, namespace="ns", identity=identity, clock=clock, randomness=lambda: 0.0)
            for name in servers.leases
        ]
        self.election = ShardElection(elections, self.share, clock=clock)
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while True:
            try:
                await self.election.run(self._work)
            except LeadershipLostError:
                continue

    async def _work(self) -> None:
        await asyncio.Event().wait()

    def leads(self) -> list[int]:
        return [number for number in range(2) if self.election.leads(number)]

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@pytest.fixture
async def servers() -> LeaseServers:
    return LeaseServers()


@pytest.fixture
async def replicas(servers: LeaseServers, clock: VirtualClock) -> AsyncIterator[list[Replica]]:
    found = [Replica(servers, identity, clock) for identity in "abc"]
    yield found
    for replica in found:
        await replica.end()


async def test_each_shard_has_one_leader_and_a_further_replica_is_standby(
    replicas: list[Replica], servers: LeaseServers
) -> None:
    await until(lambda: all(servers.holders))
    leading = [replica.leads() for replica in replicas]
    assert sorted(leading) == [[], [0], [1]]
    for replica, led in zip(replicas, leading, strict=True):
        assert replica.election.is_leader is bool(led)
        assert replica.share.first is (led == [0])
        if led:
            replica.election.ensure_leading()
        else:
            with pytest.raises(LeadershipLostError):
                replica.election.ensure_leading()


@pytest.mark.parametrize("number", [0, 1])
async def test_a_standby_takes_over_any_shard(
    replicas: list[Replica], servers: LeaseServers, clock: VirtualClock, number: int
) -> None:
    await until(lambda: all(servers.holders))
    (leader,) = [replica for replica in replicas if replica.leads() == [number]]
    (standby,) = [replica for replica in replicas if not replica.leads()]
    await leader.end()
    await clock.advance(2)
    await until(lambda: standby.leads() == [number])
    assert standby.share.holds("default") is (shard_of("default", 2) == number)


async def test_a_lone_replica_leads_the_first_shard_and_no_other(servers: LeaseServers, clock: VirtualClock) -> None:
    alone = Replica(servers, "alone", clock)
    await until(lambda: any(servers.holders))
    await clock.advance(30)
    assert (servers.holders, alone.leads()) == (["alone", ""], [0])
    await alone.end()
    assert servers.holders == ["", ""]


async def test_a_replica_stops_leading_a_lost_shard(servers: LeaseServers, clock: VirtualClock) -> None:
    alone = Replica(servers, "alone", clock)
    await until(lambda: any(servers.holders))
    for lease in servers.leases.values():
        lease.failure = UnavailableError(0, "NoAnswer", "the API server does not answer")
    await clock.advance(10)
    await until(lambda: not alone.share.first)
    assert alone.leads() == []
    await alone.end()
