from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gangctl.sandbox.objects import Object
from gangctl.sandbox.server import Sandbox, SandboxOptions
from tests.controlplane.wait import NotYet, wait_for
from tests.manifests.kubectl import Kubectl, KubectlFailed
from tests.rows import each
from tests.sandbox.asking import walk
from tests.sandbox.definitions import definition, version, widget
from tests.sandbox.wire import Wire

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SPEC = {"type": "object", "properties": {"size": {"type": "integer", "description": "How big."}}}
TEMPLATE = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
JOBSET = {
    "apiVersion": "jobset.x-k8s.io/v1alpha2",
    "kind": "JobSet",
    "metadata": {"name": "js"},
    "spec": {"replicatedJobs": [{"name": "r", "template": {"spec": {"template": TEMPLATE}}}]},
}
POD: Object = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, **TEMPLATE}
WIDGETS: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    **definition(version(schema={"type": "object", "properties": {"spec": SPEC}})),
}


async def _document(wire: Wire, path: str) -> Object:
    response = await wire.get(f"/openapi/v3/{path}")
    assert response.status == 200
    return response.json


async def test_the_index_lists_a_document_for_each_group_version(wire: Wire) -> None:
    paths = (await wire.get("/openapi/v3")).json["paths"]
    assert {"api/v1", "apis/batch/v1", "apis/jobset.x-k8s.io/v1alpha2", "apis/scheduling.k8s.io/v1beta1"} <= set(paths)
    for path, entry in paths.items():
        assert entry["serverRelativeURL"].startswith(f"/openapi/v3/{path}?hash=")
        assert (await wire.get(entry["serverRelativeURL"])).json["components"]["schemas"]


async def test_every_reference_in_a_schema_exists(wire: Wire) -> None:
    for path in (await wire.get("/openapi/v3")).json["paths"]:
        schemas = (await _document(wire, path))["components"]["schemas"]
        references = {each["$ref"] for each in walk(schemas) if isinstance(each, dict) and "$ref" in each}
        assert {each.removeprefix("#/components/schemas/") for each in references} <= set(schemas), path


async def test_custom_resources_have_the_schema_of_their_definition(wire: Wire) -> None:
    await wire.send("POST", DEFINITIONS, WIDGETS)

    async def published() -> Object:
        response = await wire.get("/openapi/v3/apis/example.com/v1")
        if response.status != 200:
            raise NotYet(response.text)
        return response.json

    schema = (await wait_for(published, "the document", interval=0.01))["components"]["schemas"][
        "com.example.v1.Widget"
    ]
    assert schema["properties"]["spec"] == SPEC
    assert "allOf" in schema["properties"]["metadata"]
    index = (await wire.get("/openapi/v3")).json["paths"]
    before = index["apis/example.com/v1"]["serverRelativeURL"]
    changed = {"spec": {"versions": [version(schema={"type": "object"})]}}
    patched = await wire.send(
        "PATCH", f"{DEFINITIONS}/widgets.example.com", changed, content_type="application/merge-patch+json"
    )
    assert patched.status == 200
    assert (await wire.get("/openapi/v3")).json["paths"]["apis/example.com/v1"]["serverRelativeURL"] != before


async def test_the_schema_of_a_jobset_has_its_fields(wire: Wire) -> None:
    schemas = (await _document(wire, "apis/jobset.x-k8s.io/v1alpha2"))["components"]["schemas"]
    spec = schemas["io.x-k8s.jobset.v1alpha2.JobSet"]["properties"]["spec"]
    assert spec["type"] == "object"
    assert "gangConfig" not in spec["properties"]
    job = spec["properties"]["replicatedJobs"]["items"]["properties"]["template"]["properties"]["spec"]
    assert "schedulingGroup" in job["properties"]["template"]["properties"]["spec"]["properties"]


@pytest.fixture
async def kubectl(tmp_path: Path) -> AsyncIterator[Kubectl]:
    async with Sandbox(SandboxOptions()) as sandbox:
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(sandbox.kubeconfig())
        yield Kubectl(tmp_path, kubeconfig)


