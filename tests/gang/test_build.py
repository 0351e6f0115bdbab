"""Options and priority in the objects of each generation, where the conformance cases have none."""

from __future__ import annotations

from typing import Any

import pytest

from gangctl.api.pods import SYSTEM_CLASSES
from gangctl.api.scheduling import Generation, generation_of_minor, observe
from gangctl.api.scheduling_versions import ADAPTERS
from gangctl.gang.plan import build_objects
from tests.gang.pipeline import some_plan
from tests.jobsets import jobset, rj
from tests.rows import each

HIGH = {"priorityClassName": "high"}
OPTIONS = '{"topologyKey":"rack","disruption":"all"}'
RAW = jobset("js", rj("w", 1, 4, 4, pod=HIGH), mode="Gang", options=OPTIONS, uid="u")
PLAIN = jobset("js", rj("w", 1, 4, 4, pod=HIGH), mode="Gang", uid="u")
COUNT = {"schedulingPolicy": {"gang": {"minCount": 4}}}
RACK = {"schedulingConstraints": {"topology": [{"key": "rack"}]}}


@each(
    ("generation", "policy"),
    [
        (Generation.V1ALPHA2, {**COUNT, **RACK, "disruptionMode": "PodGroup", "priorityClassName": "high"}),
        (Generation.V1BETA1, {**COUNT, **RACK, "disruptionMode": {"all": {}}, "priorityClassName": "high"}),
    ],
)
def test_template_and_group_have_the_same_policy(generation: Generation, policy: dict[str, Any]) -> None:
    workload, group = build_objects(some_plan(RAW, generation), generation)
    assert workload["spec"]["podGroupTemplates"] == [{"name": "jobset", **policy}]
    references = {"workloadRef", "podGroupTemplateRef"}
    assert {key: value for key, value in group["spec"].items() if key not in references} == policy


@each("generation", [Generation.V1ALPHA2, Generation.V1BETA1])
def test_gangs_with_different_classes_have_them_in_their_groups_alone(generation: Generation) -> None:
    raw = jobset("js", rj("a", mode="Gang", pod=HIGH), rj("b", mode="Gang"), uid="u")
    workload, *groups = build_objects(some_plan(raw, generation), generation)
    assert [template.get("priorityClassName") for template in workload["spec"]["podGroupTemplates"]] == [None, None]
    assert [group["spec"].get("priorityClassName") for group in groups] == ["high", None]


@each("name", SYSTEM_CLASSES)
def test_a_group_of_1_36_has_no_system_class(name: str) -> None:
    raw = jobset("js", rj("w", mode="Gang", pod={"priorityClassName": name}), uid="u")
    assert "priorityClassName" not in str(build_objects(some_plan(raw, Generation.V1ALPHA2), Generation.V1ALPHA2))


def test_objects_of_1_35_omit_fields_that_it_lacks() -> None:
    (workload,) = build_objects(some_plan(PLAIN, Generation.V1ALPHA1), Generation.V1ALPHA1)
    assert workload["spec"]["podGroups"] == [{"name": "jobset", "policy": {"gang": {"minCount": 4}}}]
    with pytest.raises(TypeError, match="no PodGroup kind"):
        ADAPTERS[Generation.V1ALPHA1].pod_group(some_plan(RAW).groups[0])


def test_single_disruption_on_1_36_and_1_37() -> None:
    raw = jobset("js", rj("w"), mode="Gang", options='{"disruption":"single"}')
    modes = [
        build_objects(some_plan(raw, generation), generation)[1]["spec"]["disruptionMode"]
        for generation in (Generation.V1ALPHA2, Generation.V1BETA1)
    ]
    assert modes == ["Pod", {"single": {}}]


@each("generation", list(Generation))
def test_what_is_observed_of_own_objects(generation: Generation) -> None:
    plan = some_plan(PLAIN, generation)
    for raw in build_objects(plan, generation):
        seen = observe(ADAPTERS[generation], raw["kind"], raw)
        assert (seen.namespace, seen.name) == ("t", raw["metadata"]["name"])
        assert (seen.owner_uid, seen.owner_jobset, seen.deleting) == ("u", "js", False)
        is_workload = raw["kind"] == "Workload"
        assert seen.claims_jobset == ("js" if is_workload else "")
        assert seen.min_counts == ((("jobset", 4),) if is_workload else (("", 4),))


@each("policy", [{"basic": {}}, {}, None, {"gang": {}}, {"gang": None}])
def test_a_policy_that_is_no_gang_has_no_min_count(policy: Any) -> None:
    for generation in (Generation.V1ALPHA2, Generation.V1BETA1):
        adapter = ADAPTERS[generation]
        assert adapter.min_counts("PodGroup", {"schedulingPolicy": policy}) == ()
        assert adapter.min_counts("Workload", {"podGroupTemplates": [{"name": "a", "schedulingPolicy": policy}]}) == ()
    assert ADAPTERS[Generation.V1ALPHA1].min_counts("PodGroup", {}) == ()


@each("claim", [{"apiGroup": "batch", "kind": "Job", "name": "js"}, {"kind": "JobSet", "name": "js"}, None, {}])
def test_a_workload_for_another_kind_claims_no_jobset(claim: Any) -> None:
    raw = {"metadata": {"name": "x"}, "spec": {"controllerRef": claim}}
    assert observe(ADAPTERS[Generation.V1BETA1], "Workload", raw).claims_jobset == ""


@each(
    ("change", "uid", "name"),
    [
        ({}, "u", "js"),
        ({"apiVersion": "jobset.x-k8s.io/v1"}, "u", "js"),
        ({"controller": False}, "", ""),
        ({"apiVersion": "batch/v1", "kind": "Job"}, "u", ""),
        ({"apiVersion": "jobset.x-k8s.io"}, "u", ""),
    ],
)
def test_only_the_controlling_owner_counts(change: dict[str, Any], uid: str, name: str) -> None:
    raw = build_objects(some_plan(PLAIN), Generation.V1BETA1)[1]
    raw["metadata"]["ownerReferences"][0] |= change
    raw["metadata"]["ownerReferences"].insert(0, {"uid": "first", "kind": "JobSet"})
    seen = observe(ADAPTERS[Generation.V1BETA1], "PodGroup", raw)
    assert (seen.owner_uid, seen.owner_jobset) == (uid, name)


def test_a_file_without_a_namespace_stays_without() -> None:
    for raw in build_objects(some_plan(jobset("js", rj("w"), mode="Gang", namespace="")), Generation.V1BETA1):
        assert "namespace" not in raw["metadata"]


def test_minors_and_generations() -> None:
    assert [generation_of_minor(minor) for minor in ("1.34", "1.35", "1.36", "1.37", "1.38")] == [None, *Generation]
