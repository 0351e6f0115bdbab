"""End and restart of a JobSet: its success and failure policies, and its conditions. No writes here."""

from __future__ import annotations

import re
from typing import Any, Final

from gangctl.sandbox.objects import Object
from gangctl.sandbox.simulated import conditions
from gangctl.sandbox.simulated.child_jobs import replicas_of
from gangctl.sandbox.simulated.jobset_progress import OwnedJobs, replicated_job_of

_COMPLETED: Final = "jobset completed successfully"
_EXCLUSIVE: Final = {
    "StartupPolicyInProgress": "StartupPolicyCompleted",
    "StartupPolicyCompleted": "StartupPolicyInProgress",
}


def set_condition(jobset: Object, kind: str, value: bool, reason: str, message: str) -> None:
    """Set a condition as JobSet does: False only over an existing one, and never two that exclude each other."""
    if not value and conditions.find(jobset, kind) is None:
        return
    conditions.put(
        jobset["status"], {"type": kind, "status": "True" if value else "False", "reason": reason, "message": message}
    )
    other = conditions.find(jobset, _EXCLUSIVE.get(kind, ""))
    if value and other is not None:
        other["status"] = "False"


def is_finished(jobset: Object) -> bool:
    """Whether the JobSet has completed or failed."""
    return conditions.is_true(jobset, "Completed") or conditions.is_true(jobset, "Failed")


def _end(jobset: Object, kind: str, reason: str, message: str) -> None:
    set_condition(jobset, kind, value=True, reason=reason, message=message)
    jobset["status"]["terminalState"] = kind
    text = _COMPLETED if kind == "Completed" else "jobset failed"
    set_condition(jobset, "RestartingJobSet", value=False, reason=f"JobSet{kind}", message=text)


def apply_success_policy(jobset: Object, jobs: OwnedJobs) -> bool:
    """Complete the JobSet if enough of the relevant Jobs have succeeded; returns whether it did."""
    policy = jobset["spec"].get("successPolicy") or {}
    targets = policy.get("targetReplicatedJobs") or [each["name"] for each in jobset["spec"]["replicatedJobs"]]
    expected = sum(replicas_of(each) for each in jobset["spec"]["replicatedJobs"] if each["name"] in targets)
    if policy.get("operator") == "Any":
        expected = 1
    if sum(replicated_job_of(job) in targets for job in jobs.succeeded) < expected:
        return False
    _end(jobset, "Completed", "AllJobsCompleted", _COMPLETED)
    return True


def apply_failure_policy(jobset: Object, jobs: OwnedJobs) -> None:
    """Fail the JobSet, or begin another run by counting ``status.restarts`` up."""
    policy = jobset["spec"].get("failurePolicy")
    if not policy:
        first = _first_failed(jobs.failed)
        _end(jobset, "Failed", "FailedJobs", _naming("jobset failed due to one or more job failures", first))
        return
    rule, job = _matching(policy.get("rules") or [], jobs.failed)
    action = rule["action"] if rule else "RestartJobSet"
    if action == "FailJobSet":
        message = _naming("applying FailJobSet failure policy action", job)
        _end(jobset, "Failed", "FailJobSetFailurePolicyAction", message)
    elif action == "RestartJobSet":
        if _counted(jobset) >= int(policy.get("maxRestarts") or 0):
            message = _naming("jobset failed due to reaching max number of restarts", job)
            _end(jobset, "Failed", "ReachedMaxRestarts", message)
        else:
            _restart(jobset, action, rule, job)
            jobset["status"]["restartsCountTowardsMax"] = _counted(jobset) + 1
    elif action == "RestartJobSetAndIgnoreMaxRestarts":
        _restart(jobset, action, rule, job)


def _counted(jobset: Object) -> int:
    return int(jobset["status"].get("restartsCountTowardsMax") or 0)


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
    failure = conditions.find(job, "Failed") or {}
    reasons = rule.get("onJobFailureReasons")
    patterns = rule.get("onJobFailureMessagePatterns")
    targets = rule.get("targetReplicatedJobs")
    return (
        (not reasons or failure.get("reason") in reasons)
        and (not patterns or any(re.search(pattern, failure.get("message", "")) for pattern in patterns))
        and (not targets or replicated_job_of(job) in targets)
    )


def _first_failed(failed: list[Object]) -> Object:
    return min(failed, key=lambda job: str((conditions.find(job, "Failed") or {}).get("lastTransitionTime", "")))


def _naming(message: str, job: Object) -> str:
    return f"{message} (first failed job: {job['metadata']['name']})"
