"""Which generation is served: a gain is reported at once, a loss after a second check."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest
from aiohttp import web

from gangctl.api.scheduling import ApiState, Feature, Generation
from gangctl.client.client import Client
from gangctl.controllers.discovery import DiscoveryLoop, discover
from gangctl.sandbox.discovery import document
from gangctl.sandbox.registry import Registry
from tests.client.server import ScriptedServer, obj, page, status

ROOT = "/apis/scheduling.k8s.io"
JOBS = "/apis/batch/v1/namespaces/home/jobs"
WORKLOADS = f"{ROOT}/v1beta1/namespaces/home/workloads"
SERVED = obj({"kind": "APIGroup", "versions": [{"version": "v1beta1"}]})
NOTHING = obj({"kind": "APIGroup", "versions": []})
LEFTOVER = 'storage is (re)initializing: no kind "Workload" is registered for version "scheduling.k8s.io/v1alpha2" in x'


async def _echo(request: web.Request) -> web.StreamResponse:
    assert request.query["dryRun"] == "All"
    return web.json_response(await request.json(), status=201)


async def _drop(request: web.Request) -> web.StreamResponse:
    workload = await request.json()
    del workload["spec"]["podGroupTemplates"][0]["resourceClaims"]
    return web.json_response(workload, status=201)


async def _unready(request: web.Request) -> web.StreamResponse:
    """Etcd answers a list without a selector where the watch cache is not ready, one page of it: all new objects."""
    if {"labelSelector", "fieldSelector"} & request.query.keys():
        return await status(429, "TooManyRequests", LEFTOVER)(request)
    return await page({"metadata": {"name": "new"}}, token="more", remaining=9999)(request)


def serve(server: ScriptedServer, *groups: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> None:
    """Serve v1beta1, with these answers to the question for versions one after the other."""
    server.on("GET", ROOT, *groups)
    serve_version(server, "v1beta1")
    server.on("POST", JOBS, _echo)


def serve_version(server: ScriptedServer, version: str) -> None:
    """Serve one version, without objects."""
    server.on("GET", f"{ROOT}/{version}", obj({"resources": [{"name": "workloads"}, {"name": "podgroups"}]}))
    server.on("GET", f"{ROOT}/{version}/workloads", page())
    server.on("GET", f"{ROOT}/{version}/podgroups", page())
    server.on("POST", f"{ROOT}/{version}/namespaces/home/workloads", _echo)


async def states(client: Client, count: int) -> list[ApiState]:
    """The first states that a loop reports."""
    reported: list[ApiState] = []
    enough = asyncio.Event()

    async def on_change(state: ApiState) -> None:
        reported.append(state)
        if len(reported) >= count:
            enough.set()

    loop = DiscoveryLoop(client, "home", on_change, period_seconds=0.01, confirm_seconds=0.01)
    task = asyncio.create_task(loop.run())
    await asyncio.wait_for(enough.wait(), 300)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    return reported


async def test_undecodable_objects_are_reported_and_gangs_are_unavailable(
    server: ScriptedServer, client: Client
) -> None:
    serve(server, SERVED)
    server.on("GET", f"{ROOT}/v1beta1/podgroups", _unready)
    state = await discover(client, "home")
    assert not state.available
    assert "cannot read the Workload objects that an earlier Kubernetes stored as scheduling.k8s.io/v1alpha2" in (
        state.reason
    )
    assert server.count("POST") == 0


async def test_options_that_the_server_drops_are_known(server: ScriptedServer, client: Client) -> None:
    serve(server, SERVED)
    server.on("POST", WORKLOADS, _drop)
    assert (await discover(client, "home")).lacks == {Feature.CLAIMS, Feature.COMPOSITE}
    server.on("POST", WORKLOADS, status(403, "Forbidden", "a quota"))
    assert (await discover(client, "home")).lacks == {Feature.COMPOSITE}


@pytest.mark.parametrize("minor", ["1.38", "1.36"])
async def test_v1_is_used_if_its_schema_has_the_fields_of_gangctl(
    minor: str, server: ScriptedServer, client: Client
) -> None:
    """Beside that of 1.38, a document of 1.36: it has no PodGroup in v1."""
    schema = document(Registry(minor), "scheduling.k8s.io", "v1", lambda _: None)
    serve(server, obj({"kind": "APIGroup", "versions": [{"version": "v1"}, {"version": "v1beta1"}]}))
    serve_version(server, "v1")
    server.on("GET", "/openapi/v3/apis/scheduling.k8s.io/v1", obj(schema))
    state = await discover(client, "home")
    assert state.generation is (Generation.V1 if minor == "1.38" else Generation.V1BETA1)
    assert ("PodGroup does not exist" in state.reason) is (minor == "1.36")


@pytest.mark.parametrize("known", [True, False])
async def test_composites_need_their_fields_in_v1(known: bool, server: ScriptedServer, client: Client) -> None:
    schema = document(Registry("1.38"), "scheduling.k8s.io", "v1", lambda _: None) or {}
    if not known:
        group = schema["components"]["schemas"]["io.k8s.api.scheduling.v1beta1.PodGroupSpec"]
        del group["properties"]["parentCompositePodGroupName"]
    serve(server, obj({"kind": "APIGroup", "versions": [{"version": "v1"}, {"version": "v1alpha3"}]}))
    serve_version(server, "v1")
    server.on("GET", f"{ROOT}/v1alpha3", obj({"resources": [{"name": "compositepodgroups"}]}))
    server.on("GET", f"{ROOT}/v1alpha3/compositepodgroups", page())
    server.on("GET", "/openapi/v3/apis/scheduling.k8s.io/v1", obj(schema))
    state = await discover(client, "home")
    assert (state.generation, state.composite) == (Generation.V1, "v1alpha3" if known else "")


@pytest.mark.parametrize("refusal", [(403, "Forbidden", "a ClusterRole of before"), (400, "BadRequest", LEFTOVER)])
async def test_composites_that_cannot_be_listed_are_not_used(
    refusal: tuple[int, str, str], server: ScriptedServer, client: Client
) -> None:
    """Their cache would never be synced, and nothing be known of all other gangs."""
    serve(server, obj({"kind": "APIGroup", "versions": [{"version": "v1beta1"}, {"version": "v1alpha3"}]}))
    server.on("GET", f"{ROOT}/v1alpha3", obj({"resources": [{"name": "compositepodgroups"}]}))
    server.on("GET", f"{ROOT}/v1alpha3/compositepodgroups", status(*refusal))
    state = await discover(client, "home")
    assert (state.generation, state.composite) == (Generation.V1BETA1, "")
    assert state.reason == f"CompositePodGroups in v1alpha3 cannot be listed: {refusal[2]}"


async def test_v1_is_not_used_without_its_schema(server: ScriptedServer, client: Client) -> None:
    serve(server, obj({"kind": "APIGroup", "versions": [{"version": "v1"}]}))
    serve_version(server, "v1")
    server.on("GET", "/openapi/v3/apis/scheduling.k8s.io/v1", status(403, "Forbidden", "no"))
    state = await discover(client, "home")
    assert not state.available
    assert "its OpenAPI document cannot be read (Forbidden)" in state.reason


async def test_an_option_that_is_dropped_is_checked_again_before_it_counts(
    server: ScriptedServer, client: Client
) -> None:
    serve(server, SERVED)
    server.on("POST", WORKLOADS, _echo, _drop, _echo, _drop)
    first, second = await states(client, 2)
    assert first.lacks == {Feature.COMPOSITE}
    assert second.lacks == {Feature.COMPOSITE, Feature.CLAIMS}
    assert server.count("POST", WORKLOADS) == 5


async def test_a_missing_api_is_checked_again_before_it_counts_as_lost(server: ScriptedServer, client: Client) -> None:
    serve(server, SERVED, NOTHING, SERVED, NOTHING)
    first, second = await states(client, 2)
    assert (first.available, second.available) == (True, False)
    assert server.count("GET", ROOT) == 5


async def test_an_api_that_was_never_served_is_reported_at_once(server: ScriptedServer, client: Client) -> None:
    serve(server, NOTHING, SERVED)
    assert [state.available for state in await states(client, 2)] == [False, True]


async def test_an_unreachable_server_is_retried_soon(server: ScriptedServer, client: Client) -> None:
    serve(server, status(403, "Forbidden", "not while it starts"), SERVED)
    reported: asyncio.Queue[ApiState] = asyncio.Queue()
    loop = DiscoveryLoop(client, "home", reported.put, period_seconds=3600)
    task = asyncio.create_task(loop.run())
    assert (await asyncio.wait_for(reported.get(), 300)).available
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
