"""A gang that is ready without the all-or-nothing guarantee is distinguished from one that has it."""

from __future__ import annotations

from dataclasses import replace

from gangctl.api.meta import GANGS
from gangctl.api.objects import Object
from gangctl.gang.reasons import Reason
from gangctl.readiness.causes.context import LATE
from gangctl.readiness.evaluate import evaluate
from gangctl.readiness.report import gang_status
from gangctl.readiness.result import GangPhase, Readiness
from tests.jobsets import MODE, REF, jobset, rj
from tests.readiness.snapshots import NOW, PLACED_AT, READY, Context, initially_scheduled
from tests.rows import each

GANG = Context(jobset("js", rj("w", 1, 4, 4), mode="Gang", uid="u"))


def lost(found: Readiness) -> Reason | None:
    assert (found.phase, found.causes) == (GangPhase.READY, ())
    assert found.lost is None or not found.lost.blocking
    return found.lost.reason if found.lost is not None else None


def test_a_gang_placed_as_a_whole_has_the_guarantee() -> None:
    groups = GANG.groups(initially_scheduled())
    assert lost(evaluate(GANG.snapshot(GANG.pods(READY), groups=groups), NOW)) is None


def test_ready_pods_without_a_group_lack_the_guarantee() -> None:
    pods = [replace(pod, group="") for pod in GANG.pods(READY)]
    assert lost(evaluate(GANG.snapshot(pods), NOW)) is Reason.FIELD_DROPPED


def test_a_group_ignored_by_the_scheduler_lacks_the_guarantee() -> None:
    snapshot = GANG.snapshot(GANG.pods(READY))
    early = evaluate(snapshot, PLACED_AT + LATE - 1)
    assert lost(early) is None
    assert early.look_again == PLACED_AT + LATE
    assert lost(evaluate(snapshot, PLACED_AT + LATE)) is Reason.SCHEDULING_GATE_OFF


def test_a_jobset_that_bypassed_the_webhook_lacks_the_guarantee() -> None:
    context = Context(jobset("js", rj("w", 1, 4, 4), mode="Gang", uid="u"), stamped=False)
    assert lost(evaluate(context.snapshot(context.pods(READY)), NOW)) is Reason.NOT_GANGED


@each("notes", [{MODE: "gang"}, {GANGS: "w"}])
def test_a_jobset_whose_gang_configuration_is_invalid_lacks_the_guarantee(notes: dict[str, str]) -> None:
    """It was created past the webhook: whatever says nothing of it takes it for one that asks for no gang."""
    context = Context(jobset("js", rj("w", 1, 4, 4), annotations=notes, uid="u"), stamped=False)
    readiness = evaluate(context.snapshot(context.pods(READY)), NOW)
    assert lost(readiness) is Reason.NOT_GANGED
    assert readiness.lost is not None
    assert f"metadata.annotations[{next(iter(notes))}]" in readiness.lost.evidence[0]


OWN = rj("w", 1, 4, 4, mode="Gang", pod={"schedulingGroup": {"podGroupName": "mine"}})


@each(
    "raw",
    [
        jobset("js", OWN, uid="u"),
        jobset("js", OWN, rj("v", 1, 0, 0, mode="Gang"), uid="u"),
        # Until JobSet has made its Workload.
        jobset("js", rj("w", 1, 4, 4), mode="Gang", scheduling={"gangs": [{"name": "g"}]}, uid="u"),
    ],
)
def test_what_gangctl_leaves_to_a_user_or_to_jobset_has_lost_nothing(raw: Object) -> None:
    context = Context(raw)
    assert lost(evaluate(context.snapshot(context.pods(READY)), NOW)) is None


def test_what_is_left_beside_a_group_of_the_users_own_may_lack_the_guarantee() -> None:
    other = rj("v", 1, 2, 2, mode="Gang", pod={"schedulerName": "other"})
    context = Context(jobset("js", OWN, other, uid="u"))
    assert lost(evaluate(context.snapshot(context.pods(READY)), NOW)) is Reason.NOT_GANGED


def test_a_jobset_whose_stamps_are_malformed_lacks_the_guarantee() -> None:
    context = Context(jobset("js", rj("w", 1, 4, 4, annotations={REF: "w"}), mode="Gang", uid="u"), stamped=False)
    assert lost(evaluate(context.snapshot(context.pods(READY)), NOW)) is Reason.NOT_GANGED


def test_the_gang_object_reports_the_lost_guarantee() -> None:
    pods = [replace(pod, group="") for pod in GANG.pods(READY)]
    assert gang_status(evaluate(GANG.snapshot(pods), NOW))["lost"] == "FieldDropped"
    groups = GANG.groups(initially_scheduled())
    assert gang_status(evaluate(GANG.snapshot(GANG.pods(READY), groups=groups), NOW))["lost"] == ""
