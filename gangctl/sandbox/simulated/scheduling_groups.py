"""The groups that pods name, in the two forms of three Kubernetes minors.

1.35: ``workloadRef``, a policy in the Workload, one group for each replica key.
Later: ``schedulingGroup``, a PodGroup object of its own with the policy in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gangctl.sandbox.objects import Object, namespace_of

GroupKey = tuple[str, ...]
"""Namespace, object, and on 1.35 the entry of its list and the replica key."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Policy of a group: ``min_count`` 0 is the basic policy, pod by pod."""

    min_count: int
    priority: int | None = None
    """Priority of the group, if the scheduler requires it of pods (1.37)."""


def group_of(pod: Object) -> GroupKey | None:
    """The group that a pod names."""
    spec, namespace = pod["spec"], namespace_of(pod)
    group = spec.get("schedulingGroup")
    if group:
        return namespace, str(group["podGroupName"])
    workload = spec.get("workloadRef")
    if workload:
        return (
            namespace,
            str(workload["name"]),
            str(workload["podGroup"]),
            str(workload.get("podGroupReplicaKey") or ""),
        )
    return None


def policy_in_workload(workload: Object | None, entry: str) -> Policy | None:
    """The policy of one entry of a Workload of 1.35; None while there is none."""
    for each in (workload or {"spec": {}})["spec"].get("podGroups") or []:
        if each["name"] == entry:
            return Policy(_min_count(each["policy"]))
    return None


def policy_in_group(group: Object | None, *, holds_priority: bool) -> Policy | None:
    """The policy of a PodGroup; None while there is none."""
    if group is None:
        return None
    priority = int(group["spec"].get("priority") or 0) if holds_priority else None
    return Policy(_min_count(group["spec"]["schedulingPolicy"]), priority)


def _min_count(policy: Mapping[str, Any]) -> int:
    gang = policy.get("gang")
    return int(gang["minCount"]) if gang else 0
