"""The behaviour of the scripted server of the other tests, checked on a real kube-apiserver."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any, Self

import pytest

from gangctl.client.client import Client, Selection, Settings
from gangctl.client.config import load_cluster
from gangctl.client.resources import EVENTS, JOBSETS, LEASES, NAMESPACES, SECRETS, Resource
from gangctl.client.transport import Request, Transport
from gangctl.errors import (
    AlreadyExistsError,
    ConflictError,
    ForbiddenError,
    GoneError,
    InvalidError,
    LeadershipLostError,
    NotFoundError,
    UnavailableError,
)
from gangctl.runtime.election import ElectionOptions, LeaseElection
from gangctl.runtime.events import Event, EventRecorder, ObjectReference
from gangctl.runtime.informer import Informer, InformerObserver, InformerOptions
from tests.controlplane import ControlPlane, wait_for
from tests.resources import CUSTOM_RESOURCE_DEFINITIONS

pytestmark = pytest.mark.controlplane

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
SHORT = ElectionOptions(20.0, 10.0, 0.3, 1.0)
# A slow machine does not lose the Lease, and a candidate that waits for it to expire waits for a minute.
STEADY = ElectionOptions(60.0, 40.0, 0.3, 10.0)


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


async def eventually(condition: Callable[[], object]) -> None:
    async def holds() -> bool:
        return bool(condition())

    await wait_for(holds, what="what happens in other processes", interval=0.02)


@pytest.fixture
async def transport(plane: ControlPlane) -> AsyncIterator[Transport]:
    async with Transport(await load_cluster(kubeconfig=plane.kubeconfig)) as opened:
        yield opened


@pytest.fixture
def client(transport: Transport) -> Client:
    return Client(transport)


async def test_an_object_is_created_patched_and_deleted(client: Client, namespace: str) -> None:
    created = await client.create(CONFIG_MAPS, config_map("a", x="1"), namespace)
    with pytest.raises(AlreadyExistsError):
        await client.create(CONFIG_MAPS, config_map("a"), namespace)
    assert await client.get(CONFIG_MAPS, "a", namespace) == created
    patched = await client.merge_patch(CONFIG_MAPS, "a", {"data": {"x": "2", "y": None}}, namespace)
    assert patched["data"] == {"x": "2"}
    tested = [{"op": "test", "path": "/data/x", "value": "2"}, {"op": "add", "path": "/data/z", "value": "3"}]
    assert (await client.json_patch(CONFIG_MAPS, "a", tested, namespace))["data"] == {"x": "2", "z": "3"}
    with pytest.raises(InvalidError):
        await client.json_patch(CONFIG_MAPS, "a", [{"op": "test", "path": "/data/x", "value": "9"}], namespace)
    with pytest.raises(ConflictError):
        await client.update(CONFIG_MAPS, created)
    applied = await client.apply(CONFIG_MAPS, config_map("a", x="4"), namespace, force=True)
    assert applied["data"]["x"] == "4"
    other = Client(client._transport, Settings(field_manager="other"))
    with pytest.raises(ConflictError) as refused:
        await other.apply(CONFIG_MAPS, config_map("a", x="5"), namespace)
    assert refused.value.details["causes"][0]["reason"] == "FieldManagerConflict"
    with pytest.raises(ConflictError):
        await client.delete(CONFIG_MAPS, "a", namespace, uid="another")
    uid = created["metadata"]["uid"]
    await client.delete(CONFIG_MAPS, "a", namespace, uid=uid, propagation="Background")
    with pytest.raises(NotFoundError):
        await client.get(CONFIG_MAPS, "a", namespace)


async def test_errors_of_the_server_have_their_classes(client: Client, plane: ControlPlane, namespace: str) -> None:
    with pytest.raises(InvalidError):
        await client.create(SECRETS, {"metadata": {"name": "NOT VALID"}}, namespace)
    async with Transport(await load_cluster(kubeconfig=plane.kubeconfig_for("nobody"))) as transport:
        with pytest.raises(ForbiddenError):
            await Client(transport).list(CONFIG_MAPS, namespace)


async def test_lists_are_paged_and_selected(client: Client, namespace: str) -> None:
    names = [f"m{number:02}" for number in range(25)]
    for number, name in enumerate(names):
        body = config_map(name)
        body["metadata"]["labels"] = {"odd": str(number % 2)}
        await client.create(CONFIG_MAPS, body, namespace)
    async with aclosing(client.pages(CONFIG_MAPS, namespace, selection=Selection("odd"), limit=10)) as pages:
        sizes = [len(page.items) async for page in pages]
    assert sizes == [10, 10, 5]
    odd = await client.list(CONFIG_MAPS, namespace, selection=Selection("odd=1"))
    assert [item["metadata"]["name"] for item in odd.items] == names[1::2]
    one = await client.list(CONFIG_MAPS, namespace, selection=Selection(field_selector="metadata.name=m07"))
    assert len(one.items) == 1


async def test_a_watch_yields_changes(client: Client, namespace: str) -> None:
    version = (await client.list(CONFIG_MAPS, namespace)).resource_version
    await client.create(CONFIG_MAPS, config_map("w", x="1"), namespace)
    await client.merge_patch(CONFIG_MAPS, "w", {"data": {"x": "2"}}, namespace)
    await client.delete(CONFIG_MAPS, "w", namespace)
    seen = []
    selection = Selection(field_selector="metadata.name=w")
    watch = client.watch(CONFIG_MAPS, namespace, resource_version=version, selection=selection)
    async with aclosing(watch) as events:
        async for event in events:
            seen.append(event.type)
            if event.type == "DELETED":
                break
    assert seen == ["ADDED", "MODIFIED", "DELETED"]


async def test_discovery_reads_the_versions_of_the_server(client: Client, plane: ControlPlane) -> None:
    version = await client.discovery.version()
    assert f"{version['major']}.{version['minor']}" == plane.minor.name
    assert (await client.discovery.group_versions("batch"))[0] == "v1"
    assert await client.discovery.group_versions("no.such.group") == []
    assert await client.discovery.serves(JOBSETS)
    assert not await client.discovery.serves(Resource("batch", "v9", "jobs", "Job"))
    document = await client.discovery.openapi_v3("apis/batch/v1")
    assert any(name.endswith("batch.v1.JobSpec") for name in document["components"]["schemas"])


async def test_a_replaced_token_file_is_read_again(
    client: Client, plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "robot"}}, namespace)
    path = SERVICE_ACCOUNTS.path(namespace, "robot", "token")
    answer = (await client.send(Request("POST", path, "create", "serviceaccounts", body={"spec": {}}))).json()
    (tmp_path / "token").write_text("worn out\n")
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(
        f"""
        current-context: c
        contexts: [{{name: c, context: {{cluster: k, user: u, namespace: {namespace}}}}}]
        clusters: [{{name: k, cluster: {{server: "{plane.url}", certificate-authority: "{plane.ca}"}}}}]
        users: [{{name: u, user: {{tokenFile: token}}}}]
        """
    )
    cluster = await load_cluster(kubeconfig=kubeconfig)
    assert cluster.namespace == namespace
    (tmp_path / "token").write_text(answer["status"]["token"] + "\n")
    async with Transport(cluster) as transport:
        with pytest.raises(ForbiddenError, match=f"system:serviceaccount:{namespace}:robot"):
            await Client(transport).list(CONFIG_MAPS, namespace)


class Restarts(InformerObserver):
    def __init__(self) -> None:
        self.reasons: Counter[str] = Counter()

    def restarted(self, reason: str) -> None:
        self.reasons[reason] += 1


class Mirror:
    """An informer on the ConfigMaps of a namespace, and what it should hold."""

    def __init__(self, client: Client, namespace: str, resource: Resource = CONFIG_MAPS) -> None:
        self.notes = Restarts()
        self.absent = asyncio.Event()
        self.informer = Informer(
            client,
            resource,
            lambda raw: str((raw.get("data") or {}).get("x", "")),
            namespace=namespace,
            on_absent=self.absent.set,
            observer=self.notes,
            options=InformerOptions(cap_delay_seconds=1.0),
        )

    @property
    def known(self) -> dict[str, str | None]:
        store = self.informer.store
        return {name: store.get(ns, name) for ns, name in store.keys() if name != "kube-root-ca.crt"}  # noqa: SIM118

    async def __aenter__(self) -> Self:
        self.task = asyncio.create_task(self.informer.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


async def test_an_informer_follows_changes(client: Client, namespace: str) -> None:
    await client.create(CONFIG_MAPS, config_map("a", x="1"), namespace)
    async with Mirror(client, namespace) as mirror:
        await mirror.informer.synced.wait()
        assert mirror.known == {"a": "1"}
        await client.create(CONFIG_MAPS, config_map("b", x="1"), namespace)
        await client.merge_patch(CONFIG_MAPS, "a", {"data": {"x": "2"}}, namespace)
        await eventually(lambda: mirror.known == {"a": "2", "b": "1"})
        await client.delete(CONFIG_MAPS, "a", namespace)
        await eventually(lambda: mirror.known == {"b": "1"})


async def test_an_informer_continues_after_its_resource_was_absent(client: Client, namespace: str) -> None:
    plural = f"things{namespace[-6:]}"
    kind = plural.capitalize()
    group = "test.gangctl.dev"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    definition = {
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": plural[:-1], "kind": kind, "listKind": f"{kind}List"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }
    things = Resource(group, "v1", plural, kind)
    async with Mirror(client, namespace, things) as mirror:
        await mirror.absent.wait()
        assert not mirror.informer.synced.is_set()
        await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
        await mirror.informer.synced.wait()
        body = {"apiVersion": f"{group}/v1", "kind": kind, **config_map("t", x="1")}
        await client.create(things, body, namespace)
        await eventually(lambda: mirror.known == {"t": "1"})
        mirror.absent.clear()
        await client.delete(CUSTOM_RESOURCE_DEFINITIONS, f"{plural}.{group}")
        await mirror.absent.wait()
        assert not mirror.informer.synced.is_set()
        assert mirror.known == {}


async def test_events_are_written_once_and_counted(client: Client, namespace: str) -> None:
    found = await client.create(CONFIG_MAPS, config_map("a"), namespace)
    reference = ObjectReference("v1", "ConfigMap", namespace, "a", found["metadata"]["uid"])
    note = "é" * 2000
    results: Counter[str] = Counter()

    for _ in range(2):
        recorder = EventRecorder(client, instance="pod-1", recorded=lambda result: results.update([result]))
        task = asyncio.create_task(recorder.run())
        recorder.record(Event(reference, "Tested", note, "Test", "Warning"))
        await recorder.drain()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert results == {"created": 1, "existing": 1}
    events = (await client.list(EVENTS, namespace)).items
    assert len(events) == 1
    assert events[0]["regarding"]["uid"] == found["metadata"]["uid"]
    assert len(events[0]["note"].encode()) <= 1024


async def test_events_in_a_terminating_namespace_are_dropped_quietly(client: Client, namespace: str) -> None:
    holder = config_map("held")
    holder["metadata"]["finalizers"] = ["test.gangctl.dev/hold"]
    found = await client.create(CONFIG_MAPS, holder, namespace)
    await client.delete(NAMESPACES, namespace)
    results: Counter[str] = Counter()

    recorder = EventRecorder(client, instance="pod-1", recorded=lambda result: results.update([result]))
    task = asyncio.create_task(recorder.run())
    uid = found["metadata"]["uid"]
    recorder.record(Event(ObjectReference("v1", "ConfigMap", namespace, "held", uid), "Tested", "note", "Test"))
    await recorder.drain()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await client.merge_patch(CONFIG_MAPS, "held", {"metadata": {"finalizers": None}}, namespace)
    assert results == {"unwelcome": 1}


class Candidate:
    def __init__(self, transport: Transport, namespace: str, identity: str, options: ElectionOptions) -> None:
        self.election = LeaseElection(
            Client(transport, Settings(throttled=False)),
            name="gangctl",
            namespace=namespace,
            identity=identity,
            options=options,
        )
        self.finish = asyncio.Event()
        self.task = asyncio.create_task(self.election.run(self._work))

    async def _work(self) -> None:
        await self.finish.wait()

    async def leading(self) -> None:
        await eventually(lambda: self.election.is_leader)


async def test_leadership_is_handed_over_on_release(transport: Transport, client: Client, namespace: str) -> None:
    first = Candidate(transport, namespace, "a", STEADY)
    await first.leading()
    second = Candidate(transport, namespace, "b", STEADY)
    await eventually(lambda: second.election.holder == "a")
    version = (await client.list(LEASES, namespace)).resource_version
    first.finish.set()
    await first.task
    await second.leading()
    holders: list[str] = []
    async with aclosing(client.watch(LEASES, namespace, resource_version=version)) as events:
        async for event in events:
            holders.append(event.object["spec"].get("holderIdentity") or "")
            if holders[-1] == "b":
                break
    assert "" in holders, "it was given back, and did not run out"
    lease = await client.get(LEASES, "gangctl", namespace)
    assert lease["spec"]["holderIdentity"] == "b"
    assert lease["spec"]["leaseTransitions"] == 1
    # A thief with the right to do so takes it, and the leader notices.
    await client.merge_patch(LEASES, "gangctl", {"spec": {"holderIdentity": "thief"}}, namespace)
    with pytest.raises(LeadershipLostError, match="thief"):
        await second.task


@pytest.mark.full("the whole of gangctl goes through it in test_api_server_down_live")
async def test_a_hanging_and_a_dead_api_server_are_errors() -> None:
    async with ControlPlane.start("1.37", (), controller_manager=False, scheduler=False) as plane:
        cluster = await load_cluster(kubeconfig=plane.kubeconfig)
        async with Transport(cluster) as transport:
            client = Client(transport)
            before = (await client.list(CONFIG_MAPS)).resource_version
            await client.create(CONFIG_MAPS, config_map("a", x="1"), "default")
            leader = Candidate(transport, "default", "a", SHORT)
            await leader.leading()
            mirror = Mirror(client, "default")
            async with mirror:
                await mirror.informer.synced.wait()
                plane.pause("kube-apiserver")
                with pytest.raises(LeadershipLostError):
                    await leader.task
                plane.resume("kube-apiserver")
                await client.merge_patch(CONFIG_MAPS, "a", {"data": {"x": "2"}}, "default")
                await eventually(lambda: mirror.known == {"a": "2"})
                await plane.kill("kube-apiserver")
                with pytest.raises(UnavailableError):
                    await client.create(CONFIG_MAPS, config_map("b"), "default", timeout_seconds=1)
                await plane.start_component("kube-apiserver")
                await client.merge_patch(CONFIG_MAPS, "a", {"data": {"x": "3"}}, "default")
                await eventually(lambda: mirror.known == {"a": "3"})
            # Whether the restarted server still knew what came last depends on when its cache began.
            gone = mirror.notes.reasons["gone"]
            # Objects change while no watch is open, and the next server does not have their history.
            await client.delete(CONFIG_MAPS, "a", "default")
            await client.create(CONFIG_MAPS, config_map("b", x="4"), "default")
            await plane.kill("kube-apiserver")
            await plane.start_component("kube-apiserver")
            with pytest.raises(GoneError):
                await anext(client.watch(CONFIG_MAPS, resource_version=before))
            async with mirror:
                await eventually(lambda: mirror.known == {"b": "4"})
            assert mirror.notes.reasons["gone"] > gone
