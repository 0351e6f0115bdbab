"""How the tests get causes: through the function that all callers use, with the real phases and groups."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gangctl.gang.reasons import Reason
from gangctl.readiness.evaluate import evaluate
from gangctl.readiness.facts import Refused, Snapshot
from gangctl.readiness.result import Cause, Readiness
from tests.live.causes_found import suggested
from tests.readiness.snapshots import NOW
from tests.suggestions import command_of

RECORDED = {
    minor: json.loads((Path(__file__).parent / "recorded" / f"{minor}.json").read_text("utf-8"))
    for minor in ("1.36", "1.37")
}
"""Messages of real schedulers, API servers and JobSet 0.12.0: conditions by case, refusals by kind."""


def causes(snapshot: Snapshot, now: float = NOW, before: Readiness | None = None) -> tuple[Cause, ...]:
    """All causes, ranked. What they suggest is run by a test, in a situation with that cause."""
    found = evaluate(snapshot, now, before).causes
    assert [cause for cause in found if not is_run(cause)] == []
    return found


def is_run(cause: Cause) -> bool:
    """Whether a test runs what a cause suggests."""
    return (cause.reason, command_of(cause.command)) in suggested()


def reasons(snapshot: Snapshot, now: float = NOW) -> list[Reason]:
    """Their reasons, ranked."""
    return [cause.reason for cause in causes(snapshot, now)]


def the(reason: Reason, snapshot: Snapshot, now: float = NOW) -> Cause:
    """The one cause with this reason."""
    found = [cause for cause in causes(snapshot, now) if cause.reason is reason]
    assert len(found) == 1, f"{reason}: {causes(snapshot, now)}"
    return found[0]


def refused_job(name: str, message: str, at: int = NOW - 5) -> Refused:
    """The Job controller's event FailedCreate."""
    return Refused("t", "Job", name, f"uid-{name}", message, at)


def refused_jobset(name: str, message: str, at: int = NOW - 5, uid: str = "") -> Refused:
    """JobSet's event JobCreationFailed."""
    return Refused("t", "JobSet", name, uid, message, at)


def recorded(minor: str, case: str) -> Any:
    """One of the recorded answers."""
    return RECORDED[minor][case]
