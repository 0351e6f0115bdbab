from __future__ import annotations

import asyncio
from contextlib import aclosing, nullcontext
from typing import Any

import pytest

from gangctl.client.client import Client, Selection, Settings
from gangctl.client.resources import JOBS, JOBSETS, PODS
from gangctl.client.transport import Transport
from gangctl.errors import ConflictError, GoneError, LeadershipLostError, NotFoundError, ServerError
from tests.client.server import ScriptedServer, Stream, obj, page, status, status_object, text, thing
from tests.resources import CUSTOM_RESOURCE_DEFINITIONS

PODS_PATH = "/api/v1/namespaces/ns/pods"


async def test_get_reads_an_object(server: ScriptedServer, client: Client) -> None:
    server.on("GET", f"{PODS_PATH}/p", obj(thing("p")))
    assert await client.get(PODS, "p", "ns") == thing("p")


async def test_list_follows_the_pages(server: ScriptedServer, client: Client) -> None:
    server.on(
        "GET",
        "/api/v1/pods",
        page(thing("a"), thing("b"), version="9", token="t1", remaining=3),
        page(thing("c"), version="9", token="t2", remaining=1),
        page(thing("d"), version="9"),
    )
    selection = Selection(label_selector="a=b,c", field_selector="status.phase=Running")
    whole = await client.list(PODS, selection=selection)
    assert [item["metadata"]["name"] for item in whole.items] == ["a", "b", "c", "d"]
    assert whole.resource_version == "9"
    assert [seen.query.get("continue") for seen in server.seen] == [None, "t1", "t2"]
    assert all(seen.query["limit"] == "500" for seen in server.seen)
    assert all(seen.query["labelSelector"] == "a=b,c" for seen in server.seen)
    assert all(seen.query["fieldSelector"] == "status.phase=Running" for seen in server.seen)


async def test_the_next_page_can_be_requested_ahead(server: ScriptedServer, client: Client) -> None:
    server.on("GET", "/api/v1/pods", page(thing("a"), token="t1"), page(thing("b"), token="t2"), page(thing("c")))
    names = []
    async with aclosing(client.pages(PODS, limit=1, ahead=True)) as pages:
        async for each in pages:
            names.append(each.items[0]["metadata"]["name"])
            wanted = min(3, len(names) + 1)
            await server.until(lambda wanted=wanted: len(server.seen) == wanted)  # type: ignore[misc]
    assert names == ["a", "b", "c"]
    assert [seen.query.get("continue") for seen in server.seen] == [None, "t1", "t2"]


@pytest.mark.parametrize("ahead", [False, True])
async def test_a_failed_page_is_raised_after_the_earlier_pages(
    server: ScriptedServer, client: Client, ahead: bool
) -> None:
    server.on("GET", "/api/v1/pods", page(thing("a"), token="t1"), status(410, "Expired"))
    async with aclosing(client.pages(PODS, ahead=ahead)) as pages:
        assert (await anext(pages)).items == [thing("a")], "the page that came before is the caller's all the same"
        if ahead:
            await server.until(lambda: len(server.seen) == 2)
        with pytest.raises(GoneError):
            await anext(pages)


async def test_closing_the_pages_early_cancels_the_next_request(server: ScriptedServer, client: Client) -> None:
    silent = Stream()
    server.on("GET", "/api/v1/pods", page(thing("a"), token="t1"), silent)
    async with aclosing(client.pages(PODS, ahead=True)) as pages:
        await anext(pages)
        await silent.opened.wait()
    async with asyncio.timeout(300):
        await silent.closed.wait()


async def test_an_empty_list_may_have_null_items(server: ScriptedServer, client: Client) -> None:
    server.on("GET", PODS_PATH, obj({"items": None, "metadata": {"resourceVersion": "1"}}))
    assert (await client.list(PODS, "ns")).items == []


