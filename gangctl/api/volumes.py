"""Volumes of pods that are claims, by the pod's spec or by ``volumeClaimPolicies`` of the JobSet."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from gangctl.api.objects import object_at, objects_at, text_at


def volume_claims(pod_spec: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """Index and PersistentVolumeClaim of each volume of a pod that is one."""
    for index, volume in enumerate(objects_at(pod_spec, "volumes")):
        if claim := text_at(object_at(volume, "persistentVolumeClaim"), "claimName"):
            yield index, claim


def claimed_volumes(
    jobset: Mapping[str, Any], pod_spec: Mapping[str, Any]
) -> Iterator[tuple[dict[str, Any], Mapping[str, Any]]]:
    """Volumes that JobSet 0.12 adds to the pods of a raw one, each with the template of its claim.

    Those of ``volumeClaimPolicies`` that a container mounts (addVolumes).
    """
    policies = objects_at(object_at(jobset, "spec"), "volumeClaimPolicies")
    # Before the mounts: few JobSets have any.
    if not policies:
        return
    containers = [*objects_at(pod_spec, "containers"), *objects_at(pod_spec, "initContainers")]
    mounted = {text_at(mount, "name") for one in containers for mount in objects_at(one, "volumeMounts")}
    owner = text_at(object_at(jobset, "metadata"), "name")
    for policy in policies:
        for template in objects_at(policy, "templates"):
            name = text_at(object_at(template, "metadata"), "name")
            if name and name in mounted:
                yield {"name": name, "persistentVolumeClaim": {"claimName": f"{name}-{owner}"}}, template


def claim_names(jobset: Mapping[str, Any], pod_spec: Mapping[str, Any]) -> tuple[str, ...]:
    """PersistentVolumeClaims of the pods; ``POD-scratch`` of each pod for an ephemeral volume ``scratch``."""
    # Most have none.
    if not pod_spec.get("volumes") and not object_at(jobset, "spec").get("volumeClaimPolicies"):
        return ()
    made = {"volumes": [volume for volume, _ in claimed_volumes(jobset, pod_spec)]}
    names = [claim for spec in (pod_spec, made) for _, claim in volume_claims(spec)]
    names += [f"POD-{text_at(one, 'name')}" for one in objects_at(pod_spec, "volumes") if one.get("ephemeral")]
    return tuple(map(sys.intern, names))
