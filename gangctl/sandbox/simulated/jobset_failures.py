"""Failed Jobs of a JobSet: its failure policy, release 0.12."""

from __future__ import annotations

import re
from typing import Any

from gangctl.api.meta import JOB_INDEX
from gangctl.sandbox.objects import Object
from gangctl.sandbox.simulated import controller
from gangctl.sandbox.simulated.jobset_progress import (
    ALONE,
    ALONE_COUNTED,
    OwnedJobs,
    end,
    replicated_job_of,
    restarts_alone,
    set_condition,
)

Event = tuple[str, str]
"""Reason and message."""


def apply_failure_policy(jobset: Object, jobs: OwnedJobs) -> Event | None:
    """Fail the JobSet, or begin another run of it or of a Job by counting restarts up; returns a warning of the latter.

    Other warnings are made of conditions.
    """
    policy = jobset["spec"].get("failurePolicy")
    if not policy:
        first = _first_failed(jobs.failed)
        end(jobset, "Failed", "FailedJobs", _naming("jobset failed due to one or more job failures", first))
        return None
    rule, job = _matching(policy.get("rules") or [], jobs.failed)
    action = rule["action"] if rule else "RestartJobSet"
    counts = action in {"RestartJobSet", "RestartJob"}
    if action == "FailJobSet":
        message = _naming("applying FailJobSet failure policy action", job)
        end(jobset, "Failed", "FailJobSetFailurePolicyAction", message)
    elif counts and _counted(jobset) >= int(policy.get("maxRestarts") or 0):
        message = _naming("jobset failed due to reaching max number of restarts", job)
        end(jobset, "Failed", "ReachedMaxRestarts", message)
    elif action in {"RestartJob", "RestartJobAndIgnoreMaxRestarts"}:
        _restart_alone(jobset, job, counts=counts)
        return f"{action}FailurePolicyAction", _naming(f"applying {action} failure policy action", job)
    else:
        _restart(jobset, action, rule, job)
        if counts:
            jobset["status"]["restartsCountTowardsMax"] = int(jobset["status"].get("restartsCountTowardsMax") or 0) + 1
    return None


def _counted(jobset: Object) -> int:
    """The restarts that count towards the most allowed, those of single Jobs included."""
    status = jobset["status"]
    alone = (sum(entry.get(ALONE_COUNTED) or ()) for entry in status["replicatedJobsStatus"])
    return int(status.get("restartsCountTowardsMax") or 0) + sum(alone)


def _restart_alone(jobset: Object, job: Object, *, counts: bool) -> None:
    name, index = replicated_job_of(job), int(job["metadata"]["labels"][JOB_INDEX])
    (entry,) = (status for status in jobset["status"]["replicatedJobsStatus"] if status["name"] == name)
    for field in (ALONE, ALONE_COUNTED) if counts else (ALONE,):
        entry[field] = restarts_alone(jobset, name, field)
        entry[field][index] += 1


def _restart(jobset: Object, action: str, rule: Object | None, job: Object) -> None:
    status = jobset["status"]
    status["restarts"] = int(status.get("restarts") or 0) + 1
    reason = f"FailurePolicy_{rule['name']}" if rule else "DefaultFailurePolicy"
    message = _naming(f"applying {action} failure policy action", job)
    set_condition(jobset, "RestartingJobSet", value=True, reason=reason, message=message)


def _matching(rules: list[dict[str, Any]], failed: list[Object]) -> tuple[Object | None, Object]:
    """The first rule that fits a failed Job, and the Job that failed first of those it fits."""
    for rule in rules:
        fitting = [job for job in failed if _fits(rule, job)]
        if fitting:
            return rule, _first_failed(fitting)
    return None, _first_failed(failed)


def _fits(rule: dict[str, Any], job: Object) -> bool:
    failure = controller.find(job, "Failed") or {}
    reasons = rule.get("onJobFailureReasons")
    patterns = rule.get("onJobFailureMessagePatterns")
    targets = rule.get("targetReplicatedJobs")
    return (
        (not reasons or failure.get("reason") in reasons)
        and (not patterns or any(re.search(pattern, failure.get("message", "")) for pattern in patterns))
        and (not targets or replicated_job_of(job) in targets)
    )


def _first_failed(failed: list[Object]) -> Object:
    return min(failed, key=lambda job: str((controller.find(job, "Failed") or {}).get("lastTransitionTime", "")))


def _naming(message: str, job: Object) -> str:
    return f"{message} (first failed job: {job['metadata']['name']})"
