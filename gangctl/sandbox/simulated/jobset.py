"""Simulates the JobSet controller, release 0.12, with the feature gates ElasticJobSet and RestartJob.

Left out: volumeClaimPolicies, in-place restarts (alpha), and the pod webhook of exclusive placement.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from typing import Any, ClassVar, Final

from gangctl.api.meta import JOB_INDEX, JOBSET_CONTROLLER
from gangctl.api.objects import Key, condition_of, controller_owner, copy
from gangctl.apiserver import childjobs
from gangctl.sandbox.api import Api
from gangctl.sandbox.errors import StatusError
from gangctl.sandbox.objects import Object
from gangctl.sandbox.simulated import jobset_progress as progress
from gangctl.sandbox.simulated.controller import Recorder, SimulatedController, key_of

Event = tuple[str, str]
"""Reason and message."""


def apply_failure_policy(jobset: Object, jobs: progress.OwnedJobs) -> Event | None:
    """Fail the JobSet, or begin another run of it or of a Job by counting restarts up; returns a warning of a restart.

    Those of conditions come on top.
    """
    policy = jobset["spec"].get("failurePolicy")
    if not policy:
        first = _first_failed(jobs.failed)
        progress.end(jobset, "Failed", "FailedJobs", _naming("jobset failed due to one or more job failures", first))
        return None
    rule, job = _matching(policy.get("rules") or [], jobs.failed)
    action = rule["action"] if rule else "RestartJobSet"
    counts = action in {"RestartJobSet", "RestartJob"}
    if action == "FailJobSet":
        message = _naming("applying FailJobSet failure policy action", job)
        progress.end(jobset, "Failed", "FailJobSetFailurePolicyAction", message)
    elif counts and _counted(jobset) >= int(policy.get("maxRestarts") or 0):
        message = _naming("jobset failed due to reaching max number of restarts", job)
        progress.end(jobset, "Failed", "ReachedMaxRestarts", message)
    elif action in {"RestartJob", "RestartJobAndIgnoreMaxRestarts"}:
        name, index = progress.replicated_job_of(job), int(job["metadata"]["labels"][JOB_INDEX])
        (entry,) = (status for status in jobset["status"]["replicatedJobsStatus"] if status["name"] == name)
        for field in (childjobs.ALONE, childjobs.ALONE_COUNTED) if counts else (childjobs.ALONE,):
            entry[field] = childjobs.restarts_alone(jobset, name, field)
            entry[field][index] += 1
        return f"{action}FailurePolicyAction", _naming(f"applying {action} failure policy action", job)
    else:
        jobset["status"]["restarts"] = int(jobset["status"].get("restarts") or 0) + 1
        reason = f"FailurePolicy_{rule['name']}" if rule else "DefaultFailurePolicy"
        message = _naming(f"applying {action} failure policy action", job)
        progress.set_condition(jobset, "RestartingJobSet", value=True, reason=reason, message=message)
        if counts:
            jobset["status"]["restartsCountTowardsMax"] = int(jobset["status"].get("restartsCountTowardsMax") or 0) + 1
        return f"{action}FailurePolicyAction", message
    return None


def _counted(jobset: Object) -> int:
    """The restarts that count towards the most allowed, those of single Jobs included."""
    status = jobset["status"]
    alone = (sum(entry.get(childjobs.ALONE_COUNTED) or ()) for entry in status["replicatedJobsStatus"])
    return int(status.get("restartsCountTowardsMax") or 0) + sum(alone)


def _matching(rules: list[dict[str, Any]], failed: list[Object]) -> tuple[Object | None, Object]:
    """The first rule that fits a failed Job, and the Job that failed first of those it fits."""
    for rule in rules:
        fitting = [job for job in failed if _fits(rule, job)]
        if fitting:
            return rule, _first_failed(fitting)
    return None, _first_failed(failed)


def _fits(rule: dict[str, Any], job: Object) -> bool:
    failure = condition_of(job, "Failed")
    reasons = rule.get("onJobFailureReasons")
    patterns = rule.get("onJobFailureMessagePatterns")
    targets = rule.get("targetReplicatedJobs")
    return (
        (not reasons or failure.get("reason") in reasons)
        and (not patterns or any(re.search(pattern, failure.get("message", "")) for pattern in patterns))
        and (not targets or progress.replicated_job_of(job) in targets)
    )


def _first_failed(failed: list[Object]) -> Object:
    return min(failed, key=lambda job: str(condition_of(job, "Failed").get("lastTransitionTime", "")))


def _naming(message: str, job: Object) -> str:
    return f"{message} (first failed job: {job['metadata']['name']})"


_MERGED_MAPS: Final = ("labels", "annotations")
_MERGED_LISTS: Final = ("tolerations", "schedulingGates")


class JobSetController(SimulatedController[Key]):
    """Creates, suspends, resumes, resizes and restarts the Jobs of JobSets."""

    name: ClassVar[str] = "jobset"
    # A webhook that does not respond must not delay other JobSets.
    workers: ClassVar[int] = 4

    def __init__(self, api: Api) -> None:
        """Run beside ``api``."""
        super().__init__(api)
        self._jobsets = self.mirror("jobsets.jobset.x-k8s.io", self._changed)
        self._jobs = self.mirror("jobs.batch", self._owned_changed, index=_jobset_of)
        self._services = self.mirror("services", self._owned_changed)
        self._events = Recorder(api, self.caller, "jobset-controller")

    def _changed(self, jobset: Object) -> None:
        self.queue.add(key_of(jobset))

    def _owned_changed(self, obj: Object) -> None:
        owner = controller_owner(obj["metadata"])
        if owner is not None and owner["kind"] == "JobSet":
            self.queue.add((obj["metadata"]["namespace"], owner["name"]))

    async def reconcile(self, key: Key) -> None:
        """Reconcile one JobSet's Jobs and status once."""
        stored = self._jobsets.get(key)
        if stored is None or "deletionTimestamp" in stored["metadata"]:
            return
        jobset = copy(stored)
        # The definition does not require a spec.
        if (jobset.setdefault("spec", {}).get("managedBy") or JOBSET_CONTROLLER) != JOBSET_CONTROLLER:
            return
        # A number without omitempty: it is present as soon as there is a status.
        jobset.setdefault("status", {}).setdefault("restarts", 0)
        jobs = progress.OwnedJobs.sort(jobset, self._jobs.indexed(jobset["metadata"]["uid"]))
        jobset["status"]["replicatedJobsStatus"] = progress.replicated_jobs_status(jobset, jobs)
        restarted = await self._advance(jobset, jobs)
        if jobset["status"] != stored.get("status"):
            written = await self.update(self._jobsets, jobset, "status")
            # After the write, as JobSet does it: one that fails is tried again, and would be reported twice.
            for condition in progress.announced(stored, written):
                warning = condition["type"] == "Failed" or (
                    condition["type"] == "RestartingJobSet" and condition["status"] == "True"
                )
                await self._record(written, condition["reason"], condition["message"], warning=warning, again=True)
            # Again: a second restart because of the same Job has the same words.
            if restarted is not None:
                await self._record(written, *restarted, warning=True, again=True)

    async def _advance(self, jobset: Object, jobs: progress.OwnedJobs) -> Event | None:
        """One step, in the status and with Jobs; returns what to say of a restart once the status is written."""
        if ended := progress.ended(jobset):
            await self._delete_jobs(jobs.active)
            await self.expire(self._jobsets, jobset, key_of(jobset), ended)
            return None
        await self._delete_jobs(jobs.previous)
        sequence = progress.Sequence(jobset, jobset["status"]["replicatedJobsStatus"])
        if not progress.is_suspended(jobset) and sequence.all_ready:
            progress.set_condition(
                jobset, "RestartingJobSet", value=False, reason="JobsReady", message="all jobs are ready"
            )
        if jobs.failed:
            # Only the status changes here: the next reconcile finds the Jobs of the run before by the stored restarts.
            return apply_failure_policy(jobset, jobs)
        if jobs.succeeded and progress.apply_success_policy(jobset, jobs):
            return None
        # Before the Jobs: the names of their pods resolve only with it.
        await self._create_service(jobset)
        await self._resize(jobset, jobs.active)
        await self._create_jobs(jobset, jobs, sequence)
        if progress.is_suspended(jobset):
            await self._suspend(jobset, jobs.active)
        else:
            await self._resume(jobset, jobs.active, sequence)
        return None

    async def _delete_jobs(self, jobs: Iterable[Object]) -> None:
        for job in jobs:
            if "deletionTimestamp" not in job["metadata"]:
                # In the foreground: the name of a Job is free only when its pods are gone.
                await self.delete(self._jobs, job, propagation="Foreground")

    async def _create_service(self, jobset: Object) -> None:
        """The headless Service behind the pods' names."""
        key = jobset["metadata"]["namespace"], childjobs.subdomain_of(jobset)
        if not childjobs.has_hostnames(jobset) or self._services.get(key) is not None:
            return
        published = (jobset["spec"].get("network") or {}).get("publishNotReadyAddresses", True)
        service: Object = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {
                "name": key[1],
                "namespace": key[0],
                "ownerReferences": childjobs.owned(jobset, self._jobsets.kind.api_version),
            },
            "spec": {
                "clusterIP": "None",
                "selector": {"jobset.sigs.k8s.io/jobset-name": jobset["metadata"]["name"]},
                "publishNotReadyAddresses": published,
            },
        }
        await self.create(self._services, service)

    async def _resize(self, jobset: Object, active: list[Object]) -> None:
        """Update running Jobs of a ReplicatedJob whose parallelism and completions changed together."""
        if not self.api.registry.gates.get("ElasticJobSet"):
            return
        wanted = {rj["name"]: rj["template"]["spec"] for rj in jobset["spec"].get("replicatedJobs", ())}
        for job in active:
            spec = wanted[progress.replicated_job_of(job)]
            size = spec.get("parallelism"), spec.get("completions")
            if size[0] == size[1] and size != (job["spec"].get("parallelism"), job["spec"].get("completions")):
                resized = childjobs.without_unknown_fields(copy(job))
                resized["spec"].update(parallelism=size[0], completions=size[1])
                await self.update(self._jobs, resized)

    async def _create_jobs(self, jobset: Object, jobs: progress.OwnedJobs, sequence: progress.Sequence) -> None:
        policy = jobset["spec"].get("failurePolicy") or {}
        blocked = bool(jobs.previous) and policy.get("restartStrategy") == "BlockingRecreate"
        waits = sequence.in_order and not progress.is_suspended(jobset)
        # Jobs of an earlier run have their names until they are gone.
        taken = jobs.names
        alone = bool(self.api.registry.gates.get("RestartJob"))
        children = childjobs.ChildJobs(jobset, self._jobsets.kind.api_version, restart_alone=alone)
        for replicated_job in jobset["spec"].get("replicatedJobs", ()):
            if not sequence.may_start(replicated_job):
                continue
            if waits and sequence.has_started(replicated_job):
                continue
            if not blocked:
                missing = [job for job in children.of(replicated_job) if job["metadata"]["name"] not in taken]
                await self._create_all(jobset, missing)
            if waits:
                _set_in_order(jobset)
                return
        if waits:
            message = "in order startup policy has completed"
            progress.set_condition(
                jobset, "StartupPolicyCompleted", value=True, reason="InOrderStartupPolicyCompleted", message=message
            )

    async def _create_all(self, jobset: Object, jobs: list[Object]) -> None:
        """Create as many as admission allows; the first error is raised after all were tried."""
        answers = await asyncio.gather(*(self.create(self._jobs, job) for job in jobs), return_exceptions=True)
        refused = {
            job["metadata"]["name"]: answer
            for job, answer in zip(jobs, answers, strict=True)
            if isinstance(answer, StatusError)
        }
        if refused:
            lines = [f'job "{name}" creation failed with error: {error.message}' for name, error in refused.items()]
            await self._record(jobset, "JobCreationFailed", "\n".join(lines), warning=True)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer

    async def _suspend(self, jobset: Object, active: list[Object]) -> None:
        for job in active:
            if not progress.is_suspended(job):
                suspended = childjobs.without_unknown_fields(copy(job))
                suspended["spec"]["suspend"] = True
                await self.update(self._jobs, suspended)
        progress.set_condition(jobset, "Suspended", value=True, reason="SuspendedJobs", message="jobset is suspended")
        message = "jobset is suspended"
        progress.set_condition(jobset, "RestartingJobSet", value=False, reason="JobSetSuspended", message=message)

    async def _resume(self, jobset: Object, active: list[Object], sequence: progress.Sequence) -> None:
        for replicated_job in jobset["spec"].get("replicatedJobs", ()):
            if not sequence.may_start(replicated_job):
                continue
            if sequence.in_order and sequence.has_started(replicated_job):
                continue
            for job in active:
                if progress.replicated_job_of(job) == replicated_job["name"] and progress.is_suspended(job):
                    # Two writes: only a Job that never started may change its pod template.
                    resumed = copy(job)
                    if (job.get("status") or {}).get("startTime"):
                        del resumed["status"]["startTime"]
                        resumed = copy(await self.update(self._jobs, resumed, "status"))
                    _merge_template(resumed["spec"]["template"], replicated_job["template"]["spec"]["template"])
                    resumed["spec"]["suspend"] = False
                    await self.update(self._jobs, childjobs.without_unknown_fields(resumed))
            if sequence.in_order:
                _set_in_order(jobset)
                return
        progress.set_condition(jobset, "Suspended", value=False, reason="ResumeJobs", message="jobset is resumed")

    async def _record(self, jobset: Object, reason: str, note: str, *, warning: bool, again: bool = False) -> None:
        await self._events.record(jobset, self._jobsets.kind.api_version, reason, note, warning=warning, again=again)


def _jobset_of(job: Object) -> str | None:
    owner = controller_owner(job["metadata"])
    return str(owner["uid"]) if owner is not None and owner["kind"] == "JobSet" else None


def _set_in_order(jobset: Object) -> None:
    message = "in order startup policy is in progress"
    progress.set_condition(
        jobset, "StartupPolicyInProgress", value=True, reason="InOrderStartupPolicyInProgress", message=message
    )


def _merge_template(target: Object, template: Object) -> None:
    """Fields that may change while a JobSet is suspended: the template's values win, other values of the Job stay."""
    metadata = target.setdefault("metadata", {})
    for field in _MERGED_MAPS:
        _merge_map(metadata, field, (template.get("metadata") or {}).get(field))
    _merge_map(target["spec"], "nodeSelector", template["spec"].get("nodeSelector"))
    for field in _MERGED_LISTS:
        own: list[Any] = target["spec"].get(field) or []
        merged = [*own, *(entry for entry in template["spec"].get(field) or [] if entry not in own)]
        if merged:
            target["spec"][field] = merged


def _merge_map(target: Object, field: str, values: Any) -> None:
    merged = {**(target.get(field) or {}), **(values or {})}
    if merged:
        target[field] = merged
