"""What a user installs, on real nodes: the image of the Containerfile, the manifests, the chart, and what they run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.cli.run import fine
from tests.controlplane.api import Object
from tests.controlplane.wait import NotYet, wait_for
from tests.live.cluster import Cluster
from tests.manifests.chart import CHART
from tests.manifests.files import MANIFESTS
from tests.manifests.helm import Helm
from tests.manifests.kubectl import KubectlFailed
from tests.node.cluster import OWN, RealCluster, example, finished

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.full("real nodes take minutes"),
    pytest.mark.xdist_group("real-node"),
]

BASE = ("-k", str(MANIFESTS / "base"))


@asynccontextmanager
async def base(real: RealCluster) -> AsyncIterator[None]:
    """manifests/base, applied, ready, and deleted at the end without a trace."""
    before = await real.objects()
    await real.kubectl("apply", *BASE)
    try:
        await real.rolled_out()
        yield
    finally:
        await real.kubectl("delete", "--ignore-not-found", *BASE)
        await real.leaves_nothing(before)


async def remove(real: RealCluster) -> None:
    """Uninstall with the command of docs/install.md."""
    removal = fine("install", "--uninstall", "--everything").out
    await real.kubectl("delete", "--ignore-not-found", "-f", "-", given=removal)


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


async def test_pods_are_restricted_and_write_nowhere(real: RealCluster) -> None:
    async with base(real):
        (first, _) = await real.ready(2)
        assert {pod["spec"]["nodeName"] for pod in await real.replicas()} == {"node-1", "node-2"}
        name = first["metadata"]["name"]
        tell = (
            "import os, pathlib\n"
            "print(os.getuid(), 'Seccomp:\\t2' in pathlib.Path('/proc/self/status').read_text(),"
            " os.access('/', os.W_OK), os.access('/opt/gangctl', os.W_OK), os.access('/tmp', os.W_OK))"
        )
        printed = await real.kubectl("--namespace", OWN, "exec", name, "--", "python", "-c", tell)
        assert printed.split() == ["65532", "True", "False", "False", "True"]
        with pytest.raises(KubectlFailed, match="Read-only file system"):
            await real.kubectl("--namespace", OWN, "exec", name, "--", "python", "-c", "open('/opt/x', 'w')")


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


async def test_a_lost_node_loses_no_gang(real: RealCluster) -> None:
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


async def test_a_broken_image_and_too_little_memory_replace_nothing(real: RealCluster) -> None:
    async with base(real), real.namespace() as cluster:
        before = {pod["metadata"]["name"] for pod in await real.ready(2)}
        for change, reason in (
            ('{"image": "gangctl:none", "imagePullPolicy": "Never"}', "ErrImageNeverPull"),
            ('{"resources": {"limits": {"memory": "16Mi"}, "requests": {"memory": "16Mi"}}}', "OOMKilled"),
        ):
            patch = '{"spec": {"template": {"spec": {"containers": [{"name": "gangctl", ' + change[1:] + "]}}}}"
            await real.kubectl("--namespace", OWN, "patch", "deployment", "gangctl", "--patch", patch)

            async def failed(reason: str = reason) -> bool:
                states = str([pod["status"].get("containerStatuses") for pod in await real.replicas()])
                if reason not in states:
                    raise NotYet(states)
                return True

            await wait_for(failed, f"the new replica to fail with {reason}")
            await cluster.asked()
            await real.kubectl("--namespace", OWN, "rollout", "undo", "deployment/gangctl")
            await real.rolled_out()
        assert {pod["metadata"]["name"] for pod in await real.ready(2)} == before


async def test_the_chart_is_installed_upgraded_and_removed(real: RealCluster) -> None:
    helm = Helm(real.home, real.plane.kubeconfig)
    before = await real.objects()
    place = ("gangctl", str(CHART), "--namespace", OWN)
    image = "--set=image.repository=gangctl"
    await asyncio.to_thread(helm.run, "install", *place, image, "--create-namespace", "--wait", "--timeout=280s")
    try:
        old = {pod["metadata"]["name"] for pod in await real.ready(2)}
        async with real.namespace() as cluster:
            await cluster.asked()
            await cluster.create_jobset(example())
            change = ("--reuse-values", "--set=logLevel=debug")
            await asyncio.to_thread(helm.run, "upgrade", *place, *change, "--wait", "--timeout=280s")
            assert (await finished(cluster))["terminalState"] == "Completed"
            assert not old & {pod["metadata"]["name"] for pod in await real.ready(2)}
        assert "5 ok" in await asyncio.to_thread(helm.run, "test", "gangctl", "--namespace", OWN, "--logs")
    finally:
        await asyncio.to_thread(helm.run, "uninstall", "gangctl", "--namespace", OWN, "--wait", "--timeout=280s")
        # Helm keeps the definitions, the Secret and the namespace.
        await remove(real)
    await real.leaves_nothing(before)


async def test_the_command_installs_the_same(real: RealCluster) -> None:
    before = await real.objects()
    await real.kubectl("apply", "-f", "-", given=fine("install").out)
    try:
        await real.rolled_out()
        async with real.namespace() as cluster:
            await cluster.asked()
            await cluster.create_jobset(example())
            assert (await finished(cluster))["terminalState"] == "Completed"
    finally:
        await remove(real)
    await real.leaves_nothing(before)
