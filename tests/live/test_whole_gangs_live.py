"""Gangs that could wait permanently, or start without some of their pods: what failed for good, what is going away,
what names another group."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from gangctl.api.meta import EXCLUSIVE_TOPOLOGY
from gangctl.gang.convert import replace_exclusive_topology
from tests.cases import object_name
from tests.controlplane.api import UNREACHABLE, ApiFailure, Object, path_of
from tests.controlplane.kubelet import Kubelet
from tests.controlplane.nodes import add_nodes, remove_nodes
from tests.controlplane.wait import NotYet, read_until, wait_for
from tests.jobsets import jobset, rj
from tests.live.cluster import Cluster, on, refused
from tests.live.observe import gang_of, jobs_with_references, no_gang, running_pods, said

pytestmark = pytest.mark.controlplane

INDEX = "batch.kubernetes.io/job-completion-index"
POLICIES = "admissionregistration.k8s.io/v1"


def workers(cluster: Cluster, name: str, pods: int, **job: object) -> Object:
    return rj(name, 1, pods, pods, pod=cluster.room, job=job)


async def pod_of(cluster: Cluster, index: int, *, not_: str = "") -> Object:
    """The running pod of a completion index, another one than that with the UID ``not_``."""

    async def found() -> Object:
        for pod in await cluster.pods():
            metadata, running = pod["metadata"], pod["status"].get("phase") == "Running"
            if running and metadata["labels"].get(INDEX) == str(index) and metadata["uid"] != not_:
                return pod
        raise NotYet(f"no pod of index {index} runs")

    return await wait_for(found, what=f"a pod of index {index} to run")


async def min_count(cluster: Cluster, group: str, count: int) -> None:
    await read_until(cluster.gangs, lambda gangs: gangs.group_min_count(group) == count, f"minCount {count}")


async def event(cluster: Cluster, reason: str, holds: Callable[[str], bool]) -> None:
    await read_until(
        lambda: cluster.events("js"),
        lambda events: any(holds(event["note"]) for event in events if event["reason"] == reason),
        f"event {reason}",
    )


@on("1.37")
async def test_a_replacement_starts_beside_a_permanently_failed_index(cluster: Cluster, kubelet: Kubelet) -> None:
    raw = jobset("js", workers(cluster, "w", 4, backoffLimit=100, backoffLimitPerIndex=1), mode="Gang")
    created = await cluster.create_jobset(raw)
    group = object_name("js", created["metadata"]["uid"], "jobset")
    await event(cluster, "GangMayShrink", lambda note: "backoffLimitPerIndex" in note)
    await running_pods(cluster, 4)
    first = await pod_of(cluster, 0)
    await kubelet.fail(first)
    again = await pod_of(cluster, 0, not_=first["metadata"]["uid"])
    await kubelet.fail(again)
    await min_count(cluster, group, 3)
    other = await pod_of(cluster, 1)
    await kubelet.fail(other)
    await pod_of(cluster, 1, not_=other["metadata"]["uid"])
    await running_pods(cluster, 3)


@on("1.37")
async def test_the_min_count_of_a_deleted_group_still_follows_its_gang(cluster: Cluster, kubelet: Kubelet) -> None:
    """``kubectl delete podgroup``: it stays as long as pods name it, and the scheduler goes by its minCount."""
    created = await cluster.create_jobset(jobset("js", workers(cluster, "w", 3, backoffLimit=6), mode="Gang"))
    group = object_name("js", created["metadata"]["uid"], "jobset")
    await running_pods(cluster, 3)
    await cluster.api.delete(cluster.scheduling("podgroups", group))
    await kubelet.finish(await pod_of(cluster, 0))
    await min_count(cluster, group, 2)
    assert (await cluster.gangs()).groups[group]["metadata"]["deletionTimestamp"]
    other = await pod_of(cluster, 1)
    await kubelet.fail(other)
    await pod_of(cluster, 1, not_=other["metadata"]["uid"])


@pytest.fixture
async def renamed(cluster: Cluster) -> AsyncIterator[None]:
    """A policy of another tool has the pods of Job js-b-0 name another group, before gangctl's webhook is called."""
    name = cluster.namespace
    template = (
        "Object.spec.template.spec{schedulingGroup: Object.spec.template.spec.schedulingGroup{podGroupName: 'theirs'}}"
    )
    expression = f"Object{{spec: Object.spec{{template: Object.spec.template{{spec: {template}}}}}}}"
    policy: Object = {
        "apiVersion": POLICIES,
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}},
                "resourceRules": [
                    {"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["jobs"]}
                ],
            },
            "matchConditions": [{"name": "one", "expression": "object.metadata.name == 'js-b-0'"}],
            "reinvocationPolicy": "Never",
            "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}],
        },
    }
    binding: Object = {
        "apiVersion": POLICIES,
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name},
    }
    policies = path_of(POLICIES, "mutatingadmissionpolicies")
    bindings = path_of(POLICIES, "mutatingadmissionpolicybindings")
    await cluster.api.create(policies, policy)
    await cluster.api.create(bindings, binding)
    containers = [{"name": "main", "image": "none"}]
    job: Object = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "js-b-0"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": containers}}},
    }

    async def in_force() -> bool:
        answer = await cluster.api.create(cluster.path("batch/v1", "jobs"), job, dryRun="All")
        if "theirs" not in str(answer["spec"]):
            raise NotYet("the Job is not changed")
        return True

    await wait_for(in_force, what="the policy to be in force", tolerate=(ApiFailure, *UNREACHABLE))
    yield
    await cluster.api.delete(f"{bindings}/{name}")
    await cluster.api.delete(f"{policies}/{name}")


