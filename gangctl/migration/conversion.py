"""One JobSet of another scheduler as a JobSet of gangctl."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gangctl.gang.edits import Object
from gangctl.migration import kai, volcano
from gangctl.migration.checks import check_queue, check_result, check_uses, check_words_of
from gangctl.migration.coscheduling import read_coscheduling
from gangctl.migration.draft import Draft, scheduler_path
from gangctl.migration.marks import Level
from gangctl.migration.modes import gang_config
from gangctl.migration.podgroups import PodGroup, drop
from gangctl.migration.rewriting import rewrite
from gangctl.migration.systems import System

_UNDERSTOOD: Final[dict[System, frozenset[str]]] = {
    System.VOLCANO: volcano.UNDERSTOOD,
    System.KAI: kai.UNDERSTOOD,
    System.COSCHEDULING: frozenset(),
}
"""Labels and annotations whose meaning is in the result, or of which something else is said."""


def _read(draft: Draft, objects: Sequence[Object], pod_groups: Sequence[PodGroup]) -> None:
    match draft.system:
        case System.VOLCANO:
            volcano.read_volcano(draft, objects, pod_groups)
        case System.KAI:
            kai.read_kai(draft)
        case System.COSCHEDULING:
            read_coscheduling(draft, objects, pod_groups)
    for each in pod_groups:
        if draft.jobset.name in each.owners and each.position not in draft.dropped:
            drop(draft, each)


def _leave_scheduler(draft: Draft) -> None:
    """Settle whose ``schedulerName`` goes: the system's own, and that of all members of a gang."""
    members = {rj.index for group in draft.groups for rj in group.members}
    for rj in draft.jobset.replicated_jobs:
        known = rj.scheduler in draft.names.schedulers
        if rj.scheduler and (known or rj.index in members):
            draft.leaving.add(rj.index)
            if not known:
                draft.note(
                    scheduler_path(rj), f'removed schedulerName "{rj.scheduler}": kube-scheduler has the gang now'
                )


def _note_leftovers(draft: Draft) -> None:
    """Say which words of the system go without a trace in the result."""
    told: set[str] = set()
    names = draft.names
    for mark in draft.marks:
        if mark.key == names.group_key:
            if (mark.level, mark.field) != (Level.POD, names.group_field):
                text = f"removed {mark.key}, which {names.title} reads in the {names.group_field} of pods only"
                draft.note(mark.path, text)
        elif names.reads(mark.key) and mark.key not in _UNDERSTOOD[draft.system] | told:
            told.add(mark.key)
            draft.note(mark.path, f"removed {mark.key}, which only {names.title} reads")


def convert_draft(draft: Draft, objects: Sequence[Object], pod_groups: Sequence[PodGroup], queue: str) -> Object:
    """The JobSet as gangctl wants it; as it was, when the draft has problems afterwards."""
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
