"""Failed pods of a Job: pod failure policies, and backoff limits per index."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from gangctl.sandbox.objects import Object
from gangctl.sandbox.simulated import job_pods
from gangctl.sandbox.simulated.job_pods import index_of, is_failed, is_tracked

_FAILURES: Final = "batch.kubernetes.io/job-index-failure-count"
_IGNORED: Final = "batch.kubernetes.io/job-index-ignored-failure-count"
"""Annotations of a pod: the failures of its index before it."""


@dataclass(frozen=True, slots=True)
class _Match:
    """The rule that a failed pod matches, and a description of what matched."""

    action: str
    message: str


def _match(job: Object, pod: Object) -> _Match | None:
    for index, rule in enumerate((job["spec"].get("podFailurePolicy") or {}).get("rules") or ()):
        what = _exit_code(pod, rule["onExitCodes"]) if "onExitCodes" in rule else _condition(pod, rule)
        if what is not None:
            return _Match(rule["action"], f"{what} matching {rule['action']} rule at index {index}")
    return None


def _exit_code(pod: Object, wanted: Object) -> str | None:
    status = pod.get("status") or {}
    for container in (*status.get("containerStatuses", ()), *status.get("initContainerStatuses", ())):
        code = (container["state"].get("terminated") or {}).get("exitCode")
        named = wanted.get("containerName") in {None, container["name"]}
        if code and named and (code in wanted["values"]) == (wanted["operator"] == "In"):
            return f"Container {container['name']} for pod {_place(pod)} failed with exit code {code}"
    return None


def _condition(pod: Object, rule: Object) -> str | None:
    wanted = {(pattern["type"], pattern["status"]) for pattern in rule["onPodConditions"]}
    for condition in (pod.get("status") or {}).get("conditions", ()):
        if (condition["type"], condition["status"]) in wanted:
            return f"Pod {_place(pod)} has condition {condition['type']}"
    return None


def _place(pod: Object) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def failing_message(job: Object, pods: Iterable[Object]) -> str:
    """Why a failed pod fails the Job by its policy; "" if none does."""
    found = (_match(job, pod) for pod in pods if is_failed(pod, job))
    return next((match.message for match in found if match is not None and match.action == "FailJob"), "")


def is_counted(job: Object, pod: Object) -> bool:
    """Whether the failure of a pod counts towards backoff limits."""
    match = _match(job, pod)
    return match is None or match.action != "Ignore"


def has_limit_per_index(job: Object) -> bool:
    """Whether indexes fail of their own."""
    return "backoffLimitPerIndex" in job["spec"]


def failed_indexes(job: Object, pods: Iterable[Object]) -> set[int]:
    """The indexes that have failed, with those of pods that are counted now."""
    found = job_pods.parse((job.get("status") or {}).get("failedIndexes") or "")
    found |= {index for pod in pods if (index := index_of(pod)) is not None and _fails_index(job, pod)}
    return {index for index in found if index < int(job["spec"]["completions"])}


def _fails_index(job: Object, pod: Object) -> bool:
    if not is_failed(pod, job):
        return False
    match = _match(job, pod)
    if match is not None and match.action in {"FailIndex", "Ignore"}:
        return match.action == "FailIndex"
    return _failures(pod, _FAILURES) >= int(job["spec"]["backoffLimitPerIndex"])


def _failures(pod: Object, annotation: str) -> int:
    return int((pod["metadata"].get("annotations") or {}).get(annotation, 0))


def unreplaced(job: Object, pods: Iterable[Object], others: Collection[int | None]) -> dict[int, Object]:
    """By index the failed pod with the most failures before it, but for the indexes of ``others``."""
    failed = (pod for pod in pods if is_tracked(pod) and is_failed(pod, job) and index_of(pod) not in others)
    ordered = sorted(failed, key=lambda pod: _failures(pod, _FAILURES) + _failures(pod, _IGNORED))
    return {index: pod for pod in ordered if (index := index_of(pod)) is not None}


def next_failure_counts(job: Object, replaced: Object | None) -> dict[str, str]:
    """The annotations of a pod that replaces a failed one, or none."""
    if replaced is None:
        return {_FAILURES: "0"}
    counted = is_counted(job, replaced)
    ignored = _failures(replaced, _IGNORED) + (not counted)
    counts = {_FAILURES: str(_failures(replaced, _FAILURES) + counted)}
    return {**counts, _IGNORED: str(ignored)} if ignored else counts
