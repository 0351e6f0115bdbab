"""The variable ``gang``: the plan as it is printed, and its declared type."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from hypothesis import assume, given

from gangctl.api.scheduling import NEWEST, Feature, Generation
from gangctl.cel.types import BOOL, DYN, INT, STRING, Type
from gangctl.cli.program import program
from gangctl.cli.quantities import with_quantities
from gangctl.gang.report import PlanReport
from gangctl.gang.resolve import ClusterRules
from gangctl.policy.variables import GANG_TYPE, gang_of
from tests.gang.pipeline import stored
from tests.jobsets import FIXTURE_UID, jobset, rj
from tests.rows import each
from tests.strategies import PROPERTY, hostile_jobsets, jobsets


def printed(path: Path) -> list[dict[str, Any]]:
    answer = CliRunner().invoke(program, ["plan", "-f", str(path), "-o", "json"])
    assert answer.exit_code == 0, answer.output
    found = json.loads(answer.stdout)
    return [found]


def assert_printed(raw: dict[str, Any], path: Path) -> None:
    """The same but for amounts, which are quantities where they are printed."""
    report = gang_of(raw, ClusterRules())
    assert not isinstance(report, str)
    assert [with_quantities(report, PlanReport)] == printed(path)


def test_the_variable_equals_the_output_of_plan(tmp_path: Path) -> None:
    raw = jobset("js", rj("a", replicas=2, parallelism=3, completions=3), rj("b"), mode="Gang")
    path = tmp_path / "js.json"
    path.write_text(json.dumps(raw))
    assert_printed(raw, path)


def test_a_generated_name_is_shown_as_by_plan(tmp_path: Path) -> None:
    raw = jobset("js", rj("a"), mode="Gang")
    raw["metadata"] = {"generateName": "js-", **{k: v for k, v in raw["metadata"].items() if k != "name"}}
    path = tmp_path / "js.json"
    path.write_text(json.dumps(raw))
    assert_printed(raw, path)


def negative() -> dict[str, Any]:
    """A JobSet without a gang, and with a replicated job of no replicas that requests less than nothing."""
    raw = jobset("js", rj("a", parallelism=16), rj("b", replicas=0))
    pod = raw["spec"]["replicatedJobs"][1]["template"]["spec"]["template"]["spec"]
    pod["containers"][0]["resources"] = {"limits": {"cpu": "-1"}}
    return raw


UNPLANNED = {
    "refused": (jobset("js", rj("a"), mode="Gong"), "gangctl.dev/gang-mode"),
    "without bounds": (jobset("js", rj("a", replicas=2**31 - 1)), "2147483647 Jobs, at most 50000"),
    "malformed": ({"spec": {"replicatedJobs": 3}}, "spec.replicatedJobs"),
    "worse": ({"metadata": []}, "metadata"),
    "negative requests": (negative(), "spec.replicatedJobs[1].template.spec.template.spec.containers[0]"),
    "negative parallelism": (jobset("js", rj("a"), rj("b", 0, -1)), "spec.replicatedJobs[1].template.spec.parallelism"),
}


@each(("raw", "place"), UNPLANNED.values(), ids=UNPLANNED)
def test_a_jobset_that_cannot_be_planned_gives_the_reason(raw: dict[str, Any], place: str) -> None:
    reason = gang_of(raw, ClusterRules())
    assert isinstance(reason, str)
    assert reason.startswith("this JobSet cannot be planned: ")
    assert place in reason


def test_a_jobset_that_became_smaller_than_its_minimum_has_a_plan() -> None:
    gangs = '[{"name": "all", "replicatedJobs": ["w"], "minCount": 4}]'
    raw = jobset("js", rj("w", 1, 2, 2), annotations={"gangctl.dev/gangs": gangs})
    new, existing = gang_of(raw, ClusterRules()), gang_of(raw, ClusterRules(), new=False)
    assert isinstance(new, str)
    assert "could never start" in new
    assert not isinstance(existing, str)
    assert [group["minCount"] for group in existing["groups"]] == [2]


HIGH = {"priorityClassName": "high"}
LOST = {
    "a feature gate": (
        jobset("js", rj("a", mode="Gang"), rj("b", mode="Gang"), options='{"composite": true}', uid=FIXTURE_UID),
        NEWEST,
        ClusterRules(lacks=frozenset({Feature.COMPOSITE}), known=True),
    ),
    "an older minor": (
        jobset("js", rj("a"), rj("b", pod=HIGH), mode="Gang", uid=FIXTURE_UID),
        Generation.V1ALPHA2,
        ClusterRules(NEWEST, known=True),
    ),
}


@each(("raw", "before", "now"), LOST.values(), ids=LOST)
def test_the_gang_of_a_jobset_that_exists_is_that_of_its_stamps(
    raw: dict[str, Any], before: Generation, now: ClusterRules
) -> None:
    """It was accepted, and would be refused now: an update, as Kueue's resume, is about the gang that it is."""
    assert isinstance(gang_of(raw, now), str)
    gang = gang_of(stored(raw, before), now, new=False)
    assert not isinstance(gang, str)
    assert gang["gangedPods"] == 2
    assert [warning["reason"] for warning in gang["warnings"]] == ["ConfigIgnored"]


