"""State of gangctl's AdmissionCheck for a Kueue Workload: a pure state machine, and its parameters.

An AdmissionCheck names one in ``spec.parameters``; without parameters the defaults hold. The
CustomResourceDefinition is generated from the models (:mod:`gangctl.controllers.checks.activity`).

Kueue creates the entries of ``status.admissionChecks``, resets them at every eviction and counts retries; gangctl
moves its own entry from Pending to Ready, Retry or Rejected while quota is reserved, and never at any other time:
after a Retry that arrives after an eviction, a Workload is never queued again. The digest of the admission is at the
end of the entry's message, so that it survives restarts of gangctl, and is removed when Kueue resets the entry.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt, ValidationError
from pydantic.alias_generators import to_camel

from gangctl.api.meta import API_VERSION, JOBSET_GROUP
from gangctl.api.modelerrors import field_errors
from gangctl.errors import FieldError, one_line
from gangctl.kueue.amounts import moment
from gangctl.kueue.names import CHECK_CONTROLLER, GROUP, PARAMETERS_KIND
from gangctl.kueue.objects import CheckState, QueuedWorkload

PLURAL: Final = "gangadmissionparameters"

_DAY: Final = 86_400


class _CheckPart(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True)


class GangAdmissionParametersSpec(_CheckPart):
    """How long quota is held for a gang, and what happens after that; durations in seconds."""

    timeout_seconds: Annotated[StrictInt, Field(ge=1, le=3600)] = Field(
        default=60,
        description="How long a Workload may hold quota while the objects of its gang are not there. "
        "gangctl creates these objects in milliseconds.",
    )
    on_failure: Literal["Retry", "Reject"] = Field(
        default="Retry",
        description="What follows a timeout, or a policy that denies: Retry gives the quota back and tries again "
        "later, Reject deactivates the Workload.",
    )
    max_retries: Annotated[StrictInt, Field(ge=0, le=100)] = Field(
        default=10, description="Retries in a row, after which the Workload is deactivated."
    )
    retry_base_seconds: Annotated[StrictInt, Field(ge=1, le=_DAY)] = Field(
        default=60, description="Delay of the first retry; each further one waits twice as long."
    )
    retry_max_seconds: Annotated[StrictInt, Field(ge=1, le=_DAY)] = Field(
        default=1800, description="The longest delay of a retry."
    )


class GangAdmissionParameters(_CheckPart):
    """Parameters of AdmissionChecks whose controllerName is gangctl.dev/gang-ready."""

    # Other metadata, and fields that the API server adds, are ignored.
    model_config = ConfigDict(extra="ignore", frozen=True, alias_generator=to_camel)

    api_version: Literal["gangctl.dev/v1alpha1"]
    kind: Literal["GangAdmissionParameters"]
    spec: GangAdmissionParametersSpec


DEFAULTS: Final = GangAdmissionParametersSpec()


def read_parameters(raw: Mapping[str, Any]) -> GangAdmissionParametersSpec | tuple[FieldError, ...]:
    """The parameters of a raw object, or all errors in them."""
    try:
        return GangAdmissionParameters.model_validate({**raw, "kind": PARAMETERS_KIND, "apiVersion": API_VERSION}).spec
    except ValidationError as problem:
        return tuple(field_errors(problem))


MESSAGE_DELAY_SECONDS: Final = 5.0
"""No message is written before: objects are created in milliseconds, and each message is a write."""
JITTER: Final = 0.1
"""Fraction of a delay by which retries of many Workloads are spread."""

_DIGEST: Final = re.compile(r" \[admission ([0-9a-f]{12})\]\Z")
_MESSAGE_CHARACTERS: Final = 1024


class Progress(StrEnum):
    """Progress of a JobSet towards its start."""

    NOTHING_TO_DO = "NothingToDo"
    """gangctl creates no objects for it."""
    UNDER_WAY = "UnderWay"
    DENIED = "Denied"
    DONE = "Done"


@dataclass(frozen=True, slots=True)
class CheckProgress:
    """Progress of a JobSet, with a message for users."""

    progress: Progress
    message: str


class State(StrEnum):
    """``state`` of an entry of ``status.admissionChecks``."""

    PENDING = "Pending"
    READY = "Ready"
    RETRY = "Retry"
    REJECTED = "Rejected"


@dataclass(frozen=True, slots=True)
class Decision:
    """What to write into the entry: nothing if ``state`` is None.

    ``retry_seconds`` is required with Retry: otherwise Kueue would retry at once.
    ``requeue_seconds`` is the delay before a resync without a change.
    """

    state: State | None = None
    message: str = ""
    retry_seconds: int | None = None
    requeue_seconds: float | None = None


NOTHING: Final = Decision()


def is_ours(controller: str) -> bool:
    """Whether an AdmissionCheck with this ``spec.controllerName`` is gangctl's."""
    return controller == CHECK_CONTROLLER


def of_jobset(workload: QueuedWorkload) -> bool:
    """Whether its owner is a JobSet; other kinds in such a ClusterQueue are approved at once."""
    group, _, version = workload.owner_api_version.partition("/")
    return workload.owner_kind == "JobSet" and group == JOBSET_GROUP and bool(version) and bool(workload.owner_uid)


