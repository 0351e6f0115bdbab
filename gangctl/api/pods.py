"""Words of the pod API that several packages read.

Source: ``k8s.io/api/core/v1`` (PodPhase, NodeAffinity, PodAffinity).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from gangctl.api.objects import object_at, text_at

FINISHED: Final = frozenset({"Succeeded", "Failed"})
"""Phases of pods whose containers never run again."""

UNFINISHED: Final = "status.phase!=Succeeded,status.phase!=Failed"
"""A field selector of the pods in any other phase."""
FAILED: Final = "status.phase=Failed"
"""A field selector of the pods that have failed."""

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
"""The field of node and pod affinity whose terms the scheduler enforces."""

HOSTNAME: Final = "kubernetes.io/hostname"
"""The label with the name of a node."""

SYSTEM_CLASSES: Final[Mapping[str, int]] = {
    "system-node-critical": 2_000_001_000,
    "system-cluster-critical": 2_000_000_000,
}
"""The PriorityClasses that every cluster has, and their values."""

MAX_PRIORITY: Final = 1_000_000_000
"""The most that other PriorityClasses may have, and PodGroups (HighestUserDefinablePriority)."""

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}")


def is_finished(raw: Mapping[str, Any]) -> bool:
    """Whether no container of a raw Pod ever runs again."""
    return text_at(object_at(raw, "status"), "phase") in FINISHED


def tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    """Whether a toleration matches a taint, with any effect."""
    effect, key = toleration.get("effect"), toleration.get("key")
    # An empty effect or key matches any: `operator: Exists` alone tolerates every taint.
    if (effect and effect != taint.get("effect")) or (key and key != taint.get("key")):
        return False
    wanted, value = toleration.get("value") or "", taint.get("value") or ""
    match toleration.get("operator") or "Equal":
        case "Equal":
            return bool(wanted == value)
        case "Exists":
            return True
        # KEP-5471: numeric comparison in tolerations.
        case "Gt" | "Lt" as operator:
            bound = integer(wanted)
            return bound is not None and beyond(operator, integer(value), bound)
    return False


def beyond(operator: str, number: int | None, bound: int) -> bool:
    """Whether a number is above (``Gt``) or below (``Lt``) another one; not, without a number."""
    return number is not None and (number > bound if operator == "Gt" else number < bound)


def integer(value: object) -> int | None:
    """The number in a label or a taint; None for other text."""
    return int(value) if isinstance(value, str) and _INTEGER.fullmatch(value) else None
