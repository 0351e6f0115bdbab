"""The child Jobs that JobSet creates, as far as gangs are concerned: metadata, and the reference in the pod template.

Labels and annotations are those of JobSet 0.12 (``labelAndAnnotateObject``), with the
feature gate RestartJob off, on a JobSet that has never been restarted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

from gangctl.api.meta import (
    EXCLUSIVE_TOPOLOGY,
    GANG_REF,
    JOB_INDEX,
    JOBSET_API_VERSION,
    JOBSET_NAME,
    JOBSET_UID,
    NODE_SELECTOR_STRATEGY,
    REPLICATED_JOB_NAME,
    RESTART_ATTEMPT,
)
from gangctl.gang.build import ADAPTERS
from gangctl.gang.plan import PlannedJob
from gangctl.gang.report import Planned, planned_jobs

DEFAULT_NAMESPACE: Final = "default"
_DOMAIN: Final = "jobset.sigs.k8s.io"
_DEFAULT_GROUP: Final = "default"


def _mapping(value: object, *keys: str) -> Mapping[str, Any]:
    """The object below ``value`` at ``keys``; empty where there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _coordinator(raw: Mapping[str, Any], name: str) -> dict[str, str]:
    coordinator = _mapping(raw, "spec", "coordinator")
    if not coordinator:
        return {}
    job = f"{name}-{coordinator.get('replicatedJob')}-{coordinator.get('jobIndex') or 0}"
    host = f"{job}-{coordinator.get('podIndex') or 0}"
    subdomain = _mapping(raw, "spec", "network").get("subdomain") or name
    return {f"{_DOMAIN}/coordinator": f"{host}.{subdomain}"}


def _exclusive(annotations: Mapping[str, Any]) -> dict[str, Any]:
    """Exclusive placement, which JobSet copies together with its strategy."""
    if EXCLUSIVE_TOPOLOGY not in annotations:
        return {}
    return {key: annotations[key] for key in (EXCLUSIVE_TOPOLOGY, NODE_SELECTOR_STRATEGY) if key in annotations}


class _Children:
    """The Jobs of one JobSet; numbers the ReplicatedJobs' Jobs among all of the JobSet and among their group."""

    def __init__(self, raw: Mapping[str, Any], planned: Planned, uid: str) -> None:
        """Count through the ReplicatedJobs in list order."""
        self._raw = raw
        self._jobset = planned.jobset
        self._uid = uid
        self._adapter = ADAPTERS[planned.generation]
        self._entries: list[Mapping[str, Any]] = raw["spec"]["replicatedJobs"]
        self._stamps = planned.plan.stamps if planned.plan else (None,) * len(self._entries)
        self._at = {rj.name: rj.index for rj in planned.jobset.replicated_jobs}
        self._groups = [str(entry.get("groupName") or _DEFAULT_GROUP) for entry in self._entries]
        self._group_totals = dict.fromkeys(self._groups, 0)
        self._total = 0
        self._before: list[tuple[int, int]] = []
        for group, rj in zip(self._groups, planned.jobset.replicated_jobs, strict=True):
            self._before.append((self._total, self._group_totals[group]))
            self._total += rj.replicas
            self._group_totals[group] += rj.replicas

    def job(self, job: PlannedJob) -> dict[str, Any]:
        """One Job as the API server would store it, cut down to metadata and reference."""
        at = self._at[job.replicated_job]
        template = _mapping(self._entries[at], "template", "metadata")
        identity = self._identity(job, at)
        metadata: dict[str, Any] = {
            "name": job.name,
            **({"namespace": self._jobset.namespace} if self._jobset.namespace else {}),
            "labels": {**_mapping(template, "labels"), **identity},
            "annotations": {**self._annotations(_mapping(template, "annotations"), at), **identity},
            "ownerReferences": [self._owner()],
        }
        pod_spec = self._reference(job, _mapping(self._entries[at], "template", "spec", "template", "spec"))
        spec = {"template": {"spec": pod_spec}}
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}

    def _reference(self, job: PlannedJob, pod_spec: Mapping[str, Any]) -> dict[str, Any]:
        """The gang's reference, or the user's own in the field that this generation keeps."""
        field = self._adapter.reference_field
        value = self._adapter.reference(job.reference) if job.reference else pod_spec.get(field)
        return {field: value} if value else {}

    def _annotations(self, template: Mapping[str, Any], at: int) -> dict[str, Any]:
        notes = {key: value for key, value in template.items() if key != GANG_REF}
        if (stamp := self._stamps[at]) is not None:
            notes[GANG_REF] = stamp.encode()
        return {**notes, **_exclusive(_mapping(self._raw, "metadata", "annotations")), **_exclusive(template)}

    def _owner(self) -> dict[str, Any]:
        return {
            "apiVersion": JOBSET_API_VERSION,
            "kind": "JobSet",
            "name": self._jobset.name,
            "uid": self._uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }

    def _identity(self, job: PlannedJob, at: int) -> dict[str, str]:
        """What JobSet writes on every Job, as labels and as annotations."""
        group = self._groups[at]
        before, before_in_group = self._before[at]
        key = f"{self._jobset.namespace or DEFAULT_NAMESPACE}/{job.name}"
        return {
            JOBSET_NAME: self._jobset.name,
            JOBSET_UID: self._uid,
            REPLICATED_JOB_NAME: job.replicated_job,
            RESTART_ATTEMPT: str(self._jobset.restarts),
            f"{_DOMAIN}/replicatedjob-replicas": str(self._jobset.replicated_jobs[at].replicas),
            f"{_DOMAIN}/global-replicas": str(self._total),
            JOB_INDEX: str(job.index),
            f"{_DOMAIN}/job-key": hashlib.sha1(key.encode(), usedforsecurity=False).hexdigest(),
            f"{_DOMAIN}/job-global-index": str(before + job.index),
            f"{_DOMAIN}/group-name": group,
            f"{_DOMAIN}/group-replicas": str(self._group_totals[group]),
            f"{_DOMAIN}/job-group-index": str(before_in_group + job.index),
            **_coordinator(self._raw, self._jobset.name),
        }


def child_jobs(raw: Mapping[str, Any], planned: Planned, uid: str) -> list[dict[str, Any]]:
    """Every child Job in JobSet's order."""
    children = _Children(raw, planned, uid)
    return [children.job(job) for job in planned_jobs(planned)]
