"""A command that reads the Gang object of a gang decides as the controller does, which has seen what happened."""

from __future__ import annotations

from typing import Any

from gangctl.api.scheduling import Owner, metadata
from gangctl.readiness.evaluate import evaluate
from gangctl.readiness.memory import remembered
from gangctl.readiness.report import gang_object
from gangctl.readiness.result import GangPhase, Readiness
from tests.jobsets import jobset, rj
from tests.readiness.snapshots import (
    CREATED,
    NOW,
    PLACED,
    READY,
    RUNNING,
    Context,
    changed,
    initially_scheduled,
    rfc3339,
)
from tests.rows import each

P = GangPhase
CONTEXT = Context(jobset("js", rj("w", 1, 4, 4), mode="Gang"))
GROUPS = CONTEXT.groups(initially_scheduled())


def written(readiness: Readiness, uid: str = "") -> dict[str, Any]:
    """The Gang object that the controller writes."""
    owned = metadata("t", "js", Owner("js", uid or readiness.uid))
    return {**gang_object(readiness), "metadata": owned}


def test_a_pod_that_was_replaced_before_it_was_ready_degrades_nothing() -> None:
    """Its pods alone look as if the gang had been ready."""
    pods = CONTEXT.pods(READY)
    seen = evaluate(CONTEXT.snapshot(changed(pods, 0, ready=False, ready_at=0), groups=GROUPS), NOW)
    assert seen.phase is P.PARTIALLY_READY
    replaced = CONTEXT.snapshot(changed(pods, 0, name="new", created=NOW, ready=False, ready_at=0), groups=GROUPS)
    followed = evaluate(replaced, NOW + 5, seen)
    assert evaluate(replaced, NOW + 5).phase is P.DEGRADED
    assert evaluate(replaced, NOW + 5, remembered(written(seen))).phase is followed.phase is P.PARTIALLY_READY
    assert evaluate(replaced, NOW + 5, remembered(written(followed))).phase is P.PARTIALLY_READY


def test_a_gang_that_was_ready_and_whose_pods_have_all_been_replaced_is_degraded() -> None:
    seen = evaluate(CONTEXT.snapshot(CONTEXT.pods(READY), groups=GROUPS), NOW)
    replaced = CONTEXT.snapshot(CONTEXT.pods(RUNNING, created=NOW), groups=GROUPS)
    assert evaluate(replaced, NOW + 5).phase is P.STARTING
    found = evaluate(replaced, NOW + 5, remembered(written(seen)))
    assert found.phase is evaluate(replaced, NOW + 5, seen).phase is P.DEGRADED


def test_pods_that_are_missing_from_a_gang_that_was_ready_degrade_it_at_once() -> None:
    """The object has the pods: gangctl may have been down since it was written, and no Job counts them any more.

    A process that saw the gang ready waits for its Jobs to count pods that may have succeeded.
    """
    pods = CONTEXT.pods(READY)
    seen = evaluate(CONTEXT.snapshot(pods, groups=GROUPS), NOW)
    lost = CONTEXT.snapshot(pods[1:], groups=GROUPS)
    assert evaluate(lost, NOW + 3600, seen).phase is P.READY
    assert evaluate(lost, NOW + 3600).phase is P.DEGRADED
    assert evaluate(lost, NOW + 3600, remembered(written(seen))).phase is P.DEGRADED


@each(
    ("written_at", "phase"),
    [(NOW + 1, P.READY), (NOW - 3600, P.DEGRADED), (None, P.DEGRADED)],
)
def test_pods_that_the_controller_has_seen_go_may_be_counted_until_its_object_is_old(
    written_at: int | None, phase: GangPhase
) -> None:
    pods = CONTEXT.pods(READY)
    lost = CONTEXT.snapshot(pods[1:], groups=GROUPS)
    waits = evaluate(lost, NOW, evaluate(CONTEXT.snapshot(pods, groups=GROUPS), NOW))
    assert waits.phase is P.READY
    raw = written(waits)
    if written_at is not None:
        raw["metadata"]["managedFields"] = [{"time": rfc3339(CREATED)}, {"time": rfc3339(written_at)}]
    assert evaluate(lost, NOW + 2, remembered(raw)).phase is phase


def test_the_object_of_an_earlier_jobset_and_of_an_earlier_attempt_do_not_matter() -> None:
    seen = evaluate(CONTEXT.snapshot(CONTEXT.pods(READY), groups=GROUPS), NOW)
    replaced = CONTEXT.snapshot(CONTEXT.pods(RUNNING, created=NOW), groups=GROUPS)
    assert evaluate(replaced, NOW + 5, remembered(written(seen, "another"))).phase is P.STARTING
    again = Context(CONTEXT.raw, restarts=1, stamped=False)
    restarted = again.snapshot(again.pods(PLACED), groups=GROUPS)
    assert evaluate(restarted, NOW + 5, remembered(written(seen))).phase is P.STARTING


@each(
    "change",
    [
        {"metadata": {"name": "js", "namespace": "t"}},
        {"metadata": {"name": "js", "namespace": "t", "ownerReferences": [{"controller": True, "kind": "Deployment"}]}},
        {"status": {"phase": "Sad"}},
        {"status": 7},
        {"metadata": None},
    ],
)
def test_an_object_of_another_shape_or_owner_is_ignored(change: dict[str, Any]) -> None:
    seen = evaluate(CONTEXT.snapshot(CONTEXT.pods(READY), groups=GROUPS), NOW)
    assert remembered({**written(seen), **change}) is None
