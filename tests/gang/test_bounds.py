"""Bounds, at the last value that is taken and the first that is not."""

from __future__ import annotations

import json

from gangctl.api.meta import GANGS
from gangctl.gang.resolve import ClusterRules, resolve
from tests.apiserver.test_repeated import Text
from tests.gang.pipeline import read, resolved
from tests.jobsets import jobset, rj
from tests.rows import each


@each(("jobs", "taken"), [(50_000, True), (50_001, False)])
def test_a_jobset_with_gangs_has_at_most_50000_jobs(jobs: int, taken: bool) -> None:
    for raw in (
        jobset("js", rj("a", jobs, mode="ReplicatedGang")),
        jobset("js", rj("a", jobs - 2), rj("b", 2, mode="Gang")),
    ):
        errors = [error.detail for error in resolved(raw).errors]
        assert (errors == []) is taken
        assert taken or errors[0].startswith(f"{jobs} Jobs, but a JobSet with gangs may have at most 50000: ")


@each(("length", "shown"), [(64, "s" * 64), (65, "s" * 61 + "...")])
def test_names_in_a_message_have_at_most_64_characters(length: int, shown: str) -> None:
    scheduler = "s" * length
    mixed = jobset("js", rj("a" * length), rj("b", pod={"schedulerName": scheduler}), mode="Gang")
    rules = ClusterRules(gang_schedulers=frozenset({"default-scheduler", scheduler}))
    (error,) = resolve(read(mixed), rules).errors
    name = shown.replace("s", "a")
    assert error.detail.endswith(f': "{name}" has "default-scheduler", "b" has "{shown}"')


def test_the_members_of_a_long_gang_are_not_compared_with_each_other() -> None:
    many = 300
    names = [Text(f"w{number}") for number in range(many)]
    gangs = [{"name": "g", "replicatedJobs": [str(name) for name in names]}]
    raw = jobset("js", *map(rj, names), annotations={GANGS: json.dumps(gangs)})
    Text.compared = 0
    assert resolve(read(raw), ClusterRules()).errors == ()
    assert Text.compared < 40 * many
