"""How the tests get causes: through the function that all callers use, with the real phases and groups."""

from __future__ import annotations

import json
from collections.abc import Iterable
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
    assert not (missing := [cause for cause in found if not is_run(cause)]), not_run(missing)
    return found


def not_run(missing: Iterable[Cause]) -> str:
    """Which suggestions no test runs, and where a situation for them goes."""
    named = ", ".join(f"{cause.reason} suggests: {cause.command}" for cause in missing)
    return (
        f"no test runs what {named}. Add a situation with this reason and Command to tests/live/*_situations.py, or "
        "one of stored objects to tests/cli/gangs/stored_situations.py"
    )


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
