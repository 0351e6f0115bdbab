"""What gangs have in a cluster: the projection of each kind, its store, and what is asked of the stores.

Of each object a few fields are kept, because there are many objects.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from typing import Any, Final

from gangctl.api.jobset import JobSet, read_jobset
from gangctl.api.meta import JOB_INDEX, JOB_RESTART_ATTEMPT, REPLICATED_JOB_NAME, RESTART_ATTEMPT
from gangctl.api.objects import controller_owner, integer_at, is_jobset_owner, object_at, objects
from gangctl.api.scheduling import Observed, named_group, observe
from gangctl.api.scheduling_versions import SchedulingAdapter
from gangctl.api.store import Store
from gangctl.errors import InputError
from gangctl.gang.desired import JobProgress
from gangctl.gang.naming import without_uid
from gangctl.readiness.facts import EndedPod, PodFacts, Refused

_INDEXES: Final = re.compile(r"\b([0-9]{1,10})(?:-([0-9]{1,10}))?\b")


def _number(text: object) -> int:
    # isdigit is true for "²", too, which int() refuses.
    return int(text) if isinstance(text, str) and text.isascii() and text.isdigit() else 0


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
    status, spec = raw.get("status") or {}, object_at(raw, "spec")
    conditions = objects(status.get("conditions"))
    true = [condition.get("type") for condition in conditions if condition.get("status") == "True"]
    succeeded, failed = integer_at(status, "succeeded"), integer_at(status, "failed")
    work_queue = spec.get("completions") is None
    return JobProgress(
        namespace=meta.get("namespace", ""),
        name=meta.get("name", ""),
        # Interned: the same few texts for all Jobs of a JobSet.
        jobset=sys.intern(str(owner.get("name", ""))),
        jobset_uid=sys.intern(str(owner.get("uid", ""))),
        replicated_job=sys.intern(str(labels.get(REPLICATED_JOB_NAME, ""))),
        index=_number(labels.get(JOB_INDEX)),
        attempt=_number(labels.get(RESTART_ATTEMPT)),
        succeeded=succeeded,
        complete="Complete" in true,
        deleting=bool(meta.get("deletionTimestamp")),
        failed=failed,
        active=bool(status.get("active") or status.get("terminating")),
        # A work queue keeps the pods that it has after its first success (manageJob of the Job controller). Otherwise
        # 0: a pod that starts must not change the projection.
        unfinished=integer_at(status, "active") if failed or (succeeded and work_queue) else 0,
        group=sys.intern(named_group(object_at(object_at(spec, "template"), "spec"))),
        failed_indexes=count_indexes(status.get("failedIndexes")),
        job_attempt=_number(labels.get(JOB_RESTART_ATTEMPT)),
        decided="SuccessCriteriaMet" in true,
        suspended=spec.get("suspend") is True,
        uid=str(meta.get("uid", "")),
    )


def count_indexes(text: object) -> int:
    """How many completion indexes a text like ``1,3-5,7`` (as in Job status) names; 0 for anything else."""
    if not isinstance(text, str):
        return 0
    ranges = _INDEXES.findall(text)
    return sum(max(0, int(last or first) - int(first) + 1) for first, last in ranges)


def project_scheduling(adapter: SchedulingAdapter, kind: str) -> Callable[[dict[str, Any]], Observed]:
    """The projection of Workloads or PodGroups of one generation."""

    def project(raw: dict[str, Any]) -> Observed:
        return observe(adapter, kind, raw)

    return project


def job_store() -> Store[JobProgress]:
    """Child Jobs, also by their JobSet."""
    return Store({"jobset": lambda job: [(job.namespace, job.jobset)]})


def pod_store() -> Store[PodFacts]:
    """Pods, also by their JobSet and by node."""
    return Store(
        {
            "jobset": lambda pod: [(pod.namespace, pod.jobset)],
            "node": lambda pod: [pod.node] if pod.node else [],
        }
    )


def ended_store() -> Store[EndedPod]:
    """Pods that have finished, also by their JobSet."""
    return Store({"jobset": lambda one: [(one.pod.namespace, one.pod.jobset)]})


def scheduling_store() -> Store[Observed]:
    """Workloads or groups, also by the UID of their owner, by the JobSet that they claim, and by what they had.

    That is the JobSet of a Workload; a group is found by the name of its Workload without the UID of the JobSet.
    """
    return Store(
        {
            "owner": lambda observed: [observed.owner_uid] if observed.owner_uid else [],
            "claims": lambda observed: [(observed.namespace, observed.claims_jobset)] if observed.claims_jobset else [],
            "orphans": lambda observed: [(observed.namespace, observed.orphan_of)] if observed.orphan_of else [],
            "orphaned_groups": _orphaned_groups,
        }
    )


def _orphaned_groups(observed: Observed) -> list[tuple[str, str]]:
    return [(observed.namespace, without_uid(observed.orphan_of))] if observed.orphan_of else []


def refusal_store() -> Store[Refused]:
    """Refusals, also by the object that they are about."""
    return Store({"about": lambda refused: [(refused.namespace, refused.kind, sys.intern(refused.name))]})


def claimed(workloads: Store[Observed], namespace: str, jobset: str) -> str | None:
    """Name of a Workload that another controller made for this JobSet.

    One that a JobSet of this name controls is gangctl's, or garbage of an earlier JobSet of the same name. So is one
    that gangctl made and nothing controls.
    """
    for workload in workloads.by_index("claims", (namespace, jobset)):
        if workload.owner_jobset != jobset and not workload.orphan_of:
            return workload.name
    return None


def last_refusal(stores: Iterable[Store[Refused]], namespace: str, kind: str, name: str) -> Refused | None:
    """The last refusal of an object."""
    refusals = (refused for store in stores for refused in store.by_index("about", (namespace, kind, name)))
    return max(refusals, key=lambda refused: refused.at, default=None)
