"""A minimum that cannot be reached, and a scheduler that ignores it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gangctl.api.scheduling import Generation, Scheduled
from gangctl.gang.reasons import Reason
from gangctl.readiness.evaluate import evaluate
from gangctl.readiness.facts import Snapshot
from tests.jobsets import jobset, rj
from tests.readiness.causes.finding import causes, reasons, the
from tests.readiness.snapshots import (
    BORN,
    NOW,
    PENDING,
    PLACED_AT,
    READY,
    REFUSED,
    RUNNING,
    Context,
    changed,
    initially_scheduled,
    rfc3339,
)

JS = jobset("js", rj("w", 1, 4, 4), mode="Gang")


def tail(generation: Generation, *, minimum: int | None = None, born: int = BORN) -> Snapshot:
    """Two of four pods have succeeded, one runs, and one was replaced."""
    context = Context(JS, generation)
    pods = context.pods(RUNNING)[:2]
    pods[1] = replace(pods[1], node="", placed_at=0, phase="Pending", created=born)
    groups = context.groups(initially_scheduled())
    if minimum is not None:
        groups = {name: replace(found, min_counts=(("", minimum),)) for name, found in groups.items()}
    return context.snapshot(pods, jobs=context.jobs(succeeded=2), groups=groups)


@pytest.mark.parametrize("generation", list(Generation))
def test_a_replacement_near_the_end_of_a_gang_is_blocked(generation: Generation) -> None:
    cause = the(Reason.GANG_TAIL_BLOCKED, tail(generation))
    assert cause.blocking
    assert cause.pods == 1
    assert "minCount 4, 2 succeeded" in cause.evidence[0]
    assert "2 can still exist" in cause.evidence[0]
    assert causes(tail(generation))[0] == cause


@pytest.mark.parametrize("generation", list(Generation))
def test_a_permanently_failed_index_blocks_a_replacement_too(generation: Generation) -> None:
    context = Context(JS, generation)
    pods = changed(context.pods(RUNNING)[:3], 2, node="", placed_at=0, phase="Pending")
    jobs = context.jobs(failed=2, failed_indexes=1)
    cause = the(
        Reason.GANG_TAIL_BLOCKED, context.snapshot(pods, jobs=jobs, groups=context.groups(initially_scheduled()))
    )
    assert "minCount 4, 0 succeeded and 1 failed for good" in cause.evidence[0]


def test_the_remedy_is_a_lower_min_count_where_it_can_change() -> None:
    cause = the(Reason.GANG_TAIL_BLOCKED, tail(Generation.V1BETA1))
    assert '"minCount":2' in cause.command
    assert cause.command.startswith("kubectl -n t patch podgroups.scheduling.k8s.io js-")
    assert "1.37" in the(Reason.GANG_TAIL_BLOCKED, tail(Generation.V1ALPHA2)).remedy


def test_the_remedy_of_a_tail_in_a_queue_is_to_deactivate_its_workload() -> None:
    found = tail(Generation.V1ALPHA2)
    assert "suspend the JobSet" in the(Reason.GANG_TAIL_BLOCKED, found).remedy
    in_a_queue = replace(found, jobset=Context(JS, Generation.V1ALPHA2, queue="q").jobset, kueue=True)
    remedy = the(Reason.GANG_TAIL_BLOCKED, in_a_queue).remedy
    assert "set spec.active of its Kueue Workload to false" in remedy
    assert "suspend" not in remedy


def test_a_blocked_tail_is_reported_after_a_delay() -> None:
    readiness = evaluate(tail(Generation.V1BETA1, born=NOW - 5), NOW)
    assert Reason.GANG_TAIL_BLOCKED not in [each.reason for each in readiness.causes]
    assert readiness.look_again is not None
    assert readiness.look_again <= NOW + 10


def test_a_lowered_min_count_blocks_nothing() -> None:
    assert Reason.GANG_TAIL_BLOCKED not in reasons(tail(Generation.V1BETA1, minimum=2))


def test_1_36_writes_the_condition_of_a_group_that_it_places_one_by_one() -> None:
    """With GenericWorkload and without GangScheduling: the first pod that fits is enough for it."""
    context = Context(JS, Generation.V1ALPHA2)
    pods = changed(context.pods(RUNNING), slice(2, 4), node="", placed_at=0, phase="Pending", **REFUSED)
    torn = context.snapshot(pods, groups=context.groups(initially_scheduled()))
    assert the(Reason.SCHEDULING_GATE_OFF, torn).blocking
    # Pods that were made anew later prove nothing: their group was placed before.
    anew = changed(pods, slice(2, 4), created=NOW - 60)
    again = context.snapshot(anew, groups=context.groups(initially_scheduled()))
    assert Reason.SCHEDULING_GATE_OFF not in reasons(again)


def test_a_tail_without_waiting_pods_is_no_cause() -> None:
    context = Context(JS, Generation.V1ALPHA2)
    snapshot = context.snapshot(
        context.pods(RUNNING)[:2], jobs=context.jobs(succeeded=2), groups=context.groups(initially_scheduled())
    )
    assert Reason.GANG_TAIL_BLOCKED not in reasons(snapshot)


def test_terminating_pods_still_count() -> None:
    context = Context(JS, Generation.V1ALPHA2)
    pods = changed(changed(context.pods(RUNNING), slice(0, 2), deleting=True), 3, node="", placed_at=0)
    snapshot = context.snapshot(pods, jobs=context.jobs(succeeded=1), groups=context.groups(initially_scheduled()))
    assert Reason.GANG_TAIL_BLOCKED not in reasons(snapshot)


def test_a_minimum_above_all_pods_can_never_be_reached() -> None:
    context = Context(JS)
    groups = {name: replace(found, min_counts=(("", 9),)) for name, found in context.groups().items()}
    cause = the(Reason.MIN_COUNT_UNREACHABLE, context.snapshot(context.pods(PENDING), groups=groups))
    assert "is 9" in cause.message
    assert "at most 4 pods at once" in cause.evidence[0]


def test_a_minimum_of_all_pods_can_be_reached() -> None:
    context = Context(JS)
    assert Reason.MIN_COUNT_UNREACHABLE not in reasons(context.snapshot(context.pods(PENDING, count=2)))


def in_order(*, minimum: int = 6, node: str = "") -> Snapshot:
    """A gang of two ReplicatedJobs, of which JobSet has made the first: startupPolicy was changed past the webhook."""
    context = Context(jobset("js", rj("a", 1, 2, 2), rj("b", 1, 4, 4), mode="Gang"))
    context.jobset = replace(context.jobset, in_order=True)
    jobs = [job for job in context.jobs() if job.replicated_job == "a"]
    groups = {name: replace(found, min_counts=(("", minimum),)) for name, found in context.groups().items()}
    return context.snapshot(context.pods(PENDING, only="a", node=node), jobs=jobs, groups=groups)


def test_a_gang_whose_pods_start_one_after_another_can_never_start() -> None:
    """The scheduler waits for pods that JobSet makes once the first are ready, and says nothing."""
    cause = the(Reason.MIN_COUNT_UNREACHABLE, in_order())
    assert cause.blocking
    assert causes(in_order())[0] == cause
    assert "wait for each other" in cause.message
    assert "minCount 6, 2 pods" in cause.evidence[0]
    assert "b" in cause.evidence[1]
    assert "create it again" in cause.remedy


def test_a_gang_that_starts_with_the_pods_of_its_first_stage_is_not_waited_for() -> None:
    for snapshot in (in_order(minimum=2), in_order(node="n1")):
        assert Reason.MIN_COUNT_UNREACHABLE not in reasons(snapshot)


@pytest.mark.parametrize("generation", list(Generation))
def test_a_partially_placed_start_is_reported(generation: Generation) -> None:
    context = Context(JS, generation)
    snapshot = context.snapshot(changed(context.pods(RUNNING), slice(2, 4), node="", placed_at=0, phase="Pending"))
    cause = the(Reason.SCHEDULING_GATE_OFF, snapshot)
    assert cause.blocking
    assert cause.pods == 2
    assert "2 of 4 pods have nodes" in cause.evidence[0]
    assert "GenericWorkload" in cause.remedy


def test_pods_that_are_being_bound_are_not_reported() -> None:
    context = Context(JS)
    pods = changed(context.pods(RUNNING, placed_at=NOW - 3), slice(2, 4), node="", placed_at=0)
    readiness = evaluate(context.snapshot(pods), NOW)
    assert Reason.SCHEDULING_GATE_OFF not in [each.reason for each in readiness.causes]


@pytest.mark.parametrize("generation", [Generation.V1ALPHA2, Generation.V1BETA1])
def test_a_placed_gang_without_a_condition_is_reported_but_not_blocked(generation: Generation) -> None:
    context = Context(JS, generation)
    cause = the(Reason.SCHEDULING_GATE_OFF, context.snapshot(context.pods(RUNNING)))
    assert not cause.blocking
    named = "PodGroupInitiallyScheduled" if generation is Generation.V1BETA1 else "PodGroupScheduled"
    assert any(named in line for line in cause.evidence)


@pytest.mark.parametrize("age", [59, 61])
def test_a_missing_condition_is_reported_after_a_minute(age: int) -> None:
    context = Context(JS)
    readiness = evaluate(context.snapshot(context.pods(RUNNING, placed_at=NOW - age)), NOW)
    assert (Reason.SCHEDULING_GATE_OFF in [each.reason for each in readiness.causes]) is (age > 60)
    assert (readiness.look_again == NOW + 1) is (age < 60)


def test_before_1_36_a_missing_condition_is_not_reported() -> None:
    context = Context(JS, Generation.V1ALPHA1)
    assert Reason.SCHEDULING_GATE_OFF not in reasons(context.snapshot(context.pods(RUNNING)))


def test_before_1_36_a_pod_that_waits_on_its_node_for_a_volume_is_no_partial_start() -> None:
    context = Context(JS, Generation.V1ALPHA1)
    for state in ({"nominated": "n1"}, {**REFUSED, "nominated": "n1"}, {"refused": "SchedulerError"}):
        pods = changed(context.pods(RUNNING), 3, **{"node": "", "placed_at": 0, **state})
        assert Reason.SCHEDULING_GATE_OFF not in reasons(context.snapshot(pods))


def test_before_1_36_a_replacement_is_no_partial_start() -> None:
    context = Context(JS, Generation.V1ALPHA1)
    pods = changed(context.pods(RUNNING), 3, node="", placed_at=0, created=PLACED_AT + 50)
    assert Reason.SCHEDULING_GATE_OFF not in reasons(context.snapshot(pods))


@pytest.mark.parametrize("condition", [initially_scheduled(), Scheduled(False, "Unschedulable", "no", rfc3339(BORN))])
def test_a_scheduler_that_wrote_a_condition_supports_groups(condition: Scheduled) -> None:
    context = Context(JS)
    pods = changed(context.pods(RUNNING), 3, node="", placed_at=0)
    assert Reason.SCHEDULING_GATE_OFF not in reasons(context.snapshot(pods, groups=context.groups(condition)))


def test_a_recreated_group_needs_no_condition() -> None:
    context = Context(JS)
    groups = context.groups(created=rfc3339(PLACED_AT + 10))
    assert Reason.SCHEDULING_GATE_OFF not in reasons(context.snapshot(context.pods(RUNNING), groups=groups))


def test_a_ready_gang_has_no_cause() -> None:
    context = Context(JS)
    assert causes(context.snapshot(context.pods(READY))) == ()


def test_a_gang_that_lost_a_pod_later_is_not_reported_as_partially_placed() -> None:
    context = Context(JS)
    cause = the(Reason.SCHEDULING_GATE_OFF, context.snapshot(context.pods(RUNNING)[:3]))
    assert not cause.blocking
