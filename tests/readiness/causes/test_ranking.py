"""The order of causes, and that each reason has a rank."""

from __future__ import annotations

from itertools import pairwise

from gangctl.gang.reasons import Reason
from gangctl.readiness.causes import TIERS, WAITING, place_of
from gangctl.readiness.result import Cause
from tests.jobsets import jobset, rj
from tests.readiness.causes.finding import causes, reasons
from tests.readiness.snapshots import (
    GATED,
    NOW,
    PENDING,
    REFUSED,
    RUNNING,
    Changes,
    Context,
    changed,
    initially_scheduled,
    nodes,
)
from tests.rows import each

RANKED = [reason for _, tier in TIERS for reason in tier]
ORDER = (
    Reason.SUSPENDED,
    Reason.NEVER_FITS,
    Reason.QUEUE_BLOCKED,
    Reason.API_UNAVAILABLE,
    Reason.NOT_GANGED,
    Reason.FIELD_DROPPED,
    Reason.NAME_CONFLICT,
    Reason.GANG_TAIL_BLOCKED,
    Reason.SCHEDULING_GATE_OFF,
    Reason.PRIORITY_MISMATCH,
    Reason.EXCLUSIVE_TOPOLOGY_DEADLOCK,
    Reason.JOB_CREATION_REFUSED,
    Reason.PODS_GATED,
    Reason.VOLUME_NOT_BOUND,
    Reason.TOPOLOGY_TOO_SMALL,
    Reason.UNSCHEDULABLE,
    Reason.NODE_LOST,
    Reason.IMAGE_PULL,
    Reason.NOT_READY,
    Reason.PODS_MISSING,
    Reason.PODS_NOT_READY,
    Reason.UNKNOWN,
)
"""One of each tier."""
CAUSES = [reason for reason in Reason if reason in RANKED or reason in WAITING]


@each(("first", "second"), list(pairwise(ORDER)))
def test_causes_are_ordered_by_rank(first: Reason, second: Reason) -> None:
    many = Cause(second, "b", pods=1000)
    assert min([many, Cause(first, "a")], key=place_of).reason is first


def test_causes_of_equal_rank_are_ordered_by_blocked_pods() -> None:
    crash, pull = Cause(Reason.CRASH_LOOP, "a", pods=1), Cause(Reason.IMAGE_PULL, "b", pods=2)
    assert sorted([crash, pull], key=place_of) == [pull, crash]


@each("reason", CAUSES)
def test_causes_that_end_by_themselves_come_after_the_others(reason: Reason) -> None:
    turn = Cause(reason, "a", blocking=False, pods=1000)
    assert sorted([turn, Cause(Reason.UNKNOWN, "b")], key=place_of)[1] is turn


def test_causes_that_block_nothing_come_last() -> None:
    lost = Cause(Reason.SCHEDULING_GATE_OFF, "a", blocking=False)
    start = Cause(Reason.STARTING, "b", blocking=False)
    assert sorted([lost, start], key=place_of) == [start, lost]


def test_every_reason_has_one_rank() -> None:
    assert len(RANKED) == len(set(RANKED))
    assert len(WAITING) == len(set(WAITING))
    every = list(Reason)
    of_readiness = every[every.index(Reason.SUSPENDED) : every.index(Reason.JOBSET_CREATED)]
    assert set(of_readiness) <= {*RANKED, *WAITING}


def test_many_causes_are_ordered_from_the_root_cause() -> None:
    context = Context(jobset("js", rj("w", 4, 2, 2, mode="ReplicatedGang")))
    pods = [
        *context.pods(REFUSED, index=0),
        *context.pods(GATED, index=1),
        *context.pods(RUNNING, index=2, waiting="ImagePullBackOff"),
        *context.pods(RUNNING, index=3, node="n1"),
    ]
    groups = context.groups(initially_scheduled())
    found = reasons(context.snapshot(pods, groups=groups, nodes=nodes("n0")))
    assert found == [Reason.PODS_GATED, Reason.UNSCHEDULABLE, Reason.NODE_LOST, Reason.IMAGE_PULL, Reason.NOT_READY]


def test_a_lost_guarantee_does_not_hide_why_containers_do_not_start() -> None:
    context = Context(jobset("js", rj("w", 1, 2, 2), mode="Gang"))
    found = reasons(context.snapshot(context.pods(RUNNING, waiting="ErrImagePull")))
    assert found == [Reason.IMAGE_PULL, Reason.SCHEDULING_GATE_OFF]


def test_the_root_comes_before_its_consequences() -> None:
    context = Context(jobset("js", rj("w", 1, 4, 4), mode="Gang"))
    pods = changed(context.pods(PENDING, created=NOW - 5), 0, group="")
    assert reasons(context.snapshot(pods, groups={}))[0] is Reason.FIELD_DROPPED


ELASTIC = jobset(
    "js", rj("w", 1, 4, 4), annotations={"gangctl.dev/gangs": "[{name: g, replicatedJobs: [w], minCount: 2}]"}
)


@each(
    ("placed", "first"),
    [
        ([PENDING], Reason.UNSCHEDULABLE),
        ([RUNNING, {**RUNNING, "waiting": "CrashLoopBackOff", "restarts": 9}], Reason.CRASH_LOOP),
        ([RUNNING, RUNNING], Reason.NOT_READY),
    ],
    ids=["short", "crashes", "not-ready"],
)
def test_pods_to_spare_that_have_no_node_do_not_block(placed: list[Changes], first: Reason) -> None:
    context = Context(ELASTIC)
    pods = context.pods(REFUSED)
    for index, state in enumerate(placed):
        pods = changed(pods, index, **{"refused": "", "refusal": "", "refused_at": 0, **state})
    snapshot = context.snapshot(pods, groups=context.groups(initially_scheduled()), nodes=nodes("n0"))
    blocking = {cause.reason: cause.blocking for cause in causes(snapshot)}
    assert next(iter(blocking)) is first
    assert blocking[Reason.UNSCHEDULABLE] is (first is Reason.UNSCHEDULABLE)
