"""The rules for a PathwaysJob, from an object or from flags: names, gangs that could start, options, machines."""

from __future__ import annotations

import re
from typing import Final

from pydantic.alias_generators import to_camel

from gangctl.api.jobset import SCHEDULING_REFERENCES
from gangctl.api.meta import DEFAULT_SCHEDULER, EXCLUSIVE_TOPOLOGY, GANG_OPTIONS, GANGS, NODE_SELECTOR_STRATEGY
from gangctl.api.names import is_dns_label, is_label_value
from gangctl.api.objects import INT32_MAX
from gangctl.errors import ErrorKind, plural, shown
from gangctl.gang.config import LABEL_KEY, GangMode, parse_gangs, read_options
from gangctl.gang.reasons import Notice, Reason
from gangctl.gang.validate import MAX_JOBS
from gangctl.pathways import podchecks, words
from gangctl.pathways.job import (
    ADDRESS_CHARACTERS,
    DEFAULT_MAIN_CONTAINER,
    DEFAULT_SLICE_RESTARTS,
    LABEL_CHARACTERS,
    PathwaysJob,
    gangs,
    is_dns_1035,
    longest_pod,
    subdomain,
    together,
)
from gangctl.pathways.options import AUTO, Slicing, Startup
from gangctl.pathways.problems import InvalidReason, Problem
from gangctl.pathways.result import OriginKind

NAME: Final = "metadata.name"


def check_names(found: podchecks.Findings) -> None:
    """The name and the subdomain form an address that fits into a label."""
    job = found.job
    if job.namespace and not is_dns_label(job.namespace):
        detail = f"{shown(job.namespace)} is not the name of a namespace: lower case letters, digits and -"
        found.refuse(InvalidReason.INVALID_NAME, "metadata.namespace", detail)
    asked = job.options.subdomain
    valid = asked is None or (is_dns_1035(asked) and len(asked) <= LABEL_CHARACTERS)
    if not valid:
        detail = (
            f'must be "{AUTO}" or lower case letters, digits and -, first a letter, at most {LABEL_CHARACTERS} '
            f"characters; got {shown(asked)}"
        )
        found.refuse(InvalidReason.INVALID_OPTIONS, words.option_path("subdomain"), detail)
    if not job.name:
        return
    if not is_dns_1035(job.name):
        detail = (
            f"{shown(job.name)} cannot name a JobSet: lower case letters, digits and -, first a letter, last none of -"
        )
        found.refuse(InvalidReason.INVALID_NAME, NAME, detail)
    elif valid:
        _check_address(found)


def _check_address(found: podchecks.Findings) -> None:
    name = found.job.name
    chosen = subdomain(found.job)
    room = ADDRESS_CHARACTERS - len(chosen) if chosen else words.NAME_CHARACTERS
    if len(name) > room:
        option = found.place(words.option_path("subdomain"))
        beside = f" with subdomain {shown(chosen)}" if chosen else ""
        advice = "" if found.job.options.subdomain == AUTO else f', or set {option} to "{AUTO}"'
        detail = (
            f"{len(name)} characters, at most {room} are possible{beside}, because the head's address has to fit into "
            f"a label: choose a shorter one{advice}"
        )
        found.refuse(InvalidReason.NAME_TOO_LONG, NAME, detail, ErrorKind.TOO_LONG)


def check_pod_names(found: podchecks.Findings) -> None:
    """The longest pod name is a valid host name."""
    longest = longest_pod(found.job)
    over = len(longest) - LABEL_CHARACTERS
    if over > 0:
        most = len(found.job.name) - over
        detail = (
            f"{len(found.job.name)} characters, at most {most} are possible: the longest pod would be {longest}, and "
            f"{LABEL_CHARACTERS} characters are a host name's most"
        )
        found.refuse(InvalidReason.NAME_TOO_LONG, NAME, detail, ErrorKind.TOO_LONG)


ELASTIC: Final = "spec.controller.elasticSlices"
_PRIORITY: Final = "spec.workers[0].priorityClassName"


