"""Pods that can still exist: the rows, and a model of the Job controller that makes them one by one."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from gangctl.cluster.members import count_indexes
from gangctl.gang.plan import pods_that_can_exist
from tests.rows import each


@each(
    ("parallelism", "completions", "succeeded", "failed", "pods"),
    [
        # Fixed completions, one pod for each.
        (4, 4, 0, 0, 4),
        (4, 4, 1, 0, 3),
        (4, 4, 3, 0, 1),
        (4, 4, 4, 0, 0),
        (1, 1, 0, 0, 1),
        (1, 1, 1, 0, 0),
        # More completions than pods at once: the last of them lower it.
        (4, 10, 0, 0, 4),
        (4, 10, 6, 0, 4),
        (4, 10, 7, 0, 3),
        (4, 10, 10, 0, 0),
        (1, 10, 9, 0, 1),
        (2, 3, 1, 0, 2),
        # More pods at once than completions: never so many.
        (8, 3, 0, 0, 3),
        (8, 3, 2, 0, 1),
        # What batch/v1 fills in.
        (None, None, 0, 0, 1),
        (None, None, 1, 0, 0),
        (None, 3, 0, 0, 1),
        (None, 3, 2, 0, 1),
        # Indexes that failed for good.
        (4, 4, 0, 1, 3),
        (4, 4, 1, 1, 2),
        (4, 4, 3, 1, 0),
        (4, 4, 0, 4, 0),
        (4, 10, 0, 6, 4),
        (4, 10, 0, 7, 3),
        (4, 10, 5, 3, 2),
        (8, 3, 0, 1, 2),
        (1, 2, 0, 1, 1),
        # Nothing to do, and counters that a resize has left behind.
        (0, 4, 0, 0, 0),
        (0, None, 0, 0, 0),
        (4, 0, 0, 0, 0),
        (4, 4, 9, 0, 0),
        (4, 4, 3, 3, 0),
    ],
)
def test_pods_that_can_exist(
    parallelism: int | None, completions: int | None, succeeded: int, failed: int, pods: int
) -> None:
    assert pods_that_can_exist(parallelism, completions, succeeded=succeeded, failed_indexes=failed) == pods


@dataclass
class IndexedJob:
    """An Indexed Job with ``backoffLimitPerIndex``, index by index, as the Job controller goes about it."""

    parallelism: int
    completions: int
    running: set[int] = field(default_factory=set)
    succeeded: set[int] = field(default_factory=set)
    failed: set[int] = field(default_factory=set)

    def fill(self) -> None:
        over = self.succeeded | self.failed
        pending = [index for index in range(self.completions) if index not in over | self.running]
        self.running.update(pending[: max(0, self.parallelism - len(self.running))])


@given(
    st.integers(0, 6),
    st.integers(0, 9),
    st.lists(st.tuples(st.sampled_from(["succeeds", "is replaced", "fails for good"]), st.integers(0, 8))),
)
def test_an_indexed_job_has_as_many_pods_as_are_counted(
    parallelism: int, completions: int, ends: list[tuple[str, int]]
) -> None:
    job = IndexedJob(parallelism, completions)
    for how, which in [("starts", 0), *ends]:
        if job.running:
            index = sorted(job.running)[which % len(job.running)]
            job.running.discard(index)
            if how == "succeeds":
                job.succeeded.add(index)
            elif how == "fails for good":
                job.failed.add(index)
        job.fill()
        counted = pods_that_can_exist(
            parallelism, completions, succeeded=len(job.succeeded), failed_indexes=len(job.failed)
        )
        assert counted == len(job.running)


@given(st.integers(0, 6), st.lists(st.booleans(), max_size=9))
def test_a_work_queue_has_as_many_pods_as_are_counted(parallelism: int, ends: list[bool]) -> None:
    """One that failed is replaced only as long as none has succeeded (``manageJob``, review-2 C5)."""
    running, succeeded = parallelism, 0
    for success in ends:
        if running:
            running -= success or succeeded > 0
            succeeded += success
        assert pods_that_can_exist(parallelism, None, succeeded=succeeded, unfinished=running) == running


@each(
    ("text", "count"),
    [
        ("", 0),
        (None, 0),
        (7, 0),
        ("0", 1),
        ("1,3", 2),
        ("0-2,5,7-9", 7),
        ("3-3", 1),
        ("5-2", 0),
        (",,1,", 1),
        ("x", 0),
        ("many", 0),
        ("0-99999", 100_000),
    ],
)
def test_count_indexes(text: object, count: int) -> None:
    assert count_indexes(text) == count
