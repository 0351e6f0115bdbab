"""Gangs that could never start with the other fields of the job."""

from __future__ import annotations

from typing import Final

from gangctl.api.meta import EXCLUSIVE_TOPOLOGY, GANG_OPTIONS, GANGS, NODE_SELECTOR_STRATEGY
from gangctl.errors import ErrorKind
from gangctl.gang.config import GangMode, parse_gangs, read_options
from gangctl.pathways.checks.findings import Findings
from gangctl.pathways.gangs import gangs, together
from gangctl.pathways.options import Startup
from gangctl.pathways.problems import InvalidReason
from gangctl.pathways.words import (
    GANG_MODE_PATH,
    GKE_NODEPOOL,
    POD,
    WORKER,
    WORKER_MODE,
    WORKER_MODE_PATH,
    annotation,
    option_path,
)

_ELASTIC: Final = "spec.controller.elasticSlices"
_PRIORITY: Final = "spec.workers[0].priorityClassName"
_DEFAULT_SCHEDULER: Final = "default-scheduler"
_GROUPS: Final = ("schedulingGroup", "workloadRef")
"""Fields of a pod that name its group, the latter in Kubernetes 1.35."""


def check_gangs(found: Findings) -> None:
    """Every combination that would wait permanently, or that Kubernetes would reject."""
    _check_levels(found)
    _check_elastic(found)
    _check_order(found)
    _check_exclusive(found)
    _check_pools(found)
    _check_uniform(found)


def _check_levels(found: Findings) -> None:
    if found.job.gang_mode is GangMode.GANG and found.job.worker_mode is not None:
        detail = f'is "{found.job.worker_mode}" beside {found.place(GANG_MODE_PATH)} "Gang": write one of them'
        found.refuse(InvalidReason.INVALID_GANG_MODE, WORKER_MODE_PATH, detail, ErrorKind.FORBIDDEN)


def _check_elastic(found: Findings) -> None:
    """A group of all slices does not start while one is missing: that is its purpose."""
    if not found.job.elastic_slices:
        return
    for path, mode in ((GANG_MODE_PATH, found.job.gang_mode), (WORKER_MODE_PATH, found.job.worker_mode)):
        if mode is GangMode.GANG:
            detail = (
                f"Gang could not start, or go on, with a slice missing, as {found.place(_ELASTIC)} "
                f"({found.job.elastic_slices}) allows: use {WORKER_MODE}: ReplicatedGang, a group for each slice"
            )
            where = annotation(GANGS) if GANGS in found.job.annotations else path
            found.refuse(InvalidReason.ELASTIC_GANG, where, detail, ErrorKind.FORBIDDEN)
            return


def _check_order(found: Findings) -> None:
    """Workers that are created after the head is ready are missing for a head that waits for them."""
    order = found.job.options.startup
    if order in {None, Startup.ANY_ORDER} or not together(found.job):
        return
    waits = "a place beside a worker" if found.job.colocated else "the gang that they are in together"
    detail = (
        f"{order} makes the workers once the head is ready, and the head waits for {waits}: "
        f"use {Startup.ANY_ORDER}, or leave it out"
    )
    found.refuse(InvalidReason.GANG_DEADLOCK, option_path("startup"), detail, ErrorKind.FORBIDDEN)


def _check_exclusive(found: Findings) -> None:
    """On the PathwaysJob the annotation would apply to every Job of the JobSet."""
    annotations = found.job.annotations
    if EXCLUSIVE_TOPOLOGY not in annotations or NODE_SELECTOR_STRATEGY in annotations:
        return
    if gangs(found.job).any:
        detail = (
            "deadlocks with a gang: JobSet makes the other pods of a Job once the first has a node, and a gang gets "
            f"nodes only as a whole. Leave it out, or set {found.place(GANG_MODE_PATH)} to Off"
        )
    elif found.job.colocated:
        detail = "keeps head and workers apart, which a colocated head does not survive: leave it out"
    else:
        return
    found.refuse(InvalidReason.GANG_DEADLOCK, annotation(EXCLUSIVE_TOPOLOGY), detail, ErrorKind.FORBIDDEN)


def _check_pools(found: Findings) -> None:
    """A node pool holds one slice, so that a group of several fits in no pool."""
    chosen = gangs(found.job)
    if found.job.slices <= 1 or GangMode.GANG not in {chosen.jobset, chosen.worker}:
        return
    listed, _ = parse_gangs(found.job.annotations.get(GANGS, "[]"))
    place, key = next(
        (
            (f"{annotation(GANGS)}[{index}]", gang.topology_key)
            for index, gang in enumerate(listed)
            if WORKER in gang.replicated_jobs
        ),
        (annotation(GANG_OPTIONS), read_options(found.job.annotations.get(GANG_OPTIONS, "{}"), "", []).topology_key),
    )
    if key == GKE_NODEPOOL:
        detail = (
            f"one gang of {found.job.slices} slices does not fit into one {GKE_NODEPOOL}, which is one slice: "
            f"use {WORKER_MODE}: ReplicatedGang, or leave topologyKey out"
        )
        found.refuse(InvalidReason.GANG_DEADLOCK, f"{place}.topologyKey", detail)


def _check_uniform(found: Findings) -> None:
    """Pods of one group need one scheduler, in Kubernetes 1.37 one priority, and no other group."""
    job = found.job
    if gangs(job).jobset is not GangMode.GANG or job.template is None:
        return
    pod = job.template.get("spec", {})
    priority = pod.get("priorityClassName", "")
    if priority and priority != job.worker_priority_class:
        detail = f"head and workers are one gang and need one priority class: set {found.place(_PRIORITY)} to the same"
        found.refuse(InvalidReason.INVALID_GANG_MODE, f"{POD}.priorityClassName", detail)
    if pod.get("schedulerName", _DEFAULT_SCHEDULER) not in {"", _DEFAULT_SCHEDULER}:
        detail = f"head and workers are one gang and need one scheduler, {_DEFAULT_SCHEDULER}: leave it out"
        found.refuse(InvalidReason.INVALID_GANG_MODE, f"{POD}.schedulerName", detail)
    for field in _GROUPS:
        if pod.get(field):
            detail = "names another group for the head, which is in one gang with the workers: leave it out"
            found.refuse(InvalidReason.INVALID_GANG_MODE, f"{POD}.{field}", detail, ErrorKind.FORBIDDEN)
