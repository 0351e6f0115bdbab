"""Changes of a Job's status: what the server refuses of a Job controller that is mistaken.

Most rules look only at what has changed, so that a status from before them can still be repaired.
"""

from __future__ import annotations

from gangctl.sandbox.errors import Cause
from gangctl.sandbox.objects import Object
from gangctl.sandbox.rules.causes import Causes
from gangctl.sandbox.rules.metadata import validate_metadata_update

_COUNTS = ("active", "succeeded", "failed", "ready", "terminating")


def validate_status(new: Object, old: Object) -> Causes:
    """What is wrong with a new status."""
    causes = validate_metadata_update(new, old)
    status, before = new.get("status", {}), old.get("status", {})
    for field in _COUNTS:
        if status.get(field, 0) < 0:
            causes.invalid(f"status.{field}", status[field], "must be greater than or equal to 0")
    _end(status, before, causes)
    _finished(status, before, causes)
    _exclusive(status, causes)
    _change(new, status, before, causes)
    return causes


def _is(status: Object, condition: str) -> bool:
    return any(each["type"] == condition and each["status"] == "True" for each in status.get("conditions", ()))


def _became(status: Object, before: Object, condition: str) -> bool:
    return _is(status, condition) and not _is(before, condition)


def _conditions(causes: Causes, told: str) -> None:
    causes.append(Cause("FieldValueInvalid", "status.conditions", f"Invalid value: {told}"))


def _end(status: Object, before: Object, causes: Causes) -> None:
    """The times and conditions that an end needs."""
    completed, failed = _became(status, before, "Complete"), _became(status, before, "Failed")
    if (completed or failed) and _is(status, "Complete") and _is(status, "Failed"):
        _conditions(causes, "cannot set Complete=True and Failed=true conditions")
    if completed and _is(status, "FailureTarget"):
        _conditions(causes, "cannot set Complete=True and FailureTarget=true conditions")
    ended = status.get("completionTime")
    if ended is not None and not _is(status, "Complete") and ended != before.get("completionTime"):
        causes.invalid(
            "status.completionTime", ended, "cannot set completionTime when there is no Complete=True condition"
        )
    if ended is None and completed:
        causes.required("status.completionTime", "completionTime is required for Complete jobs")
    started = status.get("startTime")
    if started is not None and ended is not None and ended < started:
        causes.invalid("status.completionTime", ended, "must be equal to or after `startTime`")
    if failed and not _is(status, "FailureTarget"):
        _conditions(causes, "cannot set Failed=True condition without the FailureTarget=true condition")
    if completed and not _is(status, "SuccessCriteriaMet"):
        _conditions(causes, "cannot set Complete=True condition without the SuccessCriteriaMet=true condition")


def _finished(status: Object, before: Object, causes: Causes) -> None:
    finished = _is(status, "Complete") or _is(status, "Failed")
    changed = finished and not (_is(before, "Complete") or _is(before, "Failed"))
    if finished and status.get("active", 0) > 0 and (changed or status.get("active") != before.get("active")):
        causes.invalid("status.active", status["active"], "active>0 is invalid for finished job")
    if changed and status.get("startTime") is None:
        causes.required("status.startTime", "startTime is required for finished job")
    uncounted = status.get("uncountedTerminatedPods", {})
    if changed and (uncounted.get("failed") or uncounted.get("succeeded")):
        causes.invalid("status.uncountedTerminatedPods", uncounted, "must be empty for finished job")
    terminating = status.get("terminating", 0)
    if finished and terminating > 0 and (changed or terminating != before.get("terminating")):
        causes.invalid("status.terminating", terminating, "terminating>0 is invalid for finished job")
    ready, active = status.get("ready", 0), status.get("active", 0)
    if ready > active and (ready, active) != (before.get("ready", 0), before.get("active", 0)):
        causes.invalid("status.ready", ready, "cannot set more ready pods than active")


def _exclusive(status: Object, causes: Causes) -> None:
    if _is(status, "SuccessCriteriaMet"):
        for other in ("Failed", "FailureTarget"):
            if _is(status, other):
                _conditions(causes, f"cannot set SuccessCriteriaMet=True and {other}=true conditions")


def _change(job: Object, status: Object, before: Object, causes: Causes) -> None:
    for condition in ("Failed", "Complete", "FailureTarget"):
        if _is(before, condition) and not _is(status, condition):
            _conditions(causes, f"cannot disable the terminal {condition}=True condition")
    for field in ("failed", "succeeded"):
        if status.get(field, 0) < before.get(field, 0):
            causes.invalid(f"status.{field}", status.get(field, 0), f"cannot decrease the {field} counter")
    ended, started = before.get("completionTime"), before.get("startTime")
    if None not in {ended, status.get("completionTime")} and ended != status["completionTime"]:
        causes.invalid("status.completionTime", status["completionTime"], "field is immutable")
    if started is not None and started != status.get("startTime") and not job["spec"].get("suspend"):
        told = "field is immutable for unsuspended job once set"
        causes.invalid("status.startTime", status.get("startTime"), told)
    if _is(before, "SuccessCriteriaMet") and not _is(status, "SuccessCriteriaMet"):
        _conditions(causes, "cannot disable the SuccessCriteriaMet=True condition")
    if _is(before, "Complete") and _became(status, before, "SuccessCriteriaMet"):
        _conditions(causes, "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions")
