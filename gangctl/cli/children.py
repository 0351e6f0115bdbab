"""The child Jobs that JobSet creates, reduced to metadata and the reference in the pod template.

Labels and annotations are those of JobSet 0.12 with the feature gate RestartJob off.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gangctl.api.meta import GANG_REF, JOBSET_API_VERSION
from gangctl.api.objects import object_at
from gangctl.api.scheduling_versions import ADAPTERS
from gangctl.apiserver.childjobs import ChildJobs
from gangctl.cli.inputs import DEFAULT_NAMESPACE
from gangctl.gang.plan import PlannedJob
from gangctl.gang.report import Planned, planned_jobs


def _metadata(raw: Mapping[str, Any], planned: Planned, uid: str) -> dict[str, dict[str, Any]]:
    """Metadata of the Jobs by their names."""
    jobset = planned.jobset
    coordinator = object_at(raw["spec"], "coordinator")
    stamps = planned.plan.stamps if planned.plan else (None,) * len(jobset.replicated_jobs)
    replicated_jobs = []
    for rj, entry, stamp in zip(jobset.replicated_jobs, raw["spec"]["replicatedJobs"], stamps, strict=True):
        template = object_at(object_at(entry, "template"), "metadata")
        # A manifest that was read from a cluster has the stamp of the plan there.
        annotations = {key: value for key, value in object_at(template, "annotations").items() if key != GANG_REF}
        annotations |= {GANG_REF: stamp.encode()} if stamp is not None else {}
        metadata = {"labels": object_at(template, "labels"), "annotations": annotations}
        # Without the user's pods, of which the output has nothing: there may be many Jobs.
        job = {"metadata": metadata, "spec": {"template": {"spec": {}}}}
        group = entry.get("groupName")
        replicated_jobs.append({"name": rj.name, "replicas": rj.replicas, "groupName": group, "template": job})
    spec: dict[str, Any] = {
        "network": {"subdomain": object_at(raw["spec"], "network").get("subdomain")},
        "replicatedJobs": replicated_jobs,
    }
    if coordinator:
        indexes = {key: coordinator.get(key) or 0 for key in ("jobIndex", "podIndex")}
        spec["coordinator"] = {"replicatedJob": coordinator.get("replicatedJob"), **indexes}
    identity = {"name": jobset.name, "namespace": jobset.namespace or DEFAULT_NAMESPACE, "uid": uid}
    notes = object_at(object_at(raw, "metadata"), "annotations")
    status = {"restarts": jobset.restarts}
    children = ChildJobs(
        {"metadata": {**identity, "annotations": notes}, "spec": spec, "status": status}, JOBSET_API_VERSION
    )
    jobs = (job["metadata"] for replicated_job in replicated_jobs for job in children.of(replicated_job))
    return {job["name"]: job for job in jobs}


def child_jobs(raw: Mapping[str, Any], planned: Planned, uid: str) -> list[dict[str, Any]]:
    """Every child Job in JobSet's order, as the API server would store it, reduced to metadata and reference."""
    made = _metadata(raw, planned, uid)
    templates = {
        rj.name: raw["spec"]["replicatedJobs"][rj.index].get("template") for rj in planned.jobset.replicated_jobs
    }
    jobs = []
    for job in planned_jobs(planned):
        metadata = made[job.name]
        # As in an answer of the API server they come last.
        metadata["ownerReferences"] = metadata.pop("ownerReferences")
        if not planned.jobset.namespace:
            del metadata["namespace"]
        pod_template = object_at(object_at(templates[job.replicated_job], "spec"), "template")
        spec = {"template": {"spec": _reference(job, planned, object_at(pod_template, "spec"))}}
        jobs.append({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec})
    return jobs


def _reference(job: PlannedJob, planned: Planned, pod_spec: Mapping[str, Any]) -> dict[str, Any]:
    """The gang's reference, or the user's own in the field that this generation keeps."""
    adapter = ADAPTERS[planned.generation]
    value = adapter.reference(job.reference) if job.reference else pod_spec.get(adapter.reference_field)
    return {adapter.reference_field: value} if value else {}
