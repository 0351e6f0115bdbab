"""gangctl is down: a gang that exists is suspended, resumed, labelled, deleted, and started by Kueue all the same."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.controlplane.api import Object
from tests.controlplane.kubelet import Kubelet
from tests.controlplane.wait import NotYet, read_until, wait_for
from tests.jobsets import jobset, rj
from tests.live.cluster import JOBSETS, Cluster, on, refused
from tests.live.gangctl import Gangctl
from tests.live.observe import gang_of, running_pods

pytestmark = pytest.mark.controlplane

HOLD = "example.com/hold"


async def gone(cluster: Cluster, name: str) -> None:
    """Wait until a JobSet is deleted, finalizers and all."""
    await read_until(
        lambda: cluster.api.list(cluster.path(JOBSETS, "jobsets")),
        lambda items: name not in [item["metadata"]["name"] for item in items],
        f"JobSet {name} to be gone",
    )


async def without_pods(cluster: Cluster) -> bool:
    if pods := await cluster.pods():
        raise NotYet(f"{len(pods)} pods")
    return True


def gang(cluster: Cluster, name: str, **spec: Any) -> Object:
    return jobset(name, rj("w", 1, 2, 2, mode="Gang", pod=cluster.room), **spec)


@on("1.37", "1.36", "1.35")
async def test_a_gang_that_exists_does_not_wait_for_gangctl(
    cluster: Cluster, kubelet: Kubelet, running: Gangctl
) -> None:
    await cluster.create_jobset(gang(cluster, "js"))
    await cluster.create_jobset(gang(cluster, "short", ttlSecondsAfterFinished=0))
    pods = await running_pods(cluster, 4)
    await gang_of(cluster, "js")
    await running.process.stop()
    try:
        for metadata in ({"labels": {"team": "a"}}, {"annotations": {"team": "a"}}):
            await cluster.patch_jobset("js", {"metadata": metadata})
        # Finished, and deleted by JobSet, in the foreground.
        for pod in pods:
            if pod["metadata"]["name"].startswith("short-"):
                await kubelet.finish(pod)
        await gone(cluster, "short")
        await cluster.patch_jobset("js", {"spec": {"suspend": True}})
        # On 1.35 JobSet's update of the Job drops the reference, and waits until gangctl restores it.
        if cluster.has_groups:
            await wait_for(partial(without_pods, cluster), what="the pods to be gone")
        await cluster.patch_jobset("js", {"spec": {"suspend": False}})
        await running_pods(cluster, 2)
        await cluster.patch_jobset("js", {"metadata": {"finalizers": [HOLD]}})
        await cluster.api.delete(cluster.path(JOBSETS, "jobsets", "js"), propagation="Foreground")

        # The garbage collector takes its own finalizer off by a patch.
        await read_until(
            lambda: cluster.jobset("js"),
            lambda jobset: jobset["metadata"]["finalizers"] == [HOLD],
            "the foreground deletion to come to the last finalizer",
        )
        await cluster.patch_jobset("js", {"metadata": {"finalizers": None}})
        await gone(cluster, "js")
        failure = await refused(cluster.create_jobset(gang(cluster, "new")))
        assert 'failed calling webhook "jobsets.gangs.gangctl.dev"' in failure.message
    finally:
        await running.process.start()


@on("1.37")
@pytest.mark.usefixtures("kubelet")
async def test_what_changes_a_gang_waits_for_gangctl(cluster: Cluster, running: Gangctl) -> None:
    await cluster.create_jobset(gang(cluster, "js"))
    await running_pods(cluster, 2)
    live = await cluster.jobset("js")
    live["spec"]["replicatedJobs"][0]["template"]["spec"] |= {"parallelism": 3, "completions": 3}
    resized = {"spec": {"replicatedJobs": live["spec"]["replicatedJobs"]}}
    await running.process.stop()
    try:
        for patch in (resized, {"metadata": {"annotations": {"gangctl.dev/gang-mode": "Off"}}}):
            failure = await refused(cluster.patch_jobset("js", patch))
            assert 'failed calling webhook "jobsets.gangs.gangctl.dev"' in failure.message
    finally:
        await running.process.start()
    await cluster.patch_jobset("js", resized)
    await running_pods(cluster, 3)
