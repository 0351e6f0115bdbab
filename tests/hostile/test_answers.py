"""An API server with malformed answers: gangctl neither ends nor spins, and one object does not hide the others."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

import orjson
import pytest
from aiohttp import web
from hypothesis import example, given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from gangctl.api.jobset import JobSet
from gangctl.api.scheduling import ApiState, Generation
from gangctl.api.scheduling_versions import ADAPTERS
from gangctl.client.client import Client
from gangctl.client.resources import JOBS, JOBSETS, LEASES, PODS, SECRETS, Resource
from gangctl.client.responses import error_from_body, retry_after_seconds
from gangctl.client.transport import Transport, TransportOptions
from gangctl.cluster.members import project_job, project_jobset, project_scheduling
from gangctl.controllers.discovery import discover
from gangctl.controllers.gangs import PodReader
from gangctl.errors import ApiError, ConfigError
from gangctl.runtime.certsource import SecretCertificates
from gangctl.runtime.election import ElectionOptions, LeaseElection
from gangctl.runtime.informer import Informer
from gangctl.webhooks.configurations import Endpoint, WebhookSettings, build_configurations
from gangctl.webhooks.registration import Registrar, Registration
from tests.client.server import ScriptedServer, Stream, hang, obj, page, status, text
from tests.credentials import StaticCredentials
from tests.hostile.profiles import tries
from tests.hostile.words import json_values
from tests.jobsets import jobset, rj
from tests.rows import each
from tests.strategies import _places as places

Raw = dict[str, Any]
HOOKS = "/apis/admissionregistration.k8s.io/v1"


def stored(name: str, **metadata: Any) -> Raw:
    """A JobSet as a server returns it."""
    raw = jobset(name, rj("w", 2, 2, 2, mode="Gang"), uid=f"uid-{name}")
    raw["metadata"] |= {"resourceVersion": "5", "creationTimestamp": "2026-01-01T00:00:00Z", **metadata}
    raw["status"] = {"conditions": [{"type": "Completed", "status": "False"}], "restarts": 0}
    return raw


def job() -> Raw:
    owner = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "name": "a",
        "uid": "uid-a",
        "controller": True,
    }
    labels = {"jobset.sigs.k8s.io/jobset-name": "a", "jobset.sigs.k8s.io/job-index": "0"}
    metadata = {"name": "a-w-0", "namespace": "t", "uid": "1", "labels": labels, "ownerReferences": [owner]}
    condition = {"type": "Complete", "status": "True"}
    return {"metadata": metadata, "spec": {}, "status": {"succeeded": 1, "conditions": [condition]}}


def workload() -> Raw:
    owner = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "name": "a",
        "uid": "uid-a",
        "controller": True,
    }
    templates = [{"name": "w", "schedulingPolicy": {"gang": {"minCount": 4}}}]
    spec = {
        "controllerRef": {"apiGroup": "jobset.x-k8s.io", "kind": "JobSet", "name": "a"},
        "podGroupTemplates": templates,
    }
    return {"metadata": {"name": "a-1", "namespace": "t", "uid": "2", "ownerReferences": [owner]}, "spec": spec}


def mangled(value: Callable[[], Any], most: int = 3) -> st.SearchStrategy[Any]:
    """The value with arbitrary JSON in some places, or dropped ones."""

    @st.composite
    def draw_one(draw: st.DrawFn) -> Any:
        made = value()
        for _ in range(draw(st.integers(1, most))):
            found = places(made, [])
            if not found:
                break
            container, key = draw(st.sampled_from(found))
            if draw(st.booleans()) and isinstance(container, dict):
                del container[key]
            else:
                container[key] = draw(finite)
        return made

    return draw_one()


def _carried(value: Any) -> bool:
    """Whether it is JSON that can be read: with numbers beyond all bounds a whole page is lost, and asked for again."""
    try:
        orjson.loads(json.dumps(value))
    except orjson.JSONDecodeError:
        return False
    return True


finite = json_values.filter(_carried)


async def asked(play: Callable[[Client, ScriptedServer], Awaitable[None]], seconds: float = 30) -> list[Any]:
    """Let a client talk to a scripted server, once for each request and for so long; what was logged."""
    options = TransportOptions(attempts=1, timeout_seconds=seconds)
    with capture_logs() as logs:
        async with ScriptedServer() as server, Transport(StaticCredentials(server.url), options) as transport:
            await play(Client(transport), server)
    return logs


MISSHAPEN: dict[str, Any] = {
    "no-metadata": {"spec": {}},
    "metadata-null": {"metadata": None},
    "metadata-list": {"metadata": []},
    "name-number": {"metadata": {"name": 5}},
    "labels-list": stored("x", labels=["a"]),
    "labels-huge": stored("x", labels={f"k{n}": "v" * 60 for n in range(20_000)}),
    "owners-text": stored("x", ownerReferences="a"),
    "owners-of-texts": stored("x", ownerReferences=["a"]),
    "uid-missing": {**stored("x"), "metadata": {"name": "x", "namespace": "t"}},
    "spec-null": {**stored("x"), "spec": None},
    "spec-text": {**stored("x"), "spec": "x"},
    "status-list": {**stored("x"), "status": [1]},
    "conditions-text": {**stored("x"), "status": {"conditions": "x", "restarts": "many"}},
    "replicas-text": jobset("x", {"name": "w", "replicas": "x"}, uid="u"),
    "replicated-jobs-number": {**stored("x"), "spec": {"replicatedJobs": 5}},
    "number": 5,
    "text": "x",
    "null": None,
    "list": [stored("y")],
    "empty": {},
}


async def follow(resource: Resource, project: Any, first: list[Any], lines: list[bytes]) -> tuple[set[str], list[Any]]:
    """The names in an informer after a list and the lines of a watch, with a valid object after all of them."""
    names: set[str] = set()

    async def play(client: Client, server: ScriptedServer) -> None:
        watch, again = Stream(), Stream()
        path = resource.path()
        answers = {"list": page(*first, stored("listed"), version="10")}

        async def answer(request: web.Request) -> web.StreamResponse:
            if "watch" not in request.query:
                return await answers["list"](request)
            return await (watch if not watch.opened.is_set() else again)(request)

        server.on("GET", path, answer)
        informer: Informer[Any] = Informer(client, resource, project)
        running = asyncio.create_task(informer.run())
        try:
            async with asyncio.timeout(300):
                await watch.opened.wait()
                for line in lines:
                    watch.send_raw(line + b"\n")
                watch.send("ADDED", stored("watched"))
                while informer.store.get("t", "watched") is None and not running.done():
                    if again.opened.is_set():
                        again.send("ADDED", stored("watched"))
                    await asyncio.wait({running}, timeout=0.01)
            assert not running.done(), running
            names.update(name for _, name in informer.store.keys())  # noqa: SIM118 - a store is no mapping
            assert server.count("GET", path) < 12
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running

    return names, await asked(play)


def lines_of(value: Any) -> list[bytes]:
    return [
        json.dumps({"type": kind, "object": value}).encode() for kind in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK")
    ]


@each("case", MISSHAPEN)
def test_a_malformed_jobset_does_not_hide_the_others(case: str) -> None:
    raw = MISSHAPEN[case]
    names, logs = asyncio.run(follow(JOBSETS, project_jobset, [stored("before"), raw], lines_of(raw)))
    assert {"listed", "watched"} <= names
    assert not [log for log in logs if "exc_info" in log], logs
    assert all(len(str(log)) < 2000 for log in logs)


@given(raw=mangled(lambda: stored("x")))
@tries(15)
def test_any_malformed_jobset_is_skipped_in_lists_and_watches(raw: Any) -> None:
    names, logs = asyncio.run(follow(JOBSETS, project_jobset, [raw], lines_of(raw)))
    assert {"listed", "watched"} <= names
    assert not [log for log in logs if "exc_info" in log], logs


LINES = (
    b"",
    b"{",
    b"null",
    b"[]",
    b"5",
    b"{}",
    b'{"type":5,"object":{}}',
    b'{"type":"ADDED"}',
    b'{"type":"ADDED","object":null}',
    b'{"type":"BOOKMARK","object":{"metadata":5}}',
    b'{"type":"SOMETHING","object":{}}',
    b'{"type":"ERROR","object":{}}',
    b'{"type":"ERROR","object":{"code":"x","reason":5,"message":{},"details":5}}',
    b'{"type":"ERROR","object":{"code":410}}',
    b'{"type":"ERROR","object":{"details":{"retryAfterSeconds":0.001,"causes":5}}}',
    b"\xff\xfe",
    b"[" * 100_000,
    b'{"type":"ADDED","object":{"metadata":{"name":"' + b"x" * 5_000_000 + b'"}}}',
)


@each("line", LINES, ids=map(str, range(len(LINES))))
def test_invalid_lines_of_a_watch_are_handled(line: bytes) -> None:
    names, _ = asyncio.run(follow(JOBSETS, project_jobset, [], [line]))
    assert {"listed", "watched"} <= names


def readable(path: str, value: Any) -> Callable[[Client, ScriptedServer], Awaitable[None]]:
    async def play(client: Client, server: ScriptedServer) -> None:
        server.on("GET", path, obj(value))
        with suppress(ApiError):
            await client.list(JOBSETS)

    return play


LISTS: tuple[Any, ...] = (
    {"items": 5},
    {"items": {"a": 1}},
    {"items": "xyz"},
    {"items": None, "metadata": None},
    {"items": [], "metadata": {"continue": 5}},
    {"items": [], "metadata": {"continue": "again"}},
    {"items": [], "metadata": {"resourceVersion": {}, "remainingItemCount": "x"}},
    {"metadata": []},
    [],
    None,
    "x",
)


@each("value", LISTS, ids=map(str, range(len(LISTS))))
def test_malformed_lists_end(value: Any) -> None:
    asyncio.run(asked(readable(JOBSETS.path(), value)))


@given(raw=mangled(job))
@example({**job(), "status": {"succeeded": "x", "failed": [], "conditions": [5, None]}})
@example({**job(), "status": {"conditions": [{"type": [], "status": "True"}]}})
@tries(60)
def test_any_malformed_job_is_projected(raw: Any) -> None:
    names, logs = asyncio.run(informed_once(JOBS, project_job, raw))
    assert names >= set()
    assert not [log for log in logs if "exc_info" in log], logs


@given(
    raw=mangled(workload), generation=st.sampled_from(list(Generation)), kind=st.sampled_from(["Workload", "PodGroup"])
)
@tries(60)
def test_any_malformed_workload_is_projected(raw: Any, generation: Generation, kind: str) -> None:
    project = project_scheduling(ADAPTERS[generation], kind)
    _, logs = asyncio.run(informed_once(JOBS, project, raw))
    assert not [log for log in logs if "exc_info" in log], logs


async def informed_once(resource: Resource, project: Any, raw: Any) -> tuple[set[str], list[Any]]:
    """What an informer keeps of one object, without a server."""
    with capture_logs() as logs:
        async with Transport(StaticCredentials("http://127.0.0.1:9")) as transport:
            informer: Informer[Any] = Informer(Client(transport), resource, project)
            if isinstance(raw, dict):
                informer._upsert(raw)
                informer._forget(raw)
            return {name for _, name in informer.store.keys()}, logs  # noqa: SIM118


DISCOVERY = {
    "/apis/scheduling.k8s.io": {"versions": [{"version": "v1beta1", "groupVersion": "scheduling.k8s.io/v1beta1"}]},
    "/apis/scheduling.k8s.io/v1beta1": {"resources": [{"name": "workloads"}, {"name": "podgroups"}]},
    "/apis/batch/v1/namespaces/d/jobs": {"spec": {"template": {"spec": {"schedulingGroup": {"podGroupName": "x"}}}}},
}


@given(path=st.sampled_from(list(DISCOVERY)), data=st.data())
@tries(60)
def test_any_malformed_discovery_is_handled(path: str, data: st.DataObject) -> None:
    answers = json.loads(json.dumps(DISCOVERY))
    answers[path] = data.draw(st.one_of(finite, mangled(lambda: json.loads(json.dumps(DISCOVERY[path])))))

    async def play(client: Client, server: ScriptedServer) -> None:
        for item, value in answers.items():
            server.on("GET", item, obj(value))
            server.on("POST", item, obj(value))
        with suppress(ApiError):
            assert isinstance(await discover(client, "d"), ApiState)

    asyncio.run(asked(play))


SETTINGS = WebhookSettings(Endpoint("https://127.0.0.1:1"))
WANTED = build_configurations(SETTINGS, b"pem")


@given(data=st.data(), mode=st.sampled_from([Registration.MANAGE, Registration.CA_ONLY]))
@tries(40)
def test_any_malformed_webhook_configuration_is_repaired(data: st.DataObject, mode: Registration) -> None:
    lies = [data.draw(st.one_of(finite, mangled(partial(copy.deepcopy, item)))) for item in WANTED]

    async def play(client: Client, server: ScriptedServer) -> None:
        for item, lie in zip(WANTED, lies, strict=True):
            path = f"{HOOKS}/{item['kind'].lower()}s/{item['metadata']['name']}"
            server.on("GET", path, obj(lie))
            server.on("PUT", path, obj(lie))
        registrar = Registrar(client, partial(build_configurations, SETTINGS), mode=mode)
        registrar.trust(b"pem")
        with suppress(ApiError, ConfigError):
            await registrar.check()

    asyncio.run(asked(play))


@pytest.mark.parametrize("mode", [Registration.MANAGE, Registration.CA_ONLY])
async def test_a_webhook_configuration_without_kind_and_name_is_repaired(mode: Registration) -> None:
    async def play(client: Client, server: ScriptedServer) -> None:
        paths = [f"{HOOKS}/{each['kind'].lower()}s/{each['metadata']['name']}" for each in WANTED]
        for path in paths:
            server.on("GET", path, obj({"webhooks": [{}]}))
            server.on("PUT", path, obj({}))
        registrar = Registrar(client, partial(build_configurations, SETTINGS), mode=mode)
        registrar.trust(b"pem")
        await registrar.check()
        assert [seen.path for seen in server.asked("PUT")] == paths

    await asked(play)


@given(
    value=st.one_of(
        finite,
        mangled(lambda: {"metadata": {"name": "s", "labels": {}}, "data": {"tls.crt": "YQ==", "tls.key": "YQ=="}}),
    )
)
@tries(30)
def test_any_malformed_secret_is_replaced_or_refused(value: Any) -> None:
    async def play(client: Client, server: ScriptedServer) -> None:
        path = SECRETS.path("d", "s")
        server.on("GET", path, obj(value))
        server.on("PUT", path, obj(value))
        source = SecretCertificates(client, "s", "d", ["localhost"])
        with suppress(ApiError, ConfigError):
            await source.load()

    asyncio.run(asked(play))


LEASE: Raw = {
    "metadata": {"name": "l"},
    "spec": {"holderIdentity": "x", "leaseDurationSeconds": 1, "leaseTransitions": 1},
}


@given(value=st.one_of(finite, mangled(lambda: json.loads(json.dumps(LEASE)))))
@tries(30)
def test_any_malformed_lease_is_handled(value: Any) -> None:
    async def play(client: Client, server: ScriptedServer) -> None:
        path = LEASES.path("d", "l")
        for method, where in (("GET", path), ("PUT", path), ("POST", LEASES.path("d"))):
            server.on(method, where, obj(value))
        election = LeaseElection(
            client, name="l", namespace="d", identity="me", options=ElectionOptions(1, 0.5, 0.05, 0.1)
        )

        async def lead() -> None:
            return

        with suppress(TimeoutError, ApiError):
            async with asyncio.timeout(0.1):
                await election.run(lead)
        assert server.count() < 20

    asyncio.run(asked(play))


@given(
    value=st.lists(st.one_of(finite, mangled(lambda: {"metadata": {"name": "p", "labels": {"a": "b"}}})), max_size=3)
)
@tries(30)
def test_any_malformed_pods_are_read(value: Any) -> None:
    async def play(client: Client, server: ScriptedServer) -> None:
        server.on("GET", PODS.path("t"), obj({"metadata": {}, "items": value}))
        reader = PodReader(client)
        a_jobset: JobSet = project_jobset(stored("a"))
        await reader.any_unfinished(a_jobset)

    asyncio.run(asked(play))


@given(body=st.one_of(finite.map(json.dumps).map(str.encode), st.binary(max_size=50)), code=st.integers(100, 599))
@example(b'{"kind":"Status"}', 500)
@example(b'{"kind":"Status","code":"x","details":{"causes":5,"retryAfterSeconds":1e300}}', 429)
@example(b"[" * 100_000, 502)
@tries(100)
def test_any_error_body_is_an_error(body: bytes, code: int) -> None:
    error = error_from_body(code, {"retry-after": body.decode("latin-1")}, body)
    assert isinstance(error.namespace_terminating, bool)
    assert len(str(error)) < 200_000
    assert error.retry_after is None or 0 <= error.retry_after <= 300


@each("wish", ["1e300", "999999999", "Fri, 31 Dec 99999999999 23:59:59 GMT", "-1", "nan", "", "9" * 5000])
def test_retry_after_is_bounded(wish: str) -> None:
    seconds = retry_after_seconds(wish)
    assert seconds is None or 0 <= seconds <= 300


@each(
    "answer",
    [text("<html>"), text(""), status(418, "x" * 100_000), hang(), text("x", code=302)],
    ids=map(str, range(5)),
)
def test_answers_that_are_no_json_are_api_errors(answer: Any) -> None:
    async def play(client: Client, server: ScriptedServer) -> None:
        server.on("GET", JOBSETS.path(), answer)
        with pytest.raises(ApiError):
            await client.list(JOBSETS)

    # One of them never comes.
    asyncio.run(asked(play, seconds=2))
