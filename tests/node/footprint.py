"""
What gangctl's pods take of a node: `python -m tests.node.footprint` prints the table of docs/scaling.md.

Two real nodes, manifests/base, RSS and CPU from the pods' cgroups: idle for a minute, under 20 creates a second for a
minute, and idle afterwards with all of these JobSets. Their pods find no node, so that kubelets do not take the CPU.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.controlplane.components.node import pod_figures
from tests.controlplane.images import gangctl_image, pause_image
from tests.controlplane.plane import ControlPlane
from tests.jobsets import jobset, rj
from tests.live.cluster import Cluster
from tests.manifests.files import MANIFESTS
from tests.node.cluster import RealCluster

PERIOD = 60.0
RATE = 20
NOWHERE = {"nodeSelector": {"gangctl.test/nowhere": ""}}


async def main() -> int:
    async with ControlPlane.start(nodes=2, images=[pause_image(), gangctl_image()]) as plane:
        with tempfile.TemporaryDirectory() as home:
            real = RealCluster(plane, Path(home))
            await real.kubectl("apply", "-k", str(MANIFESTS / "base"))
            await real.rolled_out()
            async with real.namespace() as cluster:
                await cluster.asked()
                await measure(real, cluster)
    return 0


async def measure(real: RealCluster, cluster: Cluster) -> None:
    leader = await real.leader()
    pods = {
        pod["metadata"]["uid"]: "leader" if pod["metadata"]["name"] == leader else "standby"
        for pod in await real.ready(2)
    }
    say("| | replica | memory | CPU |\n|---|---|---|---|")
    # What the start took is over by then.
    await asyncio.sleep(PERIOD / 2)
    await period("idle", pods)
    names = iter(range(int(RATE * PERIOD)))

    async def create() -> None:
        async with asyncio.TaskGroup() as group:
            for number in names:
                gang = jobset(f"js{number}", rj("w", 1, 1, 1, pod=NOWHERE), mode="Gang")
                group.create_task(cluster.create_jobset(gang))
                await asyncio.sleep(1 / RATE)

    creating = asyncio.create_task(create())
    await period(f"{RATE} creates a second", pods)
    await creating
    await asyncio.sleep(PERIOD)
    await period(f"idle, with {int(RATE * PERIOD):,} JobSets", pods)


async def period(what: str, pods: Mapping[str, str]) -> None:
    before = {uid: pod_figures(uid)[1] for uid in pods}
    await asyncio.sleep(PERIOD)
    for uid, role in sorted(pods.items(), key=lambda pair: pair[1]):
        memory, cpu = pod_figures(uid)
        say(f"| {what} | {role} | {memory / 1e6:.0f} MB | {(cpu - before[uid]) / PERIOD:.1%} of a core |")


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
