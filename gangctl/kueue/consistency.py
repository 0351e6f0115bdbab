"""Conflicts of a gang with its Kueue queue: refused when the JobSet is created, reported while it waits.

Without these checks the JobSet would fail later without a visible message: a start that fails
permanently, a gang in parts, two schedulers that choose different nodes. Errors that Kueue's own
webhook reports (syntax of topology requests, groups of podsets) are left to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gangctl.api.jobset import MAX_ITEMS, JobSet, ReplicatedJob
from gangctl.api.meta import GANG_OPTIONS, GANGS, QUEUE_NAME
from gangctl.api.objects import Reader
from gangctl.errors import ErrorKind, FieldError, one_line
from gangctl.gang.config import read_config
from gangctl.gang.naming import Scope, Stamp
from gangctl.gang.plan import is_sequenced, job_pods, replicated_job_pods, stored_stamps
from gangctl.gang.reasons import Notice, Reason
from gangctl.gang.resolve import Resolution
from gangctl.kueue.names import (
    CLUSTER_QUEUE_NAME,
    ELASTIC_JOB,
    INJECTED_ANNOTATIONS,
    INJECTED_LABELS,
    LOCAL_QUEUE_NAME,
    MIN_PARALLELISM,
    PODSET,
    PODSET_GROUP,
    SLICE_SIZE,
    SLICE_TOPOLOGY,
    TOPOLOGY_PREFERRED,
    TOPOLOGY_REQUIRED,
    TOPOLOGY_UNCONSTRAINED,
    WORKLOAD,
)

FEWEST_PODSETS: Final = 8
"""Podsets that every Kueue allows in one Workload: 8 up to 0.17, 10 in 0.18, 18 since 0.19."""

TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})
"""Values that Go's ``strconv.ParseBool`` reads as true."""
_SHOWN: Final = 64


@dataclass(frozen=True, slots=True)
class KueueFacts:
    """Known facts of the cluster's Kueue; the defaults are for an unknown one."""

    podset_limit: int | None = None
    """Podsets that a Workload of Kueue may have."""
    pods_ready_seconds: int | None = None
    """Timeout of ``waitForPodsReady``; None if it is off or unknown."""


@dataclass(frozen=True, slots=True)
class Consistency:
    """``errors`` reject the JobSet at CREATE; ``notices`` are for its author."""

    errors: tuple[FieldError, ...] = ()
    notices: tuple[Notice, ...] = ()


CONSISTENT: Final = Consistency()


def check_consistency(raw: Any, jobset: JobSet, resolution: Resolution, facts: KueueFacts) -> Consistency:
    """Conflicts in a JobSet that requests gangs; none for others.

    ``raw`` is the final object, of any shape, and ``jobset`` its projection. Without a queue on the
    JobSet only labels that put parts of the gang into queues are checked. A ``resolution`` with errors has no stamps:
    then the rules that depend on groups are left out.
    """
    if not resolution.config.asks_for_gangs or jobset.managed_elsewhere:
        return CONSISTENT
    parts = _parts(raw)
    errors = list(_check_places(raw))
    if not jobset.queue:
        return Consistency(tuple(errors))
    errors += _check_injected(parts)
    errors += _check_partial(raw, parts)
    errors += _check_topology(jobset, resolution, parts)
    refused, notices = _check_podsets(jobset, facts)
    notices += _about_readiness(jobset, facts)
    return Consistency((*errors, *refused), tuple(notices))


def check_stored(jobset: JobSet, *, cluster_queue: str, workload: str) -> tuple[FieldError, ...]:
    """Conflicts of a stored JobSet that has not been admitted; the names are empty where they are not known.

    Its pod templates may change while it is suspended, and its queue may come after its creation: no webhook of gangctl
    is called for either. Of the rules for new JobSets those are left out that cannot be broken later (all about the
    metadata of Jobs), or that keep no gang from starting: Kueue ignores the annotations of partial admission on a
    JobSet, and a queue on the pods of a JobSet that has one itself. Too many podsets have a cause of their own.
    """
    # Once it runs, or Kueue has admitted it, the keys in its pod templates are Kueue's.
    if not (jobset.queue and jobset.suspend) or jobset.managed_elsewhere:
        return ()
    config, _ = read_config(jobset)
    if not config.asks_for_gangs:
        return ()
    parts = [_stored_part(rj) for rj in jobset.replicated_jobs]
    written = {LOCAL_QUEUE_NAME: jobset.queue, CLUSTER_QUEUE_NAME: cluster_queue, WORKLOAD: workload}
    resolution = Resolution(stored_stamps(jobset)[0], config)
    return (*_check_injected(parts, written), *_check_topology(jobset, resolution, parts))


