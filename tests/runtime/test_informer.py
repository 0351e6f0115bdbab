from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from gangctl.api.store import Entry, Store
from gangctl.client.client import Client, Selection
from gangctl.client.resources import PODS
from gangctl.client.watch import WatchOptions
from gangctl.runtime.informer import Informer, InformerObserver, InformerOptions
from tests.client.clock import VirtualClock, until
from tests.client.server import Answer, ScriptedServer, Stream, obj, page, reset, status, status_object, text, thing

PATH = "/api/v1/pods"


def project(raw: dict[str, Any]) -> str | None:
    """Keep the phase; objects without one are of no interest, and one is unreadable."""
    phase = raw.get("phase")
    if phase == "unreadable":
        raise KeyError("spec")
    return None if phase is None else str(phase)


class Notes(InformerObserver):
    def __init__(self) -> None:
        self.restarts: list[str] = []
        self.breaks: Counter[str] = Counter()

    def restarted(self, reason: str) -> None:
        self.restarts.append(reason)

    def broken(self, what: str) -> None:
        self.breaks[what] += 1


class Rig:
    """One informer on pods, its server's script and every change that it reported."""

    def __init__(self, client: Client, server: ScriptedServer, clock: VirtualClock) -> None:
        self.server, self.clock, self.notes = server, clock, Notes()
        self.reported: list[tuple[str | None, str | None]] = []
        self.absent = 0
        self.completions = 0
        self.lists: list[Answer] = []
        self.watches: list[Answer] = []
        self.informer = Informer(
            client,
            PODS,
            project,
            store=Store({"phase": lambda phase: [phase]}),
            on_absent=self._note_absent,
            on_synced=self._note_synced,
            observer=self.notes,
            options=InformerOptions(watch=WatchOptions(read_timeout_seconds=30)),
            clock=clock,
            randomness=lambda: 0.0,
        )
        self.informer.subscribe(lambda old, new: self.reported.append((old, new)))
        self.task: asyncio.Task[None] | None = None
        server.on("GET", PATH, self._answer)

    async def _answer(self, request: Any) -> Any:
        """Lists and watches have scripts of their own; the last answer of each is repeated."""
        script = self.watches if "watch" in request.query else self.lists
        answer = script.pop(0) if len(script) > 1 else script[0]
        return await answer(request)

    def _note_absent(self) -> None:
        self.absent += 1

    def _note_synced(self) -> None:
        self.completions += 1

    def start(self) -> None:
        self.task = asyncio.create_task(self.informer.run())

    async def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)

    @property
    def waits(self) -> list[float]:
        return self.clock.pending

    async def next_attempt(self) -> float:
        """Wait until the informer rests, and let the time of its rest pass; returns how long that was."""
        await until(lambda: self.waits)
        (delay,) = self.waits
        await self.clock.advance(delay)
        return delay

    @property
    def known(self) -> dict[str, str | None]:
        return {name: self.informer.store.get("ns", name) for _, name in self.informer.store.keys()}  # noqa: SIM118

    def watched_from(self) -> list[str]:
        return [seen.query["resourceVersion"] for seen in self.server.asked(watch="true")]

    @property
    def list_count(self) -> int:
        return self.server.count() - self.server.count(watch="true")


@pytest.fixture
async def rig(client: Client, server: ScriptedServer, clock: VirtualClock) -> AsyncIterator[Rig]:
    rig = Rig(client, server, clock)
    yield rig
    await rig.stop()


def pod(name: str, phase: str | None, version: int = 1, **rest: Any) -> dict[str, Any]:
    return thing(name, version, phase=phase, **rest)


