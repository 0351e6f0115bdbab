"""Waiting for what a live test is about: gangs, running pods, events, minCounts."""

from __future__ import annotations

import secrets
from typing import Any, Final, Protocol

from tests.controlplane.api import ApiFailure, Object, path_of
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, read_until, wait_for
from tests.live.cluster import Cluster, Gangs, reference_of

_FENCES: Final = {
    "mutatingwebhookconfigurations": "MutatingWebhookConfiguration",
    "validatingwebhookconfigurations": "ValidatingWebhookConfiguration",
}


async def webhooks_noticed(plane: ControlPlane) -> None:
    """Wait until the API server goes by all webhook configurations as they are now.

    It learns of changes in their order: so it is asked for an object that a webhook made now, at which nobody listens,
    must refuse.
    """
    for plural, kind in _FENCES.items():
        name = f"fence-{secrets.token_hex(4)}"
        config_map: Object = {"metadata": {"name": name, "labels": {"fence": name}}}
        webhook: Object = {
            "name": "fence.example.org",
            "clientConfig": {"url": "https://127.0.0.1:1/"},
            "rules": [
                {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
            ],
            "objectSelector": {"matchLabels": {"fence": name}},
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        api_version = "admissionregistration.k8s.io/v1"
        body: Object = {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "webhooks": [webhook]}
        configurations = path_of(api_version, plural)
        await plane.api.create(configurations, body)

        async def called(config_map: Object = config_map) -> bool:
            try:
                await plane.api.create(path_of("v1", "configmaps", namespace="default"), config_map, dryRun="All")
            except ApiFailure as failure:
                return "fence.example.org" in failure.message
            raise NotYet("the webhook is not called")

        await wait_for(called, what="the API server to notice webhook configurations")
        await plane.api.delete(f"{configurations}/{name}")


async def pods_refused(cluster: Cluster, words: str, **spec: Any) -> None:
    """Wait until the API server refuses pods like this one with these words: it notices quotas and labels later."""
    container = {"name": "c", "image": "none", "resources": {"limits": {"cpu": "1"}}}
    body: Object = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "try"}}
    await _creation_refused(cluster, {**body, "spec": {"containers": [container], **spec}}, words)


async def jobs_refused(cluster: Cluster, words: str) -> None:
    """The same of Jobs."""
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "none"}]}}}
    body: Object = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "try"}, "spec": spec}
    await _creation_refused(cluster, body, words)


async def _creation_refused(cluster: Cluster, body: Object, words: str) -> None:
    path = cluster.path(body["apiVersion"], f"{body['kind'].lower()}s")

    async def so() -> bool:
        try:
            await cluster.api.create(path, body, dryRun="All")
        except ApiFailure as failure:
            if words in failure.message:
                return True
            raise NotYet(failure.message) from failure
        raise NotYet(f"a {body['kind']} is admitted")

    await wait_for(so, what=f"{path} to be refused with {words}")


async def gang_of(cluster: Cluster, name: str) -> Gangs:
    """The gang of a JobSet once its Workload, and its groups where there are such, exist."""

    async def exists() -> Gangs:
        gangs = await cluster.gangs()
        if not gangs.workloads or (cluster.has_groups and not gangs.groups) or not gangs.references:
            raise NotYet(f"only {gangs.names}, references {gangs.references}")
        if any(o["metadata"].get("deletionTimestamp") for o in (*gangs.workloads.values(), *gangs.groups.values())):
            raise NotYet("still terminating")
        return gangs

    return await wait_for(exists, what=f"the gang of {name}")


async def no_gang(cluster: Cluster) -> None:
    await read_until(cluster.gangs, lambda gangs: not gangs.names, "the gang's objects to be gone")


async def running_pods(cluster: Cluster, count: int) -> list[Object]:
    async def run() -> list[Object]:
        pods = [p for p in await cluster.pods() if p["status"].get("phase") == "Running"]
        pods = [p for p in pods if not p["metadata"].get("deletionTimestamp")]
        if len(pods) != count:
            raise NotYet(f"{len(pods)} pods run")
        return pods

    return await wait_for(run, what=f"{count} running pods")


async def said(cluster: Cluster, reason: str, jobset: str = "js") -> Object:
    """The first event with this reason."""

    async def event() -> Object:
        found = [e for e in await cluster.events(jobset) if e["reason"] == reason]
        if not found:
            raise NotYet(f"events {await cluster.reasons(jobset)}")
        return found[0]

    return await wait_for(event, what=f"event {reason}")


async def jobs_with_references(cluster: Cluster, count: int) -> dict[str, object]:
    async def complete() -> dict[str, object]:
        references = {name: reference_of(job) for name, job in (await cluster.jobs()).items()}
        if len(references) != count or not all(references.values()):
            raise NotYet(str(references))
        return references

    return await wait_for(complete, what=f"{count} Jobs with references")


class Served(Protocol):
    """Which generation of the scheduling API there is."""

    version: str
    has_groups: bool


def foreign_workload(cluster: Served, name: str, claimed: str) -> Object:
    policy = {"gang": {"minCount": 2}}
    spec: Object = {"controllerRef": {"apiGroup": "jobset.x-k8s.io", "kind": "JobSet", "name": claimed}}
    if cluster.has_groups:
        spec["podGroupTemplates"] = [{"name": "w", "schedulingPolicy": policy}]
    else:
        spec["podGroups"] = [{"name": "w", "policy": policy}]
    version = f"scheduling.k8s.io/{cluster.version}"
    return {"apiVersion": version, "kind": "Workload", "metadata": {"name": name}, "spec": spec}


async def resize(cluster: Cluster, live: Object, index: int, pods: int) -> Object:
    live["spec"]["replicatedJobs"][index]["template"]["spec"] |= {"parallelism": pods, "completions": pods}
    patch = {"spec": {"replicatedJobs": live["spec"]["replicatedJobs"]}}
    return await cluster.patch_jobset("js", patch)


async def min_counts(cluster: Cluster, workload: str, group: str, pods: int) -> None:
    await read_until(
        cluster.gangs,
        lambda gangs: (gangs.min_counts(workload)["w"], gangs.group_min_count(group)) == (pods, pods),
        f"minCount {pods}",
    )


async def live_min_counts(cluster: Cluster, expected: list[int]) -> None:
    """Wait until the PodGroups that are not being deleted have these minCounts."""

    async def so() -> bool:
        gangs = await cluster.gangs()
        kept = [name for name, raw in gangs.groups.items() if not raw["metadata"].get("deletionTimestamp")]
        if (counts := sorted(map(gangs.group_min_count, kept))) != expected:
            raise NotYet(f"minCounts {counts}")
        return True

    await wait_for(so, what=f"minCounts {expected}")