@pytest.mark.controlplane
@each(
    ("field", "printed"),
    [
        ("jobset.spec", "replicatedJobs\t<[]Object>"),
        ("jobset.spec.replicatedJobs.template.spec.template.spec.containers", "image\t<string>"),
        ("pod.spec.schedulingGroup", "podGroupName\t<string>"),
        ("podgroups.spec.schedulingPolicy.gang", "minCount\t<integer> -required-"),
        ("jobset", "metadata\t<ObjectMeta>"),
    ],
)
async def test_kubectl_explain_prints_fields_of_a_jobset(kubectl: Kubectl, field: str, printed: str) -> None:
    assert printed in (await kubectl.run("explain", field)).text


@pytest.mark.controlplane
async def test_kubectl_applies_gets_and_deletes_a_jobset(kubectl: Kubectl) -> None:
    given = json.dumps(JOBSET)
    assert "created" in (await kubectl.run("apply", "--validate=strict", "-f", "-", given=given)).text
    read = json.loads((await kubectl.run("get", "jobset", "js", "-o", "json")).text)
    assert read["spec"]["replicatedJobs"][0]["replicas"] == 1
    assert "js" in (await kubectl.run("get", "jobsets")).text
    suspended = json.dumps({**JOBSET, "spec": {"suspend": True}})
    applied = await kubectl.run("apply", "--server-side", "--validate=strict", "-f", "-", given=suspended)
    assert "serverside-applied" in applied.text
    assert "deleted" in (await kubectl.run("delete", "jobset", "js")).text
    with pytest.raises(KubectlFailed, match="NotFound"):
        await kubectl.run("get", "jobset", "js")


@pytest.mark.controlplane
@pytest.mark.parametrize("verb", ["apply", "create"])
async def test_kubectl_leaves_strict_validation_to_the_server(kubectl: Kubectl, verb: str) -> None:
    given = json.dumps({**POD, "spec": {**POD["spec"], "nodeNam": "n"}})
    with pytest.raises(KubectlFailed, match=r'strict decoding error: unknown field "spec.nodeNam"'):
        await kubectl.run(verb, "--validate=strict", "-f", "-", given=given)
    warned = await kubectl.run(verb, "--validate=warn", "-f", "-", given=given)
    assert warned.warnings == ['Warning: unknown field "spec.nodeNam"']


@pytest.mark.controlplane
async def test_kubectl_merges_a_second_apply_into_a_pod(kubectl: Kubectl) -> None:
    await kubectl.run("apply", "-f", "-", given=json.dumps(POD))
    sidecar = {
        "metadata": {"name": "p", "labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "other"}]},
    }
    assert "configured" in (await kubectl.run("apply", "-f", "-", given=json.dumps({**POD, **sidecar}))).text
    read = json.loads((await kubectl.run("get", "pod", "p", "-o", "json")).text)
    assert (read["spec"]["containers"][0]["image"], read["metadata"]["labels"]) == ("other", {"a": "b"})


@pytest.mark.controlplane
async def test_kubectl_works_with_custom_resources(kubectl: Kubectl) -> None:
    await kubectl.run("apply", "-f", "-", given=json.dumps(WIDGETS))
    await kubectl.run("wait", "--for=condition=Established", "crd/widgets.example.com", "--timeout=300s")
    assert "How big." in (await kubectl.run("explain", "widgets.spec")).text
    await kubectl.run("apply", "--validate=strict", "-f", "-", given=json.dumps(widget({"size": 1})))
    with pytest.raises(KubectlFailed, match=r'unknown field "spec.colour"'):
        await kubectl.run("apply", "--validate=strict", "-f", "-", given=json.dumps(widget({"colour": 1})))
    assert "w" in (await kubectl.run("get", "widgets")).text
    assert "deleted" in (await kubectl.run("delete", "crd", "widgets.example.com")).text


@pytest.mark.controlplane
async def test_kubectl_reports_a_kind_that_is_not_served(kubectl: Kubectl) -> None:
    given = json.dumps({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "g"}})
    with pytest.raises(KubectlFailed, match=r'no matches for kind "Gadget" in version "example\.com/v1"'):
        await kubectl.run("apply", "-f", "-", given=given)
