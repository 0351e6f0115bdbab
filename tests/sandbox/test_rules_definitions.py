from __future__ import annotations

import pytest

from gangctl.sandbox.api import Api
from gangctl.sandbox.errors import StatusError
from gangctl.sandbox.objects import Object
from gangctl.sandbox.server import Sandbox, SandboxOptions
from tests.rows import each
from tests.sandbox.definitions import ME, WIDGETS, create, definition, established, of_field, version, widget

NOT_CHECKED = (
    "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)


@pytest.fixture
def api(sandbox: Sandbox) -> Api:
    return sandbox.api


@each(
    ("body", "words"),
    [
        (definition(scope=""), "spec.scope: Required value"),
        (definition(version("")), "spec.versions[0].name: Required value"),
    ],
)
async def test_an_invalid_definition_is_refused(api: Api, body: Object, words: str) -> None:
    with pytest.raises(StatusError) as caught:
        await create(api, body)
    subject = f'CustomResourceDefinition.apiextensions.k8s.io "{body["metadata"]["name"]}" is invalid: '
    assert (caught.value.code, caught.value.message) == (422, subject + words)


async def test_a_rule_that_does_not_compile_refuses_objects(api: Api) -> None:
    await create(api, of_field({"type": "string", "x-kubernetes-validations": [{"rule": "self ><"}]}))
    await established(api)
    with pytest.raises(StatusError, match="compilation failed"):
        await api.create(api.kind(WIDGETS), "default", widget({"a": "x"}), ME)


async def test_conversion_by_webhook_is_refused(api: Api) -> None:
    with pytest.raises(StatusError, match="strategy None"):
        await create(api, definition(conversion={"strategy": "Webhook"}))


@each(
    ("schema", "value", "words"),
    [
        (
            {"type": "integer", "format": "int32"},
            3000000000,
            '<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec.a',
        ),
        (
            {"type": "string", "minLength": 2},
            "a",
            'spec.a: Invalid value: "a": spec.a in body should be at least 2 chars long',
        ),
        ({"type": "string", "pattern": "^a"}, "x", "spec.a: Invalid value: \"x\": spec.a in body should match '^a'"),
        (
            {"type": "string", "format": "date-time"},
            "nope",
            'spec.a: Invalid value: "nope": spec.a in body must be of type date-time: "nope"',
        ),
        (
            {"x-kubernetes-int-or-string": True},
            1.5,
            'spec.a: Invalid value: "number": spec.a in body must be of type integer,string: "number"',
        ),
        (
            {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            ["a", "a"],
            'spec.a[1]: Duplicate value: "a"',
        ),
        (
            {
                "type": "array",
                "items": {"type": "object", "properties": {"k": {"type": "string"}}, "required": ["k"]},
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"],
            },
            [{"k": "a"}, {"k": "a"}],
            'spec.a[1]: Duplicate value: {"k":"a"}',
        ),
        (
            {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 3", "message": "too small"}]},
            1,
            "spec.a: Invalid value: 1: too small",
        ),
        (
            {"type": "integer", "x-kubernetes-validations": [{"rule": "self < 10"}]},
            20,
            "spec.a: Invalid value: 20: failed rule: self < 10",
        ),
        (
            {"type": "integer", "x-kubernetes-validations": [{"rule": "self < 10"}]},
            "x",
            ['spec.a: Invalid value: "string": spec.a in body must be of type integer: "string"', NOT_CHECKED],
        ),
    ],
)
async def test_custom_objects_are_refused_with_the_messages_of_the_real_server(
    schema: Object, value: object, words: str | list[str]
) -> None:
    # A sandbox of its own: each row defines the same kind.
    async with Sandbox(SandboxOptions(tls=False)) as sandbox:
        api = sandbox.api
        await create(api, of_field(schema))
        await established(api)
        with pytest.raises(StatusError) as caught:
            await api.create(api.kind(WIDGETS), "default", widget({"a": value}), ME)
    listed = words if isinstance(words, str) else f"[{', '.join(words)}]"
    assert (caught.value.code, caught.value.message) == (422, f'Widget.example.com "w" is invalid: {listed}')
