"""gangctl's name in ``kueue.x-k8s.io/admission-gated-by``: set at CREATE, removed after the gang is created.

Kueue (``AdmissionGatedBy``, on since 0.19) accepts no gate after CREATE, and copies the annotation onto the
Workload that it creates: a Workload without it means that Kueue does not support gates, and may start the JobSet
at any time. The functions are pure; other names keep their order and their spelling.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from gangctl.api.jobset import JobSet, gate_names
from gangctl.api.jsonpatch import pointer
from gangctl.api.meta import ADMISSION_GATED_BY, QUEUE_NAME
from gangctl.api.objects import object_at
from gangctl.kueue.checks import Progress, Status
from gangctl.kueue.names import GATE, MULTIKUEUE_ORIGIN, PREBUILT_WORKLOAD
from gangctl.kueue.objects import QueuedWorkload

Patch = list[dict[str, Any]]

_ANNOTATION: Final = pointer(("metadata", "annotations", ADMISSION_GATED_BY))


def gate_patch(raw: Mapping[str, Any]) -> Patch:
    """JSON patch that adds the gate to a raw JobSet at CREATE; empty if it would have no effect.

    That is the case if it has no queue, has the gate already, or if its Workload existed before it: created by Kueue
    on another cluster (MultiKueue), or by another client here.
    """
    metadata = object_at(raw, "metadata")
    labels, annotations = _texts(metadata, "labels"), _texts(metadata, "annotations")
    prebuilt = PREBUILT_WORKLOAD in annotations or PREBUILT_WORKLOAD in labels
    if not labels.get(QUEUE_NAME) or MULTIKUEUE_ORIGIN in labels or prebuilt:
        return []
    value = annotations.get(ADMISSION_GATED_BY, "")
    if GATE in gate_names(value):
        return []
    gated = f"{value},{GATE}" if value.strip() else GATE
    if isinstance(metadata.get("annotations"), dict):
        return [{"op": "add", "path": _ANNOTATION, "value": gated}]
    return [{"op": "add", "path": pointer(("metadata", "annotations")), "value": {ADMISSION_GATED_BY: gated}}]


def ungate_patch(jobset: JobSet) -> Patch:
    """JSON patch that removes the gate, and fails for another JobSet or if another client changed the list."""
    value = jobset.annotations.get(ADMISSION_GATED_BY, "")
    left = ",".join(name for name in value.split(",") if name.strip() and name.strip() != GATE)
    patch: Patch = [
        {"op": "test", "path": "/metadata/uid", "value": jobset.uid},
        {"op": "test", "path": _ANNOTATION, "value": value},
    ]
    if left:
        return [*patch, {"op": "replace", "path": _ANNOTATION, "value": left}]
    return [*patch, {"op": "remove", "path": _ANNOTATION}]


def _texts(metadata: Mapping[str, Any], key: str) -> dict[str, str]:
    return {k: v for k, v in object_at(metadata, key).items() if isinstance(v, str)}


class Move(StrEnum):
    """What to do about a gate."""

    WAIT = "Wait"
    OPEN = "Open"
    REPORT = "Report"
    """Report that Kueue ignores the gate, and remove it."""


@dataclass(frozen=True, slots=True)
class GateDecision:
    """What to do, with a message for users."""

    move: Move
    message: str = ""


def gated(jobset: JobSet) -> bool:
    """Whether Kueue, if it supports gates, waits for gangctl."""
    return GATE in jobset.gates and not jobset.deleting and not jobset.finished


def decide_gate(jobset: JobSet, workload: QueuedWorkload | None, status: Status) -> GateDecision:
    """Decide about the gate of a :func:`gated` JobSet.

    It stays until the Workload shows whether Kueue respects it.
    ``workload`` is the JobSet's, None before Kueue has created it.
    """
    if not jobset.suspend:
        return GateDecision(Move.REPORT, "it runs, although gangctl has not let it yet")
    if workload is None:
        return GateDecision(Move.WAIT)
    if workload.holds("QuotaReserved"):
        return GateDecision(Move.REPORT, f"Kueue has reserved quota in {workload.cluster_queue} nevertheless")
    if GATE not in workload.gates:
        return GateDecision(Move.REPORT, "Kueue made its Workload without the gate")
    if status.progress in {Progress.DONE, Progress.NOTHING_TO_DO}:
        return GateDecision(Move.OPEN, status.message)
    return GateDecision(Move.WAIT, status.message)


def is_opened(decision: GateDecision, status: Status) -> bool:
    """Whether to remove the gate now; one that Kueue ignores also stays until the gang is created."""
    return decision.move is not Move.WAIT and status.progress in {Progress.DONE, Progress.NOTHING_TO_DO}