async def test_an_informer_lists_in_pages_and_then_watches(rig: Rig) -> None:
    stream = Stream()
    rig.lists = [page(pod("a", "P"), pod("b", "R"), version="10", token="t"), page(pod("c", "P"), version="10")]
    rig.watches = [stream]
    assert not rig.informer.synced.is_set()
    rig.start()
    await rig.informer.synced.wait()
    assert rig.known == {"a": "P", "b": "R", "c": "P"}
    assert rig.reported == [(None, "P"), (None, "R"), (None, "P")]
    assert rig.informer.store.keys_by_index("phase", "P") == [("ns", "a"), ("ns", "c")]
    stream.send("MODIFIED", pod("a", "R", 11))
    stream.send("DELETED", pod("b", "R", 12))
    stream.send("ADDED", pod("d", None, 13))
    stream.send("ADDED", pod("e", "P", 14))
    stream.send("MODIFIED", pod("c", None, 15))
    await until(lambda: len(rig.reported) == 7)
    assert rig.known == {"a": "R", "e": "P"}
    assert rig.reported[3:] == [("P", "R"), ("R", None), (None, "P"), ("P", None)]
    assert rig.watched_from() == ["10"]


async def test_a_watch_resumes_from_the_last_resource_version(rig: Rig) -> None:
    first, second, third = Stream(), Stream(), Stream()
    rig.lists, rig.watches = [page(version="10")], [first, second, third]
    rig.start()
    first.send("ADDED", pod("a", "P", 11))
    first.close()
    await rig.next_attempt()
    second.send("BOOKMARK", {"metadata": {"resourceVersion": "50"}})
    second.break_off()
    await rig.next_attempt()
    await third.opened.wait()
    assert rig.watched_from() == ["10", "11", "50"]
    assert rig.list_count == 1
    assert rig.notes.restarts == ["ended", "UnavailableError"]


@pytest.mark.parametrize("as_event", [True, False])
async def test_an_expired_version_causes_a_new_list_and_reports_only_differences(rig: Rig, as_event: bool) -> None:
    stream, after = Stream(), Stream()
    gone: Answer = status(410, "Expired", "too old")
    if as_event:
        gone = Stream()
        gone.send("ERROR", status_object(410, "Expired", "too old"))
    rig.lists = [
        page(pod("same", "P"), pod("changed", "P"), pod("deleted", "P"), pod("replaced", "P"), version="10"),
        page(pod("same", "P"), pod("changed", "R", 12), pod("replaced", "R", 13, uid="new"), version="20"),
    ]
    rig.watches = [stream, gone, after]
    rig.start()
    await stream.opened.wait()
    rig.reported.clear()
    stream.close()
    await rig.next_attempt()
    await rig.next_attempt()
    await after.opened.wait()
    assert rig.reported == [("P", "R"), ("P", None), (None, "R"), ("P", None)]
    assert rig.known == {"same": "P", "changed": "R", "replaced": "R"}
    assert rig.informer.synced.is_set()
    assert rig.watched_from() == ["10", "10", "20"]
    assert rig.notes.restarts == ["ended", "gone"]


@pytest.mark.parametrize(
    ("watch", "reason"),
    [
        (text(""), "ended"),
        (text("upstream connect error", code=503), "ServerError"),
        (text("upstream connect error"), "ServerError"),
        (reset(), "UnavailableError"),
        (status(410, "Expired"), "gone"),
        (status(403, "Forbidden"), "ForbiddenError"),
    ],
    ids=["closes-at-once", "503-text", "200-text", "reset", "always-gone", "forbidden"],
)
async def test_failing_watches_are_retried_with_growing_delays(rig: Rig, watch: Answer, reason: str) -> None:
    rig.lists, rig.watches = [page(pod("a", "P"), version="10")], [watch]
    rig.start()
    began = rig.clock.now()
    delays = []
    while rig.clock.now() - began < 300:
        delays.append(await rig.next_attempt())
    assert delays[:8] == pytest.approx([0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6])
    assert set(delays[8:]) == {30.0}
    assert set(rig.notes.restarts) == {reason}
    # The library's own watch made 2,800 requests in 2 s of this; five minutes may cost a few dozen.
    assert rig.server.count() < 50
    assert rig.known == {"a": "P"}


