"""CustomResourceDefinitions: how one is established and served, and how its schema applies to objects."""

import asyncio
import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.conformance.answers import Causes, invalid, send, warnings_of
from tests.conformance.grounds import Server
from tests.conformance.objects import CRDS, gone
from tests.conformance.webhooks import Hooks, patch
from tests.controlplane.api import ApiFailure, Object, path_of
from tests.controlplane.wait import wait_for
from tests.rows import each

SPEC = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 9},
        "color": {"type": "string", "default": "red", "enum": ["red", "blue"]},
        "short": {"type": "string", "maxLength": 3},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "map": {"type": "object", "additionalProperties": {"type": "string"}},
        "list": {"type": "array", "maxItems": 2, "items": {"type": "string"}},
        "nothing": {"type": "string", "nullable": True},
    },
}
STATUS = {"type": "object", "properties": {"n": {"type": "integer"}}}
SCHEMA = {"openAPIV3Schema": {"type": "object", "properties": {"spec": SPEC, "status": STATUS}}}


def definition(group: str, plural: str = "things", kind: str = "Thing") -> Object:
    """A definition with a version that is served and one that is not."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}, "schema": SCHEMA},
                {"name": "v2", "served": False, "storage": False, "schema": SCHEMA},
            ],
        },
    }


@pytest.fixture
def group() -> str:
    return f"g{secrets.token_hex(4)}.example.com"


@pytest.fixture(scope="module")
def served_group(server: Server) -> Iterator[str]:
    """A group whose things are served; once, for a definition that is new makes its first writers wait for seconds.

    No longer than these tests need it: the plane is paused when nobody needs it any more (tests/order.py).
    """
    name = f"g{secrets.token_hex(4)}.example.com"
    path = path_of(f"{name}/v1", "things", namespace="default")
    body = {"apiVersion": f"{name}/v1", "kind": "Thing", "metadata": {"name": "proof"}, "spec": {"size": 1}}

    async def define() -> None:
        await server.api.create(CRDS, definition(name))

        async def served() -> bool:
            await server.api.create(path, body, dryRun="All")
            return bool((await server.api.get(f"/apis/{name}/v1"))["resources"])

        await wait_for(served, "the definition to be served", tolerate=(ApiFailure,))

    asyncio.run(define())
    yield name
    asyncio.run(server.api.delete(f"{CRDS}/things.{name}"))


@dataclass(frozen=True)
class Things:
    """A custom resource that is served."""

    server: Server
    group: str
    path: str

    def thing(self, spec: object, name: str = "a", **fields: Any) -> Object:
        return {"apiVersion": f"{self.group}/v1", "kind": "Thing", "metadata": {"name": name}, "spec": spec, **fields}

    async def create(self, spec: object, name: str = "a") -> Object:
        return await self.server.api.create(self.path, self.thing(spec, name))


@pytest.fixture
def things(server: Server, namespace: str, served_group: str) -> Things:
    return Things(server, served_group, path_of(f"{served_group}/v1", "things", namespace=namespace))


async def test_omitted_names_of_a_definition_are_defaulted(server: Server, group: str) -> None:
    created = await server.api.create(CRDS, definition(group))
    assert created["spec"]["names"] == {
        "plural": "things",
        "singular": "thing",
        "kind": "Thing",
        "listKind": "ThingList",
    }
    await server.api.delete(f"{CRDS}/things.{group}")


async def test_a_definition_has_one_storage_version(server: Server, group: str) -> None:
    without = definition(group)
    without["spec"]["versions"][0]["storage"] = False
    await invalid(server.api.create(CRDS, without), saying="must have exactly one version marked as storage version")


async def test_a_definition_is_established_and_discovered(server: Server, things: Things, namespace: str) -> None:
    # A definition is established.
    read = await server.api.get(f"{CRDS}/things.{things.group}")
    conditions = {each["type"]: (each["status"], each["reason"]) for each in read["status"]["conditions"]}
    assert conditions["NamesAccepted"] == ("True", "NoConflicts")
    assert conditions["Established"] == ("True", "InitialNamesAccepted")
    assert read["status"]["acceptedNames"] == read["spec"]["names"]
    assert read["status"]["storedVersions"] == ["v1"]

    # A definition is discovered.
    answer = await server.api.get(f"/apis/{things.group}")
    assert [version["version"] for version in answer["versions"]] == ["v1"]
    resources = (await server.api.get(f"/apis/{things.group}/v1"))["resources"]
    assert {each["name"] for each in resources} == {"things", "things/status"}

    # A version that is not served is 404.
    path = path_of(f"{things.group}/v2", "things", namespace=namespace)
    assert (await send(server.api, "GET", path)).status == 404


async def test_unknown_fields_are_pruned_and_defaults_are_set(things: Things) -> None:
    # Unknown fields are pruned and defaults filled in.
    body = things.thing({"size": 1, "bogus": 1, "free": {"any": [1]}, "map": {"k": "v"}}, status={"n": 1})
    answer = await send(things.server.api, "POST", things.path, body)
    assert answer.status == 201
    assert warnings_of(answer) == ['unknown field "spec.bogus"']
    assert answer.body["spec"] == {"size": 1, "color": "red", "free": {"any": [1]}, "map": {"k": "v"}}
    assert "status" not in answer.body
    assert answer.body["metadata"]["generation"] == 1

    # Null is a value only where it may be.
    created = await things.create({"size": 1, "nothing": None, "color": None}, "b")
    assert created["spec"] == {"size": 1, "nothing": None, "color": "red"}


@each(
    ("spec", "words", "causes"),
    [
        ({}, "spec.size: Required value", [("FieldValueRequired", "spec.size")]),
        (
            {"size": 0},
            "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1",
            [("FieldValueInvalid", "spec.size")],
        ),
        (
            {"size": 10},
            "spec.size: Invalid value: 10: spec.size in body should be less than or equal to 9",
            [("FieldValueInvalid", "spec.size")],
        ),
        (
            {"size": 1, "color": "green"},
            'spec.color: Unsupported value: "green": supported values: "red", "blue"',
            [("FieldValueNotSupported", "spec.color")],
        ),
        (
            {"size": 1, "short": "long"},
            "spec.short: Too long: may not be more than 3 bytes",
            [("FieldValueTooLong", "spec.short")],
        ),
        (
            {"size": 1, "list": ["a", "b", "c"]},
            "spec.list: Too many: 3: must have at most 2 items",
            [("FieldValueTooMany", "spec.list")],
        ),
        (
            {"size": "x"},
            'spec.size: Invalid value: "string": spec.size in body must be of type integer: "string"',
            [("FieldValueTypeInvalid", "spec.size")],
        ),
        (
            {"size": 1, "map": {"k": 1}},
            'spec.map.k: Invalid value: "integer": spec.map.k in body must be of type string: "integer"',
            [("FieldValueTypeInvalid", "spec.map.k")],
        ),
        (
            "x",
            'spec: Invalid value: "string": spec in body must be of type object: "string"',
            [("FieldValueTypeInvalid", "spec")],
        ),
    ],
)
async def test_objects_are_validated_by_the_schema(things: Things, spec: object, words: str, causes: Causes) -> None:
    await invalid(things.create(spec), f'Thing.{things.group} "a" is invalid: {words}', causes=causes)


async def test_patches_are_validated_by_the_schema(things: Things) -> None:
    await things.create({"size": 1})
    await invalid(
        things.server.api.patch(f"{things.path}/a", {"spec": {"size": 10}}),
        saying="spec.size in body should be less than or equal to 9",
    )


async def test_status_and_spec_of_a_custom_resource_are_written_separately(things: Things) -> None:
    await things.create({"size": 1})
    both = {"spec": {"size": 2}, "status": {"n": 5}}
    patched = await things.server.api.patch(f"{things.path}/a", both)
    assert (patched["spec"]["size"], patched.get("status"), patched["metadata"]["generation"]) == (2, None, 2)
    both = {"spec": {"size": 3}, "status": {"n": 5}}
    patched = await things.server.api.patch(f"{things.path}/a/status", both)
    assert (patched["spec"]["size"], patched["status"], patched["metadata"]["generation"]) == (2, {"n": 5}, 2)


async def test_numbers_and_booleans_are_different_values(things: Things, hooks: Hooks) -> None:
    await things.create({"size": 1, "free": {"a": 1, "b": [{"c": 0}]}})
    patched = await things.server.api.patch(f"{things.path}/a", {"spec": {"free": {"a": True, "b": [{"c": False}]}}})
    assert json.dumps(patched["spec"]["free"]) == '{"a": true, "b": [{"c": false}]}'
    assert patched["metadata"]["generation"] == 2

    rule = {"apiGroups": [things.group], "apiVersions": ["*"], "resources": ["*"], "operations": ["CREATE"]}
    change = patch({"op": "replace", "path": "/spec/free/a", "value": True})
    await hooks.register("mutating", hooks.entry("hook", change, rules=[rule]))
    created = await things.create({"size": 1, "free": {"a": 1}}, "b")
    assert created["spec"]["free"]["a"] is True


async def test_a_definition_is_validated(server: Server, group: str) -> None:
    # A definition is named after what it defines.
    await invalid(
        server.api.create(CRDS, {**definition(group), "metadata": {"name": "wrong"}}),
        saying='metadata.name: Invalid value: "wrong": must be spec.names.plural+"."+spec.group',
    )

    # A version has a schema.
    body = definition(group)
    body["spec"]["versions"] = [{"name": "v1", "served": True, "storage": True}]
    await invalid(
        server.api.create(CRDS, body),
        f'CustomResourceDefinition.apiextensions.k8s.io "things.{group}" is invalid: '
        "spec.versions[0].schema.openAPIV3Schema: Required value",
    )


async def test_custom_objects_are_deleted_with_their_definition(server: Server, namespace: str, group: str) -> None:
    await server.api.create(CRDS, definition(group))
    things = Things(server, group, path_of(f"{group}/v1", "things", namespace=namespace))

    async def created() -> bool:
        return bool(await things.create({"size": 1}))

    await wait_for(created, "the definition to be served", tolerate=(ApiFailure,))
    answer = await server.api.delete(f"{CRDS}/things.{group}")
    assert answer["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    await gone(server.api, f"{CRDS}/things.{group}")

    async def unserved() -> bool:
        return (await send(server.api, "GET", things.path)).status == 404

    await wait_for(unserved, "the resource to be unserved")