async def test_a_list_whose_continue_token_expires_is_an_error(server: ScriptedServer, client: Client) -> None:
    server.on("GET", "/api/v1/pods", page(thing("a"), token="t1"), status(410, "Expired"))
    with pytest.raises(GoneError):
        await client.list(PODS)


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("token", ["t2", "t1", ""])
async def test_a_list_that_need_not_be_of_one_version_goes_on(
    server: ScriptedServer, client: Client, token: str, ahead: bool
) -> None:
    refusal = status(410, "Expired", token=token)
    server.on("GET", "/api/v1/pods", page(thing("a"), token="t1"), refusal, page(thing("b")))
    names: list[str] = []
    with nullcontext() if token == "t2" else pytest.raises(GoneError):
        async with aclosing(client.pages(PODS, ahead=ahead, consistent=False)) as pages:
            async for part in pages:
                names += [item["metadata"]["name"] for item in part.items]
    assert names == ["a", "b"][: 2 if token == "t2" else 1]
    asked = [seen.query.get("continue") for seen in server.seen]
    assert asked == [None, "t1", "t2"][: len(names) + 1]


async def test_create_and_update_take_the_namespace_from_the_object(server: ScriptedServer, client: Client) -> None:
    server.on("POST", PODS_PATH, obj(thing("p"), code=201))
    server.on("PUT", f"{PODS_PATH}/p", obj(thing("p", 2)))
    server.on("PUT", f"{PODS_PATH}/p/status", obj(thing("p", 3)))
    assert await client.create(PODS, thing("p")) == thing("p")
    assert await client.update(PODS, thing("p")) == thing("p", 2)
    assert await client.update(PODS, thing("p"), subresource="status") == thing("p", 3)
    assert server.seen[0].body == thing("p")
    assert server.seen[0].query == {"fieldManager": "gangctl"}


async def test_patches_carry_their_content_type(server: ScriptedServer, client: Client) -> None:
    server.on("PATCH", f"{PODS_PATH}/p", obj(thing("p")))
    await client.merge_patch(PODS, "p", {"metadata": {"labels": {"a": None}}}, "ns")
    await client.json_patch(PODS, "p", [{"op": "remove", "path": "/x"}], "ns")
    await client.apply(PODS, {"metadata": {"name": "p", "namespace": "ns"}}, force=True)
    kinds = [seen.headers["Content-Type"] for seen in server.seen]
    assert kinds == ["application/merge-patch+json", "application/json-patch+json", "application/apply-patch+yaml"]
    assert server.seen[1].body == [{"op": "remove", "path": "/x"}]
    assert server.seen[2].body["kind"] == "Pod"
    assert server.seen[2].body["apiVersion"] == "v1"
    assert server.seen[2].query == {"fieldManager": "gangctl", "force": "true"}


async def test_a_create_can_be_a_dry_run(server: ScriptedServer, transport: Transport) -> None:
    client = Client(transport, Settings(field_manager="me"))
    server.on("POST", PODS_PATH, obj({}))
    await client.create(PODS, thing("p"), dry_run=True)
    assert server.seen[0].query == {"dryRun": "All", "fieldManager": "me"}


async def test_a_delete_sends_its_preconditions(server: ScriptedServer, client: Client) -> None:
    server.on("DELETE", f"{PODS_PATH}/p", obj({"kind": "Status", "status": "Success"}), status(409, "Conflict"))
    await client.delete(PODS, "p", "ns", uid="u", propagation="Foreground", grace_period_seconds=0)
    assert server.seen[0].body == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u"},
        "propagationPolicy": "Foreground",
        "gracePeriodSeconds": 0,
    }
    with pytest.raises(ConflictError):
        await client.delete(PODS, "p", "ns", uid="u")


async def test_an_eviction_may_fail_with_the_status_of_a_success(server: ScriptedServer, client: Client) -> None:
    """The API server answers so where two PodDisruptionBudgets select the pod."""
    failure = status_object(500, "", "This pod has more than one PodDisruptionBudget")
    server.on("POST", "/api/v1/namespaces/t/pods/p/eviction", obj(failure, code=201))
    with pytest.raises(ServerError, match="more than one"):
        await client.evict("t", "p", uid="u")


async def test_a_guard_stops_writes_but_not_reads_and_dry_runs(server: ScriptedServer, transport: Transport) -> None:
    def refuse() -> None:
        raise LeadershipLostError("not leading")

    client = Client(transport, Settings(guard=refuse))
    server.on("GET", f"{PODS_PATH}/p", obj({}))
    server.on("POST", PODS_PATH, obj({}))
    server.on("GET", "/api/v1/pods", page())
    await client.get(PODS, "p", "ns")
    await client.list(PODS)
    await client.create(PODS, thing("p"), dry_run=True)
    for write in (client.create(PODS, thing("p")), client.delete(PODS, "p", "ns"), client.apply(PODS, thing("p"))):
        with pytest.raises(LeadershipLostError):
            await write
    assert server.count() == 3