async def test_failing_lists_are_retried_with_growing_delays(rig: Rig) -> None:
    rig.lists, rig.watches = [text("no upstream", code=503)], [Stream()]
    rig.start()
    assert [await rig.next_attempt() for _ in range(5)] == pytest.approx([0.2, 0.4, 0.8, 1.6, 3.2])
    assert not rig.informer.synced.is_set()
    assert rig.server.count(watch="true") == 0


async def test_a_successful_watch_resets_the_delay(rig: Rig) -> None:
    stream = Stream()
    rig.lists, rig.watches = [page(version="10")], [text(""), text(""), stream, text("")]
    rig.start()
    assert [await rig.next_attempt() for _ in range(2)] == pytest.approx([0.2, 0.4])
    await stream.opened.wait()
    stream.send("ADDED", pod("a", "P", 11))
    await until(lambda: rig.reported)
    rig.clock.tick(60)
    stream.close()
    assert await rig.next_attempt() == pytest.approx(0.2)


async def test_retry_after_of_the_server_is_honoured(rig: Rig) -> None:
    rig.lists = [status(429, "TooManyRequests", headers={"Retry-After": "45"})]
    rig.start()
    assert await rig.next_attempt() == 45


async def test_an_absent_resource_is_reported_once_and_awaited(rig: Rig) -> None:
    stream = Stream()
    rig.lists = [text("404 page not found", code=404), text("404 page not found", code=404), page(pod("a", "P"))]
    rig.watches = [stream, status(404, "NotFound"), stream]
    with capture_logs() as logs:
        rig.start()
        assert [await rig.next_attempt() for _ in range(2)] == [30.0, 30.0]
        await stream.opened.wait()
        assert rig.informer.synced.is_set()
        assert (rig.absent, rig.completions) == (1, 1)
        # The resource is removed while it is watched; the known objects stay until the next list.
        rig.lists = [text("404 page not found", code=404), page(version="30")]
        stream.close()
        await rig.next_attempt()
        await rig.next_attempt()
        await until(lambda: rig.waits)
    absent, gone = (entry for entry in logs if "served" in entry["event"])
    assert (absent["log_level"], absent["then"]) == ("info", "asked again every 30 seconds")
    assert (gone["log_level"], gone["event"]) == (
        "warning",
        "no longer served by the cluster, what needs it has stopped",
    )
    assert not rig.informer.synced.is_set()
    assert rig.known == {"a": "P"}
    assert rig.absent == 2
    await rig.next_attempt()
    await rig.informer.synced.wait()
    assert rig.known == {}
    assert rig.reported[-1] == ("P", None)
    assert rig.completions == 2


async def test_an_interrupted_list_deletes_nothing(rig: Rig) -> None:
    stream, after = Stream(), Stream()
    rig.lists = [
        page(pod("a", "P"), pod("b", "P"), version="10"),
        page(pod("c", "P"), version="20", token="t"),
        text("no upstream", code=503),
        page(pod("c", "P"), version="21"),
    ]
    rig.watches = [stream, after]
    rig.start()
    await stream.opened.wait()
    stream.send("ERROR", status_object(410, "Expired"))
    await rig.next_attempt()
    await until(lambda: rig.waits)
    assert rig.known == {"a": "P", "b": "P", "c": "P"}
    await rig.next_attempt()
    await after.opened.wait()
    assert rig.known == {"c": "P"}


async def test_an_unreadable_object_does_not_hide_the_others(rig: Rig) -> None:
    stream = Stream()
    rig.lists = [page(pod("a", "P"), pod("bad", "unreadable"), pod("c", "P"), version="10")]
    rig.watches = [stream]
    with capture_logs() as logs:
        rig.start()
        await stream.opened.wait()
        assert rig.known == {"a": "P", "c": "P"}
        stream.send("MODIFIED", pod("a", "unreadable", 11))
        stream.send("MODIFIED", pod("c", "R", 12))
        await until(lambda: len(rig.reported) == 3)
    assert rig.known == {"a": "P", "c": "R"}
    assert rig.notes.breaks == {"project": 2}
    assert [line["name"] for line in logs if line["log_level"] == "error"] == ["bad", "a"]


