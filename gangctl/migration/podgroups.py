"""Volcano and coscheduling: fields of PodGroups, their JobSets, and their gangs, as modes of GangConfig.

Coscheduling (scheduler-plugins ``pkg/coscheduling/core``) makes one gang of all pods that a label puts into one
PodGroup: pods count by label and namespace, with any owner, and start when ``minMember`` of them have a node. The
scheduler's name is the cluster's choice.

Volcano groups pods by the PodGroup that they name, else by their Job.

Source: Volcano ``pkg/controllers/podgroup``: pods without a group of their own get one per owner, here per Job, whose
minimum is the annotation group-min-member *of the Job*, or 1, which is no gang.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from gangctl.api.jobset import ReplicatedJob, pod_path
from gangctl.api.objects import object_at, objects_at
from gangctl.errors import ErrorKind
from gangctl.gang.config import Gang, GangConfig, GangMode, GangOptions
from gangctl.gang.convert import Object
from gangctl.gang.naming import template_names
from gangctl.gang.plan import job_pods
from gangctl.migration.draft import (
    MIN_AVAILABLE,
    ConversionDraft,
    DraftGang,
    Level,
    Mark,
    Names,
    Note,
    inside,
    least,
    listed,
    pod_template,
    replicated_jobs,
    scheduler_path,
)


def _single(draft: ConversionDraft, group: DraftGang) -> GangConfig:
    """One gang of several ReplicatedJobs: the JobSet's, without those that are not in it."""
    members = {rj.index for rj in group.members}
    rjs = draft.jobset.replicated_jobs
    return GangConfig(GangMode.GANG, tuple(None if rj.index in members else GangMode.OFF for rj in rjs))


def _mode(group: DraftGang) -> GangMode:
    (rj,) = group.members
    return GangMode.REPLICATED_GANG if group.per_job and rj.replicas > 1 else GangMode.GANG


def _named(draft: ConversionDraft) -> GangConfig:
    """A list of gangs, for what the modes have no word for; each has the name of its first ReplicatedJob."""
    rjs = draft.jobset.replicated_jobs
    known = tuple(rj.name for rj in rjs)
    names = dict(zip(known, template_names(known), strict=True))
    gangs = tuple(
        Gang.model_validate(
            {
                "name": names[group.members[0].name],
                "replicatedJobs": tuple(rj.name for rj in group.members),
                "perReplica": group.per_job and group.members[0].replicas > 1,
                "topologyKey": group.topology_key or draft.topology_key,
                "minCount": group.minimum,
            }
        )
        for group in draft.groups
    )
    return GangConfig(None, (None,) * len(rjs), GangOptions(composite=draft.composite), gangs)


def gang_config(draft: ConversionDraft) -> GangConfig:
    """The configuration equivalent to a draft's groups."""
    rjs = draft.jobset.replicated_jobs
    shared = [group for group in draft.groups if len(group.members) > 1]
    own = any(group.minimum or group.topology_key for group in draft.groups)
    if draft.composite or own or (shared and len(draft.groups) > 1):
        return _named(draft)
    config = GangConfig(None, (None,) * len(rjs))
    if shared:
        config = _single(draft, shared[0])
    elif len(draft.groups) == len(rjs) == 1 and _mode(draft.groups[0]) is GangMode.GANG:
        config = _single(draft, draft.groups[0])
    else:
        modes = {group.members[0].index: _mode(group) for group in draft.groups}
        config = GangConfig(None, tuple(modes.get(rj.index) for rj in rjs))
    options = GangOptions.model_validate({"topologyKey": draft.topology_key})
    return GangConfig(config.jobset, config.replicated_jobs, options)


_DERIVED: Final = frozenset({"minMember", "minResources", "queue", "priorityClassName"})
"""Fields that gangctl computes, or of which there is a note where one is needed."""


@dataclass(frozen=True, slots=True)
class ForeignPodGroup:
    """One PodGroup of the input."""

    position: int
    namespace: str
    name: str
    spec: Mapping[str, Any]
    owners: frozenset[str]
    """Names of the JobSets that own it: then a controller wrote it."""


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def read_pod_groups(objects: Sequence[Object], names: Names) -> list[ForeignPodGroup]:
    """The system's PodGroups of an input, in its order."""
    pod_groups = []
    for position, raw in enumerate(objects):
        if str(raw.get("apiVersion")).partition("/")[0] not in names.group_apis or raw.get("kind") != "PodGroup":
            continue
        meta = object_at(raw, "metadata")
        owners = objects_at(meta, "ownerReferences")
        jobsets = frozenset(_text(owner.get("name")) for owner in owners if owner.get("kind") == "JobSet")
        namespace, name = _text(meta.get("namespace")), _text(meta.get("name"))
        pod_groups.append(ForeignPodGroup(position, namespace, name, object_at(raw, "spec"), jobsets))
    return pod_groups


