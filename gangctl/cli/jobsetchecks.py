"""Errors of a JobSet in a file that the API server or JobSet would reject.

A file was not checked by a schema or a webhook. Errors are found here too, so that a plan is never
shown for a JobSet that cannot be created.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from gangctl.api.jobset import JobSet, ReplicatedJob, read_jobset
from gangctl.api.meta import JOBSET_API_VERSION
from gangctl.errors import ErrorKind, FieldError, one_line
from gangctl.gang.convert import check_words
from gangctl.gang.validate import MAX_JOBS

GENERATED: Final = "xxxxx"
"""Placeholder for the five characters that the API server appends to ``generateName``."""

_JOB_NAME: Final = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_NO_LABEL: Final = 'is no DNS label: lower case letters, digits and "-", starting with a letter, at most 63 characters'
_POD_SUFFIX: Final = "-abcde"


def _check_identity(raw: Mapping[str, Any], jobset: JobSet) -> Iterator[FieldError]:
    version = raw.get("apiVersion")
    if version != JOBSET_API_VERSION:
        yield FieldError("apiVersion", ErrorKind.NOT_SUPPORTED, f'is "{version}", known: {JOBSET_API_VERSION}')
    if not jobset.name and not jobset.generate_name:
        yield FieldError("metadata.name", ErrorKind.REQUIRED, "a JobSet needs a name or a generateName")
    elif jobset.name and not _JOB_NAME.fullmatch(jobset.name):
        detail = f'"{one_line(jobset.name, 80)}" ({len(jobset.name)} characters) {_NO_LABEL}'
        yield FieldError("metadata.name", ErrorKind.INVALID, detail)
    if not jobset.replicated_jobs:
        yield FieldError("spec.replicatedJobs", ErrorKind.REQUIRED, "a JobSet needs at least one replicated job")
    jobs = sum(rj.replicas for rj in jobset.replicated_jobs)
    if jobs > MAX_JOBS:
        yield FieldError("spec.replicatedJobs", ErrorKind.TOO_MANY, f"{jobs} Jobs, at most {MAX_JOBS} can be shown")


def _check_job_name(jobset: JobSet, rj: ReplicatedJob, job_spec: Mapping[str, Any]) -> Iterator[FieldError]:
    """JobSet rejects names whose longest Job or pod name is no DNS label (RFC 1035); check its own name first."""
    job = f"{jobset.name}-{rj.name}-{max(0, rj.replicas - 1)}"
    names = [("Job", job)]
    if rj.completions and job_spec.get("completionMode") != "NonIndexed":
        names.append(("pod", f"{job}-{rj.completions - 1}{_POD_SUFFIX}"))
    for what, name in names:
        if not _JOB_NAME.fullmatch(name):
            detail = f'{what} name "{one_line(name, 80)}" ({len(name)} characters) {_NO_LABEL}'
            yield FieldError(f"{rj.path}.name", ErrorKind.INVALID, detail)
            return


def _check_replicated_jobs(raw: Mapping[str, Any], jobset: JobSet) -> Iterator[FieldError]:
    earlier: set[str] = set()
    for entry, rj in zip(raw["spec"]["replicatedJobs"], jobset.replicated_jobs, strict=True):
        if "name" not in entry:
            yield FieldError(f"{rj.path}.name", ErrorKind.REQUIRED, "a replicated job needs a name")
        elif rj.name in earlier:
            yield FieldError(f"{rj.path}.name", ErrorKind.DUPLICATE, f'"{rj.name}" is the name of an earlier one')
        for index, name in enumerate(rj.depends_on):
            if name not in earlier:
                detail = f'there is no earlier replicated job "{name}" to depend on'
                yield FieldError(f"{rj.path}.dependsOn[{index}].name", ErrorKind.INVALID, detail)
        earlier.add(rj.name)
        if _JOB_NAME.fullmatch(jobset.name):
            yield from _check_job_name(jobset, rj, (entry.get("template") or {}).get("spec") or {})


def check_jobset(raw: Mapping[str, Any]) -> tuple[JobSet, tuple[FieldError, ...], bool]:
    """A JobSet as it was read, its errors, and whether its types are valid."""
    jobset, malformed = read_jobset(raw)
    if malformed:
        return jobset, malformed, False
    if not jobset.name and jobset.generate_name:
        jobset = replace(jobset, name=f"{jobset.generate_name}{GENERATED}")
    errors = [*_check_identity(raw, jobset), *check_words(raw)]
    if jobset.replicated_jobs:
        errors += _check_replicated_jobs(raw, jobset)
    return jobset, tuple(errors), True
