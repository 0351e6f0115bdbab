"""What the informers keep of each object: a few fields, because there are many.

Pods are not among them: for gangs their Jobs tell enough, and only the leader follows them, for readiness.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from gangctl.api.jobset import SCHEDULING_REFERENCES, JobSet, read_jobset
from gangctl.api.meta import (
    JOB_INDEX,
    REPLICATED_JOB_NAME,
    RESTART_ATTEMPT,
    controller_owner,
    is_jobset_owner,
)
from gangctl.api.scheduling import Observed, SchedulingAdapter, observe
from gangctl.client.shape import objects
from gangctl.errors import InputError
from gangctl.gang.progress import JobProgress


def _number(text: object) -> int:
    return int(text) if isinstance(text, str) and text.isascii() and text.isdigit() else 0


def _count(status: dict[str, Any], key: str) -> int:
    value = status.get(key)
    return value if isinstance(value, int) else 0


def project_jobset(raw: dict[str, Any]) -> JobSet:
    """Keep the projection. InputError for what no CRD let in: planned with defaults, it would be another gang."""
    jobset, errors = read_jobset(raw)
    if errors or not jobset.uid:
        raise InputError(str(errors[0]) if errors else "a JobSet without a UID")
    return jobset


def project_job(raw: dict[str, Any]) -> JobProgress | None:
    """Keep a JobSet's child Job; others are of no interest."""
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
        complete=any(
            c.get("type") == "Complete" and c.get("status") == "True" for c in objects(status.get("conditions"))
        ),
        deleting=bool(meta.get("deletionTimestamp")),
        failed=(failed := _count(status, "failed")),
        active=bool(status.get("active") or status.get("terminating")),
        beside_failed=_count(status, "active") if failed else 0,
        reference_field=_reference_field(raw),
    )


def _reference_field(raw: dict[str, Any]) -> str:
    found: Any = raw
    for key in ("spec", "template", "spec"):
        found = found.get(key) if isinstance(found, dict) else None
    pod_spec = found if isinstance(found, dict) else {}
    return next((field for field in SCHEDULING_REFERENCES if pod_spec.get(field)), "")


def project_scheduling(adapter: SchedulingAdapter, kind: str) -> Callable[[dict[str, Any]], Observed]:
    """The projection of Workloads or PodGroups of one generation."""

    def project(raw: dict[str, Any]) -> Observed:
        return observe(adapter, kind, raw)

    return project
