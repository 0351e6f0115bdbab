"""Jobs: what is filled in, what stays as it was, and what may change while a Job is suspended."""

import pytest

from tests.conformance.answers import refused, send
from tests.conformance.grounds import Server
from tests.conformance.objects import job, jobs
from tests.controlplane.api import Object
from tests.rows import each

CONTROLLER = "batch.kubernetes.io/controller-uid"


@pytest.fixture
async def path(server: Server, namespace: str) -> str:
    """A suspended Job."""
    await server.api.create(jobs(namespace), job())
    return jobs(namespace, "a")


async def test_a_job_is_defaulted(server: Server, namespace: str) -> None:
    # A job is filled in.
    spec = (await server.api.create(jobs(namespace), job()))["spec"]
    expected = {
        "parallelism": 1,
        "completions": 1,
        "completionMode": "NonIndexed",
        "backoffLimit": 6,
        "manualSelector": False,
        "podReplacementPolicy": "TerminatingOrFailed",
        "suspend": True,
    }
    assert {key: spec.get(key) for key in expected} == expected
    (container,) = spec["template"]["spec"]["containers"]
    assert (container["imagePullPolicy"], container["terminationMessagePolicy"]) == ("Always", "File")
    assert spec["template"]["spec"]["dnsPolicy"] == "ClusterFirst"

    # A jobs selector is its uid and its pods are labelled.
    created = await server.api.create(jobs(namespace), job("b"))
    uid = created["metadata"]["uid"]
    labels = {
        CONTROLLER: uid,
        "batch.kubernetes.io/job-name": "b",
        "controller-uid": uid,
        "job-name": "b",
    }
    assert created["spec"]["selector"] == {"matchLabels": {CONTROLLER: uid}}
    assert created["spec"]["template"]["metadata"]["labels"] == labels
    assert created["metadata"]["labels"] == labels

    # Without completions parallelism may be anything.
    spec = (await server.api.create(jobs(namespace), job("c", parallelism=3)))["spec"]
    assert spec["parallelism"] == 3
    assert "completions" not in spec


async def test_the_name_of_a_job_becomes_a_label_and_is_validated(server: Server, namespace: str) -> None:
    await refused(
        server.api.create(jobs(namespace), job("n" * 64)),
        422,
        "Invalid",
        saying=": must be no more than 63 bytes",
        causes=[("FieldValueInvalid", "spec.template.labels")],
    )


@each(
    ("spec", "words", "field"),
    [
        pytest.param({"completions": 5}, "Invalid value: 5: field is immutable", "completions", id="completions"),
        pytest.param(
            {"completionMode": "Indexed"},
            'Invalid value: "Indexed": field is immutable',
            "completionMode",
            id="completionMode",
        ),
    ],
)
async def test_immutable_fields_of_a_job_are_refused(
    server: Server, path: str, spec: Object, words: str, field: str
) -> None:
    await refused(
        server.api.patch(path, {"spec": spec}),
        422,
        "Invalid",
        f'Job.batch "a" is invalid: spec.{field}: {words}',
        causes=[("FieldValueInvalid", f"spec.{field}")],
    )


# Since 1.36 the message names the changed half of the template.
TEMPLATE = {"1.37": "spec.template.spec", "1.36": "spec.template.spec", "1.35": "spec.template"}


@each(
    "patch",
    [
        pytest.param({"schedulerName": "other"}, id="scheduler"),
        pytest.param({"containers": [{"name": "c", "image": "other"}]}, id="image"),
    ],
)
async def test_the_pod_template_of_a_job_is_immutable(server: Server, path: str, patch: Object) -> None:
    field = TEMPLATE[server.minor.name]
    await refused(
        server.api.patch(path, {"spec": {"template": {"spec": patch}}}),
        422,
        "Invalid",
        saying=[f'Job.batch "a" is invalid: {field}: Invalid value: ', "field is immutable"],
        causes=[("FieldValueInvalid", field)],
    )


@each(
    "template",
    [
        pytest.param({"metadata": {"labels": {"new": "1"}}}, id="labels"),
        pytest.param({"metadata": {"annotations": {"new": "1"}}}, id="annotations"),
        pytest.param({"spec": {"nodeSelector": {"a": "b"}}}, id="nodeSelector"),
        pytest.param({"spec": {"tolerations": [{"key": "a", "operator": "Exists"}]}}, id="tolerations"),
        pytest.param({"spec": {"schedulingGates": [{"name": "example.com/gate"}]}}, id="schedulingGates"),
    ],
)
async def test_scheduling_directives_of_a_suspended_job_are_mutable(
    server: Server, path: str, template: Object
) -> None:
    patched = await server.api.patch(path, {"spec": {"template": template}})
    ((part, fields),) = template.items()
    for field, value in fields.items():
        found = patched["spec"]["template"][part][field]
        assert found == value if isinstance(value, list) else value.items() <= found.items()


async def test_scheduling_directives_of_a_resumed_job_are_immutable(server: Server, path: str) -> None:
    resumed = await server.api.patch(path, {"spec": {"suspend": False}})
    assert resumed["spec"]["suspend"] is False
    await refused(
        server.api.patch(path, {"spec": {"template": {"spec": {"nodeSelector": {"a": "b"}}}}}),
        422,
        "Invalid",
        saying="field is immutable",
        causes=[("FieldValueInvalid", "spec.template")],
    )


@each(
    "spec",
    [{"parallelism": 4}, {"backoffLimit": 3}, {"ttlSecondsAfterFinished": 60}],
    ids=lambda spec: next(iter(spec)),
)
async def test_mutable_fields_of_a_job_are_changed(server: Server, path: str, spec: Object) -> None:
    before = await server.api.get(path)
    patched = await server.api.patch(path, {"spec": spec})
    assert patched["spec"].items() >= spec.items()
    assert patched["metadata"]["generation"] == before["metadata"]["generation"] + 1


async def test_an_indexed_job_is_resized_by_completions_and_parallelism_together(
    server: Server, namespace: str
) -> None:
    await server.api.create(jobs(namespace), job(completionMode="Indexed", completions=3, parallelism=3))
    patched = await server.api.patch(jobs(namespace, "a"), {"spec": {"completions": 5, "parallelism": 5}})
    assert (patched["spec"]["completions"], patched["spec"]["parallelism"]) == (5, 5)
    await refused(
        server.api.patch(jobs(namespace, "a"), {"spec": {"completions": 4}}),
        422,
        "Invalid",
        'Job.batch "a" is invalid: spec.completions: Invalid value: 4: '
        "can only be modified in tandem with spec.parallelism",
    )


async def test_a_put_of_the_object_that_was_read_is_accepted(server: Server, path: str) -> None:
    """Everything that the server filled in may come back."""
    read = await server.api.get(path)
    # The Job's controller writes its status meanwhile, which a version would notice.
    del read["metadata"]["resourceVersion"]
    answer = await send(server.api, "PUT", path, read)
    assert answer.status == 200
    assert answer.body["spec"] == read["spec"]
    assert answer.body["metadata"]["generation"] == 1
