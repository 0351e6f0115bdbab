"""Gangctl's name in ``kueue.x-k8s.io/admission-gated-by``: put on at CREATE, taken off once the gang is there.

Kueue (``AdmissionGatedBy``, on since 0.19) takes no gate that comes later, and copies the annotation onto the
Workload that it makes: one without it means that Kueue does not know gates, and will start the JobSet whenever
it likes. The functions are pure; names of others are never touched, and keep their order and their spelling.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from gangctl.api.jobset import JobSet
from gangctl.api.jsonpatch import pointer
from gangctl.api.meta import ADMISSION_GATED_BY, QUEUE_NAME
from gangctl.kueue.checks import Progress, Standing
from gangctl.kueue.names import GATE, MULTIKUEUE_ORIGIN, PREBUILT_WORKLOAD
from gangctl.kueue.objects import QueuedWorkload

Patch = list[dict[str, Any]]

_ANNOTATION: Final = pointer(("metadata", "annotations", ADMISSION_GATED_BY))


def gate_patch(raw: Mapping[str, Any]) -> Patch:
    """JSON patch that puts the gate on a raw JobSet that is about to be created; none where it would be of no use.

    That is where it is in no queue, has the gate already, and where its Workload was there before it: Kueue made
    it on another cluster (MultiKueue) or somebody else here.
    """
    metadata = raw.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    labels, annotations = _texts(metadata, "labels"), _texts(metadata, "annotations")
    prebuilt = PREBUILT_WORKLOAD in annotations or PREBUILT_WORKLOAD in labels
    if not labels.get(QUEUE_NAME) or MULTIKUEUE_ORIGIN in labels or prebuilt:
        return []
    value = annotations.get(ADMISSION_GATED_BY, "")
    if GATE in _names(value):
        return []
    gated = f"{value},{GATE}" if value.strip() else GATE
    if isinstance(metadata.get("annotations"), dict):
        return [{"op": "add", "path": _ANNOTATION, "value": gated}]
    return [{"op": "add", "path": pointer(("metadata", "annotations")), "value": {ADMISSION_GATED_BY: gated}}]


def ungate_patch(jobset: JobSet) -> Patch:
    """JSON patch that takes the gate off, and fails if it is another JobSet or somebody else changed the list."""
    value = jobset.annotations.get(ADMISSION_GATED_BY, "")
    left = ",".join(name for name in value.split(",") if name.strip() and name.strip() != GATE)
    patch: Patch = [
        {"op": "test", "path": "/metadata/uid", "value": jobset.uid},
        {"op": "test", "path": _ANNOTATION, "value": value},
    ]
    if left:
        return [*patch, {"op": "replace", "path": _ANNOTATION, "value": left}]
    return [*patch, {"op": "remove", "path": _ANNOTATION}]


def _names(value: str) -> set[str]:
    return {name.strip() for name in value.split(",")}


def _texts(metadata: Mapping[str, Any], key: str) -> dict[str, str]:
    found = metadata.get(key)
    return {k: v for k, v in found.items() if isinstance(v, str)} if isinstance(found, dict) else {}


class Move(StrEnum):
    """What to do about a gate."""

    WAIT = "Wait"
    OPEN = "Open"
    TELL = "Tell"
    """Say that nobody minds the gate, and take it off."""


@dataclass(frozen=True, slots=True)
class GateDecision:
    """What to do, and why, in words for people."""

    move: Move
    message: str = ""


def gated(jobset: JobSet) -> bool:
    """Whether Kueue, if it knows gates, waits for gangctl's word."""
    return GATE in jobset.gates and not jobset.deleting and not jobset.finished


def decide_gate(jobset: JobSet, workload: QueuedWorkload | None, standing: Standing) -> GateDecision:
    """What becomes of the gate of a :func:`gated` JobSet.

    It stays until Kueue has shown that it minds it, so that no Kueue that does not is taken for one that does.
    ``workload`` is the JobSet's, None before Kueue has made it.
    """
    if not jobset.suspend:
        return GateDecision(Move.TELL, "it runs, although gangctl has not let it yet")
    if workload is None:
        return GateDecision(Move.WAIT)
    if workload.holds("QuotaReserved"):
        return GateDecision(Move.TELL, f"Kueue has reserved quota in {workload.cluster_queue} nevertheless")
    if GATE not in workload.gates:
        return GateDecision(Move.TELL, "Kueue made its Workload without the gate")
    if standing.progress in {Progress.DONE, Progress.NOTHING_TO_DO}:
        return GateDecision(Move.OPEN, standing.message)
    return GateDecision(Move.WAIT, standing.message)


def is_opened(decision: GateDecision, standing: Standing) -> bool:
    """Whether the gate comes off now; one that Kueue does not respect stays until the gang is there, too."""
    return decision.move is not Move.WAIT and standing.progress in {Progress.DONE, Progress.NOTHING_TO_DO}
