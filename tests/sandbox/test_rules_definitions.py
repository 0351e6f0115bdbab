from __future__ import annotations

import pytest

from gangctl.sandbox.api import Api
from gangctl.sandbox.errors import StatusError
from gangctl.sandbox.objects import Object
from gangctl.sandbox.server import Sandbox, SandboxOptions
from tests.rows import each
from tests.sandbox.definitions import (
    ME,
    OPEN,
    WIDGETS,
    create,
    definition,
    established,
    of_field,
    renamed,
    version,
    widget,
)

PATH = "spec.validation.openAPIV3Schema"
FIELD = f"{PATH}.properties[spec].properties[a]"
LABEL = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)
UNSTORED = (
    '[{"Name":"v1","Served":true,"Storage":false,"Deprecated":false,"DeprecationWarning":null,"Schema":null,'
    '"Subresources":null,"AdditionalPrinterColumns":null,"SelectableFields":null}]'
)
ONE = '"spec.a" must validate one and only one schema (oneOf). Found'
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
        pytest.param(
            renamed(definition(), name="foo"),
            'metadata.name: Invalid value: "foo": must be spec.names.plural+"."+spec.group',
            id="name",
        ),
        pytest.param(
            definition(version(schema={"properties": {}})),
            f"{PATH}.type: Required value: must not be empty at the root",
            id="no-type-at-the-root",
        ),
        pytest.param(
            of_field({}),
            f"{FIELD}.type: Required value: must not be empty for specified object fields",
            id="no-type",
        ),
        pytest.param(
            of_field({"type": "odd"}),
            f'{FIELD}.type: Unsupported value: "odd": supported values: "array", "boolean", '
            '"integer", "number", "object", "string"',
            id="odd-type",
        ),
        pytest.param(
            of_field({"type": "array"}),
            f"{FIELD}.items: Required value: must be specified",
            id="no-items",
        ),
        pytest.param(
            of_field({"type": "array", "x-kubernetes-list-type": "map", "items": OPEN}),
            f"{FIELD}.x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map",
            id="no-keys",
        ),
        pytest.param(
            of_field({"type": "integer", "default": "x"}),
            f'{FIELD}.default: Invalid value: "string":  in body must be of type integer: "string"',
            id="odd-default",
        ),
        pytest.param(
            of_field({"type": "object", "properties": {"b": OPEN}, "additionalProperties": OPEN}),
            f"{FIELD}.additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive",
            id="two-kinds-of-fields",
        ),
        pytest.param(
            of_field({"$ref": "#/x"}),
            f"{FIELD}.$ref: Forbidden: $ref is not supported",
            id="reference",
        ),
        pytest.param(
            definition(version(storage=False)),
            [
                f"spec.versions: Invalid value: {UNSTORED}: must have exactly one version marked as storage version",
                "status.storedVersions: Invalid value: null: must have at least one stored version",
            ],
            id="nothing-stored",
        ),
        pytest.param(
            definition(scope="Odd"),
            'spec.scope: Unsupported value: "Odd": supported values: "Cluster", "Namespaced"',
            id="scope",
        ),
        pytest.param(
            definition(group="foo"),
            'spec.group: Invalid value: "foo": should be a domain with at least one dot',
            id="group-without-dot",
        ),
        pytest.param(
            definition(group="foo.k8s.io"),
            "metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must have approval "
            'annotation "api-approved.kubernetes.io", see https://github.com/kubernetes/enhancements/pull/1111',
            id="protected-group",
        ),
        pytest.param(
            definition(version("V_1")),
            [f'spec.versions[0].name: Invalid value: "V_1": {LABEL}', f'spec.version: Invalid value: "V_1": {LABEL}'],
            id="version",
        ),
        pytest.param(
            definition(
                version(
                    schema={
                        "type": "object",
                        "properties": {"metadata": {"type": "object", "properties": {"labels": OPEN}}},
                    }
                )
            ),
            f"{PATH}.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but "
            "metadata is implicitly specified",
            id="metadata",
        ),
    ],
)
async def test_a_definition_is_refused_in_the_words_of_the_real_server(
    api: Api, body: Object, words: str | list[str]
) -> None:
    with pytest.raises(StatusError) as caught:
        await create(api, body)
    told = words if isinstance(words, str) else f"[{', '.join(words)}]"
    subject = f'CustomResourceDefinition.apiextensions.k8s.io "{body["metadata"]["name"]}" is invalid: '
    assert (caught.value.code, caught.value.message) == (422, subject + told)


@each(
    ("rule", "why"),
    [
        ("self ><", "compilation failed"),
        ("self.indexof('a') > 1", "compilation failed: there is no function 'indexof'"),
    ],
)
async def test_a_rule_that_cannot_be_asked_is_refused(api: Api, rule: str, why: str) -> None:
    with pytest.raises(StatusError, match=why) as caught:
        await create(api, of_field({"type": "string", "x-kubernetes-validations": [{"rule": rule}]}))
    assert caught.value.code == 422


async def test_conversion_by_webhook_is_refused(api: Api) -> None:
    with pytest.raises(StatusError, match="strategy None"):
        await create(api, definition(conversion={"strategy": "Webhook"}))


SIZE: Object = {"type": "integer", "minimum": 1, "maximum": 10}


