"""JobSets: what the CRD and JobSet's own webhooks fill in and drop.

What they refuse, and which changes they take, is recorded of real ones: jobset_cases.py.
"""

import pytest

from tests.conformance.answers import bad_request, invalid, send, warnings_of
from tests.conformance.grounds import Server
from tests.conformance.objects import jobset, jobsets, pod_spec, replicated_job
from tests.rows import each

DENIED = 'admission webhook "vjobset.kb.io" denied the request: JobSet.jobset.x-k8s.io "a" is invalid: '
TEMPLATE = "/spec/replicatedJobs/0/template"


@pytest.fixture
async def path(server: Server, namespace: str) -> str:
    """A suspended JobSet."""
    await server.api.create(jobsets(namespace), jobset())
    return jobsets(namespace, "a")


async def test_a_jobset_is_defaulted(server: Server, namespace: str) -> None:
    # A jobset is filled in.
    created = await server.api.create(jobsets(namespace), jobset())
    assert created["metadata"]["generation"] == 1
    spec = created["spec"]
    (replicated,) = spec.pop("replicatedJobs")
    assert spec == {
        "suspend": True,
        "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
        "startupPolicy": {"startupPolicyOrder": "AnyOrder"},
        "successPolicy": {"operator": "All"},
    }
    template = replicated.pop("template")
    assert replicated == {"name": "r", "groupName": "default", "replicas": 1}
    assert template["spec"]["completionMode"] == "Indexed"

    # A pod template of a jobset is not filled in. It is a part of a custom resource: what a pod gets, it gets when
    # it is made.
    created = await server.api.create(jobsets(namespace), jobset("b"))
    template = created["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    assert template == {
        "schedulerName": "nobody",
        "restartPolicy": "Never",
        "containers": [{"name": "c", "image": "i", "resources": {}}],
    }

    # Pods of a jobset restart on failure by default.
    spec = pod_spec()
    del spec["restartPolicy"]
    created = await server.api.create(jobsets(namespace), jobset("c", [replicated_job("r", spec)]))
    template = created["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    assert template["restartPolicy"] == "OnFailure"

    # Rules of a failure policy get names.
    created = await server.api.create(
        jobsets(namespace), jobset("d", failurePolicy={"rules": [{"action": "FailJobSet"}]})
    )
    (rule,) = created["spec"]["failurePolicy"]["rules"]
    assert rule["name"] == "failurePolicyRule0"

    # A jobset may have no spec.
    body = jobset("e")
    del body["spec"]
    answer = await send(server.api, "POST", jobsets(namespace), body)
    assert answer.status == 201
    assert answer.body["spec"]["successPolicy"] == {"operator": "All"}


async def test_a_body_that_is_no_jobset_is_refused(server: Server, namespace: str) -> None:
    # A custom resource must have its kind.
    body = jobset()
    del body["kind"]
    await bad_request(
        server.api.create(jobsets(namespace), body),
        saying="the object provided is unrecognized (must be of type JobSet): Object 'Kind' is missing in ",
    )


# The CRD of JobSet 0.12 has the pod fields of Kubernetes 1.36, whatever the cluster is.
@each(
    ("field", "value", "kept"),
    [
        ("schedulingGroup", {"podGroupName": "g"}, True),
        ("workloadRef", {"name": "w", "podGroup": "g"}, False),
        ("bogus", 1, False),
    ],
)
async def test_a_jobset_keeps_only_pod_fields_of_its_schema(
    server: Server, namespace: str, field: str, value: object, kept: bool
) -> None:
    body = jobset(field.lower(), [replicated_job("r", pod_spec(**{field: value}))])
    answer = await send(server.api, "POST", jobsets(namespace), body)
    assert answer.status == 201
    path = f"spec.replicatedJobs[0].template.spec.template.spec.{field}"
    assert warnings_of(answer) == ([] if kept else [f'unknown field "{path}"'])
    template = answer.body["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    assert template.get(field) == (value if kept else None)


async def test_metadata_of_templates_is_kept(server: Server, namespace: str) -> None:
    replicated = replicated_job()
    for template in (replicated["template"], replicated["template"]["spec"]["template"]):
        template["metadata"] = {"labels": {"l": "1"}, "annotations": {"n": "1"}}
    created = await server.api.create(jobsets(namespace), jobset("a", [replicated]))
    kept = created["spec"]["replicatedJobs"][0]["template"]
    assert kept["metadata"] == {"labels": {"l": "1"}, "annotations": {"n": "1"}}
    assert kept["spec"]["template"]["metadata"] == {"labels": {"l": "1"}, "annotations": {"n": "1"}}


async def test_scheduling_directives_of_a_resumed_jobset_are_immutable(server: Server, path: str) -> None:
    resumed = await server.api.patch(path, {"spec": {"suspend": False}})
    assert resumed["spec"]["suspend"] is False
    operation = {"op": "add", "path": f"{TEMPLATE}/spec/template/spec/nodeSelector", "value": {"a": "b"}}
    await invalid(server.api.patch(path, [operation], kind="json"), saying=": field is immutable")
    await invalid(server.api.patch(path, {"spec": None}), causes=[("FieldValueInvalid", "spec.replicatedJobs")])


async def test_the_status_of_a_jobset_is_written_by_its_subresource_only(server: Server, path: str) -> None:
    # The status of a jobset is written alone.
    patched = await server.api.patch(f"{path}/status", {"status": {"restarts": 2}, "spec": {"suspend": False}})
    assert patched["status"]["restarts"] == 2
    assert patched["spec"]["suspend"] is True
    assert patched["metadata"]["generation"] == 1


async def test_a_jobset_can_be_applied(server: Server, namespace: str) -> None:
    created = await server.api.patch(jobsets(namespace, "a"), jobset(), kind="apply", fieldManager="m")
    entry = next(entry for entry in created["metadata"]["managedFields"] if entry["manager"] == "m")
    assert entry["operation"] == "Apply"
    owned = entry["fieldsV1"]["f:spec"]
    assert owned.keys() == {"f:replicatedJobs", "f:suspend"}
    assert owned["f:replicatedJobs"].keys() == {'k:{"name":"r"}'}


async def test_a_jobset_is_not_selected_by_its_spec(server: Server, namespace: str) -> None:
    await bad_request(
        server.api.list(jobsets(namespace), fieldSelector="spec.suspend=true"),
        "field label not supported: spec.suspend",
    )


async def test_restarts_of_single_jobs_need_a_feature_gate(server: Server, namespace: str) -> None:
    for action in ("RestartJob", "RestartJobAndIgnoreMaxRestarts"):
        body = jobset(failurePolicy={"maxRestarts": 1, "rules": [{"action": action}]})
        await invalid(
            server.api.create(jobsets(namespace), body),
            f"{DENIED}<nil>: Internal error: RestartJob and RestartJobAndIgnoreMaxRestarts failure policy actions are "
            "not allowed when RestartJob feature gate is disabled",
        )
