"""How many pods of a gang can still exist, Job by Job."""

from __future__ import annotations

from typing import Any

from gangctl.gang.desired import JobProgress, counted, pods_left
from gangctl.gang.plan import GangPlan
from tests.gang.pipeline import some_plan
from tests.jobsets import jobset, rj
from tests.rows import each


def plan_of(*replicated_jobs: dict[str, Any], mode: str | None = None, restarts: int = 0) -> GangPlan:
    raw = jobset("js", *replicated_jobs, mode=mode, uid="u")
    return some_plan({**raw, "status": {"restarts": restarts}})


def job(name: str, index: int, succeeded: int, attempt: int = 0, **flags: Any) -> JobProgress:
    values = {"jobset_uid": "u", "complete": False, "deleting": False, **flags}
    return JobProgress(
        "t",
        f"js-{name}-{index}",
        "js",
        replicated_job=name,
        index=index,
        attempt=attempt,
        succeeded=succeeded,
        **values,
    )


def left(plan: GangPlan, *jobs: JobProgress) -> list[int]:
    """Pods left, group by group in the plan's order."""
    return list(pods_left(plan, jobs).values())


@each(
    ("parallelism", "completions", "succeeded", "pods"),
    [(4, 4, 0, 4), (4, 4, 1, 3), (4, 10, 6, 4), (4, 10, 7, 3), (4, 10, 10, 0), (8, 3, 2, 1), (4, 4, 9, 0)],
)
def test_an_indexed_job(parallelism: int, completions: int, succeeded: int, pods: int) -> None:
    plan = plan_of(rj("w", 1, parallelism, completions, mode="Gang"))
    assert left(plan, job("w", 0, succeeded)) == [pods]


def test_a_work_queue_starts_nothing_after_the_first_success() -> None:
    """It keeps the pods that it has: one that failed before has its replacement, one that fails later has none."""
    plan = plan_of(rj("w", 1, 5, None, mode="Gang", non_indexed=True))
    states = [(0, 0), (0, 4), (1, 4), (1, 3), (4, 1), (5, 0)]
    assert [left(plan, job("w", 0, done, unfinished=pods)) for done, pods in states] == [[5], [5], [4], [3], [1], [0]]


def test_a_complete_job_has_no_pods_left() -> None:
    plan = plan_of(rj("w", 2, 4, None, mode="Gang"))
    assert left(plan, job("w", 0, 1, complete=True)) == [4]


def test_a_job_that_is_about_to_be_replaced_counts_in_full() -> None:
    plan = plan_of(rj("w", 1, 4, 4, mode="Gang"), restarts=2)
    assert left(plan, job("w", 0, 3, attempt=1)) == [4]
    assert left(plan, job("w", 0, 4, attempt=2, complete=True, deleting=True)) == [4]
    assert left(plan, job("w", 0, 3, attempt=2)) == [1]
    assert left(plan, job("w", 0, 3, attempt=3)) == [4]


def test_jobs_of_another_owner_do_not_count() -> None:
    plan = plan_of(rj("w", 1, 4, 4, mode="Gang"), rj("free", 1, 2, 2))
    strangers = (job("w", 0, 4, jobset_uid="an earlier one"), job("free", 0, 2), job("w", 7, 4), job("gone", 0, 4))
    assert left(plan, *strangers) == [4]


def test_a_group_sums_over_its_own_jobs() -> None:
    done = (job("a", 0, 1, complete=True), job("b", 1, 2))
    pair = (rj("a", 1, 1, 1), rj("b", 2, 3, 3))
    assert left(plan_of(*pair, mode="Gang"), *done) == [4]
    by_job = plan_of({**pair[0]}, rj("b", 2, 3, 3, mode="ReplicatedGang"))
    assert left(by_job, *done) == [3, 1]


def test_a_finished_gang_keeps_the_smallest_min_count() -> None:
    plan = plan_of(rj("w", 1, 4, 4, mode="Gang"))
    assert [group.min_count for group in counted(plan, [job("w", 0, 4, complete=True)]).groups] == [1]
