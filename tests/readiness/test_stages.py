"""Replicated jobs that start one after another: phases and times of their gangs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gangctl.readiness.evaluate import evaluate
from gangctl.readiness.result import GangPhase
from tests.jobsets import jobset, rj
from tests.kueue.workloads import no, yes
from tests.readiness.snapshots import (
    CREATED,
    NOW,
    PENDING,
    READY,
    READY_AT,
    REFUSED,
    RUNNING,
    Changes,
    Context,
    rfc3339,
    waits_in,
)
from tests.rows import each

P = GangPhase
STAGES = jobset("js", rj("a", 1, 2, 2), rj("b", 1, 4, 4), mode="Gang", startupPolicy={"startupPolicyOrder": "InOrder"})
DEPENDS = jobset("js", rj("a", 1, 2, 2, mode="Gang"), rj("b", 1, 4, 4, mode="Gang", depends_on="a"))
LOST = NOW - 60


@each(
    ("conditions", "since"),
    [
        ({"Evicted": yes("Preempted", since=rfc3339(LOST))}, LOST),
        ({"Admitted": no("NoReservation", since=rfc3339(LOST))}, LOST),
        ({}, CREATED),
    ],
)
def test_a_start_in_order_that_kueue_stops_ends_with_the_eviction(conditions: dict[str, Any], since: int) -> None:
    """JobSet sets Suspended to False after the last stage: the condition keeps the time from before the start."""
    stopped = Context(STAGES, queue="main", suspend=True)
    stopped.jobset = replace(stopped.jobset, suspended_at=rfc3339(CREATED))
    found = evaluate(stopped.snapshot(queue=waits_in(**conditions)), NOW)
    assert (found.phase, found.since) == (P.QUEUED, since)


def test_a_start_in_order_that_its_user_stops_ends_when_that_is_seen() -> None:
    running, stopped = Context(STAGES), Context(STAGES, suspend=True)
    stopped.jobset = replace(stopped.jobset, suspended_at=rfc3339(CREATED))
    before = evaluate(running.snapshot(), NOW)
    found = evaluate(stopped.snapshot(), NOW + 7, before)
    assert (found.phase, found.since) == (P.SUSPENDED, NOW + 7)
    assert evaluate(stopped.snapshot(), NOW + 9, found).since == NOW + 7


def test_a_gang_that_starts_in_order_is_admitted_when_its_first_stage_begins() -> None:
    """JobSet sets Suspended to False after the last stage, and begins the stages again with each restart."""
    context = Context(STAGES)
    made, first, ready, again = (rfc3339(CREATED + after) for after in (1, 42, 99, 200))
    plain = context.jobset
    stages: list[tuple[dict[str, Any], int]] = [
        ({}, CREATED),
        ({"suspended_at": made}, CREATED),
        ({"suspended_at": made, "stages_begun_at": first}, CREATED + 42),
        ({"resumed_at": ready, "stages_begun_at": first}, CREATED + 42),
        ({"resumed_at": ready, "stages_begun_at": again, "restarts": 1}, CREATED + 42),
        ({"suspended_at": again, "stages_begun_at": first, "restarts": 1}, CREATED),
    ]
    before = None
    for fields, admitted_at in stages:
        context.jobset = replace(plain, **fields)
        before = evaluate(context.snapshot(), NOW, before)
        assert before.admitted_at == admitted_at


@each(("status", "between"), [("Complete", True), ("Ready", False)])
def test_a_part_that_starts_after_the_end_of_another_is_known(status: str, between: bool) -> None:
    raw = jobset("js", rj("a", 1, 2, 2, mode="Gang"), rj("b", 1, 2, 2, depends_on="a", mode="Gang"))
    raw["spec"]["replicatedJobs"][1]["dependsOn"][0]["status"] = status
    assert evaluate(Context(raw).snapshot(), NOW).runs_between is between


@each("raw", [STAGES, DEPENDS], ids=["in order", "depends on"])
@each(
    ("first", "phase"),
    [(PENDING, P.SCHEDULING), (RUNNING, P.STARTING), (READY, P.PARTIALLY_READY)],
)
def test_a_later_stage_does_not_degrade_the_jobset(raw: dict[str, Any], first: Changes, phase: GangPhase) -> None:
    context = Context(raw)
    found = evaluate(context.snapshot(context.pods(first, only="a"), jobs=context.jobs(only="a")), NOW)
    assert found.groups[1].phase is P.PENDING
    assert found.phase is phase


@each("raw", [STAGES, DEPENDS], ids=["in order", "depends on"])
@each("stamped", [True, False], ids=["stamped", "unstamped"])
def test_a_later_stage_whose_jobs_are_suspended_has_not_started(raw: dict[str, Any], stamped: bool) -> None:
    context = Context(raw, queue="main", stamped=stamped)
    jobs = [*context.jobs(only="a"), *context.jobs(only="b", suspended=True, active=False)]
    found = evaluate(context.snapshot(context.pods(READY, only="a"), jobs=jobs), NOW)
    assert (found.phase, found.counts.stranded) == (P.PARTIALLY_READY, 0)


def test_a_started_stage_counts_for_the_phase() -> None:
    context = Context(STAGES)
    pods = [*context.pods(READY, only="a"), *context.pods(REFUSED, only="b", created=READY_AT)]
    assert evaluate(context.snapshot(pods), NOW).phase is P.UNSCHEDULABLE
    both = evaluate(context.snapshot([*context.pods(READY, only="a"), *context.pods(READY, only="b")]), NOW)
    assert both.phase is P.READY


def test_stages_without_a_plan_strand_no_pods() -> None:
    context = Context(STAGES, stamped=False)
    found = evaluate(context.snapshot(context.pods(READY, only="a"), jobs=context.jobs(only="a")), NOW)
    assert (found.phase, found.counts.stranded, found.counts.wanted) == (P.PARTIALLY_READY, 0, 6)


def test_the_phase_waits_for_the_next_stage_once_the_last_has_finished() -> None:
    context = Context(DEPENDS)
    found = evaluate(context.snapshot(jobs=context.jobs(only="a", succeeded=2, complete=True)), NOW)
    assert [group.phase for group in found.groups] == [P.SUCCEEDED, P.PENDING]
    assert found.phase is P.PENDING
