"""Kinds of other gang schedulers that gangctl does not support: what to write instead."""

from __future__ import annotations

from typing import Any, Final

from gangctl.errors import ErrorKind, FieldError
from gangctl.migration.systems import NAMES, System

_BY_GROUP: Final = {
    "batch.volcano.sh": "write a JobSet with one replicated job per task",
    "kubeflow.org": "write a JobSet with one replicated job per replica type, or a TrainJob, which becomes one",
    "trainer.kubeflow.org": "it makes a JobSet: put gangctl.dev/gang-mode into the JobSet template of its runtime",
    "ray.io": "its pods are not made by JobSet, and stay with their scheduler",
    "leaderworkerset.x-k8s.io": "its pods are not made by JobSet, and stay with their scheduler",
    "sparkoperator.k8s.io": "its pods are not made by JobSet, and stay with their scheduler",
}
_KINDS: Final = {"batch.volcano.sh": "Job"}
"""The only workload kind of its API group."""
_JOB: Final = "write a JobSet with this Job as the template of its one replicated job"


def _hint(raw: dict[str, Any], system: System) -> str | None:
    group, _, version = str(raw.get("apiVersion", "")).partition("/")
    kind = raw.get("kind")
    if group == "batch" and version and kind == "Job" and _has_marks(raw, system):
        return _JOB
    if group in _BY_GROUP and kind == _KINDS.get(group, kind):
        return _BY_GROUP[group]
    return None


def _has_marks(value: object, system: System) -> bool:
    """Whether anything in an object is for the system."""
    names, stack = NAMES[system], [value]
    while stack:
        here = stack.pop()
        if isinstance(here, dict):
            if here.get("schedulerName") in names.schedulers or any(names.reads(key) for key in here):
                return True
            stack.extend(here.values())
        elif isinstance(here, list):
            stack.extend(here)
    return False


def check_kind(raw: dict[str, Any], system: System) -> FieldError | None:
    """Why an object of the input cannot become a gang of gangctl, which are JobSets; None for unrelated objects."""
    hint = _hint(raw, system)
    if hint is None:
        return None
    detail = f'"{raw.get("kind")}" of {raw.get("apiVersion")} is no JobSet: {hint}'
    return FieldError("kind", ErrorKind.NOT_SUPPORTED, detail)
