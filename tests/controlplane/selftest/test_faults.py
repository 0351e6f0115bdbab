"""Faults and variations that tests inject: components that die, hang or lack a feature, and the larger plane."""

import asyncio

import pytest

from tests.controlplane.api import UNREACHABLE, ApiFailure, Object, path_of
from tests.controlplane.nodes import add_nodes
from tests.controlplane.plane import ControlPlane
from tests.controlplane.selftest.jobsets import jobset, path
from tests.controlplane.wait import wait_for

pytestmark = pytest.mark.controlplane


@pytest.mark.full("test_api_server_down_live kills and starts components")
async def test_serves_again_after_etcd_and_the_api_server_were_killed() -> None:
    async with ControlPlane.start() as plane:
        config_maps = path_of("v1", "configmaps", namespace="default")
        body: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept"}}
        await plane.api.create(config_maps, body)
        await asyncio.gather(plane.kill("etcd"), plane.kill("kube-apiserver"))
        with pytest.raises(UNREACHABLE):
            await plane.api.get("/version")
        await plane.start_component("etcd")
        await plane.start_component("kube-apiserver")
        assert (await plane.api.get(f"{config_maps}/kept"))["metadata"]["name"] == "kept"
        await plane.api.create(path("default"), jobset("after", pods=1))

        async def has_job() -> bool:
            return bool(await plane.api.list(path_of("batch/v1", "jobs", namespace="default")))

        await wait_for(has_job, "JobSet to create the Job")


@pytest.mark.full("test_unavailable_live has such a plane")
async def test_a_plane_without_the_gang_api() -> None:
    async with ControlPlane.start(
        components=(), scheduler=False, controller_manager=False, runtime_config={"scheduling.k8s.io/v1beta1": False}
    ) as plane:
        with pytest.raises(ApiFailure) as caught:
            await plane.api.get("/apis/scheduling.k8s.io/v1beta1")
        assert caught.value.status == 404


@pytest.mark.full("KWOK is for the full tier; test_kueue_lifecycle_live has Kueue admit")
async def test_kueue_admits_and_kwok_finishes() -> None:
    async with ControlPlane.start(components=("jobset", "kueue", "kwok")) as plane:
        await add_nodes(plane.api, 1)
        await _create_queue(plane)
        body = jobset("queued", pods=2)
        body["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "q"}
        await plane.api.create(path("default"), body)

        async def completed() -> bool:
            seen = await plane.api.get(path("default", "queued"))
            return bool(seen.get("status", {}).get("terminalState") == "Completed")

        await wait_for(completed, "the queued JobSet to complete")
        workloads = await plane.api.list(path_of("kueue.x-k8s.io/v1beta2", "workloads", namespace="default"))
        assert [workload["status"]["admission"]["clusterQueue"] for workload in workloads] == ["cq"]


async def _create_queue(plane: ControlPlane) -> None:
    kueue = "kueue.x-k8s.io/v1beta2"
    quota = {"name": "f", "resources": [{"name": "cpu", "nominalQuota": "2"}]}
    cluster_queue = {
        "namespaceSelector": {},
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [quota]}],
    }
    for kind, resource, namespace, name, spec in (
        ("ResourceFlavor", "resourceflavors", None, "f", {}),
        ("ClusterQueue", "clusterqueues", None, "cq", cluster_queue),
        ("LocalQueue", "localqueues", "default", "q", {"clusterQueue": "cq"}),
    ):
        body: Object = {"apiVersion": kueue, "kind": kind, "metadata": {"name": name}, "spec": spec}
        await plane.api.create(path_of(kueue, resource, namespace=namespace), body)
