from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gangctl.sandbox.api import SYSTEM, Api, Caller
from gangctl.sandbox.errors import StatusError
from gangctl.sandbox.server import Sandbox
from gangctl.sandbox.watches import Watch, WatchQuery
from tests.sandbox.wire import CONFIGMAPS, Wire

ME = Caller("me")


async def _write(api: Api, name: str, label: str) -> None:
    kind = api.kind("configmaps")
    patch = {"metadata": {"labels": {"l": label}}}
    if api.store.get("configmaps", ("default", name)) is None:
        await api.create(kind, "default", {"metadata": {"name": name, "labels": {"l": label}}}, ME)
    else:
        await api.patch(kind, "default", name, patch, "merge", ME)


def _watch(api: Api, namespace: str | None = None, **query: Any) -> Watch:
    return Watch(api.store, api.kind("configmaps"), namespace, WatchQuery(**query))


def _events(watch: Watch) -> list[tuple[str, str]]:
    return [(event, stored.obj["metadata"].get("name", "")) for event, stored in watch.take()]


async def test_an_object_that_enters_or_leaves_the_selection_is_added_or_deleted(api: Api) -> None:
    selected = _watch(api, "default", labels="l=1")
    for label in ("0", "1", "1", "2", "1"):
        await _write(api, "a", label)
    await api.patch(api.kind("configmaps"), "default", "a", {"data": {"k": "v"}}, "merge", ME)
    await api.delete(api.kind("configmaps"), "default", "a", ME)
    assert [event for event, _ in _events(selected)] == ["ADDED", "DELETED", "ADDED", "MODIFIED", "DELETED"]


async def test_an_object_that_leaves_the_selection_is_sent_in_its_last_selected_state(api: Api) -> None:
    selected = _watch(api, "default", labels="l=1")
    await _write(api, "a", "1")
    await _write(api, "a", "2")
    _, (_, left) = selected.take()
    assert left.obj["metadata"]["labels"] == {"l": "1"}
    assert left.obj["metadata"]["resourceVersion"] == str(api.store.revision)


async def test_a_watch_from_the_start_begins_with_the_existing_objects(api: Api) -> None:
    await _write(api, "a", "1")
    watch = _watch(api, bookmarks=True, initial_events=True)
    await _write(api, "b", "1")
    assert _events(watch) == [("ADDED", "a"), ("BOOKMARK", ""), ("ADDED", "b")]


async def test_a_watch_continues_from_the_revision_of_a_list(api: Api) -> None:
    await _write(api, "a", "1")
    listed = await api.list(api.kind("configmaps"))
    await _write(api, "b", "1")
    await _write(api, "a", "2")
    watch = _watch(api, resource_version=listed.resource_version)
    assert _events(watch) == [("ADDED", "b"), ("MODIFIED", "a")]


async def test_a_watch_of_a_namespace_receives_no_events_of_others(api: Api) -> None:
    watch = _watch(api, "kube-system")
    await _write(api, "a", "1")
    await api.create(api.kind("configmaps"), "kube-system", {"metadata": {"name": "b"}}, SYSTEM)
    assert _events(watch) == [("ADDED", "b")]


async def test_a_watch_from_a_compacted_revision_is_expired(api: Api) -> None:
    with pytest.raises(StatusError, match="410 Expired: too old resource version: 1 "):
        _watch(api, resource_version="1")
    revision = str(api.store.revision)
    await _write(api, "a", "1")
    api.store.compact()
    with pytest.raises(StatusError, match=f"410 Expired: too old resource version: {revision} "):
        _watch(api, resource_version=revision)


async def test_over_http_a_watch_ends_in_time_and_marks_the_initial_events(sandbox: Sandbox, wire: Wire) -> None:
    await wire.configmap("a")
    initial = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    answer = await wire.get(f"{CONFIGMAPS}?watch=true&timeoutSeconds=1&{initial}")
    assert [event["type"] for event in answer.events] == ["ADDED", "BOOKMARK"]
    mark = answer.events[1]["object"]["metadata"]
    assert mark["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert mark["resourceVersion"] == str(sandbox.api.store.revision)


async def test_over_http_a_forgotten_revision_is_an_error_event(sandbox: Sandbox, wire: Wire) -> None:
    await wire.configmap("a")
    sandbox.api.store.compact()
    answer = await wire.get(f"{CONFIGMAPS}?watch=true&resourceVersion=2")
    assert answer.status == 200
    (event,) = answer.events
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")


async def test_over_http_events_are_sent_at_once(wire: Wire) -> None:
    url = f"{CONFIGMAPS}?watch=true&resourceVersion=0"
    async with wire.session.get(f"{wire._url}{url}") as response:
        await wire.configmap("a")
        async with asyncio.timeout(300):
            assert b'"name":"a"' in await response.content.readline()


async def test_the_server_ends_its_watches_when_it_closes(sandbox: Sandbox, wire: Wire) -> None:
    async with wire.session.get(f"{wire._url}{CONFIGMAPS}?watch=true&resourceVersion=0") as response:
        await sandbox.close()
        async with asyncio.timeout(300):
            assert await response.content.read() == b""
    assert not sandbox.api.store.bucket("configmaps").subscriptions


async def test_bookmarks_are_sent_regularly_when_requested(sandbox: Sandbox, wire: Wire) -> None:
    sandbox._front.bookmark_seconds = 0.05
    url = f"{wire._url}{CONFIGMAPS}?watch=true&resourceVersion={sandbox.api.store.revision}&allowWatchBookmarks=true"
    async with wire.session.get(url) as response, asyncio.timeout(300):
        for _ in range(2):
            assert (await response.content.readline()).startswith(b'{"type":"BOOKMARK"')
