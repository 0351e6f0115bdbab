"""Kueue is installed and removed while gangctl runs; what cannot be read is named, and nothing crashes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from types import SimpleNamespace
from typing import Any

import pytest

from gangctl.client.client import Client
from gangctl.client.resources import Resource
from gangctl.client.transport import Transport
from gangctl.cluster import kinds
from gangctl.controllers.queues.sources import ABSENT_CHECKS, Presence, QueueSources, podset_limit
from gangctl.errors import ServerError
from gangctl.kueue.configuration import CONFIG_KEY
from gangctl.sandbox.server import SandboxOptions
from tests.controllers.queues.definitions import KUEUE, definition
from tests.controlplane.wait import NotYet, wait_for
from tests.credentials import StaticCredentials
from tests.resources import CUSTOM_RESOURCE_DEFINITIONS
from tests.sandbox.faults import FaultySandbox, Match, error

HERE = "kueue-system"


class Context:
    """Sources beside a sandbox, and when they reported the presence of Kueue."""

    def __init__(self, sandbox: FaultySandbox, client: Client) -> None:
        self.sandbox = sandbox
        self.client = client
        self.reported: list[bool | None] = []
        self.sources = QueueSources(client, self._heard, period_seconds=0.05, retry_seconds=0.05)

    def _heard(self) -> None:
        self.reported.append(self.sources.present)

    async def define(self, *resources: Resource) -> None:
        for each in resources or KUEUE:
            await self.client.create(CUSTOM_RESOURCE_DEFINITIONS, definition(each))

    async def remove(self) -> None:
        for each in KUEUE:
            await self.client.delete(CUSTOM_RESOURCE_DEFINITIONS, each.qualified_name)

    async def create(self, resource: Resource, name: str, **body: Any) -> None:
        metadata = {"name": name, **({"namespace": "default"} if resource.namespaced else {})}
        raw = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **body}
        await self.client.create(resource, raw)

    async def until_present(self, present: bool) -> None:
        async def met() -> bool:
            if self.sources.present is not present:
                raise NotYet(str(self.sources.present))
            return True

        await wait_for(met, what=f"presence {present}", interval=0.01)

    def asked(self) -> set[str]:
        """Resources that were listed or watched."""
        return {each.resource for each in self.sandbox.audit if each.verb in {"list", "watch"}}


@pytest.fixture
async def context() -> AsyncIterator[Context]:
    async with (
        FaultySandbox(SandboxOptions(tls=False)) as sandbox,
        Transport(StaticCredentials(sandbox.url, token=sandbox.token())) as transport,
    ):
        yield Context(sandbox, Client(transport))


@asynccontextmanager
async def running(context: Context) -> AsyncIterator[None]:
    task = asyncio.create_task(context.sources.run())
    try:
        yield
        assert not task.done()
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def synced(*sources: Any) -> None:
    for source in sources:
        await asyncio.wait_for(source.informer.synced.wait(), 300)


async def test_the_absence_of_kueue_is_accepted_after_repeated_checks(context: Context) -> None:
    assert context.sources.present is None
    assert context.sources.unsettled() == ["kueue"]
    async with running(context):
        await context.until_present(False)
        assert context.reported == [False]
        assert context.sources.unsettled() == []
        assert context.asked() == set()


async def test_kueue_that_is_installed_later_is_followed(context: Context) -> None:
    async with running(context):
        await context.until_present(False)
        await context.define()
        await context.create(kinds.CLUSTER_QUEUES, "cq", spec={"cohort": "all"})
        await context.create(kinds.LOCAL_QUEUES, "q", spec={"clusterQueue": "cq"})
        await context.until_present(True)
        await synced(context.sources.cluster_queues, context.sources.local_queues, context.sources.namespaces)
        queue = context.sources.local_queues.store.get("default", "q")
        assert queue is not None
        assert queue.cluster_queue == "cq"
        assert context.sources.namespaces.store.get("", "default") is not None


async def test_kueue_that_is_removed_and_reinstalled_is_followed(context: Context) -> None:
    await context.define()
    async with running(context):
        await context.until_present(True)
        await synced(
            *(source for source in context.sources.all if source.informer.resource.group == kinds.COHORTS.group)
        )
        await context.remove()
        await context.until_present(False)

        async def gone() -> bool:
            listed = await context.client.list(CUSTOM_RESOURCE_DEFINITIONS)
            return not [each for each in listed.items if each["spec"]["group"] == kinds.COHORTS.group]

        await wait_for(gone, what="the definitions to be gone", interval=0.01)
        await context.define()
        await context.until_present(True)
        await context.create(kinds.LOCAL_QUEUES, "q", spec={"clusterQueue": "cq"})

        async def seen() -> bool:
            return context.sources.local_queues.store.get("default", "q") is not None

        await wait_for(seen, what="the queue to be seen", interval=0.01)
        assert [each for each in context.reported if each is not None] == context.reported


async def test_a_forbidden_kind_is_reported_and_read_once_allowed(context: Context) -> None:
    await context.define()
    refused = error(403, "Forbidden", "cohorts is forbidden")
    context.sandbox.faults.add(Match("admin", frozenset({"list"}), "cohorts.kueue.x-k8s.io"), refused, times=1_000_000)
    async with running(context):
        await context.until_present(True)
        await synced(context.sources.cluster_queues)

        async def named() -> bool:
            return "cohorts cannot be read (forbidden)" in context.sources.unknown()

        await wait_for(named, what="the cohorts to be named", interval=0.01)
        await context.sources.settled()
        known: list[bool] = []
        context.sources.on_known(lambda: known.append(context.sources.cohorts.known))
        assert "cohorts" not in context.sources.unsettled()
        context.sandbox.faults.clear()
        await synced(context.sources.cohorts)
        assert known == [True]
        assert not any("cohorts" in each for each in context.sources.unknown())


async def test_a_missing_definition_does_not_hide_the_others(context: Context) -> None:
    await context.define(*(each for each in KUEUE if each is not kinds.COHORTS))
    async with running(context):
        await context.until_present(True)
        await synced(context.sources.cluster_queues)
        assert "cohorts not read yet" in context.sources.unknown()
        await context.define(kinds.COHORTS)
        await synced(context.sources.cohorts)


async def test_only_kueues_own_configuration_is_read(context: Context) -> None:
    await context.define()
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HERE}}
    await context.client.create(Resource("", "v1", "namespaces", "Namespace", namespaced=False), namespace)
    for name, text in ((kinds.CONFIG_NAME, "resources: {}"), ("other", "no")):
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": HERE}}
        await context.client.create(kinds.CONFIG_MAPS, {**body, "data": {CONFIG_KEY: text}})
    async with running(context):
        await context.until_present(True)
        await synced(context.sources.configuration)
        assert list(context.sources.configuration.store.values()) == ["resources: {}"]


def limited(podsets: int | None) -> dict[str, Any]:
    """The OpenAPI document of Kueue's version with this limit."""
    spec = {"properties": {"podSets": {"type": "array", "maxItems": podsets}}}
    kind = {"group": "kueue.x-k8s.io", "version": "v1beta2", "kind": "Workload"}
    schema = {"x-kubernetes-group-version-kind": [kind], "properties": {"spec": spec}}
    other = {"x-kubernetes-group-version-kind": [{**kind, "kind": "Cohort"}]}
    return {"components": {"schemas": {"a": other, "b": schema}}}


