"""What to do about one PathwaysJob, as a value: pure; and what the informers keep of it and of its JobSet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from gangctl.client.resources import Resource
from gangctl.errors import ApiError, ForbiddenError, InvalidError
from gangctl.gang.reasons import Notice, Reason
from gangctl.pathways.draft import Draft
from gangctl.pathways.status import (
    JobSetFacts,
    Obstacle,
    PathwaysFacts,
    PathwaysJobStatus,
    PathwaysPhase,
    pathways_owner,
    read_jobset_facts,
    read_pathways_facts,
)
from gangctl.pathways.words import API_VERSION, GROUP, KIND, PLURAL

PATHWAYS_JOBS: Final = Resource(GROUP, API_VERSION.partition("/")[2], PLURAL, KIND)

_METADATA: Final = ("name", "namespace", "uid", "generation", "labels", "annotations", "creationTimestamp")


@dataclass(frozen=True, slots=True)
class PathwaysCopy:
    """A PathwaysJob as the API server has it, or as gangctl's last write left it."""

    facts: PathwaysFacts
    version: str
    """The object's resourceVersion."""
    raw: dict[str, Any]
    """The input of rendering; must not be changed."""

    @property
    def order(self) -> int:
        """The later of two copies has the higher number; 0 where the version is not a number."""
        return int(self.version) if self.version.isdigit() else 0


def project_pathways_job(raw: dict[str, Any]) -> PathwaysCopy:
    """Keep what reading and the status need."""
    metadata = raw["metadata"]
    return PathwaysCopy(
        facts=read_pathways_facts(raw),
        version=str(metadata.get("resourceVersion", "")),
        raw={
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {key: metadata[key] for key in _METADATA if key in metadata},
            "spec": raw.get("spec"),
        },
    )


def project_jobset(raw: dict[str, Any]) -> JobSetFacts | None:
    """The facts of a JobSet that a PathwaysJob controls; None for all others."""
    return read_jobset_facts(raw) if pathways_owner(raw) else None


GONE: Final = Obstacle(
    Reason.JOBSET_GONE.value,
    "The JobSet is gone, and how it ended was not seen: JobSets are deleted some time after they have finished "
    "(ttlSecondsAfterFinished), so this one is not created again",
    final=True,
)


@dataclass(frozen=True, slots=True)
class Skip:
    """Nothing is done, and nothing is recorded."""


@dataclass(frozen=True, slots=True)
class ReportStatus:
    """The status should follow from the findings; ``notices`` are recorded besides what is new in it."""

    findings: JobSetFacts | Obstacle
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True, slots=True)
class CreateJobSet:
    """A JobSet should be created, and none is known; ``notices`` report that it is not the first."""

    draft: Draft
    notices: tuple[Notice, ...] = ()


Plan = Skip | ReportStatus | CreateJobSet


def plan(facts: PathwaysFacts, jobset: JobSetFacts | None, draft: Callable[[], Draft | Obstacle]) -> Plan:
    """Decide; ``jobset`` is the one that this PathwaysJob (by UID) controls; ``draft`` renders it if needed."""
    status = facts.status
    if facts.deleting:
        # Its JobSet is deleted with it.
        return Skip()
    if jobset is not None:
        return ReportStatus(jobset, _about(facts, jobset, draft))
    if status.end is not None:
        return ReportStatus(GONE)
    made = draft()
    if isinstance(made, Obstacle):
        return ReportStatus(made)
    again = had_jobset(status)
    if again and made.job.options.ttl_seconds_after_finished is not None:
        return ReportStatus(GONE)
    events = (_again(status),) if again else ()
    return CreateJobSet(made, events) if made.obstacle is None else ReportStatus(made.obstacle, events)


def had_jobset(status: PathwaysJobStatus) -> bool:
    """Whether the last recorded status was about a JobSet."""
    if status.phase is None or status.phase is PathwaysPhase.FAILED:
        return status.end is not None
    held = status.condition(status.phase)
    return held is not None and held.reason not in {Reason.JOBSET_CREATE_FAILED, Reason.API_UNAVAILABLE}


def created(jobset: JobSetFacts, made: Draft | Obstacle) -> tuple[Notice, ...]:
    """The notices of a JobSet's creation, recorded once."""
    notice = Notice(Reason.JOBSET_CREATED, f"Created JobSet {jobset.name} (uid {jobset.uid})")
    return (notice, *(made.notices if isinstance(made, Draft) else ()))


def _about(facts: PathwaysFacts, jobset: JobSetFacts, draft: Callable[[], Draft | Obstacle]) -> tuple[Notice, ...]:
    """Notices not yet recorded for an existing JobSet: gangctl may have died after creating it."""
    status = facts.status
    # Only gangctl writes a digest: what the upstream controller made is taken over without a notice.
    if not jobset.digest or status.end is not None or jobset.end is not None:
        return ()
    if not had_jobset(status):
        return created(jobset, draft())
    if facts.generation <= max((condition.generation for condition in status.conditions), default=0):
        return ()
    made = draft()
    if isinstance(made, Draft) and made.digest == jobset.digest:
        return ()
    message = (
        "The JobSet was created from another spec and stays as it is: delete the PathwaysJob and create it again to "
        "have the change take effect"
    )
    return (Notice(Reason.SPEC_CHANGE_IGNORED, message),)


def _again(status: PathwaysJobStatus) -> Notice:
    held = status.condition(status.phase) if status.phase is not None else None
    when = f"was {held.type} since {held.since} and " if held is not None else ""
    return Notice(Reason.JOBSET_GONE, f"The JobSet {when}is gone without having ended: it is created again")


_DENIED: Final = ("denied the request", "denied request")
"""Texts of a webhook's denial, and of a ValidatingAdmissionPolicy's."""
_OF_RIGHTS: Final = ("cannot create resource", "cannot set blockOwnerDeletion")
"""Text of the API server's answer where gangctl lacks a permission."""


def obstacle(error: ApiError) -> Obstacle | None:
    """Why there is no JobSet; None where the same request may succeed in a moment.

    Each obstacle may end by itself: policies and quotas change, permissions are granted, JobSet's definition is
    replaced.
    """
    # Also from a webhook, as from gangctl's own right after its start: no verdict, and there is one in a moment.
    if error.status == HTTPStatus.SERVICE_UNAVAILABLE:
        return None
    # Before the classes of errors: a webhook chooses the status code of its denial.
    if any(words in error.message for words in _DENIED):
        return Obstacle(Reason.ADMISSION_DENIED.value, error.message)
    if isinstance(error, ForbiddenError):
        if any(words in error.message for words in _OF_RIGHTS):
            return Obstacle(Reason.JOBSET_CREATE_FAILED.value, error.message, PathwaysPhase.PENDING)
        # An admission plugin of the API server, such as a quota.
        return Obstacle(Reason.ADMISSION_DENIED.value, error.message)
    if isinstance(error, InvalidError):
        return Obstacle(Reason.JOBSET_CREATE_FAILED.value, error.message)
    return None
