"""Random small clusters: gangs, their groups, Jobs, pods and events, nodes, and Workloads of Kueue in any state."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Final

from gangctl.api.meta import JOB_INDEX, JOBSET_NAME, JOBSET_UID, REPLICATED_JOB_NAME, RESTART_ATTEMPT
from gangctl.api.scheduling import NEWEST
from gangctl.api.scheduling_versions import ADAPTERS
from gangctl.client.resources import Resource
from gangctl.cluster import kinds
from tests.cli.kueueobjects import KUEUE, QUEUE, cluster_queue, condition, flavor, kueue, local_queue, workload
from tests.gang.pipeline import assessed, stored
from tests.jobsets import jobset, rj

Object = dict[str, Any]
NOW: Final = datetime(2026, 1, 1, 12, tzinfo=UTC)
_PRIORITY: Final = "kueue.x-k8s.io/priority-class"
_MAY_BE_UNREAD: Final = (
    kinds.COHORTS,
    kinds.RESOURCE_FLAVORS,
    kinds.ADMISSION_CHECKS,
    kinds.PRIORITY_CLASSES,
    kinds.QUEUED_WORKLOADS,
)
_EVICTIONS: Final = ("Preempted", "PodsReadyTimeout", "AdmissionCheck", "Deactivated", "ClusterQueueStopped")


@dataclass(frozen=True)
class World:
    """Objects at a moment; ``podset_limit`` is what this Kueue takes, ``unread`` kinds may not be read."""

    objects: list[Object]
    now: datetime
    podset_limit: int | None
    unread: tuple[Resource, ...]


def world(random: Random) -> World:
    """One of them."""
    objects = [_configuration(random)] if random.random() < 0.8 else []
    for namespace in ("t", "u"):
        labels = {"kubernetes.io/metadata.name": namespace, **({"team": "a"} if random.random() < 0.5 else {})}
        metadata = {"name": namespace, "uid": namespace, "labels": labels}
        objects.append({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    objects += _queues(random)
    if random.random() < 0.5:
        objects.append(kueue("WorkloadPriorityClass", "high", value=9))
    # Files without any class do not say that there is none.
    objects.append(kueue("WorkloadPriorityClass", "low", value=1))
    for number in range(random.randint(1, 4)):
        objects += _gang(random, f"gang-{number}", random.choice("ttu"))
    if random.random() < 0.7:
        objects.append(_node(random))
    if not any(obj["kind"] == "Pod" for obj in objects):
        # Files without any pod do not say that there is none, unless no Job has one.
        for obj in objects:
            if obj["kind"] == "Job":
                obj["status"]["active"] = 0
    random.shuffle(objects)
    unread = tuple(resource for resource in _MAY_BE_UNREAD if random.random() < 0.1)
    seen = [obj for obj in objects if not any(_is_of(obj, resource) for resource in unread)]
    return World(seen, NOW, random.choice((None, 8, 18)), unread)


def _is_of(obj: Object, resource: Resource) -> bool:
    return (obj["apiVersion"].rpartition("/")[0], obj["kind"]) == (resource.group, resource.kind)


def _time(random: Random) -> str:
    return (NOW - timedelta(seconds=random.choice((5, 50, 400, 4000)))).strftime("%Y-%m-%dT%H:%M:%SZ")


def _configuration(random: Random) -> Object:
    ready = random.choice(
        ({}, {"waitForPodsReady": {"timeout": "5m"}}, {"featureGates": {"DisableWaitForPodsReady": True}})
    )
    frameworks = random.choice((["jobset.x-k8s.io/jobset"], ["batch/job", "jobset.x-k8s.io/jobset"], ["batch/job"]))
    managed = random.choice(({}, {"managedJobsNamespaceSelector": {"matchLabels": {"team": "a"}}}))
    version = "config.kueue.x-k8s.io/v1beta2"
    return {
        "apiVersion": version,
        "kind": "Configuration",
        "integrations": {"frameworks": frameworks},
        **ready,
        **managed,
    }


def _queues(random: Random) -> list[Object]:
    found = []
    for name in ("cq", "other"):
        stop = {"stopPolicy": random.choice(("Hold", "HoldAndDrain"))} if random.random() < 0.15 else {}
        strategy = {"queueingStrategy": random.choice(("StrictFIFO", "BestEffortFIFO"))}
        made = cluster_queue(name, {"f": {"cpu": random.choice(("2", "8"))}}, **stop, **strategy)
        active = random.random() < 0.9
        made["status"] = {"conditions": [condition("Active", active, "Ready" if active else "FlavorNotFound", "why")]}
        if random.random() < 0.9:
            found.append(made)
    for namespace in ("t", "u"):
        if random.random() < 0.9:
            found.append(local_queue("q", random.choice(("cq", "cq", "other", "nowhere")), namespace))
    return [flavor(), *found]


def _gang(random: Random, name: str, namespace: str) -> list[Object]:
    pods = random.randint(1, 3)
    many = random.random() < 0.1
    jobs = [rj(f"w{n}", 1, pods, pods, cpu=random.choice(("1", "9"))) for n in range(9 if many else 1)]
    queue = random.choice(("q", "q", "q", "typo", ""))
    suspend = random.random() < 0.6
    made = stored(jobset(name, *jobs, mode="Gang", namespace=namespace, uid=f"uid-{name}", suspend=suspend))
    labels = {QUEUE: queue} if queue else {}
    if random.random() < 0.4:
        labels[_PRIORITY] = random.choice(("high", "none"))
    made["metadata"] |= {"labels": labels, "creationTimestamp": _time(random)}
    if random.random() < 0.4:
        template = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
        key, value = random.choice((("podset", "w0"), ("podset", "x"), ("cluster-queue-name", "cq")))
        template["metadata"] = {"labels": {f"kueue.x-k8s.io/{key}": value}}
    if random.random() < 0.15:
        kind = random.choice(("Completed", "Failed"))
        made["status"] = {"conditions": [condition(kind, since=_time(random))], "terminalState": kind}
    kueues = [_workload(random, name, namespace, queue or "q", n) for n in range(random.choice((0, 1, 1, 1, 2)))]
    there = 0 if suspend else random.randint(0, pods)
    members = [_pod(random, name, namespace, index) for index in range(there)]
    children = [_job(random, made, index) for index in range(len(jobs)) if not suspend or random.random() < 0.5]
    refusals = [_refusal(random, made, children) for _ in range(random.choice((0, 0, 0, 1, 2)))]
    return [made, *_groups(random, made), *kueues, *children, *members, *refusals]


def _groups(random: Random, raw: Object) -> list[Object]:
    """The Workload of a gang and its groups; sometimes one of them is missing, or refused by the scheduler."""
    plan = assessed(raw).plan
    if plan is None:
        return []
    adapter = ADAPTERS[NEWEST]
    found = [adapter.workload(plan.workload), *(adapter.pod_group(group) for group in plan.groups)]
    for obj in found:
        obj["metadata"] |= {"uid": f"uid-{obj['metadata']['name']}", "creationTimestamp": _time(random)}
        if random.random() < 0.3:
            refused = condition("PodGroupInitiallyScheduled", False, "Unschedulable", "no room", _time(random))
            obj["status"] = {"conditions": [refused]}
    owned = random.random()
    if owned < 0.1:  # deleted with --cascade=orphan, and created again
        for obj in found:
            obj["metadata"].pop("ownerReferences", None)
    elif owned < 0.2:  # another controller's Workload for this JobSet
        found[0]["metadata"] |= {"name": f"theirs-{found[0]['metadata']['name']}", "labels": {}}
        found[0]["metadata"].pop("ownerReferences", None)
    # The Workload stays: without one the files do not say that the cluster serves groups.
    return [found[0], *(obj for obj in found[1:] if random.random() < 0.8)]


def _workload(random: Random, name: str, namespace: str, queue: str, number: int) -> Object:
    held = {"f": {"cpu": "1"}} if random.random() < 0.4 else None
    conditions = []
    if held is None and random.random() < 0.8:
        conditions.append(
            condition("QuotaReserved", False, random.choice(("Pending", "Inadmissible")), "no quota", _time(random))
        )
    if held is not None and random.random() < 0.6:
        conditions.append(
            condition("PodsReady", False, random.choice(("WaitForStart", "WaitForRecovery")), "", _time(random))
        )
    if random.random() < 0.3:
        conditions.append(condition("Evicted", True, random.choice(_EVICTIONS), "because", _time(random)))
    if random.random() < 0.15:
        conditions.append(
            condition("Finished", True, random.choice(("FailedToStart", "Succeeded")), "end", _time(random))
        )
    made = workload(
        name, queue, *conditions, namespace=namespace, created=_time(random), held=held, priority=random.randint(0, 2)
    )
    made["metadata"] |= {"name": f"jobset-{name}-{number}", "uid": f"workload-{name}-{number}"}
    if random.random() < 0.1:
        made["metadata"]["deletionTimestamp"] = _time(random)
    if random.random() < 0.1:
        made["spec"]["active"] = False
    if random.random() < 0.15:
        state = random.choice(("Pending", "Retry", "Rejected", "Ready"))
        made["status"]["admissionChecks"] = [
            {"name": "check", "state": state, "message": "", "lastTransitionTime": _time(random)}
        ]
    if random.random() < 0.05:
        made["status"]["clusterName"] = "worker"
    assert made["apiVersion"] == KUEUE
    return made


def _pod(random: Random, name: str, namespace: str, index: int) -> Object:
    labels = {
        JOBSET_NAME: name,
        JOBSET_UID: f"uid-{name}",
        REPLICATED_JOB_NAME: "w0",
        JOB_INDEX: "0",
        RESTART_ATTEMPT: "0",
    }
    metadata = {"name": f"{name}-w0-0-{index}", "namespace": namespace, "uid": f"pod-{name}-{index}", "labels": labels}
    placed, ready = random.random() < 0.6, random.random() < 0.5
    conditions = [condition("PodScheduled", placed, "" if placed else "Unschedulable", "no room", _time(random))]
    conditions.append(condition("Ready", placed and ready, since=_time(random)))
    status: Object = {"phase": "Running" if placed else "Pending", "conditions": conditions}
    if placed and not ready and random.random() < 0.3:
        ended = {"reason": "Error", "exitCode": random.randint(1, 2), "finishedAt": _time(random), "message": "why"}
        status |= {"phase": "Failed", "containerStatuses": [{"name": "main", "state": {"terminated": ended}}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**metadata, "creationTimestamp": _time(random)},
        "spec": {"nodeName": "n"} if placed else {},
        "status": status,
    }


def _job(random: Random, raw: Object, index: int) -> Object:
    """A child Job of the first replica, now and then of an earlier attempt or of a JobSet of the same name."""
    name, namespace = raw["metadata"]["name"], raw["metadata"]["namespace"]
    entry = raw["spec"]["replicatedJobs"][index]
    uid = raw["metadata"]["uid"] if random.random() < 0.9 else "uid-earlier"
    owner = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": name, "uid": uid, "controller": True}
    labels = {
        JOBSET_NAME: name,
        REPLICATED_JOB_NAME: entry["name"],
        JOB_INDEX: "0",
        RESTART_ATTEMPT: random.choice("0001"),
    }
    metadata = {
        "name": f"{name}-{entry['name']}-0",
        "namespace": namespace,
        "uid": f"job-{name}-{index}",
        "labels": labels,
        "ownerReferences": [owner],
    }
    if random.random() < 0.1:
        metadata["deletionTimestamp"] = _time(random)
    status: Object = {"active": random.randint(0, 2), "succeeded": random.choice((0, 0, 1)), "failed": 0}
    if random.random() < 0.15:
        status["conditions"] = [condition(random.choice(("Complete", "Failed", "SuccessCriteriaMet")))]
    if random.random() < 0.1:
        status["failedIndexes"] = "0"
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": entry["template"]["spec"],
        "status": status,
    }


def _refusal(random: Random, raw: Object, jobs: list[Object]) -> Object:
    """An event: the JobSet's Jobs, or the pods of one of them, were refused, or those of something else."""
    about = random.choice([raw, *jobs])
    reason = "JobCreationFailed" if about is raw else "FailedCreate"
    metadata = about["metadata"]
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {
            "name": f"{metadata['name']}-{random.randrange(10**6)}",
            "namespace": metadata["namespace"],
            "uid": f"event-{random.randrange(10**6)}",
            "creationTimestamp": _time(random),
        },
        "regarding": {
            "kind": about["kind"] if random.random() < 0.9 else "ReplicaSet",
            "namespace": metadata["namespace"],
            "name": metadata["name"],
            "uid": metadata["uid"] if random.random() < 0.9 else "uid-earlier",
        },
        "type": "Warning",
        "reason": reason,
        "note": random.choice(("exceeded quota: gpus", "admission webhook denied the request")),
    }


def _node(random: Random) -> Object:
    ready = random.random() < 0.7
    reason = "KubeletReady" if ready else "NodeStatusUnknown"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n", "uid": "node-n", "labels": {"kubernetes.io/hostname": "n"}},
        "spec": {"unschedulable": random.random() < 0.2},
        "status": {
            "allocatable": {"cpu": "8", "pods": "10"},
            "conditions": [condition("Ready", ready, reason, "", _time(random))],
        },
    }
