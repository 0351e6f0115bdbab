from __future__ import annotations

import asyncio

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from gangctl.sandbox import watches
from gangctl.sandbox.api import SYSTEM, Api
from gangctl.sandbox.reads import WatchQuery
from gangctl.sandbox.server import Sandbox
from gangctl.sandbox.watches import StreamOptions, Watch, WatchStream
from tests.sandbox.wire import CONFIGMAPS, Wire


async def test_a_watch_of_a_namespace_receives_no_events_of_others(api: Api) -> None:
    kind = api.kind("configmaps")
    watch = Watch(api.store, kind, "kube-system", WatchQuery())
    for namespace in ("default", "kube-system"):
        await api.create(kind, namespace, {"metadata": {"name": f"in-{namespace}"}}, SYSTEM)
    assert [(event, stored.obj["metadata"]["name"]) for event, stored in watch.take()] == [("ADDED", "in-kube-system")]


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


class _UntilABookmark(web.StreamResponse):
    """A response whose client disconnects after the first bookmark."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = b""

    async def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent += data
        if b"BOOKMARK" in self.sent:
            raise ConnectionResetError


async def test_a_change_is_sent_before_a_bookmark_of_its_revision(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, response = api.kind("configmaps"), _UntilABookmark()
    watch = Watch(api.store, kind, None, WatchQuery(resource_version=str(api.store.revision)))

    async def begin(_: object) -> web.StreamResponse:
        return response

    async def change_in_the_turn_of_the_timeout() -> None:
        await api.create(kind, "default", {"metadata": {"generateName": "late-"}}, SYSTEM)
        stream._next_bookmark = 0.0
        raise TimeoutError

    monkeypatch.setattr(watches, "begin", begin)
    monkeypatch.setattr(watch, "wait", change_in_the_turn_of_the_timeout)
    stream = WatchStream(make_mocked_request("GET", "/"), watch, StreamOptions(bookmark_seconds=3600.0))
    await stream.run()
    assert [line[:14] for line in response.sent.splitlines()] == [b'{"type":"ADDED', b'{"type":"BOOKM']