def check_gangs(found: podchecks.Findings) -> None:
    """Every combination that would wait permanently, or that Kubernetes would reject."""
    if found.job.gang_mode is GangMode.GANG and found.job.worker_mode is not None:
        detail = f'is "{found.job.worker_mode}" beside {found.place(words.GANG_MODE_PATH)} "Gang": write one of them'
        found.refuse(InvalidReason.INVALID_GANG_MODE, words.WORKER_MODE_PATH, detail, ErrorKind.FORBIDDEN)
    _check_elastic(found)
    _check_order(found)
    _check_exclusive(found)
    _check_pools(found)
    _check_uniform(found)


def _check_elastic(found: podchecks.Findings) -> None:
    """A group of all slices does not start while one is missing: that is its purpose."""
    if not found.job.elastic_slices:
        return
    for path, mode in ((words.GANG_MODE_PATH, found.job.gang_mode), (words.WORKER_MODE_PATH, found.job.worker_mode)):
        if mode is GangMode.GANG:
            detail = (
                f"Gang could not start, or go on, with a slice missing, as {found.place(ELASTIC)} "
                f"({found.job.elastic_slices}) allows: use {words.WORKER_MODE}: ReplicatedGang, a group for each slice"
            )
            where = words.annotation(GANGS) if GANGS in found.job.annotations else path
            found.refuse(InvalidReason.ELASTIC_GANG, where, detail, ErrorKind.FORBIDDEN)
            return


def _check_order(found: podchecks.Findings) -> None:
    """Workers that are created after the head is ready are missing for a head that waits for them."""
    order = found.job.options.startup
    if order in {None, Startup.ANY_ORDER} or not together(found.job):
        return
    waits = "a place beside a worker" if found.job.colocated else "the gang that they are in together"
    detail = (
        f"{order} makes the workers once the head is ready, and the head waits for {waits}: "
        f"use {Startup.ANY_ORDER}, or leave it out"
    )
    found.refuse(InvalidReason.GANG_DEADLOCK, words.option_path("startup"), detail, ErrorKind.FORBIDDEN)


def _check_exclusive(found: podchecks.Findings) -> None:
    """On the PathwaysJob the annotation would apply to every Job of the JobSet."""
    annotations = found.job.annotations
    if EXCLUSIVE_TOPOLOGY not in annotations or NODE_SELECTOR_STRATEGY in annotations:
        return
    if gangs(found.job).any:
        detail = (
            "deadlocks with a gang: JobSet makes the other pods of a Job once the first has a node, and a gang gets "
            f"nodes only as a whole. Leave it out, or set {found.place(words.GANG_MODE_PATH)} to Off"
        )
    elif found.job.colocated:
        detail = "keeps head and workers apart, which a colocated head does not survive: leave it out"
    else:
        return
    found.refuse(InvalidReason.GANG_DEADLOCK, words.annotation(EXCLUSIVE_TOPOLOGY), detail, ErrorKind.FORBIDDEN)


def _check_pools(found: podchecks.Findings) -> None:
    """A node pool holds one slice, so that a group of several fits in no pool."""
    chosen = gangs(found.job)
    if found.job.slices <= 1 or GangMode.GANG not in {chosen.jobset, chosen.worker}:
        return
    listed, _ = parse_gangs(found.job.annotations.get(GANGS, "[]"))
    place, key = next(
        (
            (f"{words.annotation(GANGS)}[{index}]", gang.topology_key)
            for index, gang in enumerate(listed)
            if words.WORKER in gang.replicated_jobs
        ),
        (
            words.annotation(GANG_OPTIONS),
            read_options(found.job.annotations.get(GANG_OPTIONS, "{}"), "", []).topology_key,
        ),
    )
    if key == words.GKE_NODEPOOL:
        detail = (
            f"one gang of {found.job.slices} slices does not fit into one {words.GKE_NODEPOOL}, which is one slice: "
            f"use {words.WORKER_MODE}: ReplicatedGang, or leave topologyKey out"
        )
        found.refuse(InvalidReason.GANG_DEADLOCK, f"{place}.topologyKey", detail)