async def test_a_guard_is_checked_again_before_a_retry(server: ScriptedServer, transport: Transport) -> None:
    asked = 0

    def lead_once() -> None:
        nonlocal asked
        asked += 1
        if asked > 1:
            raise LeadershipLostError("not leading any more")

    client = Client(transport, Settings(guard=lead_once))
    server.on("POST", PODS_PATH, status(429, "TooManyRequests", headers={"Retry-After": "0"}))
    with pytest.raises(LeadershipLostError):
        await client.create(PODS, thing("p"))
    assert server.count() == 1


async def test_discovery_reads_versions_groups_and_resources(server: ScriptedServer, client: Client) -> None:
    versions = {"versions": [{"version": "v1beta1"}, {"version": "v1alpha2"}]}
    resources = [{"name": "jobsets", "kind": "JobSet", "namespaced": True, "verbs": ["get"]}]
    server.on("GET", "/version", obj({"gitVersion": "v1.37.1"}))
    server.on("GET", "/api", obj({"versions": ["v1"]}))
    server.on("GET", "/apis/scheduling.k8s.io", obj(versions))
    server.on("GET", "/apis/jobset.x-k8s.io/v1alpha2", obj({"resources": resources}))
    server.on("GET", "/api/v1", obj({"resources": [{"name": "pods"}]}))
    server.on("GET", "/openapi/v3", obj({"paths": {}}))
    server.on("GET", "/openapi/v3/apis/batch/v1", obj({"openapi": "3.0.0"}))
    discovery = client.discovery
    assert (await discovery.version())["gitVersion"] == "v1.37.1"
    assert await discovery.group_versions("") == ["v1"]
    assert await discovery.group_versions("scheduling.k8s.io") == ["v1beta1", "v1alpha2"]
    assert await discovery.group_versions("absent.example") == []
    assert await discovery.resources("jobset.x-k8s.io", "v1alpha2") == resources
    assert await discovery.resources("", "v1") == [{"name": "pods"}]
    assert await discovery.resources("absent.example", "v1") == []
    assert await discovery.serves(JOBSETS)
    assert await discovery.serves(PODS)
    assert not await discovery.serves(JOBS)
    assert await discovery.openapi_v3() == {"paths": {}}
    assert await discovery.openapi_v3("apis/batch/v1") == {"openapi": "3.0.0"}
    with pytest.raises(NotFoundError):
        await discovery.openapi_v3("apis/none/v1")


async def test_requests_are_reported_by_verb_and_resource(server: ScriptedServer) -> None:
    from tests.credentials import StaticCredentials  # noqa: PLC0415

    reported: list[tuple[Any, ...]] = []
    name = "things.example.com"
    path = CUSTOM_RESOURCE_DEFINITIONS.path(name=name)
    server.on("GET", path, obj({}))
    server.on("GET", "/api/v1/pods", page())
    server.on("PATCH", path, status(409, "Conflict"))

    def hook(verb: str, resource: str, code: int, seconds: float) -> None:
        assert seconds >= 0
        reported.append((verb, resource, code))

    async with Transport(StaticCredentials(server.url), on_request=hook) as transport:
        client = Client(transport)
        await client.get(CUSTOM_RESOURCE_DEFINITIONS, name)
        await client.list(PODS)
        with pytest.raises(ConflictError):
            await client.apply(CUSTOM_RESOURCE_DEFINITIONS, {"metadata": {"name": name}})
    resource = "customresourcedefinitions.apiextensions.k8s.io"
    assert reported == [("get", resource, 200), ("list", "pods", 200), ("apply", resource, 409)]


async def test_a_login_page_is_not_an_object(server: ScriptedServer, client: Client) -> None:
    server.on("GET", f"{PODS_PATH}/p", text("<html>log in</html>"))
    with pytest.raises(ServerError, match="log in"):
        await client.get(PODS, "p", "ns")
    assert server.count() == 1
