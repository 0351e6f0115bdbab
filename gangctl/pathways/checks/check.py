"""The rules for a PathwaysJob, from an object or from flags."""

from __future__ import annotations

import re
from typing import Final

from gangctl.errors import ErrorKind, plural, shown
from gangctl.gang.plan import INT32_MAX
from gangctl.gang.reasons import Notice, Reason
from gangctl.gang.validate import MAX_JOBS
from gangctl.pathways.checks.components import check_components, check_images
from gangctl.pathways.checks.findings import Findings
from gangctl.pathways.checks.gangs import check_gangs
from gangctl.pathways.checks.names import check_names, check_pod_names
from gangctl.pathways.checks.options import check_options, check_slicing
from gangctl.pathways.checks.template import check_pod_size, check_template
from gangctl.pathways.job import DEFAULT_MAIN_CONTAINER, DEFAULT_SLICE_RESTARTS, PathwaysJob
from gangctl.pathways.origins import OriginKind
from gangctl.pathways.problems import InvalidReason, Problem
from gangctl.pathways.words import GKE_ACCELERATOR, GKE_TOPOLOGY, WORKERS

DIRECTORY: Final = "spec.pathwaysDir"
ELASTIC: Final = "spec.controller.elasticSlices"
MOST_SLICES: Final = MAX_JOBS - 1
"""Every slice is a Job, and the head is one."""

_BUCKET: Final = re.compile(r"gs://[^/\s]+(/\S*)?")


def check(job: PathwaysJob) -> tuple[tuple[Problem, ...], tuple[Notice, ...]]:
    """All problems of a job, and notices for the user, both in the order of its fields."""
    found = Findings(job)
    _check_all(found)
    _check_with_slice(found)
    return tuple(found.problems), tuple(found.notices)


def check_without_slice(job: PathwaysJob) -> tuple[Problem, ...]:
    """Problems that do not depend on the slice, for a job with an unknown slice."""
    found = Findings(job)
    _check_all(found)
    return tuple(found.problems)


def _check_all(found: Findings) -> None:
    check_names(found)
    check_options(found)
    _check_restarts(found)
    _check_directory(found)
    check_images(found)
    _check_slices(found)
    _check_grace(found)
    check_template(found)
    check_components(found)
    check_gangs(found)


def _check_with_slice(found: Findings) -> None:
    job = found.job
    if not found.problems:
        check_pod_names(found)
        check_pod_size(found)
    check_slicing(found)
    if job.slice.vms * job.max_slice_restarts > INT32_MAX:
        most = INT32_MAX // job.slice.vms
        detail = f"must be at most {most} with {plural(job.slice.vms, 'VM')} in a slice, got {job.max_slice_restarts}"
        found.refuse(InvalidReason.INVALID_RESTARTS, f"{WORKERS}.maxSliceRestarts", detail)
    _notice_no_effect(found)


def _check_restarts(found: Findings) -> None:
    job = found.job
    for path, value in (
        ("spec.maxRestarts", job.max_restarts),
        (f"{WORKERS}.maxSliceRestarts", job.max_slice_restarts),
    ):
        if value < 0:
            found.refuse(InvalidReason.INVALID_RESTARTS, path, f"must be at least 0, got {value}")


def _check_directory(found: Findings) -> None:
    """Pathways stores its state in a bucket; it is optional in an object, and required in flags."""
    directory = found.job.pathways_dir
    if _BUCKET.fullmatch(directory):
        return
    said = f"got {shown(directory)}" if directory else "it is empty"
    wanted = "a directory that exists in Google Cloud Storage, gs://BUCKET/DIRECTORY"
    origin = found.job.origin(DIRECTORY)
    if origin.kind is OriginKind.FLAG:
        kind = ErrorKind.INVALID if directory else ErrorKind.REQUIRED
        found.refuse(InvalidReason.INVALID_DIRECTORY, DIRECTORY, f"must be {wanted}; {said}", kind)
    else:
        found.notice(Reason.DIRECTORY_MISSING, f"{origin.place} should be {wanted}; {said}")


def _check_slices(found: Findings) -> None:
    slices, elastic = found.job.slices, found.job.elastic_slices
    path = f"{WORKERS}.numSlices"
    if not 1 <= slices <= MOST_SLICES:
        detail = f"must be at least 1 and at most {MOST_SLICES}, got {slices}"
        found.refuse(InvalidReason.INVALID_NUM_SLICES, path, detail)
    elif not 0 <= elastic < slices:
        detail = f"must be at least 0 and less than {found.place(path)}, which is {slices}; got {elastic}"
        found.refuse(InvalidReason.INVALID_ELASTIC_SLICES, ELASTIC, detail)


def _check_grace(found: Findings) -> None:
    seconds = found.job.worker_grace_seconds
    if seconds is not None and seconds < 0:
        path = f"{WORKERS}.terminationGracePeriodSeconds"
        found.refuse(InvalidReason.INVALID_GRACE_PERIOD, path, f"must be at least 0 seconds, got {seconds}")


def _notice_no_effect(found: Findings) -> None:
    job = found.job
    restarts = found.place(f"{WORKERS}.maxSliceRestarts")
    if not job.elastic_slices and job.max_slice_restarts != DEFAULT_SLICE_RESTARTS:
        message = f"{restarts} ({job.max_slice_restarts}) counts only with {found.place(ELASTIC)} above 0"
        found.notice(Reason.NO_EFFECT, message)
    elif job.elastic_slices and not job.max_slice_restarts:
        found.notice(Reason.NO_EFFECT, f"{restarts} 0 is as if it were left out: a worker is restarted 4 times")
    if job.headless and job.main_container != DEFAULT_MAIN_CONTAINER:
        path = found.place("spec.controller.mainContainerName")
        found.notice(Reason.NO_EFFECT, f"{path} names a container of a pod that is not there: there is no template")
    for key, value in ((GKE_ACCELERATOR, job.slice.accelerator.label), (GKE_TOPOLOGY, job.slice.topology)):
        asked = job.worker_node_selector.get(key, value)
        if asked != value:
            path = found.place(f"{WORKERS}.nodeSelector[{key}]")
            found.notice(Reason.NO_EFFECT, f"{path} is {shown(asked)}, but type and topology make it {value}")
