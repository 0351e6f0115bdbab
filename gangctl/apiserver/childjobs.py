"""The child Jobs that JobSet 0.12 creates of a JobSet."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any, Final

from gangctl.api import meta
from gangctl.api.volumes import claimed_volumes
from gangctl.apiserver.metadata import Object

_DOMAIN: Final = "jobset.sigs.k8s.io"
ALONE: Final = "jobRestarts"
"""Field of an entry of ``status.replicatedJobsStatus``: the restarts of each Job alone."""
ALONE_COUNTED: Final = "jobRestartsCountTowardsMax"
"""The same of those that count towards the most allowed."""


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
            yield self.job(replicated_job, index)

    def job(self, replicated_job: Object, index: int) -> Object:
        """One Job of a ReplicatedJob."""
        # As ``constructJob`` in pkg/controllers/jobset_controller.go of JobSet.
        template = deepcopy(replicated_job["template"])
        # A CRD may let them out, and Go writes what is not there.
        spec = template.setdefault("spec", {})
        name = f"{self._name}-{replicated_job['name']}-{index}"
        metadata = {
            "name": name,
            "namespace": self._jobset["metadata"]["namespace"],
            "ownerReferences": owned(self._jobset, self._api_version),
        }
        identity = self._identity(replicated_job, index, name)
        exclusive: dict[str, str] = {}
        written = [
            (holder.get("metadata") or {}).get("annotations") or {}
            for holder in (self._jobset, replicated_job["template"])
        ]
        for notes in written:
            if meta.EXCLUSIVE_TOPOLOGY in notes:
                # JobSet copies a strategy only where a topology stands beside it.
                exclusive.update({key: notes[key] for key in meta.PLACEMENT if key in notes})
        _mark(metadata, template.get("metadata") or {}, identity, exclusive)
        pod = spec.setdefault("template", {})
        pod.setdefault("spec", {})
        pod_metadata: Object = {}
        _mark(pod_metadata, pod.get("metadata") or {}, identity, exclusive)
        pod["metadata"] = {**(pod.get("metadata") or {}), **pod_metadata}
        if has_hostnames(self._jobset):
            pod["spec"]["subdomain"] = subdomain_of(self._jobset)
        if meta.selects_nodes(*written):
            pinned = {meta.NAMESPACED_JOB: f"{metadata['namespace']}_{name}"}
            pod["spec"]["nodeSelector"] = {**(pod["spec"].get("nodeSelector") or {}), **pinned}
            pod["spec"]["tolerations"] = [*(pod["spec"].get("tolerations") or []), dict(meta.TOLERATION)]
        if claimed := [volume for volume, _ in claimed_volumes(self._jobset, pod["spec"])]:
            pod["spec"]["volumes"] = [*(pod["spec"].get("volumes") or []), *claimed]
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
            **({f"{_DOMAIN}/coordinator": endpoint} if (endpoint := coordinator_of(self._jobset)) else {}),
        }


def coordinator_of(jobset: Object) -> str:
    """The host of the coordinator's pod, empty without a coordinator."""
    coordinator = jobset["spec"].get("coordinator")
    if not coordinator:
        return ""
    job = f"{jobset['metadata']['name']}-{coordinator['replicatedJob']}-{coordinator.get('jobIndex', 0)}"
    return f"{job}-{coordinator.get('podIndex', 0)}.{subdomain_of(jobset)}"


def _group(replicated_job: Mapping[str, Any]) -> str:
    return str(replicated_job.get("groupName") or "default")


def _mark(target: Object, template: Mapping[str, Any], identity: dict[str, str], exclusive: dict[str, str]) -> None:
    """The template's labels and annotations with JobSet's own over them, which are the same in both."""
    # As ``labelAndAnnotateObject`` beside it: the annotations of exclusive placement become no labels.
    target["labels"] = {**(template.get("labels") or {}), **identity}
    target["annotations"] = {**(template.get("annotations") or {}), **identity, **exclusive}


def restarts_alone(jobset: Object, replicated_job: str, counter: str = ALONE) -> list[int]:
    """How often each Job of a ReplicatedJob was restarted alone."""
    for entry in (jobset.get("status") or {}).get("replicatedJobsStatus") or []:
        if entry["name"] == replicated_job and entry.get(counter):
            return list(entry[counter])
    (named,) = (rj for rj in jobset["spec"].get("replicatedJobs", ()) if rj["name"] == replicated_job)
    return [0] * replicas_of(named)
