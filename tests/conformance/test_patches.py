"""The three patches beside apply: what each makes of an object, and which of them are no patches."""

from typing import Any

import pytest

from tests.conformance.answers import Refusal, bad_request, invalid, send
from tests.conformance.grounds import Server
from tests.conformance.objects import configmap, configmaps, create_pod, jobset, jobsets, pod, pods
from tests.controlplane.api import Object, Objects
from tests.rows import each

REJECTED = "the server rejected our request due to an error in our request"


async def stored(server: Server, namespace: str, name: str) -> str:
    """The path of a ConfigMap with data and labels."""
    await server.api.create(configmaps(namespace), configmap(name, {"k": "v", "j": "w"}, labels={"x": "1", "y": "2"}))
    return configmaps(namespace, name)


@pytest.fixture
async def path(server: Server, namespace: str) -> str:
    return await stored(server, namespace, "a")


async def test_a_merge_patch_sets_and_removes_fields(server: Server, path: str) -> None:
    # An empty merge changes nothing.
    before = await server.api.get(path)
    assert await server.api.patch(path, {}) == before

    # A patch does not rename.
    await bad_request(
        server.api.patch(path, {"metadata": {"name": "z"}}),
        "the name of the object (z) does not match the name on the URL (a)",
    )

    # Merge adds replaces and removes by null.
    patched = await server.api.patch(
        path, {"data": {"k": None, "j": "u", "n": "new"}, "metadata": {"labels": {"x": None}}}
    )
    assert patched["data"] == {"j": "u", "n": "new"}
    assert patched["metadata"]["labels"] == {"y": "2"}


async def test_a_merge_patch_replaces_lists(server: Server, namespace: str) -> None:
    # Merge replaces lists.
    rules = [{"name": name, "action": "FailJobSet"} for name in ("one", "two")]
    await server.api.create(jobsets(namespace), jobset(failurePolicy={"rules": rules}))
    patched = await server.api.patch(jobsets(namespace, "a"), {"metadata": {"finalizers": ["a.b/c", "a.b/d"]}})
    assert patched["metadata"]["finalizers"] == ["a.b/c", "a.b/d"]
    patched = await server.api.patch(jobsets(namespace, "a"), {"metadata": {"finalizers": ["a.b/e"]}})
    assert patched["metadata"]["finalizers"] == ["a.b/e"]
    patched = await server.api.patch(jobsets(namespace, "a"), {"metadata": {"finalizers": None}})
    assert "finalizers" not in patched["metadata"]

    # Merge replaces conditions.
    await create_pod(server, namespace, pod())
    for name in ("A", "B"):
        answer = await server.api.patch(
            f"{pods(namespace, 'a')}/status", {"status": {"conditions": [{"type": name, "status": "True"}]}}
        )
    assert [each["type"] for each in answer["status"]["conditions"]] == ["B"]


@each("body", ["[]", '"x"', "{bad"], ids=["list", "text", "not-json"])
async def test_a_merge_patch_that_is_no_object_is_refused(server: Server, path: str, body: str) -> None:
    answer = await send(server.api, "PATCH", path, body, "application/merge-patch+json")
    assert (answer.status, answer.body["reason"]) == (400, "BadRequest")


def _operation(op: str, at: str, **fields: Any) -> Object:
    return {"op": op, "path": at, **fields}


@each(
    ("name", "operations", "data"),
    [
        ("add", [_operation("add", "/data/z", value="1")], {"k": "v", "j": "w", "z": "1"}),
        ("add-over", [_operation("add", "/data/k", value="1")], {"k": "1", "j": "w"}),
        ("replace", [_operation("replace", "/data/k", value="1")], {"k": "1", "j": "w"}),
        ("remove", [_operation("remove", "/data/k")], {"j": "w"}),
        ("move", [_operation("move", "/data/z", **{"from": "/data/k"})], {"z": "v", "j": "w"}),
        ("copy", [_operation("copy", "/data/z", **{"from": "/data/k"})], {"k": "v", "z": "v", "j": "w"}),
        ("test-holds", [_operation("test", "/data/k", value="v"), _operation("remove", "/data/k")], {"j": "w"}),
        ("nothing", [], {"k": "v", "j": "w"}),
    ],
)
async def test_a_json_patch_is_applied_in_order(
    server: Server, namespace: str, name: str, operations: Objects, data: Object
) -> None:
    path = await stored(server, namespace, name)
    patched = await server.api.patch(path, operations, kind="json")
    assert patched["data"] == data


