"""Which pods and Jobs belong to which gang."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gangctl.api.scheduling import Generation
from gangctl.gang.naming import Scope
from gangctl.readiness.membership import Group, members
from tests.gang.pipeline import GENERATIONS
from tests.jobsets import jobset, rj
from tests.readiness.snapshots import CREATED, PENDING, READY, Context, changed
from tests.rows import each

WHOLE = jobset("js", rj("a", 1, 1, 1), rj("b", 2, 3, 3), mode="Gang")
EACH = jobset("js", rj("a", 1, 1, 1, mode="Gang"), rj("b", 2, 3, 3, mode="Gang"))
REPLICAS = jobset("js", rj("b", 2, 3, 3, mode="ReplicatedGang"))
BESIDE = jobset("js", rj("free", 1, 5, 5), rj("b", 2, 3, 3, mode="Gang"))


def only(groups: tuple[Group, ...]) -> Group:
    (group,) = groups
    return group


@each("generation", GENERATIONS)
@each(
    ("raw", "scope", "pods"),
    [
        (WHOLE, Scope.JOBSET, [7]),
        (EACH, Scope.REPLICATED_JOB, [1, 6]),
        (REPLICAS, Scope.JOB, [3, 3]),
        (BESIDE, Scope.REPLICATED_JOB, [6]),
    ],
    ids=["jobset", "replicated jobs", "replicas", "one beside another without a gang"],
)
def test_pods_are_in_the_group_that_they_name(
    generation: Generation, raw: dict[str, Any], scope: Scope, pods: list[int]
) -> None:
    context = Context(raw, generation)
    groups = members(context.snapshot(context.pods(READY)))
    assert [group.name for group in groups] == [group.name for group in context.plan.groups]
    assert [len(group.pods) for group in groups] == pods
    assert [group.desired for group in groups] == [group.wanted for group in groups] == pods
    assert [group.minimum for group in groups] == [group.needed for group in groups] == pods
    assert {group.scope for group in groups} == {scope}
    assert all((group.pod_group is None) is (generation is Generation.V1ALPHA1) for group in groups)


def test_pods_of_a_replicated_job_without_a_gang_are_in_no_group() -> None:
    context = Context(BESIDE)
    group = only(members(context.snapshot(context.pods(READY))))
    assert group.replicated_jobs == ("b",)
    assert {pod.replicated_job for pod in group.pods} == {"b"}
    assert {job.replicated_job for job in group.jobs} == {"b"}


@each("generation", [None, *GENERATIONS])
def test_a_jobset_without_a_plan_is_one_group(generation: Generation | None) -> None:
    context = Context(jobset("js", rj("a", 1, 1, 1), rj("b", 2, 3, 3), mode="Gang"), generation, stamped=False)
    group = only(members(context.snapshot(context.pods(READY))))
    assert (group.name, group.template, group.scope) == ("js", "", None)
    assert group.replicated_jobs == ("a", "b")
    assert (len(group.pods), group.desired, group.minimum, group.needed, group.wanted) == (7, 7, 7, 7, 7)


@each("generation", GENERATIONS)
@each("raw", [WHOLE, EACH, REPLICAS])
def test_a_recreated_jobset_does_not_inherit_pods(generation: Generation, raw: dict[str, Any]) -> None:
    old = Context({**raw, "metadata": {**raw["metadata"], "uid": "0" * 8}}, generation)
    new = Context({**raw, "metadata": {**raw["metadata"], "uid": "1" * 8}}, generation, created=CREATED + 60)
    before = old.pods(READY, deleting=True)
    groups = members(new.snapshot([*before, *new.pods(PENDING)], jobs=[*old.jobs(), *new.jobs()]))
    assert not any(group.leaving or group.earlier for group in groups)
    assert sum(len(group.pods) for group in groups) == len(new.pods())
    assert {job.jobset_uid for group in groups for job in group.jobs} == {"1" * 8}


@pytest.mark.parametrize("stamped", [True, False])
def test_pods_without_a_group_are_distinguished_from_older_ones_by_age(stamped: bool) -> None:
    context = Context(WHOLE, None, stamped=stamped)
    pods = context.pods(READY, group="")
    old = [replace(pod, name=f"old-{pod.name}", created=CREATED - 1) for pod in pods]
    group = only(members(context.snapshot([*old, *pods])))
    assert group.pods == tuple(pods)


def test_pods_of_another_namespace_or_jobset_are_ignored() -> None:
    context = Context(WHOLE)
    pods = [*context.pods(READY, namespace="other"), *context.pods(READY, jobset="js-2")]
    assert only(members(context.snapshot(pods))).pods == ()


def test_pods_are_grouped_by_attempt_and_result() -> None:
    context = Context(WHOLE, restarts=2)
    now = context.pods(READY)
    left = context.pods(READY, only="a", deleting=True)
    early = [replace(pod, attempt=1) for pod in context.pods(READY)]
    over = changed(context.pods(READY, only="b", index=0), slice(None), phase="Succeeded", ready=False)
    gone = [replace(pod, attempt=0, phase="Failed") for pod in context.pods(READY)]
    group = only(members(context.snapshot([*gone, *over, *early, *left, *now])))
    assert (group.pods, group.leaving, group.earlier, group.over) == tuple(map(tuple, (now, left, early, over)))


def test_pods_of_an_unreported_restart_replace_the_earlier_ones() -> None:
    context = Context(WHOLE)
    early = context.pods(READY)
    late = [replace(pod, attempt=1) for pod in context.pods(PENDING, only="b", index=1)]
    group = only(members(context.snapshot([*early, *late])))
    assert [(pod.replicated_job, pod.job_index) for pod in group.earlier] == [("b", 1)] * 3
    assert len(group.pods) == 7


def test_jobs_about_to_be_replaced_count_in_full() -> None:
    context = Context(WHOLE, restarts=1)
    jobs = [*context.jobs(only="a"), *context.jobs(only="b", index=0, attempt=0), *context.jobs(only="b", index=1)]
    jobs = [replace(job, complete=job.replicated_job == "a" or job.attempt == 0) for job in jobs]
    group = only(members(context.snapshot(jobs=jobs)))
    assert [job.name for job in group.leaving_jobs] == ["js-b-0"]
    assert group.wanted == 6
    assert not group.finished


@pytest.mark.parametrize("generation", GENERATIONS)
def test_the_minimum_is_the_observed_one(generation: Generation) -> None:
    context = Context(REPLICAS, generation)
    groups = {name: replace(each, min_counts=(("", 2),)) for name, each in context.groups().items()}
    workload = context.workload(min_counts=(("b", 2),))
    assert [group.minimum for group in members(context.snapshot(groups=groups, workload=workload))] == [2, 2]
    nothing = members(context.snapshot(groups={}, workload=None))
    assert [(group.minimum, group.pod_group) for group in nothing] == [(3, None), (3, None)]


@pytest.mark.parametrize("change", [{"owner_uid": "somebody"}, {"deleting": True}], ids=["foreign", "terminating"])
def test_a_terminating_or_foreign_pod_group_does_not_count(change: dict[str, Any]) -> None:
    context = Context(WHOLE)
    groups = context.groups(min_counts=(("", 99),), **change)
    group = only(members(context.snapshot(groups=groups)))
    assert group.pod_group is None
    assert group.minimum == 7


def test_succeeded_pods_are_no_longer_required() -> None:
    context = Context(REPLICAS, Generation.V1ALPHA2)
    jobs = [*context.jobs(index=0, succeeded=1), *context.jobs(index=1, succeeded=3, complete=True)]
    groups = members(context.snapshot(jobs=jobs))
    assert [(group.minimum, group.needed, group.wanted, group.succeeded) for group in groups] == [
        (3, 2, 2, 1),
        (3, 0, 0, 3),
    ]
    assert [group.finished for group in groups] == [False, True]


def test_permanently_failed_pods_are_no_longer_required() -> None:
    context = Context(jobset("js", rj("w", 2, 4, 4, mode="ReplicatedGang"), uid="u"))
    jobs = [*context.jobs(index=0, failed=1, failed_indexes=1), *context.jobs(index=1, succeeded=1, decided=True)]
    groups = members(context.snapshot(context.pods(READY, count=3), jobs=jobs))
    assert [(group.needed, group.wanted) for group in groups] == [(3, 3), (0, 0)]


def test_succeeded_pods_count_before_their_job_counts_them() -> None:
    context = Context(REPLICAS)
    pods = changed(context.pods(READY, index=0), 0, phase="Succeeded", ready=False)
    group = members(context.snapshot(pods))[0]
    assert (group.wanted, group.succeeded) == (2, 1)


@each("named", ["", "theirs"])
def test_unlinked_jobs_are_members_outside_of_the_group(named: str) -> None:
    context = Context(WHOLE)
    jobs = [*context.jobs(only="a"), *context.jobs(only="b", index=0, group=named), *context.jobs(only="b", index=1)]
    groups = context.groups(min_counts=(("", 4),))
    pods = [
        replace(pod, group=named if (pod.replicated_job, pod.job_index) == ("b", 0) else pod.group)
        for pod in context.pods(READY)
    ]
    group = only(members(context.snapshot(pods, jobs=jobs, groups=groups)))
    assert group.unlinked == {("b", 0)}
    assert (len(group.pods), len(group.bound)) == (7, 4)
    assert (group.desired, group.minimum, group.needed, group.wanted) == (7, 4, 4, 7)
    assert only(members(context.snapshot(pods, jobs=jobs, groups={}))).minimum == 4


def test_a_gang_of_unlinked_jobs_only_needs_all_its_pods() -> None:
    context = Context(WHOLE)
    group = only(members(context.snapshot(context.pods(READY, group=""), jobs=context.jobs(group=""), groups={})))
    assert (group.minimum, group.needed, len(group.bound)) == (7, 7, 7)


def test_a_terminating_jobset_keeps_its_groups() -> None:
    context = Context(REPLICAS, deleting=True)
    stays = Context(REPLICAS)
    groups = members(context.snapshot(stays.pods(READY, deleting=True), jobs=stays.jobs(), groups=stays.groups()))
    assert [group.name for group in groups] == [group.name for group in stays.plan.groups]
    assert [len(group.leaving) for group in groups] == [3, 3]


def test_a_jobset_with_two_billion_jobs_is_evaluated() -> None:
    context = Context(jobset("js", rj("b", 2**31 - 1, 1, 1), mode="Gang"), stamped=False)
    assert len(only(members(context.snapshot(jobs=[]))).planned) < 100_000


def test_later_stages_are_not_required_without_a_plan() -> None:
    raw = jobset("js", rj("a", 1, 2, 2), rj("b", 1, 3, 3, depends_on="a"), mode="Gang")
    context = Context(raw, stamped=False)
    group = only(members(context.snapshot(jobs=context.jobs(only="a"))))
    assert (group.needed, group.wanted) == (2, 5)
    assert only(members(context.snapshot())).needed == 5
