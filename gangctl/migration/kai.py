"""KAI's gangs of a JobSet: one of all its pods, unless an annotation sets fewer.

Source: KAI ``pkg/podgrouper/podgrouper/plugins/jobset``: one PodGroup with a subgroup per ReplicatedJob and below
it one per replica, which needs ``parallelism`` pods. All ReplicatedJobs are needed, with startupPolicy InOrder one.
Annotation batch-min-member changes that number: of ReplicatedJobs on the JobSet, of pods per replica on a Job template.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gangctl.errors import ErrorKind
from gangctl.gang.config import is_label_key
from gangctl.gang.plan import is_split, job_pods, pods_per_job
from gangctl.migration.draft import (
    KAI_PRIORITY,
    KAI_QUEUE,
    ConversionDraft,
    DraftGang,
    Level,
    least,
    listed,
    scheduler_path,
)

MIN_MEMBER: Final = "kai.scheduler/batch-min-member"
TOPOLOGY_REQUIRED: Final = "kai.scheduler/topology-required-placement"
TOPOLOGY_PREFERRED: Final = "kai.scheduler/topology-preferred-placement"
TOPOLOGY: Final = "kai.scheduler/topology"
UNDERSTOOD: Final = frozenset({MIN_MEMBER, KAI_QUEUE, TOPOLOGY, TOPOLOGY_REQUIRED, TOPOLOGY_PREFERRED})
_OF_OWNERS: Final = frozenset({MIN_MEMBER, TOPOLOGY, TOPOLOGY_REQUIRED})
"""What KAI does not read on pods."""
SKIP_GROUPER: Final = "kai.scheduler/skip-podgrouper"
_SHARED_GPU: Final = ("gpu-fraction", "gpu-memory", "gpu-fraction-num-devices")


def _check_one_scheduler(draft: ConversionDraft) -> None:
    scheduled = draft.scheduled()
    if not scheduled:
        detail = "no pod template has schedulerName kai-scheduler, so that KAI makes no gang: remove what is for it"
        draft.refuse("spec.replicatedJobs", detail)
        return
    for rj in draft.jobset.replicated_jobs:
        if rj not in scheduled:
            detail = (
                f'is "{rj.scheduler}" while KAI schedules {listed(scheduled)}: its gang has all pods of a JobSet, '
                "and never starts without these"
            )
            draft.refuse(scheduler_path(rj), detail, ErrorKind.INVALID)


def _check_words(draft: ConversionDraft) -> None:
    """Reject features that only KAI has, and those that KAI ignores."""
    for mark in draft.marks:
        field = draft.names.field(mark.key)
        if mark.key == draft.names.group_key and (mark.level, mark.field) == (Level.POD, field):
            detail = (
                "these pods join a PodGroup that KAI did not make: remove this, and ask for the gang with "
                "gangctl.dev/gang-mode"
            )
            draft.refuse(mark.path, detail)
        elif mark.key == SKIP_GROUPER and mark.value == "true":
            draft.refuse(mark.path, "KAI makes no gang of this JobSet: remove what is meant for it")
        elif mark.key in _SHARED_GPU and mark.level is Level.POD:
            draft.refuse(
                mark.path, "only KAI shares a GPU between pods: request whole ones, or leave this JobSet to KAI"
            )
        elif mark.key in _OF_OWNERS and mark.field == field and mark.level is Level.POD:
            draft.note(mark.path, f"removed {mark.key}, which KAI reads on JobSets and Jobs, not on pods")
        elif mark.key == TOPOLOGY_PREFERRED and mark.field == field:
            draft.note(mark.path, "a preferred placement has no counterpart: only topologyKey, which is required")
        elif mark.key == KAI_PRIORITY and mark.field == field:
            text = f'label stays, and says nothing to kube-scheduler: pod specs say priorityClassName "{mark.value}"'
            draft.note(mark.path, text)


def _read_topology(draft: ConversionDraft) -> dict[int, str]:
    """The topology of the whole gang, which goes to the draft, and those of each replica, by ReplicatedJob."""
    rjs = draft.jobset.replicated_jobs
    inner: dict[int, str] = {}
    for mark in draft.found(TOPOLOGY_REQUIRED, Level.JOBSET, Level.JOB):
        if not any(m.value and (m.level, m.index) == (mark.level, mark.index) for m in draft.found(TOPOLOGY)):
            draft.note(mark.path, f"KAI ignores it without {TOPOLOGY} beside it, and no topologyKey follows from it")
        elif not is_label_key(mark.value):
            draft.refuse(mark.path, f'must be the key of a node label, got "{mark.value}"', ErrorKind.INVALID)
        elif mark.level is Level.JOBSET or (mark.level is Level.JOB and len(rjs) == 1 and rjs[0].replicas == 1):
            if draft.topology_key not in {None, mark.value}:
                draft.refuse(mark.path, f'is "{mark.value}", and "{draft.topology_key}" elsewhere: a gang has one')
            draft.topology_key = mark.value
        elif mark.level is Level.JOB:
            inner[mark.index] = mark.value
    return inner


def _read_minimums(draft: ConversionDraft) -> dict[int, int]:
    """Pods that each replica needs, where these are not all; KAI's own default counts without completions."""
    minimums: dict[int, int] = {}
    for rj in draft.jobset.replicated_jobs:
        mark = draft.on(rj, MIN_MEMBER, Level.JOB)
        minimum = draft.number(mark) if mark else None
        if mark and minimum is not None and minimum != pods_per_job(rj.parallelism, None):
            needed = least(draft, draft.position, mark.path, minimum, job_pods(rj))
            if needed is not None:
                minimums[rj.index] = needed
    return minimums


