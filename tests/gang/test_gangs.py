"""Annotation gangctl.dev/gangs: several gangs over named ReplicatedJobs, each with options of its own."""

from __future__ import annotations

import json
import sys
from typing import Any

from gangctl.api.meta import GANGS
from gangctl.api.scheduling import Claim, Generation, Template
from gangctl.gang.admission import check_update, reference_of_job
from gangctl.gang.convert import Notation, convert
from gangctl.gang.desired import JobProgress, counted, spare_groups
from gangctl.gang.plan import GangPlan, build_objects
from tests.gang.pipeline import assessed, child_job, read, resolved, some_plan, stored
from tests.jobsets import FIXTURE_UID, MODE, OPTIONS, jobset, rj
from tests.rows import each

Raw = dict[str, Any]
CLAIM = {"name": "net", "resourceClaimTemplateName": "channel"}
USES = {"resourceClaims": [CLAIM, {"name": "c", "resourceClaimName": "shared"}]}
ENTRIES = (
    rj("leader", pod=USES),
    rj("workers", 2, 2, 2, pod=USES),
    rj("evaluators", 2, 2, 2, pod=USES),
    rj("logger", pod=USES),
)
TWO = [
    {
        "name": "trainers",
        "replicatedJobs": ["leader", "workers"],
        "topologyKey": "rack",
        "minCount": 3,
        "resourceClaims": [CLAIM],
    },
    {"name": "evals", "replicatedJobs": ["evaluators"], "perReplica": True, "disruption": "all"},
]


def grouped(*gangs: Raw, entries: tuple[Raw, ...] = ENTRIES, text: str | None = None, **more: Any) -> Raw:
    notes = {GANGS: json.dumps(gangs) if text is None else text, **more.pop("annotations", {})}
    return jobset("js", *entries, annotations=notes, uid=FIXTURE_UID, **more)


def errors(raw: Raw, generation: Generation = Generation.V1BETA1) -> list[str]:
    return [str(error).removeprefix(f"metadata.annotations[{GANGS}]") for error in resolved(raw, generation).errors]


def test_each_gang_has_its_members_and_options() -> None:
    plan = some_plan(grouped(*TWO))
    claims = (Claim("net", template="channel"),)
    assert plan.workload.templates == (
        Template("trainers", 3, topology_key="rack", claims=claims),
        Template("evals", 2, disruption="all"),
    )
    (trainers, *_) = plan.groups
    groups = {job.name: job.reference.group if job.reference else None for job in plan.jobs()}
    assert [groups[f"js-{name}"] for name in ("leader-0", "workers-0", "workers-1")] == [trainers.name] * 3
    assert groups["js-evaluators-0"] != groups["js-evaluators-1"]
    assert groups["js-logger-0"] is None


def test_yaml_and_json_mean_the_same() -> None:
    text = "- {name: trainers, replicatedJobs: [leader, workers]}\n"
    same = grouped({"name": "trainers", "replicatedJobs": ["leader", "workers"]})
    assert some_plan(grouped(text=text)).groups == some_plan(same).groups


@each("generation", [Generation.V1ALPHA2, Generation.V1BETA1])
def test_claims_are_in_templates_and_groups(generation: Generation) -> None:
    workload, group, *_ = build_objects(some_plan(grouped(*TWO), generation), generation)
    assert workload["spec"]["podGroupTemplates"][0]["resourceClaims"] == [CLAIM]
    assert group["spec"]["resourceClaims"] == [CLAIM]


def test_the_reference_of_a_job_is_the_planned_group() -> None:
    raw = stored(grouped(*TWO))
    plan = assessed(raw).plan
    assert plan is not None
    for job, (position, index) in zip(plan.jobs(), [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (3, 0)], strict=True):
        assert reference_of_job(child_job(raw, position, index)) == job.reference


def entry(**changes: Any) -> Raw:
    return {"name": "a", "replicatedJobs": ["workers"], **changes}


