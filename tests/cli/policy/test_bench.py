"""``gangctl policy bench``."""

from __future__ import annotations

from pathlib import Path

from gangctl.api.jobset import read_jobset
from gangctl.cli.policy.bench import SIZES, measure, sample
from gangctl.gang.resolve import ClusterRules
from gangctl.policy.variables import gang_of
from tests.cli.policy.policies import FEW, QUEUED, files, policy, rule
from tests.cli.run import fine, gangctl
from tests.jobsets import jobset, rj

VARIABLES = [{"name": "names", "expression": "object.spec.replicatedJobs.map(r, r.name)"}]
UNIQUE = rule("variables.names.all(n, variables.names.exists_one(m, m == n))", name="unique")


def test_samples_are_jobsets_with_gangs() -> None:
    for size in SIZES:
        jobset_, malformed = read_jobset(sample(size))
        assert malformed == ()
        assert len(jobset_.replicated_jobs) == size
        plan = gang_of(sample(size), ClusterRules())
        assert plan is not None
        assert plan["gangedPods"] == plan["totalPods"] == 4 * size


def test_every_rule_is_measured_on_every_sample(tmp_path: Path) -> None:
    path = files(tmp_path, p=[policy("p", FEW, UNIQUE, variables=VARIABLES)])["p"]
    data = fine("policy", "bench", path, "--rounds", "5", "-o", "json").json
    assert data["compile"]["medianMicroseconds"] > 0
    assert [each["object"] for each in data["bind"]] == [f"JobSet default/sample-{size}" for size in SIZES]
    measured = {(each["rule"], each["object"][-2:].strip("-")): each for each in data["rules"]}
    assert set(measured) == {(name, size) for name in ("few-pods", "unique", "(whole policy)") for size in ("3", "50")}
    for each in data["rules"]:
        assert 0 < each["medianMicroseconds"] <= each["p99Microseconds"]
        assert each["rounds"] == 5
        assert each["steps"] > 0
    # The names are compared with each other.
    assert measured["unique", "50"]["steps"] > 10 * measured["unique", "3"]["steps"]
    assert measured["few-pods", "50"]["result"] == "fail"


def test_given_objects_are_measured_in_a_table(tmp_path: Path) -> None:
    never = [{"name": "no", "expression": "false"}]
    paths = files(
        tmp_path,
        p=[policy("p", QUEUED, rule("object.metadata.none == 1"), matchConditions=never)],
        js=[jobset("mine", rj("a"))],
    )
    answer = fine("policy", "bench", paths["p"], "-f", paths["js"], "--rounds", "5")
    lines = answer.out.splitlines()
    rows = [line.split() for line in lines[:4]]
    assert lines[5].startswith("compiling 1 policy: ")
    assert rows[0] == ["POLICY", "RULE", "OBJECT", "MEDIAN-US", "P99-US", "STEPS", "RESULT"]
    assert [row[:3] for row in rows[1:]] == [
        ["p", "queued", "JobSet"],
        ["p", "r", "JobSet"],
        ["p", "(whole", "policy)"],
    ]
    assert [row[-1] for row in rows[1:]] == ["fail", "NoSuchKey", "matchConditions[no]"]


def test_slow_functions_have_fewer_rounds() -> None:
    calls = []
    timing = measure(lambda: calls.append(1), 7)
    assert (timing["rounds"], len(calls)) == (7, 9)


def test_bad_input_is_exit_code_2(tmp_path: Path) -> None:
    path = files(tmp_path, p=[policy("p", rule("nothing"))])["p"]
    assert gangctl("policy", "bench", path).code == 2
    assert gangctl("policy", "bench", path, "--rounds", "1").code == 2
    fit = files(tmp_path, p=[policy("p", FEW)])["p"]
    answer = gangctl("policy", "bench", fit, "-f", fit)
    assert answer.code == 2
    assert "nothing to measure on" in answer.err
