"""What the informers keep of each object: a few fields, because there are many objects.

Pods are not among them: gangs need only their Jobs, and only the leader follows pods, for readiness.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any, Final

from gangctl.api.jobset import JobSet, read_jobset
from gangctl.api.meta import (
    JOB_INDEX,
    JOB_RESTART_ATTEMPT,
    REPLICATED_JOB_NAME,
    RESTART_ATTEMPT,
    controller_owner,
    is_jobset_owner,
)
from gangctl.api.objects import objects
from gangctl.api.scheduling import Observed, SchedulingAdapter, named_group, observe
from gangctl.errors import InputError
from gangctl.gang.desired import JobProgress

_INDEXES: Final = re.compile(r"\b([0-9]{1,10})(?:-([0-9]{1,10}))?\b")


def _number(text: object) -> int:
    return int(text) if isinstance(text, str) and text.isascii() and text.isdigit() else 0


def _count(status: dict[str, Any], key: str) -> int:
    value = status.get(key)
    return value if isinstance(value, int) else 0


def project_jobset(raw: dict[str, Any]) -> JobSet:
    """Keep the projection. InputError for what no CRD accepts: planned with defaults, it would be another gang."""
    jobset, errors = read_jobset(raw)
    if errors or not jobset.uid:
        raise InputError(str(errors[0]) if errors else "a JobSet without a UID")
    return jobset


def project_job(raw: dict[str, Any]) -> JobProgress | None:
    """Keep a JobSet's child Job; others are ignored."""
    meta = raw.get("metadata") or {}
    labels = meta.get("labels") or {}
    owner = controller_owner(meta)
    if owner is None or not is_jobset_owner(owner):
        return None
    status = raw.get("status") or {}
    return JobProgress(
        namespace=meta.get("namespace", ""),
        name=meta.get("name", ""),
        jobset=sys.intern(str(owner.get("name", ""))),
        jobset_uid=sys.intern(str(owner.get("uid", ""))),
        replicated_job=sys.intern(str(labels.get(REPLICATED_JOB_NAME, ""))),
        index=_number(labels.get(JOB_INDEX)),
        attempt=_number(labels.get(RESTART_ATTEMPT)),
        succeeded=_count(status, "succeeded"),
        complete="Complete" in (true := _true_conditions(status)),
        deleting=bool(meta.get("deletionTimestamp")),
        failed=(failed := _count(status, "failed")),
        active=bool(status.get("active") or status.get("terminating")),
        beside_failed=_count(status, "active") if failed else 0,
        group=sys.intern(named_group(_pod_spec(raw))),
        failed_indexes=count_indexes(status.get("failedIndexes")),
        job_attempt=_number(labels.get(JOB_RESTART_ATTEMPT)),
        decided="SuccessCriteriaMet" in true,
    )


def _true_conditions(status: dict[str, Any]) -> list[object]:
    return [each.get("type") for each in objects(status.get("conditions")) if each.get("status") == "True"]


def count_indexes(text: object) -> int:
    """How many completion indexes a text like ``1,3-5,7`` (as in Job status) names; 0 for anything else."""
    if not isinstance(text, str):
        return 0
    ranges = _INDEXES.findall(text)
    return sum(max(0, int(last or first) - int(first) + 1) for first, last in ranges)


def _pod_spec(raw: dict[str, Any]) -> dict[str, Any]:
    found: Any = raw
    for key in ("spec", "template", "spec"):
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def project_scheduling(adapter: SchedulingAdapter, kind: str) -> Callable[[dict[str, Any]], Observed]:
    """The projection of Workloads or PodGroups of one generation."""

    def project(raw: dict[str, Any]) -> Observed:
        return observe(adapter, kind, raw)

    return project
