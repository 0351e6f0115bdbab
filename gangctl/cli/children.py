"""The child Jobs that JobSet creates, reduced to metadata and the reference in the pod template.

Labels and annotations are those of JobSet 0.12 with the feature gate RestartJob off.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gangctl.api.meta import EXCLUSIVE_TOPOLOGY, GANG_REF, JOBSET_API_VERSION, PLACEMENT
from gangctl.api.objects import object_at
from gangctl.api.scheduling_versions import ADAPTERS
from gangctl.apiserver.childjobs import ChildJobs
from gangctl.cli.inputs import DEFAULT_NAMESPACE
from gangctl.gang.plan import PlannedJob
from gangctl.gang.report import Planned, planned_jobs


def _exclusive(annotations: Mapping[str, Any]) -> dict[str, Any]:
    """Exclusive placement, which JobSet copies together with its strategy."""
    if EXCLUSIVE_TOPOLOGY not in annotations:
        return {}
    return {key: annotations[key] for key in PLACEMENT if key in annotations}


def _made_by_jobset(raw: Mapping[str, Any], planned: Planned, uid: str) -> dict[str, dict[str, Any]]:
    """Labels and owners of the Jobs by their names, of a JobSet whose templates have no metadata of their own."""
    jobset = planned.jobset
    coordinator = object_at(raw["spec"], "coordinator")
    spec: dict[str, Any] = {
        "network": {"subdomain": object_at(raw["spec"], "network").get("subdomain")},
        "replicatedJobs": [
            {
                "name": rj.name,
                "replicas": rj.replicas,
                "groupName": entry.get("groupName"),
                # Without the user's metadata, which child_jobs adds: only JobSet's own is read of these.
                "template": {"spec": {"template": {"spec": {}}}},
            }
            for rj, entry in zip(jobset.replicated_jobs, raw["spec"]["replicatedJobs"], strict=True)
        ],
    }
    if coordinator:
        indexes = {key: coordinator.get(key) or 0 for key in ("jobIndex", "podIndex")}
        spec["coordinator"] = {"replicatedJob": coordinator.get("replicatedJob"), **indexes}
    metadata = {"name": jobset.name, "namespace": jobset.namespace or DEFAULT_NAMESPACE, "uid": uid}
    children = ChildJobs(
        {"metadata": metadata, "spec": spec, "status": {"restarts": jobset.restarts}}, JOBSET_API_VERSION
    )
    jobs = (job["metadata"] for replicated_job in spec["replicatedJobs"] for job in children.of(replicated_job))
    return {job["name"]: job for job in jobs}


def child_jobs(raw: Mapping[str, Any], planned: Planned, uid: str) -> list[dict[str, Any]]:
    """Every child Job in JobSet's order, as the API server would store it, reduced to metadata and reference."""
    jobset = planned.jobset
    made = _made_by_jobset(raw, planned, uid)
    stamps = planned.plan.stamps if planned.plan else (None,) * len(jobset.replicated_jobs)
    at = {rj.name: rj.index for rj in jobset.replicated_jobs}
    namespace = {"namespace": jobset.namespace} if jobset.namespace else {}
    jobs = []
    for job in planned_jobs(planned):
        index = at[job.replicated_job]
        entry = raw["spec"]["replicatedJobs"][index]
        job_template = object_at(entry, "template")
        template = object_at(job_template, "metadata")
        identity = made[job.name]["labels"]
        # A manifest that was read from a cluster has the stamp of the plan there.
        annotations = {key: value for key, value in object_at(template, "annotations").items() if key != GANG_REF}
        if (stamp := stamps[index]) is not None:
            annotations[GANG_REF] = stamp.encode()
        # Those of the template come last, as in labelAndAnnotateObject of JobSet.
        for notes in (object_at(object_at(raw, "metadata"), "annotations"), object_at(template, "annotations")):
            annotations |= _exclusive(notes)
        metadata = {
            "name": job.name,
            **namespace,
            # JobSet writes its own over those of the user.
            "labels": {**object_at(template, "labels"), **identity},
            "annotations": {**annotations, **identity},
            "ownerReferences": made[job.name]["ownerReferences"],
        }
        pod_template = object_at(object_at(job_template, "spec"), "template")
        spec = {"template": {"spec": _reference(job, planned, object_at(pod_template, "spec"))}}
        jobs.append({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec})
    return jobs


def _reference(job: PlannedJob, planned: Planned, pod_spec: Mapping[str, Any]) -> dict[str, Any]:
    """The gang's reference, or the user's own in the field that this generation keeps."""
    adapter = ADAPTERS[planned.generation]
    value = adapter.reference(job.reference) if job.reference else pod_spec.get(adapter.reference_field)
    return {adapter.reference_field: value} if value else {}
