"""Builders of JobSets for every ground: ``jobset("js", rj("w", 2, 4, 4, mode="Gang"))``."""

from __future__ import annotations

from typing import Any

MODE = "gangctl.dev/gang-mode"
OPTIONS = "gangctl.dev/gang-options"
REF = "gangctl.dev/gang-ref"
FIXTURE_UID = "0f5a6f3e-7c21-4d7e-9a55-3b1c8f2d0a01"


def rj(
    name: str,
    replicas: int | None = 1,
    parallelism: int | None = None,
    completions: int | None = None,
    *,
    mode: str | None = None,
    non_indexed: bool = False,
    depends_on: str | None = None,
    cpu: str = "10m",
    pod: dict[str, Any] | None = None,
    job: dict[str, Any] | None = None,
    annotations: dict[str, str] | None = None,
) -> dict[str, Any]:
    """One ReplicatedJob in the notation ``name:replicas x parallelism/completions`` of the conformance cases."""
    pod_spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}],
        **(pod or {}),
    }
    job_spec: dict[str, Any] = {"backoffLimit": 0, "template": {"spec": pod_spec}, **(job or {})}
    if parallelism is not None:
        job_spec["parallelism"] = parallelism
    if completions is not None:
        job_spec["completions"] = completions
    if non_indexed:
        job_spec["completionMode"] = "NonIndexed"
    notes = {**({MODE: mode} if mode is not None else {}), **(annotations or {})}
    template: dict[str, Any] = {"spec": job_spec}
    if notes:
        template = {"metadata": {"annotations": notes}, "spec": job_spec}
    entry: dict[str, Any] = {"name": name, "template": template}
    if replicas is not None:
        entry["replicas"] = replicas
    if depends_on is not None:
        entry["dependsOn"] = [{"name": depends_on, "status": "Ready"}]
    return entry


def jobset(
    name: str,
    *replicated_jobs: dict[str, Any],
    mode: str | None = None,
    options: str | None = None,
    namespace: str = "t",
    uid: str | None = None,
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A JobSet; keyword arguments go into its spec."""
    notes = {**(annotations or {})}
    if mode is not None:
        notes[MODE] = mode
    if options is not None:
        notes[OPTIONS] = options
    metadata: dict[str, Any] = {"name": name, "namespace": namespace}
    if uid is not None:
        metadata["uid"] = uid
    if notes:
        metadata["annotations"] = notes
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": metadata,
        "spec": {"replicatedJobs": list(replicated_jobs), **spec},
    }


def stamped_job(uid: str, annotations: dict[str, str]) -> dict[str, Any]:
    """The first Job ``js-w-0`` of a JobSet with this uid, as JobSet makes it."""
    labels = {"jobset-name": "js", "jobset-uid": uid, "replicatedjob-name": "w", "job-index": "0"}
    owner = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "js", "uid": uid, "controller": True}
    metadata = {
        "name": "js-w-0",
        "annotations": annotations,
        "labels": {f"jobset.sigs.k8s.io/{key}": value for key, value in labels.items()},
        "ownerReferences": [owner],
    }
    return {"kind": "Job", "metadata": metadata, "spec": {"template": {"spec": {"containers": []}}}}
