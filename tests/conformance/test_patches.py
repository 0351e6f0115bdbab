"""The three patches beside apply: what each makes of an object, and which of them are no patches."""

from typing import Any

import pytest

from tests.conformance.answers import refused, send
from tests.conformance.grounds import Server
from tests.conformance.objects import configmap, configmaps, create_pod, jobset, jobsets, pod, pods
from tests.controlplane.api import Object, Objects

REJECTED = "the server rejected our request due to an error in our request"


@pytest.fixture
async def path(server: Server, namespace: str) -> str:
    """A ConfigMap with data and labels."""
    await server.api.create(configmaps(namespace), configmap("a", {"k": "v", "j": "w"}, labels={"x": "1", "y": "2"}))
    return configmaps(namespace, "a")


async def test_merge_adds_replaces_and_removes_by_null(server: Server, path: str) -> None:
    patched = await server.api.patch(
        path, {"data": {"k": None, "j": "u", "n": "new"}, "metadata": {"labels": {"x": None}}}
    )
    assert patched["data"] == {"j": "u", "n": "new"}
    assert patched["metadata"]["labels"] == {"y": "2"}


async def test_an_empty_merge_changes_nothing(server: Server, path: str) -> None:
    before = await server.api.get(path)
    assert await server.api.patch(path, {}) == before


async def test_merge_replaces_lists(server: Server, namespace: str) -> None:
    rules = [{"name": name, "action": "FailJobSet"} for name in ("one", "two")]
    await server.api.create(jobsets(namespace), jobset(failurePolicy={"rules": rules}))
    patched = await server.api.patch(jobsets(namespace, "a"), {"metadata": {"finalizers": ["a.b/c", "a.b/d"]}})
    assert patched["metadata"]["finalizers"] == ["a.b/c", "a.b/d"]
    patched = await server.api.patch(jobsets(namespace, "a"), {"metadata": {"finalizers": ["a.b/e"]}})
    assert patched["metadata"]["finalizers"] == ["a.b/e"]
    patched = await server.api.patch(jobsets(namespace, "a"), {"metadata": {"finalizers": None}})
    assert "finalizers" not in patched["metadata"]


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        ({"data": []}, "cannot unmarshal array into Go struct field ConfigMap.data of type map[string]string"),
        ({"data": {"k": 5}}, "cannot unmarshal number into Go struct field ConfigMap.data of type string"),
    ],
    ids=["list-for-map", "number-for-text"],
)
async def test_merge_must_keep_the_types(server: Server, path: str, patch: Object, words: str) -> None:
    await refused(server.api.patch(path, patch), 422, "Invalid", saying=words, causes=[("FieldValueInvalid", "patch")])


@pytest.mark.parametrize("body", ["[]", '"x"', "{bad"], ids=["list", "text", "not-json"])
async def test_a_merge_patch_is_an_object(server: Server, path: str, body: str) -> None:
    answer = await send(server.api, "PATCH", path, body, "application/merge-patch+json")
    assert (answer.status, answer.body["reason"]) == (400, "BadRequest")


async def test_a_patch_does_not_rename(server: Server, path: str) -> None:
    await refused(
        server.api.patch(path, {"metadata": {"name": "z"}}),
        400,
        "BadRequest",
        "the name of the object (z) does not match the name on the URL (a)",
    )


def _operation(op: str, at: str, **fields: Any) -> Object:
    return {"op": op, "path": at, **fields}


@pytest.mark.parametrize(
    ("operations", "data"),
    [
        pytest.param([_operation("add", "/data/z", value="1")], {"k": "v", "j": "w", "z": "1"}, id="add"),
        pytest.param([_operation("add", "/data/k", value="1")], {"k": "1", "j": "w"}, id="add-over"),
        pytest.param([_operation("replace", "/data/k", value="1")], {"k": "1", "j": "w"}, id="replace"),
        pytest.param([_operation("remove", "/data/k")], {"j": "w"}, id="remove"),
        pytest.param([_operation("move", "/data/z", **{"from": "/data/k"})], {"z": "v", "j": "w"}, id="move"),
        pytest.param([_operation("copy", "/data/z", **{"from": "/data/k"})], {"k": "v", "z": "v", "j": "w"}, id="copy"),
        pytest.param(
            [_operation("test", "/data/k", value="v"), _operation("remove", "/data/k")], {"j": "w"}, id="test-holds"
        ),
        pytest.param([], {"k": "v", "j": "w"}, id="nothing"),
    ],
)
async def test_json_patch_carries_out(server: Server, path: str, operations: Objects, data: Object) -> None:
    patched = await server.api.patch(path, operations, kind="json")
    assert patched["data"] == data


async def test_json_patch_escapes_slashes(server: Server, path: str) -> None:
    patched = await server.api.patch(path, [_operation("add", "/metadata/labels/a.b~1c", value="1")], kind="json")
    assert patched["metadata"]["labels"] == {"x": "1", "y": "2", "a.b/c": "1"}


