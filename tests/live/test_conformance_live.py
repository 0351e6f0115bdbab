"""The conformance cases on real API servers with the real JobSet controller.

All cases of a minor are created at once, each in its own namespace, and evaluated one by one; then gangctl
is started again, and the API server's own audit log says that it wrote nothing more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.cases import CASES, Case, object_name
from tests.controlplane.api import ApiFailure, Object
from tests.controlplane.audit_log import describe
from tests.controlplane.components.addon import remove_namespace
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for
from tests.live.cluster import Cluster, Gangs
from tests.live.gangctl import USER, Gangctl, create_namespaces
from tests.rows import each

pytestmark = [pytest.mark.controlplane, pytest.mark.differs("1.36", "1.35")]

ACCEPTED = [case for case in CASES if not case.rejected]
REJECTED = [case for case in CASES if case.rejected]


@dataclass
class Outcome:
    """What one case has become."""

    uid: str
    gangs: Gangs
    reasons: list[str]
    failure: ApiFailure | None = None


def case_namespace(case: Case) -> str:
    return f"case-{case.id.lower()}"


def in_a_case(entry: Object) -> bool:
    """Whether a write is about one of the cases, or about no namespace."""
    namespace = entry["objectRef"].get("namespace")
    return namespace is None or namespace in map(case_namespace, CASES)


def _without_later_jobs(case: Case) -> set[str]:
    """Jobs that exist although no pod of theirs runs: not those that wait for another ReplicatedJob."""
    first = case.jobset["spec"]["replicatedJobs"][0]["name"]
    sequenced = "GangSplitSequencedStartup" in case.reasons
    return {job for job in case.references if not sequenced or job.startswith(f"js-{first}-")}


async def _reasons(cluster: Cluster) -> list[str]:
    """The events of the translation; those about missing nodes, which come after half a minute, are left out."""
    return [reason for reason in await cluster.reasons() if reason != "Unschedulable"]


async def _of_no_room(plane: ControlPlane, case: Case) -> list[Object]:
    return [each for each in await Cluster(plane, case_namespace(case)).events() if each["reason"] == "Unschedulable"]


async def _outcome(plane: ControlPlane, case: Case) -> Outcome:
    cluster = Cluster(plane, case_namespace(case))
    try:
        created = await cluster.create_jobset(case.jobset)
    except ApiFailure as failure:
        return Outcome("", await cluster.gangs(), await _reasons(cluster), failure)
    name, uid = created["metadata"]["name"], created["metadata"]["uid"]
    wanted = {object_name(name, uid, scope) for scope in case.groups} if cluster.has_groups else set()
    workloads = {object_name(name, uid, "workload")} if case.templates else set()
    reasons = sorted([*case.reasons, *(["WorkloadCreated"] if case.templates else [])])

    async def arrived() -> Outcome:
        gangs, said = await cluster.gangs(), await _reasons(cluster)
        missing = (wanted | workloads) - gangs.names or _without_later_jobs(case) - gangs.references.keys()
        if missing or said != reasons:
            raise NotYet(f"{case.id}: missing {missing}, events {said}")
        return Outcome(uid, gangs, said)

    try:
        return await wait_for(arrived, what=f"{case.id} on {plane.minor.name}")
    except TimeoutError:
        # Evaluated as it is: the test of this case reports what is wrong.
        return Outcome(uid, await cluster.gangs(), await _reasons(cluster))


async def _run_all(plane: ControlPlane, gangctl: Gangctl) -> dict[str, Outcome]:
    await create_namespaces(plane, [case_namespace(case) for case in CASES])
    outcomes = await asyncio.gather(*(_outcome(plane, case) for case in CASES))
    # What should not come would come last.
    await gangctl.settle()
    for case, outcome in zip(CASES, outcomes, strict=True):
        cluster = Cluster(plane, case_namespace(case))
        outcome.gangs, outcome.reasons = await cluster.gangs(), await _reasons(cluster)
    return {case.id: outcome for case, outcome in zip(CASES, outcomes, strict=True)}


@pytest.fixture(scope="module")
def outcomes(plane: ControlPlane, running: Gangctl) -> Iterator[dict[str, Outcome]]:
    assert running.process.running
    yield asyncio.run(_run_all(plane, running))

    async def clean() -> None:
        for case in CASES:
            await remove_namespace(plane.api, case_namespace(case))

    asyncio.run(clean())


@each("case", ACCEPTED, ids=lambda case: case.id)
async def test_accepted_cases_have_their_objects_and_references(
    case: Case, plane: ControlPlane, outcomes: dict[str, Outcome]
) -> None:
    outcome = outcomes[case.id]
    assert outcome.failure is None
    cluster = Cluster(plane, case_namespace(case))
    gangs, name = outcome.gangs, case.jobset["metadata"]["name"]
    if not case.templates:
        assert gangs.names == set()
    else:
        workload = object_name(name, outcome.uid, "workload")
        assert list(gangs.workloads) == [workload]
        assert gangs.min_counts(workload) == case.templates
        assert list(gangs.min_counts(workload)) == list(case.templates)
        assert gangs.workloads[workload]["spec"]["controllerRef"] == {
            "apiGroup": "jobset.x-k8s.io",
            "kind": "JobSet",
            "name": name,
        }
    if cluster.has_groups:
        groups = {object_name(name, outcome.uid, scope): template for scope, template in case.groups.items()}
        assert {group: gangs.template_of(group) for group in gangs.groups} == groups
        assert {g: gangs.group_min_count(g) for g in groups} == {g: case.templates[t] for g, t in groups.items()}
    for made in (*gangs.workloads.values(), *gangs.groups.values()):
        (owner,) = made["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["uid"], owner["controller"]) == ("JobSet", name, outcome.uid, True)
    for job in _without_later_jobs(case):
        scope = case.references[job]
        expected = cluster.expected_reference(name, outcome.uid, scope, case.groups[scope]) if scope else None
        assert gangs.references[job] == expected, job


@each("case", ACCEPTED, ids=lambda case: case.id)
async def test_accepted_cases_have_their_events(case: Case, outcomes: dict[str, Outcome]) -> None:
    expected = [*case.reasons, *(["WorkloadCreated"] if case.templates else [])]
    assert outcomes[case.id].reasons == sorted(expected)


@each("case", REJECTED, ids=lambda case: case.id)
async def test_rejected_cases_have_their_errors(case: Case, outcomes: dict[str, Outcome]) -> None:
    outcome = outcomes[case.id]
    assert outcome.failure is not None
    assert outcome.failure.status == 422
    assert [word for word in case.rejected if word not in outcome.failure.message] == []
    causes = outcome.failure.body["details"]["causes"]
    assert all(cause["field"] and cause["reason"].startswith("FieldValue") for cause in causes)
    assert outcome.gangs.names == set()
    assert outcome.gangs.references == {}


async def test_untouched_jobs_are_as_without_gangctl(plane: ControlPlane, outcomes: dict[str, Outcome]) -> None:
    """P07: nothing of gangctl is on a JobSet that asks for nothing, on its Jobs, nor in events."""
    assert outcomes["P07"].reasons == []
    cluster = Cluster(plane, "case-p07")
    objects: list[Object] = [await cluster.jobset("js"), *(await cluster.jobs()).values()]
    assert "gangctl" not in str([{**o, "metadata": {**o["metadata"], "managedFields": []}} for o in objects])


async def test_workload_comes_before_its_pod_groups(plane: ControlPlane, outcomes: dict[str, Outcome]) -> None:
    for outcome in outcomes.values():
        for workload in outcome.gangs.workloads.values():
            version = int(workload["metadata"]["resourceVersion"])
            later = [int(group["metadata"]["resourceVersion"]) for group in outcome.gangs.groups.values()]
            assert all(version < other for other in later), plane.minor.name


async def test_second_reconcile_writes_nothing_and_jobs_are_never_written(
    plane: ControlPlane, running: Gangctl, outcomes: dict[str, Outcome]
) -> None:
    accepted = sum(outcome.failure is None for outcome in outcomes.values())
    position = plane.audit_position
    await running.process.restart()
    await running.settle(accepted)
    writes = plane.writes_by(USER, position)
    # In namespaces of earlier tests gangs end.
    assert [describe(entry) for entry in writes.objects if in_a_case(entry)] == []
    # An event may be sent again after a restart, in case it was lost with the process; its name is taken then.
    sent = [entry for entry in writes.events if in_a_case(entry)]
    # A gang that waits for half a minute gets this event now, if the test has taken so long.
    waiting = {event["metadata"]["name"] for case in CASES for event in await _of_no_room(plane, case)}
    assert {each["responseStatus"]["code"] for each in sent if each["objectRef"]["name"] not in waiting} <= {409}
    touched = {entry["objectRef"]["resource"] for entry in plane.writes_by(USER).objects}
    assert touched & {"jobs", "pods", "jobsets"} == set()