@dataclass(frozen=True, slots=True)
class _Part:
    """Metadata of a ReplicatedJob's two templates."""

    name: str
    job: Reader
    pod: Reader

    def pod_annotations(self) -> dict[str, str]:
        return dict(self.pod.strings("annotations"))


def _stored_part(rj: ReplicatedJob) -> _Part:
    pod = {"labels": rj.pod_labels, "annotations": rj.pod_annotations}
    return _Part(rj.name, Reader({}, "", []), Reader(pod, f"{rj.path}.template.spec.template.metadata", []))


def _parts(raw: Any) -> list[_Part]:
    entries = Reader(raw, "", []).child("spec").children("replicatedJobs", MAX_ITEMS)
    return [
        _Part(
            entry.string("name"),
            entry.child("template").child("metadata"),
            entry.child("template").child("spec").child("template").child("metadata"),
        )
        for entry in entries
    ]


def queues_below(raw: Any) -> Iterator[tuple[str, str]]:
    """Labels of a queue below a JobSet: the path of each, and Job or pod."""
    for part in _parts(raw):
        for meta, what in ((part.job, "Job"), (part.pod, "pod")):
            if QUEUE_NAME in meta.strings("labels"):
                yield f"{meta.path}.labels[{QUEUE_NAME}]", what


def _check_places(raw: Any) -> Iterator[FieldError]:
    """A queue's label anywhere below the JobSet puts the gang into the queue in parts."""
    for path, what in queues_below(raw):
        detail = (
            f"belongs on the JobSet and nowhere else: with it on the {what}s, Kueue may admit them one by one, and "
            "part of the gang would hold quota for the rest; remove it here, and set it in the JobSet's own "
            "metadata.labels"
        )
        yield FieldError(path, ErrorKind.FORBIDDEN, detail)


def _check_injected(parts: Sequence[_Part], written: Mapping[str, str] | None = None) -> Iterator[FieldError]:
    """Kueue merges these keys into pod templates at the start, and fails permanently on another value.

    ``written`` are the values that it will write, empty where they are not known; None for a new JobSet, which has no
    reason to have any.
    """
    for part in parts:
        # The name of a podset is that of its replicated job in lower case.
        values = None if written is None else {**written, PODSET: part.name.lower()}
        for field, keys in (("labels", INJECTED_LABELS), ("annotations", INJECTED_ANNOTATIONS)):
            present = part.pod.strings(field)
            for key in keys:
                if key in present and (values is None or values[key] not in {"", present[key]}):
                    detail = (
                        f'is "{one_line(present[key], _SHOWN)}", but Kueue writes this key itself when it starts the '
                        "JobSet, which would fail to start, for good, if the values differ: remove it (a manifest "
                        "copied from a running JobSet has it)"
                    )
                    yield FieldError(f"{part.pod.path}.{field}[{key}]", ErrorKind.FORBIDDEN, detail)


def _check_partial(raw: Any, parts: Sequence[_Part]) -> Iterator[FieldError]:
    """Kueue supports neither elastic slices nor partial admission for JobSets, and gangs do not use them."""
    for meta in (Reader(raw, "", []).child("metadata"), *(part.job for part in parts)):
        notes = meta.strings("annotations")
        if notes.get(ELASTIC_JOB) == "true":
            detail = "Kueue has no elastic slices for JobSets: remove it, and create a JobSet of the size you want"
            yield FieldError(f"{meta.path}.annotations[{ELASTIC_JOB}]", ErrorKind.FORBIDDEN, detail)
        if MIN_PARALLELISM in notes:
            detail = "Kueue admits a JobSet as a whole or not at all, and so is a gang started: remove it"
            yield FieldError(f"{meta.path}.annotations[{MIN_PARALLELISM}]", ErrorKind.FORBIDDEN, detail)


