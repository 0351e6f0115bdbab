"""Jobs whose pods name no group: nothing waits for them, and who owns them is told."""

from __future__ import annotations

from dataclasses import replace

from gangctl.api.scheduling import Generation
from gangctl.gang.build import ADAPTERS
from gangctl.gang.outsiders import find_outsiders, tell, without
from gangctl.gang.plan import GangPlan
from gangctl.gang.progress import JobProgress, target_min_counts
from gangctl.gang.reasons import Reason
from tests.gang.pipeline import GENERATIONS, some_plan
from tests.jobsets import jobset, rj
from tests.rows import each

V1ALPHA2 = Generation.V1ALPHA2
SHARED = jobset("js", rj("a", 1, 4, 4), rj("b", 2, 3, 3), mode="Gang", uid="u")
APART = jobset("js", rj("w", 2, 4, 4, mode="ReplicatedGang"), uid="u")


def job(name: str, index: int, field: str = "", **changes: object) -> JobProgress:
    made = JobProgress("t", f"js-{name}-{index}", "js", "u", name, index, 0, 0, complete=False, deleting=False)
    return replace(made, reference_field=field, **changes)  # type: ignore[arg-type]


def sizes(plan: GangPlan) -> list[int]:
    return [group.template.min_count for group in plan.groups]


@each("generation", GENERATIONS)
def test_a_job_with_the_reference_of_its_time_is_in_its_gang(generation: Generation) -> None:
    plan = some_plan(SHARED, generation)
    jobs = [job("a", 0, ADAPTERS[generation].reference_field)]
    assert find_outsiders(plan, jobs, generation) == ()
    assert without(plan, ()) is plan


@each("field", ["", "workloadRef"])
def test_nobody_waits_for_jobs_that_were_made_before_an_upgrade(field: str) -> None:
    """The field of 1.35 may still be what the cache holds; in the cluster it is gone."""
    plan = some_plan(SHARED, V1ALPHA2)
    outsiders = find_outsiders(plan, [job("a", 0, field), job("b", 0, "schedulingGroup")], V1ALPHA2)
    assert [each.name for each in outsiders] == ["js-a-0"]
    lean = without(plan, outsiders)
    assert (sizes(plan), sizes(lean)) == ([10], [6])
    assert [reference is None for reference in (each.reference for each in lean.jobs())] == [True, False, False]
    assert list(target_min_counts(lean, [job("b", 0, "schedulingGroup", succeeded=1)]).values()) == [5]
    assert lean.workload == plan.workload


def test_a_group_of_outsiders_only_is_left_out() -> None:
    plan = some_plan(APART, V1ALPHA2)
    lean = without(plan, find_outsiders(plan, [job("w", 0)], V1ALPHA2))
    assert lean.groups == plan.groups[1:]
    nothing = without(plan, find_outsiders(plan, [job("w", 0), job("w", 1)], V1ALPHA2))
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
def test_not_an_outsider(stranger: JobProgress) -> None:
    plan = some_plan(jobset("js", rj("w", 1, 4, 4, mode="Gang"), rj("free", 1, 1, 1), uid="u"), V1ALPHA2)
    assert find_outsiders(plan, [stranger], V1ALPHA2) == ()


def test_a_restart_makes_all_jobs_anew() -> None:
    raw = {**SHARED, "status": {"restarts": 1}}
    assert find_outsiders(some_plan(raw, V1ALPHA2), [job("a", 0)], V1ALPHA2) == ()
    assert len(find_outsiders(some_plan(raw, V1ALPHA2), [job("a", 0, attempt=1)], V1ALPHA2)) == 1


def test_what_is_told() -> None:
    notice = tell([job("w", index) for index in range(6)])
    assert notice is not None
    assert notice.reason is Reason.FIELD_DROPPED
    assert notice.is_warning
    assert "js-w-0, js-w-1, js-w-2, js-w-3 and 2 more name no gang" in notice.message
    assert tell([job("w", 0, complete=True)]) is None
    assert tell([]) is None
