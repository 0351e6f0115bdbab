"""What the pods of head and workers have in common: the node's network, its /tmp, one grace period, one priority."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gangctl.api.fieldpath import FieldPath
from gangctl.pathways.job import PathwaysJob
from gangctl.pathways.origins import From, plain, rule
from gangctl.pathways.rendering.containers import SHARED_TMP
from gangctl.pathways.words import POD, WORKERS

Tree = dict[str, Any]


def user_pod(job: PathwaysJob) -> Mapping[str, Any]:
    """The user's pod spec, empty without one."""
    spec: Mapping[str, Any] = (job.template or {}).get("spec") or {}
    return spec


def given(job: PathwaysJob, value: Any, path: str) -> From:
    """A value of the user's at ``path``, with nested values that have other origins."""
    origin = job.origin(path)
    if not any(each.startswith((f"{path}.", f"{path}[")) for each in job.sources):
        return From(value, origin)
    if isinstance(value, Mapping):
        place = FieldPath.parse(path)
        return From({key: given(job, each, str(place.child(key))) for key, each in value.items()}, origin)
    if isinstance(value, list):
        return From([given(job, each, f"{path}[{index}]") for index, each in enumerate(value)], origin)
    return From(value, origin)


def host_network() -> Tree:
    """The node's network, with the cluster's names: Pathways talks between nodes at full speed."""
    why = "Pathways uses the node's network"
    return {"hostNetwork": rule(True, why), "dnsPolicy": rule("ClusterFirstWithHostNet", f"{why} and cluster names")}


def worker_grace_period(job: PathwaysJob) -> Tree:
    """``terminationGracePeriodSeconds`` of the workers, where it was chosen."""
    if job.worker_grace_seconds is None:
        return {}
    path = f"{WORKERS}.terminationGracePeriodSeconds"
    return {"terminationGracePeriodSeconds": From(job.worker_grace_seconds, job.origin(path))}


def head_grace_period(job: PathwaysJob) -> Tree:
    """The template's, or the workers': in the head a client saves its state."""
    seconds = user_pod(job).get("terminationGracePeriodSeconds")
    if seconds is None:
        return worker_grace_period(job)
    return {"terminationGracePeriodSeconds": From(seconds, job.origin(f"{POD}.terminationGracePeriodSeconds"))}


def priority_classes(job: PathwaysJob) -> tuple[Tree, Tree]:
    """``priorityClassName`` of head and workers: the same, unless the PathwaysJob says two.

    A head of lower priority would be preempted, and the whole job with it.
    """
    of_head, of_workers = user_pod(job).get("priorityClassName"), job.worker_priority_class
    head = From(of_head, job.origin(f"{POD}.priorityClassName")) if of_head else None
    workers = From(of_workers, job.origin(f"{WORKERS}.priorityClassName")) if of_workers else None
    return _priority(head or workers), _priority(workers or head)


def shared_tmp(containers: Iterable[Any]) -> list[From]:
    """The volume that is the node's /tmp, where one of gangctl's own containers mounts it.

    A user's mount of that name does not get it: access to the node needs an explicit volume.
    """
    mounts = [mount for each in containers for mount in plain(each).get("volumeMounts") or ()]
    if all(mount.get("name") != SHARED_TMP for mount in mounts):
        return []
    host_path = {"path": "/tmp", "type": "DirectoryOrCreate"}  # noqa: S108 -- the node's, shared on purpose
    return [rule({"name": SHARED_TMP, "hostPath": host_path}, "containers mount it")]


def _priority(name: From | None) -> Tree:
    return {} if name is None else {"priorityClassName": name}