def _others(draft: ConversionDraft, objects: Sequence[Object], group: str) -> Iterator[str]:
    """Other objects of the input whose pods join the same PodGroup."""
    for position, raw in enumerate(objects):
        meta = object_at(raw, "metadata")
        if position == draft.position or _text(meta.get("namespace")) != draft.jobset.namespace:
            continue
        keys = (draft.names.group_key, *draft.names.old_keys)
        if any(part.get(key) == group for part in inside(raw) if isinstance(part, dict) for key in keys):
            yield f'{raw.get("kind")} "{_text(meta.get("name"))}"'


def named_members(draft: ConversionDraft, rjs: Sequence[ReplicatedJob]) -> dict[str, list[tuple[ReplicatedJob, Mark]]]:
    """Which of these ReplicatedJobs' pods join which PodGroup."""
    members: dict[str, list[tuple[ReplicatedJob, Mark]]] = {}
    for rj in rjs:
        if mark := draft.group_of(rj):
            members.setdefault(mark.value, []).append((rj, mark))
    return members


def _check_schedulers(draft: ConversionDraft, members: Sequence[ReplicatedJob]) -> bool:
    first = members[0]
    for rj in members[1:]:
        if rj.scheduler != first.scheduler:
            detail = (
                f'is "{rj.scheduler}" and "{first.scheduler}" for replicated job "{first.name}" of the same group: '
                "one scheduler must see all pods of a gang"
            )
            draft.refuse(scheduler_path(rj), detail, ErrorKind.INVALID)
            return False
    return True


def add_named_group(
    draft: ConversionDraft,
    objects: Sequence[Object],
    pod_groups: Sequence[ForeignPodGroup],
    name: str,
    joined: Sequence[tuple[ReplicatedJob, Mark]],
) -> ForeignPodGroup | None:
    """Add the gang of the pods that name one PodGroup, or a problem; returns the PodGroup, if it is in the input."""
    path = joined[0][1].path
    members = tuple(rj for rj, _ in joined)
    if others := ", ".join(_others(draft, objects, name)):
        draft.refuse(path, f'PodGroup "{name}" is also that of {others}: a gang of gangctl is within one JobSet')
        return None
    matches = [
        pod_group for pod_group in pod_groups if (pod_group.namespace, pod_group.name) == (draft.jobset.namespace, name)
    ]
    labels = [label for key in MIN_AVAILABLE if (label := draft.on(members[0], key, Level.POD)) is not None]
    if not matches and labels:
        available = labels[0]
        if (minimum := draft.number(available)) is not None and _check_schedulers(draft, members):
            group = DraftGang(members, path)
            needed = least(draft, draft.position, available.path, minimum, group.pods)
            draft.groups.append(replace(group, minimum=needed))
        return None
    if not matches:
        where = f'namespace "{draft.jobset.namespace}"' if draft.jobset.namespace else "no namespace"
        detail = (
            f'no PodGroup "{name}" with {where} is in the input, and its minMember says how many pods the gang has: '
            "add its file"
        )
        draft.refuse(path, detail, ErrorKind.REQUIRED)
        return None
    group, pod_group = DraftGang(members, path), matches[0]
    minimum = pod_group.spec.get("minMember")
    if not isinstance(minimum, int) or isinstance(minimum, bool) or minimum < 1:
        detail = f"is absent or 0, which {draft.names.title} takes for no gang: write {group.pods} to make it one"
        draft.refuse_at(pod_group.position, "spec.minMember", detail)
    elif _check_schedulers(draft, members):
        needed = least(draft, pod_group.position, "spec.minMember", minimum, group.pods)
        draft.groups.append(replace(group, minimum=needed))
    if queue := _text(pod_group.spec.get("queue")):
        draft.queues.append(queue)
    drop(draft, pod_group, members)
    return pod_group


def drop(draft: ConversionDraft, pod_group: ForeignPodGroup, members: Sequence[ReplicatedJob]) -> None:
    """Omit the PodGroup of these ReplicatedJobs' pods from the output, with a note."""
    lost = sorted(set(pod_group.spec) - _DERIVED)
    more = f"; its {', '.join(lost)} have no counterpart" if lost else ""
    priority = _text(pod_group.spec.get("priorityClassName"))
    # A gang of gangctl has the class of its pods.
    if priority and any(rj.priority_class != priority for rj in members):
        more += f'; write its priorityClassName "{priority}" into the pod templates'
    text = f'dropped {draft.names.title} PodGroup "{pod_group.name}": gangctl makes its own{more}'
    draft.notes.append(Note(pod_group.position, "", text))
    draft.dropped.add(pod_group.position)


def read_coscheduling(draft: ConversionDraft, objects: Sequence[Object], pod_groups: Sequence[ForeignPodGroup]) -> None:
    """Add coscheduling's gangs of this JobSet."""
    members = named_members(draft, draft.jobset.replicated_jobs)
    for name, joined in members.items():
        add_named_group(draft, objects, pod_groups, name, joined)
        if (old := joined[0][1]).key in draft.names.old_keys:
            text = f"coscheduling reads {draft.names.group_key} today, not {old.key}; taken as it is meant: one gang"
            draft.note(old.path, text)
    if not members:
        path = "spec.replicatedJobs"
        detail = (
            f"no pod template has the label {draft.names.group_key}: coscheduling makes no gang of this JobSet. Remove "
            "schedulerName and what else is for it, and ask for a gang with gangctl.dev/gang-mode"
        )
        draft.refuse(path, detail)


