"""Metadata of every kind: words are those of real API servers."""

from __future__ import annotations

import pytest

from gangctl.sandbox.api import Api, Caller
from gangctl.sandbox.objects import Object
from tests.rows import each
from tests.sandbox.asking import create, messages, patch_refused, refused

MAPS = "configmaps"
OWNER: Object = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}
NAME_PART = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


@each(
    ("metadata", "words"),
    [
        pytest.param({"labels": {"a b": "c"}}, f'metadata.labels: Invalid value: "a b": {NAME_PART}', id="label"),
        pytest.param(
            {"labels": {"a": "x" * 64}},
            f'metadata.labels: Invalid value: "{"x" * 64}": must be no more than 63 bytes',
            id="label-length",
        ),
        pytest.param(
            {"annotations": {"a b": "c"}}, f'metadata.annotations: Invalid value: "a b": {NAME_PART}', id="annotation"
        ),
        pytest.param(
            {"annotations": {"a": "x" * 2**18}},
            "metadata.annotations: Too long: may not be more than 262144 bytes",
            id="annotation-size",
        ),
        pytest.param(
            {"finalizers": ["foo"]},
            'metadata.finalizers[0]: Invalid value: "foo": name is neither a standard finalizer name nor is it fully '
            "qualified",
            id="finalizer",
        ),
        pytest.param(
            {"ownerReferences": [{**OWNER, "name": ""}]},
            "metadata.ownerReferences[0].name: Required value: must not be empty",
            id="owner",
        ),
    ],
)
async def test_invalid_metadata_is_refused(metadata: Object, words: str) -> None:
    assert messages(await refused(Api("1.37"), MAPS, metadata=metadata)) == [words]


async def test_two_controlling_owners_are_refused() -> None:
    owners = [{**OWNER, "controller": True}, {**OWNER, "uid": "v", "name": "q", "controller": True}]
    (words,) = messages(await refused(Api(), MAPS, metadata={"ownerReferences": owners}))
    assert words.endswith(
        ': Only one reference can have Controller set to true. Found "true" in references for Pod/p and Pod/q'
    )


@each(
    ("resource", "name", "good"),
    [("namespaces", "a.b", False), ("clusterroles.rbac.authorization.k8s.io", "a:B", True)],
)
async def test_names_are_validated_by_kind(resource: str, name: str, good: bool) -> None:
    if good:
        assert await create(Api(), resource, name)
    else:
        assert messages(await refused(Api(), resource, name)) == [
            f'metadata.name: Invalid value: "{name}": must not contain dots'
        ]


async def test_a_terminating_object_gets_no_new_finalizers() -> None:
    api = Api()
    await create(api, MAPS, metadata={"finalizers": ["example.com/a"]})
    await api.delete(api.kind(MAPS), "default", "x", Caller("me"))
    error = await patch_refused(api, MAPS, {"metadata": {"finalizers": ["example.com/a", "example.com/b"]}})
    why = "no new finalizers can be added if the object is being deleted"
    found = 'found new finalizers []string{"example.com/b"}'
    assert messages(error) == [f"metadata.finalizers: Forbidden: {why}, {found}"]
