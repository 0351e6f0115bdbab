"""Workloads that ask gangctl for nothing run beside it as without it: Pods, StatefulSets and Jobs."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import pytest

from tests.controlplane.api import Object
from tests.controlplane.components.lws import API_VERSION
from tests.controlplane.kubelet import Kubelet
from tests.controlplane.nodes import add_nodes
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, read_until, wait_for
from tests.live.cluster import Cluster
from tests.live.gangctl import USER, Gangctl, create_namespaces
from tests.live.observe import no_gang, running_pods

pytestmark = pytest.mark.controlplane

LEADER: Final = {"leaderworkerset.sigs.k8s.io/name": "serve", "leaderworkerset.sigs.k8s.io/worker-index": "0"}
WORKER: Final = {"leaderworkerset.sigs.k8s.io/name": "serve", "leaderworkerset.sigs.k8s.io/group-index": "0"}
POD: Final[Object] = {
    "terminationGracePeriodSeconds": 0,
    "automountServiceAccountToken": False,
    "containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": "10m"}}}],
}
TEMPLATE: Final[Object] = {"spec": {**POD, "restartPolicy": "Never"}}
OBJECTS: Final[dict[str, Object]] = {
    "pods": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "serve-0", "labels": LEADER}, "spec": POD},
    "statefulsets": {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "serve-0", "labels": WORKER},
        "spec": {
            "serviceName": "serve",
            "replicas": 2,
            "podManagementPolicy": "Parallel",
            "ordinals": {"start": 1},
            "selector": {"matchLabels": WORKER},
            "template": {"metadata": {"labels": WORKER}, "spec": POD},
        },
    },
    "jobs/plain": {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "plain"},
        "spec": {"parallelism": 2, "completions": 2, "completionMode": "Indexed", "template": TEMPLATE},
    },
    "jobs/own": {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "own"},
        "spec": {
            "parallelism": 2,
            "completions": 2,
            "completionMode": "Indexed",
            "scheduling": {"schedulingPolicy": {"gang": {}}},
            "template": TEMPLATE,
        },
    },
}


async def create(cluster: Cluster, *, dry_run: bool = False) -> dict[str, str]:
    """Create all of them; what the API server stores, without what differs between any two objects."""
    stored = {}
    for key, body in OBJECTS.items():
        path = cluster.path(body["apiVersion"], key.partition("/")[0])
        made = await cluster.api.create(path, body, **({"dryRun": "All"} if dry_run else {}))
        uid = made["metadata"]["uid"]
        for name in ("resourceVersion", "creationTimestamp", "managedFields"):
            made["metadata"].pop(name, None)
        stored[key] = json.dumps(made).replace(uid, "UID")
    return stored


async def complete(cluster: Cluster, name: str) -> None:
    """Wait until a Job is complete."""

    async def so() -> bool:
        conditions = (await cluster.jobs())[name]["status"].get("conditions", [])
        if not any((each["type"], each["status"]) == ("Complete", "True") for each in conditions):
            raise NotYet(str(conditions))
        return True

    await wait_for(so, what=f"Job {name} to be complete")


@asynccontextmanager
async def untouched(cluster: Cluster) -> AsyncIterator[None]:
    """Check that nothing in the namespace is sent to gangctl or refused by it, and that it writes nothing there."""
    since = cluster.plane.audit_position
    yield
    # The audit log names webhooks that were called, and webhooks and policies that refused: here for a JobSet.
    await cluster.asked()
    entries = cluster.plane.audit(since)
    named = [each["objectRef"] for each in entries if "gangctl" in str(each) and "objectRef" in each]
    assert {each["resource"] for each in named if each.get("namespace") == cluster.namespace} == {"jobsets"}
    assert cluster.writes(USER, since) == []
    assert await cluster.events() == []


async def test_workloads_without_a_gang_of_gangctl_run_unchanged() -> None:
    """Also a Job that the Job controller makes a gang of (KEP-5547): gangctl and Kubernetes each know their own."""
    async with ControlPlane.start("1.37", gates={"WorkloadWithJob": True}) as plane:
        await create_namespaces(plane, ["others"])
        await add_nodes(plane.api, 1)
        cluster = Cluster(plane, "others")
        without = await create(cluster, dry_run=True)
        async with Gangctl(plane) as gangctl, Kubelet(plane.api) as kubelet, untouched(cluster):
            assert await create(cluster) == without
            pods = await running_pods(cluster, 7)
            gangs = await cluster.gangs()
            owners = {each["spec"]["controllerRef"]["name"] for each in gangs.workloads.values()}
            assert owners == {"plain", "own"}
            groups = {str(pod["metadata"]["name"])[:4]: pod["spec"].get("schedulingGroup") for pod in pods}
            assert groups["serv"] is None
            assert gangs.group_min_count(groups["own-"]["podGroupName"]) == 2

            for name in ("plain", "own"):
                await cluster.api.patch(cluster.path("batch/v1", "jobs", name), {"metadata": {"labels": {"team": "a"}}})
            await cluster.api.patch(cluster.path("apps/v1", "statefulsets", "serve-0"), {"spec": {"replicas": 3}})
            for pod in await running_pods(cluster, 8):
                if "job-name" in pod["metadata"]["labels"]:
                    await kubelet.finish(pod)
            for name in ("plain", "own"):
                await complete(cluster, name)
            stored = [*(await cluster.jobs()).values(), *await cluster.pods()]
            stored += await cluster.api.list(cluster.path("apps/v1", "statefulsets"))
            assert [each["metadata"]["name"] for each in stored if "gangctl" in str(each)] == []
            for name in ("plain", "own"):
                await cluster.api.delete(cluster.path("batch/v1", "jobs", name), propagation="Background")
            await no_gang(cluster)
            await gangctl.settle(0)


@pytest.mark.full("a test of the first tier has the Pods and StatefulSets that it makes")
@pytest.mark.components("lws")
async def test_a_leaderworkerset_runs_unchanged() -> None:
    async with ControlPlane.start("1.37", ("jobset", "lws")) as plane:
        await create_namespaces(plane, ["serve"])
        await add_nodes(plane.api, 1)
        cluster = Cluster(plane, "serve")
        path = cluster.path(API_VERSION, "leaderworkersets")
        template = {"size": 3, "restartPolicy": "RecreateGroupOnPodRestart", "workerTemplate": {"spec": POD}}
        body: Object = {
            "apiVersion": API_VERSION,
            "kind": "LeaderWorkerSet",
            "metadata": {"name": "serve"},
            "spec": {"replicas": 2, "leaderWorkerTemplate": template},
        }
        async with Gangctl(plane) as gangctl, Kubelet(plane.api), untouched(cluster):
            await cluster.api.create(path, body)
            before = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in await running_pods(cluster, 6)}
            assert not any(pod["spec"].get("schedulingGroup") for pod in await cluster.pods())
            await cluster.api.delete(cluster.path("v1", "pods", "serve-0"))

            async def made_anew() -> bool:
                pods = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in await running_pods(cluster, 6)}
                kept = sorted(name for name in pods if pods[name] == before[name])
                if kept != ["serve-1", "serve-1-1", "serve-1-2"]:
                    raise NotYet(f"{kept} are the first ones")
                return True

            await wait_for(made_anew, what="the pods of the first group to be made anew")
            await cluster.api.patch(f"{path}/serve", {"spec": {"replicas": 3}})
            await running_pods(cluster, 9)
            await cluster.api.delete(f"{path}/serve", propagation="Background")

            await read_until(cluster.pods, lambda pods: not pods, "its pods to be gone")
            await gangctl.settle(0)
