"""The podsets that Kueue creates for a JobSet: one for each replicated job, in order.

Source: Kueue ``pkg/controller/jobs/jobset`` and ``pkg/controller/jobframework/tas.go``. Kueue reserves the full count
of each podset or nothing; a podset may have no pods.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gangctl.api.parts import object_at
from gangctl.gang.counting import pods_per_job
from gangctl.kueue.names import (
    PODSET_GROUP,
    SLICE_SIZE,
    SLICE_TOPOLOGY,
    TOPOLOGY_PREFERRED,
    TOPOLOGY_REQUIRED,
    TOPOLOGY_UNCONSTRAINED,
)

SLICE_CONSTRAINTS: Final = f"{SLICE_TOPOLOGY}-constraints"
_NOTHING: Final[Mapping[str, Any]] = {}


@dataclass(frozen=True, slots=True)
class PodSet:
    """Equal pods of one JobSet. ``index`` is that of the replicated job, ``template`` its pod template, raw."""

    name: str
    index: int
    pods: int
    template: Mapping[str, Any] = field(repr=False)
    group: str = ""
    """Podsets of one group use the same flavors; empty without a group."""
    topology: str = ""
    """The placement request, such as ``required rack``; empty without one."""
    levels: tuple[str, ...] = ()
    """Node labels of the levels in the placement request."""

    @property
    def pod_spec(self) -> Mapping[str, Any]:
        """``spec`` of the pod template."""
        return object_at(self.template, "spec")


def _count(raw: Mapping[str, Any], key: str) -> int | None:
    value = raw.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def podsets_of(jobset: Mapping[str, Any]) -> tuple[PodSet, ...]:
    """Podsets of a raw JobSet. Total: a value of the wrong type counts as absent."""
    entries = object_at(jobset, "spec").get("replicatedJobs")
    return tuple(
        _podset(entry if isinstance(entry, dict) else _NOTHING, index)
        for index, entry in enumerate(entries if isinstance(entries, list) else ())
    )


def _podset(entry: Mapping[str, Any], index: int) -> PodSet:
    job = object_at(object_at(entry, "template"), "spec")
    template = object_at(job, "template")
    replicas = _count(entry, "replicas")
    pods = pods_per_job(_count(job, "parallelism"), _count(job, "completions"))
    name = entry.get("name")
    written = object_at(object_at(template, "metadata"), "annotations")
    annotations = {key: value for key, value in written.items() if isinstance(value, str)}
    topology, levels = _placement(annotations)
    grouped = TOPOLOGY_REQUIRED in annotations or TOPOLOGY_PREFERRED in annotations
    group = annotations.get(PODSET_GROUP, "")
    return PodSet(
        name=name.lower() if isinstance(name, str) else "",
        index=index,
        pods=max(0, 1 if replicas is None else replicas) * max(0, pods),
        template=template,
        group=group if grouped else "",
        topology=topology,
        levels=levels,
    )


def _placement(annotations: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """The placement request as text, and its levels."""
    words: list[str] = []
    levels: list[object] = []
    for key, word in ((TOPOLOGY_REQUIRED, "required"), (TOPOLOGY_PREFERRED, "preferred")):
        if key in annotations:
            words.append(f"{word} {annotations[key]}")
            levels.append(annotations[key])
            break
    else:
        if TOPOLOGY_UNCONSTRAINED in annotations:
            words.append("unconstrained")
    if SLICE_CONSTRAINTS in annotations:
        words.append("slices")
        levels += _layers(annotations[SLICE_CONSTRAINTS])
    elif SLICE_TOPOLOGY in annotations and SLICE_SIZE in annotations:
        words.append(f"slices of {annotations[SLICE_SIZE]} in {annotations[SLICE_TOPOLOGY]}")
        levels.append(annotations[SLICE_TOPOLOGY])
    return ", ".join(words), tuple(level for level in levels if isinstance(level, str))


def _layers(written: str) -> list[object]:
    """Levels of nested slices, which are in JSON."""
    try:
        layers = json.loads(written)
    except (ValueError, RecursionError):
        return []
    return [layer.get("topology") for layer in (layers if isinstance(layers, list) else ()) if isinstance(layer, dict)]
