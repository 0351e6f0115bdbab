"""What real nodes do to a gang and to gangctl: containers that fail, a node that is lost, a node that is drained."""

from __future__ import annotations

import asyncio

import pytest

from tests.controlplane.api import Object
from tests.controlplane.components.jobset import JOBSET_NAME
from tests.controlplane.wait import NotYet, wait_for
from tests.live.cluster import JOBSETS, Cluster
from tests.live.placing import is_refused
from tests.node.base import base
from tests.node.cluster import RealCluster, example, finished

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.full("real nodes take minutes"),
    pytest.mark.xdist_group("real-node"),
]
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"


async def running(cluster: Cluster, count: int, attempt: int = 0) -> list[Object]:
    """Wait until so many pods of one attempt run."""

    async def enough() -> list[Object]:
        pods = [
            pod
            for pod in await cluster.pods()
            if pod["metadata"]["labels"]["jobset.sigs.k8s.io/restart-attempt"] == str(attempt)
        ]
        phases = [pod["status"]["phase"] for pod in pods]
        if phases.count("Running") != count:
            raise NotYet(str(phases))
        return pods

    return await wait_for(enough, f"{count} pods of attempt {attempt} to run")


async def test_a_gang_trains_fails_and_trains_again(real: RealCluster) -> None:
    async with base(real), real.namespace() as cluster:
        await cluster.asked()
        # A minute, time enough to look at it before it is over.
        await cluster.create_jobset(example(STEPS="60", STEP_SECONDS="1"))
        pods = await running(cluster, 4)
        assert "None" not in {str(pod["spec"].get("schedulingGroup")) for pod in pods}
        assert {pod["spec"]["nodeName"] for pod in pods} == {"node-1", "node-2"}
        real.kill_container(pods[2])
        # All four begin again, and not the one that failed alone.
        again = await running(cluster, 4, attempt=1)
        assert not {pod["metadata"]["uid"] for pod in pods} & {pod["metadata"]["uid"] for pod in again}
        status = await finished(cluster)
        assert (status["terminalState"], status["restarts"]) == ("Completed", 1)
        await real.trained(cluster, "y = 2.96 x + 2.00")


async def test_a_killed_leader_is_replaced_and_restarted(real: RealCluster) -> None:
    async with base(real), real.namespace() as cluster:
        await cluster.asked()
        leader = await real.leader()
        (pod,) = [each for each in await real.replicas() if each["metadata"]["name"] == leader]
        real.kill_container(pod)
        # The other one answers for the Service, and writes as soon as the Lease has run out.
        await real.leader(other_than=leader)
        await cluster.create_jobset(example())
        assert (await finished(cluster))["terminalState"] == "Completed"
        restarted = await real.ready(2)
        assert sum(pod["status"]["containerStatuses"][0]["restartCount"] for pod in restarted) == 1


async def test_a_gang_recovers_from_the_loss_of_a_node(real: RealCluster) -> None:
    async with base(real), real.namespace() as cluster:
        await cluster.asked()
        await real.ready(2)
        leader = await real.leader()
        (where,) = {each["spec"]["nodeName"] for each in await real.replicas() if each["metadata"]["name"] == leader}
        await cluster.create_jobset(example(STEP_SECONDS="1"))
        await running(cluster, 4)
        # Its kubelet, its containers and the leader among them end at once.
        await real.plane.kill(where)
        await real.leader(other_than=leader)
        await real.is_lost(where)
        await cluster.asked()
        # As an operator does with a machine that does not come back: its pods are gone, and all four start elsewhere.
        for pod in await cluster.pods():
            if pod["spec"]["nodeName"] == where:
                await real.api.delete(cluster.path("v1", "pods", pod["metadata"]["name"]), grace=0)
        again = await running(cluster, 4, attempt=1)
        assert where not in {pod["spec"]["nodeName"] for pod in again}
        await real.plane.start_component(where)
        await real.nodes_ready()
        await real.ready(2)


