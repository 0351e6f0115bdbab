from __future__ import annotations

from typing import Any

import pytest

from gangctl.sandbox.server import Sandbox
from tests.rows import each
from tests.sandbox.wire import CONFIGMAPS, MERGE, PODS, Wire

_SERVER_MESSAGES = {
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
}


async def test_an_object_is_created_updated_patched_and_deleted(wire: Wire) -> None:
    created = await wire.send("POST", CONFIGMAPS, {"metadata": {"name": "a"}})
    assert created.status == 201
    updated = await wire.send("PUT", f"{CONFIGMAPS}/a", {**created.json, "data": {"k": "1"}})
    assert (updated.status, updated.json["data"]) == (200, {"k": "1"})
    patched = await wire.send("PATCH", f"{CONFIGMAPS}/a", {"data": {"k": "2"}}, content_type=MERGE)
    assert patched.json["data"] == {"k": "2"}
    assert (await wire.get(f"{CONFIGMAPS}/a")).json == patched.json
    deleted = await wire.send("DELETE", f"{CONFIGMAPS}/a")
    assert (deleted.status, deleted.json["status"]) == (200, "Success")
    assert (await wire.get(f"{CONFIGMAPS}/a")).status == 404


async def test_list_items_have_no_kind_except_of_custom_kinds(wire: Wire) -> None:
    await wire.configmap("a")
    listed = (await wire.get(CONFIGMAPS)).json
    assert (listed["kind"], listed["apiVersion"]) == ("ConfigMapList", "v1")
    assert "kind" not in listed["items"][0]
    assert (await wire.get("/api/v1/pods")).json["items"] == []


