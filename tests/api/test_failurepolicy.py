"""Which restarts are left to a JobSet: what JobSet 0.12 does with its failure policy when a Job fails."""

from __future__ import annotations

from typing import Any

from gangctl.api.jobset import Restarts, read_jobset
from tests.jobsets import jobset, rj
from tests.rows import each

Raw = dict[str, Any]


def left(policy: Raw | None, status: Raw | None = None) -> Restarts:
    spec: Raw = {} if policy is None else {"failurePolicy": policy}
    read, errors = read_jobset({**jobset("js", rj("w"), **spec), "status": status or {}})
    assert errors == ()
    return read.restarts_left


def rules(*actions: str, **conditions: list[str]) -> Raw:
    return {"maxRestarts": 1, "rules": [{"action": action, **conditions} for action in actions]}


SOME = {"onJobFailureReasons": ["BackoffLimitExceeded"]}


@each(
    ("policy", "whole"),
    [
        (None, False),
        ({}, False),
        ({"maxRestarts": 0}, False),
        ({"maxRestarts": 1}, True),
        (rules("FailJobSet"), False),
        (rules("FailJobSet", **SOME), True),
        ({**rules("FailJobSet", **SOME), "maxRestarts": 0}, False),
        (rules("FailJobSet", targetReplicatedJobs=["w"]), True),
        (rules("FailJobSet", onJobFailureMessagePatterns=["x"]), True),
        (rules("FailJobSet", "RestartJobSet"), False),
        ({**rules("RestartJobSetAndIgnoreMaxRestarts"), "maxRestarts": 0}, True),
        (rules("RestartJob"), False),
    ],
)
def test_the_remaining_restarts_of_a_jobset_are_known(policy: Raw | None, whole: bool) -> None:
    assert left(policy).whole is whole


@each(
    ("policy", "of_w", "of_v"),
    [
        ({"maxRestarts": 1}, False, False),
        (rules("RestartJob"), True, True),
        ({**rules("RestartJob"), "maxRestarts": 0}, False, False),
        ({**rules("RestartJobAndIgnoreMaxRestarts"), "maxRestarts": 0}, True, True),
        (rules("RestartJob", targetReplicatedJobs=["w"]), True, False),
        (rules("FailJobSet", "RestartJob"), False, False),
        (
            {"maxRestarts": 1, "rules": [{"action": "RestartJob", "targetReplicatedJobs": [name]} for name in "vw"]},
            True,
            True,
        ),
    ],
)
def test_the_remaining_restarts_of_single_jobs_are_known(policy: Raw, of_w: bool, of_v: bool) -> None:
    found = left(policy)
    assert (found.of_job("w"), found.of_job("v")) == (of_w, of_v)


@each("rest", [*range(19, 23), 9_000])
def test_a_policy_may_have_as_many_rules_as_a_jobset_has_room_for(rest: int) -> None:
    """The definition of JobSets does not limit them: 20 is the limit of podFailurePolicy, of Jobs."""
    policy = rules(*["FailJobSet"] * rest, **SOME)
    policy["rules"].append({"action": "RestartJob"})
    assert left(policy).of_job("w")


def test_restarts_of_the_jobset_and_of_single_jobs_count_together() -> None:
    policy = {"maxRestarts": 4}
    of_jobs = [{"name": "w", "jobRestartsCountTowardsMax": [1, 0, 1]}, {"name": "v"}]
    assert left(policy, {"restarts": 9, "restartsCountTowardsMax": 1, "replicatedJobsStatus": of_jobs}).whole
    assert not left(policy, {"restarts": 9, "restartsCountTowardsMax": 2, "replicatedJobsStatus": of_jobs}).whole