def patient(name: str, workers: int) -> Object:
    """Workers that wait for each other and do not fail: two of them fill a node beside gangctl's own pods."""
    raw = example()
    raw["metadata"]["name"] = name
    del raw["spec"]["coordinator"]
    job = raw["spec"]["replicatedJobs"][0]["template"]["spec"]
    ignored = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
    job |= {"parallelism": workers, "completions": workers, "podFailurePolicy": {"rules": [ignored]}}
    (container,) = job["template"]["spec"]["containers"]
    container |= {"env": [], "args": ["import time; time.sleep(3600)"], "resources": {"requests": {"cpu": "700m"}}}
    return raw


async def spread(cluster: Cluster, name: str, running: int, refused: int) -> set[str]:
    """Wait until so many pods of a gang run and the scheduler refused so many; the nodes of those that run."""

    async def look() -> list[set[str]]:
        everyone = [pod for pod in await cluster.pods() if pod["metadata"]["labels"][JOBSET_NAME] == name]
        pods = [pod for pod in everyone if "deletionTimestamp" not in pod["metadata"]]
        on = [pod for pod in pods if pod["status"]["phase"] == "Running"]
        off = [pod for pod in pods if is_refused(pod)]
        if (len(on), len(off), len(everyone)) != (running, refused, running + refused):
            raise NotYet(f"{len(everyone)} pods: {len(on)} run, {len(off)} refused")
        return [{pod["spec"]["nodeName"] for pod in on}]

    (nodes,) = await wait_for(look, f"{name} to have {running} pods that run and {refused} refused")
    return nodes


async def test_a_gang_that_lost_a_node_gives_the_other_one_back(real: RealCluster) -> None:
    async with base(real, "stranded"), real.namespace() as cluster:
        await cluster.asked()
        await cluster.create_jobset(patient("train", 4))
        assert await spread(cluster, "train", 4, 0) == {"node-1", "node-2"}
        await real.plane.kill("node-2")
        await real.is_lost("node-2")
        # As docs of Kubernetes tell operators to do for a machine that is off: its pods go, and new ones wait.
        await real.kubectl("taint", "node", "node-2", f"{OUT_OF_SERVICE}=nodeshutdown:NoExecute")
        assert await spread(cluster, "train", 2, 2) == {"node-1"}
        await cluster.create_jobset(patient("next", 2))
        await spread(cluster, "next", 0, 2)
        await spread(cluster, "train", 2, 2)

        annotation = "gangctl.dev/evict-stranded-after=1s"
        await real.kubectl("--namespace", cluster.namespace, "annotate", "jobset", "train", annotation)
        assert await spread(cluster, "next", 2, 0) == {"node-1"}
        # The Job controller makes pods again after 10 s, doubled for each that was lost before: four are 80 s.
        await spread(cluster, "train", 0, 4)

        await real.plane.start_component("node-2")
        await real.kubectl("taint", "node", "node-2", f"{OUT_OF_SERVICE}-")
        await real.nodes_ready()
        await cluster.api.delete(cluster.path(JOBSETS, "jobsets", "next"), propagation="Background")
        assert await spread(cluster, "train", 4, 0) == {"node-1", "node-2"}
        assert (await cluster.jobset("train"))["status"].get("restarts", 0) == 0, "evictions are not failures"
        await real.ready(2)


async def test_a_drained_node_leaves_one_replica_at_any_time(real: RealCluster) -> None:
    async with base(real), real.namespace() as cluster:
        await cluster.asked()
        await real.ready(2)
        served: list[int] = []

        async def serve() -> None:
            while True:
                await cluster.create_jobset(example(), dry_run=True)
                served.append(1)

        async with asyncio.TaskGroup() as group:
            serving = group.create_task(serve())
            await real.kubectl("drain", "node-1", "--ignore-daemonsets", "--delete-emptydir-data")
            await real.ready(2, lambda pod: pod["spec"]["nodeName"] == "node-2")
            serving.cancel()
        # None was refused: a request that fails ends the group with its error.
        assert served
        await real.kubectl("uncordon", "node-1")
