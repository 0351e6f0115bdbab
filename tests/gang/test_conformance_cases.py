"""The conformance cases on the pure ground: plan and objects of every generation, with literal names."""

from __future__ import annotations

from typing import Any

from gangctl.api.jobset import read_jobset
from gangctl.api.scheduling import Generation
from gangctl.api.scheduling_versions import ADAPTERS
from gangctl.gang.plan import GangPlan, build_objects, make_plan
from gangctl.gang.resolve import ClusterRules, Resolution, resolve
from tests.cases import CASES, Case, object_name
from tests.jobsets import FIXTURE_UID
from tests.rows import each

ACCEPTED = [case for case in CASES if not case.rejected]
GENERATIONS = list(Generation)


def run(raw: dict[str, Any], generation: Generation) -> tuple[Resolution, GangPlan | None]:
    jobset, malformed = read_jobset(raw)
    assert malformed == ()
    resolution = resolve(jobset, ClusterRules(generation))
    return resolution, make_plan(jobset, resolution.stamps, resolution.config, FIXTURE_UID)


def names(case: Case) -> dict[str, str]:
    return {scope: object_name(case.jobset["metadata"]["name"], FIXTURE_UID, scope) for scope in case.groups}


@each("generation", GENERATIONS)
@each("case", ACCEPTED, ids=lambda c: c.id)
def test_plan(case: Case, generation: Generation) -> None:
    resolution, plan = run(case.jobset, generation)
    assert resolution.errors == ()
    assert {n.reason for n in resolution.notices} == case.reasons
    if plan is None:
        assert case.templates == {}
        return
    assert [(t.name, t.min_count) for t in plan.workload.templates] == list(case.templates.items())
    scopes = names(case)
    assert {g.name: g.template.name for g in plan.groups} == {scopes[s]: t for s, t in case.groups.items()}
    references = {job.name: job.reference.group if job.reference else None for job in plan.jobs()}
    assert references == {job: scopes[s] if s else None for job, s in case.references.items()}


@each("case", [case for case in CASES if case.rejected], ids=lambda c: c.id)
def test_rejected_cases_have_their_messages(case: Case) -> None:
    resolution, plan = run(case.jobset, Generation.V1BETA1)
    assert plan is None
    message = "; ".join(str(error) for error in resolution.errors)
    assert [word for word in case.rejected if word not in message] == []


def test_names_of_the_fixture_are_the_published_ones() -> None:
    published = {
        "workload": "js-0f5a6f3e-7c21",
        "jobset": "js-0f5a6f3e-7c21-0",
        "rj/rj1": "js-rj1-0f5a6f3e-7c21-0",
        "rj/w": "js-w-0f5a6f3e-7c21-0",
        "job/rj1/0": "js-rj1-0f5a6f3e-7c21-0-0",
        "job/workers/3": "js-workers-0f5a6f3e-7c21-3-0",
    }
    assert {scope: object_name("js", FIXTURE_UID, scope) for scope in published} == published
    long = "distributed-training-exp-aaaa"
    assert (
        object_name(long, FIXTURE_UID, "job/parameter-servers-group/0")
        == "distributed-training-ex-85d0ef20-0f5a6f3e-7c21-0-0"
    )
    case = next(case for case in CASES if case.id == "P04")
    _, plan = run(case.jobset, Generation.V1BETA1)
    assert plan is not None
    assert plan.workload.name == published["workload"]
    assert plan.groups[0].name == published["job/rj1/0"]


def test_p04_on_1_35() -> None:
    _, plan = run(next(case for case in CASES if case.id == "P04").jobset, Generation.V1ALPHA1)
    assert plan is not None
    (workload,) = build_objects(plan, Generation.V1ALPHA1)
    assert workload["apiVersion"] == "scheduling.k8s.io/v1alpha1"
    assert workload["metadata"]["name"] == "js-0f5a6f3e-7c21"
    assert workload["spec"] == {
        "controllerRef": {"apiGroup": "jobset.x-k8s.io", "kind": "JobSet", "name": "js"},
        "podGroups": [
            {"name": "rj1", "policy": {"gang": {"minCount": 4}}},
            {"name": "rj2", "policy": {"gang": {"minCount": 3}}},
        ],
    }
    job = next(job for job in plan.jobs() if job.name == "js-rj1-1")
    assert job.reference is not None
    reference = ADAPTERS[Generation.V1ALPHA1].reference(job.reference)
    assert reference == {"name": "js-0f5a6f3e-7c21", "podGroup": "rj1", "podGroupReplicaKey": "1-0"}


def test_p03_on_1_36_and_1_37() -> None:
    case = next(case for case in CASES if case.id == "P03")
    for generation, ref in (
        (
            Generation.V1ALPHA2,
            {"podGroupTemplateRef": {"workload": {"workloadName": "js-0f5a6f3e-7c21", "podGroupTemplateName": "rj2"}}},
        ),
        (Generation.V1BETA1, {"workloadRef": {"workloadName": "js-0f5a6f3e-7c21", "templateName": "rj2"}}),
    ):
        _, plan = run(case.jobset, generation)
        assert plan is not None
        workload, _, group = build_objects(plan, generation)
        assert workload["kind"] == "Workload"
        assert group["apiVersion"] == f"scheduling.k8s.io/{generation}"
        assert group["metadata"]["name"] == "js-rj2-0f5a6f3e-7c21-0"
        assert group["spec"] == {**ref, "schedulingPolicy": {"gang": {"minCount": 3}}}
        (owner,) = group["metadata"]["ownerReferences"]
        assert owner == {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "name": "js",
            "uid": FIXTURE_UID,
            "controller": True,
            "blockOwnerDeletion": False,
        }
