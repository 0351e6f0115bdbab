from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from gangctl.client.client import Client
from gangctl.runtime.events import (
    Event,
    EventRecorder,
    ObjectReference,
    RecorderOptions,
    truncate,
)
from tests.client.clock import VirtualClock, until
from tests.client.server import ScriptedServer, hang, obj, status

PATH = "/apis/events.k8s.io/v1/namespaces/ns/events"
JOBSET = ObjectReference("jobset.x-k8s.io/v1alpha2", "JobSet", "ns", "train", "uid-1")
EVENT = Event(JOBSET, "WorkloadCreated", "Created Workload train with 2 groups.", "Reconcile")


class Rig:
    def __init__(self, client: Client, clock: VirtualClock) -> None:
        self.client, self.clock, self.results = client, clock, Counter[str]()
        self.tasks: list[asyncio.Task[None]] = []

    def recorder(self, options: RecorderOptions | None = None, *, running: bool = True) -> EventRecorder:
        recorder = EventRecorder(
            self.client,
            instance="pod-1",
            options=options,
            recorded=lambda result: self.results.update([result]),
            clock=self.clock,
        )
        if running:
            self.tasks.append(asyncio.create_task(recorder.run()))
        return recorder


@pytest.fixture
async def rig(client: Client, clock: VirtualClock) -> AsyncIterator[Rig]:
    rig = Rig(client, clock)
    yield rig
    for task in rig.tasks:
        task.cancel()
    await asyncio.gather(*rig.tasks, return_exceptions=True)


async def test_an_event_has_the_fields_of_the_api(rig: Rig, server: ScriptedServer) -> None:
    server.on("POST", PATH, obj({}, code=201))
    recorder = rig.recorder()
    recorder.record(replace(EVENT, type="Warning"))
    await recorder.drain()
    body = server.seen[0].body
    assert body["metadata"] == {"name": EVENT.name, "namespace": "ns"}
    assert body["regarding"] == {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "namespace": "ns",
        "name": "train",
        "uid": "uid-1",
    }
    assert body["eventTime"] == "2026-01-01T00:00:00.000000Z"
    assert body["reportingController"] == "gangctl.dev/gangctl"
    assert body["reportingInstance"] == "pod-1"
    assert (body["type"], body["reason"], body["action"]) == ("Warning", "WorkloadCreated", "Reconcile")
    assert rig.results == {"created": 1}


async def test_an_identical_event_is_written_once_even_after_a_restart(rig: Rig, server: ScriptedServer) -> None:
    server.on("POST", PATH, obj({}, code=201), status(409, "AlreadyExists"))
    recorder = rig.recorder()
    for _ in range(3):
        recorder.record(EVENT)
    recorder.record(replace(EVENT, note="something else"))
    await recorder.drain()
    assert server.count() == 2
    restarted = rig.recorder()
    restarted.record(EVENT)
    await restarted.drain()
    assert server.seen[0].body["metadata"]["name"] == server.seen[2].body["metadata"]["name"]
    assert rig.results == {"created": 1, "existing": 2}


async def test_an_event_is_recorded_again_after_its_time_to_live(
    rig: Rig, server: ScriptedServer, clock: VirtualClock
) -> None:
    server.on("POST", PATH, obj({}, code=201))
    recorder = rig.recorder()
    recorder.record(EVENT)
    clock.tick(3599)
    recorder.record(EVENT)
    await recorder.drain()
    assert server.count() == 1
    clock.tick(2)
    recorder.record(EVENT)
    await recorder.drain()
    assert server.count() == 2


async def test_recording_never_blocks_and_drops_events_when_the_queue_is_full(rig: Rig, server: ScriptedServer) -> None:
    server.on("POST", PATH, hang())
    recorder = rig.recorder(RecorderOptions(queue_size=5), running=False)
    with capture_logs() as logs:
        for number in range(20):
            recorder.record(replace(EVENT, note=str(number)))
    assert rig.results == {"dropped": 15}
    assert len([line for line in logs if line["log_level"] == "warning"]) == 1
    # A dropped event was not reported, so it can be recorded again once the queue has space.
    server.on("POST", PATH, obj({}, code=201))
    rig.tasks.append(asyncio.create_task(recorder.run()))
    await recorder.drain()
    recorder.record(replace(EVENT, note="19"))
    await recorder.drain()
    assert rig.results == {"dropped": 15, "created": 6}


