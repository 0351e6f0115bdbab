"""The pure part of the JobSet controller, release 0.12: child Jobs, progress, end and restart of a JobSet."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gangctl.api import meta
from gangctl.sandbox.objects import Object, copy
from gangctl.sandbox.simulated import controller

_DOMAIN: Final = "jobset.sigs.k8s.io"
_NAMESPACED_JOB: Final = "alpha.jobset.sigs.k8s.io/namespaced-job"
_NO_SCHEDULE: Final = "alpha.jobset.sigs.k8s.io/no-schedule"


def replicas_of(replicated_job: Mapping[str, Any]) -> int:
    """How many Jobs a ReplicatedJob has."""
    replicas = replicated_job.get("replicas")
    return 1 if replicas is None else int(replicas)


def subdomain_of(jobset: Object) -> str:
    """The headless Service under which the pods find each other."""
    return str((jobset["spec"].get("network") or {}).get("subdomain") or jobset["metadata"]["name"])


def has_hostnames(jobset: Object) -> bool:
    """Whether the pods get DNS names."""
    return bool((jobset["spec"].get("network") or {}).get("enableDNSHostnames"))


def owned(jobset: Object, api_version: str) -> list[Object]:
    """The ownerReferences of what a JobSet controls."""
    metadata = jobset["metadata"]
    return [
        {
            "apiVersion": api_version,
            "kind": "JobSet",
            "name": metadata["name"],
            "uid": metadata["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]


def without_unknown_fields(job: Object) -> Object:
    """The Job as JobSet 0.12 writes it: built against Kubernetes 1.36, it drops ``workloadRef`` of 1.35."""
    job["spec"]["template"]["spec"].pop("workloadRef", None)
    return job


class ChildJobs:
    """Builds the Jobs of one JobSet; numbers them within it and within their groups."""

    def __init__(self, jobset: Object, api_version: str, *, restart_alone: bool = False) -> None:
        """``api_version`` is that of JobSets, ``restart_alone`` the feature gate RestartJob."""
        self._jobset = jobset
        self._restart_alone = restart_alone
        self._api_version = api_version
        self._name: str = jobset["metadata"]["name"]
        self._restarts = int((jobset.get("status") or {}).get("restarts") or 0)
        self._first: dict[str, int] = {}
        self._first_in_group: dict[str, int] = {}
        self._groups: dict[str, int] = {}
        self._total = 0
        for rj in jobset["spec"].get("replicatedJobs", ()):
            group = _group(rj)
            self._first[rj["name"]] = self._total
            self._first_in_group[rj["name"]] = self._groups.get(group, 0)
            self._total += replicas_of(rj)
            self._groups[group] = self._groups.get(group, 0) + replicas_of(rj)

    def of(self, replicated_job: Object) -> Iterator[Object]:
        """All Jobs of one ReplicatedJob, in order."""
        for index in range(replicas_of(replicated_job)):
            yield self._job(replicated_job, index)

    def _job(self, replicated_job: Object, index: int) -> Object:
        template = copy(replicated_job["template"])
        spec = template["spec"]
        name = f"{self._name}-{replicated_job['name']}-{index}"
        metadata = {
            "name": name,
            "namespace": self._jobset["metadata"]["namespace"],
            "ownerReferences": owned(self._jobset, self._api_version),
        }
        identity = self._identity(replicated_job, index, name)
        exclusive: dict[str, str] = {}
        for holder in (self._jobset, replicated_job["template"]):
            annotations = (holder.get("metadata") or {}).get("annotations") or {}
            if meta.EXCLUSIVE_TOPOLOGY in annotations:
                keys = (meta.EXCLUSIVE_TOPOLOGY, meta.NODE_SELECTOR_STRATEGY)
                exclusive.update({key: annotations[key] for key in keys if key in annotations})
        _mark(metadata, template.get("metadata") or {}, identity, exclusive)
        pod = spec["template"]
        pod_metadata: Object = {}
        _mark(pod_metadata, pod.get("metadata") or {}, identity, exclusive)
        pod["metadata"] = {**(pod.get("metadata") or {}), **pod_metadata}
        if has_hostnames(self._jobset):
            pod["spec"]["subdomain"] = subdomain_of(self._jobset)
        if {meta.EXCLUSIVE_TOPOLOGY, meta.NODE_SELECTOR_STRATEGY} <= exclusive.keys():
            pinned = {_NAMESPACED_JOB: f"{metadata['namespace']}_{name}"}
            pod["spec"]["nodeSelector"] = {**(pod["spec"].get("nodeSelector") or {}), **pinned}
            toleration = {"key": _NO_SCHEDULE, "operator": "Exists", "effect": "NoSchedule"}
            pod["spec"]["tolerations"] = [*(pod["spec"].get("tolerations") or []), toleration]
        spec["suspend"] = bool(self._jobset["spec"].get("suspend"))
        return without_unknown_fields(
            {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {**spec, "template": pod}}
        )

    def _identity(self, replicated_job: Object, index: int, name: str) -> dict[str, str]:
        own = replicated_job["name"]
        group = _group(replicated_job)
        key = f"{self._jobset['metadata']['namespace']}/{name}"
        alone = {meta.JOB_RESTART_ATTEMPT: str(restarts_alone(self._jobset, own)[index])} if self._restart_alone else {}
        return {
            meta.JOBSET_NAME: self._name,
            meta.JOBSET_UID: self._jobset["metadata"]["uid"],
            meta.REPLICATED_JOB_NAME: own,
            meta.RESTART_ATTEMPT: str(self._restarts),
            **alone,
            f"{_DOMAIN}/replicatedjob-replicas": str(replicas_of(replicated_job)),
            f"{_DOMAIN}/global-replicas": str(self._total),
            meta.JOB_INDEX: str(index),
            f"{_DOMAIN}/job-key": hashlib.sha1(key.encode(), usedforsecurity=False).hexdigest(),
            f"{_DOMAIN}/job-global-index": str(self._first[own] + index),
            f"{_DOMAIN}/group-name": group,
            f"{_DOMAIN}/group-replicas": str(self._groups[group]),
            f"{_DOMAIN}/job-group-index": str(self._first_in_group[own] + index),
            **self._coordinator(),
        }

    def _coordinator(self) -> dict[str, str]:
        coordinator = self._jobset["spec"].get("coordinator")
        if not coordinator:
            return {}
        job = f"{self._name}-{coordinator['replicatedJob']}-{coordinator.get('jobIndex', 0)}"
        host = f"{job}-{coordinator.get('podIndex', 0)}"
        return {f"{_DOMAIN}/coordinator": f"{host}.{subdomain_of(self._jobset)}"}


def _group(replicated_job: Mapping[str, Any]) -> str:
    return str(replicated_job.get("groupName") or "default")


def _mark(target: Object, template: Mapping[str, Any], identity: dict[str, str], exclusive: dict[str, str]) -> None:
    """The template's labels and annotations with JobSet's own over them, which are the same in both."""
    target["labels"] = {**(template.get("labels") or {}), **identity}
    target["annotations"] = {**(template.get("annotations") or {}), **identity, **exclusive}


def is_suspended(obj: Object) -> bool:
    """Whether a JobSet or Job is suspended."""
    return bool(obj["spec"].get("suspend"))


def replicated_job_of(job: Object) -> str:
    """The ReplicatedJob that a Job belongs to."""
    return str(job["metadata"]["labels"].get(meta.REPLICATED_JOB_NAME, ""))


ALONE: Final = "jobRestarts"
"""Field of an entry of ``status.replicatedJobsStatus``: the restarts of each Job alone."""
ALONE_COUNTED: Final = "jobRestartsCountTowardsMax"
"""The same of those that count towards the most allowed."""


def restarts_alone(jobset: Object, replicated_job: str, counter: str = ALONE) -> list[int]:
    """How often each Job of a ReplicatedJob was restarted alone."""
    for entry in (jobset.get("status") or {}).get("replicatedJobsStatus") or []:
        if entry["name"] == replicated_job and entry.get(counter):
            return list(entry[counter])
    (named,) = (rj for rj in jobset["spec"].get("replicatedJobs", ()) if rj["name"] == replicated_job)
    return [0] * replicas_of(named)


@dataclass
class OwnedJobs:
    """The Jobs that a JobSet controls: those of an earlier run, and those of this one by how they are."""

    previous: list[Object] = field(default_factory=list)
    active: list[Object] = field(default_factory=list)
    succeeded: list[Object] = field(default_factory=list)
    failed: list[Object] = field(default_factory=list)

    @classmethod
    def sort(cls, jobset: Object, jobs: Iterable[Object]) -> OwnedJobs:
        """Sort all Jobs."""
        restarts = int(jobset["status"].get("restarts") or 0)
        found = cls()
        for job in jobs:
            labels = job["metadata"]["labels"]
            alone = restarts_alone(jobset, replicated_job_of(job))[int(labels[meta.JOB_INDEX])]
            if int(labels[meta.RESTART_ATTEMPT]) < restarts or int(labels.get(meta.JOB_RESTART_ATTEMPT, alone)) < alone:
                found.previous.append(job)
            elif controller.is_true(job, "Complete"):
                found.succeeded.append(job)
            elif controller.is_true(job, "Failed"):
                found.failed.append(job)
            else:
                found.active.append(job)
        return found

    @property
    def names(self) -> set[str]:
        """Names in use."""
        return {job["metadata"]["name"] for job in (*self.previous, *self.active, *self.succeeded, *self.failed)}


def replicated_jobs_status(jobset: Object, jobs: OwnedJobs) -> list[dict[str, Any]]:
    """``status.replicatedJobsStatus``, in the order JobSet keeps it in."""
    found = {
        rj["name"]: {"name": rj["name"], "ready": 0, "succeeded": 0, "failed": 0, "active": 0, "suspended": 0}
        for rj in jobset["spec"].get("replicatedJobs", ())
    }
    for job in jobs.active:
        entry = found[replicated_job_of(job)]
        status = job.get("status") or {}
        entry["ready"] += _is_ready(job)
        entry["active"] += bool(status.get("active"))
        entry["suspended"] += is_suspended(job)
    for job in jobs.succeeded:
        found[replicated_job_of(job)]["succeeded"] += 1
    for job in jobs.failed:
        found[replicated_job_of(job)]["failed"] += 1
    for old in jobset["status"].get("replicatedJobsStatus") or []:
        found[old["name"]] |= {counter: old[counter] for counter in (ALONE, ALONE_COUNTED) if counter in old}
    return [found[name] for name in sorted(found, reverse=True)]


def _is_ready(job: Object) -> bool:
    spec, status = job["spec"], job.get("status") or {}
    expected = int(spec["parallelism"])
    if spec.get("completions") is not None:
        expected = min(expected, int(spec["completions"]))
    return int(status.get("succeeded") or 0) + int(status.get("ready") or 0) >= expected


def is_started(entry: dict[str, Any], replicas: int) -> bool:
    """Whether all Jobs of a ReplicatedJob have been ready."""
    return int(entry["failed"] + entry["ready"] + entry["succeeded"]) == replicas


class Sequence:
    """Which ReplicatedJobs may start now, by ``dependsOn`` and ``startupPolicy``."""

    def __init__(self, jobset: Object, statuses: list[dict[str, Any]]) -> None:
        """``statuses`` is ``status.replicatedJobsStatus`` as it is now."""
        policy = jobset["spec"].get("startupPolicy") or {}
        self.in_order = policy.get("startupPolicyOrder") == "InOrder"
        self._replicas = {rj["name"]: replicas_of(rj) for rj in jobset["spec"].get("replicatedJobs", ())}
        self._statuses = {entry["name"]: entry for entry in statuses}

    def may_start(self, replicated_job: Object) -> bool:
        """Whether its dependencies are met."""
        for dependency in replicated_job.get("dependsOn") or []:
            name = dependency["name"]
            if dependency["status"] == "Complete" and self._statuses[name]["succeeded"] != self._replicas[name]:
                return False
            if dependency["status"] == "Ready" and not is_started(self._statuses[name], self._replicas[name]):
                return False
        return True

    def has_started(self, replicated_job: Object) -> bool:
        """Whether the next one in order may start."""
        name = replicated_job["name"]
        return is_started(self._statuses[name], self._replicas[name])

    @property
    def all_ready(self) -> bool:
        """Whether every Job is ready or has succeeded."""
        ready = sum(entry["ready"] + entry["succeeded"] for entry in self._statuses.values())
        return bool(ready == sum(self._replicas.values()))


_COMPLETED: Final = "jobset completed successfully"
_EXCLUSIVE: Final = {
    "StartupPolicyInProgress": "StartupPolicyCompleted",
    "StartupPolicyCompleted": "StartupPolicyInProgress",
}


def set_condition(jobset: Object, kind: str, value: bool, reason: str, message: str) -> None:
    """Set a condition as JobSet does: False only over an existing one, and never two that exclude each other."""
    if not value and controller.find(jobset, kind) is None:
        return
    controller.put(
        jobset["status"], {"type": kind, "status": "True" if value else "False", "reason": reason, "message": message}
    )
    other = controller.find(jobset, _EXCLUSIVE.get(kind, ""))
    if value and other is not None:
        other["status"] = "False"


def is_finished(jobset: Object) -> bool:
    """Whether the JobSet has completed or failed."""
    return controller.is_true(jobset, "Completed") or controller.is_true(jobset, "Failed")


def end(jobset: Object, kind: str, reason: str, message: str) -> None:
    set_condition(jobset, kind, value=True, reason=reason, message=message)
    jobset["status"]["terminalState"] = kind
    text = _COMPLETED if kind == "Completed" else "jobset failed"
    set_condition(jobset, "RestartingJobSet", value=False, reason=f"JobSet{kind}", message=text)


def apply_success_policy(jobset: Object, jobs: OwnedJobs) -> bool:
    """Complete the JobSet if enough of the relevant Jobs have succeeded; returns whether it did."""
    policy = jobset["spec"].get("successPolicy") or {}
    targets = policy.get("targetReplicatedJobs") or [rj["name"] for rj in jobset["spec"].get("replicatedJobs", ())]
    expected = sum(replicas_of(rj) for rj in jobset["spec"].get("replicatedJobs", ()) if rj["name"] in targets)
    if policy.get("operator") == "Any":
        expected = 1
    if sum(replicated_job_of(job) in targets for job in jobs.succeeded) < expected:
        return False
    end(jobset, "Completed", "AllJobsCompleted", _COMPLETED)
    return True
