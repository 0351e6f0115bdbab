from __future__ import annotations

import asyncio
import re

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from gangctl.client.client import Client, Settings
from gangctl.client.resources import JOBS, PODS
from gangctl.client.transport import Transport, TransportOptions
from gangctl.errors import ForbiddenError, UnavailableError
from gangctl.runtime.controller import Action, Controller, ControllerOptions, await_change, retry
from gangctl.runtime.election import LeaseElection, ShardElection
from gangctl.runtime.events import RESULTS
from gangctl.runtime.informer import Informer
from gangctl.runtime.metrics import RuntimeMetrics
from gangctl.runtime.shards import Share
from tests.client.clock import VirtualClock, until
from tests.client.server import ScriptedServer, Stream, page, status, thing
from tests.credentials import StaticCredentials
from tests.runtime.test_election import LeaseServer


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def metrics(registry: CollectorRegistry, clock: VirtualClock) -> RuntimeMetrics:
    return RuntimeMetrics(registry, clock=clock)


async def test_requests_are_counted_by_verb_resource_and_code(
    metrics: RuntimeMetrics, registry: CollectorRegistry, server: ScriptedServer
) -> None:
    server.on("GET", "/api/v1/pods", page())
    async with Transport(StaticCredentials(server.url), on_request=metrics.on_request) as transport:
        await Client(transport).list(PODS)
    nowhere, options = StaticCredentials("http://127.0.0.1:1"), TransportOptions(timeout_seconds=0.01)
    async with Transport(nowhere, options, on_request=metrics.on_request) as transport:
        with pytest.raises(UnavailableError):
            await Client(transport).delete(JOBS, "j", "ns")
    value = registry.get_sample_value
    assert value("gangctl_rest_client_requests_total", {"verb": "list", "resource": "pods", "code": "200"}) == 1
    labels = {"verb": "delete", "resource": "jobs.batch", "code": "none"}
    assert value("gangctl_rest_client_requests_total", labels) == 1
    assert value("gangctl_rest_client_request_duration_seconds_count", {"verb": "list", "resource": "pods"}) == 1


async def test_metrics_of_the_queue_and_the_controller(
    metrics: RuntimeMetrics, registry: CollectorRegistry, clock: VirtualClock
) -> None:
    outcomes: list[Action | Exception] = [ForbiddenError(403, "Forbidden", "no"), ZeroDivisionError(), retry()]

    async def reconcile(_: str) -> Action:
        outcome = outcomes.pop(0) if outcomes else await_change()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    controller = Controller("gangs", reconcile, observer=metrics.controller_observer("gangs"), clock=clock)
    queue = controller.queue
    queue.add("a")
    queue.add("b")
    name = {"name": "gangs"}
    value = registry.get_sample_value
    assert value("gangctl_workqueue_depth", name) == 0
    clock.tick(3)
    task = asyncio.create_task(controller.run())
    await clock.advance(10)
    assert value("gangctl_workqueue_depth", name) == 0
    assert value("gangctl_workqueue_adds_total", name) == 4
    assert value("gangctl_workqueue_retries_total", name) == 2
    assert value("gangctl_workqueue_queue_duration_seconds_count", name) == 4
    assert value("gangctl_workqueue_work_duration_seconds_count", name) == 4
    for result, count in (("failed", 1), ("retried", 2), ("done", 1)):
        assert value("gangctl_reconcile_total", {"controller": "gangs", "result": result}) == count
    for kind in ("ForbiddenError", "panic"):
        assert value("gangctl_reconcile_errors_total", {"controller": "gangs", "error_class": kind}) == 1
    assert value("gangctl_reconcile_duration_seconds_count", {"controller": "gangs"}) == 4
    queue.add("c")
    assert value("gangctl_workqueue_depth", name) == 1
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert value("gangctl_workqueue_depth", name) == 0


async def test_the_queue_depth_is_zero_on_a_standby_and_complete_on_a_new_leader(
    metrics: RuntimeMetrics, registry: CollectorRegistry, clock: VirtualClock
) -> None:
    async def reconcile(key: str) -> Action:
        seen.append(key)
        await asyncio.Event().wait()
        return await_change()

    seen: list[str] = []
    options = ControllerOptions(workers=1)
    observer = metrics.controller_observer("gangs")
    controller = Controller("gangs", reconcile, options=options, observer=observer, clock=clock)
    queue = controller.queue
    name = {"name": "gangs"}

    def values() -> list[float | None]:
        families = ("depth", "unfinished_work_seconds", "longest_running_processor_seconds")
        return [registry.get_sample_value(f"gangctl_workqueue_{family}", name) for family in families]

    for key in ("a", "b", "a"):
        queue.add(key)
    queue.add_after("c", 1000)
    await clock.advance(3600)
    assert values() == [0, 0, 0]
    for _ in ("first", "second"):
        term = asyncio.create_task(controller.run())
        await clock.advance(10)
        assert values() == [2, 10, 10]
        term.cancel()
        await asyncio.gather(term, return_exceptions=True)
        assert values() == [0, 0, 0]
    assert seen == ["a", "b"]
    assert registry.get_sample_value("gangctl_workqueue_queue_duration_seconds_sum", name) == 0