async def test_a_full_queue_is_logged_once_while_it_lasts(rig: Rig, server: ScriptedServer) -> None:
    server.on("POST", PATH, obj({}, code=201))
    recorder = rig.recorder(RecorderOptions(queue_size=4))
    events = [replace(EVENT, note=str(number)) for number in range(40)]
    with capture_logs() as logs:
        for event in events[:5]:
            recorder.record(event)
        for event in events[5:20]:
            await until(lambda: not recorder._queue.full())
            recorder.record(event)
            recorder.record(replace(event, note=f"{event.note} again"))
        assert [line["log_level"] for line in logs] == ["warning"]
        await recorder.drain()
        for event in events[20:30]:
            recorder.record(event)
        assert [line["log_level"] for line in logs] == ["warning", "warning"]


async def test_a_refusal_in_a_terminating_namespace_is_not_logged(rig: Rig, server: ScriptedServer) -> None:
    causes = {"causes": [{"reason": "NamespaceTerminating", "field": "metadata.namespace"}]}
    server.on("POST", PATH, status(403, "Forbidden", details=causes), status(404, "NotFound"))
    recorder = rig.recorder()
    with capture_logs() as logs:
        recorder.record(EVENT)
        recorder.record(replace(EVENT, note="b"))
        await recorder.drain()
    assert rig.results == {"unwelcome": 2}
    assert logs == []


async def test_a_refusal_is_logged_and_not_repeated(rig: Rig, server: ScriptedServer) -> None:
    server.on("POST", PATH, status(403, "Forbidden", "events is forbidden"))
    recorder = rig.recorder()
    with capture_logs() as logs:
        recorder.record(EVENT)
        await recorder.drain()
    assert rig.results == {"refused": 1}
    assert logs[0]["error"] == "events is forbidden"
    assert server.count() == 1


async def test_an_event_is_retried_in_a_short_outage_and_dropped_in_a_long_one(
    rig: Rig, server: ScriptedServer, clock: VirtualClock
) -> None:
    failure = status(500, "InternalError", "etcd")
    server.on("POST", PATH, failure, failure, obj({}, code=201), failure)
    recorder = rig.recorder()
    recorder.record(EVENT)
    for _ in range(2):
        await until(lambda: clock.pending)
        await clock.advance(clock.pending[0])
    await recorder.drain()
    assert rig.results == {"created": 1}
    recorder.record(replace(EVENT, note="b"))
    with capture_logs() as logs:
        for _ in range(4):
            await until(lambda: clock.pending)
            await clock.advance(clock.pending[0])
        await recorder.drain()
    assert rig.results == {"created": 1, "refused": 1}
    assert len(logs) == 1


async def test_an_event_is_not_retried_before_the_server_allows_it(
    rig: Rig, server: ScriptedServer, clock: VirtualClock
) -> None:
    server.on("POST", PATH, status(429, "TooManyRequests", headers={"Retry-After": "60"}), obj({}, code=201))
    recorder = rig.recorder()
    recorder.record(EVENT)
    await until(lambda: clock.pending)
    assert 60 < clock.pending[0] < 61
    await clock.advance(61)
    await recorder.drain()
    assert rig.results == {"created": 1}


async def test_an_invalid_event_does_not_block_the_others(rig: Rig, server: ScriptedServer) -> None:
    server.on("POST", PATH, obj({}, code=201))
    recorder = rig.recorder()
    with capture_logs() as logs:
        recorder.record(replace(EVENT, regarding=replace(JOBSET, namespace="no/namespace")))
        recorder.record(EVENT)
        await recorder.drain()
    assert rig.results == {"refused": 1, "created": 1}
    assert logs[0]["log_level"] == "error"


async def test_the_number_of_remembered_events_is_bounded(rig: Rig) -> None:
    recorder = rig.recorder(RecorderOptions(remember=10), running=False)
    for number in range(100):
        recorder.record(replace(EVENT, note=str(number)))
    assert len(recorder._reported) == 10


def test_events_of_cluster_scoped_objects_are_in_default() -> None:
    event = replace(EVENT, regarding=ObjectReference("v1", "Node", "", "n", "u"))
    assert event.namespace == "default"
    assert "namespace" not in event.regarding.as_dict()


def test_names_of_events_are_stable_distinct_and_valid() -> None:
    assert EVENT.name == replace(EVENT, action="x", type="Warning").name
    variations = [
        replace(EVENT, note="x"),
        replace(EVENT, reason="x"),
        replace(EVENT, regarding=replace(JOBSET, uid="2")),
    ]
    assert len({EVENT.name, *(event.name for event in variations)}) == 4
    long = replace(EVENT, regarding=replace(JOBSET, name="a" * 199 + "." + "b" * 53))
    assert len(long.name) <= 253
    assert ".." not in long.name


@settings(deadline=None)
@given(st.text(), st.integers(min_value=3, max_value=60))
def test_a_truncated_note_is_a_short_readable_prefix(note: str, limit: int) -> None:
    short = truncate(note, limit)
    assert len(short.encode()) <= limit
    if short != note:
        assert short.endswith("…") or "?" in short
    assert truncate(short, limit) == short