@each(
    ("gangs", "message"),
    [
        ([], ": must be a list with at least one gang"),
        ([{"name": "a"}], "[0].replicatedJobs: is required"),
        ([entry(replicatedJobs=[])], "[0].replicatedJobs: "),
        ([entry(name="A")], "[0].name: "),
        ([entry(color="red")], "[0].color: unknown field"),
        ([entry(replicatedJobs=["worker"])], '[0].replicatedJobs[0]: there is no replicated job "worker"'),
        ([entry(), entry(name="b")], '[1].replicatedJobs[0]: replicated job "workers" is in a gang already'),
        ([entry(), entry(replicatedJobs=["leader"])], '[1].name: "a" is also the name of '),
        ([entry(replicatedJobs=["leader", "workers"], perReplica=True)], "[0]: perReplica needs exactly one entry"),
        ([entry(minCount=5)], "[0].minCount: is 5, and the gang has 4 pods"),
        ([entry(minCount=0)], "[0].minCount: "),
        ([entry(minCount=3, perReplica=True)], "[0].minCount: is 3, and the gang has 2 pods"),
        ([entry(disruption="some")], "[0].disruption: unsupported value"),
        ([entry(topologyKey="a b")], "[0].topologyKey: "),
        ([entry(resourceClaims=[{"name": "c"}])], "[0].resourceClaims[0]: exactly one of resourceClaimName"),
        ([entry(resourceClaims=[{"name": "c", "resourceClaimName": "c"}] * 5)], "[0].resourceClaims: "),
    ],
)
def test_an_error_has_its_place_in_the_list(gangs: list[Raw], message: str) -> None:
    assert any(error.startswith(message) for error in errors(grouped(*gangs))), errors(grouped(*gangs))


@each("text", ["", "a: [", "[", "- a\n---\n- b\n", "a" * 70_000, "&a [*a]"])
def test_a_text_that_is_no_list_is_one_error(text: str) -> None:
    assert len(errors(grouped(text=text))) == 1


def test_a_text_beyond_the_limit_is_not_kept() -> None:
    text = "[" * 70_000
    holders = sys.getrefcount(text)
    assert errors(grouped(text=text))
    assert sys.getrefcount(text) == holders


def test_sequenced_members_of_one_gang_are_rejected() -> None:
    entries = (rj("leader"), rj("workers", depends_on="leader"))
    both = {"name": "a", "replicatedJobs": ["leader", "workers"]}
    (error,) = errors(grouped(both, entries=entries))
    assert error.startswith("[0].replicatedJobs: these replicated jobs start one after another")
    apart = ({"name": "a", "replicatedJobs": ["leader"]}, {"name": "b", "replicatedJobs": ["workers"]})
    assert errors(grouped(*apart, entries=entries)) == []


CROSSED = (rj("a"), rj("b", 1, 2, 2), rj("c", depends_on="a"), rj("d", depends_on="b"))


@each(
    ("first", "entries", "refused"),
    [
        ({}, CROSSED, 2),
        ({"minCount": 2}, CROSSED, 2),
        # It starts with the pod of "a".
        ({"minCount": 1}, CROSSED, 0),
        ({}, (*CROSSED[:3], rj("d", 0, depends_on="b")), 0),
        ({}, (*CROSSED[:3], rj("d", depends_on="a")), 1),
    ],
)
def test_gangs_that_wait_for_each_other_are_rejected(first: Raw, entries: tuple[Raw, ...], refused: int) -> None:
    gangs = ({"name": "x", "replicatedJobs": ["a", "d"], **first}, {"name": "y", "replicatedJobs": ["b", "c"]})
    found = errors(grouped(*gangs, entries=entries))
    assert len(found) == refused, found
    assert all("].replicatedJobs: " in error for error in found)