def _check_uniform(found: podchecks.Findings) -> None:
    """Pods of one group need one scheduler, in Kubernetes 1.37 one priority, and no other group."""
    job = found.job
    if gangs(job).jobset is not GangMode.GANG or job.template is None:
        return
    pod = job.template.get("spec", {})
    priority = pod.get("priorityClassName", "")
    # The class of one of them is rendered into both.
    if priority and job.worker_priority_class not in {"", priority}:
        detail = (
            f"head and workers are one gang and need one priority class: set {found.place(_PRIORITY)} to the same, or "
            "leave one of them out"
        )
        found.refuse(InvalidReason.INVALID_GANG_MODE, f"{words.POD}.priorityClassName", detail)
    if pod.get("schedulerName", DEFAULT_SCHEDULER) not in {"", DEFAULT_SCHEDULER}:
        detail = f"head and workers are one gang and need one scheduler, {DEFAULT_SCHEDULER}: leave it out"
        found.refuse(InvalidReason.INVALID_GANG_MODE, f"{words.POD}.schedulerName", detail)
    for field in SCHEDULING_REFERENCES:
        if pod.get(field):
            detail = "names another group for the head, which is in one gang with the workers: leave it out"
            found.refuse(InvalidReason.INVALID_GANG_MODE, f"{words.POD}.{field}", detail, ErrorKind.FORBIDDEN)


def check_options(found: podchecks.Findings) -> None:
    """Rules of Kubernetes beyond the types; the subdomain is checked with the name."""
    options = found.job.options
    for key, value in (options.head_node_selector or {}).items():
        if re.fullmatch(LABEL_KEY, key) is None or not is_label_value(value):
            detail = f"{shown(key)}: {shown(value)} is not a label of a node"
            found.refuse(InvalidReason.INVALID_OPTIONS, words.option_path("headNodeSelector"), detail)
    for index, prefix in enumerate(options.drop_metadata or ()):
        if not prefix.strip():
            detail = "must not be empty: every label and annotation begins so"
            found.refuse(InvalidReason.INVALID_OPTIONS, words.option_path(f"dropMetadata[{index}]"), detail)
    for name, seconds in (
        ("ttlSecondsAfterFinished", options.ttl_seconds_after_finished),
        ("unreachableTimeoutSeconds", options.unreachable_timeout_seconds),
    ):
        if seconds is not None and seconds > INT32_MAX:
            found.refuse(InvalidReason.INVALID_OPTIONS, words.option_path(name), f"must be at most {INT32_MAX} seconds")
    for name, resources in options.head_resources or {}:
        if resources is not None:
            path = words.option_path(f"headResources.{to_camel(name)}")
            podchecks.check_amounts(found, path, resources.requests or {}, resources.limits or {})


def check_slicing(found: podchecks.Findings) -> None:
    """Option ``slicing`` is possible for the slice."""
    slicing, part = found.job.options.slicing, found.job.slice
    accelerator, refused = part.accelerator, ""
    if slicing is Slicing.SUB and not (accelerator.machine_type == "ct6e-standard-4t" and part.vms > 1):
        refused = "parts of a slice exist for ct6e-standard-4t with a topology of at least 2x4"
    elif slicing is Slicing.SUPER and (
        accelerator.generation != "tpu7x" or any(int(side) % 4 for side in part.topology.split("x"))
    ):
        of = "tpu7x-standard-4t, with topologies whose sides are multiples of 4"
        refused = f"slices of several cubes exist for {of}"
    if refused:
        detail = f"{slicing} is not possible with {accelerator.machine_type} {part.topology}: {refused}"
        found.refuse(InvalidReason.INVALID_SLICING, words.option_path("slicing"), detail)


DIRECTORY: Final = "spec.pathwaysDir"
MOST_SLICES: Final = MAX_JOBS - 1
"""Every slice is a Job, and the head is one."""

_BUCKET: Final = re.compile(r"gs://[^/\s]+(/\S*)?")


