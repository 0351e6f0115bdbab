"""An assessment is made once for each state of a JobSet, and again when anything that it depends on has changed."""

from __future__ import annotations

from dataclasses import replace

from gangctl.api.jobset import JobSet
from gangctl.api.scheduling import NEWEST, ApiState, Generation
from gangctl.controllers.gangs import LARGEST_KEPT, MOST_KEPT, Assessments
from gangctl.gang.desired import Lifecycle
from gangctl.gang.resolve import ClusterRules
from tests.gang.pipeline import read, stored
from tests.jobsets import FIXTURE_UID, jobset, rj


def jobset_of(jobs: int = 1) -> JobSet:
    return read(stored(jobset("js", rj("w", jobs, 1, 1, mode="ReplicatedGang"), uid=FIXTURE_UID)))


class Ground:
    """A cluster whose state changes."""

    def __init__(self) -> None:
        self.generation = NEWEST
        self.schedulers = frozenset({"default-scheduler"})
        self.suspended = Lifecycle.RETIRED
        self.assessments = Assessments(
            lambda: ApiState(self.generation),
            lambda generation: ClusterRules(generation, self.schedulers),
            lambda _: self.suspended,
        )


def test_the_same_state_is_assessed_once() -> None:
    assessments = Ground().assessments
    first = assessments.of(jobset_of())
    assert assessments.of(jobset_of()) is first


async def test_both_ways_share_an_assessment() -> None:
    assessments = Ground().assessments
    assert await assessments.computed(jobset_of()) is assessments.of(jobset_of())


def test_a_changed_jobset_is_assessed_again() -> None:
    assessments, known = Ground().assessments, jobset_of()
    assert assessments.of(known).lifecycle is Lifecycle.PRESENT
    assert assessments.of(replace(known, finished=True)).lifecycle is Lifecycle.RETIRED
    restarted = assessments.of(replace(known, restarts=1)).plan
    assert restarted is not None
    assert restarted.jobset.restarts == 1


def test_what_resumes_a_suspended_jobset_counts() -> None:
    ground, known = Ground(), replace(jobset_of(), suspend=True)
    assert ground.assessments.of(known).lifecycle is Lifecycle.RETIRED
    ground.suspended = Lifecycle.KEPT
    assert ground.assessments.of(known).lifecycle is Lifecycle.KEPT


def test_changed_rules_count() -> None:
    ground = Ground()
    first = ground.assessments.of(jobset_of())
    ground.generation = Generation.V1ALPHA2
    second = ground.assessments.of(jobset_of())
    ground.schedulers = frozenset({"other"})
    assert len({id(first), id(second), id(ground.assessments.of(jobset_of()))}) == 3


def test_large_jobsets_are_not_kept_and_of_others_the_last_ones() -> None:
    assessments = Ground().assessments
    large = jobset_of(LARGEST_KEPT + 1)
    assert assessments.of(large) is not assessments.of(large)
    known = jobset_of()
    first = assessments.of(known)
    for number in range(MOST_KEPT):
        assessments.of(replace(known, name=f"js-{number}"))
    assert assessments.of(known) is not first
