"""The definitions of policies: written from the models, up to date, and taken by every API server."""

from __future__ import annotations

import contextlib
import copy
import json
import secrets
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import pytest

from gangctl.policy.model import GangPolicy, GangPolicyException
from tests.controlplane.api import ApiFailure, path_of
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for
from tests.manifests.crds import PLACE, render
from tests.manifests.definitions.policies import definitions
from tests.policy.documents import Object, exception, policy, rule
from tests.rows import each

DEFINITIONS = path_of("apiextensions.k8s.io/v1", "customresourcedefinitions")


def test_the_committed_files_are_those_of_the_models() -> None:
    assert {path.name: path.read_text() for path in PLACE.glob("gang*.yaml")} == render()


def schemas(schema: Object) -> Iterator[Object]:
    yield schema
    for inner in [*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")]:
        if isinstance(inner, dict):
            yield from schemas(inner)


@each("name", sorted(definitions()))
def test_schemas_are_structural_bounded_and_described(name: str) -> None:
    root = definitions()[name]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for field in ("spec", "status"):
        for schema in schemas(root["properties"][field]):
            assert "type" in schema
            assert not {"$ref", "anyOf", "title", "const"} & schema.keys()
            assert schema["type"] != "array" or "maxItems" in schema, schema
            assert schema["type"] != "string" or {"maxLength", "enum", "format", "pattern"} & schema.keys(), schema
    for schema in schemas(root["properties"]["spec"]):
        for field, value in schema.get("properties", {}).items():
            assert value["description"], field


@pytest.fixture
async def group(plane: ControlPlane) -> AsyncIterator[str]:
    async with installed(plane) as found:
        yield found


@pytest.fixture
async def group_1_37(plane_1_37: ControlPlane) -> AsyncIterator[str]:
    async with installed(plane_1_37) as found:
        yield found


@contextlib.asynccontextmanager
async def installed(plane: ControlPlane) -> AsyncIterator[str]:
    """Our definitions under a group of the test's own, established: the plane is shared."""
    found = f"g{secrets.token_hex(4)}.test"
    names = []
    for definition in definitions().values():
        moved = copy.deepcopy(definition)
        moved["spec"]["group"] = found
        moved["spec"]["names"]["categories"] = []
        moved["spec"]["names"]["shortNames"] = []
        moved["metadata"]["name"] = f"{moved['spec']['names']['plural']}.{found}"
        names.append(moved["metadata"]["name"])
        await plane.api.create(DEFINITIONS, moved)
    for name in names:
        await wait_for(partial(established, plane, name), what=f"{name} to be established")
        served = partial(plane.api.get, path_of(f"{found}/v1alpha1", name.partition(".")[0]))
        await wait_for(served, what=f"{name} to be served", tolerate=(ApiFailure,))
    yield found
    for name in names:
        await plane.api.delete(f"{DEFINITIONS}/{name}")


async def established(plane: ControlPlane, name: str) -> bool:
    definition = await plane.api.get(f"{DEFINITIONS}/{name}")
    conditions = {each["type"]: each for each in definition.get("status", {}).get("conditions") or []}
    assert "NonStructuralSchema" not in conditions, conditions
    if conditions.get("Established", {}).get("status") != "True":
        raise NotYet(str(conditions))
    return True


COMPLETE: Object = {
    **policy(
        "true",
        matchConstraints={
            "resourceRules": [rule("CREATE", "UPDATE")],
            "namespaceSelector": {"matchLabels": {"a": "b"}},
        },
        matchConditions=[{"name": "only-gangs", "expression": "true"}],
        variables=[{"name": "x", "expression": "1"}],
        auditAnnotations=[{"key": "k", "valueExpression": "'v'"}],
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        paramRef={"name": "limits", "namespace": "default", "parameterNotFoundAction": "Deny"},
        validationActions=["Warn", "Audit"],
        defaults={
            "gangMode": "Gang",
            "queue": "q",
            "options": {"disruption": "all"},
            "evictStrandedAfter": "10m",
            "queues": [
                {
                    "match": {
                        "namespaceSelector": {"matchLabels": {"a": "b"}},
                        "objectSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]},
                        "priorityClasses": ["high"],
                        "accelerator": {"resource": "nvidia.com/gpu", "nodeLabels": {"a": "b"}},
                    },
                    "queue": "gpu",
                    "priorityClass": "prod",
                }
            ],
        },
    )
}


def changed(**spec: Any) -> Object:
    return {**COMPLETE, "spec": {**COMPLETE["spec"], **spec}}


REFUSED = {
    "nothing in it": policy(),
    "Deny and Warn": changed(validationActions=["Deny", "Warn"]),
    "an unknown action": changed(validationActions=["Block"]),
    "parameters without a kind": policy(
        "true", paramRef={"name": "x", "namespace": "default", "parameterNotFoundAction": "Deny"}
    ),
    "other resources": changed(matchConstraints={"resourceRules": [rule("*", resources=["pods"])]}),
    "one name for two rules": changed(validations=[{"name": "a", "expression": "true"}] * 2),
    "a message of two lines": changed(validations=[{"expression": "true", "message": "a\nb"}]),
    "a digit for a name": changed(validations=[{"name": "0", "expression": "true"}]),
    "one gang in two": changed(defaults={"gangMode": "Gang", "replicatedJobGangMode": "Gang"}),
    "a gang of no replicated job": changed(defaults={"gangMode": "Gang", "replicatedJobGangMode": "Off"}),
    "too long a queue": changed(defaults={"queue": "q" * 64}),
    "too long a queue in the map": changed(
        defaults={"queues": [{"match": {"priorityClasses": ["a"]}, "queue": "q" * 64}]}
    ),
    "a queue for everything": changed(defaults={"queues": [{"match": {}, "queue": "q"}]}),
    "no accelerator": changed(defaults={"queues": [{"match": {"accelerator": {}}, "queue": "q"}]}),
    "name and selector": changed(
        paramRef={"name": "x", "selector": {"matchLabels": {}}, "parameterNotFoundAction": "Deny"}
    ),
    "a selector without values": changed(
        matchConstraints={"objectSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}
    ),
    "too long an expression": policy("x" * 4097),
}


@pytest.mark.controlplane
async def test_every_api_server_accepts_the_definitions_and_the_examples_of_the_models(
    plane: ControlPlane, group: str
) -> None:
    policies, exceptions = (path_of(f"{group}/v1alpha1", kind) for kind in ("gangpolicies", "gangpolicyexceptions"))
    moved = {"apiVersion": f"{group}/v1alpha1"}
    stored = await plane.api.create(policies, {**COMPLETE, **moved}, fieldValidation="Strict")
    assert "failurePolicy" not in stored["spec"], "a broken policy refuses only if its author wrote Fail"
    assert stored["spec"]["background"] is True
    read = GangPolicy.model_validate({**stored, "apiVersion": "gangctl.dev/v1alpha1"})
    assert read.spec == GangPolicy.model_validate(COMPLETE).spec
    minimal = await plane.api.create(policies, {**policy("true", name="minimal"), **moved}, fieldValidation="Strict")
    assert minimal["spec"]["validationActions"] == ["Deny"]
    written = exception({"name": "p"}, match={"namespaces": ["a"], "names": ["x*"]})
    stored = await plane.api.create(exceptions, {**written, **moved}, fieldValidation="Strict")
    assert GangPolicyException.model_validate({**stored, "apiVersion": "gangctl.dev/v1alpha1"}).spec.owner == "team-a"
    for why, refused in REFUSED.items():
        with pytest.raises(ApiFailure) as failure:
            await plane.api.create(policies, {**refused, **moved, "metadata": {"name": "bad"}}, dryRun="All")
        assert failure.value.status == 422, why
    for missing in ("owner", "reason", "expiresAt"):
        spec = {key: value for key, value in written["spec"].items() if key != missing}
        with pytest.raises(ApiFailure):
            await plane.api.create(exceptions, {**written, **moved, "spec": spec}, dryRun="All")


@pytest.mark.controlplane
async def test_kubectl_get_shows_the_columns_of_a_policy(plane_1_37: ControlPlane, group_1_37: str) -> None:
    api = plane_1_37.api
    policies = path_of(f"{group_1_37}/v1alpha1", "gangpolicies")
    spec = {**COMPLETE["spec"], "failurePolicy": "Fail"}
    await api.create(policies, {**COMPLETE, "apiVersion": f"{group_1_37}/v1alpha1", "spec": spec})
    condition = {"status": "True", "reason": "Loaded", "message": "", "lastTransitionTime": "2026-06-01T00:00:00Z"}
    status = {"conditions": [{**condition, "type": "Ready"}], "results": {"pass": 3, "fail": 2}}
    await api.patch(f"{policies}/p/status", {"status": status})
    exceptions = path_of(f"{group_1_37}/v1alpha1", "gangpolicyexceptions")
    written = exception({"name": "p"}, {"name": "q"})
    await api.create(exceptions, {**written, "apiVersion": f"{group_1_37}/v1alpha1"})
    name, condition = written["metadata"]["name"], {**condition, "type": "Active", "status": "False"}
    await api.patch(f"{exceptions}/{name}/status", {"status": {"conditions": [condition]}})
    assert await cells(plane_1_37, policies) == {
        "Actions": '["Warn","Audit"]',
        "Failure": "Fail",
        "Ready": "True",
        "Violations": 2,
    }
    assert await cells(plane_1_37, exceptions) == {
        "Policies": '[{"name":"p"},{"name":"q"}]',
        "Owner": "team-a",
        "Expires": "2026-07-01T00:00:00Z",
        "Active": "False",
    }


async def cells(plane: ControlPlane, path: str) -> Object:
    """The only row of a table, by column, without the name and the age."""
    accept = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    table = json.loads((await plane.api.exchange("GET", path, headers=accept)).text)
    names = [column["name"] for column in table["columnDefinitions"]]
    (row,) = table["rows"]
    return {name: cell for name, cell in zip(names, row["cells"], strict=True) if name not in {"Name", "Age"}}