MIN_MEMBER: Final = "scheduling.volcano.sh/group-min-member"
QUEUE: Final = "scheduling.volcano.sh/queue-name"
TOPOLOGY_MODE: Final = "volcano.sh/network-topology-mode"
TOPOLOGY_TIER: Final = "volcano.sh/network-topology-highest-tier"
UNDERSTOOD: Final = frozenset({MIN_MEMBER, QUEUE})
_SHARED_GPU: Final = "volcano.sh/vgpu-"
"""Of the resources of a part of a GPU: Volcano writes into the pod which part, and its device plugin reads that."""
_SOFT: Final = "soft"
_TOPOLOGY: Final = (
    "a tier of HyperNodes is no node label, which is what topologyKey names: remove this, and write "
    '{"topologyKey": LABEL} in gangctl.dev/gang-options afterwards'
)


def _unseen(draft: ConversionDraft) -> None:
    """Reject marks of Volcano on pods that another scheduler places."""
    for rj in draft.jobset.replicated_jobs:
        mark = draft.group_of(rj) or draft.on(rj, MIN_MEMBER, Level.JOB)
        if mark and rj.scheduler not in draft.names.schedulers:
            detail = (
                f'is "{rj.scheduler}", so that Volcano never sees these pods, but {mark.key} puts them into a group: '
                "remove that, or name its scheduler"
            )
            draft.refuse(scheduler_path(rj), detail)


def _add_jobs(draft: ConversionDraft, rj: ReplicatedJob) -> bool:
    """Add one gang per Job of a ReplicatedJob whose pods name no PodGroup; False when that is none."""
    mark = draft.on(rj, MIN_MEMBER, Level.JOB)
    if mark is None:
        return False
    minimum = draft.number(mark)
    if minimum is not None:
        needed = least(draft, draft.position, mark.path, minimum, job_pods(rj))
        draft.groups.append(DraftGang((rj,), mark.path, per_job=True, minimum=needed))
    return True


def _add_as_meant(draft: ConversionDraft, rest: Sequence[ReplicatedJob]) -> bool:
    """Add the gang of a minimum on the JobSet, although Volcano does not read it there; False without one."""
    mark = next(draft.found(MIN_MEMBER, Level.JOBSET), None)
    if mark is None or not rest:
        return False
    minimum = draft.number(mark)
    group = DraftGang(tuple(rest), mark.path)
    if minimum is not None:
        needed = least(draft, draft.position, mark.path, minimum, group.pods)
        draft.groups.append(replace(group, minimum=needed))
        text = (
            f"Volcano reads {MIN_MEMBER} on Jobs, not on the JobSet, so that these pods were no gang so far; "
            f"taken as it is meant: {f'{needed} of them' if needed else 'all of them'} start together"
        )
        draft.note(mark.path, text)
    return True


def _read_topology(draft: ConversionDraft) -> None:
    for mark in (*draft.found(TOPOLOGY_MODE), *draft.found(TOPOLOGY_TIER)):
        mode = next((m for m in draft.found(TOPOLOGY_MODE, mark.level) if m.index == mark.index), None)
        if mode is None or mode.value.lower() != _SOFT:
            draft.refuse(mark.path, _TOPOLOGY)


def _check_resources(draft: ConversionDraft) -> None:
    """Reject pods that request resources which only Volcano assigns."""
    for rj, entry in zip(draft.jobset.replicated_jobs, replicated_jobs(draft.raw), strict=True):
        parts = inside(object_at(pod_template(entry), "spec"))
        names = sorted({key for part in parts if isinstance(part, dict) for key in part if key.startswith(_SHARED_GPU)})
        if names:
            detail = (
                f"these pods request {', '.join(names)}, and only Volcano shares a GPU between pods: request whole "
                "ones, or leave this JobSet to Volcano"
            )
            draft.refuse(pod_path(rj.index), detail)


def _read_pod_group(draft: ConversionDraft, pod_group: ForeignPodGroup) -> None:
    topology = pod_group.spec.get("networkTopology")
    if topology and not (isinstance(topology, dict) and topology.get("mode") == _SOFT):
        draft.refuse_at(pod_group.position, "spec.networkTopology", _TOPOLOGY)
    for field in ("minTaskMember", "subGroupPolicy"):
        if pod_group.spec.get(field):
            detail = (
                "is not converted: remove it, and write the gangs inside into gangctl.dev/gangs afterwards, with the "
                "option composite"
            )
            draft.refuse_at(pod_group.position, f"spec.{field}", detail)


def read_volcano(draft: ConversionDraft, objects: Sequence[Object], pod_groups: Sequence[ForeignPodGroup]) -> None:
    """Add Volcano's gangs of this JobSet."""
    _unseen(draft)
    _check_resources(draft)
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