@each(
    ("method", "path", "status"),
    [
        ("GET", "/apis/batch/v1/nope", 404),
        ("GET", "/api/v1/nope", 404),
        ("GET", "/apis/batch/v9/jobs", 404),
        ("GET", "/api/v1/namespaces/default/nodes", 404),
        ("GET", "/api/v1/pods/p", 404),
        ("GET", f"{CONFIGMAPS}/a/status", 404),
        ("POST", f"{CONFIGMAPS}/a", 405),
        ("POST", "/api/v1/configmaps", 405),
        ("PUT", CONFIGMAPS, 405),
        ("DELETE", "/api/v1/namespaces", 405),
        ("GET", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", 405),
        ("PATCH", f"{PODS}/p/eviction", 405),
    ],
)
async def test_unserved_resources_and_methods_are_refused(wire: Wire, method: str, path: str, status: int) -> None:
    response = await wire.send(method, path)
    assert (response.status, response.message) == (status, _SERVER_MESSAGES[status])


@each("path", ["/foo", "/apis/nope", "/apis/nope/v1"])
async def test_an_unknown_path_is_answered_in_plain_text(wire: Wire, path: str) -> None:
    response = await wire.get(path)
    assert (response.status, response.text.strip()) == (404, "404 page not found")


@each(
    ("body", "content_type", "status", "message"),
    [
        (b'{"a":', "application/json", 400, "couldn't get version/kind; json parse error: "),
        (b"", "application/json", 400, "couldn't get version/kind; json parse error: "),
        (b"[]", "application/json", 400, "couldn't get version/kind; it is no object"),
        (b"{}", "application/yaml", 415, "the body of the request was in an unknown format"),
        (b"{}", "text/plain", 415, "the body of the request was in an unknown format"),
        (b"{}", "application/vnd.kubernetes.protobuf", 400, "provided data does not appear to be a protobuf message"),
    ],
    ids=["cut", "empty", "list", "yaml", "text", "protobuf"],
)
async def test_an_invalid_body_is_refused(
    wire: Wire, body: bytes, content_type: str, status: int, message: str
) -> None:
    response = await wire.send("POST", CONFIGMAPS, body, content_type=content_type)
    assert response.status == status
    assert message in response.message


async def test_a_delete_takes_preconditions_from_its_body(wire: Wire) -> None:
    await wire.configmap("a")
    response = await wire.send("DELETE", f"{CONFIGMAPS}/a", {"preconditions": {"uid": "other"}})
    assert response.status == 409
    assert "the UID in the precondition (other)" in response.message


async def test_a_delete_takes_options_from_the_query(wire: Wire) -> None:
    await wire.configmap("a")
    assert (await wire.send("DELETE", f"{CONFIGMAPS}/a?dryRun=All")).status == 200
    marked = await wire.send("DELETE", f"{CONFIGMAPS}/a?propagationPolicy=Foreground")
    assert marked.json["metadata"]["finalizers"] == ["foregroundDeletion"]


async def test_warnings_are_returned_in_headers(wire: Wire) -> None:
    odd = {"metadata": {"name": "a"}, "odd": 1}
    response = await wire.send("POST", CONFIGMAPS, odd)
    assert response.warnings == ('299 - "unknown field \\"odd\\""',)
    strict = await wire.send("POST", f"{CONFIGMAPS}?fieldValidation=Strict", odd)
    assert strict.status == 400
    assert 'strict decoding error: unknown field "odd"' in strict.message


async def test_a_put_creates_where_the_kind_allows_it(wire: Wire) -> None:
    leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    assert (await wire.send("PUT", f"{leases}/a", {"metadata": {"name": "a"}})).status == 201
    assert (await wire.send("PUT", f"{CONFIGMAPS}/a", {"metadata": {"name": "a"}})).status == 404


async def test_a_pod_is_evicted(wire: Wire) -> None:
    spec = {"containers": [{"name": "a", "image": "b"}], "nodeName": "n"}
    await wire.send("POST", PODS, {"metadata": {"name": "p"}, "spec": spec})
    evicted = await wire.send("POST", f"{PODS}/p/eviction", {"metadata": {"name": "p"}})
    assert evicted.status == 201
    assert "deletionTimestamp" in (await wire.get(f"{PODS}/p")).json["metadata"]


async def test_reviews_are_answered(sandbox: Sandbox, wire: Wire) -> None:
    access = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    assert (await wire.send("POST", access, {"spec": {}})).json["status"] == {"allowed": True}
    tokens = "/apis/authentication.k8s.io/v1/tokenreviews"
    known = await wire.send("POST", tokens, {"spec": {"token": sandbox.token("somebody")}})
    assert known.json["status"]["user"]["username"] == "somebody"
    assert "error" in (await wire.send("POST", tokens, {"spec": {"token": "x"}})).json["status"]


@each("token", ["", "wrong"])
async def test_unauthenticated_clients_may_get_health_only(sandbox: Sandbox, token: str) -> None:
    async with Wire(sandbox.url, token) as stranger:
        assert (await stranger.get(CONFIGMAPS)).status == 401
        assert (await stranger.get("/apis")).status == 401
        assert (await stranger.get("/readyz")).text == "ok"
        assert (await stranger.get("/version")).status == 200


async def test_a_custom_resource_without_a_kind_is_refused(wire: Wire) -> None:
    response = await wire.send(
        "POST", "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets", {"metadata": {"name": "a"}}
    )
    assert response.status == 400
    assert "Object 'Kind' is missing in " in response.message


@pytest.mark.parametrize(
    ("content_type", "patch"),
    [("application/json", {}), ("text/plain", {})],
)
async def test_a_patch_without_a_patch_type_is_refused(wire: Wire, content_type: str, patch: Any) -> None:
    await wire.configmap("a")
    response = await wire.send("PATCH", f"{CONFIGMAPS}/a", patch, content_type=content_type)
    assert (response.status, response.message) == (415, "415: Unsupported Media Type")


async def test_a_strategic_patch_of_a_custom_kind_is_refused(wire: Wire) -> None:
    jobsets = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets/a"
    response = await wire.send("PATCH", jobsets, {}, content_type="application/strategic-merge-patch+json")
    assert response.status == 415
