"""Three notations of one gang: lossless, or refused with the reason."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gangctl.api.jobset import read_jobset
from gangctl.api.meta import GANGS
from gangctl.gang.config import read_config
from gangctl.gang.convert import Notation, convert
from gangctl.gang.plan import make_plan
from gangctl.gang.resolve import ClusterRules, resolve
from tests.jobsets import MODE, OPTIONS, jobset, rj
from tests.rows import each
from tests.strategies import PROPERTY, gangs, hostile_jobsets, jobsets, options

GANG: dict[str, Any] = {"schedulingPolicy": {"gang": {}}}
BASIC: dict[str, Any] = {"schedulingPolicy": {"basic": {}}}


def converted(raw: dict[str, Any], to: Notation) -> dict[str, Any]:
    before = copy.deepcopy(raw)
    conversion = convert(raw, to)
    assert conversion.errors == ()
    assert raw == before
    return conversion.value


def refused(raw: dict[str, Any], to: Notation = Notation.ANNOTATIONS) -> str:
    conversion = convert(raw, to)
    assert conversion.value is raw
    assert conversion.errors
    return "; ".join(map(str, conversion.errors))


def native(*rjs: dict[str, Any], scheduling: object, **spec: Any) -> dict[str, Any]:
    return jobset("js", *rjs, scheduling=scheduling, **spec)


def target(*names: str, **block: Any) -> dict[str, Any]:
    return {"targetReplicatedJobs": list(names), **block}


def gangs_of(raw: dict[str, Any]) -> tuple[set[frozenset[str]], str | None, str | None]:
    """Which Jobs start together, and under which constraints, whatever the groups are called."""
    projection, malformed = read_jobset(raw)
    assert malformed == ()
    resolution = resolve(projection, ClusterRules())
    assert resolution.errors == ()
    plan = make_plan(projection, resolution.stamps, resolution.config)
    members: dict[str, set[str]] = {}
    for job in plan.jobs() if plan else ():
        if job.reference:
            members.setdefault(job.reference.group, set()).add(job.name)
    chosen = resolution.config.options
    return {frozenset(names) for names in members.values()}, chosen.topology_key, chosen.disruption


class TestMapping:
    """GangConfig and KEP-969, row by row, in both directions."""

    def test_jobset_gang(self) -> None:
        raw = jobset("js", rj("a", 2, 4, 4), rj("b"), mode="Gang")
        assert converted(raw, Notation.SCHEDULING) == jobset("js", rj("a", 2, 4, 4), rj("b"), scheduling=GANG)

    def test_replicated_job_gang_lists_the_others_as_basic(self) -> None:
        raw = jobset("js", rj("a", mode="Gang"), rj("b"))
        scheduling = {"replicatedJobs": [target("a", **GANG), target("b", **BASIC)]}
        assert converted(raw, Notation.SCHEDULING) == native(rj("a"), rj("b"), scheduling=scheduling)
        assert converted(native(rj("a"), rj("b"), scheduling=scheduling), Notation.ANNOTATIONS) == raw

    def test_replica_gangs(self) -> None:
        raw = jobset("js", rj("a", 3, mode="ReplicatedGang"), rj("b", mode="Gang"))
        scheduling = {"replicatedJobs": [target("a", job=GANG), target("b", **GANG)]}
        assert converted(raw, Notation.SCHEDULING) == native(rj("a", 3), rj("b"), scheduling=scheduling)
        assert converted(native(rj("a", 3), rj("b"), scheduling=scheduling), Notation.ANNOTATIONS) == raw

    def test_jobset_gang_without_one_replicated_job(self) -> None:
        raw = jobset("js", rj("a"), rj("d", mode="Off"), rj("b"), mode="Gang")
        scheduling = {"replicatedJobs": [target("a", "b", **GANG), target("d", **BASIC)]}
        assert converted(raw, Notation.SCHEDULING) == native(rj("a"), rj("d"), rj("b"), scheduling=scheduling)
        assert converted(native(rj("a"), rj("d"), rj("b"), scheduling=scheduling), Notation.ANNOTATIONS) == raw

    def test_nothing_ganged_is_no_scheduling(self) -> None:
        raw = jobset("js", rj("a", mode="Off"), mode="Off")
        assert converted(raw, Notation.SCHEDULING) == jobset("js", rj("a"))
        every = jobset("js", rj("a", mode="Off"), mode="Gang")
        assert converted(every, Notation.SCHEDULING) == jobset("js", rj("a"))

    def test_options_become_constraints_and_disruption_mode(self) -> None:
        raw = jobset("js", rj("a", mode="Gang"), options='{"topologyKey":"example.com/rack","disruption":"all"}')
        block = {
            **GANG,
            "schedulingConstraints": {"topology": [{"key": "example.com/rack"}]},
            "disruptionMode": {"all": {}},
        }
        expected = native(rj("a"), scheduling={"replicatedJobs": [target("a", **block)]})
        assert converted(raw, Notation.SCHEDULING) == expected
        assert converted(expected, Notation.ANNOTATIONS) == raw

    def test_gang_config_beside_its_replicated_job(self) -> None:
        raw = jobset("js", rj("a", mode="ReplicatedGang"), rj("b", mode="Off"), options='{"disruption":"single"}')
        value = converted(raw, Notation.GANGCONFIG)
        assert list(value["spec"]["replicatedJobs"][0]) == ["name", "gangConfig", "template", "replicas"]
        assert [entry["gangConfig"] for entry in value["spec"]["replicatedJobs"]] == [
            {"gangMode": "ReplicatedGang"},
            {"gangMode": "Off"},
        ]
        assert value["metadata"]["annotations"] == {OPTIONS: '{"disruption":"single"}'}
        assert "metadata" not in value["spec"]["replicatedJobs"][0]["template"]
        assert converted(value, Notation.ANNOTATIONS) == raw

    def test_sequenced_jobset_gang_with_an_unlinked_job_is_written_as_it_is_split(self) -> None:
        raw = jobset("js", rj("a"), rj("b", depends_on="a"), rj("d", mode="Off"), mode="Gang")
        scheduling = converted(raw, Notation.SCHEDULING)["spec"]["scheduling"]
        assert scheduling == {"replicatedJobs": [target("a", **GANG), target("b", **GANG), target("d", **BASIC)]}

    def test_absent_policy_means_gang_and_a_full_min_count_is_omitted(self) -> None:
        implicit = native(rj("a", 2, 3, 3), scheduling={})
        full = native(rj("a", 2, 3, 3), scheduling={"schedulingPolicy": {"gang": {"minCount": 6}}})
        expected = jobset("js", rj("a", 2, 3, 3), mode="Gang")
        assert converted(implicit, Notation.ANNOTATIONS) == expected
        assert converted(full, Notation.ANNOTATIONS) == expected


class TestEverythingElse:
    def test_stays_in_place(self) -> None:
        raw = jobset(
            "js",
            rj("a", mode="Gang", annotations={"x": "y"}),
            annotations={"team": "ml"},
            successPolicy={"operator": "All"},
            unheard={"of": [1, None, "1e3"]},
        )
        raw["status"] = {"restarts": 1}
        back = converted(converted(raw, Notation.SCHEDULING), Notation.ANNOTATIONS)
        assert back == raw
        assert converted(raw, Notation.GANGCONFIG)["metadata"] == raw["metadata"]

    def test_empty_maps_of_the_user_stay(self) -> None:
        raw = jobset("js", rj("a"), mode=None)
        raw["metadata"]["annotations"] = {}
        raw["spec"]["replicatedJobs"][0]["template"]["metadata"] = {}
        for notation in Notation:
            assert converted(raw, notation) == raw

    def test_two_replicated_jobs_that_are_one_object_by_an_alias(self) -> None:
        shared = rj("x")["template"]
        entries = [{"name": "a", "template": shared}, {"name": "b", "template": shared}]
        entries[0]["gangConfig"] = {"gangMode": "Gang"}
        value = converted(jobset("js", *entries), Notation.ANNOTATIONS)
        assert value["spec"]["replicatedJobs"][0]["template"]["metadata"] == {"annotations": {MODE: "Gang"}}
        assert "metadata" not in value["spec"]["replicatedJobs"][1]["template"]


class TestRefusedWords:
    @each("to", Notation)
    def test_schedule_at_once(self, to: Notation) -> None:
        raw = jobset(
            "js", {**rj("a"), "scheduleAtOnce": True}, scheduleAtOnce=True, gangConfig={"scheduleAtOnce": True}
        )
        message = refused(raw, to)
        assert 'gangMode: "Gang"' in message
        for path in ("spec.scheduleAtOnce", "spec.gangConfig.scheduleAtOnce", "spec.replicatedJobs[0].scheduleAtOnce"):
            assert f"{path}: " in message

    def test_unknown_key_of_gang_config(self) -> None:
        message = refused(jobset("js", rj("a"), gangConfig={"gangMode": "Gang", "minCount": 2}))
        assert message.startswith("spec.gangConfig.minCount: unknown field")

    def test_gang_config_without_mode(self) -> None:
        assert refused(jobset("js", rj("a"), gangConfig={})).startswith("spec.gangConfig.gangMode: is required")

    def test_unknown_mode_and_two_notations_that_disagree(self) -> None:
        assert '"gang"' in refused(jobset("js", rj("a"), mode="gang"))
        assert "write one of them" in refused(jobset("js", rj("a"), mode="Off", gangConfig={"gangMode": "Gang"}))

    def test_scheduling_with_another_meaning_is_refused(self) -> None:
        raw = native(rj("a"), rj("b"), scheduling=GANG)
        raw["metadata"]["annotations"] = {MODE: "Off"}
        assert refused(raw).startswith("spec.scheduling: says something else")

    def test_scheduling_with_the_same_meaning_is_removed(self) -> None:
        raw = native(rj("a"), rj("b"), scheduling=GANG)
        raw["metadata"]["annotations"] = {MODE: "Gang"}
        assert converted(raw, Notation.ANNOTATIONS) == jobset("js", rj("a"), rj("b"), mode="Gang")

    def test_wrong_types(self) -> None:
        assert "must be an object" in refused(jobset("js", rj("a"), gangConfig="Gang"))


LOW, HIGH = {"priorityClassName": "low"}, {"priorityClassName": "high"}
SEVERAL_CLASSES: dict[str, dict[str, Any]] = {
    "a gang, and pods in none": jobset("js", rj("a", pod=LOW, mode="Off"), rj("b", 2, 4, 4, pod=HIGH), mode="Gang"),
    "two gangs": jobset("js", rj("a", pod=LOW, mode="Gang"), rj("b", pod=HIGH, mode="ReplicatedGang")),
    "a list of gangs": jobset(
        "js",
        rj("a", pod=LOW),
        rj("b", pod=HIGH),
        annotations={GANGS: '[{"name":"a","replicatedJobs":["a"]},{"name":"b","replicatedJobs":["b"]}]'},
    ),
    "one gang, of Kubernetes 1.36": jobset("js", rj("a", pod=LOW), rj("b", pod=HIGH), mode="Gang"),
}


class TestUnsayableInScheduling:
    def test_options(self) -> None:
        raw = jobset("js", rj("a"), mode="Gang", options='{"sequenced":"reject"}')
        assert "sequenced" in refused(raw, Notation.SCHEDULING)

    def test_options_without_a_gang(self) -> None:
        assert "no gang" in refused(jobset("js", rj("a"), options='{"disruption":"all"}'), Notation.SCHEDULING)

    def test_more_than_eight_groups(self) -> None:
        assert "9 groups" in refused(jobset("js", rj("a", 9, mode="ReplicatedGang")), Notation.SCHEDULING)
        many = [rj(f"r{i}", depends_on="r0" if i else None) for i in range(9)]
        assert "9 groups" in refused(jobset("js", *many, mode="Gang"), Notation.SCHEDULING)
        converted(jobset("js", rj("a", 8, mode="ReplicatedGang")), Notation.SCHEDULING)

    @each("mode", [None, "Off"])
    @each(
        ("own", "path"),
        [
            (rj("a", pod={"schedulingGroup": {"podGroupName": "x"}}), "template.spec.template.spec.schedulingGroup"),
            (rj("a", job={"scheduling": {"schedulingPolicy": {"gang": {}}}}), "template.spec.scheduling"),
        ],
        ids=["pods", "Jobs"],
    )
    def test_a_group_of_their_own(self, own: dict[str, Any], path: str, mode: str | None) -> None:
        own = copy.deepcopy(own)
        if mode:
            own["template"]["metadata"] = {"annotations": {MODE: mode}}
        (error,) = convert(jobset("js", own, rj("b", 2, 3, 3), mode="Gang"), Notation.SCHEDULING).errors
        assert error.path == f"spec.replicatedJobs[0].{path}"

    @each(
        ("raw", "path"),
        [
            (jobset("js", rj("a", mode="Gang"), rj("b", 0, 4, 4, mode="Gang")), "spec.replicatedJobs[1]"),
            (jobset("js", rj("a"), rj("b", 2, 0, mode="ReplicatedGang")), "spec.replicatedJobs[1]"),
            (jobset("js", rj("a", 0), rj("b", 0), mode="Gang"), "spec.replicatedJobs"),
        ],
        ids=["of a replicated job", "of each Job", "of the JobSet"],
    )
    def test_a_gang_without_pods(self, raw: dict[str, Any], path: str) -> None:
        (error,) = convert(raw, Notation.SCHEDULING).errors
        assert error.path == path
        assert "has no pods" in error.detail

    @each("mode", ["Off", "ReplicatedGang"])
    def test_replicated_jobs_without_pods_that_are_no_gang(self, mode: str) -> None:
        """Neither gets a minCount: a basic group has none, and a Job that does not exist gets no group."""
        converted(jobset("js", rj("a", mode="Gang"), rj("b", 0, 4, 4, mode=mode)), Notation.SCHEDULING)

    @each("case", SEVERAL_CLASSES)
    def test_several_priority_classes(self, case: str) -> None:
        raw = SEVERAL_CLASSES[case]
        (error,) = convert(raw, Notation.SCHEDULING).errors
        assert error.path == "spec.replicatedJobs[1].template.spec.template.spec.priorityClassName"
        assert error.detail.startswith('is "high", and "low" for replicated job "a": JobSet makes one Workload')
        assert convert(raw, Notation.GANGCONFIG).errors == ()


def entries(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"replicatedJobs": list(blocks)}


TOPOLOGY = {"schedulingConstraints": {"topology": [{"key": "zone"}]}}
UNSAYABLE: dict[str, tuple[object, str]] = {
    "min-count-above": (
        entries(target("a", schedulingPolicy={"gang": {"minCount": 9}}), target("b"), target("c")),
        "[0]",
    ),
    "min-count-true": ({"schedulingPolicy": {"gang": {"minCount": True}}}, "minCount"),
    "top-basic": (BASIC, "spec.scheduling.schedulingPolicy.basic"),
    "all-basic": (entries(target("a", **BASIC), target("b", **BASIC), target("c", **BASIC)), "no gangs"),
    "basic-of-several": (entries(target("a", "b", **BASIC), target("c", **GANG)), "basic group of several"),
    "sequenced-together": (entries(target("a", "b"), target("c", **BASIC)), "deadlock"),
    "job-basic": (entries(target("a", job=BASIC), target("b"), target("c")), "job.schedulingPolicy.basic"),
    "job-of-two": (entries(target("a", "b", job=GANG), target("c")), "exactly one replicated job"),
    "job-beside-policy": (entries(target("a", job=GANG, **GANG), target("b"), target("c")), "next to job"),
    "claims": (
        entries(target("a", resourceClaims=[{"name": "x"}]), target("b"), target("c")),
        "exactly one of resourceClaimName",
    ),
    "basic-topology": (entries(target("a", **BASIC, **TOPOLOGY), target("b"), target("c")), "no word for constraints"),
    "two-topologies": ({"schedulingConstraints": {"topology": [{"key": "a"}, {"key": "b"}]}}, "at most one"),
    "topology-key": ({"schedulingConstraints": {"topology": [{"key": "a b"}]}}, "topology[0].key"),
    "topology-key-long": (
        {"schedulingConstraints": {"topology": [{"key": f"{'a.' * 160}b/c"}]}},
        "topology[0].key",
    ),
    "topology-nothing": ({"schedulingConstraints": {"topology": [{}]}}, "topology[0].key"),
    "topology-request": ({"schedulingConstraints": {"topologyRequest": 1}}, "topologyRequest: unknown field"),
    "unknown-top": ({"podGroupPolicies": []}, "podGroupPolicies: unknown field"),
    "both-models": ({"disruptionMode": {"all": {}}, **entries(target("a", "b", "c"))}, "next to replicatedJobs"),
    "no-policy": ({"schedulingPolicy": {}}, "exactly one of gang and basic"),
    "two-policies": ({"schedulingPolicy": {"gang": {}, "basic": {}}}, "exactly one of gang and basic"),
    "policy-word": ({"schedulingPolicy": "gang"}, 'must be an object, got "gang"'),
    "disruption-word": ({"disruptionMode": {"some": {}}}, "exactly one of single and all"),
    "missing-target": (entries(target("a"), target("b")), 'missing: "c"'),
    "unknown-target": (entries(target("x")), 'there is no replicated job "x"'),
    "twice": (entries(target("a"), target("b", "a"), target("c")), "already a target at"),
    "no-targets": (entries({}), "must list at least one"),
    "odd-targets": (entries({"targetReplicatedJobs": [1, "a"]}), "there is no replicated job 1"),
    "not-a-list": ({"replicatedJobs": {"a": 1}}, "must be a list"),
    "not-an-object": ("Gang", "must be an object"),
    "entry-not-an-object": ({"replicatedJobs": ["a"]}, "replicatedJobs[0]: must be an object"),
}


@each("case", UNSAYABLE)
def test_scheduling_without_a_gang_config_is_refused(case: str) -> None:
    scheduling, words = UNSAYABLE[case]
    rjs = [rj("a", 1, 4, 4), rj("b", depends_on="a" if case == "sequenced-together" else None), rj("c")]
    message = refused(native(*rjs, scheduling=scheduling))
    assert "spec.scheduling" in message
    assert words in message


def test_claims_of_no_pods_are_refused() -> None:
    scheduling = {**GANG, "resourceClaims": [{"name": "x", "resourceClaimName": "y"}]}
    assert "spec.scheduling.resourceClaims: there is no" in refused(native(scheduling=scheduling))


def test_null_is_absent() -> None:
    raw = native(rj("a"), rj("b"), scheduling={**GANG, "replicatedJobs": None, "disruptionMode": None})
    assert converted(raw, Notation.ANNOTATIONS) == jobset("js", rj("a"), rj("b"), mode="Gang")
    assert converted(native(rj("a"), scheduling=None), Notation.ANNOTATIONS) == jobset("js", rj("a"))


_LEAVES: st.SearchStrategy[Any] = st.sampled_from(["a", "b", "x", 1, 2, True, None, 1.5, {}, []])
_KEYS = st.sampled_from(
    [
        *("targetReplicatedJobs", "schedulingPolicy", "schedulingConstraints", "disruptionMode", "job"),
        *("gang", "basic", "minCount", "topology", "key", "single", "all"),
        *("replicatedJobs", "resourceClaims", "odd]key"),
    ]
)
SCHEDULING: st.SearchStrategy[Any] = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_KEYS, inner, max_size=4)),
    max_leaves=12,
)


class TestProperties:
    @PROPERTY
    @given(gangs(), st.one_of(st.none(), options), st.sampled_from(Notation))
    def test_there_and_back_gives_the_same_gangs(
        self, raw: dict[str, Any], chosen: dict[str, Any] | None, to: Notation
    ) -> None:
        if chosen:
            raw["metadata"].setdefault("annotations", {})[OPTIONS] = json.dumps(chosen)
        there = convert(raw, to)
        if there.errors:
            assert to is Notation.SCHEDULING
            known = ("8", "no gang", "no pods")
            assert all(any(words in e.detail for words in known) for e in there.errors), there.errors
            return
        back = converted(there.value, Notation.ANNOTATIONS)
        before, after = gangs_of(raw), gangs_of(back)
        assert after[0] == before[0]
        if before[0]:
            assert after == before

    @PROPERTY
    @given(gangs(), st.sampled_from(Notation))
    def test_converting_twice_changes_nothing_and_scheduling_round_trips(
        self, raw: dict[str, Any], to: Notation
    ) -> None:
        once = convert(raw, to)
        if once.errors:
            return
        assert converted(once.value, to) == once.value
        if "scheduling" in once.value["spec"]:
            assert converted(converted(once.value, Notation.GANGCONFIG), to) == once.value

    @PROPERTY
    @given(jobsets(), st.sampled_from([Notation.ANNOTATIONS, Notation.GANGCONFIG]))
    def test_the_first_two_notations_are_one_configuration(self, raw: dict[str, Any], to: Notation) -> None:
        raw["spec"].pop("scheduling", None)
        before, errors = read_config(read_jobset(raw)[0])
        conversion = convert(raw, to)
        assert bool(conversion.errors) == bool(errors)
        if not errors:
            assert read_config(read_jobset(conversion.value)[0])[0] == before

    @PROPERTY
    @given(hostile_jobsets(), st.sampled_from(Notation))
    def test_total(self, raw: dict[str, Any], to: Notation) -> None:
        before = copy.deepcopy(raw)
        conversion = convert(raw, to)
        assert repr(raw) == repr(before)
        assert conversion.errors or isinstance(conversion.value, dict)

    @PROPERTY
    @given(SCHEDULING)
    def test_total_in_scheduling(self, scheduling: object) -> None:
        raw = native(rj("a"), rj("b"), scheduling=scheduling)
        for to in Notation:
            conversion = convert(raw, to)
            assert conversion.errors or isinstance(conversion.value, dict)
