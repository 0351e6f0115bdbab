"""Builders of snapshots: what JobSet, its Jobs, pods and groups look like at one moment.

``context = Context(jobset("js", rj("w", 2, 4, 4), mode="Gang", uid="u"))`` and then
``context.snapshot(context.pods(READY))``. A JobSet is made at :data:`CREATED`, its pods at :data:`BORN`; they are
placed at :data:`PLACED_AT` and ready at :data:`READY_AT`; :data:`NOW` is ten minutes after the creation.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from gangctl.api.jobset import JobSet
from gangctl.api.meta import QUEUE_NAME
from gangctl.api.scheduling import NEWEST, ApiState, Generation, Observed, Scheduled
from gangctl.gang.desired import Assessment, JobProgress, Lifecycle, assess
from gangctl.gang.plan import GangPlan, PlannedJob, job_pods
from gangctl.gang.resolve import ClusterRules
from gangctl.kueue.queues import QueueFacts
from gangctl.readiness.facts import NodeFacts, PodFacts, Snapshot
from tests.gang.pipeline import read, stored
from tests.jobsets import FIXTURE_UID
from tests.kueue.workloads import queued

NOW: Final = 1_772_366_400
"""2026-03-01T12:00:00Z, as ``tests.kueue.workloads.NOW``."""
CREATED: Final = NOW - 600
BORN: Final = NOW - 500
PLACED_AT: Final = NOW - 400
READY_AT: Final = NOW - 300

Changes = Mapping[str, Any]
"""Fields of PodFacts."""

PENDING: Final[Changes] = {}
GATED: Final[Changes] = {"gates": ("example.com/wait",), "refused": "SchedulingGated"}
REFUSAL: Final = "0/3 nodes are available: 3 Insufficient cpu. no new claims to deallocate"
REFUSED: Final[Changes] = {"refused": "Unschedulable", "refusal": REFUSAL, "refused_at": PLACED_AT}
PLACED: Final[Changes] = {"node": "n0", "placed_at": PLACED_AT}
RUNNING: Final[Changes] = {**PLACED, "phase": "Running"}
READY: Final[Changes] = {**RUNNING, "ready": True, "ready_at": READY_AT}


def rfc3339(seconds: int) -> str:
    """A time as Kubernetes writes it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def condition(kind: str, at: int, *, status: bool = True, reason: str = "", message: str = "") -> dict[str, str]:
    """An entry of ``status.conditions``."""
    text = "True" if status else "False"
    return {"type": kind, "status": text, "reason": reason, "message": message, "lastTransitionTime": rfc3339(at)}


