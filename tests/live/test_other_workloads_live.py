"""Workloads that ask gangctl for nothing run beside it as without it: Pods, StatefulSets and Jobs."""

from __future__ import annotations

import json
from typing import Final

import pytest

from tests.controlplane.api import Object
from tests.controlplane.audit_log import describe
from tests.controlplane.kubelet import Kubelet
from tests.controlplane.nodes import add_nodes
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for
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
REFUSED: Final = {400, 403, 422, 500}
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


def of(cluster: Cluster, since: int) -> list[Object]:
    """Audited requests in the namespace."""
    return [e for e in cluster.plane.audit(since) if e.get("objectRef", {}).get("namespace") == cluster.namespace]


async def test_workloads_without_a_gang_of_gangctl_run_unchanged() -> None:
    """Also a Job that the Job controller makes a gang of (KEP-5547): gangctl and Kubernetes each know their own."""
    async with ControlPlane.start("1.37", gates={"WorkloadWithJob": True}) as plane:
        await create_namespaces(plane, ["others"])
        cluster = Cluster(plane, "others")
        without = await create(cluster, dry_run=True)
        async with Gangctl(plane) as gangctl, Kubelet(plane.api) as kubelet:
            await add_nodes(plane.api, 1)
            since = plane.audit_position
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

            assert [describe(each) for each in of(cluster, since) if each["responseStatus"]["code"] in REFUSED] == []
            # The audit log names the webhooks that were called: for this JobSet gangctl's are.
            await cluster.asked()
            called = {each["objectRef"]["resource"] for each in of(cluster, since) if "gangctl" in str(each)}
            assert called == {"jobsets"}
            assert cluster.writes(USER, since) == []
            assert await cluster.events() == []