def _add_groups(draft: ConversionDraft, topologies: Mapping[int, str], minimums: Mapping[int, int]) -> None:
    rjs = draft.jobset.replicated_jobs
    mark = next(draft.found(MIN_MEMBER, Level.JOBSET), None)
    own = topologies.keys() | minimums.keys()
    # In order KAI needs one of them. Without minimums and domains gangctl splits the gang itself.
    needed = draft.number(mark) if mark else 1 if own and draft.jobset.in_order else len(rjs)
    if needed is None:
        return
    path = mark.path if mark else "spec.replicatedJobs"
    if 1 < needed < len(rjs):
        detail = f"{needed} of {len(rjs)} replicated jobs cannot be said: all of them are one gang, or each is one (1)"
        draft.refuse(path, detail)
        return
    together = needed >= len(rjs)
    if together and not own:
        draft.groups.append(DraftGang(rjs, path))
        return
    for rj in rjs:
        per_job = rj.index in own and rj.replicas > 1
        draft.groups.append(DraftGang((rj,), path, per_job, minimums.get(rj.index), topologies.get(rj.index)))
        if per_job and not together:
            detail = "its replicas start together, each with its own minimum or domain, and other replicated jobs apart"
            draft.refuse(rj.path, f"{detail}: gangctl's option composite is for all gangs of a JobSet")
    draft.composite = together and (len(rjs) > 1 or draft.groups[0].per_job)
    if draft.composite:
        draft.note(path, "gangs inside of a gang: composite needs Kubernetes 1.37 and feature gate CompositePodGroup")
    if not together:
        draft.note(path, "one replicated job is enough to start: each becomes a gang of its own")


def _check_domain(draft: ConversionDraft) -> None:
    """Reject one domain for all pods where the result is several gangs, each of which would have its own."""
    rjs = draft.jobset.replicated_jobs
    several = draft.composite or len(draft.groups) > 1 or (len(rjs) > 1 and is_split(draft.jobset, rjs))
    if draft.topology_key is not None and several:
        detail = "several gangs in one domain have no equivalent: a topologyKey is of one gang"
        draft.refuse(next(draft.found(TOPOLOGY_REQUIRED, Level.JOBSET)).path, detail)


def read_kai(draft: ConversionDraft) -> None:
    """Add KAI's gangs of this JobSet."""
    _check_one_scheduler(draft)
    _check_words(draft)
    _add_groups(draft, _read_topology(draft), _read_minimums(draft))
    _check_domain(draft)
    draft.queues += [mark.value for mark in draft.found(KAI_QUEUE)]