@pytest.mark.parametrize(
    "operations",
    [
        pytest.param([_operation("test", "/data/k", value="other")], id="test-fails"),
        pytest.param([_operation("test", "/data/missing", value="v")], id="test-of-nothing"),
        pytest.param([_operation("remove", "/data/missing")], id="remove-of-nothing"),
        pytest.param([_operation("add", "/none/deep", value="v")], id="add-below-nothing"),
        pytest.param([_operation("add", "no-slash", value="v")], id="bad-pointer"),
        pytest.param([_operation("frob", "/data/k", value="v")], id="unknown-operation"),
        pytest.param([{"op": "add", "value": "v"}], id="no-path"),
    ],
)
async def test_json_patch_fails_as_a_whole(server: Server, path: str, operations: Objects) -> None:
    before = await server.api.get(path)
    first = _operation("add", "/data/z", value="1")
    await refused(server.api.patch(path, [first, *operations], kind="json"), 422, "Invalid", REJECTED, causes=[])
    assert await server.api.get(path) == before


@pytest.mark.parametrize("body", ['{"op": "add"}', "garbage"], ids=["object", "not-json"])
async def test_a_json_patch_is_a_list(server: Server, path: str, body: str) -> None:
    answer = await send(server.api, "PATCH", path, body, "application/json-patch+json")
    assert (answer.status, answer.body["reason"]) == (400, "BadRequest")


async def test_strategic_merges_conditions_by_type(server: Server, namespace: str) -> None:
    await create_pod(server, namespace, pod())

    async def patched(*conditions: Object) -> dict[str, str]:
        answer = await server.api.patch(
            f"{pods(namespace, 'a')}/status", {"status": {"conditions": list(conditions)}}, kind="strategic"
        )
        return {each["type"]: each["status"] for each in answer["status"]["conditions"]}

    assert await patched({"type": "A", "status": "True"}) == {"A": "True"}
    both = await patched({"type": "B", "status": "True"}, {"type": "A", "status": "False"})
    assert both == {"A": "False", "B": "True"}
    assert await patched({"$patch": "delete", "type": "A"}) == {"B": "True"}
    assert await patched({"$patch": "replace"}, {"type": "C", "status": "True"}) == {"C": "True"}


async def test_merge_replaces_conditions(server: Server, namespace: str) -> None:
    await create_pod(server, namespace, pod())
    for name in ("A", "B"):
        answer = await server.api.patch(
            f"{pods(namespace, 'a')}/status", {"status": {"conditions": [{"type": name, "status": "True"}]}}
        )
    assert [each["type"] for each in answer["status"]["conditions"]] == ["B"]


async def test_strategic_merges_containers_by_name(server: Server, namespace: str) -> None:
    await create_pod(server, namespace, pod())
    patched = await server.api.patch(
        pods(namespace, "a"), {"spec": {"containers": [{"name": "c", "image": "j"}]}}, kind="strategic"
    )
    (container,) = patched["spec"]["containers"]
    assert (container["name"], container["image"], container["imagePullPolicy"]) == ("c", "j", "Always")


async def test_strategic_needs_the_merge_key(server: Server, namespace: str) -> None:
    await create_pod(server, namespace, pod())
    await refused(
        server.api.patch(pods(namespace, "a"), {"spec": {"containers": [{"image": "j"}]}}, kind="strategic"),
        500,
        "",
        "map: map[image:j] does not contain declared merge key: name",
    )


async def test_strategic_adds_finalizers_to_those_that_are_there(server: Server, path: str) -> None:
    for name in ("a.b/c", "a.b/d"):
        patched = await server.api.patch(path, {"metadata": {"finalizers": [name]}}, kind="strategic")
    assert sorted(patched["metadata"]["finalizers"]) == ["a.b/c", "a.b/d"]
    deletion = {"$deleteFromPrimitiveList/finalizers": ["a.b/c", "a.b/d"]}
    patched = await server.api.patch(path, {"metadata": deletion}, kind="strategic")
    assert "finalizers" not in patched["metadata"]


async def test_strategic_merges_maps_and_replaces_them_on_demand(server: Server, path: str) -> None:
    patched = await server.api.patch(path, {"metadata": {"labels": {"z": "3", "x": None}}}, kind="strategic")
    assert patched["metadata"]["labels"] == {"y": "2", "z": "3"}
    patched = await server.api.patch(path, {"metadata": {"labels": {"$patch": "replace", "n": "1"}}}, kind="strategic")
    assert patched["metadata"]["labels"] == {"n": "1"}


async def test_custom_resources_have_no_strategic_merge(server: Server, namespace: str) -> None:
    await server.api.create(jobsets(namespace), jobset())
    await refused(
        server.api.patch(jobsets(namespace, "a"), {}, kind="strategic"),
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
    )
