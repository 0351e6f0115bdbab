"""Words of the pod API that several packages read.

Source: ``k8s.io/api/core/v1`` (PodPhase, NodeAffinity, PodAffinity).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gangctl.api.objects import object_at, text_at

FINISHED: Final = frozenset({"Succeeded", "Failed"})
"""Phases of pods whose containers never run again."""

UNFINISHED: Final = "status.phase!=Succeeded,status.phase!=Failed"
"""A field selector of the pods in any other phase."""

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
"""The field of node and pod affinity whose terms the scheduler enforces."""

SYSTEM_CLASSES: Final[Mapping[str, int]] = {
    "system-node-critical": 2_000_001_000,
    "system-cluster-critical": 2_000_000_000,
}
"""The PriorityClasses that every cluster has, and their values."""


def is_finished(raw: Mapping[str, Any]) -> bool:
    """Whether no container of a raw Pod ever runs again."""
    return text_at(object_at(raw, "status"), "phase") in FINISHED