async def test_a_json_patch_escapes_slashes(server: Server, path: str) -> None:
    patched = await server.api.patch(path, [_operation("add", "/metadata/labels/a.b~1c", value="1")], kind="json")
    assert patched["metadata"]["labels"] == {"x": "1", "y": "2", "a.b/c": "1"}


@each(
    "operations",
    [
        [_operation("test", "/data/k", value="other")],
        [_operation("test", "/data/missing", value="v")],
        [_operation("remove", "/data/missing")],
        [_operation("add", "/none/deep", value="v")],
        [_operation("add", "no-slash", value="v")],
        [_operation("frob", "/data/k", value="v")],
        [{"op": "add", "value": "v"}],
    ],
)
async def test_a_json_patch_fails_as_a_whole(server: Server, path: str, operations: Objects) -> None:
    before = await server.api.get(path)
    first = _operation("add", "/data/z", value="1")
    await invalid(server.api.patch(path, [first, *operations], kind="json"), REJECTED, causes=[])
    assert await server.api.get(path) == before


@each("body", ['{"op": "add"}', "garbage"], ids=["object", "not-json"])
async def test_a_json_patch_that_is_no_list_is_refused(server: Server, path: str, body: str) -> None:
    answer = await send(server.api, "PATCH", path, body, "application/json-patch+json")
    assert (answer.status, answer.body["reason"]) == (400, "BadRequest")


async def test_a_strategic_patch_merges_lists_by_key(server: Server, namespace: str) -> None:
    # Strategic merges conditions by type.
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

    # Strategic merges containers by name.
    await create_pod(server, namespace, pod("b"))
    changed = await server.api.patch(
        pods(namespace, "b"), {"spec": {"containers": [{"name": "c", "image": "j"}]}}, kind="strategic"
    )
    (container,) = changed["spec"]["containers"]
    assert (container["name"], container["image"], container["imagePullPolicy"]) == ("c", "j", "Always")

    # Strategic needs the merge key.
    await create_pod(server, namespace, pod("c"))
    await Refusal(500, "")(
        server.api.patch(pods(namespace, "c"), {"spec": {"containers": [{"image": "j"}]}}, kind="strategic"),
        saying="does not contain declared merge key: name",
    )

    # Custom resources have no strategic merge.
    await server.api.create(jobsets(namespace), jobset())
    await Refusal(415, "UnsupportedMediaType")(
        server.api.patch(jobsets(namespace, "a"), {}, kind="strategic"),
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
    )


async def test_a_strategic_patch_merges_finalizers_and_maps(server: Server, path: str) -> None:
    # Strategic adds finalizers to those that are there.
    for name in ("a.b/c", "a.b/d"):
        patched = await server.api.patch(path, {"metadata": {"finalizers": [name]}}, kind="strategic")
    assert sorted(patched["metadata"]["finalizers"]) == ["a.b/c", "a.b/d"]
    deletion = {"$deleteFromPrimitiveList/finalizers": ["a.b/c", "a.b/d"]}
    patched = await server.api.patch(path, {"metadata": deletion}, kind="strategic")
    assert "finalizers" not in patched["metadata"]

    # Strategic merges maps and replaces them on demand.
    patched = await server.api.patch(path, {"metadata": {"labels": {"z": "3", "x": None}}}, kind="strategic")
    assert patched["metadata"]["labels"] == {"y": "2", "z": "3"}
    patched = await server.api.patch(path, {"metadata": {"labels": {"$patch": "replace", "n": "1"}}}, kind="strategic")
    assert patched["metadata"]["labels"] == {"n": "1"}
