"""gangctl killed (SIGKILL) after every single write of a reconcile: the next run ends where it would have ended."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.cases import object_name
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for
from tests.jobsets import jobset, rj
from tests.live.cluster import Cluster
from tests.live.gangctl import USER, Gangctl
from tests.live.proxy import Proxy

pytestmark = pytest.mark.controlplane

REPLICAS = 2
SOME, ALL = 2, 20
"""After how many of the writes, at most; there are fewer than twenty."""
Condition = Callable[[], Awaitable[bool]]


class Assassin:
    """Kills gangctl right after its n-th write from now in one namespace: in others, earlier tests' gangs end."""

    def __init__(self, gangctl: Gangctl, namespace: str) -> None:
        self._gangctl = gangctl
        self._within = f"/namespaces/{namespace}/"
        self._countdown = 0
        self._among = ""
        self._deed: asyncio.Task[None] | None = None
        self.last_write = ""

    def arm(self, writes: int, among: str = "") -> None:
        """Count writes whose path holds ``among``."""
        self._countdown = writes
        self._among = among
        self._deed = None

    async def __call__(self, method: str, path: str) -> None:
        if self._within not in path or self._among not in path:
            return
        self._countdown -= 1
        if self._countdown == 0:
            self.last_write = f"{method} {path.split('/')[-2 if method != 'POST' else -1]}"
            self._deed = asyncio.create_task(self._gangctl.process.kill())
            await self._deed

    async def struck(self) -> bool:
        """Whether gangctl was killed; it is dead then."""
        if self._deed is None:
            return False
        await self._deed
        return True


async def kill_after_each_write(
    gangctl: Gangctl,
    proxy: Proxy,
    assassin: Assassin,
    act: Callable[[int], Awaitable[Condition]],
    among: str = "",
    *,
    most: int = ALL,
) -> list[str]:
    """
    Begin ``act(n)`` with the n-th write as the last one of a life; what the last writes were.

    For n from 1 to ``most``, or until it needs fewer.
    The condition that ``act`` returns must hold after the next start of gangctl. What a write does may be seen before
    the assassin has counted it, so the end is waited for until the proxy has answered every write.
    """
    struck: list[str] = []
    for n in range(1, most + 1):
        assassin.arm(n, among)
        seen = await act(n)

        async def done(seen: Condition = seen) -> bool:
            ended = await seen()
            if ended and proxy.writes_under_way:
                raise NotYet(f"{proxy.writes_under_way} writes are not answered")
            return ended

        async def over(done: Condition = done) -> bool:
            return await assassin.struck() or await done()

        await wait_for(over, what=f"write {n} or the end of it all")
        if not await assassin.struck():
            return struck
        struck.append(assassin.last_write)
        await gangctl.process.start()
        await wait_for(done, what=f"the end in spite of a crash after {assassin.last_write}")
    assert most < ALL, f"no end of writes: {struck}"
    return struck


def objects_of(cluster: Cluster, name: str, uid: str) -> set[str]:
    wanted = {object_name(name, uid, "workload")}
    if cluster.has_groups:
        wanted |= {object_name(name, uid, f"job/w/{i}") for i in range(REPLICAS)}
    return wanted


@pytest.mark.parametrize(
    "most", [SOME, pytest.param(ALL, marks=pytest.mark.full("the first writes are in the first tier"))]
)
async def test_a_kill_after_every_write_leaves_the_same_objects(
    plane: ControlPlane, namespace: str, running: Gangctl, most: int
) -> None:
    cluster = Cluster(plane, namespace)
    assassin = Assassin(running, namespace)
    uids: dict[str, str] = {}

    async def names(of: str) -> set[str]:
        return {name for name in (await cluster.gangs()).names if name.startswith(f"{of}-")}

    async def create(n: int) -> Condition:
        name = f"c{n}"
        created = await cluster.create_jobset(jobset(name, rj("w", REPLICAS, 2, 2, mode="ReplicatedGang")))
        uids[name] = created["metadata"]["uid"]

        async def whole() -> bool:
            found, events = await names(name), await cluster.reasons(name)
            if found != objects_of(cluster, name, uids[name]) or "WorkloadCreated" not in events:
                raise NotYet(f"{found}, events {events}")
            return True

        return whole

    async def suspend(n: int) -> Condition:
        name = f"c{n}"
        await cluster.patch_jobset(name, {"spec": {"suspend": True}})

        async def gone() -> bool:
            if found := await names(name):
                raise NotYet(str(found))
            return True

        return gone

    async with Proxy(plane, USER, assassin) as proxy, running.through(proxy.kubeconfig(plane.directory / "proxy.json")):
        creations = await kill_after_each_write(running, proxy, assassin, create, most=most)
        assassin.arm(0)
        # The deletions may be more than the creations were.
        last = len(creations) + 7 if most == ALL else most
        spare = [await create(n) for n in range(len(creations) + 2, last + 1)]
        for whole in spare:
            await wait_for(whole, what="JobSets to be suspended")
        before = (await cluster.gangs()).uids()
        deletions = await kill_after_each_write(running, proxy, assassin, suspend, "scheduling.k8s.io", most=most)
    groups = ["POST podgroups"] * REPLICAS if cluster.has_groups else []
    assert creations == ["POST workloads", *groups, "POST events"][:most]
    assert most < ALL or "DELETE workloads" in deletions
    assert deletions
    # Everything was created once: no second Workload of any JobSet, not even one that is gone again.
    audit = plane.writes_by(USER).objects
    born = [
        e["objectRef"]["name"]
        for e in audit
        if e["verb"] == "create" and e["objectRef"].get("namespace") == namespace and e["responseStatus"]["code"] == 201
    ]
    assert sorted(born) == sorted(set(born))
    assert set(before) <= set(born)
