"""What came of a look at one JobSet, in words that can be counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from gangctl.gang.diff import Change, Create, Delete, Kind, SetMinCounts
from gangctl.gang.report import Level

Result = Literal["unchanged", "created", "recreated", "prepared", "patched", "deleted", "rejected", "failed"]
FieldClass = Literal["existence", "min_count", "templates", "surplus"]


class TranslationObserver:
    """Told what the gang controller makes of JobSets; the default ignores it."""

    def translated(self, level: Level, result: Result) -> None:
        """Tell what came of one look at a JobSet whose gangs are of this level."""

    def repaired(self, kind: Kind, field_class: FieldClass) -> None:
        """Tell that an object was repaired that was not as it should be, and what of it was wrong."""


def result_of(changes: Sequence[Change], *, before: bool) -> Result:
    """What changes that were carried out come to; ``before`` says that the JobSet had its objects already."""
    if not changes:
        return "unchanged"
    created = [change for change in changes if isinstance(change, Create)]
    if created and all(change.spare for change in created):
        return "prepared"
    if created:
        return "recreated" if before else "created"
    return "patched" if any(isinstance(change, SetMinCounts) for change in changes) else "deleted"


def repairs(changes: Sequence[Change], *, before: bool) -> Iterator[tuple[Kind, FieldClass]]:
    """What these changes repair: nothing that follows from pods that finished, from a restart or from a new JobSet."""
    for change in changes:
        match change:
            case Create(kind=kind, spare=spare):
                if before and not spare:
                    yield kind, "existence"
            case SetMinCounts(kind=kind, progress=progress):
                if not progress:
                    yield kind, "min_count"
            case Delete(kind="Workload"):
                yield "Workload", "templates"
            case Delete(kind=kind, progress=progress):
                if not progress:
                    yield kind, "surplus"
