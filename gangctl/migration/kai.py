"""KAI's gangs of a JobSet: one of all its pods, unless an annotation sets fewer.

Source: KAI ``pkg/podgrouper/podgrouper/plugins/jobset``: one PodGroup with a subgroup per ReplicatedJob and below
it one per replica, which needs ``parallelism`` pods. All ReplicatedJobs are needed, with startupPolicy InOrder one.
Annotation batch-min-member changes that number: of ReplicatedJobs on the JobSet, of pods per replica on a Job template.
"""

from __future__ import annotations

from typing import Final

from gangctl.errors import ErrorKind
from gangctl.gang.config import is_label_key
from gangctl.gang.plan import job_pods, pods_per_job
from gangctl.migration.draft import Draft, Group, Level, check_minimum, listed, scheduler_path

MIN_MEMBER: Final = "kai.scheduler/batch-min-member"
QUEUE: Final = "kai.scheduler/queue"
TOPOLOGY_REQUIRED: Final = "kai.scheduler/topology-required-placement"
TOPOLOGY_PREFERRED: Final = "kai.scheduler/topology-preferred-placement"
TOPOLOGY: Final = "kai.scheduler/topology"
UNDERSTOOD: Final = frozenset({MIN_MEMBER, QUEUE, TOPOLOGY, TOPOLOGY_REQUIRED, TOPOLOGY_PREFERRED})
SKIP_GROUPER: Final = "kai.scheduler/skip-podgrouper"
PRIORITY_LABEL: Final = "priorityClassName"
_SHARED_GPU: Final = ("gpu-fraction", "gpu-memory", "gpu-fraction-num-devices")


def _check_one_scheduler(draft: Draft) -> None:
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


def _check_words(draft: Draft) -> None:
    """Reject features that only KAI has, and those that KAI ignores."""
    for mark in draft.marks:
        if mark.key == draft.names.group_key and (mark.level, mark.field) == (Level.POD, draft.names.group_field):
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
        elif mark.key == TOPOLOGY_PREFERRED:
            draft.note(mark.path, "a preferred placement has no counterpart: only topologyKey, which is required")
        elif mark.key == PRIORITY_LABEL and mark.field == "labels":
            text = f'label stays, and says nothing to kube-scheduler: pod specs say priorityClassName "{mark.value}"'
            draft.note(mark.path, text)


def _read_topology(draft: Draft) -> None:
    rjs = draft.jobset.replicated_jobs
    for mark in draft.found(TOPOLOGY_REQUIRED):
        if not is_label_key(mark.value):
            draft.refuse(mark.path, f'must be the key of a node label, got "{mark.value}"', ErrorKind.INVALID)
            continue
        alone = mark.level is Level.JOB and len(rjs) == 1 and rjs[0].replicas == 1
        if (mark.level is Level.JOBSET or alone) and draft.topology_key in {None, mark.value}:
            draft.topology_key = mark.value
        elif mark.level is not Level.POD:
            detail = (
                "each replica in a domain of its own, inside of a gang of all, cannot be said: topologyKey is for a "
                'whole gang. Remove it, and afterwards take gang-mode "ReplicatedGang" if replicas may start apart'
            )
            draft.refuse(mark.path, detail)


def _check_replicas(draft: Draft) -> None:
    """Reject replicas that need fewer pods than they have; KAI's own default counts without completions."""
    for rj in draft.jobset.replicated_jobs:
        mark = draft.on(rj, MIN_MEMBER, Level.JOB)
        minimum = draft.number(mark) if mark else None
        if mark and minimum is not None and minimum != pods_per_job(rj.parallelism, None):
            check_minimum(draft, draft.position, mark.path, minimum, job_pods(rj))


def _add_groups(draft: Draft) -> None:
    rjs = draft.jobset.replicated_jobs
    mark = next(draft.found(MIN_MEMBER, Level.JOBSET), None)
    needed = draft.number(mark) if mark else len(rjs)
    if needed is None:
        return
    path = mark.path if mark else "spec.replicatedJobs"
    if needed >= len(rjs):
        draft.groups.append(Group(rjs, path))
    elif needed == 1:
        draft.groups += [Group((rj,), path) for rj in rjs]
        draft.note(path, "one replicated job is enough to start: each becomes a gang of its own")
    else:
        detail = f"{needed} of {len(rjs)} replicated jobs cannot be said: all of them are one gang, or each is one (1)"
        draft.refuse(path, detail)


def read_kai(draft: Draft) -> None:
    """Add KAI's gangs of this JobSet."""
    _check_one_scheduler(draft)
    _check_words(draft)
    _read_topology(draft)
    _check_replicas(draft)
    _add_groups(draft)
    draft.queues += [mark.value for mark in draft.found(QUEUE)]
