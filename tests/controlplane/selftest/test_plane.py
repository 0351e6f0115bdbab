"""What every other test on this ground relies on: each minor serves its API, and pods live and die."""

import pytest

from tests.controlplane.api import ApiFailure, Object, path_of
from tests.controlplane.kubelet import Kubelet, finish_when_jobset_bound
from tests.controlplane.nodes import add_nodes, remove_nodes
from tests.controlplane.plane import ControlPlane
from tests.controlplane.selftest.jobsets import jobset, path
from tests.controlplane.wait import NotYet, wait_for

pytestmark = pytest.mark.controlplane


def finished(seen: Object) -> bool:
    return bool(seen.get("status", {}).get("terminalState"))


async def test_serves_the_gang_api_of_its_minor(plane: ControlPlane) -> None:
    version = await plane.api.get("/version")
    assert version["gitVersion"].startswith(f"v{plane.minor.name}.")
    group = await plane.api.get(f"/apis/scheduling.k8s.io/{plane.minor.scheduling_version}")
    assert "workloads" in {resource["name"] for resource in group["resources"]}


async def test_runs_a_jobset_to_its_end(plane: ControlPlane, namespace: str) -> None:
    nodes = await add_nodes(plane.api, 2, cpu="2", labels={"test": namespace})
    async with Kubelet(plane.api, finish_when_jobset_bound({"a": 3})):
        await plane.api.create(path(namespace), jobset("a", pods=3, node_label=namespace))

        async def completed() -> bool:
            seen = await plane.api.get(path(namespace, "a"))
            if not finished(seen):
                raise NotYet(str(seen.get("status")))
            return bool(seen["status"]["terminalState"] == "Completed")

        await wait_for(completed, "the JobSet to complete")
    pods = await plane.api.list(path_of("v1", "pods", namespace=namespace))
    assert {pod["spec"]["nodeName"] for pod in pods} == set(nodes)
    await remove_nodes(plane.api, nodes)


async def test_deleting_a_jobset_takes_its_bound_pods_away(plane: ControlPlane, namespace: str) -> None:
    nodes = await add_nodes(plane.api, 1, labels={"test": namespace})
    pods = path_of("v1", "pods", namespace=namespace)

    async def running() -> bool:
        seen = await plane.api.list(pods)
        return len(seen) == 2 and all(pod["status"]["phase"] == "Running" for pod in seen)

    async def gone() -> bool:
        return not await plane.api.list(pods)

    async with Kubelet(plane.api):
        await plane.api.create(path(namespace), jobset("a", pods=2, node_label=namespace))
        await wait_for(running, "two running pods")
        await plane.api.delete(path(namespace, "a"), propagation="Foreground")
        await wait_for(gone, "the pods to be deleted")
    await remove_nodes(plane.api, nodes)


async def test_counts_the_writes_of_one_user(plane: ControlPlane, namespace: str) -> None:
    config_maps = path_of("v1", "configmaps", namespace=namespace)
    body: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    user = plane.client("writer", ["system:masters"])
    start = plane.audit_position
    await user.create(config_maps, body, dryRun="All")
    await user.create(config_maps, body)
    await user.list(config_maps)
    await user.delete(f"{config_maps}/c")

    async def counted() -> bool:
        return [entry["verb"] for entry in plane.writes_by("writer", start).objects] == ["create", "delete"]

    await wait_for(counted, "two writes in the audit log")


async def test_a_user_of_its_own_has_no_rights(plane: ControlPlane) -> None:
    with pytest.raises(ApiFailure) as caught:
        await plane.client("nobody").list(path_of("v1", "pods"))
    assert (caught.value.status, caught.value.reason) == (403, "Forbidden")
