"""Jobs whose pods name no group: nothing waits for them, and who owns them is told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gangctl.api.scheduling import NEWEST, Generation
from gangctl.gang.desired import (
    JobProgress,
    assess,
    counted,
    desire,
    find_unlinked,
    is_linked,
    spare_groups,
    unlinked_notices,
    with_own_restarts,
)
from gangctl.gang.plan import GangPlan
from gangctl.gang.reasons import Reason
from gangctl.gang.resolve import ClusterRules
from tests.gang.pipeline import GENERATIONS, read, some_plan, stored
from tests.jobsets import jobset, rj
from tests.rows import each

V1ALPHA2 = Generation.V1ALPHA2
SHARED = jobset("js", rj("a", 1, 4, 4), rj("b", 2, 3, 3), mode="Gang", uid="u")
APART = jobset("js", rj("w", 2, 4, 4, mode="ReplicatedGang"), uid="u")


def job(name: str, index: int, group: str = "", **changes: object) -> JobProgress:
    made = JobProgress("t", f"js-{name}-{index}", "js", "u", name, index, 0, 0, complete=False, deleting=False)
    return replace(made, group=group, **changes)  # type: ignore[arg-type]


def member(plan: GangPlan, generation: Generation, name: str, index: int, **changes: object) -> JobProgress:
    """A Job whose pods name the group that was planned."""
    planned = {(each.replicated_job, each.index): each.reference for each in plan.jobs()}[name, index]
    assert planned is not None
    return job(name, index, planned.named(generation), **changes)


def sizes(plan: GangPlan) -> list[int]:
    return [group.min_count for group in plan.groups]


@each("generation", GENERATIONS)
def test_a_job_with_the_reference_of_its_time_is_in_its_gang(generation: Generation) -> None:
    plan = some_plan(SHARED, generation)
    jobs = [member(plan, generation, "a", 0)]
    assert find_unlinked(plan, jobs, generation) == ()
    assert counted(plan, jobs) is plan


@each("group", ["", "js-workload/jobset/", "somebody-s"])
def test_no_gang_waits_for_jobs_whose_pods_name_no_group_or_another(group: str) -> None:
    """The field of 1.35 may still be what the cache holds; in the cluster it is gone."""
    plan = some_plan(SHARED, V1ALPHA2)
    own = member(plan, V1ALPHA2, "b", 0)
    unlinked = find_unlinked(plan, [job("a", 0, group), own], V1ALPHA2)
    assert [each.name for each in unlinked] == ["js-a-0"]
    lean = counted(plan, [], unlinked)
    assert (sizes(plan), sizes(lean)) == ([10], [6])
    assert [reference is None for reference in (each.reference for each in lean.jobs())] == [True, False, False]
    assert sizes(counted(plan, [replace(own, succeeded=1)], unlinked)) == [5]
    assert lean.workload == plan.workload


@each("generation", GENERATIONS)
def test_a_job_that_names_the_group_of_its_neighbour_is_an_unlinked_job(generation: Generation) -> None:
    plan = some_plan(APART, generation)
    neighbour = member(plan, generation, "w", 1)
    assert find_unlinked(plan, [replace(neighbour, index=0), neighbour], generation) == (replace(neighbour, index=0),)


@each("generation", GENERATIONS)
@pytest.mark.parametrize("raw", [SHARED, APART], ids=["shared", "apart"])
def test_one_job_alone_gives_the_same_answer_as_all(raw: dict[str, Any], generation: Generation) -> None:
    plan, jobset = some_plan(raw, generation), read(stored(raw, generation))
    own = [member(plan, generation, planned.replicated_job, planned.index) for planned in plan.jobs()]
    others = [replace(each, group=group) for each in own for group in ("", "another", own[0].group, own[-1].group)]
    for each_job in (*own, *others):
        assert is_linked(jobset, each_job, generation) is (find_unlinked(plan, [each_job], generation) == ())
    assert all(is_linked(jobset, each_job, generation) for each_job in own)
    assert not is_linked(jobset, job("unknown", 0, own[0].group), generation)


def test_a_group_of_unlinked_only_is_left_out() -> None:
    plan = some_plan(APART, V1ALPHA2)
    lean = counted(plan, [], find_unlinked(plan, [job("w", 0)], V1ALPHA2))
    assert lean.groups == plan.groups[1:]
    nothing = counted(plan, [], find_unlinked(plan, [job("w", 0), job("w", 1)], V1ALPHA2))
    assert nothing.groups == ()


@each(
    "stranger",
    [
        job("w", 0, deleting=True),
        job("w", 0, jobset_uid="an earlier one"),
        job("w", 7),
        job("free", 0),
    ],
    ids=["about to be replaced", "of another JobSet", "not planned", "never ganged"],
)
def test_not_an_unlinked_job(stranger: JobProgress) -> None:
    plan = some_plan(jobset("js", rj("w", 1, 4, 4, mode="Gang"), rj("free", 1, 1, 1), uid="u"), V1ALPHA2)
    assert find_unlinked(plan, [stranger], V1ALPHA2) == ()


def test_a_restart_makes_all_jobs_anew() -> None:
    raw = {**SHARED, "status": {"restarts": 1}}
    assert find_unlinked(some_plan(raw, V1ALPHA2), [job("a", 0)], V1ALPHA2) == ()
    assert len(find_unlinked(some_plan(raw, V1ALPHA2), [job("a", 0, attempt=1)], V1ALPHA2)) == 1


def test_a_job_keeps_its_group_when_jobset_forgets_that_it_was_restarted_alone() -> None:
    """JobSet drops the counts from its status once its feature gate RestartJob is off; the Job and its pods stay."""
    raw = {**APART, "spec": {**APART["spec"], "failurePolicy": {"maxRestarts": 1}}}
    status = {"replicatedJobsStatus": [{"name": "w", "jobRestarts": [2, 0]}]}
    before = some_plan({**raw, "status": status})
    jobs = [member(before, NEWEST, "w", 0, job_attempt=2), member(before, NEWEST, "w", 1)]
    left = with_own_restarts(read(stored(raw)), jobs)
    lost, assessment = assess(read(stored(raw)), ClusterRules()), assess(left, ClusterRules())
    assert lost.plan is not None
    assert lost.plan.groups != before.groups
    assert assessment.plan is not None
    assert assessment.plan.groups == before.groups
    done = [replace(jobs[0], succeeded=1), jobs[1]]
    assert desire(assessment, done, NEWEST).notices == ()
    assert sizes(counted(assessment.plan, done)) == [3, 4]
    # Jobs that are made from now on have no such label.
    assert [group.name for group in spare_groups(assessment.plan)] == ["js-w-u-0-1", "js-w-u-1-1"]
    gone = [replace(jobs[0], deleting=True), replace(jobs[1], job_attempt=1, jobset_uid="an earlier one")]
    for others in (gone, [replace(jobs[0], attempt=1)], [job("unknown", 0, job_attempt=1)], jobs[1:]):
        assert assess(with_own_restarts(read(stored(raw)), others), ClusterRules()).plan == lost.plan


def test_the_notices_of_unlinked_jobs() -> None:
    (notice,) = unlinked_notices([job("w", index) for index in range(6)], V1ALPHA2)
    assert notice.reason is Reason.FIELD_DROPPED
    assert notice.is_warning
    assert "js-w-0, js-w-1, js-w-2, js-w-3 and 2 more name no gang" in notice.message
    assert unlinked_notices([job("w", 0, complete=True)], V1ALPHA2) == ()
    assert unlinked_notices([], V1ALPHA2) == ()


@each(
    ("group", "generation", "words"),
    [
        ("theirs", V1ALPHA2, "name theirs and not the group of their gang"),
        ("wl/a/0", V1ALPHA2, "name no gang"),
        ("wl/a/0", Generation.V1ALPHA1, "name wl/a/0 and not the group of their gang"),
        ("theirs", Generation.V1ALPHA1, "name no gang"),
    ],
)
def test_the_notice_of_another_group(group: str, generation: Generation, words: str) -> None:
    (notice,) = unlinked_notices([job("w", 0, group)], generation)
    assert f"Pods of Jobs js-w-0 {words}" in notice.message