@on("1.37")
@pytest.mark.usefixtures("kubelet", "renamed")
async def test_a_gang_does_not_wait_for_a_job_that_names_another_group(cluster: Cluster) -> None:
    first, second = (workers(cluster, name, 2) for name in ("a", "b"))
    created = await cluster.create_jobset(jobset("js", first, second, mode="Gang"))
    group = object_name("js", created["metadata"]["uid"], "jobset")
    await event(cluster, "FieldDropped", lambda note: "Pods of Jobs js-b-0 name theirs" in note)
    await min_count(cluster, group, 2)
    assert {
        pod["metadata"]["labels"]["jobset.sigs.k8s.io/replicatedjob-name"] for pod in await running_pods(cluster, 2)
    } == {"a"}


@on("1.37", "1.36")
@pytest.mark.usefixtures("kubelet")
async def test_a_foreign_group_kept_by_pods_of_the_gang_is_resolved_by_suspending(cluster: Cluster) -> None:
    created = await cluster.create_jobset(jobset("js", workers(cluster, "w", 2), mode="Gang", suspend=True))
    await jobs_with_references(cluster, 1)
    group = object_name("js", created["metadata"]["uid"], "jobset")
    stranger: Object = {
        "apiVersion": f"scheduling.k8s.io/{cluster.version}",
        "kind": "PodGroup",
        "metadata": {"name": group},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 1}}},
    }
    await cluster.api.create(cluster.scheduling("podgroups"), stranger)
    await cluster.patch_jobset("js", {"spec": {"suspend": False}})
    await said(cluster, "NameConflict")
    await running_pods(cluster, 2)
    await cluster.api.delete(cluster.scheduling("podgroups", group))
    await event(cluster, "NameConflict", lambda note: "Suspend the JobSet, and resume it" in note)
    await cluster.patch_jobset("js", {"spec": {"suspend": True}})
    await no_gang(cluster)
    await cluster.patch_jobset("js", {"spec": {"suspend": False}})
    await running_pods(cluster, 2)
    owner = (await gang_of(cluster, "js")).groups[group]["metadata"]["ownerReferences"][0]
    assert owner["uid"] == created["metadata"]["uid"]


@on("1.37", "1.36", "1.35")
async def test_exclusive_placement_as_pod_affinity_gives_each_job_of_a_gang_a_rack(cluster: Cluster) -> None:
    """What ``gangctl convert --replace-exclusive-topology`` writes; as it was, the gang would be refused."""
    key = f"{cluster.namespace}/rack"
    nodes = [
        node
        for rack in ("a", "b")
        for node in await add_nodes(cluster.api, 2, cpu="8", labels={"room": cluster.namespace, key: rack})
    ]
    racks = dict(zip(nodes, "aabb", strict=True))
    pod = cluster.room
    raw = jobset("js", rj("w", 2, 3, 3, pod=pod), mode="Gang", annotations={EXCLUSIVE_TOPOLOGY: key})
    assert "deadlocks with the gang" in (await refused(cluster.create_jobset(raw))).message
    async with Kubelet(cluster.api):
        await cluster.create_jobset(replace_exclusive_topology(raw).value)
        pods = await running_pods(cluster, 6)
    found = {(each["metadata"]["name"][:6], racks[each["spec"]["nodeName"]]) for each in pods}
    assert sorted(job for job, _ in found) == ["js-w-0", "js-w-1"]
    assert {rack for _, rack in found} == {"a", "b"}
    await remove_nodes(cluster.api, nodes)
