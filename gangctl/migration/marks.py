"""Marks of another scheduler on a JobSet: labels, annotations and scheduler names, with their field paths.

JobSet copies those of a ReplicatedJob's template to the Jobs, and those of the pod template to the
pods; those of the JobSet itself are not copied.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from gangctl.api.fieldpath import FieldPath
from gangctl.errors import ErrorKind, FieldError, shown
from gangctl.migration.systems import NAMES, Field, System

FIELDS: Final[tuple[Field, ...]] = ("labels", "annotations")


class Level(StrEnum):
    """The object that gets a label or an annotation."""

    JOBSET = "JobSet"
    JOB = "Job"
    POD = "pod"


@dataclass(frozen=True, slots=True)
class Mark:
    """One label or annotation; ``index`` is that of the ReplicatedJob, -1 on the JobSet."""

    level: Level
    index: int
    field: Field
    key: str
    value: str
    path: str


def child(value: object, key: str) -> Mapping[str, Any]:
    """The object below a key; an empty one if there is none."""
    inner = value.get(key) if isinstance(value, dict) else None
    return inner if isinstance(inner, dict) else {}


def mentions(value: object, key: str) -> bool:
    """Whether a label or annotation is used anywhere in an object: by a selector, an expression, the downward API."""
    stack = [value]
    while stack:
        here = stack.pop()
        if isinstance(here, dict):
            stack += [*here.keys(), *here.values()]
        elif isinstance(here, list):
            stack += here
        elif isinstance(here, str) and key in here:
            return True
    return False


def pod_template(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """The pod template of an entry of ``spec.replicatedJobs``."""
    return child(child(child(entry, "template"), "spec"), "template")


def replicated_jobs(raw: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The entries of ``spec.replicatedJobs``, valid or not."""
    entries = child(raw, "spec").get("replicatedJobs")
    return [entry if isinstance(entry, dict) else {} for entry in (entries if isinstance(entries, list) else ())]


def _holders(raw: Mapping[str, Any]) -> Iterator[tuple[Level, int, str, Mapping[str, Any]]]:
    yield Level.JOBSET, -1, "", raw
    for index, entry in enumerate(replicated_jobs(raw)):
        path = f"spec.replicatedJobs[{index}].template"
        template = child(entry, "template")
        yield Level.JOB, index, path, template
        yield Level.POD, index, f"{path}.spec.template", pod_template(entry)


def read_marks(raw: Mapping[str, Any]) -> Iterator[Mark]:
    """Every label and annotation of a JobSet and its templates; strings only, see :func:`check_texts`."""
    for level, index, path, holder in _holders(raw):
        for field in FIELDS:
            for key, value in child(child(holder, "metadata"), field).items():
                if isinstance(value, str):
                    where = FieldPath.parse(path).child("metadata", field).key(key)
                    yield Mark(level, index, field, key, value, str(where))


def check_texts(raw: Mapping[str, Any], system: System) -> Iterator[FieldError]:
    """Labels and annotations of the system that are no strings: an API server rejects these."""
    for _, _, path, holder in _holders(raw):
        for field in FIELDS:
            for key, value in child(child(holder, "metadata"), field).items():
                if NAMES[system].reads(key) and not isinstance(value, str):
                    where = FieldPath.parse(path).child("metadata", field).key(key)
                    detail = f"must be a text, in quotes, got {shown(value)}"
                    yield FieldError(str(where), ErrorKind.TYPE_INVALID, detail)


def schedulers(raw: Mapping[str, Any]) -> list[str]:
    """``schedulerName`` of each ReplicatedJob's pods, empty if it has none."""
    found = []
    for entry in replicated_jobs(raw):
        found.append(str(child(pod_template(entry), "spec").get("schedulerName") or ""))
    return found


def systems_seen(raw: Mapping[str, Any]) -> dict[System, tuple[str, str]]:
    """The systems with marks on a JobSet, each with its first mark and field path."""
    seen: dict[System, tuple[str, str]] = {}
    for system, names in NAMES.items():
        for index, scheduler in enumerate(schedulers(raw)):
            if scheduler in names.schedulers:
                path = f"spec.replicatedJobs[{index}].template.spec.template.spec.schedulerName"
                seen.setdefault(system, (f"schedulerName {scheduler}", path))
        for mark in read_marks(raw):
            if names.reads(mark.key):
                seen.setdefault(system, (f"{mark.field.removesuffix('s')} {mark.key}", mark.path))
    return seen
