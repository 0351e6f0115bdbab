"""The objects of an input, with the gangs of another scheduler as gangctl's annotations; or the reasons why not.

One way: what is left out is said in a note, and a JobSet whose gang gangctl cannot have is refused, because a gang
that silently became another one would be found out when it hangs. Nothing is changed in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gangctl.api.jobset import read_jobset
from gangctl.api.meta import JOBSET_GROUP
from gangctl.gang.convert import Notation, convert
from gangctl.gang.edits import Object
from gangctl.migration.conversion import convert_draft
from gangctl.migration.draft import Draft, Note, Problem
from gangctl.migration.kinds import check_kind
from gangctl.migration.marks import read_marks, systems_seen
from gangctl.migration.podgroups import read_pod_groups
from gangctl.migration.systems import NAMES, System


@dataclass(frozen=True, slots=True)
class Migration:
    """``values`` has one entry per object of the input, None for what is dropped; with ``problems`` none counts."""

    values: tuple[Object | None, ...]
    notes: tuple[Note, ...]
    problems: tuple[Problem, ...]
    converted: int
    """JobSets that were told to the system."""


def _is_jobset(raw: Object) -> bool:
    return str(raw.get("apiVersion", "")).partition("/")[0] == JOBSET_GROUP and raw.get("kind") == "JobSet"


def migrate(objects: Sequence[Object], system: System, *, queue: str = "") -> Migration:
    """Convert the JobSets of an input that are told to ``system``; ``queue`` is a LocalQueue of Kueue to put them into.

    Other JobSets get gangctl's annotations from its other notations, other objects stay as they are. PodGroups of the
    system that nobody needs any more are dropped.
    """
    pod_groups = read_pod_groups(objects, NAMES[system])
    values: list[Object | None] = list(objects)
    problems: list[Problem] = []
    drafts: list[Draft] = []
    for position, raw in enumerate(objects):
        if not _is_jobset(raw):
            if error := check_kind(raw, system):
                problems.append(Problem(position, error))
            continue
        jobset, malformed = read_jobset(raw)
        if malformed or system not in systems_seen(raw):
            conversion = convert(raw, Notation.ANNOTATIONS)
            values[position] = conversion.value
            problems += [Problem(position, error) for error in conversion.errors]
            continue
        draft = Draft(position, raw, jobset, system, tuple(read_marks(raw)))
        values[position] = convert_draft(draft, objects, pod_groups, queue)
        drafts.append(draft)
        problems += draft.problems
    notes = [note for draft in drafts for note in draft.notes]
    dropped = {position for draft in drafts for position in draft.dropped}
    for each in pod_groups:
        if each.position not in dropped:
            text = f'{NAMES[system].title} PodGroup "{each.name}" stays: no JobSet of the input needs it'
            notes.append(Note(each.position, "", text))
    for position in dropped:
        values[position] = None
    by_position = sorted(notes, key=lambda note: note.position)
    return Migration(tuple(values), tuple(by_position), tuple(problems), len(drafts))
