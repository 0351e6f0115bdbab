"""Labels and annotations: which of a PathwaysJob's are copied, to which level, and which are gangctl's own.

Bookkeeping keys of other tools are not copied: an applied configuration belongs to another object, and a GitOps tool
prunes objects that have its labels. Keys of Kueue and JobSet are requests: each is copied to the one level to which it
applies.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gangctl.api.meta import EXCLUSIVE_TOPOLOGY, GANG_MODE, GANG_OPTIONS, GANG_REF, GANGS, MANAGER
from gangctl.gang.reasons import Notice, Reason
from gangctl.pathways.gangs import TOPOLOGY_REQUESTS, asks_for_topology, sliced
from gangctl.pathways.job import PathwaysJob
from gangctl.pathways.options import Slicing
from gangctl.pathways.rendering.gang import Choice
from gangctl.pathways.rendering.placement import exclusive_head, exclusive_workers
from gangctl.pathways.result import From, Profile, Setting, rule
from gangctl.pathways.words import API_VERSION, GKE_SLICE_TOPOLOGY, JOB_LABEL, KIND, MANAGED_BY

Tree = dict[str, Any]

XPK_LABEL: Final = "xpk.google.com/workload"
BOOKKEEPING: Final = (
    "kubectl.kubernetes.io/",
    "applyset.kubernetes.io/",
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "argocd.argoproj.io/",
    "kustomize.toolkit.fluxcd.io/",
    "helm.toolkit.fluxcd.io/",
    "meta.helm.sh/",
    "helm.sh/",
    "kapp.k14s.io/",
    "config.kubernetes.io/",
    "internal.config.kubernetes.io/",
    "config.k8s.io/",
    "configmanagement.gke.io/",
    "configsync.gke.io/",
    "objectset.rio.cattle.io/",
)
"""Prefixes of keys by which kubectl, Helm, Argo CD, Flux, kapp, kpt, Config Sync and Fleet find their objects."""

_OWN: Final = "gangctl.dev/"
_OF_PATHWAYS: Final = "gangctl.dev/pathways-"
_REQUESTS: Final = (
    _OWN,
    "kueue.x-k8s.io/",
    "provreq.kueue.x-k8s.io/",
    "jobset.sigs.k8s.io/",
    "alpha.jobset.sigs.k8s.io/",
)
"""Prefixes of keys that are requests to JobSet; on pods they would be repeated, or requests of the pods."""

_REQUIRED_TOPOLOGY: Final = "kueue.x-k8s.io/podset-required-topology"
_SLICE_TOPOLOGY: Final = "kueue.x-k8s.io/podset-slice-required-topology"
_SLICE_SIZE: Final = "kueue.x-k8s.io/podset-slice-size"
_PARTITIONED: Final = "tpu7x"
"""The generation whose nodes are labelled by partition, not by slice."""


def jobset_metadata(job: PathwaysJob, setting: Setting, choice: Choice) -> Tree:
    """``metadata`` of the JobSet."""
    metadata: Tree = {"name": From(job.name, job.origin("metadata.name"))}
    if job.namespace:
        metadata["namespace"] = From(job.namespace, job.origin("metadata.namespace"))
    metadata["labels"] = {
        **_travelling(job, "labels", job.labels),
        MANAGED_BY: rule(MANAGER, "who made this JobSet"),
        **_own_labels(job),
        **_xpk_labels(job, setting),
    }
    kept_back = (GANG_MODE, GANG_REF, TOPOLOGY_REQUESTS, *(() if choice.gangs.any else (GANGS,)))
    annotations = _travelling(job, "annotations", job.annotations, kept_back=kept_back)
    annotations |= _present({GANG_MODE: choice.jobset, GANG_OPTIONS: choice.options})
    return {**metadata, **_filled("annotations", annotations), **_owner(job)}


def head_job_metadata(job: PathwaysJob) -> Tree:
    """``metadata`` of the head's Job template."""
    annotations = _travelling(job, "annotations", job.annotations, kept_back=_REQUESTS)
    return _filled("annotations", {**annotations, **_present({EXCLUSIVE_TOPOLOGY: exclusive_head(job)})})


def head_pod_metadata(job: PathwaysJob) -> Tree:
    """``metadata`` of the head's pod: the template's, the PathwaysJob's for keys that the template has not."""
    given: Mapping[str, Any] = (job.template or {}).get("metadata") or {}
    labels = {
        **_travelling(job, "labels", job.labels, kept_back=_REQUESTS),
        **_of_template(job, "labels", given),
        **_own_labels(job),
    }
    annotations = {
        **_travelling(job, "annotations", job.annotations, kept_back=_REQUESTS),
        **_of_template(job, "annotations", given),
    }
    return {**_filled("labels", labels), **_filled("annotations", annotations)}


