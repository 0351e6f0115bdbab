"""Jobs: words and outcomes are those of real API servers."""

from __future__ import annotations

from gangctl.api.objects import copy
from gangctl.sandbox.api import Api
from gangctl.sandbox.objects import Object
from tests.rows import each
from tests.sandbox.asking import create, messages, patch, patch_refused, refused

JOBS = "jobs.batch"
POD: Object = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
REFERENCES = {
    "1.37": ("schedulingGroup", {"podGroupName": "g"}),
    "1.36": ("schedulingGroup", {"podGroupName": "g"}),
    "1.35": ("workloadRef", {"name": "w", "podGroup": "g"}),
}


def job(pod: Object | None = None, **spec: object) -> Object:
    return {"template": {"spec": {**copy(POD), **(pod or {})}}, **spec}


async def test_a_generated_job_name_is_in_the_labels() -> None:
    created = await create(Api(), JOBS, "", metadata={"generateName": "run-"}, spec=job())
    assert created["metadata"]["name"].startswith("run-")
    assert created["spec"]["template"]["metadata"]["labels"]["job-name"] == created["metadata"]["name"]


@each("minor", REFERENCES)
async def test_the_reference_is_dropped_without_its_gate(minor: str) -> None:
    field, reference = REFERENCES[minor]
    dropped = await create(Api(minor, gates={"GenericWorkload": False}), JOBS, spec=job({field: reference}))
    assert field not in dropped["spec"]["template"]["spec"]


@each(("minor", "allowed"), [("1.37", True), ("1.36", True), ("1.35", False)])
async def test_resources_are_mutable_while_suspended_since_1_36(minor: str, allowed: bool) -> None:
    api = Api(minor)
    await create(api, JOBS, spec=job(suspend=True))
    containers = [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "1"}}}]
    change = {"spec": {"template": {"spec": {"containers": containers}}}}
    if allowed:
        patched = await patch(api, JOBS, change)
        assert patched["spec"]["template"]["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "1"}}
    else:
        assert (await patch_refused(api, JOBS, change)).code == 422


@each(
    ("change", "words"),
    [
        ({"managedBy": "a.b/c"}, 'spec.managedBy: Invalid value: "a.b/c": field is immutable'),
        ({"backoffLimitPerIndex": 1}, "spec.backoffLimitPerIndex: Invalid value: 1: field is immutable"),
    ],
)
async def test_immutable_fields_of_a_job_are_refused(change: Object, words: str) -> None:
    api = Api()
    await create(api, JOBS, spec=job(completionMode="Indexed", completions=2, parallelism=2))
    assert messages(await patch_refused(api, JOBS, {"spec": change})) == [words]


async def test_on_1_36_the_parallelism_of_a_job_in_a_group_without_a_gang_is_mutable() -> None:
    api = Api("1.36")
    await create(api, "podgroups.scheduling.k8s.io", "g", spec={"schedulingPolicy": {"basic": {}}})
    await create(api, JOBS, spec=job({"schedulingGroup": {"podGroupName": "g"}}))
    assert (await patch(api, JOBS, {"spec": {"parallelism": 3}}))["spec"]["parallelism"] == 3


async def test_a_resource_without_a_domain_is_refused() -> None:
    container = {"name": "c", "image": "i", "resources": {"limits": {"gpu": "8"}}}
    path = 'containers[0].resources.limits[gpu]: Invalid value: "gpu": must be a standard resource'
    words = [f"{path} type or fully qualified", f"{path} for containers"]
    answer = await refused(Api(), JOBS, spec=job({"containers": [container]}))
    assert messages(answer) == [f"spec.template.spec.{text}" for text in words]
    answer = await refused(Api(), "pods", spec={**POD, "containers": [container]})
    # Requests are defaulted from limits.
    assert messages(answer)[:2] == [f"spec.{text}" for text in words]