class Discovery:
    """Returns what a test sets, and counts its calls."""

    def __init__(self) -> None:
        self.served: list[str] = []
        self.failing = False
        self.limit: int | None = None
        self.asked = 0

    async def resources(self, group: str, version: str) -> list[dict[str, Any]]:
        assert (group, version) == ("kueue.x-k8s.io", "v1beta2")
        self.asked += 1
        if self.failing:
            raise ServerError(503, "ServiceUnavailable", "starting")
        return [{"name": name} for each in self.served for name in (each, f"{each}/status")]

    async def openapi_v3(self, path: str = "") -> dict[str, Any]:
        if path:
            return limited(self.limit)
        # The URL of a document changes with it.
        return {"paths": {"apis/kueue.x-k8s.io/v1beta2": {"serverRelativeURL": f"/{self.limit}"}}}


@asynccontextmanager
async def looking(discovery: Discovery) -> AsyncIterator[tuple[Presence, list[bool | None]]]:
    received: list[bool | None] = []
    client: Any = SimpleNamespace(discovery=discovery)
    presence = Presence(client, lambda: received.append(presence.present), period_seconds=0.001)
    task = asyncio.create_task(presence.run())
    try:
        yield presence, received
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def asked(discovery: Discovery, more: int) -> None:
    target = discovery.asked + more

    async def enough() -> bool:
        return discovery.asked >= target

    await wait_for(enough, what="some looks", interval=0.001)


async def test_an_unreachable_api_server_changes_nothing() -> None:
    discovery = Discovery()
    discovery.served, discovery.failing = sorted(kinds.ESSENTIAL), True
    async with looking(discovery) as (presence, received):
        await asked(discovery, ABSENT_CHECKS + 2)
        assert (presence.present, received) == (None, [])
        discovery.failing = False
        await asked(discovery, 2)
        assert (presence.present, received) == (True, [True])
        discovery.failing = True
        await asked(discovery, ABSENT_CHECKS + 2)
        assert (presence.present, received) == (True, [True])


async def test_a_momentary_absence_of_kueue_is_ignored() -> None:
    discovery = Discovery()
    discovery.served = sorted(kinds.ESSENTIAL)
    async with looking(discovery) as (presence, received):
        await asked(discovery, 2)
        presence._missed = ABSENT_CHECKS - 2
        discovery.served = ["clusterqueues"]
        await asked(discovery, 1)
        discovery.served = sorted(kinds.ESSENTIAL)
        await asked(discovery, 3)
        assert (presence.present, received) == (True, [True])
        discovery.served = []
        await asked(discovery, ABSENT_CHECKS + 1)
        assert (presence.present, received) == (False, [True, False])


async def test_a_new_podset_limit_is_a_change() -> None:
    """An upgrade of Kueue changes no kind: JobSets with more podsets than before wait for nothing else."""
    discovery = Discovery()
    discovery.served = sorted(kinds.ESSENTIAL)
    async with looking(discovery) as (presence, received):
        for limit in (8, 18):
            discovery.limit = limit
            await asked(discovery, 2)
            assert presence.podset_limit == limit
    assert received == [True, True, True], "when Kueue was found, and with each limit"


@pytest.mark.parametrize("limit", [8, 10, 18])
def test_the_podset_limit_is_read_from_the_definition(limit: int) -> None:
    assert podset_limit(limited(limit)) == limit


@pytest.mark.parametrize("document", [{}, {"components": {"schemas": None}}, {"components": {"schemas": {"a": 1}}}])
def test_a_definition_without_a_podset_limit_gives_none(document: dict[str, Any]) -> None:
    assert podset_limit(document) is None
