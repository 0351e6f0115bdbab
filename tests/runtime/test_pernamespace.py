"""A collection followed in some namespaces: they come and go, and nothing is asked of others."""

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
    """Namespaces as a test says."""

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
    """Pods of two namespaces, the informer and what it tells."""

    def __init__(self, client: Client, server: ScriptedServer, clock: VirtualClock, *names: str) -> None:
        self.server, self.clock, self.wanted = server, clock, Wanted(*names)
        self.streams = {name: Stream() for name in ("a", "b")}
        for name, stream in self.streams.items():
            self.serve(name, stream, f"{name}-1")
        self.told: list[tuple[str | None, str | None]] = []
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
        self.informer.subscribe(lambda old, new: self.told.append((old, new)))
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


async def test_only_namespaces_of_interest_are_followed(ground: Ground) -> None:
    await ground.streams["a"].opened.wait()
    assert (ground.known(), ground.asked()) == (["a-1"], {"/api/v1/namespaces/a/pods"})
    assert (ground.informer.synced.is_set(), ground.completions) == (True, 1)
    ground.streams["a"].send("ADDED", thing("a-2", 2, namespace="a"))
    await until(lambda: ground.known() == ["a-1", "a-2"])


async def test_one_that_comes_later_is_followed_beside_the_others(ground: Ground) -> None:
    await ground.streams["a"].opened.wait()
    ground.wanted.become("a", "b")
    await ground.streams["b"].opened.wait()
    assert ground.known() == ["a-1", "b-1"]
    assert ground.told == [(None, "a-1"), (None, "b-1")], "each is told once, to those who asked before it came"
    assert ground.completions == 1


async def test_one_that_is_of_no_interest_any_more_is_forgotten_and_that_is_told(ground: Ground) -> None:
    ground.wanted.become("a", "b")
    await ground.streams["b"].opened.wait()
    await ground.streams["a"].opened.wait()
    ground.wanted.become("b")
    await until(lambda: ground.known() == ["b-1"])
    assert ground.told[-1] == ("a-1", None)
    ground.wanted.become("a", "b")
    await until(lambda: ground.known() == ["a-1", "b-1"])


async def test_none_of_interest_is_all_that_is_wanted(
    client: Client, server: ScriptedServer, clock: VirtualClock
) -> None:
    ground = Ground(client, server, clock)
    await asyncio.wait_for(ground.informer.synced.wait(), 300)
    assert (ground.known(), ground.asked()) == ([], set())
    await ground.end()


async def test_it_has_not_heard_of_all_for_as_long_as_of_one(ground: Ground) -> None:
    """An informer of which nothing has been heard for long is stale: a shard without JobSets is none."""
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


async def test_what_a_namespace_lost_while_unwatched_is_told_without_harm_to_others(ground: Ground) -> None:
    """A list of one namespace says nothing of another."""
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


async def test_after_forgetting_it_begins_anew(ground: Ground) -> None:
    await ground.streams["a"].opened.wait()
    await ground.end()
    ground.informer.forget()
    assert (ground.known(), ground.informer.synced.is_set()) == ([], False)
    ground.serve("a", again := Stream(), "a-4")
    ground.task = asyncio.create_task(ground.informer.run())
    await again.opened.wait()
    assert ground.known() == ["a-4"]
