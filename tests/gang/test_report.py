"""The published form of a plan."""

from __future__ import annotations

from typing import Any

import orjson
from hypothesis import given

from gangctl.api.jobset import read_jobset
from gangctl.api.scheduling import NEWEST, Generation
from gangctl.gang.plan import make_plan
from gangctl.gang.report import Planned, PlanReport, plan_report
from gangctl.gang.resolve import ClusterRules, resolve
from tests.cases import CASES, Case, object_name
from tests.jobsets import FIXTURE_UID, jobset, rj
from tests.rows import each
from tests.strategies import PROPERTY, gangs


def planned(raw: dict[str, Any], generation: Generation = NEWEST) -> Planned:
    projection, malformed = read_jobset(raw)
    assert malformed == ()
    resolution = resolve(projection, ClusterRules(generation))
    assert resolution.errors == ()
    plan = make_plan(projection, resolution.stamps, resolution.config, FIXTURE_UID)
    return Planned(projection, plan, resolution.notices, generation)


def reported(raw: dict[str, Any], generation: Generation = NEWEST) -> PlanReport:
    report, errors = plan_report(raw, planned(raw, generation))
    assert errors == ()
    return report


@each("case", [case for case in CASES if not case.rejected], ids=lambda c: c.id)
def test_conformance_cases(case: Case) -> None:
    report = reported(case.jobset)
    name = case.jobset["metadata"]["name"]
    names = {scope: object_name(name, FIXTURE_UID, scope) for scope in case.groups}
    assert {t["name"]: t["minCount"] for t in report["templates"]} == case.templates
    assert {g["name"]: g["template"] for g in report["groups"]} == {names[s]: t for s, t in case.groups.items()}
    assert {j["name"]: j["group"] for j in report["jobs"]} == {
        j: names[s] if s else None for j, s in case.references.items()
    }
    assert {w["reason"] for w in report["warnings"]} == case.reasons
    assert report["workload"] == (object_name(name, FIXTURE_UID, "workload") if case.templates else None)


LEVELS = {
    "None": jobset("js", rj("a")),
    "JobSet": jobset("js", rj("a"), rj("b"), mode="Gang"),
    "ReplicatedJob": jobset("js", rj("a", mode="Gang"), rj("b")),
    "Replica": jobset("js", rj("a", 2, mode="ReplicatedGang"), rj("b")),
    "Mixed": jobset("js", rj("a", 2, mode="ReplicatedGang"), rj("b", mode="Gang")),
}


@each("level", LEVELS)
def test_level(level: str) -> None:
    assert reported(LEVELS[level])["level"] == level


def test_everything_about_a_small_one() -> None:
    raw = jobset("js", rj("a", 2, 3, 3, cpu="1500m", mode="Gang"), rj("b", depends_on="a"))
    raw["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "research"}
    group = object_name("js", FIXTURE_UID, "rj/a")
    assert reported(raw, Generation.V1ALPHA2) == {
        "apiVersion": "gangctl.dev/v1alpha1",
        "kind": "GangPlan",
        "metadata": {"name": "js", "namespace": "t"},
        "kubernetes": "1.36",
        "apiGeneration": "scheduling.k8s.io/v1alpha2",
        "level": "ReplicatedJob",
        "sequenced": True,
        "queue": "research",
        "totalPods": 7,
        "gangedPods": 6,
        "workload": object_name("js", FIXTURE_UID, "workload"),
        "composite": None,
        "templates": [
            {
                "name": "a",
                "minCount": 6,
                "priorityClassName": "",
                "topologyKey": "",
                "disruption": "",
                "resourceClaims": [],
            }
        ],
        "groups": [
            {
                "name": group,
                "template": "a",
                "minCount": 6,
                "replicatedJobs": ["a"],
                "jobs": ["js-a-0", "js-a-1"],
                "resources": {"cpu": 9000, "memory": 0},
            }
        ],
        "jobs": [
            {"name": "js-a-0", "replicatedJob": "a", "index": 0, "pods": 3, "group": group},
            {"name": "js-a-1", "replicatedJob": "a", "index": 1, "pods": 3, "group": group},
            {"name": "js-b-0", "replicatedJob": "b", "index": 0, "pods": 1, "group": None},
        ],
        "warnings": [],
    }


def test_errors_of_requests_have_paths_from_the_root() -> None:
    raw = jobset("js", rj("a"), rj("b", cpu="much"), mode="Gang")
    report, errors = plan_report(raw, planned(raw))
    path = "spec.replicatedJobs[1].template.spec.template.spec.containers[0].resources.requests.cpu"
    assert [e.path for e in errors] == [path]
    assert report["totalPods"] == 2


def test_one_job_in_order_is_not_sequenced() -> None:
    raw = jobset("js", rj("a"), mode="Gang", startupPolicy={"startupPolicyOrder": "InOrder"})
    assert reported(raw)["sequenced"] is False


@PROPERTY
@given(gangs())
def test_numbers_agree(raw: dict[str, Any]) -> None:
    report = reported(raw)
    jobs = {job["name"]: job for job in report["jobs"]}
    assert len(jobs) == len(report["jobs"])
    assert report["totalPods"] == sum(job["pods"] for job in report["jobs"])
    for group in report["groups"]:
        assert group["minCount"] == sum(jobs[name]["pods"] for name in group["jobs"]) > 0
        assert group["resources"]["cpu"] == 10 * group["minCount"]
        assert {jobs[name]["group"] for name in group["jobs"]} == {group["name"]}
    assert report["gangedPods"] == sum(group["minCount"] for group in report["groups"])
    assert orjson.loads(orjson.dumps(report)) == report
