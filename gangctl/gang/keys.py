"""Annotations and labels with gangctl's prefix that gangctl does not read: misspelt, or in the wrong place."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Final

from gangctl.api.jobset import JobSet
from gangctl.api.meta import EXPECTED_DURATION, GANG_MODE, GANG_OPTIONS, GANG_REF, GANGS, PREFIX, SKIP_LABEL
from gangctl.errors import one_line
from gangctl.gang.reasons import Notice, Reason

_BELONGS: Final = {
    GANG_MODE: "it is an annotation, of the JobSet or of replicatedJobs[].template.metadata",
    GANG_OPTIONS: "it is an annotation of the JobSet",
    GANGS: "it is an annotation of the JobSet",
    EXPECTED_DURATION: "it is an annotation of the JobSet",
    GANG_REF: "gangctl writes it itself: leave it out",
    SKIP_LABEL: "it is a label of namespaces",
}
_SHOWN: Final = 64


def check_keys(jobset: JobSet) -> tuple[Notice, ...]:
    """A notice for each key that has no effect, with the key that was probably meant."""
    return tuple(
        Notice(Reason.UNKNOWN_KEY, f"{path}[{one_line(key, _SHOWN)}] has no effect: {_why(key)}.")
        for path, key in jobset.unread
    )


def _why(key: str) -> str:
    if key in _BELONGS:
        return _BELONGS[key]
    names = [each.removeprefix(PREFIX) for each in (GANG_MODE, GANG_OPTIONS, GANGS, EXPECTED_DURATION)]
    near = get_close_matches(key.removeprefix(PREFIX)[:_SHOWN], names, n=1, cutoff=0.75)
    known = f"did you mean {PREFIX}{near[0]}" if near else f"gangctl reads {GANG_MODE}, {GANG_OPTIONS} and {GANGS}"
    return f"gangctl knows no such key; {known}"
