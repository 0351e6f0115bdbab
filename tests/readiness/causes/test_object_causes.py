"""Causes that concern Workload and PodGroups."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gangctl.api.scheduling import Generation
from gangctl.gang.desired import assess
from gangctl.gang.reasons import Reason
from gangctl.gang.resolve import ClusterRules
from gangctl.kueue.objects import QueuedWorkload
from gangctl.kueue.queues import QueueFacts
from gangctl.readiness.evaluate import evaluate
from tests.gang.pipeline import read
from tests.jobsets import jobset, rj
from tests.kueue.workloads import queued
from tests.readiness.causes.finding import causes, reasons, refused_job, the
from tests.readiness.snapshots import BORN, CREATED, NOW, PENDING, REFUSED, RUNNING, Context

JS = jobset("js", rj("w", 2, 4, 4), mode="Gang")
TOGETHER = jobset("js", rj("a", 1, 2, 2, mode="Gang"), rj("b", 1, 3, 3, mode="Gang"), options='{"composite": true}')
TWO = jobset("js", rj("a", 1, 2, 2, mode="Gang"), rj("b", 1, 3, 3, mode="Gang"))


def test_a_foreign_group_of_the_name_is_reported_with_its_owner() -> None:
    context = Context(JS)
    groups = context.groups(owner_uid="other", owner_jobset="theirs")
    cause = the(Reason.NAME_CONFLICT, context.snapshot(context.pods(PENDING), groups=groups))
    name = next(iter(groups))
    assert name in cause.message
    assert cause.evidence == (f'PodGroup {name} is controlled by JobSet "theirs" with UID other',)
    assert cause.command == f"kubectl -n t get podgroups.scheduling.k8s.io {name} -o yaml"


def test_a_foreign_workload_of_the_name_blocks_all_groups() -> None:
    context = Context(TWO)
    snapshot = context.snapshot(workload=context.workload(owner_uid="", owner_jobset=""), groups={})
    cause = the(Reason.NAME_CONFLICT, snapshot)
    assert cause.groups == ()
    assert cause.pods == 5
    assert cause.evidence[0].endswith("has no controller")


def test_only_conflicting_groups_are_named() -> None:
    context = Context(TWO)
    groups = context.groups()
    first = min(groups)
    groups[first] = replace(groups[first], owner_uid="other")
    assert the(Reason.NAME_CONFLICT, context.snapshot(groups=groups)).groups == (first,)


def test_the_remedy_for_a_terminating_foreign_group_is_to_end_its_pods() -> None:
    context = Context(JS)
    groups = context.groups(owner_uid="other", deleting=True)
    cause = the(Reason.NAME_CONFLICT, context.snapshot(context.pods(PENDING), groups=groups))
    assert "suspend the JobSet, and resume it" in cause.remedy
    assert cause.command == """kubectl -n t patch jobset js --type=merge -p '{"spec":{"suspend":true}}'"""
    assert "delete the PodGroup" in the(Reason.NAME_CONFLICT, context.snapshot(groups=groups)).remedy


@pytest.mark.parametrize(("kueue", "workload"), [(True, queued("w")), (True, None), (None, None)])
def test_of_a_jobset_that_kueue_resumes_the_workload_is_deactivated(
    kueue: bool | None, workload: QueuedWorkload | None
) -> None:
    context = Context(JS, queue="q")
    groups = context.groups(owner_uid="other", deleting=True)
    facts = QueueFacts("q", "cq", workload) if kueue else None
    found = context.snapshot(context.pods(PENDING), groups=groups, kueue=kueue, queue=facts)
    cause = the(Reason.NAME_CONFLICT, found)
    assert "spec.active of its Kueue Workload to false, and to true once its pods have ended" in cause.remedy
    deactivate = """kubectl -n t patch workloads.kueue.x-k8s.io w --type=merge -p '{"spec":{"active":false}}'"""
    show = f"kubectl -n t get podgroups.scheduling.k8s.io {min(groups)} -o yaml"
    assert cause.command == (deactivate if workload is not None else show)
    without = context.snapshot(context.pods(PENDING), groups=groups, kueue=False)
    assert "suspend the JobSet, and resume it" in the(Reason.NAME_CONFLICT, without).remedy


def test_objects_of_the_jobset_are_no_conflict() -> None:
    context = Context(JS)
    assert Reason.NAME_CONFLICT not in reasons(context.snapshot(context.pods(PENDING)))


def test_a_missing_group_is_reported() -> None:
    context = Context(JS)
    cause = the(Reason.POD_GROUP_MISSING, context.snapshot(context.pods(PENDING), groups={}))
    assert cause.blocking
    assert cause.since == BORN
    assert context.plan.groups[0].name in cause.evidence[0]
    assert "8 pods" in cause.evidence[1]
    assert "leader" in cause.remedy


def test_a_missing_group_is_no_cause_while_all_of_its_pods_are_rejected() -> None:
    """With a PriorityClass that does not exist, the API server rejects the group, too."""
    context = Context(JS)
    message = 'Error creating: pods "js-w-0-0-x" is forbidden: no PriorityClass with name hihg was found'
    denied = [refused_job("js-w-0", message)]
    assert reasons(context.snapshot(groups={}, refused=denied))[0] is Reason.POD_CREATION_REFUSED
    assert Reason.POD_GROUP_MISSING not in reasons(context.snapshot(groups={}, refused=denied))
    some = context.snapshot(context.pods(PENDING, count=1), groups={}, refused=denied)
    assert Reason.POD_GROUP_MISSING in reasons(some)


def test_before_1_36_a_missing_workload_is_reported() -> None:
    context = Context(JS, Generation.V1ALPHA1)
    cause = the(Reason.POD_GROUP_MISSING, context.snapshot(context.pods(PENDING), workload=None))
    assert context.plan.workload.name in cause.evidence[0]
    assert Reason.POD_GROUP_MISSING not in reasons(context.snapshot(context.pods(PENDING)))


def test_a_missing_group_is_reported_after_a_delay() -> None:
    context = Context(JS, created=NOW - 5)
    readiness = evaluate(context.snapshot(groups={}), NOW)
    (cause,) = [each for each in readiness.causes if each.reason is Reason.POD_GROUP_MISSING]
    assert not cause.blocking
    assert readiness.look_again == NOW + 10


def test_groups_that_cannot_be_read_are_not_reported_as_missing() -> None:
    context = Context(JS)
    snapshot = context.snapshot(context.pods(PENDING), groups={}, workload=None, groups_known=False)
    assert Reason.POD_GROUP_MISSING not in reasons(snapshot)


def test_a_missing_parent_of_the_groups_is_reported() -> None:
    context = Context(TOGETHER)
    snapshot = context.snapshot(context.pods(PENDING), composite_missing=True)
    cause = the(Reason.POD_GROUP_MISSING, snapshot)
    assert context.plan.composite is not None
    assert cause.evidence[0] == f"there is no CompositePodGroup {context.plan.composite.name}"
    assert (cause.message, cause.pods) == ("the CompositePodGroup that its groups name does not exist", 5)
    assert cause.blocking
    assert Reason.SCHEDULER_SILENT not in reasons(snapshot)
    assert Reason.POD_GROUP_MISSING not in reasons(context.snapshot(context.pods(PENDING)))


def test_a_missing_parent_is_no_cause_for_pods_that_have_nodes() -> None:
    context = Context(TOGETHER)
    pods = [*context.pods(RUNNING, only="a"), *context.pods(PENDING, only="b")]
    assert the(Reason.POD_GROUP_MISSING, context.snapshot(pods, composite_missing=True)).pods == 3
    running = context.snapshot(context.pods(RUNNING), composite_missing=True)
    assert Reason.POD_GROUP_MISSING not in reasons(running)


def test_a_queued_jobset_needs_no_group() -> None:
    context = Context(JS, suspend=True)
    assert reasons(context.snapshot(groups={})) == [Reason.SUSPENDED]


def test_a_terminating_group_is_reported_with_what_keeps_it() -> None:
    context = Context(JS)
    groups = context.groups(deleting=True)
    cause = the(Reason.POD_GROUP_TERMINATING, context.snapshot(context.pods(PENDING), groups=groups))
    assert cause.blocking
    assert "8 pods" in cause.evidence[1]
    assert Reason.POD_GROUP_MISSING not in reasons(context.snapshot(context.pods(PENDING), groups=groups))


def test_a_refusal_by_the_scheduler_ranks_before_a_terminating_group() -> None:
    context = Context(JS)
    found = causes(context.snapshot(context.pods(REFUSED), groups=context.groups(deleting=True)))
    assert [each.reason for each in found] == [Reason.UNSCHEDULABLE, Reason.POD_GROUP_TERMINATING]


def test_a_terminating_group_kept_only_by_its_finalizer_is_reported() -> None:
    context = Context(JS)
    cause = the(Reason.POD_GROUP_TERMINATING, context.snapshot(groups=context.groups(deleting=True)))
    assert cause.blocking
    assert "scheduling.k8s.io/podgroup-protection" in cause.evidence[1]
    assert "kube-controller-manager" in cause.remedy


@pytest.mark.parametrize("alone", [True, False])
def test_a_foreign_workload_is_reported_and_blocks_nothing(alone: bool) -> None:
    context = Context(JS, stamped=not alone)
    cause = the(Reason.FOREIGN_WORKLOAD, context.snapshot(context.pods(RUNNING), foreign_workload="mine"))
    assert not cause.blocking
    assert ("makes no gang" in cause.message) is alone


@pytest.mark.parametrize("grouped", [True, False])
def test_a_foreign_workload_without_pods_explains_waiting_groups(grouped: bool) -> None:
    context = Context(JS, stamped=False)
    pods = [replace(pod, group="theirs" if grouped else "") for pod in context.pods(PENDING)]
    found = causes(context.snapshot(pods, foreign_workload="theirs"))
    cause = the(Reason.FOREIGN_WORKLOAD, context.snapshot(pods, foreign_workload="theirs"))
    assert cause.blocking is not grouped
    assert Reason.NOT_GANGED not in {each.reason for each in found}
    if not grouped:
        assert found[0] == cause
        assert "8 pods of it name no group" in cause.evidence[1]


def test_without_pods_the_age_of_the_jobset_counts() -> None:
    context = Context(JS)
    assert the(Reason.POD_GROUP_MISSING, context.snapshot(groups={})).since == CREATED


def test_a_gang_that_was_resized_to_no_pods_is_blocked_by_nothing() -> None:
    """It waits for its next resize, and GangStuckPending is not about it."""
    context = Context(jobset("js", rj("w", 1, 4, 4), mode="Gang"))
    for entry in context.raw["spec"]["replicatedJobs"]:
        entry["replicas"] = 0
    jobset_ = read(context.raw)
    empty = replace(context.snapshot(groups={}), jobset=jobset_, assessment=assess(jobset_, ClusterRules()), jobs=())
    (cause,) = evaluate(empty, NOW).causes
    assert (cause.reason, cause.blocking) == (Reason.UNKNOWN, False)
    assert "no pods" in cause.message