async def test_a_failing_handler_does_not_block_the_others(rig: Rig) -> None:
    def fail(_old: str | None, _new: str | None) -> None:
        raise ValueError("handler")

    received: list[str | None] = []
    rig.informer.subscribe(fail)
    rig.informer.subscribe(lambda _, new: received.append(new))
    rig.lists, rig.watches = [page(pod("a", "P"), version="10")], [Stream()]
    with capture_logs():
        rig.start()
        await rig.informer.synced.wait()
    assert received == ["P"]
    assert rig.notes.breaks == {"handler": 1}


async def test_an_object_without_a_name_is_a_server_error(rig: Rig) -> None:
    rig.lists = [obj({"metadata": {"resourceVersion": "1"}, "items": [{"spec": {}}]})]
    rig.start()
    await rig.next_attempt()
    assert set(rig.notes.restarts) == {"ServerError"}


async def test_a_restarted_informer_reports_only_differences(rig: Rig) -> None:
    first, second = Stream(), Stream()
    rig.lists, rig.watches = [page(pod("a", "P"), version="10")], [first, status(410, "Expired"), second]
    rig.start()
    await first.opened.wait()
    await rig.stop()
    await first.closed.wait()
    rig.reported.clear()
    rig.lists = [page(pod("b", "P"), version="30")]
    rig.start()
    await rig.next_attempt()
    await second.opened.wait()
    assert rig.reported == [(None, "P"), ("P", None)]
    assert rig.known == {"b": "P"}


async def test_an_informer_lists_again_after_forget(rig: Rig) -> None:
    first, second = Stream(), Stream()
    rig.lists, rig.watches = [page(pod("a", "P"), version="10")], [first, second]
    rig.start()
    await first.opened.wait()
    await rig.stop()
    rig.informer.forget()
    assert rig.known == {}
    assert rig.informer.store.by_index("phase", "P") == []
    assert not rig.informer.synced.is_set()
    rig.start()
    await second.opened.wait()
    assert rig.reported == [(None, "P"), (None, "P")]
    assert rig.known == {"a": "P"}
    assert rig.completions == 2


async def test_the_first_list_drops_what_was_deleted_from_a_filled_store(
    client: Client, server: ScriptedServer, clock: VirtualClock
) -> None:
    store: Store[str] = Store()
    for name in "ab":
        store.put(("ns", name), Entry(f"uid-{name}", "1", "P"))
    lists, watches = page(pod("b", "R", 9, uid="uid-b"), version="10"), Stream()

    async def answer(request: Any) -> Any:
        return await (watches if "watch" in request.query else lists)(request)

    server.on("GET", PATH, answer)
    informer = Informer(client, PODS, project, store=store, clock=clock)
    changes: list[tuple[str | None, str | None]] = []
    informer.subscribe(lambda old, new: changes.append((old, new)))
    task = asyncio.create_task(informer.run())
    await informer.synced.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert changes == [(None, "P"), (None, "P"), ("P", "R"), ("P", None)]
    assert store.get("ns", "a") is None


async def test_what_was_deleted_after_half_of_a_first_list_is_dropped(rig: Rig) -> None:
    rig.lists = [
        page(pod("a", "P"), version="10", token="more"),
        status(410, "Expired"),
        page(pod("b", "P"), version="20"),
    ]
    rig.watches = [Stream()]
    rig.start()
    await rig.next_attempt()
    await rig.informer.synced.wait()
    assert rig.known == {"b": "P"}
    assert rig.reported == [(None, "P"), (None, "P"), ("P", None)]


