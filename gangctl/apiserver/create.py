"""What an API server with JobSet does with a new JobSet: each step in its order, to the child Jobs that it refuses.

The steps: decode, prune nulls and unknown fields, default by the CRD, default by JobSet's webhook, validate by the CRD,
validate by JobSet's webhook. Then JobSet creates its claims and its Jobs, which the API server defaults and validates,
too: a JobSet of which these are refused is stored, and never runs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Final

from gangctl.api.jobset import exclusive_topology, read_jobset
from gangctl.api.meta import JOBSET_API_VERSION
from gangctl.api.objects import keep, object_at, objects_at
from gangctl.apiserver import jobs, jobsets, structural
from gangctl.apiserver.childjobs import ChildJobs, replicas_of
from gangctl.apiserver.claims import validate_claim
from gangctl.apiserver.fields import DecodeError, Decoder, fields_of
from gangctl.apiserver.jobsetwebhook import validate_create
from gangctl.apiserver.metadata import Causes, FieldCause, Object, spelled, validate_metadata
from gangctl.apiserver.minors import NEWEST
from gangctl.apiserver.pods import NOT_OF_CONTAINERS, UNQUALIFIED, validate_only_of_pods
from gangctl.apiserver.podtemplates import validate_template
from gangctl.apiserver.systemfields import identified
from gangctl.errors import ErrorKind, FieldError

GATES: Final[Mapping[str, bool]] = {"InPlaceRestart": True, "RestartJob": True}
"""Feature gates of JobSet that only allow more: whether they are on is not known of a file."""
_UID: Final = "00000000-0000-0000-0000-000000000000"
_NULL: Final = 'must be of type array: "null"'
_PREFIXES: Final = re.compile(r"Internal error: |Invalid value: .* in body (?=must|should)")
"""What messages begin with and says nothing more than the field and its value."""
_NO_FIELD: Final = "<nil>"
_ANY_NAME: Final = "x" * 5
"""Stands for what the API server appends to ``generateName``."""
_EXTENDED: Final = (
    *("nvidia.com/gpu", "amd.com/gpu", "google.com/tpu", "aws.amazon.com/neuron", "habana.ai/gaudi"),
    *("gpu.intel.com/i915", "gpu.intel.com/xe", "rdma/hca", "vpc.amazonaws.com/efa"),
)
"""Extended resources of the usual device plugins."""
_JOB_CONTROLLER: Final = "kubernetes.io/job-controller"
_MOST_CHECKED: Final = 100
"""ReplicatedJobs whose Job is checked: limits the time that a request takes."""


@dataclass(frozen=True, slots=True)
class Created:
    """A JobSet after its creation was asked for."""

    obj: Object
    """As it is stored; as far as was got where it is refused."""
    unknown: tuple[str, ...] = ()
    """Paths of fields that no release of the CRD has, which are dropped."""
    refused: tuple[FieldCause, ...] = ()
    """Why it is not stored."""
    jobs: tuple[FieldCause, ...] = ()
    """Why none of its Jobs can be created, at the fields of the JobSet."""
    never: tuple[FieldError, ...] = ()
    """Why its pods can never be, whatever the API server says of its Jobs."""

    @property
    def errors(self) -> tuple[FieldError, ...]:
        """Why it is not stored, or why it never runs."""
        return tuple(map(_field_error, self.refused)) or (*map(_job_error, self.jobs), *self.never)


def _field_error(cause: FieldCause) -> FieldError:
    kind = ErrorKind(cause.reason) if cause.reason in set(ErrorKind) else ErrorKind.INVALID
    path = cause.place or ("spec" if cause.field == _NO_FIELD else cause.field)
    if cause.message.endswith(_NULL):  # what Go writes of a list that is missing
        return FieldError(path, ErrorKind.REQUIRED, "Required value")
    return FieldError(path, kind, _PREFIXES.sub("", cause.message))


def _job_error(cause: FieldCause) -> FieldError:
    """An error of a Job, which says what follows from it, and for the most frequent one what to do."""
    error = _field_error(cause)
    cure = ": set it, or completionMode: NonIndexed" if error.path.endswith(".spec.completions") else ""
    if error.detail.endswith(NOT_OF_CONTAINERS):
        cure = _meant(error.path.rpartition("[")[2].rstrip("]"))
    return _so_never("the API server refuses such a Job", replace(error, detail=f"{error.detail}{cure}"))


def _so_never(why: str, error: FieldError) -> FieldError:
    return replace(error, detail=f"{why}, so its pods can never be: {error.detail}")


def _meant(name: str) -> str:
    """Which extended resource is probably meant by a name without a domain."""
    plain = name.lower()
    near = [one for one in _EXTENDED if plain in {last := one.rpartition("/")[2], f"{last}s"}]
    near = near or [one for one in _EXTENDED if plain == one.partition(".")[0]]
    return f"; did you mean {' or '.join(near)}?" if near else ""


def create(raw: Mapping[str, Any], namespace: str = "default", *, new: bool = True) -> Created:
    """Take a JobSet through all steps; ``namespace`` is that of the request.

    JobSet checks what restarts in place ask of Jobs only if it is ``new``.
    """
    jobset = deepcopy(dict(raw))  # orjson refuses long integers
    schema = jobsets.jobset_schema()
    try:
        unknown = _decode(jobset, namespace)
    except DecodeError as error:
        return Created(jobset, refused=(FieldCause("FieldValueTypeInvalid", error.path, str(error)),))
    # In the server's order: the schema's pruning and defaults, then JobSet's mutating webhook, then the validation.
    unknown += structural.prune(jobset, schema)
    structural.default(jobset, schema)
    jobsets.default(jobset)
    refused = [*validate_metadata(jobset, None), *structural.validate(jobset, schema)]
    # The server validates by the schema before it calls validating webhooks.
    if not refused:
        refused = validate_create(jobset, GATES, new=new)
    # That cause only says that there are others, which are listed.
    refused = [cause for cause in refused if cause != structural.NOT_CHECKED]
    refused_later = () if refused else tuple(refused_jobs(jobset))
    never = () if refused else tuple(_never(jobset))
    # What was made up for the checks is not in the result.
    for field in ("name", "namespace"):
        keep(jobset["metadata"], object_at(raw, "metadata"), field)
    return Created(jobset, tuple(sorted(unknown)), tuple(refused), refused_later, never)


def create_job(raw: Mapping[str, Any]) -> Created:
    """Decode a Job, and fill in its defaults and what its creation generates; it is not validated.

    One that exists has its status, and its labels by its UID.
    """
    job, fields = deepcopy(dict(raw)), fields_of(NEWEST)
    try:
        unknown = Decoder(fields, "Job", "v1", fields.root("batch/v1", "Job") or "").decode(job)
    except DecodeError as error:
        return Created(dict(raw), refused=(FieldCause("FieldValueTypeInvalid", error.path, str(error)),))
    metadata, status = job.get("metadata", {}), job.get("status", {})
    job["metadata"] = identified(metadata)
    jobs.default(job)
    jobs.prepare_create(job)
    job["status"] = status
    # What was made up for the labels is not in the result.
    for field in ("name", "uid"):
        keep(job["metadata"], metadata, field)
    return Created(job, tuple(sorted(unknown)))


def update(raw: Mapping[str, Any], before: Mapping[str, Any]) -> Created:
    """Make ``raw`` of ``before``, both as they are written, with the checks of a creation.

    JobSet's webhook fills in fields at creation alone. What neither has written is as it was filled in then, and what
    only ``before`` has written is taken away.
    """
    updated = create(raw, new=False)
    # An object of a cluster shows also what was filled in, which a file that is applied to it leaves there.
    is_applied = "uid" in object_at(before, "metadata") and "uid" not in object_at(raw, "metadata")
    written = _applied(before) if is_applied else before
    if updated.refused or written is None:
        return updated
    _take_away(updated.obj["spec"], object_at(raw, "spec"), object_at(written, "spec"))
    structural.default(updated.obj, jobsets.jobset_schema())
    if is_applied:
        # Labels that no file had are left, too, such as those of a policy's defaults.
        own, live = (object_at(object_at(obj, "metadata"), "labels") for obj in (written, before))
        labels = {key: value for key, value in live.items() if key not in own}
        if labels:
            metadata = updated.obj["metadata"]
            metadata["labels"] = {**labels, **object_at(metadata, "labels")}
    return updated


_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


def _applied(before: Mapping[str, Any]) -> dict[str, Any] | None:
    """What kubectl has applied last; None where its annotation does not say it."""
    text = object_at(object_at(before, "metadata"), "annotations").get(_LAST_APPLIED)
    with suppress(ValueError, RecursionError):
        applied = json.loads(text) if isinstance(text, str) else None
        return applied if isinstance(applied, dict) else None
    return None


def _take_away(stored: Object, written: Mapping[str, Any], before: Mapping[str, Any]) -> None:
    """Remove from what is stored the fields that only ``before`` has written."""
    for field, value in before.items():
        if value is not None and written.get(field) is None:
            stored.pop(field, None)
        elif isinstance(value, Mapping) and isinstance(stored.get(field), dict):
            _take_away(stored[field], object_at(written, field), value)


def _decode(jobset: Object, namespace: str) -> list[str]:
    metadata = jobset.get("metadata")
    if not isinstance(metadata, dict):
        metadata = jobset["metadata"] = {}
    unknown = Decoder(fields_of(NEWEST), "JobSet", JOBSET_API_VERSION.partition("/")[2]).decode_metadata(jobset)
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = f"{metadata['generateName']}{_ANY_NAME}"
    metadata.setdefault("namespace", namespace)
    return unknown


def errors_of_jobs(raw: Mapping[str, Any]) -> tuple[FieldError, ...]:
    """Why the Jobs of a JobSet that an API server has accepted can never be; none for one that it would not accept."""
    spec = object_at(raw, "spec")
    jobset = {**raw, "spec": {**spec, "replicatedJobs": objects_at(spec, "replicatedJobs")[:_MOST_CHECKED]}}
    # Not its rules and the keys of its lists: those of its own release hold.
    shape = Causes()
    structural.check_value(jobset, jobsets.jobset_schema(), "", shape)
    if shape:
        return ()
    return (*map(_job_error, refused_jobs(jobset)), *_never(jobset))


def refused_jobs(jobset: Object) -> Iterator[FieldCause]:
    """Why the API server refuses the Jobs of a stored JobSet, at the fields of the JobSet."""
    metadata = jobset["metadata"]
    named = {"uid": _UID, "namespace": "default", "name": f"{metadata.get('generateName', '')}{_ANY_NAME}"}
    stored = {**jobset, "metadata": {**named, **metadata}}
    children = ChildJobs(stored, JOBSET_API_VERSION)
    for index, replicated in enumerate(jobset["spec"].get("replicatedJobs", ())[:_MOST_CHECKED]):
        replicas = replicas_of(replicated)
        if replicas < 1:
            continue
        # The last Job has the longest name, and is like the others.
        job = children.job(replicated, replicas - 1)
        job["metadata"]["uid"] = _UID
        jobs.default(job)
        jobs.prepare_create(job)
        causes = jobs.validate(job, None, "", NEWEST)
        template = Causes()
        validate_template(job["spec"]["template"], "spec.template", template)
        path = f"spec.replicatedJobs[{index}]"
        # Both checks read the labels of the template.
        seen: set[tuple[str, str]] = set()
        for cause in (*causes, *template):
            place = f"{path}.name" if cause.field == "metadata.name" else f"{path}.template.{cause.field}"
            # Another error says of the same name what containers may have.
            if (place, cause.message) not in seen and not cause.message.endswith(UNQUALIFIED):
                seen.add((place, cause.message))
                yield FieldCause(cause.reason, place, cause.message)


def _never(jobset: Object) -> Iterator[FieldError]:
    """Why a stored JobSet gets no pods although its Jobs can be."""
    # Of one without Jobs, too: JobSet creates claims first (reconcileVolumeClaimPolicies).
    claims = Causes()
    for number, policy in enumerate(jobset["spec"].get("volumeClaimPolicies") or ()):
        for index, template in enumerate(policy.get("templates") or ()):
            validate_claim(template, f"spec.volumeClaimPolicies[{number}].templates[{index}]", claims)
    why = "the API server refuses such a claim, without which JobSet creates no Job"
    yield from (_so_never(why, _field_error(cause)) for cause in claims)
    for index, replicated in enumerate(jobset["spec"].get("replicatedJobs", ())[:_MOST_CHECKED]):
        if replicas_of(replicated) > 0:
            # JobSet's webhook takes it: it knows the name before it reads dependsOn.
            for number, dependency in enumerate(replicated.get("dependsOn") or ()):
                if dependency["name"] == replicated["name"]:
                    place = f"spec.replicatedJobs[{index}].dependsOn[{number}].name"
                    error = FieldError(place, ErrorKind.INVALID, f"{spelled(replicated['name'])}: leave it out")
                    yield _so_never("JobSet makes no Jobs that depend on themselves", error)
            job = object_at(replicated["template"], "spec")
            yield from _without_pods(job, f"spec.replicatedJobs[{index}].template.spec")
    yield from _without_leaders(jobset)


def _without_leaders(jobset: Object) -> Iterator[FieldError]:
    """Jobs with exclusive placement whose pods have no index: JobSet's webhook refuses them (``ValidateCreate``)."""
    specs = [object_at(entry["template"], "spec") for entry in jobset["spec"].get("replicatedJobs", ())[:_MOST_CHECKED]]
    plain = [index for index, job in enumerate(specs) if job.get("completionMode") == "NonIndexed"]
    if not plain:
        return
    parsed, _ = read_jobset(jobset)
    for index in plain:
        rj = parsed.replicated_jobs[index]
        if rj.replicas > 0 and exclusive_topology(parsed, rj) is not None:
            path = f"{rj.path}.template.spec.completionMode"
            error = FieldError(path, ErrorKind.INVALID, '"NonIndexed": use Indexed')
            yield _so_never("with exclusive placement JobSet waits for a pod with index 0", error)


def _without_pods(job: Object, path: str) -> Iterator[FieldError]:
    """Why a Job of this spec, which the API server takes, gets no pods."""
    manager = job.get("managedBy", _JOB_CONTROLLER)
    if manager != _JOB_CONTROLLER:
        error = FieldError(f"{path}.managedBy", ErrorKind.INVALID, f"{spelled(manager)}: leave it out")
        yield _so_never("the Job controller makes no pods for another manager", error)
    pods = Causes()
    validate_only_of_pods(object_at(object_at(job, "template"), "spec"), f"{path}.template.spec", pods)
    yield from (_so_never("the API server refuses such a pod", _field_error(cause)) for cause in pods)
