"""From which second on something is late: before it, gangctl says when to look again."""

from __future__ import annotations

from gangctl.gang.reasons import Reason
from gangctl.readiness.evaluate import evaluate
from gangctl.readiness.facts import QueueFacts
from gangctl.readiness.result import Readiness
from tests.jobsets import jobset, rj
from tests.kueue.workloads import ago, no, queued
from tests.readiness.causes.finding import reasons
from tests.readiness.snapshots import NOW, PENDING, Scene
from tests.rows import each

JS = jobset("js", rj("w", 1, 4, 4), mode="Gang")


def told(readiness: Readiness, reason: Reason) -> list[bool]:
    """Whether each cause with this reason blocks."""
    return [cause.blocking for cause in readiness.causes if cause.reason is reason]


@each(("age", "late"), [(14, False), (15, True)])
def test_a_scheduler_is_silent_after_15_seconds(age: int, late: bool) -> None:
    scene = Scene(JS)
    readiness = evaluate(scene.snapshot(scene.pods(PENDING, created=NOW - age)), NOW)
    assert told(readiness, Reason.SCHEDULER_SILENT) == [late]
    assert (readiness.look_again == NOW + 1) is not late


@each(("age", "late"), [(29, False), (30, True)])
def test_gangctls_own_gate_is_late_after_30_seconds(age: int, late: bool) -> None:
    scene = Scene(JS, queue="main", suspend=True)
    own = queued(QuotaReserved=no("AdmissionGated", since=ago(seconds=age)), gates=("gangctl.dev/gang",))
    snapshot = scene.snapshot(groups={}, jobs=scene.jobs(active=False), queue=QueueFacts("main", "cq", own))
    readiness = evaluate(snapshot, NOW)
    assert told(readiness, Reason.ADMISSION_GATED) == [late]
    assert (readiness.look_again == NOW + 1) is not late


def test_the_scheduler_has_its_turn_when_pods_of_the_last_attempt_make_up_the_minimum() -> None:
    """They name the group, too, and the scheduler counts them."""
    scene, last = Scene(JS, restarts=1), Scene(JS)
    pods = [*scene.pods(PENDING)[:2], *last.pods(PENDING)[2:]]
    assert Reason.SCHEDULER_SILENT in reasons(scene.snapshot(pods))
    assert Reason.SCHEDULER_SILENT not in reasons(scene.snapshot(pods[:3]))


def test_pods_on_their_way_out_make_up_the_minimum_too() -> None:
    scene = Scene(JS)
    pods = [*scene.pods(PENDING)[:2], *scene.pods(PENDING, deleting=True)[2:]]
    assert Reason.SCHEDULER_SILENT in reasons(scene.snapshot(pods))
    assert Reason.SCHEDULER_SILENT not in reasons(scene.snapshot(pods[:3]))


def test_without_the_api_nobody_waits_for_a_word_on_groups() -> None:
    scene = Scene(JS, None)
    assert Reason.SCHEDULER_SILENT not in reasons(scene.snapshot(scene.pods(PENDING)))