async def test_metrics_of_an_informer(
    metrics: RuntimeMetrics,
    registry: CollectorRegistry,
    client: Client,
    server: ScriptedServer,
    clock: VirtualClock,
) -> None:
    def project(raw: dict[str, object]) -> str:
        return str(raw["phase"])

    stream = Stream()
    server.on("GET", "/api/v1/pods", page(thing("a", phase="P"), thing("bad")), stream)
    informer = Informer(client, PODS, project, observer=metrics.informer_observer(PODS), clock=clock)
    metrics.track_informers(informer)
    labels = {"resource": "pods"}
    value = registry.get_sample_value
    task = asyncio.create_task(informer.run())
    await stream.opened.wait()
    assert value("gangctl_informer_synced", labels) == 1
    assert value("gangctl_informer_objects", labels) == 1
    assert value("gangctl_informer_last_contact_timestamp_seconds", labels) == clock.wall().timestamp()
    assert value("gangctl_informer_errors_total", {**labels, "place": "project"}) == 1
    stream.close()
    await until(lambda: clock.pending)
    assert value("gangctl_watch_restarts_total", {**labels, "reason": "ended"}) == 1
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_an_informer_that_does_not_run_or_is_not_served_is_not_exported_as_unsynced(
    metrics: RuntimeMetrics,
    registry: CollectorRegistry,
    client: Client,
    server: ScriptedServer,
    clock: VirtualClock,
) -> None:
    """A standby runs no informers of the leader; optional resources are not served in most clusters."""
    informer = Informer(client, PODS, lambda raw: str(raw["phase"]), clock=clock)
    metrics.track_informers(informer)

    def exported() -> list[float | None]:
        names = ("synced", "last_contact_timestamp_seconds", "objects")
        return [registry.get_sample_value(f"gangctl_informer_{name}", {"resource": "pods"}) for name in names]

    async def next_attempt() -> None:
        await clock.advance(min(clock.pending))
        await until(lambda: clock.pending)

    assert exported() == [None, None, 0]
    refused, unserved, listed = status(403, "Forbidden"), status(404, "NotFound"), page(thing("a", phase="P"))
    stream = Stream()
    server.on("GET", "/api/v1/pods", refused, unserved, refused, listed, stream, listed, Stream())
    task = asyncio.create_task(informer.run())
    await until(lambda: clock.pending)
    assert exported() == [0, 0, 0]
    await next_attempt()
    assert exported() == [None, None, 0]
    await next_attempt()
    assert exported() == [0, 0, 0], "the resource is served now, and may not be read"
    await clock.advance(min(clock.pending))
    await stream.opened.wait()
    now = clock.wall().timestamp()
    assert exported() == [1, now, 1]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert exported() == [None, None, 1]
    informer.forget()
    clock.tick(3600)
    task = asyncio.create_task(informer.run())
    await asyncio.sleep(0)
    assert exported() == [0, 0, 0], "its contact before it was stopped is no silence of this run"
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_the_leader_metrics_follow_the_election(
    metrics: RuntimeMetrics, registry: CollectorRegistry, clock: VirtualClock
) -> None:
    client = Client(LeaseServer(), Settings(throttled=False))
    lease = LeaseElection(client, name="x", namespace="ns", identity="a", clock=clock)
    election = ShardElection([lease], Share(), clock=clock)
    metrics.track_election(election)
    assert registry.get_sample_value("gangctl_leader_election_master_status") == 0
    assert registry.get_sample_value("gangctl_shard_leader_election_master_status", {"shard": "0"}) == 0
    done = asyncio.Event()
    task = asyncio.create_task(election.run(lambda: _wait(done)))
    await clock.advance(1)
    assert registry.get_sample_value("gangctl_leader_election_master_status") == 1
    assert registry.get_sample_value("gangctl_shard_leader_election_master_status", {"shard": "0"}) == 1
    done.set()
    await task
    assert registry.get_sample_value("gangctl_leader_election_master_status") == 0


def test_the_leader_metrics_are_one_without_an_election(metrics: RuntimeMetrics, registry: CollectorRegistry) -> None:
    """No leader is missing then, so the alert about a missing leader must not fire."""
    metrics.track_election(None)
    assert registry.get_sample_value("gangctl_leader_election_master_status") == 1
    assert registry.get_sample_value("gangctl_shard_leader_election_master_status", {"shard": "0"}) == 1


async def _wait(done: asyncio.Event) -> None:
    await done.wait()


def test_counters_of_events_start_at_zero(metrics: RuntimeMetrics, registry: CollectorRegistry) -> None:
    """Prometheus sees no increase in a series that begins with 1, so no alert would fire."""
    assert [registry.get_sample_value("gangctl_events_total", {"result": each}) for each in RESULTS] == [0] * len(
        RESULTS
    )
    metrics.event_recorded("refused")
    assert registry.get_sample_value("gangctl_events_total", {"result": "refused"}) == 1


def test_names_of_metrics_follow_the_prometheus_conventions(
    metrics: RuntimeMetrics, registry: CollectorRegistry
) -> None:
    metrics.event_recorded("created")
    assert registry.get_sample_value("gangctl_events_total", {"result": "created"}) == 1
    text = generate_latest(registry).decode()
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE):
        assert name.startswith("gangctl_")
        assert (kind == "counter") == name.endswith("_total"), name
        if kind == "histogram":
            assert name.endswith("_seconds")
        assert re.fullmatch(r"[a-z][a-z0-9_]*", name)
    families = [family for family in registry.collect() if not family.name.endswith("_created")]
    assert all(family.documentation.endswith(".") for family in families)
