"""The objects of an input, with the gangs of another scheduler as gangctl's annotations; or the reasons why not.

One way: omissions are reported in notes, and a JobSet whose gang gangctl does not support is rejected, because a
silently changed gang would be noticed only when it hangs. Nothing is changed in place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gangctl.api.jobset import pod_path, read_jobset
from gangctl.api.meta import GANG_MODE, GANG_OPTIONS, GANGS, JOBSET_GROUP, QUEUE_NAME
from gangctl.api.objects import object_at
from gangctl.errors import ErrorKind
from gangctl.gang.config import GangConfig, GangMode, gangs_text, is_configured
from gangctl.gang.convert import Notation, Object, check_words, convert, options_text, with_key, with_metadata
from gangctl.gang.resolve import ClusterRules, resolve
from gangctl.migration import kai, podgroups
from gangctl.migration.draft import (
    FIELDS,
    MIN_AVAILABLE,
    NAMES,
    ConversionDraft,
    Level,
    NotConverted,
    Note,
    System,
    check_kind,
    check_texts,
    mentions,
    pod_template,
    read_marks,
    replicated_jobs,
    scheduler_path,
    systems_seen,
)
from gangctl.migration.podgroups import ForeignPodGroup, drop, gang_config, read_coscheduling, read_pod_groups


def check_words_of(draft: ConversionDraft) -> None:
    """Reject names that no component reads, and names of a second system, gangctl included."""
    for error in (*check_texts(draft.raw, draft.system), *check_words(draft.raw)):
        draft.refuse(error.path, error.detail, error.kind)
    title = draft.names.title
    for system, (what, path) in systems_seen(draft.raw).items():
        if system is not draft.system:
            other = NAMES[system].title
            detail = f"{what} is for {other}, beside what is for {title}: keep one scheduler, remove the other's words"
            draft.refuse(path, detail, ErrorKind.INVALID)
    if is_configured(draft.jobset) or draft.jobset.native_scheduling:
        path = "spec.scheduling" if draft.jobset.native_scheduling else "metadata"
        detail = f"the JobSet has a gang configuration already, beside what is for {title}: remove one of them"
        draft.refuse(path, detail, ErrorKind.INVALID)


def check_queue(draft: ConversionDraft, queue: str) -> None:
    """Reject a second queue of Kueue; note which queue is left out if none is requested."""
    if queue and draft.jobset.queue not in {"", queue}:
        detail = f'is "{draft.jobset.queue}", not "{queue}": leave --queue out, or this label'
        draft.refuse(f"metadata.labels[{QUEUE_NAME}]", detail, ErrorKind.INVALID)
    elif draft.queues and not queue and not draft.jobset.queue:
        names = ", ".join(f'"{name}"' for name in sorted(set(draft.queues)))
        text = f"queue {names} of {draft.names.title} is left out; --queue NAME puts the JobSet into one of Kueue"
        draft.note("metadata", text)


def check_uses(draft: ConversionDraft) -> None:
    """Reject pods that use a label or an annotation that is removed."""
    going = sorted({m.key for m in draft.marks if m.level is Level.POD and draft.names.reads(m.key)})
    for rj, entry in zip(draft.jobset.replicated_jobs, replicated_jobs(draft.raw), strict=True):
        spec = object_at(pod_template(entry), "spec")
        for key in going:
            if mentions(spec, key):
                detail = f"these pods use {key}, which goes: select by jobset.sigs.k8s.io/jobset-name instead"
                draft.refuse(pod_path(rj.index), detail)


def check_result(draft: ConversionDraft, value: Object) -> None:
    """Reject errors of gangctl's admission, on the newest Kubernetes; add its other notices."""
    resolution = resolve(read_jobset(value)[0], ClusterRules())
    for error in resolution.errors:
        draft.refuse(error.path, error.detail, error.kind)
    for notice in resolution.notices:
        draft.note("metadata", notice.message)


def _without_marks(draft: ConversionDraft, holder: Mapping[str, Any], level: Level, index: int = -1) -> Object:
    mine = [mark for mark in draft.marks if (mark.level, mark.index) == (level, index) and draft.names.reads(mark.key)]
    changed = dict(holder)
    for field in FIELDS:
        gone: dict[str, str | None] = {mark.key: None for mark in mine if mark.field == field}
        if gone:
            changed = with_metadata(changed, field, gone)
    return changed


def _replicated_job(draft: ConversionDraft, entry: Mapping[str, Any], index: int, mode: GangMode | None) -> Object:
    if "template" not in entry:
        return dict(entry)
    template = _without_marks(draft, entry["template"] or {}, Level.JOB, index)
    if mode is not None:
        template = with_metadata(template, "annotations", {GANG_MODE: str(mode)})
    job_spec = template.get("spec") or {}
    pod = job_spec.get("template") or {}
    changed = _without_marks(draft, pod, Level.POD, index)
    if index in draft.leaving and pod.get("spec"):
        changed = with_key(changed, "spec", with_key(pod["spec"], "schedulerName", None))
    if changed != pod:
        template = with_key(template, "spec", with_key(job_spec, "template", changed))
    return with_key(entry, "template", template)


def rewrite(draft: ConversionDraft, config: GangConfig, queue: str) -> Object:
    """The JobSet with gangctl's annotations; ``queue`` is a LocalQueue of Kueue, or empty."""
    pairs = zip(draft.raw["spec"].get("replicatedJobs") or (), config.replicated_jobs, strict=True)
    entries = [_replicated_job(draft, entry, index, mode) for index, (entry, mode) in enumerate(pairs)]
    value = _without_marks(draft, draft.raw, Level.JOBSET)
    modes = {
        GANG_MODE: str(config.jobset) if config.jobset else None,
        GANGS: gangs_text(config.gangs) if config.gangs else None,
        GANG_OPTIONS: options_text(config.options),
    }
    value = with_metadata(value, "annotations", modes)
    if queue:
        value = with_metadata(value, "labels", {QUEUE_NAME: queue})
    return with_key(value, "spec", with_key(draft.raw["spec"], "replicatedJobs", entries))


