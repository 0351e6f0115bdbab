"""The pure part of the JobSet controller, release 0.12: child Jobs, progress, end and restart of a JobSet."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from gangctl.api import meta
from gangctl.api.objects import condition_of
from gangctl.apiserver.childjobs import ALONE, ALONE_COUNTED, replicas_of, restarts_alone
from gangctl.sandbox.objects import Object, put_condition
from gangctl.sandbox.simulated import controller


def is_suspended(obj: Object) -> bool:
    """Whether a JobSet or Job is suspended."""
    return bool(obj["spec"].get("suspend"))


def replicated_job_of(job: Object) -> str:
    """The ReplicatedJob that a Job belongs to."""
    return str(job["metadata"]["labels"].get(meta.REPLICATED_JOB_NAME, ""))


@dataclass
class OwnedJobs:
    """The Jobs that a JobSet controls: those of an earlier run, and those of this one by how they are."""

    previous: list[Object] = field(default_factory=list)
    active: list[Object] = field(default_factory=list)
    succeeded: list[Object] = field(default_factory=list)
    failed: list[Object] = field(default_factory=list)

    @classmethod
    def sort(cls, jobset: Object, jobs: Iterable[Object]) -> OwnedJobs:
        """Sort all Jobs."""
        restarts = int(jobset["status"].get("restarts") or 0)
        owned = cls()
        for job in jobs:
            labels = job["metadata"]["labels"]
            alone = restarts_alone(jobset, replicated_job_of(job))[int(labels[meta.JOB_INDEX])]
            # Without the feature gate RestartJob Jobs have no such label.
            if int(labels[meta.RESTART_ATTEMPT]) < restarts or int(labels.get(meta.JOB_RESTART_ATTEMPT, alone)) < alone:
                owned.previous.append(job)
            elif controller.is_true(job, "Complete"):
                owned.succeeded.append(job)
            elif controller.is_true(job, "Failed"):
                owned.failed.append(job)
            else:
                owned.active.append(job)
        return owned

    @property
    def names(self) -> set[str]:
        """Names in use."""
        return {job["metadata"]["name"] for job in (*self.previous, *self.active, *self.succeeded, *self.failed)}


def replicated_jobs_status(jobset: Object, jobs: OwnedJobs) -> list[dict[str, Any]]:
    """``status.replicatedJobsStatus``, in the order JobSet keeps it in."""
    entries = {
        rj["name"]: {"name": rj["name"], "ready": 0, "succeeded": 0, "failed": 0, "active": 0, "suspended": 0}
        for rj in jobset["spec"].get("replicatedJobs", ())
    }
    for job in jobs.active:
        entry = entries[replicated_job_of(job)]
        status = job.get("status") or {}
        entry["ready"] += _is_ready(job)
        entry["active"] += bool(status.get("active"))
        entry["suspended"] += is_suspended(job)
    for job in jobs.succeeded:
        entries[replicated_job_of(job)]["succeeded"] += 1
    for job in jobs.failed:
        entries[replicated_job_of(job)]["failed"] += 1
    # These are in the status alone: the Jobs of earlier attempts are deleted.
    for old in jobset["status"].get("replicatedJobsStatus") or []:
        entries[old["name"]] |= {counter: old[counter] for counter in (ALONE, ALONE_COUNTED) if counter in old}
    return [entries[name] for name in sorted(entries, reverse=True)]


def _is_ready(job: Object) -> bool:
    spec, status = job["spec"], job.get("status") or {}
    expected = int(spec["parallelism"])
    if spec.get("completions") is not None:
        expected = min(expected, int(spec["completions"]))
    return int(status.get("succeeded") or 0) + int(status.get("ready") or 0) >= expected


def is_started(entry: dict[str, Any], replicas: int) -> bool:
    """Whether all Jobs of a ReplicatedJob have been ready."""
    return int(entry["failed"] + entry["ready"] + entry["succeeded"]) == replicas


class Sequence:
    """Which ReplicatedJobs may start now, by ``dependsOn`` and ``startupPolicy``."""

    def __init__(self, jobset: Object, statuses: list[dict[str, Any]]) -> None:
        """``statuses`` is ``status.replicatedJobsStatus`` as it is now."""
        policy = jobset["spec"].get("startupPolicy") or {}
        self.in_order = policy.get("startupPolicyOrder") == "InOrder"
        self._replicas = {rj["name"]: replicas_of(rj) for rj in jobset["spec"].get("replicatedJobs", ())}
        self._statuses = {entry["name"]: entry for entry in statuses}

    def may_start(self, replicated_job: Object) -> bool:
        """Whether its dependencies are met."""
        for dependency in replicated_job.get("dependsOn") or []:
            name = dependency["name"]
            if dependency["status"] == "Complete" and self._statuses[name]["succeeded"] != self._replicas[name]:
                return False
            if dependency["status"] == "Ready" and not is_started(self._statuses[name], self._replicas[name]):
                return False
        return True

    def has_started(self, replicated_job: Object) -> bool:
        """Whether the next one in order may start."""
        name = replicated_job["name"]
        return is_started(self._statuses[name], self._replicas[name])

    @property
    def all_ready(self) -> bool:
        """Whether every Job is ready or has succeeded."""
        ready = sum(entry["ready"] + entry["succeeded"] for entry in self._statuses.values())
        return bool(ready == sum(self._replicas.values()))


_COMPLETED: Final = "jobset completed successfully"
_EXCLUSIVE: Final = {
    "StartupPolicyInProgress": "StartupPolicyCompleted",
    "StartupPolicyCompleted": "StartupPolicyInProgress",
}


def set_condition(jobset: Object, kind: str, value: bool, reason: str, message: str) -> None:
    """Set a condition as JobSet does: False only over an existing one, and never two that exclude each other."""
    if not value and not condition_of(jobset, kind):
        return
    put_condition(
        jobset["status"], {"type": kind, "status": "True" if value else "False", "reason": reason, "message": message}
    )
    other = condition_of(jobset, _EXCLUSIVE.get(kind, ""))
    if value and other:
        other["status"] = "False"


def announced(before: Object, after: Object) -> list[Object]:
    """The conditions that JobSet has an event for; not those that another one made False in passing."""
    known = {condition["type"]: condition for condition in (before.get("status") or {}).get("conditions") or []}
    changed = []
    for condition in after["status"].get("conditions") or []:
        old = known.get(condition["type"], {})
        fields = [field for field in ("status", "reason", "message") if condition[field] != old.get(field)]
        if fields and (fields != ["status"] or condition["status"] == "True"):
            changed.append(condition)
    return changed


def ended(jobset: Object) -> Object | None:
    """The condition of a JobSet that has completed or failed."""
    return controller.first_true(jobset, ("Completed", "Failed"))


def end(jobset: Object, kind: str, reason: str, message: str) -> None:
    set_condition(jobset, kind, value=True, reason=reason, message=message)
    jobset["status"]["terminalState"] = kind
    text = _COMPLETED if kind == "Completed" else "jobset failed"
    set_condition(jobset, "RestartingJobSet", value=False, reason=f"JobSet{kind}", message=text)


def apply_success_policy(jobset: Object, jobs: OwnedJobs) -> bool:
    """Complete the JobSet if enough of the relevant Jobs have succeeded; returns whether it did."""
    policy = jobset["spec"].get("successPolicy") or {}
    targets = policy.get("targetReplicatedJobs") or [rj["name"] for rj in jobset["spec"].get("replicatedJobs", ())]
    expected = sum(replicas_of(rj) for rj in jobset["spec"].get("replicatedJobs", ()) if rj["name"] in targets)
    if policy.get("operator") == "Any":
        expected = 1
    if sum(replicated_job_of(job) in targets for job in jobs.succeeded) < expected:
        return False
    end(jobset, "Completed", "AllJobsCompleted", _COMPLETED)
    return True