async def test_a_late_subscriber_receives_the_existing_objects(rig: Rig) -> None:
    rig.lists, rig.watches = [page(pod("a", "P"), version="10")], [Stream()]
    rig.start()
    await rig.informer.synced.wait()
    received: list[tuple[str | None, str | None]] = []
    rig.informer.subscribe(lambda old, new: received.append((old, new)))
    assert received == [(None, "P")]


async def test_the_contact_age_counts_from_the_last_response_or_event(rig: Rig) -> None:
    stream = Stream()
    rig.lists, rig.watches = [page(version="10")], [stream, text("no upstream", code=503)]
    assert rig.informer.contact_age() is None
    rig.start()
    await stream.opened.wait()
    await until(lambda: rig.informer._opened is not None)
    rig.clock.tick(70)
    assert rig.informer.contact_age() == 70
    stream.send("BOOKMARK", {"metadata": {"resourceVersion": "11"}})
    await until(lambda: rig.informer.contact_age() == 0)
    stream.close()
    for _ in range(4):
        await rig.next_attempt()
    assert rig.informer.contact_age() == pytest.approx(0.2 + 0.4 + 0.8 + 1.6)


@pytest.mark.parametrize(
    ("refusal", "times"),
    [(status(400, "BadRequest", "invalid resourceVersion"), 1), (status(504, "Timeout", "too large"), 5)],
)
async def test_a_resource_version_that_the_server_refuses_is_given_up(rig: Rig, refusal: Answer, times: int) -> None:
    stream = Stream()
    rig.lists, rig.watches = [page(version="1000"), page(version="5")], [*[refusal] * times, stream]
    rig.start()
    for _ in range(times):
        await rig.next_attempt()
    await stream.opened.wait()
    assert rig.watched_from() == ["1000"] * times + ["5"]


async def test_an_outage_does_not_cause_a_new_list(rig: Rig) -> None:
    stream = Stream()
    rig.lists = [page(version="10")]
    rig.watches = [*[reset()] * 12, *[text("starting", code=503)] * 6, stream]
    rig.start()
    for _ in range(6):
        await rig.next_attempt()
    while not stream.opened.is_set():
        await until(lambda: rig.waits or stream.opened.is_set())
        if rig.waits:
            await rig.clock.advance(rig.waits[0])
    assert rig.list_count == 1
    assert set(rig.watched_from()) == {"10"}


async def test_an_object_too_large_for_a_watch_event_is_listed(rig: Rig) -> None:
    stream, after = Stream(), Stream()
    rig.lists = [page(version="10"), page(pod("big", "P"), version="11")]
    rig.watches = [stream, after]
    rig.start()
    stream.send("ADDED", pod("big", "P", 11, data="x" * 5_000_000))
    await rig.next_attempt()
    await after.opened.wait()
    assert rig.known == {"big": "P"}


async def test_repeated_failures_are_logged_once(rig: Rig) -> None:
    rig.lists, rig.watches = [page(version="10")], [status(403, "Forbidden", "pods is forbidden")]
    with capture_logs() as logs:
        rig.start()
        for _ in range(10):
            await rig.next_attempt()
    assert len([line for line in logs if line["log_level"] == "warning"]) == 1


async def test_selection_and_namespace_reach_list_and_watch(
    client: Client, server: ScriptedServer, clock: VirtualClock
) -> None:
    path, stream = "/api/v1/namespaces/team/pods", Stream()
    server.on("GET", path, page(version="3"), stream)
    selection = Selection("app=x", "status.phase!=Failed")
    informer = Informer(client, PODS, project, namespace="team", selection=selection, clock=clock)
    task = asyncio.create_task(informer.run())
    await stream.opened.wait()
    for seen in server.seen:
        assert seen.query["labelSelector"] == "app=x"
        assert seen.query["fieldSelector"] == "status.phase!=Failed"
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
