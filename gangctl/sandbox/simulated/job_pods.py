"""The pods of a Job as the Job controller creates and evaluates them, and sets of completion indexes: ``0-2,5,7-9``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from gangctl.sandbox.objects import Object, copy
from gangctl.sandbox.simulated import controller

INDEX = "batch.kubernetes.io/job-completion-index"
"""Label and annotation of a pod of an Indexed Job."""


def parse(text: str) -> set[int]:
    """The numbers of a list of intervals."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def show(numbers: Iterable[int]) -> str:
    """The shortest list of intervals; two numbers in a row are written apart, as the Job controller does."""
    intervals: list[list[int]] = []
    for number in sorted(numbers):
        if intervals and intervals[-1][1] == number - 1:
            intervals[-1][1] = number
        else:
            intervals.append([number, number])
    return ",".join(_show_interval(first, last) for first, last in intervals)


def _show_interval(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first},{last}" if last == first + 1 else f"{first}-{last}"


FINALIZER: Final = "batch.kubernetes.io/job-tracking"
"""Finalizer of a pod until the Job controller has counted its end."""

_INDEX_VARIABLE: Final = "JOB_COMPLETION_INDEX"
_LONGEST_PREFIX: Final = 58


def is_indexed(job: Object) -> bool:
    """Whether each pod has an index of its own."""
    return bool(job["spec"].get("completionMode") == "Indexed")


def index_of(pod: Object) -> int | None:
    """The completion index of a pod."""
    value = (pod["metadata"].get("annotations") or {}).get(INDEX)
    return int(value) if value is not None else None


def is_ended(pod: Object) -> bool:
    """Whether a pod has Succeeded or Failed."""
    return (pod.get("status") or {}).get("phase") in {"Succeeded", "Failed"}


def is_deleted(pod: Object) -> bool:
    """Whether a pod is being deleted."""
    return "deletionTimestamp" in pod["metadata"]


def has_succeeded(pod: Object) -> bool:
    """Whether a pod has Succeeded."""
    return bool((pod.get("status") or {}).get("phase") == "Succeeded")


def is_failed(pod: Object, job: Object) -> bool:
    """Whether a pod counts as failed: one that is being deleted does, unless only ended ones are replaced."""
    if (pod.get("status") or {}).get("phase") == "Failed":
        return True
    if job["spec"].get("podReplacementPolicy") == "Failed":
        return False
    return is_deleted(pod) and not has_succeeded(pod)


def is_tracked(pod: Object) -> bool:
    """Whether a pod still waits for being counted."""
    return FINALIZER in (pod["metadata"].get("finalizers") or [])


def surplus(job: Object, active: Iterable[Object], wanted: int) -> list[Object]:
    """Active pods to delete: those without a valid unique index, then those with the least progress."""
    going: list[Object] = []
    staying: list[Object] = []
    taken: set[int] = set()
    for pod in sorted(active, key=_progress, reverse=True):
        index = index_of(pod)
        if is_indexed(job) and (index is None or index >= int(job["spec"]["completions"]) or index in taken):
            going.append(pod)
        else:
            staying.append(pod)
            taken.add(-1 if index is None else index)
    return [*going, *staying[max(0, wanted) :]]


def _progress(pod: Object) -> tuple[bool, bool, bool]:
    phase = (pod.get("status") or {}).get("phase")
    return bool(pod["spec"].get("nodeName")), phase == "Running", controller.is_true(pod, "Ready")


def new_pod(job: Object, index: int | None) -> Object:
    """A pod for an index, or for none."""
    template = copy(job["spec"]["template"])
    name = job["metadata"]["name"]
    metadata: Object = {
        "generateName": f"{name}-",
        "namespace": job["metadata"]["namespace"],
        "labels": template.get("metadata", {}).get("labels") or {},
        "annotations": template.get("metadata", {}).get("annotations") or {},
        "finalizers": [*(template.get("metadata", {}).get("finalizers") or []), FINALIZER],
        "ownerReferences": [
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "name": name,
                "uid": job["metadata"]["uid"],
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
    spec = template["spec"]
    if index is not None:
        ending = f"-{index}-"
        metadata["generateName"] = name[: _LONGEST_PREFIX - len(ending)] + ending
        metadata["labels"][INDEX] = str(index)
        metadata["annotations"][INDEX] = str(index)
        spec["hostname"] = f"{name}-{index}"
        for container in (*(spec.get("initContainers") or []), *spec["containers"]):
            _set_index(container)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _set_index(container: dict[str, Any]) -> None:
    variables = container.setdefault("env", [])
    if not any(variable["name"] == _INDEX_VARIABLE for variable in variables):
        source = {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX}']"}}
        variables.append({"name": _INDEX_VARIABLE, "valueFrom": source})
