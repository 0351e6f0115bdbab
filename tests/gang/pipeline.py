"""The pure core as the webhooks and the controller run it, in one call each; and what JobSet makes of a JobSet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gangctl.api.jobset import JobSet, read_jobset
from gangctl.api.scheduling import NEWEST, Generation
from gangctl.gang.admission import stamp_patch
from gangctl.gang.desired import Assessment, Desired, Lifecycle, assess
from gangctl.gang.plan import GangPlan, make_plan
from gangctl.gang.resolve import ClusterRules, Resolution, resolve
from tests.gang.json_patch import apply

GENERATIONS = tuple(Generation)


def read(raw: dict[str, Any]) -> JobSet:
    """The projection of a JobSet whose types are right."""
    projection, malformed = read_jobset(raw)
    assert malformed == ()
    return projection


def resolved(raw: dict[str, Any], generation: Generation = NEWEST) -> Resolution:
    """What its configuration becomes."""
    return resolve(read(raw), ClusterRules(generation))


def planned(raw: dict[str, Any], generation: Generation = NEWEST) -> GangPlan | None:
    """The plan of an accepted JobSet, as it is previewed before it exists."""
    resolution = resolved(raw, generation)
    assert resolution.errors == ()
    return make_plan(read(raw), resolution.stamps, resolution.config)


def some_plan(raw: dict[str, Any], generation: Generation = NEWEST) -> GangPlan:
    """The plan of a JobSet that is known to have one."""
    plan = planned(raw, generation)
    assert plan is not None
    return plan


def stored(raw: dict[str, Any], generation: Generation = NEWEST) -> dict[str, Any]:
    """The JobSet as the mutating webhook leaves it at CREATE."""
    return apply(raw, stamp_patch(raw, resolved(raw, generation).stamps))


def assessed(raw: dict[str, Any], generation: Generation = NEWEST) -> Assessment:
    """What the controller makes of a stored JobSet."""
    return assess(read(raw), ClusterRules(generation))


def wanted(plan: GangPlan, counts: Mapping[str, int] | None = None, **more: Any) -> Desired:
    """What should exist by a plan, in which some groups, by name, have fewer pods that can still exist."""
    numbers = counts or {}
    groups = tuple(group._replace(min_count=numbers.get(group.name, group.min_count)) for group in plan.groups)
    return Desired(Assessment(Lifecycle.PRESENT, plan), replace(plan, groups=groups), **more)


def child_job(raw: dict[str, Any], position: int, index: int) -> dict[str, Any]:
    """The Job that JobSet creates for replica ``index`` of the ReplicatedJob at ``position``."""
    meta, entry = raw["metadata"], raw["spec"]["replicatedJobs"][position]
    owned = {
        "jobset.sigs.k8s.io/jobset-name": meta["name"],
        "jobset.sigs.k8s.io/jobset-uid": meta["uid"],
        "jobset.sigs.k8s.io/replicatedjob-name": entry["name"],
        "jobset.sigs.k8s.io/job-index": str(index),
        "jobset.sigs.k8s.io/restart-attempt": "0",
    }
    template = entry["template"].get("metadata", {})
    owner = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": f"{meta['name']}-{entry['name']}-{index}",
            "namespace": meta["namespace"],
            "labels": {**template.get("labels", {}), **owned},
            "annotations": {**template.get("annotations", {}), **owned},
            "ownerReferences": [owner],
        },
        "spec": entry["template"]["spec"],
    }
