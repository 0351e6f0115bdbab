"""What the scheduler says, and that it says nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from gangctl.api.scheduling import Generation, Observed, Scheduled
from gangctl.gang.reasons import Reason
from gangctl.readiness.evaluate import evaluate
from gangctl.readiness.facts import PodFacts, Snapshot
from tests.jobsets import jobset, rj
from tests.readiness.causes.finding import causes, reasons, recorded, the
from tests.readiness.snapshots import (
    BORN,
    CREATED,
    NOW,
    PENDING,
    PLACED_AT,
    REFUSAL,
    REFUSED,
    RUNNING,
    Context,
    changed,
    rfc3339,
)
from tests.rows import each

GENERATIONS = {"1.36": Generation.V1ALPHA2, "1.37": Generation.V1BETA1}


def replayed(minor: str, case: str, **given: Any) -> Snapshot:
    """A gang about which a real scheduler said what was recorded."""
    said = recorded(minor, case)
    size = len(said["pods"])
    context = Context(jobset("js", rj("w", 1, size, size), mode="Gang"), GENERATIONS[minor])
    pods = [_told(pod, told) for pod, told in zip(context.pods(PENDING), said["pods"], strict=True)]
    groups = context.groups(_scheduled(said["group"]), **given)
    return context.snapshot(pods, groups=groups)


def _told(pod: PodFacts, told: dict[str, str] | None) -> PodFacts:
    if told is None:
        return pod
    gates = ("kueue.x-k8s.io/topology",) if told["reason"] == "SchedulingGated" else ()
    return replace(pod, refused=told["reason"], refusal=told["message"], refused_at=PLACED_AT, gates=gates)


def _scheduled(conditions: Sequence[dict[str, str]]) -> Scheduled | None:
    if not conditions:
        return None
    (told,) = conditions
    return Scheduled(told["status"] == "True", told["reason"], told["message"], rfc3339(PLACED_AT))


@each("minor", ["1.36", "1.37"])
@each(
    ("case", "words"),
    [
        ("unschedulable-each", "4 short of cpu"),
        ("unschedulable-together", "4 short of cpu"),
        ("selector", "outside of the node selector"),
        ("taint-and-cpu", "2 with a taint"),
    ],
)
def test_a_refusal_of_a_real_scheduler(minor: str, case: str, words: str) -> None:
    snapshot = replayed(minor, case)
    cause = the(Reason.UNSCHEDULABLE, snapshot)
    assert words in cause.message
    assert cause.evidence[0].startswith("scheduler: 0/4 nodes are available: ")
    assert (cause.since, cause.pods, cause.blocking) == (PLACED_AT, len(snapshot.pods), True)
    assert reasons(snapshot) == [Reason.UNSCHEDULABLE]


def test_how_many_would_fit_is_said_where_the_scheduler_says_it() -> None:
    cause = the(Reason.UNSCHEDULABLE, replayed("1.37", "unschedulable-together"))
    assert "room for 4 of 6 pods" in cause.message
    assert cause.command == "gangctl fit js --now -n t"


@pytest.mark.parametrize("minor", ["1.36", "1.37"])
def test_no_domain_of_a_topology_has_room(minor: str) -> None:
    snapshot = replayed(minor, "topology", topology_key="rack")
    cause = the(Reason.TOPOLOGY_TOO_SMALL, snapshot)
    assert cause.message == 'none of the 2 values of node label "rack" has room for all 4 pods of a gang'
    assert cause.command == "kubectl get nodes -L rack"
    assert reasons(snapshot) == [Reason.TOPOLOGY_TOO_SMALL]


@pytest.mark.parametrize("minor", ["1.36", "1.37"])
def test_a_topology_without_any_domain(minor: str) -> None:
    cause = the(Reason.TOPOLOGY_TOO_SMALL, replayed(minor, "topology-no-such-key", topology_key="nosuch"))
    assert 'label "nosuch"' in cause.message
    assert "label the nodes" in cause.remedy


def test_without_a_topology_there_is_none_to_blame() -> None:
    assert reasons(replayed("1.37", "unschedulable-each", topology_key="rack")) == [Reason.UNSCHEDULABLE]


def test_the_schedulers_word_on_priorities() -> None:
    snapshot = replayed("1.37", "priority")
    cause = the(Reason.PRIORITY_MISMATCH, snapshot)
    assert "got 1000 and 0" in cause.evidence[0]
    assert reasons(snapshot) == [Reason.PRIORITY_MISMATCH]


def test_priorities_that_differ_are_told_with_their_numbers() -> None:
    context = Context(jobset("js", rj("w", 1, 2, 2), mode="Gang"))
    groups = context.groups(priority=0, priority_class="")
    snapshot = context.snapshot(context.pods(REFUSED, priority=1000), groups=groups)
    cause = the(Reason.PRIORITY_MISMATCH, snapshot)
    assert "has priority 0 of no class, its pods have 1000" in cause.evidence[0]


@pytest.mark.parametrize("generation", [Generation.V1ALPHA2, Generation.V1BETA1])
def test_priorities_count_only_where_the_scheduler_minds(generation: Generation) -> None:
    context = Context(jobset("js", rj("w", 1, 2, 2), mode="Gang"), generation)
    same = context.snapshot(context.pods(REFUSED, priority=7), groups=context.groups(priority=7))
    other = context.snapshot(context.pods(REFUSED, priority=7), groups=context.groups(priority=0))
    assert Reason.PRIORITY_MISMATCH not in reasons(same)
    assert (Reason.PRIORITY_MISMATCH in reasons(other)) is (generation is Generation.V1BETA1)


def test_an_error_of_the_scheduler_is_told_as_it_is() -> None:
    context = Context(jobset("js", rj("w", 1, 2, 2), mode="Gang"))
    pods = context.pods(PENDING, refused="SchedulerError", refusal="profile not found", refused_at=PLACED_AT)
    cause = the(Reason.SCHEDULER_ERROR, context.snapshot(pods))
    assert cause.message.endswith("profile not found")
    assert Reason.UNSCHEDULABLE not in reasons(context.snapshot(pods))


def test_room_helps_nobody_on_whom_the_scheduler_fails() -> None:
    context = Context(jobset("js", rj("w", 1, 2, 2), mode="Gang"))
    (group,) = context.groups()
    pods = context.pods(PENDING, refused="SchedulerError", refusal="connection refused", refused_at=PLACED_AT)
    assert reasons(context.snapshot(pods, fits_now={group: True})) == [Reason.SCHEDULER_ERROR]


def test_a_refusal_after_which_there_is_room_again() -> None:
    context = Context(jobset("js", rj("w", 1, 4, 4), mode="Gang"))
    (group,) = context.groups()
    pods = context.pods(REFUSED, refused_at=NOW - 20)
    readiness = evaluate(context.snapshot(pods, fits_now={group: True}), NOW)
    (cause,) = readiness.causes
    assert cause.reason is Reason.SCHEDULER_BACKOFF
    assert not cause.blocking
    assert "10 s" in cause.remedy
    assert readiness.look_again == NOW + 290
    assert the(Reason.SCHEDULER_BACKOFF, context.snapshot(context.pods(REFUSED), fits_now={group: True})).blocking


@pytest.mark.parametrize("room", [{}, {"other": True}])
def test_room_that_is_not_known_is_no_backoff(room: dict[str, bool]) -> None:
    context = Context(jobset("js", rj("w", 1, 4, 4), mode="Gang"))
    assert reasons(context.snapshot(context.pods(REFUSED), fits_now=room)) == [Reason.UNSCHEDULABLE]


def test_a_gang_that_has_no_room_is_no_backoff() -> None:
    context = Context(jobset("js", rj("w", 1, 4, 4), mode="Gang"))
    (group,) = context.groups()
    assert reasons(context.snapshot(context.pods(REFUSED), fits_now={group: False})) == [Reason.UNSCHEDULABLE]


def test_a_scheduler_that_nobody_runs_is_named() -> None:
    context = Context(jobset("js", rj("w", 1, 2, 2), mode="Gang"))
    snapshot = context.snapshot(context.pods(PENDING, scheduler="nobody"))
    cause = the(Reason.SCHEDULER_SILENT, snapshot)
    assert cause.message == "scheduler nobody does not answer for 2 pods"
    assert (cause.blocking, cause.since) == (True, BORN)


def test_the_usual_scheduler_may_not_run() -> None:
    context = Context(jobset("js", rj("w", 1, 2, 2), mode="Gang"))
    cause = the(Reason.SCHEDULER_SILENT, context.snapshot(context.pods(PENDING)))
    assert cause.command == "kubectl -n kube-system get pods,leases"


def test_the_scheduler_is_given_a_moment() -> None:
    context = Context(jobset("js", rj("w", 1, 2, 2), mode="Gang"))
    readiness = evaluate(context.snapshot(context.pods(PENDING, created=NOW - 5)), NOW)
    (cause,) = readiness.causes
    assert cause.reason is Reason.SCHEDULER_SILENT
    assert not cause.blocking
    assert readiness.look_again == NOW + 10


def test_a_group_that_came_late_begins_the_wait() -> None:
    context = Context(jobset("js", rj("w", 1, 2, 2), mode="Gang"))
    snapshot = context.snapshot(context.pods(PENDING), groups=context.groups(created=rfc3339(NOW - 3)))
    assert not the(Reason.SCHEDULER_SILENT, snapshot).blocking


@each("case", ["below", "refused", "placed", "no group"])
def test_a_scheduler_whose_turn_it_is_not_is_not_silent(case: str) -> None:
    context = Context(jobset("js", rj("w", 1, 2, 2), mode="Gang"))
    groups: dict[str, Observed] = {} if case == "no group" else context.groups()
    pods = {
        "below": context.pods(PENDING, count=1),
        "refused": context.pods(REFUSED),
        "placed": context.pods(RUNNING),
        "no group": context.pods(PENDING),
    }[case]
    assert Reason.SCHEDULER_SILENT not in reasons(context.snapshot(pods, groups=groups))


@pytest.mark.parametrize("minor", ["1.36", "1.37"])
def test_pods_with_gates_explain_their_gang(minor: str) -> None:
    assert reasons(replayed(minor, "gated")) == [Reason.PODS_GATED]


@pytest.mark.parametrize("minor", ["1.36", "1.37"])
def test_below_its_minimum_a_gang_misses_pods_and_nothing_else(minor: str) -> None:
    context = Context(jobset("js", rj("w", 1, 2, 2), mode="Gang"), GENERATIONS[minor])
    assert recorded(minor, "below-quorum") == {"group": [], "pods": [None]}
    assert reasons(context.snapshot(context.pods(PENDING, count=1))) == [Reason.PODS_MISSING]


def test_groups_that_are_refused_in_the_same_words_are_one_cause() -> None:
    context = Context(jobset("js", rj("w", 6, 2, 2, mode="ReplicatedGang")))
    pods = context.pods(REFUSED)
    cause = the(Reason.UNSCHEDULABLE, context.snapshot(pods))
    assert cause.groups == ()
    assert cause.pods == 12
    some = context.snapshot([*context.pods(RUNNING, index=0), *(pod for pod in pods if pod.job_index > 3)])
    assert len(the(Reason.UNSCHEDULABLE, some).groups) == 2


def test_groups_that_are_refused_in_other_words_are_told_apart_by_pods() -> None:
    context = Context(jobset("js", rj("w", 3, 2, 2, mode="ReplicatedGang")))
    other = "0/3 nodes are available: 3 Insufficient memory."
    pods = changed(context.pods(REFUSED), slice(0, 2), refusal=other)
    found = [cause for cause in causes(context.snapshot(pods)) if cause.reason is Reason.UNSCHEDULABLE]
    assert [cause.pods for cause in found] == [4, 2]
    assert "short of memory" in found[1].message


def test_a_gang_without_a_plan_is_looked_at_pod_by_pod() -> None:
    context = Context(jobset("js", rj("w", 1, 2, 2), mode="Gang"), stamped=False)
    snapshot = context.snapshot([*context.pods(REFUSED, count=1), *context.pods(RUNNING)[1:]])
    assert reasons(snapshot)[:2] == [Reason.NOT_GANGED, Reason.UNSCHEDULABLE]


def test_times_are_those_of_the_conditions() -> None:
    context = Context(jobset("js", rj("w", 1, 2, 2), mode="Gang"))
    cause = the(Reason.UNSCHEDULABLE, context.snapshot(context.pods(REFUSED)))
    assert cause.since == PLACED_AT
    assert cause.evidence[0] == f"scheduler: {REFUSAL}"
    assert cause.since > CREATED
