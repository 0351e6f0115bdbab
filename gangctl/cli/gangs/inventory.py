"""Objects of a gang as plain data: groups, their Jobs, their pods and nodes.

The schema is published (``docs/describe.schema.json``): every key is always present.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, TypedDict

from gangctl.gang.desired import JobProgress
from gangctl.readiness.facts import NodeFacts, PodFacts, Snapshot
from gangctl.readiness.membership import FINISHED, Group, JobKey, members
from gangctl.readiness.report import rfc3339


class PodDetail(TypedDict):
    """One pod."""

    name: str
    state: Annotated[str, "Ready, NotReady, Starting, Waiting, Gated, Terminating, or why it is none of these."]
    node: Annotated[str, "Empty without one."]
    since: Annotated[str, "When it came into that state: RFC 3339, empty where that is not known."]


class JobDetail(TypedDict):
    """One child Job."""

    name: str
    replicatedJob: str
    exists: Annotated[bool, "Whether it has been created."]
    wanted: Annotated[int, "Pods at once when none has finished."]
    ready: Annotated[int, "Pods that are ready."]
    succeeded: Annotated[int, "Pods that have finished with success."]
    failedIndexes: Annotated[int, "Indexes that failed for good (backoffLimitPerIndex): their pods are not replaced."]
    pods: list[PodDetail]


class GroupDetail(TypedDict):
    """One gang at run time, or what is scheduled pod by pod, which has no name."""

    name: Annotated[str, "As in status.groups; empty for what is in no gang."]
    template: Annotated[str, "The template of the Workload that it is made from, empty for what is in no gang."]
    jobs: list[JobDetail]


class NodeDetail(TypedDict):
    """A node that pods of the gang are on."""

    name: str
    pods: Annotated[int, "Pods of this gang that are there."]
    ready: Annotated[int, "Pods of this gang that are ready there."]
    state: Annotated[str, "Ready, Cordoned, or why the node is not ready; empty where nodes may not be read."]


class Inventory(TypedDict):
    """What a gang consists of."""

    groups: list[GroupDetail]
    nodes: Annotated[list[NodeDetail], "Those that are not as they should be first."]


def inventory_of(snapshot: Snapshot, only: str = "") -> Inventory:
    """Everything of a JobSet, or of its group ``only``; nothing of one whose Jobs are on another cluster."""
    if snapshot.jobset.managed_elsewhere:
        return {"groups": [], "nodes": []}
    groups = [group for group in members(snapshot) if only in {"", group.name}]
    details = [_group(group) for group in groups]
    pods = [pod for group in groups for pod in _all(group)]
    if not only and (alone := _alone(snapshot, groups)):
        details.append(alone)
        pods += [pod for pod in snapshot.pods if _is_alone(pod, groups)]
    return {"groups": details, "nodes": _nodes(pods, snapshot.nodes)}


def pod_state(pod: PodFacts) -> str:
    """The state of one pod, in a word."""
    if pod.deleting:
        return "Terminating"
    if pod.gates:
        return "Gated"
    if not pod.node:
        return pod.refused or "Waiting"
    if pod.ready:
        return "Ready"
    return pod.waiting or ("NotReady" if pod.phase == "Running" else "Starting")


def _since(pod: PodFacts) -> int:
    if pod.ready or (pod.phase == "Running" and pod.ready_at):
        return pod.ready_at
    return (pod.placed_at if pod.node else pod.refused_at) or pod.created


def _all(group: Group) -> list[PodFacts]:
    return [*group.pods, *group.leaving, *group.earlier]


def _group(group: Group) -> GroupDetail:
    exist = {job.key: job for job in group.jobs}
    pods = _by_job(_all(group))
    jobs = []
    for planned in group.planned:
        key = planned.replicated_job, planned.index
        jobs.append(_job(planned.name, key, exist.get(key), planned.pods, pods.get(key, [])))
    return {"name": group.name if group.scope is not None else "", "template": group.template, "jobs": jobs}


def _job(name: str, key: JobKey, job: JobProgress | None, wanted: int, pods: Sequence[PodFacts]) -> JobDetail:
    return {
        "name": name,
        "replicatedJob": key[0],
        "exists": job is not None,
        "wanted": wanted,
        "ready": sum(pod.ready and not pod.deleting for pod in pods),
        "succeeded": job.succeeded if job is not None else 0,
        "failedIndexes": job.failed_indexes if job is not None else 0,
        "pods": [_pod(pod) for pod in pods],
    }


def _pod(pod: PodFacts) -> PodDetail:
    return {"name": pod.name, "state": pod_state(pod), "node": pod.node, "since": rfc3339(_since(pod))}


def _by_job(pods: Iterable[PodFacts]) -> Mapping[JobKey, list[PodFacts]]:
    found: dict[JobKey, list[PodFacts]] = {}
    for pod in sorted(pods, key=lambda each: each.name):
        found.setdefault((pod.replicated_job, pod.job_index), []).append(pod)
    return found


def _is_alone(pod: PodFacts, groups: Sequence[Group]) -> bool:
    covered = {name for group in groups for name in group.replicated_jobs}
    return pod.replicated_job not in covered and pod.phase not in FINISHED


def _alone(snapshot: Snapshot, groups: Sequence[Group]) -> GroupDetail | None:
    """Existing Jobs of ReplicatedJobs without a gang."""
    covered = {name for group in groups for name in group.replicated_jobs}
    pods = _by_job(pod for pod in snapshot.pods if _is_alone(pod, groups))
    jobs = [
        _job(job.name, job.key, job, len(pods.get(job.key, ())), pods.get(job.key, ()))
        for job in sorted(snapshot.jobs, key=lambda each: each.key)
        if job.replicated_job not in covered
    ]
    return {"name": "", "template": "", "jobs": jobs} if jobs else None


def _nodes(pods: Iterable[PodFacts], nodes: Mapping[str, NodeFacts] | None) -> list[NodeDetail]:
    """Nodes with problems come first."""
    placed = [pod for pod in pods if pod.node]
    count, ready = Counter(pod.node for pod in placed), Counter(pod.node for pod in placed if pod.ready)
    found: list[NodeDetail] = [
        {"name": name, "pods": count[name], "ready": ready[name], "state": _node_state(name, nodes)} for name in count
    ]
    return sorted(found, key=lambda node: (node["state"] in {"", "Ready"}, node["name"]))


def _node_state(name: str, nodes: Mapping[str, NodeFacts] | None) -> str:
    if nodes is None:
        return ""
    node = nodes.get(name)
    if node is None:
        return "Gone"
    if not node.ready:
        return node.reason or "NotReady"
    return "Cordoned" if node.unschedulable else "Ready"