def check(job: PathwaysJob) -> tuple[tuple[Problem, ...], tuple[Notice, ...]]:
    """All problems of a job, and notices for the user, both in the order of its fields."""
    findings = podchecks.Findings(job)
    _check_all(findings)
    _check_with_slice(findings)
    return tuple(findings.problems), tuple(findings.notices)


def check_without_slice(job: PathwaysJob) -> tuple[Problem, ...]:
    """Problems that do not depend on the slice, for a job with an unknown slice."""
    findings = podchecks.Findings(job)
    _check_all(findings)
    return tuple(findings.problems)


def _check_all(found: podchecks.Findings) -> None:
    check_names(found)
    check_options(found)
    job = found.job
    restarts = (("spec.maxRestarts", job.max_restarts), (f"{words.WORKERS}.maxSliceRestarts", job.max_slice_restarts))
    for path, value in restarts:
        if value < 0:
            found.refuse(InvalidReason.INVALID_RESTARTS, path, f"must be at least 0, got {value}")
    _check_directory(found)
    podchecks.check_images(found)
    _check_slices(found)
    if (seconds := job.worker_grace_seconds) is not None and seconds < 0:
        path = f"{words.WORKERS}.terminationGracePeriodSeconds"
        found.refuse(InvalidReason.INVALID_GRACE_PERIOD, path, f"must be at least 0 seconds, got {seconds}")
    podchecks.check_template(found)
    podchecks.check_components(found)
    check_gangs(found)


def _check_with_slice(found: podchecks.Findings) -> None:
    job = found.job
    if not found.problems:
        # Both need names and quantities that are valid.
        check_pod_names(found)
        podchecks.check_pod_size(found)
    check_slicing(found)
    if job.slice.vms * job.max_slice_restarts > INT32_MAX:
        most = INT32_MAX // job.slice.vms
        detail = f"must be at most {most} with {plural(job.slice.vms, 'VM')} in a slice, got {job.max_slice_restarts}"
        found.refuse(InvalidReason.INVALID_RESTARTS, f"{words.WORKERS}.maxSliceRestarts", detail)
    _notice_no_effect(found)


def _check_directory(found: podchecks.Findings) -> None:
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


def _check_slices(found: podchecks.Findings) -> None:
    slices, elastic = found.job.slices, found.job.elastic_slices
    path = f"{words.WORKERS}.numSlices"
    if not 1 <= slices <= MOST_SLICES:
        detail = f"must be at least 1 and at most {MOST_SLICES}, got {slices}"
        found.refuse(InvalidReason.INVALID_NUM_SLICES, path, detail)
    elif not 0 <= elastic < slices:
        detail = f"must be at least 0 and less than {found.place(path)}, which is {slices}; got {elastic}"
        found.refuse(InvalidReason.INVALID_ELASTIC_SLICES, ELASTIC, detail)


def _notice_no_effect(found: podchecks.Findings) -> None:
    job = found.job
    restarts = found.place(f"{words.WORKERS}.maxSliceRestarts")
    if not job.elastic_slices and job.max_slice_restarts != DEFAULT_SLICE_RESTARTS:
        message = f"{restarts} ({job.max_slice_restarts}) counts only with {found.place(ELASTIC)} above 0"
        found.notice(Reason.NO_EFFECT, message)
    elif job.elastic_slices and not job.max_slice_restarts:
        found.notice(Reason.NO_EFFECT, f"{restarts} 0 is as if it were left out: a worker is restarted 4 times")
    if job.headless and job.main_container != DEFAULT_MAIN_CONTAINER:
        path = found.place("spec.controller.mainContainerName")
        found.notice(Reason.NO_EFFECT, f"{path} names a container of a pod that is not there: there is no template")
    for key, value in ((words.GKE_ACCELERATOR, job.slice.accelerator.label), (words.GKE_TOPOLOGY, job.slice.topology)):
        asked = job.worker_node_selector.get(key, value)
        if asked != value:
            path = found.place(f"{words.WORKERS}.nodeSelector[{key}]")
            found.notice(Reason.NO_EFFECT, f"{path} is {shown(asked)}, but type and topology make it {value}")
