"""Defaults that JobSets get for missing fields."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangctl.api.meta import EVICT_STRANDED_AFTER as AFTER
from gangctl.api.meta import GANGS
from gangctl.policy.defaults import Applied, DefaultSource, applying, defaults_of
from gangctl.policy.loaded import LoadedPolicy, PolicyError
from gangctl.policy.verdict import Outcome
from tests.gang.json_patch import apply
from tests.jobsets import MODE, OPTIONS, jobset, rj
from tests.policy.documents import Object, policy, review_of, rule
from tests.policy.reviews import loaded
from tests.rows import each
from tests.strategies import PROPERTY, hostile_jobsets, jobsets

QUEUE = "kueue.x-k8s.io/queue-name"
PRIORITY = "kueue.x-k8s.io/priority-class"


def giving(name: str = "p", *, where: Object | None = None, **defaults: Any) -> LoadedPolicy:
    return loaded(policy(name=name, defaults=defaults, **(where or {})))


def applied(raw: Object, *policies: LoadedPolicy) -> Applied:
    return defaults_of(policies, review_of(raw))


def result(raw: Object, *policies: LoadedPolicy) -> Object:
    found = applied(raw, *policies)
    assert found.conflicts == ()
    changed: Object = apply(raw, list(found.patch))
    return changed


def labels(raw: Object) -> Mapping[str, str]:
    return dict(raw["metadata"].get("labels") or {})


def notes(raw: Object) -> Mapping[str, str]:
    return dict(raw["metadata"].get("annotations") or {})


def plain(**metadata: Any) -> Object:
    raw = jobset("js", rj("a"), rj("b"))
    raw["metadata"] |= metadata
    return raw


def test_every_missing_field_gets_its_default() -> None:
    raw = result(plain(), giving(gangMode="Gang", queue="q", priorityClass="high", options={"disruption": "all"}))
    assert labels(raw) == {QUEUE: "q", PRIORITY: "high"}
    assert notes(raw)[MODE] == "Gang"
    assert json.loads(notes(raw)[OPTIONS]) == {"disruption": "all"}


def test_existing_fields_are_kept() -> None:
    own = plain(labels={QUEUE: "mine", PRIORITY: ""}, annotations={MODE: "Off"})
    assert applied(own, giving(gangMode="Gang", queue="q", priorityClass="high")) == Applied()


def test_only_gangs_without_a_delay_of_their_own_get_one() -> None:
    giver = giving(evictStrandedAfter="10m")
    assert notes(result(jobset("js", rj("a"), mode="Gang"), giver))[AFTER] == "10m"
    assert notes(result(plain(), giving(evictStrandedAfter="10m", gangMode="Gang")))[AFTER] == "10m"
    assert applied(plain(), giver) == Applied()
    own = jobset("js", rj("a"), mode="Gang", annotations={AFTER: "never"})
    assert applied(own, giver) == Applied()
    (conflict,) = applied(jobset("js", rj("a"), mode="Gang"), giver, giving("q", evictStrandedAfter="never")).conflicts
    assert conflict.path == f"metadata.annotations[{AFTER}]"


def test_listed_gangs_get_the_defaults_that_their_entries_cannot_have() -> None:
    raw = jobset("js", rj("a"), rj("b"), annotations={GANGS: '[{"name":"g","replicatedJobs":["a"]}]'})
    options = {"topologyKey": "rack", "disruption": "all", "composite": True}
    changed = result(raw, giving(evictStrandedAfter="10m", options=options))
    assert notes(changed)[AFTER] == "10m"
    assert json.loads(notes(changed)[OPTIONS]) == {"composite": True}


@each("delay", ["soon", "-5m", "0s", "600"])
def test_a_delay_that_is_none_is_refused(delay: str) -> None:
    with pytest.raises(PolicyError, match=rf'spec.defaults.evictStrandedAfter: "{delay}" is no delay'):
        giving(evictStrandedAfter=delay)


def test_only_creates_get_defaults() -> None:
    giver = giving(queue="q", where={"matchConstraints": {"resourceRules": [rule("*")]}})
    raw = plain()
    assert defaults_of([giver], review_of(raw, "UPDATE", old=raw)) == Applied()
    assert defaults_of([giver], review_of(None, "DELETE", old=raw)) == Applied()
    assert defaults_of([giver], review_of(raw)).patch


def test_only_policies_that_apply_give_defaults() -> None:
    selective = giving(queue="q", where={"matchConstraints": {"objectSelector": {"matchLabels": {"a": "b"}}}})
    assert applied(plain(), selective) == Applied()
    assert labels(result(plain(labels={"a": "b"}), selective))[QUEUE] == "q"


PARAMETERS: Object = {
    "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
    "paramRef": {"name": "limits", "parameterNotFoundAction": "Allow"},
}


@each("where", [{"matchConditions": [{"name": "c", "expression": "true"}]}, PARAMETERS])
def test_without_an_outcome_that_shows_that_a_policy_applies_no_default_is_set(where: Object) -> None:
    giver = giving(queue="q", where=where)
    review = review_of(plain())
    assert defaults_of([giver], review) == Applied()
    assert defaults_of([giver], review, [Outcome("p", matched=False)]) == Applied()
    assert defaults_of([giver], review, [Outcome("other", matched=True)]) == Applied()
    assert defaults_of([giver], review, [Outcome("p", matched=True)]).patch
    assert [each.name for each in applying([giver], review, [Outcome("p", matched=True)])] == ["p"]


@each("field", ["queue", "priorityClass"])
def test_policies_that_disagree_are_both_named(field: str) -> None:
    one: Any = {field: "one"}
    two: Any = {field: "two"}
    found = applied(plain(), giving("b", **two), giving("a", **one))
    assert found.patch == ()
    (conflict,) = found.conflicts
    assert "GangPolicy 'a' sets \"one\", GangPolicy 'b' sets \"two\"" in conflict.detail
    assert conflict.path == f"metadata.labels[{QUEUE if field == 'queue' else PRIORITY}]"


def test_policies_do_not_conflict_if_the_jobset_has_a_value() -> None:
    own = plain(labels={QUEUE: "mine"})
    assert applied(own, giving("a", queue="one"), giving("b", queue="two")) == Applied()


def test_equal_defaults_of_policies_do_not_conflict() -> None:
    found = applied(plain(), giving("b", queue="q"), giving("a", queue="q"))
    assert found.conflicts == ()
    assert found.sources == {f"metadata.labels[{QUEUE}]": DefaultSource("q", ("a", "b"), ("", ""))}
    assert str(found.sources[f"metadata.labels[{QUEUE}]"]) == '"q", default of a, b'


def test_all_conflicts_are_reported_at_once() -> None:
    found = applied(plain(), giving("a", queue="1", gangMode="Off"), giving("b", queue="2", gangMode="Gang"))
    assert [each.path for each in found.conflicts] == [f"metadata.labels[{QUEUE}]", f"metadata.annotations[{MODE}]"]


SPOKEN: dict[str, Object] = {
    "a mode": jobset("js", rj("a"), mode="Off"),
    "a mode of a replicated job": jobset("js", rj("a", mode="Off"), rj("b")),
    "another mode": jobset("js", rj("a", mode="ReplicatedGang")),
    "a mode that will be refused": jobset("js", rj("a"), mode="gang"),
}


@each("case", SPOKEN)
def test_any_mode_in_the_jobset_prevents_the_default(case: str) -> None:
    assert applied(SPOKEN[case], giving(gangMode="Gang")) == Applied()
    assert applied(SPOKEN[case], giving(replicatedJobGangMode="Gang")) == Applied()


def test_gang_config_and_existing_groups_prevent_the_default() -> None:
    field = plain()
    field["spec"]["gangConfig"] = {"gangMode": "Off"}
    native = plain()
    native["spec"]["scheduling"] = {}
    own = plain()
    own["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["schedulingGroup"] = {"podGroupName": "x"}
    for raw in (field, native, own):
        assert applied(raw, giving(gangMode="Gang")) == Applied()


def test_the_mode_of_each_replicated_job_has_a_default() -> None:
    raw = result(plain(), giving(replicatedJobGangMode="ReplicatedGang"))
    assert MODE not in notes(raw)
    modes = [each["template"]["metadata"]["annotations"][MODE] for each in raw["spec"]["replicatedJobs"]]
    assert modes == ["ReplicatedGang", "ReplicatedGang"]


def test_default_modes_of_two_levels_conflict() -> None:
    for mode in ("Gang", "Off"):
        found = applied(plain(), giving("a", gangMode="Gang"), giving("b", replicatedJobGangMode=mode))
        (conflict,) = found.conflicts
        assert "'a'" in conflict.detail
        assert f"'b' sets {mode} on each replicated job" in conflict.detail
    assert applied(plain(), giving("a", gangMode="Off"), giving("b", replicatedJobGangMode="Gang")).conflicts == ()


def test_options_are_for_gangs_only() -> None:
    giver = giving(options={"disruption": "all"})
    assert applied(plain(), giver) == Applied()
    assert applied(jobset("js", rj("a"), mode="Off"), giver) == Applied()
    for raw in (jobset("js", rj("a"), mode="Gang"), jobset("js", rj("a", mode="ReplicatedGang"))):
        assert json.loads(notes(result(raw, giver))[OPTIONS]) == {"disruption": "all"}


def test_options_are_defaulted_one_by_one() -> None:
    raw = jobset("js", rj("a"), mode="Gang", options='{"disruption":"single"}')
    givers = giving("a", options={"disruption": "all", "composite": True}), giving("b", options={"topologyKey": "rack"})
    own = json.loads(notes(result(raw, *givers))[OPTIONS])
    assert own == {"disruption": "single", "composite": True, "topologyKey": "rack"}


def test_conflicting_options_are_reported() -> None:
    raw = jobset("js", rj("a"), mode="Gang")
    givers = giving("a", options={"disruption": "all"}), giving("b", options={"disruption": "single"})
    (conflict,) = applied(raw, *givers).conflicts
    assert conflict.path == f"metadata.annotations[{OPTIONS}].disruption"


@each("text", ["", "{", "[]", "3"])
def test_invalid_options_get_no_defaults(text: str) -> None:
    raw = jobset("js", rj("a"), mode="Gang", options=text)
    assert applied(raw, giving(options={"disruption": "all"})) == Applied()


wishes: st.SearchStrategy[Object] = st.fixed_dictionaries(
    {},
    optional={
        "gangMode": st.sampled_from(["Off", "Gang"]),
        "queue": st.sampled_from(["q", "r"]),
        "priorityClass": st.just("high"),
        "options": st.sampled_from([{"disruption": "all"}, {"composite": True}]),
    },
).filter(bool)
policy_lists = st.lists(wishes, min_size=1, max_size=3).map(
    lambda found: [giving(f"p{index}", **each) for index, each in enumerate(found)]
)


@PROPERTY
@given(jobsets(), policy_lists)
def test_defaults_are_idempotent_and_remove_nothing(raw: Object, policies: list[LoadedPolicy]) -> None:
    found = applied(raw, *policies)
    if found.conflicts:
        assert found.patch == ()
        return
    changed = apply(raw, list(found.patch))
    assert labels(raw).items() <= labels(changed).items()
    assert {**notes(raw)}.keys() <= notes(changed).keys()
    assert applied(changed, *policies).patch == ()
    assert applied(changed, *policies).conflicts == ()


@PROPERTY
@given(jobsets(), policy_lists)
def test_the_order_of_policies_does_not_matter(raw: Object, policies: list[LoadedPolicy]) -> None:
    assert applied(raw, *policies) == applied(raw, *reversed(policies))


@PROPERTY
@given(hostile_jobsets(), policy_lists)
def test_hostile_objects_get_defaults_without_an_error(raw: Object, policies: list[LoadedPolicy]) -> None:
    apply(raw, list(applied(raw, *policies).patch))
