"""A scheduler that writes nothing about pods: it does not run, or waits for what they need."""

from __future__ import annotations

from dataclasses import replace

from gangctl.api.scheduling import Observed
from gangctl.gang.reasons import Reason
from gangctl.readiness.evaluate import evaluate
from tests.jobsets import jobset, rj
from tests.readiness.causes.finding import causes, reasons, the
from tests.readiness.snapshots import (
    BORN,
    GATED,
    NOW,
    PENDING,
    PLACED_AT,
    REFUSED,
    RUNNING,
    Context,
    changed,
    initially_scheduled,
    rfc3339,
)
from tests.rows import each


def test_an_absent_scheduler_is_named() -> None:
    context = Context(jobset("js", rj("w", 1, 2, 2), mode="Gang"))
    snapshot = context.snapshot(context.pods(PENDING, scheduler="absent"))
    cause = the(Reason.SCHEDULER_SILENT, snapshot)
    assert cause.message == "scheduler absent does not answer for 2 pods"
    assert (cause.blocking, cause.since) == (True, BORN)


def test_the_default_scheduler_is_looked_for_in_kube_system() -> None:
    context = Context(jobset("js", rj("w", 1, 2, 2), mode="Gang"))
    cause = the(Reason.SCHEDULER_SILENT, context.snapshot(context.pods(PENDING)))
    assert cause.command == "kubectl -n kube-system get pods,leases"


def test_a_silent_scheduler_is_reported_after_a_delay() -> None:
    context = Context(jobset("js", rj("w", 1, 2, 2), mode="Gang"))
    readiness = evaluate(context.snapshot(context.pods(PENDING, created=NOW - 5)), NOW)
    (cause,) = readiness.causes
    assert cause.reason is Reason.SCHEDULER_SILENT
    assert not cause.blocking
    assert readiness.look_again == NOW + 10


def test_the_delay_of_the_scheduler_starts_with_the_group() -> None:
    context = Context(jobset("js", rj("w", 1, 2, 2), mode="Gang"))
    snapshot = context.snapshot(context.pods(PENDING), groups=context.groups(created=rfc3339(NOW - 3)))
    assert not the(Reason.SCHEDULER_SILENT, snapshot).blocking


def test_a_claim_that_is_not_made_is_no_silence_of_the_scheduler() -> None:
    """It holds back a pod of which a claim does not exist, and with it the group, and writes nothing of that."""
    context = Context(jobset("js", rj("w", 1, 2, 2), mode="Gang"))
    pods = changed(context.pods(PENDING), 1, unclaimed=("chanel",))
    cause = the(Reason.UNSCHEDULABLE, context.snapshot(pods))
    assert cause.message == (
        "the scheduler does not look at 2 pods: no ResourceClaim has been made from ResourceClaimTemplate chanel"
    )
    assert (cause.blocking, cause.pods, cause.since) == (True, 2, BORN)
    assert "FailedResourceClaimCreation" in cause.remedy
    assert cause.command == f"kubectl -n t describe pod {pods[1].name}"
    assert reasons(context.snapshot(pods)) == [Reason.UNSCHEDULABLE]
    young = [replace(pod, created=NOW - 5) for pod in pods]
    assert not the(Reason.SCHEDULER_SILENT, context.snapshot(young)).blocking, "the claim takes a moment, too"


def test_a_claim_by_name_may_be_why_the_scheduler_is_silent() -> None:
    """Whether it exists is not known."""
    pod = {"resourceClaims": [{"name": "net", "resourceClaimName": "chanel"}, {"name": "of", "resourceClaimName": "w"}]}
    context = Context(jobset("js", rj("w", 1, 2, 2, pod=pod), mode="Gang"))
    cause = the(Reason.SCHEDULER_SILENT, context.snapshot(context.pods(PENDING)))
    assert cause.remedy.endswith("; ResourceClaims that its pods name have to exist, too: chanel, w")
    assert cause.command == "kubectl -n kube-system get pods,leases"


@each("case", ["below", "refused", "placed", "no group"])
def test_a_scheduler_that_waits_for_pods_is_not_reported_as_silent(case: str) -> None:
    context = Context(jobset("js", rj("w", 1, 2, 2), mode="Gang"))
    groups: dict[str, Observed] = {} if case == "no group" else context.groups()
    pods = {
        "below": context.pods(PENDING, count=1),
        "refused": context.pods(REFUSED),
        "placed": context.pods(RUNNING),
        "no group": context.pods(PENDING),
    }[case]
    assert Reason.SCHEDULER_SILENT not in reasons(context.snapshot(pods, groups=groups))


@each("case", ["below", "gated", "no group", "unclaimed"])
def test_a_scheduler_that_waits_for_another_gang_is_not_reported_as_silent(case: str) -> None:
    """Gangs that start together: it looks at none before the pods of all are there."""
    raw = jobset("js", rj("w", 2, 2, 2, mode="ReplicatedGang"), options='{"composite": true}')
    context = Context(raw)
    there, other = context.pods(PENDING, index=0), context.pods(PENDING, index=1)
    groups = context.groups()
    if case == "no group":
        del groups[other[0].group]
    others = {
        "below": other[:1],
        "gated": context.pods(GATED, index=1),
        "no group": other,
        "unclaimed": changed(other, 0, unclaimed=("chanel",)),
    }[case]
    snapshot = context.snapshot([*there, *others], groups=groups)
    assert Reason.SCHEDULER_SILENT not in reasons(snapshot)
    assert causes(snapshot), "the other gang has a cause"
    apart = Context(jobset("js", rj("w", 2, 2, 2, mode="ReplicatedGang")))
    assert Reason.SCHEDULER_SILENT in reasons(apart.snapshot([*apart.pods(PENDING, index=0), *others[:1]]))
    assert the(Reason.SCHEDULER_SILENT, context.snapshot([*there, *other])).pods == 4