def test_a_jobset_that_exists_without_stamps_is_no_gang() -> None:
    """It was created past the webhook, and its pods are scheduled one by one."""
    raw = jobset("js", rj("w", 1, 2, 2, mode="Gang"), uid=FIXTURE_UID)
    gang = gang_of(raw, ClusterRules(), new=False)
    assert not isinstance(gang, str)
    assert (gang["level"], gang["gangedPods"], gang["totalPods"]) == ("None", 0, 2)


@PROPERTY
@given(hostile_jobsets())
def test_any_jobset_gives_a_value_without_an_error(raw: dict[str, Any]) -> None:
    gang_of(raw, ClusterRules())


@PROPERTY
@given(jobsets())
def test_a_new_jobset_is_a_gang_after_the_webhook_for_gangs_only_with_its_stamps(raw: dict[str, Any]) -> None:
    asked = gang_of(raw, ClusterRules())
    assume(isinstance(asked, dict))
    assert gang_of(stored(raw), ClusterRules(), decided=True) == asked
    without = gang_of(raw, ClusterRules(), decided=True)
    assert isinstance(without, dict)
    assert (without["level"], without["gangedPods"], without["groups"]) == ("None", 0, [])


PYTHON = {"string": str, "int": int, "bool": bool, "list": list, "map": dict}


def fits(value: Any, type_: Type) -> bool:
    if type_ == DYN:
        return True
    if type_.fields is not None:
        return value.keys() == type_.fields.keys() and all(fits(value[k], t) for k, t in type_.fields.items())
    if type_.name == "list":
        return all(fits(each, type_.parameters[0]) for each in value)
    if type_.name == "map":
        return all(fits(k, type_.parameters[0]) and fits(v, type_.parameters[1]) for k, v in value.items())
    return type(value) is PYTHON[type_.name]


@PROPERTY
@given(jobsets())
def test_every_plan_has_the_declared_type(raw: dict[str, Any]) -> None:
    plan = gang_of(raw, ClusterRules())
    assert isinstance(plan, str) or fits(plan, GANG_TYPE)


def test_the_declared_type_has_the_fields_of_a_plan() -> None:
    assert GANG_TYPE.name == "gangctl.Plan"
    assert GANG_TYPE.fields is not None
    assert GANG_TYPE.fields["totalPods"] == INT
    assert GANG_TYPE.fields["sequenced"] == BOOL
    assert GANG_TYPE.fields["workload"] == DYN
    groups = GANG_TYPE.fields["groups"]
    assert groups.name == "list"
    (group,) = groups.parameters
    assert group.fields is not None
    assert str(group.fields["resources"]) == "map(string, int)"
    assert group.fields["template"] == STRING