class Context:
    """One JobSet, stamped as gangctl's webhook does, on one generation; its parts are built from its plan."""

    def __init__(
        self,
        raw: Mapping[str, Any],
        generation: Generation | None = NEWEST,
        *,
        restarts: int = 0,
        suspend: bool = False,
        end: Mapping[str, str] | None = None,
        queue: str = "",
        stamped: bool = True,
        deleting: bool = False,
        created: int = CREATED,
    ) -> None:
        known = generation or NEWEST
        own = copy.deepcopy(dict(raw))
        own["metadata"].setdefault("uid", FIXTURE_UID)
        own["metadata"]["creationTimestamp"] = rfc3339(created)
        if queue:
            own["metadata"]["labels"] = {QUEUE_NAME: queue}
        if deleting:
            own["metadata"]["deletionTimestamp"] = rfc3339(NOW)
        if suspend:
            own["spec"]["suspend"] = True
        own["status"] = {"restarts": restarts, "conditions": [dict(end)] if end else []}
        self.raw: dict[str, Any] = stored(own, known) if stamped else own
        self.generation = known
        self.api = ApiState(generation, "" if generation else "the cluster serves no Workloads")
        self.jobset: JobSet = read(self.raw)
        suspended = Lifecycle.KEPT if queue else Lifecycle.RETIRED
        self.assessment: Assessment = assess(self.jobset, ClusterRules(known), suspended)

    @property
    def plan(self) -> GangPlan:
        """Its plan, where it is known to have one."""
        assert self.assessment.plan is not None
        return self.assessment.plan

    def planned(self) -> list[PlannedJob]:
        """Every Job that JobSet makes of it."""
        if self.assessment.plan is not None:
            return list(self.assessment.plan.jobs())
        return [
            PlannedJob(f"{self.jobset.name}-{rj.name}-{index}", rj.name, index, job_pods(rj), None)
            for rj in self.jobset.replicated_jobs
            for index in range(rj.replicas)
        ]

    def pods(
        self,
        state: Changes = PENDING,
        /,
        *,
        only: str | None = None,
        index: int | None = None,
        count: int | None = None,
        **changes: Any,
    ) -> list[PodFacts]:
        """All pods in one state; ``only`` of a ReplicatedJob, of its Job ``index``, ``count`` of each Job."""
        made = []
        for job in self.planned():
            if only not in {None, job.replicated_job} or index not in {None, job.index}:
                continue
            for number in range(job.pods if count is None else count):
                pod = self.pod(job, number, state)
                made.append(replace(pod, **changes))
        return made

    def pod(self, job: PlannedJob, number: int, state: Changes = PENDING) -> PodFacts:
        """The pod of a Job with this completion index."""
        rj = next(rj for rj in self.jobset.replicated_jobs if rj.name == job.replicated_job)
        fields: dict[str, Any] = {"phase": "Pending", **state}
        return PodFacts(
            namespace=self.jobset.namespace,
            name=f"{job.name}-{number}-{self.jobset.restarts}",
            jobset=self.jobset.name,
            replicated_job=job.replicated_job,
            job_index=job.index,
            attempt=self.jobset.restarts,
            group=self._named(job),
            scheduler=rj.scheduler or "default-scheduler",
            priority=0,
            created=BORN,
            deleting=False,
            **fields,
        )

    def _named(self, job: PlannedJob) -> str:
        if job.reference is None or not self.api.available:
            return ""
        return job.reference.named(self.generation)

    def jobs(self, *, only: str | None = None, index: int | None = None, **changes: Any) -> list[JobProgress]:
        """All Jobs, as they are made; ``only`` of a ReplicatedJob, and its Job ``index``."""
        return [
            replace(self.job(job), **changes)
            for job in self.planned()
            if only in {None, job.replicated_job} and index in {None, job.index}
        ]

    def job(self, job: PlannedJob) -> JobProgress:
        """A Job as JobSet has made it."""
        return JobProgress(
            namespace=self.jobset.namespace,
            name=job.name,
            jobset=self.jobset.name,
            jobset_uid=self.jobset.uid,
            replicated_job=job.replicated_job,
            index=job.index,
            attempt=self.jobset.restarts,
            succeeded=0,
            complete=False,
            deleting=False,
            active=True,
            group=self._named(job),
        )

    def groups(self, scheduled: Scheduled | None = None, **changes: Any) -> dict[str, Observed]:
        """The PodGroups of its plan; none on 1.35."""
        if self.assessment.plan is None or not self.generation.capabilities.pod_groups:
            return {}
        return {
            group.name: self._observed(group.name, ("", group.template.min_count), scheduled=scheduled, **changes)
            for group in self.plan.groups
        }

    def workload(self, **changes: Any) -> Observed | None:
        """The Workload of its plan."""
        if self.assessment.plan is None:
            return None
        workload = self.plan.workload
        return self._observed(workload.name, *((each.name, each.min_count) for each in workload.templates), **changes)

    def _observed(self, name: str, *min_counts: tuple[str, int], **changes: Any) -> Observed:
        found = Observed(
            namespace=self.jobset.namespace,
            name=name,
            uid=f"uid-{name}",
            resource_version="1",
            owner_uid=self.jobset.uid,
            owner_jobset=self.jobset.name,
            deleting=False,
            claims_jobset="",
            min_counts=min_counts,
            created=rfc3339(CREATED),
        )
        return replace(found, **changes)

    def snapshot(
        self,
        pods: Iterable[PodFacts] = (),
        *,
        jobs: Sequence[JobProgress] | None = None,
        groups: Mapping[str, Observed] | None = None,
        **given: Any,
    ) -> Snapshot:
        """It with these pods; Jobs, groups and Workload are all there unless they are given."""
        return Snapshot(
            jobset=self.jobset,
            assessment=self.assessment,
            jobs=self.jobs() if jobs is None else jobs,
            pods=list(pods),
            groups=self.groups() if groups is None else groups,
            workload=given.pop("workload", self.workload()),
            api=given.pop("api", self.api),
            **given,
        )


def changed(pods: Sequence[PodFacts], which: int | slice, /, **changes: Any) -> list[PodFacts]:
    """The same pods, with one or some of them changed: ``changed(pods, 0, ready=False)``."""
    numbers = range(len(pods))
    those = range(which, which + 1) if isinstance(which, int) else numbers[which]
    return [replace(pod, **changes) if number in those else pod for number, pod in enumerate(pods)]


def initially_scheduled(at: int = PLACED_AT) -> Scheduled:
    """The condition of a PodGroup whose pods the scheduler has placed."""
    return Scheduled(status=True, reason="Scheduled", since=rfc3339(at))


def waits_in(local_queue: str = "main", cluster_queue: str = "cq", **conditions: Any) -> QueueFacts:
    """A place in Kueue, with a Workload in these conditions: ``waits_in(QuotaReserved=no("Pending"))``."""
    return QueueFacts(local_queue, cluster_queue, queued("jobset-js", queue=local_queue, **conditions))


def nodes(*names: str, **changes: Any) -> dict[str, NodeFacts]:
    """Nodes that are ready, unless changed."""
    return {name: replace(NodeFacts(name, ready=True), **changes) for name in names}
