"""When the remaining pods of a gang are evicted, and what keeps them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from gangctl.readiness.autoscaling import NODE_SECONDS, ScaleUp, latest
from gangctl.readiness.eviction import Stranded, delay_of, stranded
from gangctl.readiness.facts import NodeFacts, PodFacts, Refused, Snapshot, read_scale_up
from tests.jobsets import jobset, rj
from tests.readiness.snapshots import (
    GATED,
    NOW,
    PENDING,
    READY,
    REFUSED,
    Changes,
    Context,
    changed,
    condition,
    nodes,
    rfc3339,
)
from tests.rows import each

AFTER: Final = "gangctl.dev/evict-stranded-after"
DELAY: Final = 100.0
LOST_AT: Final = NOW - 200
CONTEXT: Final = Context(jobset("js", rj("w", 1, 4, 4), mode="Gang"))
UP: Final = nodes("n0", "n1")


def pods(*lost: Changes) -> list[PodFacts]:
    """Four pods that ran, of which the last ones have been lost and made anew."""
    made = CONTEXT.pods(READY)
    for number, state in enumerate(lost):
        made[-1 - number] = replace(CONTEXT.pods(state)[-1 - number], created=LOST_AT)
    return made


def snapshot(found: Sequence[PodFacts], **given: Any) -> Snapshot:
    return CONTEXT.snapshot(found, **{"nodes": UP, **given})


def ask(
    found: Snapshot,
    *,
    now: float = NOW,
    delay: float = DELAY,
    seen: Mapping[str, float] | None = None,
    scale_ups: Mapping[str, ScaleUp] | None = None,
) -> Stranded:
    (gang,) = stranded(found, now, delay, seen or {}, scale_ups or {})
    return gang


def test_all_pods_that_hold_nodes_are_evicted() -> None:
    gang = ask(snapshot(pods(REFUSED)))
    assert [pod.name for pod in gang.evict] == [pod.name for pod in pods()[:3]]
    assert gang.missing == 1


@each(
    ("delay", "evicts"),
    [(199.0, True), (200.0, True), (201.0, False)],
)
def test_the_delay_counts_from_the_pod_that_was_made_anew(delay: float, evicts: bool) -> None:
    gang = ask(snapshot(pods(REFUSED)), delay=delay)
    assert (bool(gang.evict), gang.look_again) == (evicts, None if evicts else NOW + 1)


def test_a_pod_that_was_placed_later_begins_the_delay_anew() -> None:
    found = changed(pods(REFUSED), 0, placed_at=NOW - 50)
    assert ask(snapshot(found)).look_again == NOW + 50


@each(
    "lost",
    [
        (GATED,),
        (PENDING,),
        ({**REFUSED, "nominated": "n1"},),
        (REFUSED, PENDING),
        ({"refused": "SchedulerError"},),
    ],
)
def test_a_member_that_may_still_get_a_node_is_waited_for(lost: tuple[Changes, ...]) -> None:
    gang = ask(snapshot(pods(*lost)), now=NOW + 10**6)
    assert (gang.evict, gang.look_again) == ((), None)


def test_one_pod_of_a_refused_gang_is_unschedulable_and_the_others_are_errors() -> None:
    """minCount (4) cannot be satisfied: 2 scheduled, 1 remaining."""
    assert len(ask(snapshot(pods({"refused": "SchedulerError"}, REFUSED))).evict) == 2


@each("there", [nodes("n0", ready=False), nodes("n1"), None])
def test_nodes_that_may_return_are_waited_for(there: Mapping[str, NodeFacts] | None) -> None:
    gang = ask(snapshot(pods(REFUSED), nodes=there), now=NOW + 10**6)
    assert (gang.evict, gang.look_again) == ((), None)


def test_an_autoscaler_that_adds_a_node_is_waited_for_as_long_as_it_may_take() -> None:
    last = pods(REFUSED)[-1].name
    scaling = {last: ScaleUp(last, "TriggeredScaleUp", "", NOW - 10)}
    gang = ask(snapshot(pods(REFUSED)), scale_ups=scaling)
    assert (gang.evict, gang.look_again) == ((), NOW - 10 + NODE_SECONDS)
    assert ask(snapshot(pods(REFUSED)), scale_ups=scaling, now=NOW - 10 + NODE_SECONDS).evict
    refused = {last: ScaleUp(last, "NotTriggerScaleUp", "", NOW - 10)}
    assert ask(snapshot(pods(REFUSED)), scale_ups=refused).evict


def test_pods_that_are_not_made_are_waited_for_unless_they_cannot_be() -> None:
    three = pods()[:3]
    group = CONTEXT.plan.groups[0].name
    gone = replace(pods()[3], deleting=True, node="n1")
    seen = {group: NOW - DELAY}
    not_made = Stranded(group, 1)
    assert ask(snapshot(three), seen=seen) == not_made
    assert ask(snapshot([*three, gone]), seen=seen) == not_made
    lost = {**UP, "n1": NodeFacts("n1", ready=False)}
    assert ask(snapshot([*three, gone], nodes=lost), seen=seen).evict
    assert ask(snapshot([*three, gone], nodes=lost)).look_again == NOW + DELAY
    denied = Refused("t", "Job", CONTEXT.planned()[0].name, "", "exceeded quota", NOW)
    assert ask(snapshot(three, refused=[denied]), seen=seen).evict
    over = replace(denied, at=three[0].created - 1)
    assert ask(snapshot(three, refused=[over]), seen=seen) == not_made
    # Below the minimum the scheduler says nothing of a pod that was made.
    made = [*three[:2], replace(CONTEXT.pods(PENDING)[2], created=LOST_AT)]
    assert ask(snapshot(made, refused=[denied]), seen=seen).evict


def unlinked() -> Snapshot:
    """A Job without its group runs, and the scheduler refuses the rest of the gang."""
    context = Context(jobset("js", rj("a", 1, 2, 2), rj("b", 1, 2, 2), mode="Gang"))
    found = [*context.pods(REFUSED, only="a"), *context.pods(READY, only="b", group="")]
    jobs = [*context.jobs(only="a"), *context.jobs(only="b", group="")]
    return context.snapshot(found, jobs=jobs, nodes=UP)


@each(
    "found",
    [
        snapshot(pods()),
        snapshot(CONTEXT.pods(REFUSED)),
        snapshot(pods(REFUSED)[:3][:0]),
        unlinked(),
        # After an upgrade from 1.35, whose field is gone: none names a group.
        snapshot([replace(pod, group="") for pod in pods(REFUSED)], jobs=CONTEXT.jobs(group="")),
    ],
)
def test_a_gang_that_is_whole_or_holds_nothing_is_not_stranded(found: Snapshot) -> None:
    assert stranded(found, NOW, 0.0, {}, {}) == ()


@each(
    "changes",
    [
        {"suspend": True},
        {"deleting": True},
        {"end": condition("Failed", NOW)},
    ],
)
def test_a_jobset_that_does_not_run_is_left_alone(changes: dict[str, Any]) -> None:
    context = Context(jobset("js", rj("w", 1, 4, 4), mode="Gang"), **changes)
    assert stranded(context.snapshot(pods(REFUSED), nodes=UP), NOW, 0.0, {}, {}) == ()


def test_a_restart_is_waited_for() -> None:
    context = Context(jobset("js", rj("w", 1, 4, 4), mode="Gang"), restarts=1)
    earlier = [replace(pod, attempt=0) for pod in pods()[:1]]
    found = [*context.pods(READY)[:3], replace(context.pods(REFUSED)[3], created=LOST_AT), *earlier]
    (gang,) = stranded(context.snapshot(found, nodes=UP), NOW, DELAY, {}, {})
    assert (gang.evict, gang.look_again) == ((), None)


def test_a_gang_that_may_start_with_fewer_is_whole_with_these() -> None:
    gangs = '[{"name": "g", "replicatedJobs": ["w"], "minCount": 3}]'
    context = Context(jobset("js", rj("w", 1, 4, 4), annotations={"gangctl.dev/gangs": gangs}))
    found = [*context.pods(READY)[:3], replace(context.pods(REFUSED)[3], created=LOST_AT)]
    assert stranded(context.snapshot(found, nodes=UP), NOW, 0.0, {}, {}) == ()
    two = [*context.pods(READY)[:2], *(replace(pod, created=LOST_AT) for pod in context.pods(REFUSED)[2:])]
    (gang,) = stranded(context.snapshot(two, nodes=UP), NOW, DELAY, {}, {})
    assert (len(gang.evict), gang.missing) == (2, 1)


def test_the_delay_does_not_count_from_a_pod_to_spare_that_never_had_a_node() -> None:
    gangs = '[{"name": "g", "replicatedJobs": ["w"], "minCount": 3}]'
    context = Context(jobset("js", rj("w", 1, 4, 4), annotations={"gangctl.dev/gangs": gangs}))
    lost, spare = context.pods(REFUSED)[2:]
    found = [*context.pods(READY)[:2], replace(lost, created=LOST_AT), replace(spare, created=LOST_AT - 3600)]
    gang = ask(context.snapshot(found, nodes=UP), delay=300)
    assert (gang.evict, gang.look_again) == ((), LOST_AT + 300)
    both = [*context.pods(READY)[:1], *(replace(pod, created=LOST_AT + 50) for pod in context.pods(REFUSED)[1:2])]
    assert ask(context.snapshot([*both, *found[2:]], nodes=UP), delay=300).look_again == LOST_AT + 300


@each(
    ("annotation", "default", "expected"),
    [
        (None, None, None),
        (None, 60.0, 60.0),
        ("10m", None, 600.0),
        ("10m", 60.0, 600.0),
        ("never", 60.0, None),
        ("soon", 60.0, None),
    ],
)
def test_the_annotation_outranks_the_default(
    annotation: str | None, default: float | None, expected: float | None
) -> None:
    annotations = {AFTER: annotation} if annotation is not None else {}
    context = Context(jobset("js", rj("w", 1, 4, 4), mode="Gang", annotations=annotations))
    assert delay_of(context.jobset, default) == expected


FAILED_SCALE_UP = (
    "Node scale up in zones us-central1-a associated with this pod failed: GCE out of resources. Pod is at risk of not "
    "being scheduled."
)


def test_events_of_autoscalers_are_read_and_the_last_of_a_pod_counts() -> None:
    assert read_scale_up(event("Pulled", NOW)) is None
    assert read_scale_up(event("TriggeredScaleUp", NOW, "Node")) is None
    found = [read_scale_up(event(*one)) for one in (("TriggeredScaleUp", NOW), ("NotTriggerScaleUp", NOW - 9))]
    assert latest(one for one in found if one is not None)["p"].reason == "TriggeredScaleUp"


def event(reason: str, at: int, kind: str = "Pod", note: str = "no") -> dict[str, Any]:
    about = {"kind": kind, "name": "p", "namespace": "t"}
    return {"regarding": about, "reason": reason, "note": note, "deprecatedLastTimestamp": rfc3339(at)}


@each(
    ("reason", "note", "read"),
    [
        ("Nominated", "Pod should schedule on: nodeclaim/gpu-x7k2p", True),
        ("Nominated", "Pod should schedule on: node/n0", True),
        ("Nominated", "Pod should schedule on: nodeclaim/gpu-x7k2p, node/n0", True),
        ("FailedScaleUp", FAILED_SCALE_UP, True),
        ("FailedScheduling", 'Failed to schedule pod, incompatible with nodepool "gpu"', True),
        ("FailedScheduling", "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.", False),
        ("FailedScheduling", "", False),
    ],
)
def test_an_event_is_read_if_an_autoscaler_adds_a_node_or_cannot(reason: str, note: str, read: bool) -> None:
    """Karpenter names a node that is there already, and has one reason with the scheduler."""
    assert (read_scale_up(event(reason, NOW, note=note)) is not None) is read


@each("reason", ["FailedScaleUp", "FailedScheduling"])
def test_a_scale_up_that_failed_is_not_waited_for(reason: str) -> None:
    note = "Failed to schedule pod, no instance type"
    said = [read_scale_up(event("TriggeredScaleUp", NOW - 9)), read_scale_up(event(reason, NOW, note=note))]
    assert not latest(one for one in said if one is not None)["p"].running(NOW)