@each(
    ("schema", "value", "words"),
    [
        pytest.param(
            SIZE, 0, "spec.a: Invalid value: 0: spec.a in body should be greater than or equal to 1", id="small"
        ),
        pytest.param(
            SIZE, 11, "spec.a: Invalid value: 11: spec.a in body should be less than or equal to 10", id="great"
        ),
        pytest.param(
            SIZE, "x", 'spec.a: Invalid value: "string": spec.a in body must be of type integer: "string"', id="type"
        ),
        pytest.param(
            SIZE,
            2.5,
            [
                'spec.a: Invalid value: "number": spec.a in body must be of type integer: "number"',
                '<nil>: Invalid value: "": Checked value must be of type integer (default format) in spec.a',
            ],
            id="fraction",
        ),
        pytest.param(
            {"type": "integer", "format": "int32"},
            3000000000,
            '<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec.a',
            id="int32",
        ),
        pytest.param(
            {"type": "integer", "minimum": 0, "exclusiveMinimum": True},
            0,
            "spec.a: Invalid value: 0: spec.a in body should be greater than 0",
            id="exclusive",
        ),
        pytest.param(
            {"type": "number", "multipleOf": 0.5},
            0.3,
            "spec.a: Invalid value: 0.3: spec.a in body should be a multiple of 0.5",
            id="multiple",
        ),
        pytest.param(
            {"type": "string", "maxLength": 3}, "abcd", "spec.a: Too long: may not be more than 3 bytes", id="long"
        ),
        pytest.param(
            {"type": "string", "minLength": 2},
            "a",
            'spec.a: Invalid value: "a": spec.a in body should be at least 2 chars long',
            id="short",
        ),
        pytest.param(
            {"type": "string", "pattern": "^a"},
            "x",
            "spec.a: Invalid value: \"x\": spec.a in body should match '^a'",
            id="pattern",
        ),
        pytest.param(
            {"type": "string", "format": "date-time"},
            "nope",
            'spec.a: Invalid value: "nope": spec.a in body must be of type date-time: "nope"',
            id="time",
        ),
        pytest.param(
            {"type": "string", "enum": ["A", "B"]},
            "C",
            'spec.a: Unsupported value: "C": supported values: "A", "B"',
            id="enum",
        ),
        pytest.param(
            {"x-kubernetes-int-or-string": True},
            1.5,
            'spec.a: Invalid value: "number": spec.a in body must be of type integer,string: "number"',
            id="int-or-string",
        ),
        pytest.param(
            {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            ["a", "a"],
            'spec.a[1]: Duplicate value: "a"',
            id="set",
        ),
        pytest.param(
            {
                "type": "array",
                "items": {"type": "object", "properties": {"k": {"type": "string"}}, "required": ["k"]},
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"],
            },
            [{"k": "a"}, {"k": "a"}],
            'spec.a[1]: Duplicate value: {"k":"a"}',
            id="map",
        ),
        pytest.param(
            {"type": "array", "items": {"type": "string"}, "maxItems": 1},
            ["a", "b"],
            "spec.a: Too many: 2: must have at most 1 item",
            id="many",
        ),
        pytest.param(
            {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
            {"a": 1},
            ["spec.a.apiVersion: Required value", "spec.a.kind: Required value"],
            id="embedded",
        ),
        pytest.param(
            {"type": "string", "not": {"enum": ["x"]}},
            "x",
            '<nil>: Invalid value: "": "spec.a" must not validate the schema (not)',
            id="not",
        ),
        pytest.param(
            {"type": "integer", "allOf": [{"minimum": 2}, {"maximum": 5}]},
            1,
            [
                "spec.a: Invalid value: 1: spec.a in body should be greater than or equal to 2",
                '<nil>: Invalid value: "": "spec.a" must validate all the schemas (allOf)',
            ],
            id="all-of",
        ),
        pytest.param(
            {
                "type": "object",
                "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
            },
            {"a": "x", "b": "y"},
            f'<nil>: Invalid value: "": {ONE} 2 valid alternatives',
            id="one-of",
        ),
        pytest.param(
            {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 3", "message": "too small"}]},
            1,
            "spec.a: Invalid value: 1: too small",
            id="rule",
        ),
        pytest.param(
            {"type": "integer", "x-kubernetes-validations": [{"rule": "self < 10"}]},
            20,
            "spec.a: Invalid value: 20: failed rule: self < 10",
            id="rule-without-message",
        ),
        pytest.param(
            {"type": "integer", "x-kubernetes-validations": [{"rule": "self < 10"}]},
            "x",
            ['spec.a: Invalid value: "string": spec.a in body must be of type integer: "string"', NOT_CHECKED],
            id="rule-not-asked",
        ),
    ],
)
async def test_objects_are_validated_in_the_words_of_the_real_server(
    schema: Object, value: object, words: str | list[str]
) -> None:
    # A sandbox of its own: each row defines the same kind.
    async with Sandbox(SandboxOptions(tls=False)) as sandbox:
        api = sandbox.api
        await create(api, of_field(schema))
        await established(api)
        with pytest.raises(StatusError) as caught:
            await api.create(api.kind(WIDGETS), "default", widget({"a": value}), ME)
    told = words if isinstance(words, str) else f"[{', '.join(words)}]"
    assert (caught.value.code, caught.value.message) == (422, f'Widget.example.com "w" is invalid: {told}')