def is_variant(workload: QueuedWorkload) -> bool:
    """Whether its owner is a Workload of Kueue, which has the job (gate ConcurrentAdmission): Kueue checks it alone."""
    return workload.owner_kind == "Workload" and workload.owner_api_version.partition("/")[0] == GROUP


def reserved(workload: QueuedWorkload) -> bool:
    """Whether it has reserved quota and is not being evicted: only then may the entry change."""
    # DeactivationTarget comes first: spec.active false and the eviction follow it.
    ended = any(workload.holds(condition) for condition in ("Finished", "Evicted", "DeactivationTarget"))
    holds = workload.holds("QuotaReserved") and bool(workload.cluster_queue)
    return holds and workload.active and not workload.deleting and not ended


def digest_of(workload: QueuedWorkload) -> str:
    """Twelve hexadecimal digits of the Workload's admission: its ClusterQueue, flavors and counts."""
    given = [
        [assignment.name, sorted(assignment.flavors.items()), assignment.count] for assignment in workload.assignments
    ]
    text = json.dumps([workload.cluster_queue, given], separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:12]


def message_digest(message: str) -> str:
    """The digest in a message, empty if there is none."""
    match = _DIGEST.search(message)
    return match[1] if match is not None else ""


def waiting_since(workload: QueuedWorkload, entry: CheckState, started: datetime) -> datetime:
    """Start of its timeout: the reservation, the entry's last change, or ``started`` if it is later.

    That is when this process has begun to see it: time without a running gangctl does not count.
    """
    times = (moment(workload.condition("QuotaReserved").since), moment(entry.since))
    return max([started, *(time for time in times if time is not None)])


def decide(
    workload: QueuedWorkload,
    entry: CheckState,
    status: CheckProgress,
    parameters: GangAdmissionParametersSpec,
    *,
    since: datetime,
    now: datetime,
    jitter: Callable[[], float],
) -> Decision:
    """Decide about one entry. ``since`` is :func:`waiting_since`, ``jitter`` gives numbers from 0 to 1."""
    if not reserved(workload) or entry.state in {State.RETRY, State.REJECTED}:
        # The next move is Kueue's: it evicts, and resets the entry.
        return NOTHING
    admitted = workload.holds("Admitted")
    if entry.state == State.READY:
        # Where quota is lost without an eviction, Kueue keeps Ready, and the next reservation may have other flavors.
        # An admitted Workload is left alone: another state than Ready could evict what runs.
        if admitted or message_digest(entry.message) == digest_of(workload):
            return NOTHING
        return _decision(State.PENDING, "The admission is not the one that was approved: looked at again.", workload)
    if status.progress in {Progress.NOTHING_TO_DO, Progress.DONE}:
        return _decision(State.READY, status.message, workload)
    if admitted:
        # The check was added to the queue of a running JobSet. It must not be stopped.
        return NOTHING
    if status.progress is Progress.DENIED:
        return _fail(entry, status.message, parameters, workload, jitter)
    waited = now - since
    delay, limit = timedelta(seconds=MESSAGE_DELAY_SECONDS), timedelta(seconds=parameters.timeout_seconds)
    if waited >= limit:
        message = f"Not ready within {parameters.timeout_seconds} s: {status.message}"
        return _fail(entry, message, parameters, workload, jitter)
    left = (limit - waited).total_seconds()
    if waited < delay:
        return Decision(requeue_seconds=min(left, (delay - waited).total_seconds()))
    decision = _decision(State.PENDING, status.message, workload)
    return (
        Decision(requeue_seconds=left) if decision.message == entry.message else replace(decision, requeue_seconds=left)
    )


def _decision(state: State, message: str, workload: QueuedWorkload, retry_seconds: int | None = None) -> Decision:
    text = f"{one_line(message, _MESSAGE_CHARACTERS)} [admission {digest_of(workload)}]"
    return Decision(state, text, retry_seconds)


def _fail(
    entry: CheckState,
    message: str,
    parameters: GangAdmissionParametersSpec,
    workload: QueuedWorkload,
    jitter: Callable[[], float],
) -> Decision:
    if parameters.on_failure == "Reject":
        return _decision(State.REJECTED, message, workload)
    if entry.retry_count >= parameters.max_retries:
        return _decision(State.REJECTED, f"{message} (given up after {entry.retry_count} retries)", workload)
    return _decision(State.RETRY, message, workload, retry_delay(entry.retry_count, parameters, jitter()))


def retry_delay(retries: int, parameters: GangAdmissionParametersSpec, jitter: float) -> int:
    """Whole seconds before the next retry: exponential, with jitter of a tenth, bounded, and at least one."""
    longest = parameters.retry_max_seconds
    # More doublings exceed every bound, and the number may have any size.
    delay = parameters.retry_base_seconds * 2 ** min(max(retries, 0), 32)
    spread = JITTER * min(max(jitter, 0.0), 1.0)
    # At the bound the jitter is subtracted, so that retries are spread there, too.
    return max(1, math.ceil(delay * (1 + spread)) if delay * (1 + spread) <= longest else int(longest * (1 - spread)))
