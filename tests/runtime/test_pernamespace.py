"""A collection that is followed in a changing set of namespaces, without requests for others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from gangctl.client.client import Client
from gangctl.client.resources import PODS
from gangctl.runtime.informer import InformerOptions
from gangctl.runtime.pernamespace import PerNamespaceInformer
from tests.client.clock import VirtualClock, until
from tests.client.server import ScriptedServer, Stream, hang, page, thing


class Wanted:
    """The wanted namespaces, which a test sets."""

    def __init__(self, *names: str) -> None:
        self.names = list(names)
        self._on_change: list[Callable[[], None]] = []

    def current(self) -> list[str]:
        return self.names

    def subscribe(self, on_change: Callable[[], None]) -> None:
        self._on_change.append(on_change)

    def become(self, *names: str) -> None:
        self.names = list(names)
        for call in self._on_change:
            call()


class Ground:
    """Pods of two namespaces, the informer and the changes that it reports."""

    def __init__(self, client: Client, server: ScriptedServer, clock: VirtualClock, *names: str) -> None:
        self.server, self.clock, self.wanted = server, clock, Wanted(*names)
        self.streams = {name: Stream() for name in ("a", "b")}
        for name, stream in self.streams.items():
            self.serve(name, stream, f"{name}-1")
        self.reported: list[tuple[str | None, str | None]] = []
        self.completions = 0
        self.informer = PerNamespaceInformer(
            client,
            PODS,
            lambda raw: str(raw["metadata"]["name"]),
            self.wanted,
            on_synced=self._note_synced,
            options=InformerOptions(),
            clock=clock,
            randomness=lambda: 0.0,
        )
        self.informer.subscribe(lambda old, new: self.reported.append((old, new)))
        self.task = asyncio.create_task(self.informer.run())

    def serve(self, namespace: str, stream: Stream, *names: str) -> None:
        pods = [thing(name, 1, namespace=namespace) for name in names]

        async def answer(request: Any) -> Any:
            return await (stream if "watch" in request.query else page(*pods))(request)

        self.server.on("GET", f"/api/v1/namespaces/{namespace}/pods", answer)

    def _note_synced(self) -> None:
        self.completions += 1

    def known(self) -> list[str]:
        return sorted(self.informer.store.values())

    def asked(self) -> set[str]:
        return {seen.path for seen in self.server.seen}

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@pytest.fixture
async def ground(client: Client, server: ScriptedServer, clock: VirtualClock) -> AsyncIterator[Ground]:
    ground = Ground(client, server, clock, "a")
    yield ground
    await ground.end()


async def test_only_wanted_namespaces_are_followed(ground: Ground) -> None:
    await ground.streams["a"].opened.wait()
    assert (ground.known(), ground.asked()) == (["a-1"], {"/api/v1/namespaces/a/pods"})
    assert (ground.informer.synced.is_set(), ground.completions) == (True, 1)
    ground.streams["a"].send("ADDED", thing("a-2", 2, namespace="a"))
    await until(lambda: ground.known() == ["a-1", "a-2"])


async def test_a_namespace_that_is_added_later_is_followed_too(ground: Ground) -> None:
    await ground.streams["a"].opened.wait()
    ground.wanted.become("a", "b")
    await ground.streams["b"].opened.wait()
    assert ground.known() == ["a-1", "b-1"]
    assert ground.reported == [(None, "a-1"), (None, "b-1")], "each is reported once, to subscribers from before"
    assert ground.completions == 1


async def test_objects_of_an_unwanted_namespace_are_dropped_and_reported_as_deleted(ground: Ground) -> None:
    ground.wanted.become("a", "b")
    await ground.streams["b"].opened.wait()
    await ground.streams["a"].opened.wait()
    ground.wanted.become("b")
    await until(lambda: ground.known() == ["b-1"])
    assert ground.reported[-1] == ("a-1", None)
    ground.wanted.become("a", "b")
    await until(lambda: ground.known() == ["a-1", "b-1"])


async def test_an_informer_without_wanted_namespaces_is_synced(
    client: Client, server: ScriptedServer, clock: VirtualClock
) -> None:
    ground = Ground(client, server, clock)
    await asyncio.wait_for(ground.informer.synced.wait(), 300)
    assert (ground.known(), ground.asked()) == ([], set())
    await ground.end()


async def test_the_contact_age_is_that_of_the_stalest_namespace(ground: Ground) -> None:
    """An informer without a response for long is stale; one that has nothing to follow is not."""
    await ground.streams["a"].opened.wait()
    await until(lambda: ground.informer._followed["a"].informer._opened is not None)
    await ground.clock.advance(5)
    assert ground.informer.contact_age() == 5
    ground.server.on("GET", "/api/v1/namespaces/b/pods", hang())
    ground.wanted.become("b")
    await until(lambda: ground.known() == [])
    await ground.clock.advance(3)
    assert ground.informer.contact_age() == 3, "it was asked for so long ago"
    ground.wanted.become()
    await until(lambda: ground.informer.contact_age() == 0)
    await ground.end()
    ground.informer.forget()
    assert ground.informer.contact_age() is None


async def test_a_relist_of_one_namespace_reports_only_its_own_deletions(ground: Ground) -> None:
    """A list of one namespace does not delete objects of another."""
    ground.wanted.become("a", "b")
    for stream in ground.streams.values():
        await stream.opened.wait()
    ground.serve("a", again := Stream(), "a-3")
    ground.streams["a"].send("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "status": "Failure"})
    ground.streams["a"].close()
    await until(lambda: ground.clock.pending)
    await ground.clock.advance(1)
    await again.opened.wait()
    assert ground.known() == ["a-3", "b-1"]


async def test_an_informer_lists_again_after_forget(ground: Ground) -> None:
    await ground.streams["a"].opened.wait()
    following = [ground.informer.following]
    await ground.end()
    assert [*following, ground.informer.following] == [True, False]
    ground.informer.forget()
    assert (ground.known(), ground.informer.synced.is_set()) == ([], False)
    ground.serve("a", again := Stream(), "a-4")
    ground.task = asyncio.create_task(ground.informer.run())
    await again.opened.wait()
    assert ground.known() == ["a-4"]
