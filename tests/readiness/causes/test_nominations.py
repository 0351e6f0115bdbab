"""Pods that the scheduler nominates for a node: it preempts others for them, or they wait there for their gang."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gangctl.api.scheduling import Generation, Scheduled
from gangctl.gang.reasons import Reason
from tests.jobsets import jobset, rj
from tests.readiness.causes.finding import causes, the
from tests.readiness.snapshots import BORN, PENDING, PLACED_AT, REFUSED, Context, rfc3339
from tests.rows import each

PREEMPTION = (
    "pod group is unschedulable, 0/1 placements are available, first placement status: minCount (2) cannot be "
    "satisfied: 0 scheduled, 1 remaining, pod group preemption: "
)
PREEMPTS = f"{PREEMPTION}found a placement for podgroup, preempting 2 victims"
ONGOING = f"{PREEMPTION}ongoing preemption on nominated nodes"
TERMINATING = (
    "0/2 nodes are available: 2 Insufficient cpu. "
    "preemption: not eligible due to a terminating pod on the nominated node."
)
NO_VICTIMS = f"{PREEMPTION}No preemption victims found for incoming preemptor"


@each(
    ("generation", "message", "nominated", "ends"),
    [
        (Generation.V1BETA1, PREEMPTS, "n1", True),
        (Generation.V1BETA1, ONGOING, "n1", True),
        # A pod that finds no node itself keeps the nomination of an earlier attempt.
        (Generation.V1BETA1, NO_VICTIMS, "n1", False),
        (Generation.V1BETA1, PREEMPTS, "", False),
        (Generation.V1ALPHA2, "pod group is waiting for preemption to complete", "n1", True),
        (Generation.V1ALPHA2, "pod group is unschedulable", "n1", False),
        (Generation.V1ALPHA2, TERMINATING, "n1", True),
        # Of single pods, and on 1.35, a failed attempt clears the nomination.
        (Generation.V1ALPHA1, "", "n1", True),
    ],
)
def test_a_gang_for_which_others_are_preempted_waits_for_their_end(
    generation: Generation, message: str, nominated: str, ends: bool
) -> None:
    context = Context(jobset("js", rj("w", 1, 2, 2), mode="Gang"), generation)
    pods = [replace(pod, nominated=nominated) for pod in context.pods(REFUSED)]
    refused = Scheduled(status=False, reason="Unschedulable", message=message, since=rfc3339(PLACED_AT))
    (cause,) = causes(context.snapshot(pods, groups=context.groups(refused)))
    assert (cause.reason, cause.blocking) == (Reason.UNSCHEDULABLE, not ends)
    assert ("by preemption of pods of lower priority" in cause.message) is ends
    if ends:
        assert "on node n1" in cause.message
        assert cause.remedy.startswith("wait: they end within their grace period")


@each("state", [PENDING, REFUSED])
def test_pods_of_1_35_that_wait_on_their_nodes_for_the_gang_are_no_preemption(state: dict[str, Any]) -> None:
    context = Context(jobset("js", rj("w", 1, 4, 4), mode="Gang"), Generation.V1ALPHA1)
    there = [replace(pod, nominated="n1") for pod in context.pods(state)[:3]]
    cause = the(Reason.UNSCHEDULABLE, context.snapshot([*there, context.pods(REFUSED)[3]]))
    assert cause.blocking
    assert "preemption" not in cause.message


REFUSED_BEFORE = (
    "0/4 nodes are available: 4 Insufficient cpu. "
    "preemption: 0/4 nodes are available: 4 No preemption victims found for incoming pod."
)


def test_pods_of_1_35_that_found_a_node_after_they_were_refused_wait_there() -> None:
    context = Context(jobset("js", rj("w", 1, 4, 4), mode="Gang"), Generation.V1ALPHA1)
    snapshot = context.snapshot([replace(pod, refusal=REFUSED_BEFORE, nominated="n1") for pod in context.pods(REFUSED)])
    assert all("preemption" not in cause.message for cause in causes(snapshot))
    # Since when they wait there is not known.
    assert not the(Reason.SCHEDULER_SILENT, snapshot, BORN + 1800).blocking


def test_a_pod_of_1_36_that_was_made_anew_and_has_a_node_now_is_not_refused() -> None:
    context = Context(jobset("js", rj("w", 1, 2, 2), mode="Gang"), Generation.V1ALPHA2)
    pods = [replace(pod, refusal=REFUSED_BEFORE, nominated="n1") for pod in context.pods(REFUSED)]
    groups = context.groups(Scheduled(status=True, reason="Scheduled", message="", since=rfc3339(PLACED_AT - 9)))
    assert [cause.reason for cause in causes(context.snapshot(pods, groups=groups))] == [Reason.SCHEDULER_SILENT]