def test_entries_of_spec_scheduling_that_wait_for_each_other_are_no_list() -> None:
    entries = [{"targetReplicatedJobs": ["a", "d"]}, {"targetReplicatedJobs": ["b", "c"]}]
    found = convert(jobset("js", *CROSSED, scheduling={"replicatedJobs": entries}), Notation.ANNOTATIONS).errors
    assert [error.path for error in found] == [
        f"spec.scheduling.replicatedJobs[{index}].targetReplicatedJobs" for index in range(2)
    ]


def test_older_kubernetes_has_no_options_of_a_gang() -> None:
    found = errors(grouped(*TWO), Generation.V1ALPHA1)
    assert [each.partition(":")[0] for each in found] == ["[0].topologyKey", "[1].disruption", "[0].resourceClaims"]


def test_short_annotations_that_mean_the_same_are_allowed() -> None:
    together = {"name": "all", "replicatedJobs": ["leader", "workers", "evaluators", "logger"]}
    assert errors(grouped(together, mode="Gang")) == []
    assert errors(grouped({**together, "topologyKey": "rack"}, mode="Gang", options='{"topologyKey":"rack"}')) == []


@each(
    ("more", "message"),
    [
        ({"mode": "Gang"}, f": means other gangs than {MODE}"),
        ({"mode": "Off"}, f": means other gangs than {MODE}"),
        ({"options": '{"topologyKey":"zone"}'}, f'[0].topologyKey: is "rack", and "zone" in {OPTIONS}'),
    ],
)
def test_short_annotations_that_mean_something_else_are_rejected(more: Raw, message: str) -> None:
    assert errors(grouped(*TWO, **more))[0].startswith(message)


def job(name: str, index: int, *, succeeded: int = 0) -> JobProgress:
    return JobProgress("t", f"js-{name}-{index}", "js", FIXTURE_UID, name, index, 0, succeeded, False, False)


def numbers(plan: GangPlan, *jobs: JobProgress) -> dict[str, int]:
    return {group.name: group.min_count for group in counted(plan, jobs).groups}


def test_min_count_stays_until_fewer_pods_are_left() -> None:
    plan = some_plan(grouped(TWO[0]))
    (group,) = plan.groups
    assert numbers(plan) == {group.name: 3}
    assert numbers(plan, job("workers", 0, succeeded=2)) == {group.name: 3}
    assert numbers(plan, job("workers", 0, succeeded=2), job("workers", 1, succeeded=1)) == {group.name: 2}


def test_a_restart_has_the_min_count_again() -> None:
    raw = stored(grouped({**TWO[0], "resourceClaims": []}))
    raw["spec"]["failurePolicy"] = {"maxRestarts": 1}
    plan = assessed(raw).plan
    assert plan is not None
    assert [spare.min_count for spare in spare_groups(plan)] == [3]


def test_the_list_cannot_change() -> None:
    old, new = stored(grouped(*TWO)), stored(grouped(*TWO))
    new["metadata"]["annotations"][GANGS] = json.dumps(TWO[:1])
    (error,) = check_update(read(old), read(new), Generation.V1BETA1)
    assert error.path == f"metadata.annotations[{GANGS}]"


def test_a_list_that_equals_modes_becomes_gang_config() -> None:
    workers = {"name": "w", "replicatedJobs": ["workers"], "perReplica": True, "topologyKey": "rack"}
    there = convert(grouped(workers), Notation.GANGCONFIG)
    assert there.errors == ()
    assert there.value["spec"]["replicatedJobs"][1]["gangConfig"] == {"gangMode": "ReplicatedGang"}
    assert there.value["metadata"]["annotations"] == {OPTIONS: '{"topologyKey":"rack"}'}
    assert len(some_plan(there.value).groups) == len(some_plan(grouped(workers)).groups)
    (error,) = convert(grouped(*TWO), Notation.GANGCONFIG).errors
    assert error.path == f"metadata.annotations[{GANGS}]"