def worker_job_metadata(job: PathwaysJob, choice: Choice) -> Tree:
    """``metadata`` of the workers' Job template: their gang and their exclusive placement."""
    annotations = {GANG_MODE: choice.worker, EXCLUSIVE_TOPOLOGY: exclusive_workers(job, choice)}
    return _filled("annotations", _present(annotations))


def worker_pod_metadata(job: PathwaysJob, setting: Setting) -> Tree:
    """``metadata`` of the workers' pods: requests to Kueue and GKE about their nodes are only here."""
    labels = {**_own_labels(job), **_xpk_labels(job, setting)}
    asked = _travelling(job, "annotations", _topology_requests(job))
    return {"labels": labels, **_filled("annotations", {**_slice_requests(job), **asked})}


def metadata_notices(job: PathwaysJob) -> tuple[Notice, ...]:
    """Notices about the copied annotations."""
    moved = _topology_requests(job)
    if not moved:
        return ()
    message = f"On the workers' pods only, the head's nodes are others: {', '.join(moved)}."
    return (Notice(Reason.METADATA_MOVED, message),)


def _travelling(
    job: PathwaysJob, part: str, keys: Mapping[str, str], *, kept_back: tuple[str, ...] = ()
) -> dict[str, From]:
    """Keys that may be copied from the PathwaysJob, each with its origin."""
    stays = (*BOOKKEEPING, _OF_PATHWAYS, *(job.options.drop_metadata or ()), *kept_back)
    travels = {key: value for key, value in keys.items() if not key.startswith(stays)}
    return {key: From(value, job.origin(f"metadata.{part}[{key}]")) for key, value in travels.items()}


def _of_template(job: PathwaysJob, part: str, metadata: Mapping[str, Any]) -> dict[str, From]:
    path = f"spec.controller.template.metadata.{part}"
    values: Mapping[str, str] = metadata.get(part) or {}
    return {key: From(value, job.origin(f"{path}[{key}]")) for key, value in values.items()}


def _topology_requests(job: PathwaysJob) -> dict[str, str]:
    return {key: value for key, value in job.annotations.items() if key.startswith(TOPOLOGY_REQUESTS)}


def _slice_requests(job: PathwaysJob) -> dict[str, From]:
    """How slices that are no node pools are requested: of GKE by topology, of Kueue by the node label of a slice."""
    if not sliced(job):
        return {}
    why = f"slicing: {job.options.slicing}"
    requests = {GKE_SLICE_TOPOLOGY: From(job.slice.topology, job.origin("spec.workers[0].topology"))}
    if job.options.slicing is Slicing.SUPER or asks_for_topology(job.annotations):
        return requests
    kind = "partition" if job.slice.accelerator.generation == _PARTITIONED else "slice"
    level = f"cloud.google.com/gke-tpu-{kind}-{job.slice.topology}-id"
    if job.slices == 1:
        return {**requests, _REQUIRED_TOPOLOGY: rule(level, why)}
    return {**requests, _SLICE_TOPOLOGY: rule(level, why), _SLICE_SIZE: rule(str(job.slice.vms), why)}


def _own_labels(job: PathwaysJob) -> dict[str, From]:
    return {JOB_LABEL: rule(job.name, "whose JobSet and pods these are")}


def _xpk_labels(job: PathwaysJob, setting: Setting) -> dict[str, From]:
    if setting.profile is not Profile.XPK:
        return {}
    return {XPK_LABEL: rule(job.name, "by which XPK lists workloads", "xpk")}


def _owner(job: PathwaysJob) -> Tree:
    if not job.uid:
        return {}
    owner = {
        "apiVersion": rule(API_VERSION, "its PathwaysJob"),
        "kind": rule(KIND, "its PathwaysJob"),
        "name": From(job.name, job.origin("metadata.name")),
        "uid": From(job.uid, job.origin("metadata.uid")),
        "controller": rule(True, "deleted with the PathwaysJob, and of no other owner"),
        "blockOwnerDeletion": rule(True, "the PathwaysJob waits for it"),
    }
    return {"ownerReferences": [owner]}


def _present(values: Mapping[str, From | None]) -> dict[str, From]:
    return {key: value for key, value in values.items() if value is not None}


def _filled(key: str, value: Mapping[str, From]) -> Tree:
    return {key: value} if value else {}
