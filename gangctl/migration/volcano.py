"""Volcano's gangs of a JobSet: Volcano groups pods by the PodGroup that they name, else by their Job.

Source: Volcano ``pkg/controllers/podgroup``: pods without a group of their own get one per owner, here per Job, whose
minimum is the annotation group-min-member *of the Job*, or 1, which is no gang.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gangctl.api.jobset import ReplicatedJob
from gangctl.gang.convert import Object
from gangctl.gang.plan import job_pods
from gangctl.migration.draft import Draft, Group, Level, check_minimum, listed, scheduler_path
from gangctl.migration.podgroups import PodGroup, add_named_group, named_members

MIN_MEMBER: Final = "scheduling.volcano.sh/group-min-member"
QUEUE: Final = "scheduling.volcano.sh/queue-name"
TOPOLOGY_MODE: Final = "volcano.sh/network-topology-mode"
TOPOLOGY_TIER: Final = "volcano.sh/network-topology-highest-tier"
UNDERSTOOD: Final = frozenset({MIN_MEMBER, QUEUE})
_SOFT: Final = "soft"
_TOPOLOGY: Final = (
    "a tier of HyperNodes is no node label, which is what topologyKey names: remove this, and write "
    '{"topologyKey": LABEL} in gangctl.dev/gang-options afterwards'
)


def _unseen(draft: Draft) -> None:
    """Reject marks of Volcano on pods that another scheduler places."""
    for rj in draft.jobset.replicated_jobs:
        mark = draft.group_of(rj) or draft.on(rj, MIN_MEMBER, Level.JOB)
        if mark and rj.scheduler not in draft.names.schedulers:
            detail = (
                f'is "{rj.scheduler}", so that Volcano never sees these pods, but {mark.key} puts them into a group: '
                "remove that, or name its scheduler"
            )
            draft.refuse(scheduler_path(rj), detail)


def _add_jobs(draft: Draft, rj: ReplicatedJob) -> bool:
    """Add one gang per Job of a ReplicatedJob whose pods name no PodGroup; False when that is none."""
    mark = draft.on(rj, MIN_MEMBER, Level.JOB)
    if mark is None:
        return False
    minimum = draft.number(mark)
    if minimum is not None and check_minimum(draft, draft.position, mark.path, minimum, job_pods(rj)):
        draft.groups.append(Group((rj,), mark.path, per_job=True))
    return True


def _add_as_meant(draft: Draft, rest: Sequence[ReplicatedJob]) -> bool:
    """Add the gang of a minimum on the JobSet, although Volcano does not read it there; False without one."""
    mark = next(draft.found(MIN_MEMBER, Level.JOBSET), None)
    if mark is None or not rest:
        return False
    minimum = draft.number(mark)
    group = Group(tuple(rest), mark.path)
    if minimum is not None and check_minimum(draft, draft.position, mark.path, minimum, group.pods):
        draft.groups.append(group)
        text = (
            f"Volcano reads {MIN_MEMBER} on Jobs, not on the JobSet, so that these pods were no gang so far; "
            "taken as it is meant: all of them start together"
        )
        draft.note(mark.path, text)
    return True


def _read_topology(draft: Draft) -> None:
    for mark in (*draft.found(TOPOLOGY_MODE), *draft.found(TOPOLOGY_TIER)):
        mode = next((m for m in draft.found(TOPOLOGY_MODE, mark.level) if m.index == mark.index), None)
        if mode is None or mode.value.lower() != _SOFT:
            draft.refuse(mark.path, _TOPOLOGY)


def _read_pod_group(draft: Draft, pod_group: PodGroup) -> None:
    topology = pod_group.spec.get("networkTopology")
    if topology and not (isinstance(topology, dict) and topology.get("mode") == _SOFT):
        draft.refuse_at(pod_group.position, "spec.networkTopology", _TOPOLOGY)
    for field in ("minTaskMember", "subGroupPolicy"):
        if pod_group.spec.get(field):
            detail = "gangs inside of a gang cannot be said with gangctl's annotations"
            draft.refuse_at(pod_group.position, f"spec.{field}", detail)


def read_volcano(draft: Draft, objects: Sequence[Object], pod_groups: Sequence[PodGroup]) -> None:
    """Add Volcano's gangs of this JobSet."""
    _unseen(draft)
    _read_topology(draft)
    draft.queues += [mark.value for mark in draft.found(QUEUE)]
    for mark in draft.found(MIN_MEMBER, Level.POD):
        draft.refuse(mark.path, "Volcano reads this on Jobs: move it to template.metadata, or remove it")
    scheduled = draft.scheduled()
    members = named_members(draft, scheduled)
    for name, joined in members.items():
        if pod_group := add_named_group(draft, objects, pod_groups, name, joined):
            _read_pod_group(draft, pod_group)
    named = {rj.index for joined in members.values() for rj, _ in joined}
    rest = [rj for rj in scheduled if rj.index not in named and not _add_jobs(draft, rj)]
    if not _add_as_meant(draft, rest) and rest:
        text = (
            f"Volcano makes no gang of the pods of {listed(rest)}, which say neither {draft.names.group_key} nor "
            f"{MIN_MEMBER}: they get no gangctl.dev/gang-mode either"
        )
        draft.note(scheduler_path(rest[0]), text)
    if not scheduled and not draft.problems:
        detail = "no pod template has schedulerName volcano, so that Volcano makes no gang: remove what is for it"
        draft.refuse("spec.replicatedJobs", detail)
