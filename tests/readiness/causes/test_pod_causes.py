"""Pods that are gated, terminating, lost with their node, or whose containers do not start."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gangctl.gang.reasons import Reason
from gangctl.readiness.evaluate import evaluate
from gangctl.readiness.facts import EndedPod, NodeFacts
from gangctl.readiness.result import GangPhase
from tests.jobsets import jobset, rj
from tests.readiness.causes.finding import causes, reasons, the
from tests.readiness.snapshots import (
    NOW,
    PENDING,
    PLACED,
    PLACED_AT,
    READY,
    RUNNING,
    Context,
    changed,
    condition,
    initially_scheduled,
    nodes,
    rfc3339,
    waits_in,
)
from tests.rows import each

JS = jobset("js", rj("w", 1, 4, 4), mode="Gang")
TOPOLOGY = "kueue.x-k8s.io/topology"


def placed(context: Context, pods: list[Any], **given: Any) -> Any:
    """A snapshot of a gang that the scheduler has placed."""
    return context.snapshot(pods, groups=context.groups(initially_scheduled()), **given)


def test_gates_are_reported_with_the_controller_that_removes_them() -> None:
    context = Context(JS)
    pods = context.pods(PENDING, gates=(TOPOLOGY,), refused="SchedulingGated")
    cause = the(Reason.PODS_GATED, context.snapshot(pods))
    assert TOPOLOGY in cause.message
    assert any("Kueue takes it off" in line for line in cause.evidence)
    assert cause.blocking
    assert reasons(context.snapshot(pods)) == [Reason.PODS_GATED]


def test_the_gate_of_kueue_blocks_after_a_delay_and_others_at_once() -> None:
    context = Context(JS)
    young = evaluate(context.snapshot(context.pods(PENDING, gates=(TOPOLOGY,), created=NOW - 5)), NOW)
    assert [cause.blocking for cause in young.causes] == [False]
    assert young.look_again == NOW + 25
    other = context.snapshot(context.pods(PENDING, gates=("example.com/x", TOPOLOGY), created=NOW - 5))
    assert the(Reason.PODS_GATED, other).blocking


def test_pods_without_gates_are_not_gated() -> None:
    context = Context(JS)
    assert Reason.PODS_GATED not in reasons(context.snapshot(context.pods(PENDING)))


def test_pods_of_the_earlier_attempt_delay_a_restart() -> None:
    context = Context(JS, restarts=1)
    context.jobset = replace(context.jobset, restarting_at=rfc3339(NOW - 20))
    pods = context.pods(RUNNING, attempt=0, deleting=True)
    readiness = evaluate(context.snapshot(pods, jobs=context.jobs(attempt=0)), NOW)
    assert readiness.phase is GangPhase.RESTARTING
    (cause,) = [each for each in readiness.causes if each.reason is Reason.RESTARTING]
    assert not cause.blocking
    assert "4 pods of the attempt before" in cause.evidence[1]
    context.jobset = replace(context.jobset, restarting_at=rfc3339(NOW - 400))
    assert the(Reason.RESTARTING, context.snapshot(pods, jobs=context.jobs(attempt=0))).blocking


def test_jobs_of_the_next_attempt_are_not_missing_before_the_last_one_is_deleted() -> None:
    context = Context(JS, restarts=1)
    context.jobset = replace(context.jobset, restarting_at=rfc3339(NOW - 100))
    pods = context.pods(RUNNING, attempt=0, deleting=True)
    assert Reason.PODS_MISSING not in reasons(context.snapshot(pods, jobs=context.jobs(attempt=0)))
    assert the(Reason.PODS_MISSING, context.snapshot([], jobs=[])).blocking


def test_a_finished_restart_is_no_cause() -> None:
    context = Context(JS, restarts=1)
    assert Reason.RESTARTING not in reasons(placed(context, context.pods(PLACED)))


def test_terminating_pods_are_reported() -> None:
    context = Context(JS)
    cause = the(Reason.PODS_TERMINATING, placed(context, changed(context.pods(RUNNING), 0, deleting=True)))
    assert (cause.pods, cause.blocking) == (1, False)
    assert "js-w-0-0-0" in cause.evidence[0]


def test_a_pod_that_does_not_end_blocks_after_a_while_if_it_has_no_replacement() -> None:
    """With podReplacementPolicy Failed its Job makes no other before it has ended."""
    context = Context(JS)
    pods = changed(context.pods(RUNNING), 0, deleting=True, deleted_at=NOW - 299)
    assert not the(Reason.PODS_TERMINATING, placed(context, pods)).blocking
    stuck = changed(pods, 0, deleted_at=NOW - 300)
    cause = the(Reason.PODS_TERMINATING, placed(context, stuck))
    assert (cause.message, cause.pods) == ("1 pod does not end, and others are not made before", 1)
    assert (cause.blocking, cause.since) == (True, NOW - 300)
    assert cause.evidence == ("js-w-0-0-0 on n0 had to end 5m ago, after its grace period",)
    assert cause.command == "kubectl -n t describe pod js-w-0-0-0"
    replaced = [*stuck, replace(pods[1], name="js-w-0-0-1")]
    assert not the(Reason.PODS_TERMINATING, placed(context, replaced)).blocking


def test_a_terminating_jobset_is_reported() -> None:
    context = Context(JS, deleting=True)
    assert causes(context.snapshot(context.pods(RUNNING, deleting=True)))[0].message == "the JobSet is being deleted"


def test_a_deletion_blocks_after_a_while_and_what_removes_each_finalizer_is_named() -> None:
    context = Context(JS, deleting=True, queue="main")
    context.jobset = replace(context.jobset, finalizers=("foregroundDeletion", "orphan", "a.example/x"))
    pods = context.pods(RUNNING, deleting=True)
    young = the(Reason.PODS_TERMINATING, context.snapshot(pods, queue=waits_in()), NOW + 5)
    assert (young.blocking, young.since) == (False, NOW)
    assert young.message.endswith("waits for 3 finalizers: a.example/x, foregroundDeletion, orphan")
    what = [line.partition(": ")[2] for line in young.evidence[2:]]
    assert what == [
        "the garbage collector removes it once what it owns is gone: Job js-w-0, Workload jobset-js of Kueue",
        "the garbage collector removes it once nothing names the JobSet as its owner",
        "the controller that set it removes it",
    ]
    stuck = the(Reason.PODS_TERMINATING, context.snapshot([], jobs=[], queue=waits_in()), NOW + 400)
    assert stuck.blocking
    assert "remove the finalizer from the JobSet" in stuck.remedy
    context.jobset = replace(context.jobset, finalizers=("foregroundDeletion",))
    none = the(Reason.PODS_TERMINATING, context.snapshot([], jobs=[]), NOW + 400)
    assert "none of its Jobs is left" in none.evidence[2]
    left = the(Reason.PODS_TERMINATING, context.snapshot([]), NOW + 400)
    assert left.command.startswith("kubectl -n t get jobs ")
    assert left.evidence[0] == "none of its pods is seen to be on its way out"
    (failed, *_) = context.pods(RUNNING, phase="Failed", deleting=True)
    ended = [EndedPod(failed, NOW), EndedPod(replace(failed, name="older", created=1), NOW)]
    held = the(Reason.PODS_TERMINATING, context.snapshot([], ended=ended), NOW + 400)
    assert held.evidence[0] == f"ended, and held by a finalizer: {failed.name}"


def test_running_pods_are_not_reported_as_terminating() -> None:
    context = Context(JS)
    assert Reason.PODS_TERMINATING not in reasons(placed(context, context.pods(RUNNING)))


@pytest.mark.parametrize(
    ("known", "words", "command"),
    [
        (
            {"n0": NodeFacts("n0", ready=False, reason="NodeStatusUnknown", since=NOW - 90)},
            "(NodeStatusUnknown), for 1m30s",
            "kubectl describe node n0",
        ),
        ({}, "node n0 does not exist", "kubectl -n t get pods -l"),
    ],
)
def test_pods_on_lost_nodes_are_reported(known: dict[str, NodeFacts], words: str, command: str) -> None:
    context = Context(JS)
    cause = the(Reason.NODE_LOST, placed(context, context.pods(RUNNING), nodes=known))
    assert words in cause.evidence[0]
    assert cause.command.startswith(command)
    assert cause.pods == 4
    assert cause.since == (NOW - 90 if known else 0)


SICK = ("KernelDeadlock (DockerHung)", "XidError")


@pytest.mark.parametrize(("ready", "reason"), [(False, Reason.NODE_LOST), (True, Reason.NODE_UNHEALTHY)])
def test_what_else_is_wrong_with_a_node_is_said(ready: bool, reason: Reason) -> None:
    context = Context(JS)
    snapshot = placed(context, context.pods(RUNNING), nodes=nodes("n0", ready=ready, troubles=SICK))
    assert "node n0 has KernelDeadlock (DockerHung), XidError" in the(reason, snapshot).evidence
    well = placed(context, context.pods(RUNNING), nodes=nodes("n0", ready=ready))
    assert "XidError" not in str(causes(well))


def test_a_problem_of_a_node_blocks_where_containers_fail_or_are_late_and_comes_after_these() -> None:
    context = Context(JS)
    sick = nodes("n0", troubles=SICK)
    new = {**RUNNING, "placed_at": NOW - 5, "ready_at": NOW - 5}
    assert not the(Reason.NODE_UNHEALTHY, placed(context, context.pods(new), nodes=sick)).blocking
    failing = placed(context, context.pods({**new, "waiting": "CrashLoopBackOff"}), nodes=sick)
    assert [cause.reason for cause in causes(failing) if cause.blocking] == [Reason.CRASH_LOOP, Reason.NODE_UNHEALTHY]
    assert the(Reason.NODE_UNHEALTHY, placed(context, context.pods(RUNNING), nodes=sick)).blocking


def test_terminating_pods_on_a_lost_node_are_reported_as_lost() -> None:
    context = Context(JS)
    pods = changed(context.pods(RUNNING), 0, deleting=True)
    cause = the(Reason.NODE_LOST, placed(context, pods, nodes=nodes("n0", ready=False)))
    assert any("terminating there" in line for line in cause.evidence)


@pytest.mark.parametrize("known", [None, nodes("n0"), nodes("n0", unschedulable=True)])
def test_nodes_that_are_ready_or_not_known_are_not_lost(known: dict[str, NodeFacts] | None) -> None:
    context = Context(JS)
    assert Reason.NODE_LOST not in reasons(placed(context, context.pods(RUNNING), nodes=known))


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("PreemptionByScheduler", "higher priority"),
        ("TerminationByKubelet", "ran short"),
        ("SomethingNew", "SomethingNew"),
    ],
)
def test_the_source_of_a_disruption_is_named(reason: str, words: str) -> None:
    context = Context(JS)
    pods = changed(context.pods(READY), 0, disrupted=reason, deleting=True)
    cause = the(Reason.PREEMPTED, placed(context, pods))
    assert words in cause.message
    assert "js-w-0-0-0" in cause.evidence[0]
    assert cause.pods == 1
    assert Reason.PREEMPTED not in reasons(placed(context, context.pods(RUNNING)))


@each(
    ("waiting", "reason"),
    [
        ("ImagePullBackOff", Reason.IMAGE_PULL),
        ("ErrImagePull", Reason.IMAGE_PULL),
        ("InvalidImageName", Reason.IMAGE_PULL),
        ("CreateContainerConfigError", Reason.CONTAINER_CONFIG),
        ("RunContainerError", Reason.CONTAINER_CONFIG),
        ("CrashLoopBackOff", Reason.CRASH_LOOP),
        ("OOMKilled", Reason.CRASH_LOOP),
        ("Error", Reason.CRASH_LOOP),
    ],
)
def test_containers_that_fail_to_start_or_to_run_are_reported(waiting: str, reason: Reason) -> None:
    context = Context(JS)
    troubled = {"waiting": waiting, "waiting_message": "said so", "restarts": 3}
    pods = changed(context.pods(RUNNING), slice(1, 3), **troubled)
    cause = the(reason, placed(context, pods))
    assert waiting in cause.message
    assert cause.pods == 2
    assert cause.evidence[0] == f"{waiting}: said so"
    assert cause.evidence[2] == "restarted 6 times"
    assert cause.blocking
    assert ("--previous" in cause.command) is (reason is Reason.CRASH_LOOP)
    assert reasons(placed(context, pods))[0] is reason


def ended(context: Context, number: int, why: str, **changes: Any) -> EndedPod:
    """A pod of the first Job that has failed."""
    pod = context.pod(context.planned()[0], number, {**RUNNING, "phase": "Failed"})
    return EndedPod(replace(pod, **changes), NOW - 60 + number, why)


def test_a_pod_that_failed_for_good_is_a_cause_while_its_job_lacks_a_ready_one() -> None:
    context = Context(JS)
    failed = [ended(context, number, why) for number, why in ((1, "lost peer"), (0, "out of memory"), (2, "lost peer"))]
    jobs = context.jobs(failed=3)
    cause = the(Reason.CRASH_LOOP, placed(context, context.pods(READY)[3:], jobs=jobs, ended=failed))
    assert cause.message == "3 pods failed: out of memory"
    assert [line.partition(" ")[0] for line in cause.evidence] == ["out", "lost"]
    assert "lost peer: 2 pods, the last 58s ago: js-w-0-2-0 on n0" in cause.evidence
    assert cause.command == "kubectl -n t logs js-w-0-0-0 --all-containers --ignore-errors"
    assert (cause.blocking, cause.since) == (True, NOW - 60)
    replaced = placed(context, changed(context.pods(READY), 0, ready=False, ready_at=NOW - 5), jobs=jobs, ended=failed)
    assert Reason.CRASH_LOOP in reasons(replaced)


def test_pods_that_failed_are_no_cause_once_all_are_ready_nor_of_another_attempt_or_jobset() -> None:
    context = Context(JS, restarts=1)
    some = context.pods(READY, count=1)
    assert Reason.CRASH_LOOP in reasons(placed(context, some, ended=[ended(context, 1, "x")]))
    for earlier in ({"attempt": 0}, {"created": 1}, {"phase": "Succeeded"}):
        assert Reason.CRASH_LOOP not in reasons(placed(context, some, ended=[ended(context, 1, "x", **earlier)]))
    assert Reason.CRASH_LOOP not in reasons(placed(context, context.pods(READY), ended=[ended(context, 1, "x")]))


@each(("resumed", "counts"), [(NOW - 30, False), (NOW - 61, True), (NOW - 3600, True)])
def test_a_pod_that_failed_before_a_suspension_is_no_cause_after_it(resumed: int, counts: bool) -> None:
    context = Context(JS, end=condition("Suspended", resumed, status=False), created=NOW - 7200)
    one = replace(ended(context, 1, "x"), at=NOW - 90)
    found = reasons(placed(context, context.pods(READY, count=1), ended=[one]))
    assert (Reason.CRASH_LOOP in found) is counts
    gone = replace(ended(context, 1, NO_DEVICE, started_at=NOW - 90), at=0, rejected=True)
    found = reasons(placed(context, context.pods(READY, count=1), ended=[gone]))
    assert (Reason.NODE_UNHEALTHY in found) is counts


def test_a_pod_that_failed_is_no_cause_while_the_one_in_its_place_is_ready() -> None:
    context = Context(JS)
    first, second, *_ = failed = [ended(context, number, "x") for number in range(4)]
    pods = context.pods(READY)
    assert Reason.CRASH_LOOP not in reasons(placed(context, pods[1:], ended=failed[1:]))
    assert the(Reason.CRASH_LOOP, placed(context, pods[1:], ended=failed)).pods == 1
    # Without completion indexes in their names any may be in its place.
    named = [
        replace(one, pod=replace(one.pod, name=f"js-w-0-{number}ab")) for number, one in enumerate((first, second))
    ]
    pods = [replace(pod, name=f"js-w-0-{number}cd") for number, pod in enumerate(pods)]
    assert the(Reason.CRASH_LOOP, placed(context, pods[1:], ended=named)).pods == 2


def test_a_pod_that_ended_because_it_was_preempted_has_not_failed_by_itself() -> None:
    context = Context(JS)
    gone = ended(context, 1, "container main: Error, exit code 143 (SIGTERM)", disrupted="PreemptionByScheduler")
    found = reasons(placed(context, context.pods(READY, count=1), ended=[gone]))
    assert (Reason.PREEMPTED in found, Reason.CRASH_LOOP in found) == (True, False)


NO_DEVICE = "UnexpectedAdmissionError: Pod was rejected: Allocate failed due to no healthy devices present"


def test_a_pod_that_its_kubelet_did_not_admit_has_a_problem_of_the_node_and_no_logs() -> None:
    context = Context(JS)
    gone = replace(ended(context, 1, NO_DEVICE), at=0, rejected=True)
    crashed = ended(context, 2, "container main: Error, exit code 1")
    snapshot = placed(context, context.pods(READY, count=1), ended=[gone, crashed], nodes=nodes("n0"))
    cause = the(Reason.NODE_UNHEALTHY, snapshot)
    assert cause.message == f"the kubelet of n0 did not admit 1 pod: {NO_DEVICE}"
    assert cause.evidence == (f"{NO_DEVICE}: 1 pod, the last: js-w-0-1-0 on n0",)
    assert cause.command == "kubectl describe node n0"
    assert (cause.blocking, cause.pods) == (True, 1)
    assert the(Reason.CRASH_LOOP, snapshot).message == "1 pod failed: container main: Error, exit code 1"
    assert Reason.CRASH_LOOP not in reasons(replace(snapshot, ended=[gone]))
    unread = the(Reason.NODE_UNHEALTHY, replace(snapshot, nodes=None))
    assert unread.command == "kubectl -n t describe pod js-w-0-1-0"


def test_a_pod_that_is_ready_again_has_no_cause() -> None:
    context = Context(JS)
    pods = changed(context.pods(RUNNING), 1, waiting="OOMKilled", ready=True, ready_at=NOW - 5)
    assert Reason.CRASH_LOOP not in reasons(placed(context, pods))


@each("waiting", ["", "ContainerCreating", "PodInitializing"])
@each(("state", "reason"), [(PLACED, Reason.STARTING), (RUNNING, Reason.NOT_READY)])
def test_a_slow_start_is_normal_until_its_limit(waiting: str, state: dict[str, Any], reason: Reason) -> None:
    context = Context(JS)
    young = evaluate(placed(context, context.pods(state, waiting=waiting, placed_at=NOW - 100)), NOW)
    assert [(cause.reason, cause.blocking) for cause in young.causes] == [(reason, False)]
    assert young.look_again == NOW + 200
    cause = the(reason, placed(context, context.pods(state, waiting=waiting)))
    assert (cause.blocking, cause.since) == (True, PLACED_AT)


def test_init_containers_that_run_are_named_instead_of_images_and_volumes() -> None:
    """Their program decides how long they take: they may load a data set for an hour."""
    context = Context(JS)
    pods = context.pods(PLACED, waiting="PodInitializing", waiting_message="init container fetch runs")
    cause = the(Reason.STARTING, placed(context, pods))
    assert "init containers of" in cause.message
    assert "init container fetch runs" in cause.evidence
    assert "volume" not in cause.remedy


@each(
    ("waiting", "said", "state", "message", "words"),
    [
        (
            "SidecarNotStarted",
            "sidecar fuse has not started",
            PLACED,
            "sidecars of 4 pods have not started, and the other containers wait for it",
            "startup probe",
        ),
        (
            "Completed",
            "completed: main; still running: proxy",
            RUNNING,
            "containers of 4 pods have completed, and others run on",
            "restartPolicy: Always",
        ),
        (
            "ReadinessGatesNotReady",
            'the status of pod readiness gate "example.com/lb" is not "True", but False',
            RUNNING,
            "readiness gates of 4 pods are not met",
            "the controller that added the gate",
        ),
    ],
)
def test_what_no_readiness_probe_decides_is_named(
    waiting: str, said: str, state: dict[str, Any], message: str, words: str
) -> None:
    context = Context(JS)
    snapshot = placed(context, context.pods(state, waiting=waiting, waiting_message=said))
    (cause,) = causes(snapshot)
    assert (cause.message, cause.blocking) == (message, True)
    assert cause.evidence[2:] == (said,)
    assert words in cause.remedy
    young = placed(context, context.pods(state, waiting=waiting, waiting_message=said, placed_at=NOW - 100))
    assert [(cause.blocking, words in cause.remedy) for cause in causes(young)] == [(False, True)]


def test_a_failed_probe_counts_from_its_failure() -> None:
    context = Context(JS)
    pods = changed(context.pods(READY), 0, ready=False, ready_at=NOW - 10)
    cause = the(Reason.NOT_READY, placed(context, pods))
    assert (cause.since, cause.blocking, cause.pods) == (NOW - 10, False, 1)


def test_only_blocked_groups_are_named() -> None:
    context = Context(jobset("js", rj("w", 2, 4, 4, mode="ReplicatedGang")))
    pods = [*context.pods(READY, index=0), *context.pods(RUNNING, index=1, waiting="ErrImagePull")]
    cause = the(Reason.IMAGE_PULL, placed(context, pods))
    assert len(cause.groups) == 1
    assert cause.groups == ("js-w-0f5a6f3e-7c21-1-0",)


def test_a_loop_is_seen_while_its_container_runs_until_the_kubelet_forgets_it() -> None:
    context = Context(jobset("js", rj("w", 1, 2, 2), mode="Gang"))
    pods = changed(context.pods(READY), 0, restarts=60, ended_at=NOW - 60)
    assert the(Reason.CRASH_LOOP, context.snapshot(pods)).blocking
    for calm in (
        {"restarts": 2, "ended_at": NOW - 60},
        {"restarts": 60, "ended_at": NOW - 600},
        {"restarts": 60, "ended_at": NOW - 60, "ran": 600},
    ):
        assert causes(context.snapshot(changed(pods, 0, **calm))) == ()
