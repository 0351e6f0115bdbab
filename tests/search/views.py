"""The model's values as gangctl keeps them: made as JSON of the API, and read by gangctl's own projections."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any, Final

from gangctl.api import jobset as projections
from gangctl.api.objects import objects_at
from gangctl.api.scheduling import Observed, named_group, observe
from gangctl.api.scheduling_versions import ADAPTERS
from gangctl.cluster.members import project_job, project_jobset
from gangctl.errors import FieldError
from gangctl.gang.admission import inject_patch, reference_of_job, stamp_patch
from gangctl.gang.desired import JobProgress
from gangctl.gang.resolve import ClusterRules, resolve
from tests.gang.json_patch import apply
from tests.gang.pipeline import child_job
from tests.search.state import FOREIGN, ORPHAN, Job, JobSet, Object
from tests.search.world import NAMESPACE, STRAY, World

Raw = dict[str, Any]

CREATED: Final = "2026-01-01T00:00:00Z"
_FOREIGN: Final = {"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": "other", "controller": True}


def uid_of(number: int) -> str:
    """The UID of a JobSet."""
    return f"{number:08d}-0000-4000-8000-{number:012d}"


class Views:
    """Reads the values of one world; each is read once."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.adapter = ADAPTERS[world.generation]
        self.rules = ClusterRules(world.generation)
        self._owners = {uid_of(number): number for number in range(1, 9)}
        self._raw_jobsets: dict[JobSet, Raw] = {}
        self._jobsets: dict[JobSet, projections.JobSet] = {}
        self._groups: dict[tuple[int, int, int, int], str] = {}
        self._numbers: dict[tuple[int, Job], int] = {}
        self._numbered: dict[JobProgress, int] = {}
        self._progress: list[tuple[JobProgress, Job] | None] = [None]
        self._observed: dict[Object, Observed] = {}
        self._bodies: dict[tuple[str, str], Raw] = {}

    def jobset(self, jobset: JobSet) -> projections.JobSet:
        """What gangctl keeps of a JobSet."""
        view = self._jobsets.get(jobset)
        if view is None:
            view = self._jobsets[jobset] = project_jobset(self._raw_jobset(jobset))
        return view

    def _raw_jobset(self, jobset: JobSet) -> Raw:
        raw = self._raw_jobsets.get(jobset)
        if raw is not None:
            return raw
        raw = self.world.manifest(uid_of(jobset.uid))
        jobs = raw["spec"]["replicatedJobs"]
        for field in ("parallelism", "completions") if jobset.resized else ():
            jobs[0]["template"]["spec"][field] += jobset.resized
        if jobset.stamped:
            resolution = resolve(project_jobset(raw), self.rules)
            if resolution.errors:
                raise ValueError(f"{self.world.name}: {resolution.errors[0]}")
            raw = apply(raw, stamp_patch(raw, resolution.stamps))
        raw["metadata"]["creationTimestamp"] = CREATED
        if jobset.deleting:
            raw["metadata"]["deletionTimestamp"] = CREATED
        raw["spec"]["suspend"] = jobset.suspended
        raw["status"] = self._jobset_status(jobset)
        self._raw_jobsets[jobset] = raw
        return raw

    def _jobset_status(self, jobset: JobSet) -> Raw:
        entries: list[Raw] = [{"name": job.name, "jobRestarts": []} for job in self.world.jobs]
        for (position, _), own in zip(self.world.slots, jobset.own, strict=True):
            entries[position]["jobRestarts"].append(own)
        for entry in entries:
            entry["jobRestartsCountTowardsMax"] = entry["jobRestarts"]
        status: Raw = {
            "restarts": jobset.restarts,
            "restartsCountTowardsMax": jobset.restarts,
            "replicatedJobsStatus": entries,
        }
        if jobset.ended:
            status["conditions"] = [{"type": jobset.ended, "status": "True"}]
            status["terminalState"] = jobset.ended
        return status

    def group(self, jobset: JobSet, slot: int) -> str:
        """The group that the API server writes into a Job of the JobSet as it is now."""
        key = jobset.uid * (1 if jobset.stamped else -1), slot, jobset.restarts, jobset.own[slot]
        group = self._groups.get(key)
        if group is None:
            raw = self._raw_child(jobset, slot, jobset.restarts, jobset.own[slot])
            group = self._groups[key] = named_group(self._linked(raw)["spec"]["template"]["spec"])
        return group

    def _raw_child(self, jobset: JobSet, slot: int, attempt: int, own: int) -> Raw:
        position, index = self.world.slots[slot]
        raw = child_job(copy.deepcopy(self._raw_jobset(jobset)), position, index)
        if self.world.jobs[position].name == self.world.stray:
            raw["spec"]["template"]["spec"]["schedulingGroup"] = {"podGroupName": STRAY}
        raw["metadata"]["labels"] |= {
            "jobset.sigs.k8s.io/restart-attempt": str(attempt),
            "jobset.sigs.k8s.io/job-restart-attempt": str(own),
        }
        return raw

    def _linked(self, raw: Raw) -> Raw:
        """A Job as the API server stores it: its pods name their group."""
        reference = reference_of_job(raw)
        if isinstance(reference, FieldError):
            raise TypeError(f"{self.world.name}: {reference}")
        return raw if reference is None else apply(raw, inject_patch(reference, self.adapter))

    def number(self, jobset: JobSet | None, slot: int, job: Job | None) -> int:
        """A number for what gangctl keeps of a Job: the same for Jobs that it cannot tell apart."""
        if job is None or job.owner == ORPHAN:
            return 0
        key = slot, job
        number = self._numbers.get(key)
        if number is None:
            progress = project_job(self._raw_job(jobset, slot, job))
            if progress is None:
                raise ValueError(f"{self.world.name}: gangctl does not read {job}")
            number = self._numbered.setdefault(progress, len(self._progress))
            if number == len(self._progress):
                self._progress.append((progress, job))
            self._numbers[key] = number
        return number

    def progress(self, number: int) -> JobProgress | None:
        """What gangctl keeps of a Job."""
        entry = self._progress[number]
        return None if entry is None else entry[0]

    def known(self, number: int) -> Job | None:
        """A Job of which gangctl keeps that."""
        entry = self._progress[number]
        return None if entry is None else entry[1]

    def _raw_job(self, jobset: JobSet | None, slot: int, job: Job) -> Raw:
        own = tuple(job.own if i == slot else 0 for i in range(len(self.world.slots)))
        stamped = bool(job.group) if jobset is None or jobset.uid != job.owner else jobset.stamped
        raw = self._raw_child(JobSet(job.owner, stamped, own, restarts=job.attempt), slot, job.attempt, job.own)
        raw = self._linked(raw)
        raw["spec"]["parallelism"] = job.size
        if raw["spec"].get("completions") is not None and job.size > self._shape(slot)[0]:
            raw["spec"]["completions"] = job.size
        if job.deleting:
            raw["metadata"]["deletionTimestamp"] = CREATED
        conditions = {"Decided": "SuccessCriteriaMet", "Complete": "Complete", "Failed": "Failed"}
        status = {
            "active": job.waiting + job.bound,
            "terminating": job.ending,
            "succeeded": job.succeeded,
            "failed": job.failed,
            "failedIndexes": ",".join(map(str, range(job.lost))) or None,
        }
        raw["status"] = {name: value for name, value in status.items() if value}
        if job.finished:
            raw["status"]["conditions"] = [{"type": conditions[job.finished], "status": "True"}]
        return raw

    def _shape(self, slot: int) -> tuple[int, int | None]:
        job = self.world.jobs[self.world.slots[slot][0]]
        return job.parallelism, job.completions

    def accept(self, kind: str, body: Raw) -> Object:
        """A new object as gangctl wrote it; its UID is the store's affair."""
        name, metadata = body["metadata"]["name"], body["metadata"]
        self._bodies[kind, name] = body
        observed = observe(self.adapter, kind, body)
        owner = self._owners[metadata["ownerReferences"][0]["uid"]]
        parent = body["spec"].get("parentCompositePodGroupName", "")
        return Object(kind, name, 0, owner, observed.min_counts, parent=parent)

    def observed(self, one: Object) -> Observed:
        """What gangctl keeps of an object."""
        view = self._observed.get(one)
        if view is None:
            view = self._observed[one] = observe(self.adapter, one.kind, self._raw_object(one))
        return view

    def _raw_object(self, one: Object) -> Raw:
        raw = copy.deepcopy(self._bodies.get((one.kind, one.name)) or _bare(one))
        raw["metadata"] |= {"uid": f"{one.name}/{one.uid}", "resourceVersion": "1", "creationTimestamp": CREATED}
        if one.owner == ORPHAN:
            del raw["metadata"]["ownerReferences"]
        elif one.owner == FOREIGN:
            raw["metadata"]["ownerReferences"] = [dict(_FOREIGN)]
            raw["metadata"].pop("labels", None)
        if one.deleting:
            raw["metadata"]["deletionTimestamp"] = CREATED
        _set_counts(one.kind, raw["spec"], dict(one.counts))
        if one.placed:
            kinds = ("PodGroupInitiallyScheduled", "PodGroupScheduled")
            raw["status"] = {"conditions": [{"type": kinds[self.world.minor == "1.36"], "status": "True"}]}
        return raw


def _bare(one: Object) -> Raw:
    policy = {"gang": {"minCount": 1}}
    metadata = {"name": one.name, "namespace": NAMESPACE, "ownerReferences": []}
    return {"kind": one.kind, "metadata": metadata, "spec": {"schedulingPolicy": policy}}


def _set_counts(kind: str, spec: Raw, counts: Mapping[str, int]) -> None:
    if kind == "CompositePodGroup":
        spec["schedulingPolicy"]["gang"]["minGroupCount"] = counts[""]
    elif kind == "PodGroup":
        spec["schedulingPolicy"]["gang"]["minCount"] = counts[""]
    else:
        for entry in _templates(spec):
            policy = entry.get("policy") or entry["schedulingPolicy"]
            policy["gang"]["minCount"] = counts[entry["name"]]


def _templates(spec: Raw) -> Iterable[Raw]:
    above = objects_at(spec, "compositePodGroupTemplates")
    return objects_at(above[0] if above else spec, "podGroups" if "podGroups" in spec else "podGroupTemplates")
