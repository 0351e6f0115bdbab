"""Eligible nodes of pods: node selectors and tolerations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gangctl.pathways.gangs import sliced
from gangctl.pathways.job import PathwaysJob
from gangctl.pathways.origins import From, Origin, OriginKind, option, rule
from gangctl.pathways.rendering.pod import user_pod
from gangctl.pathways.result import Profile, Setting
from gangctl.pathways.words import GKE_ACCELERATOR, GKE_NODEPOOL, GKE_TOPOLOGY, POD, TPU, WORKERS, option_path

XPK_HEAD_POOL: Final = "cpu-np"
"""The node pool that XPK makes for heads."""

_TPU_TOLERATION: Final = {"key": TPU, "operator": "Exists", "effect": "NoSchedule"}


def worker_tolerations() -> list[From]:
    """The taint of GKE's TPU nodes."""
    return [rule(_TPU_TOLERATION, "TPU nodes are tainted")]


def head_tolerations(job: PathwaysJob) -> list[From]:
    """The user's, and that of TPU nodes for a head that goes there: it requests no TPU, so GKE does not add it."""
    given = user_pod(job).get("tolerations") or []
    path = f"{POD}.tolerations"
    users = [From(each, job.origin(f"{path}[{index}]")) for index, each in enumerate(given)]
    if not job.colocated or any(_tolerates_tpu(each) for each in given):
        return users
    return [*users, rule(_TPU_TOLERATION, "the head goes to TPU nodes without requesting a TPU")]


def worker_node_selector(job: PathwaysJob) -> dict[str, From]:
    """Labels of the workers' nodes; the slice's own win."""
    labels = _tpu_labels(job)
    return {**labels, **_without(_asked_of_workers(job), labels)}


def head_node_selector(job: PathwaysJob, setting: Setting) -> dict[str, From]:
    """Labels of the head's node: the template's; without any the option's; in colocate mode the workers', too."""
    given = user_pod(job).get("nodeSelector") or {}
    users = {key: From(value, job.origin(f"{POD}.nodeSelector[{key}]")) for key, value in given.items()}
    if job.colocated:
        labels = _tpu_labels(job)
        return {**labels, **_without(_asked_of_workers(job), labels), **_without(users, labels)}
    if users or _chooses_nodes(user_pod(job)):
        return users
    chosen = job.options.head_node_selector
    if chosen is not None:
        flag = job.sources.get(option_path("headNodeSelector"))
        if flag is not None:
            return {key: From(value, flag) for key, value in chosen.items()}
        return {key: option(value, f"headNodeSelector.{key}") for key, value in chosen.items()}
    if setting.profile is Profile.XPK:
        return {GKE_NODEPOOL: rule(XPK_HEAD_POOL, "the node pool that XPK makes for heads", "xpk")}
    return {}


def _tpu_labels(job: PathwaysJob) -> dict[str, From]:
    """Of a node with the slice's VMs; cut out or put together, its node pool has another topology than the slice."""
    accelerator = job.slice.accelerator
    origin = Origin(OriginKind.TABLE, accelerator.machine_type, "label of its nodes")
    labels = {GKE_ACCELERATOR: From(accelerator.label, origin)}
    if not sliced(job):
        labels[GKE_TOPOLOGY] = From(job.slice.topology, job.origin(f"{WORKERS}.topology"))
    return labels


def _asked_of_workers(job: PathwaysJob) -> dict[str, From]:
    return {
        key: From(value, job.origin(f"{WORKERS}.nodeSelector[{key}]"))
        for key, value in job.worker_node_selector.items()
    }


def _without(labels: Mapping[str, From], taken: Mapping[str, Any]) -> dict[str, From]:
    return {key: value for key, value in labels.items() if key not in taken}


def _chooses_nodes(pod: Mapping[str, Any]) -> bool:
    return bool(pod.get("nodeName") or (pod.get("affinity") or {}).get("nodeAffinity"))


def _tolerates_tpu(toleration: Mapping[str, Any]) -> bool:
    key = toleration.get("key") or ""
    everything = not key and toleration.get("operator") == "Exists"
    return (key == TPU or everything) and toleration.get("effect") in {None, "", "NoSchedule"}