def _check_topology(jobset: JobSet, resolution: Resolution, parts: Sequence[_Part]) -> Iterator[FieldError]:
    """Kueue's topology-aware scheduling picks the nodes before kube-scheduler looks for those of the group."""
    gangs = [
        (rj, stamp, part.pod_annotations(), part.pod.path)
        for rj, stamp, part in zip(jobset.replicated_jobs, resolution.stamps, parts, strict=False)
        if stamp is not None
    ]
    # A group over several podsets is in one domain only if Kueue takes one domain for all of them.
    shared: dict[str, list[str]] = {}
    for rj, stamp, notes, _ in gangs:
        # A replicated job without pods needs no domain.
        if replicated_job_pods(rj) > 0:
            shared.setdefault(stamp.template, []).append(notes.get(PODSET_GROUP, ""))
    for rj, stamp, notes, path in gangs:
        key, requested = resolution.config.topology_key(stamp.template), _requested_topology(notes)
        groups = shared.get(stamp.template, [])
        together = len(groups) < 2 or (groups[0] != "" and len(set(groups)) == 1)  # noqa: PLR2004 - one is together
        if not key or not requested or _same_level(key, rj, stamp, notes, together=together):
            continue
        annotation = GANGS if resolution.config.gangs else GANG_OPTIONS
        detail = (
            f'asks Kueue for a topology, and option topologyKey of {annotation} asks kube-scheduler for "{key}": '
            "Kueue picks the nodes first, and where they are not in one domain of that label the gang never starts. "
            + _way_out(key, stamp, notes, together=together)
        )
        yield FieldError(f"{path}.annotations[{requested}]", ErrorKind.FORBIDDEN, detail)


def _requested_topology(notes: dict[str, str]) -> str:
    """The annotation by which a podset requests a topology, empty without one."""
    for key in (TOPOLOGY_REQUIRED, TOPOLOGY_PREFERRED, SLICE_TOPOLOGY):
        if key in notes:
            return key
    return TOPOLOGY_UNCONSTRAINED if notes.get(TOPOLOGY_UNCONSTRAINED) in TRUE else ""


def _same_level(key: str, rj: ReplicatedJob, stamp: Stamp, notes: dict[str, str], *, together: bool) -> bool:
    """Whether Kueue places all pods of a group in one domain of ``key``."""
    if notes.get(TOPOLOGY_REQUIRED) == key:
        return together
    if stamp.scope is not Scope.JOB or notes.get(SLICE_TOPOLOGY) != key:
        return False
    # A slice has to consist of whole Jobs.
    pods, size = job_pods(rj), notes.get(SLICE_SIZE, "")
    # The length first: int() raises ValueError for thousands of digits.
    return pods > 0 and size.isdecimal() and len(size) < _SHOWN and int(size) > 0 and int(size) % pods == 0


def _way_out(key: str, stamp: Stamp, notes: dict[str, str], *, together: bool) -> str:
    if notes.get(TOPOLOGY_REQUIRED) == key and not together:
        return (
            f"Several replicated jobs share the gang, each with a domain of its own: give them one {PODSET_GROUP}, set "
            "the gang mode per replicated job, or leave the option out"
        )
    slices = f", or {SLICE_TOPOLOGY} with slices of whole Jobs" if stamp.scope is Scope.JOB else ""
    return f'Leave the option out, or ask Kueue for the same: {TOPOLOGY_REQUIRED} "{key}"{slices}'


def _check_podsets(jobset: JobSet, facts: KueueFacts) -> tuple[list[FieldError], list[Notice]]:
    """Every ReplicatedJob is a podset, with pods or without; Kueue cannot create a Workload with too many."""
    count, limit = len(jobset.replicated_jobs), facts.podset_limit
    if count <= (FEWEST_PODSETS if limit is None else limit):
        return [], []
    consequence = "Kueue fails to make it, says so in its own log only, and leaves the JobSet suspended"
    way_out = "merge replicated jobs into one with more replicas, or split the JobSet"
    if limit is None:
        message = (
            f"{count} replicated jobs are as many podsets in Kueue's Workload, which holds 8 up to Kueue 0.17, 10 in "
            f"0.18 and 18 in 0.19: beyond its limit {consequence}; {way_out}."
        )
        return [], [Notice(Reason.QUEUE_CONFLICT, message)]
    detail = f"{count} replicated jobs, but Kueue's Workload holds {limit} podsets at most: {consequence}; {way_out}"
    return [FieldError("spec.replicatedJobs", ErrorKind.TOO_MANY, detail)], []


def _about_readiness(jobset: JobSet, facts: KueueFacts) -> Iterator[Notice]:
    seconds = facts.pods_ready_seconds
    if seconds is not None and is_sequenced(jobset, jobset.replicated_jobs):
        duration = f"{seconds} seconds" if seconds % 60 or not seconds else f"{seconds // 60} minutes"
        message = (
            f"Startup is sequenced, and this Kueue evicts a JobSet whose Jobs are not all ready {duration} "
            "after it was admitted (waitForPodsReady): all stages but the last have to be over, or ready, by then."
        )
        yield Notice(Reason.QUEUE_CONFLICT, message)
