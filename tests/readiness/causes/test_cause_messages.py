"""Message, remedy and command of causes that have two of each: before and after the delay."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gangctl.api.scheduling import Generation
from gangctl.gang.reasons import Reason
from gangctl.kueue.queues import QueueFacts
from tests.jobsets import jobset, rj
from tests.kueue.workloads import queued, yes
from tests.readiness.causes import finding
from tests.readiness.causes.finding import reasons, recorded, refused_job, the
from tests.readiness.snapshots import BORN, NOW, PENDING, RUNNING, Context, changed
from tests.rows import each

JS = jobset("js", rj("w", 2, 4, 4), mode="Gang")
EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"


@each(
    ("created", "message", "remedy"),
    [
        (NOW - 14, "its PodGroup is about to be made", "wait: gangctl's controller makes it"),
        (NOW - 15, "the PodGroup that its pods name does not exist", "see whether it runs and has a leader"),
    ],
)
def test_a_missing_group_is_reported_first_as_pending_then_as_missing(created: int, message: str, remedy: str) -> None:
    context = Context(JS, created=created)
    cause = the(Reason.POD_GROUP_MISSING, context.snapshot(groups={}))
    assert cause.message == message
    assert remedy in cause.remedy
    assert cause.command == "kubectl -n t describe jobset js"
    assert cause.blocking is (created == NOW - 15)


@each(
    ("placed", "message", "command"),
    [
        (2, "places the pods of a gang one by one: it does not look at groups", "kubectl -n kube-system get pods"),
        (4, "has placed all pods without looking at their group", "kubectl -n t get podgroups.scheduling.k8s.io js-"),
    ],
)
def test_a_scheduler_without_support_for_groups_is_reported(placed: int, message: str, command: str) -> None:
    context = Context(jobset("js", rj("w", 1, 4, 4), mode="Gang"))
    pods = changed(context.pods(RUNNING), slice(placed, 4), node="", placed_at=0, phase="Pending")
    cause = the(Reason.SCHEDULING_GATE_OFF, context.snapshot(pods))
    assert message in cause.message
    assert cause.command.startswith(command)
    assert cause.blocking is (placed == 2)


@each(
    ("generation", "resource"),
    [
        (Generation.V1ALPHA1, "workloads.scheduling.k8s.io"),
        (Generation.V1ALPHA2, "podgroups.scheduling.k8s.io"),
    ],
)
def test_an_unreachable_min_count_names_the_object_that_has_it(generation: Generation, resource: str) -> None:
    context = Context(JS, generation)
    high = context.groups(min_counts=(("", 9),))
    workload = context.workload(min_counts=((context.plan.workload.templates[0].name, 9),))
    cause = the(Reason.MIN_COUNT_UNREACHABLE, context.snapshot(context.pods(PENDING), groups=high, workload=workload))
    name = context.plan.workload.name if generation is Generation.V1ALPHA1 else context.plan.groups[0].name
    assert f"{resource} {name}" in cause.command


@each(
    ("evicted", "words"),
    [
        ("Preempted", "to free quota for another Workload"),
        ("PodsReadyTimeout", "because its pods were not all ready in time"),
    ],
)
def test_an_eviction_is_reported_with_its_cause(evicted: str, words: str) -> None:
    context = Context(jobset("js", rj("w", 1, 4, 4), mode="Gang"), queue="main", suspend=True)
    workload = queued(QuotaReserved=yes(), Evicted=yes(evicted, "Kueue's words"))
    snapshot = context.snapshot(groups={}, jobs=context.jobs(active=False), queue=QueueFacts("main", "cq", workload))
    reason = Reason.PREEMPTED if evicted == "Preempted" else Reason.QUEUE_BACKOFF
    assert the(reason, snapshot).message == f"Kueue has evicted it {words}, and its pods are being deleted"


@each(("missing", "reported"), [(0, False), (1, True)])
def test_a_refusal_of_pods_is_reported_while_one_is_missing(missing: int, reported: bool) -> None:
    context = Context(JS)
    refused = [refused_job("js-w-0", recorded("1.37", "job/quota"))]
    pods = [*context.pods(PENDING, index=0, count=4 - missing), *context.pods(PENDING, index=1)]
    snapshot = context.snapshot(pods, refused=refused)
    assert (Reason.POD_CREATION_REFUSED in reasons(snapshot)) is reported
    assert not reported or the(Reason.POD_CREATION_REFUSED, snapshot).pods == 1


def exclusive(*names: str) -> Context:
    """ReplicatedJobs ``w`` and ``v`` in one gang; those named are placed exclusively, which was said after a stamp."""
    context = Context(jobset("js", rj("w", 1, 4, 4), rj("v", 1, 4, 4), rj("one", 2, 1, 1), mode="Gang"))
    context.jobset = replace(
        context.jobset,
        replicated_jobs=tuple(
            replace(each, annotations={**each.annotations, EXCLUSIVE: "rack"}) if each.name in names else each
            for each in context.jobset.replicated_jobs
        ),
    )
    context.assessment = replace(context.assessment, plan=replace(context.plan, jobset=context.jobset))
    return context


def test_only_missing_followers_of_exclusive_jobs_are_counted() -> None:
    context = exclusive("w", "one")
    pods = [*context.pods(PENDING, only="w", count=1), *context.pods(PENDING, only="v", count=2)]
    cause = the(Reason.EXCLUSIVE_TOPOLOGY_DEADLOCK, context.snapshot(pods))
    assert any("3 of 10 pods exist, 3 followers missing" in line for line in cause.evidence)


def test_missing_pods_of_other_jobs_are_no_deadlock() -> None:
    context = exclusive("w", "one")
    pods = [*context.pods(PENDING, only="w"), *context.pods(PENDING, only="v", count=1)]
    assert Reason.EXCLUSIVE_TOPOLOGY_DEADLOCK not in reasons(context.snapshot(pods))


def test_another_refusal_is_no_proof_of_a_deadlock() -> None:
    context = exclusive("w", "v")
    refused = [refused_job("js-w-0", recorded("1.37", "job/quota"))]
    young = context.snapshot(context.pods(PENDING, count=1, created=NOW - 6), refused=refused)
    assert Reason.EXCLUSIVE_TOPOLOGY_DEADLOCK not in reasons(young)
    old = context.snapshot(context.pods(PENDING, count=1, created=BORN), refused=refused)
    assert all("quota" not in line for line in the(Reason.EXCLUSIVE_TOPOLOGY_DEADLOCK, old).evidence)


def test_a_suggestion_that_no_test_runs_is_an_error_with_where_to_add_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the tests themselves: this is the first error after a new cause."""
    monkeypatch.setattr(finding, "suggested", frozenset)
    with pytest.raises(AssertionError, match=r"PodGroupMissing suggests: kubectl .* to tests/cli/gangs/stored_situ"):
        finding.causes(Context(JS, created=NOW - 15).snapshot(groups={}))
