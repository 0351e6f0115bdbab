"""References to gangs in Jobs and pods: kept, dropped, immutable; and Jobs that have one and are resized."""

import pytest

from tests.conformance.answers import forbidden, invalid, send, warnings_of
from tests.conformance.gangs import OTHER_REFERENCE, REFERENCE, group
from tests.conformance.grounds import Server, only
from tests.conformance.objects import create_pod, job, jobs, pod, pod_spec, podgroups, pods
from tests.controlplane.api import ApiFailure, Object
from tests.controlplane.wait import NotYet, wait_for


async def test_a_job_keeps_only_the_reference_of_its_minor(server: Server, namespace: str) -> None:
    # A job keeps the reference of its minor.
    reference = REFERENCE[server.minor.name]
    answer = await send(server.api, "POST", jobs(namespace), job("a", pod_spec(**reference)), fieldValidation="Strict")
    assert answer.status == 201
    assert answer.body["spec"]["template"]["spec"].items() >= reference.items()

    # A job loses the reference of another minor.
    ((field, value),) = OTHER_REFERENCE[server.minor.name].items()
    answer = await send(server.api, "POST", jobs(namespace), job("b", pod_spec(**{field: value})))
    assert answer.status == 201
    assert warnings_of(answer) == [f'unknown field "spec.template.spec.{field}"']
    assert field not in answer.body["spec"]["template"]["spec"]


BAD_REFERENCES: dict[str, tuple[Object, list[tuple[str, str]]]] = {
    minor: (
        {"schedulingGroup": {"podGroupName": "Bad_"}},
        [("FieldValueInvalid", "spec.template.spec.schedulingGroup.podGroupName")],
    )
    for minor in ("1.36", "1.37")
} | {
    "1.35": (
        {"workloadRef": {"name": "Bad_", "podGroup": "Bad_"}},
        [
            ("FieldValueInvalid", "spec.template.spec.workloadRef.name"),
            ("FieldValueInvalid", "spec.template.spec.workloadRef.podGroup"),
        ],
    )
}


async def test_a_reference_must_be_a_name_and_is_immutable(server: Server, namespace: str) -> None:
    # A reference is a name.
    reference, causes = BAD_REFERENCES[server.minor.name]
    await invalid(server.api.create(jobs(namespace), job("a", pod_spec(**reference))), causes=causes)

    # A put that loses the reference is refused. What a controller does that was built against a release without the
    # field.
    reference = REFERENCE[server.minor.name]
    body = await server.api.create(jobs(namespace), job("a", pod_spec(**reference)))
    del body["metadata"]["resourceVersion"]
    for field in reference:
        del body["spec"]["template"]["spec"][field]
    lost = LOST[server.minor.name]
    await invalid(
        server.api.update(jobs(namespace, "a"), body),
        saying=[f'Job.batch "a" is invalid: {lost}: Invalid value: ', ": field is immutable"],
        causes=[("FieldValueInvalid", lost)],
    )

    # A reference is not added later.
    await server.api.create(jobs(namespace), job("b"))
    await invalid(
        server.api.patch(jobs(namespace, "b"), {"spec": {"template": {"spec": REFERENCE[server.minor.name]}}}),
        saying="field is immutable",
    )


@only("1.36", "1.37")
async def test_a_reference_must_name_a_group(server: Server, namespace: str) -> None:
    field = "spec.template.spec.schedulingGroup.podGroupName"
    await invalid(
        server.api.create(jobs(namespace), job("a", pod_spec(schedulingGroup={}))),
        f'Job.batch "a" is invalid: {field}: Invalid value: null: must specify one of: `podGroupName`',
    )


LOST = {"1.37": "spec.template.spec", "1.36": "spec.template.spec", "1.35": "spec.template"}


async def test_a_pod_keeps_its_reference(server: Server, namespace: str) -> None:
    reference = REFERENCE[server.minor.name]
    created = await create_pod(server, namespace, pod("a", pod_spec(**reference)))
    assert created["spec"].items() >= reference.items()
    await invalid(
        server.api.patch(pods(namespace, "a"), {"spec": dict.fromkeys(reference)}),
        saying="spec: Forbidden: pod updates may not change fields other than",
    )


RESIZED = {"completionMode": "Indexed", "completions": 2, "parallelism": 2}
LARGER = {"spec": {"completions": 3, "parallelism": 3}}


@pytest.fixture
async def ganged(server: Server, namespace: str) -> str:
    """The path of a Job of two pods whose group is there, where the minor has groups."""
    if server.minor.name != "1.35":
        await server.api.create(podgroups(server, namespace), group())
    await server.api.create(jobs(namespace), job("a", pod_spec(**REFERENCE[server.minor.name]), **RESIZED))
    return jobs(namespace, "a")


@only("1.35", "1.37")
async def test_a_job_with_a_group_can_be_resized(server: Server, ganged: str) -> None:
    patched = await server.api.patch(ganged, LARGER)
    assert patched["spec"]["parallelism"] == 3


@only("1.36")
async def test_1_36_resizes_only_jobs_without_an_existing_group(server: Server, ganged: str, namespace: str) -> None:
    # 1.36 does not resize a ganged job, once the cache of admission has the group.
    async def known() -> bool:
        try:
            await server.api.patch(ganged, LARGER, dryRun="All")
        except ApiFailure as failure:
            return failure.status == 403
        raise NotYet("the Job may be resized")

    await wait_for(known, what="admission to know the group")
    await forbidden(
        server.api.patch(ganged, LARGER),
        'jobs.batch "a" is forbidden: cannot change parallelism for a Job referencing gang-scheduled PodGroup "g"',
    )

    # 1.36 resizes a job whose group is not there.
    await server.api.create(jobs(namespace), job("b", pod_spec(schedulingGroup={"podGroupName": "nowhere"}), **RESIZED))
    patched = await server.api.patch(jobs(namespace, "b"), LARGER)
    assert patched["spec"]["parallelism"] == 3
