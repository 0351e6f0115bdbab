from __future__ import annotations

from gangctl.sandbox.server import Sandbox
from tests.rows import each
from tests.sandbox.wire import CONFIGMAPS, MERGE, PODS, Wire


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


async def test_a_delete_takes_preconditions_from_its_body(wire: Wire) -> None:
    await wire.configmap("a")
    response = await wire.send("DELETE", f"{CONFIGMAPS}/a", {"preconditions": {"uid": "other"}})
    assert response.status == 409
    assert "the uid in the precondition (other)" in response.message


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