def test_a_scheduler_that_waits_for_volumes_is_not_reported_as_silent() -> None:
    """It nominates pods before it waits for volumes (PreBind), and writes a condition 10 minutes later."""
    pod = {"volumes": [{"name": "data", "ephemeral": {"volumeClaimTemplate": {}}}]}
    context = Context(jobset("js", rj("w", 1, 2, 2, pod=pod), mode="Gang"))
    groups = context.groups(initially_scheduled())
    pods = context.pods(PENDING, created=NOW - 200, nominated="n1")
    cause = the(Reason.VOLUME_NOT_BOUND, context.snapshot(pods, groups=groups))
    assert cause.message == (
        "the scheduler has chosen nodes for 2 pods, and waits for their volumes: PersistentVolumeClaim POD-data"
    )
    assert (cause.blocking, cause.pods, cause.since) == (False, 2, NOW - 200)
    assert cause.command == "kubectl -n t get persistentvolumeclaims"
    assert reasons(context.snapshot(pods, groups=groups)) == [Reason.VOLUME_NOT_BOUND]
    readiness = evaluate(context.snapshot(pods, groups=groups), NOW)
    assert readiness.look_again == NOW + 100
    old = the(Reason.VOLUME_NOT_BOUND, context.snapshot(context.pods(PENDING, nominated="n1")))
    assert (old.blocking, old.since) == (True, BORN)
    assert "see the events of the claims" in old.remedy
    dead = the(Reason.SCHEDULER_SILENT, context.snapshot(context.pods(PENDING, nominated="n1")), BORN + 600)
    assert dead.blocking, "it would have written a condition"
    partly = changed(context.pods(PENDING, nominated="n1"), 0, nominated="")
    assert reasons(context.snapshot(partly)) == [Reason.SCHEDULER_SILENT]


def test_a_refusal_from_before_a_node_was_chosen_is_no_cause() -> None:
    """The condition of the pod stays until it is bound."""
    context = Context(jobset("js", rj("w", 1, 2, 2), mode="Gang"))
    pods = context.pods(REFUSED, nominated="n1")
    for placed, reason in ((PLACED_AT + 9, Reason.SCHEDULER_SILENT), (PLACED_AT - 9, Reason.UNSCHEDULABLE)):
        groups = context.groups(initially_scheduled(placed))
        assert reasons(context.snapshot(pods, groups=groups)) == [reason]


def test_what_the_scheduler_could_not_bind_holds_while_it_tries_again() -> None:
    """A pod's condition keeps the time of the first refusal, and the group's that of the placement."""
    context = Context(jobset("js", rj("w", 1, 2, 2), mode="Gang"))
    groups, pods = context.groups(initially_scheduled(PLACED_AT + 9)), context.pods(REFUSED, nominated="n1")
    failed = 'running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded'
    again = [replace(pod, refused="SchedulerError", refusal=failed) for pod in pods]
    assert the(Reason.VOLUME_NOT_BOUND, context.snapshot(again, groups=groups), PLACED_AT + 700).blocking
    assert the(Reason.SCHEDULER_SILENT, context.snapshot(pods, groups=groups), PLACED_AT + 700).blocking


def test_a_scheduler_is_not_silent_about_pods_whose_gates_were_removed_a_moment_ago() -> None:
    context = Context(jobset("js", rj("w", 1, 2, 2), mode="Gang"))
    gated = evaluate(context.snapshot(context.pods(GATED)), NOW - 9)
    freed = evaluate(context.snapshot(context.pods(PENDING)), NOW, gated)
    assert (freed.since, [cause.blocking for cause in freed.causes]) == (NOW, [False])
    later = evaluate(context.snapshot(context.pods(PENDING)), NOW + 20, freed)
    assert (later.since, [cause.blocking for cause in later.causes]) == (NOW, [True])


def test_a_scheduler_that_waits_for_devices_is_silent_after_ten_minutes() -> None:
    context = Context(jobset("js", rj("w", 1, 2, 2), mode="Gang"))
    snapshot = context.snapshot(context.pods(PENDING, nominated="n1"))
    cause = the(Reason.SCHEDULER_SILENT, snapshot)
    assert cause.message == "the scheduler has chosen nodes for 2 pods, and waits for their devices"
    assert not cause.blocking
    assert the(Reason.SCHEDULER_SILENT, snapshot, BORN + 599).blocking is False
    late = the(Reason.SCHEDULER_SILENT, snapshot, BORN + 600)
    assert (late.blocking, late.message) == (True, "the scheduler does not answer for 2 pods that are all there")


def test_a_large_gang_is_bound_in_time() -> None:
    context = Context(jobset("js", rj("w", 1, 2000, 2000), mode="Gang"))
    for created, blocks in ((NOW - 30, False), (NOW - 120, True)):
        pods = context.pods(PENDING, created=created)
        groups = context.groups(initially_scheduled(created + 2))
        assert the(Reason.SCHEDULER_SILENT, context.snapshot(pods, groups=groups)).blocking is blocks
