"""The ReplicatedJob of the workers: a Job for each slice, a pod for each of its VMs."""

from __future__ import annotations

from typing import Any, Final

from gangctl.gang.plan import INT32_MAX
from gangctl.pathways.job import PathwaysJob
from gangctl.pathways.options import Startup
from gangctl.pathways.origins import From, Origin, OriginKind, option, rule
from gangctl.pathways.rendering.containers import has_sidecar, sidecar, worker
from gangctl.pathways.rendering.gang import Choice
from gangctl.pathways.rendering.metadata import worker_job_metadata, worker_pod_metadata
from gangctl.pathways.rendering.nodes import worker_node_selector, worker_tolerations
from gangctl.pathways.rendering.placement import worker_affinity
from gangctl.pathways.rendering.pod import (
    host_network,
    priority_classes,
    shared_tmp,
    worker_grace_period,
)
from gangctl.pathways.result import Setting
from gangctl.pathways.words import HEAD, WORKER

Tree = dict[str, Any]

RESTARTS_PER_VM: Final = 4
"""Restarts of a slice that is not elastic."""


def workers(job: PathwaysJob, setting: Setting, choice: Choice, startup: Startup) -> Tree:
    """The entry of ``spec.replicatedJobs``."""
    vms = From(job.slice.vms, Origin(OriginKind.TABLE, job.slice.accelerator.machine_type, "VMs of one slice"))
    metadata = worker_job_metadata(job, choice)
    spec = {
        "backoffLimit": _backoff_limit(job),
        "completionMode": rule("Indexed", "each VM of a slice has its number"),
        "completions": vms,
        "parallelism": vms,
        "template": {"metadata": worker_pod_metadata(job, setting), "spec": _pod(job, setting, choice)},
    }
    return {
        "name": rule(WORKER, "the name that Pathways is known by"),
        "replicas": From(job.slices, job.origin("spec.workers[0].numSlices")),
        **_depends_on(startup),
        "template": {**({"metadata": metadata} if metadata else {}), "spec": spec},
    }


def _pod(job: PathwaysJob, setting: Setting, choice: Choice) -> Tree:
    containers = [worker(job, setting)]
    init = [sidecar(job, setting)] if has_sidecar(job) else []
    fields: Tree = {
        "nodeSelector": worker_node_selector(job),
        "tolerations": worker_tolerations(),
        "affinity": worker_affinity(job, setting, choice),
        "initContainers": init,
        "containers": containers,
        "volumes": shared_tmp([*init, *containers]),
    }
    return {
        **host_network(),
        "restartPolicy": rule("OnFailure", "a worker that ended is started again in its pod"),
        **worker_grace_period(job),
        **priority_classes(job)[1],
        **{key: value for key, value in fields.items() if value},
    }


def _backoff_limit(job: PathwaysJob) -> From:
    """Failures of pods after which a slice is given up."""
    if job.elastic_slices and job.max_slice_restarts:
        origin = job.origin("spec.workers[0].maxSliceRestarts")
        limit = min(job.slice.vms * job.max_slice_restarts, INT32_MAX)
        return From(limit, Origin(origin.kind, origin.place, "restarts of a slice, for each of its VMs"))
    return rule(job.slice.vms * RESTARTS_PER_VM, f"{RESTARTS_PER_VM} for each VM of a slice")


def _depends_on(startup: Startup) -> Tree:
    if startup is not Startup.DEPENDS_ON:
        return {}
    return {"dependsOn": [option({"name": HEAD, "status": "Ready"}, "startup", "workers after the head")]}
