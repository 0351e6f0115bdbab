"""A leader that is killed, and one that gets SIGTERM: how soon the other replica writes.

Two replicas behind a balancer, each as a user of its own, beside real Kubernetes; the audit log says who wrote when. A
JobSet is created as soon as the leader has gone, so that there is something to write.
"""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Final

from benchmarks.result import Figure, Findings
from benchmarks.table import Table
from tests.controlplane.minors import NEWEST
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for
from tests.jobsets import jobset, rj
from tests.live.cluster import Cluster
from tests.live.gangctl import Gangctl, create_namespaces
from tests.live.replicas import DELAY_SECONDS, LEASE_SECONDS, Replicas, moment, now, two_replicas

ROUNDS: Final = 5
NAMESPACE: Final = "failover"


async def follows(cluster: Cluster, replicas: Replicas, name: str, *, kill: bool) -> float:
    """Seconds from the end of the leader until the other's first write; both serve again afterwards."""
    leader, follower = await replicas.roles()
    position, left = cluster.plane.audit_position, now()
    if kill:
        await leader.process.kill()
        await replicas.balancer.settled(follower)
    else:
        leader.process.terminate()
    await cluster.create_jobset(jobset(name, rj("w", 2, 1, 1, mode="ReplicatedGang")))
    first = await _first_write(replicas, follower, position)
    if not kill:
        await leader.process.stop(grace=20)
    await leader.process.start()
    await replicas.balancer.settled(leader, follower)
    return (first - left).total_seconds()


async def _first_write(replicas: Replicas, replica: Gangctl, since: int) -> datetime:
    async def written() -> datetime:
        moments = [moment(entry) for entry in replicas.writes(replica, since)]
        if not moments:
            raise NotYet("no write")
        return min(moments)

    return await wait_for(written, what=f"a write of {replica.user}", interval=0.02)


async def measure(minor: str, rounds: int, lease_seconds: float) -> tuple[list[float], list[float]]:
    """Seconds after a kill, and after a request to end, by round, with a Lease of so many seconds."""
    killed, asked = [], []
    async with ControlPlane.start(minor, ("jobset",)) as plane:
        await create_namespaces(plane, [NAMESPACE])
        cluster = Cluster(plane, NAMESPACE)
        async with two_replicas(plane, lease_seconds=lease_seconds) as replicas:
            for number in range(rounds):
                killed.append(await follows(cluster, replicas, f"killed-{number}", kill=True))
                asked.append(await follows(cluster, replicas, f"asked-{number}", kill=False))
                print(f"round {number + 1}: killed {killed[-1]:.2f} s, SIGTERM {asked[-1]:.2f} s", flush=True)
    return killed, asked


def main(quick: bool = False, minor: str = NEWEST, lease_seconds: float = LEASE_SECONDS) -> Findings:
    """Both, several times on one pair of replicas; the Lease that they have is what a kill is held against."""
    killed, asked = asyncio.run(measure(minor, 1 if quick else ROUNDS, lease_seconds))
    table = Table("failover", ["round", "leader killed", "leader gets SIGTERM"])
    for number, (one, other) in enumerate(zip(killed, asked, strict=True), 1):
        table.add(number, f"{one:.2f} s", f"{other:.2f} s")
    table.remarks.append(
        f"Until the first write of the other replica. Kubernetes {minor} with JobSet; a Lease of {lease_seconds:g} s, "
        f"--shutdown-delay {DELAY_SECONDS}; a killed leader's time includes that of the balancer to find out."
    )
    lease = (float(lease_seconds),) * len(killed)
    figures = [Figure("failover-killed", tuple(killed), lease), Figure("failover-graceful", tuple(asked))]
    return Findings(table, figures)