_UNDERSTOOD: Final[dict[System, frozenset[str]]] = {
    System.VOLCANO: podgroups.UNDERSTOOD,
    System.KAI: kai.UNDERSTOOD,
    System.COSCHEDULING: frozenset(),
}
"""Labels and annotations whose meaning is in the result, or in another note."""


def _read(draft: ConversionDraft, objects: Sequence[Object], pod_groups: Sequence[ForeignPodGroup]) -> None:
    match draft.system:
        case System.VOLCANO:
            podgroups.read_volcano(draft, objects, pod_groups)
        case System.KAI:
            kai.read_kai(draft)
        case System.COSCHEDULING:
            read_coscheduling(draft, objects, pod_groups)
    for pod_group in pod_groups:
        owned = pod_group.namespace == draft.jobset.namespace and draft.jobset.name in pod_group.owners
        if owned and pod_group.position not in draft.dropped:
            drop(draft, pod_group, draft.jobset.replicated_jobs)


def _leave_scheduler(draft: ConversionDraft) -> None:
    """Choose the ``schedulerName`` fields to remove: the system's own, and those of all members of a gang."""
    members = {rj.index for group in draft.groups for rj in group.members}
    for rj in draft.jobset.replicated_jobs:
        known = rj.scheduler in draft.names.schedulers
        if rj.scheduler and (known or rj.index in members):
            draft.leaving.add(rj.index)
            if not known:
                draft.note(
                    scheduler_path(rj), f'removed schedulerName "{rj.scheduler}": kube-scheduler has the gang now'
                )


def _note_leftovers(draft: ConversionDraft) -> None:
    """Note names of the system that have no equivalent in the result."""
    noted: set[str] = set()
    names = draft.names
    for mark in draft.marks:
        field = names.field(mark.key)
        if mark.key in {names.group_key, *names.old_keys, *MIN_AVAILABLE}:
            if (mark.level, mark.field) != (Level.POD, field):
                draft.note(mark.path, f"removed {mark.key}, which {names.title} reads in the {field} of pods only")
        elif mark.key in _UNDERSTOOD[draft.system]:
            if mark.field != field:
                draft.note(mark.path, f"removed {mark.key}, which {names.title} reads in {field} only")
        elif names.reads(mark.key) and mark.key not in noted:
            noted.add(mark.key)
            draft.note(mark.path, f"removed {mark.key}, which only {names.title} reads")


def convert_draft(
    draft: ConversionDraft, objects: Sequence[Object], pod_groups: Sequence[ForeignPodGroup], queue: str
) -> Object:
    """The JobSet with gangctl's annotations; unchanged if the draft has problems afterwards."""
    # First, and alone: what has two meanings would be read as one of them below.
    check_words_of(draft)
    if draft.problems:
        return draft.raw
    _read(draft, objects, pod_groups)
    config = gang_config(draft)
    _leave_scheduler(draft)
    _note_leftovers(draft)
    check_queue(draft, queue)
    check_uses(draft)
    if draft.problems:
        return draft.raw
    value = rewrite(draft, config, queue)
    check_result(draft, value)
    return draft.raw if draft.problems else value


@dataclass(frozen=True, slots=True)
class Migration:
    """``values`` has one entry per object of the input, None for what is dropped; with ``problems`` none counts."""

    values: tuple[Object | None, ...]
    notes: tuple[Note, ...]
    problems: tuple[NotConverted, ...]
    converted: int
    """JobSets with marks of the system."""


def migrate(objects: Sequence[Object], system: System, *, queue: str = "") -> Migration:
    """Convert the JobSets of an input with marks of ``system``; ``queue`` is a LocalQueue of Kueue to put them into.

    Other JobSets get gangctl's annotations from its other notations, other objects stay as they are. Unused PodGroups
    of the system are dropped.
    """
    pod_groups = read_pod_groups(objects, NAMES[system])
    values: list[Object | None] = list(objects)
    problems: list[NotConverted] = []
    drafts: list[ConversionDraft] = []
    for position, raw in enumerate(objects):
        if not (str(raw.get("apiVersion", "")).partition("/")[0] == JOBSET_GROUP and raw.get("kind") == "JobSet"):
            if error := check_kind(raw, system):
                problems.append(NotConverted(position, error))
            continue
        jobset, malformed = read_jobset(raw)
        if malformed or system not in systems_seen(raw):
            conversion = convert(raw, Notation.ANNOTATIONS)
            values[position] = conversion.value
            problems += [NotConverted(position, error) for error in conversion.errors]
            continue
        draft = ConversionDraft(position, raw, jobset, system, tuple(read_marks(raw)))
        values[position] = convert_draft(draft, objects, pod_groups, queue)
        drafts.append(draft)
        problems += draft.problems
    notes = [note for draft in drafts for note in draft.notes]
    dropped = {position for draft in drafts for position in draft.dropped}
    for pod_group in pod_groups:
        if pod_group.position not in dropped:
            text = f'{NAMES[system].title} PodGroup "{pod_group.name}" stays: no JobSet of the input needs it'
            notes.append(Note(pod_group.position, "", text))
    for position in dropped:
        # Not removed: the positions in notes and problems are those of the input.
        values[position] = None
    by_position = sorted(notes, key=lambda note: note.position)
    return Migration(tuple(values), tuple(by_position), tuple(problems), len(drafts))
