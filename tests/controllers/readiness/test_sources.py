"""What may not be read leaves the rest working, and what was followed is forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from structlog.testing import capture_logs

from gangctl.client.client import Client
from gangctl.controllers.readiness.sources import ReadinessSources
from tests.client.server import ScriptedServer, Stream, page, status, thing

LABEL = "jobset.sigs.k8s.io/jobset-name"
PATHS = {"pods": "/api/v1/pods", "nodes": "/api/v1/nodes", "events": "/apis/events.k8s.io/v1/events"}


class Cluster:
    """A server that answers lists with what there is, and watches with silence."""

    def __init__(self, server: ScriptedServer) -> None:
        self.server = server
        self.there: dict[str, list[dict[str, Any]]] = {name: [] for name in PATHS}
        self.refused: set[str] = set()
        for name, path in PATHS.items():
            server.on("GET", path, self._answer(name))

    def _answer(self, name: str) -> Any:
        async def answer(request: Any) -> Any:
            if name in self.refused:
                return await status(403, "Forbidden")(request)
            if "watch" in request.query:
                return await Stream()(request)
            return await page(*self.there[name])(request)

        return answer


@pytest.fixture
def cluster(server: ScriptedServer) -> Cluster:
    found = Cluster(server)
    found.there["pods"] = [thing("p1", spec={"nodeName": "n1"}), thing("p2")]
    for pod in found.there["pods"]:
        pod["metadata"]["labels"] = {LABEL: "js"}
    found.there["nodes"] = [{"metadata": {"name": "n1", "uid": "n1", "resourceVersion": "1"}}]
    return found


@asynccontextmanager
async def running(sources: ReadinessSources) -> AsyncIterator[None]:
    task = asyncio.create_task(sources.run())
    try:
        async with asyncio.timeout(300):
            await sources.known()
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_pods_nodes_and_events_are_found_by_their_jobset(cluster: Cluster, client: Client) -> None:
    about = {"kind": "Job", "namespace": "ns", "name": "js-w-0"}
    cluster.there["events"] = [
        {
            **thing(f"e{n}"),
            "reason": "FailedCreate",
            "regarding": about,
            "note": f"{n}",
            "eventTime": f"2026-01-0{n}T00:00:00Z",
        }
        for n in (1, 3, 2)
    ]
    sources = ReadinessSources(client)
    async with running(sources):
        assert [pod.name for pod in sources.pods_of(("ns", "js"))] == ["p1", "p2"]
        assert list(sources.gangs_on("n1")) == [("ns", "js")]
        assert list(sources.nodes_by_name() or {}) == ["n1"]
        refused = sources.refused("ns", "Job", "js-w-0")
        assert refused is not None
        assert refused.message == "3"
        assert sources.refused("ns", "Job", "other") is None


async def test_only_pods_of_jobsets_and_their_events_are_listed(cluster: Cluster, client: Client) -> None:
    async with running(ReadinessSources(client)):
        pass
    pods = [seen for seen in cluster.server.asked("GET", PATHS["pods"]) if "watch" not in seen.query]
    assert {seen.query["labelSelector"] for seen in pods} == {LABEL}
    phases = sorted(seen.query["fieldSelector"] for seen in pods)
    assert phases == ["status.phase!=Succeeded,status.phase!=Failed", "status.phase=Failed"]
    selected = {seen.query["fieldSelector"] for seen in cluster.server.asked("GET", PATHS["events"])}
    assert selected == {
        "reason=FailedCreate,regarding.kind=Job",
        "reason=JobCreationFailed,regarding.kind=JobSet",
        "reason=HeadlessServiceCreationFailed,regarding.kind=JobSet",
        "reason=PVCCreationFailed,regarding.kind=JobSet",
    }


@pytest.mark.parametrize("kind", ["nodes", "events"])
async def test_a_forbidden_kind_is_logged_once_and_the_rest_is_known(
    kind: str, cluster: Cluster, client: Client
) -> None:
    cluster.refused = {kind}
    known: list[None] = []
    sources = ReadinessSources(client, lambda: known.append(None), retry_seconds=0.05)
    with capture_logs() as logs:
        async with running(sources):
            assert len(sources.pods_of(("ns", "js"))) == 2
            assert (sources.nodes_by_name() is None) is (kind == "nodes")
            await cluster.server.until(lambda: cluster.server.count("GET", PATHS[kind]) >= 5)
            reported = [entry for entry in logs if entry["event"] == "cannot follow"]
            assert len(reported) == (4 if kind == "events" else 1), "one line for each informer"
            before = len(known)
            cluster.refused = set()
            source = next(each for each in sources.all if each.informer.resource.plural == kind)
            async with asyncio.timeout(300):
                await source.informer.synced.wait()
            assert len(known) > before
            assert sources.nodes_by_name() is not None


async def test_without_pods_the_sources_are_not_known(cluster: Cluster, client: Client) -> None:
    cluster.refused = {"pods"}
    sources = ReadinessSources(client, retry_seconds=0.05)
    task = asyncio.create_task(sources.run())
    known = asyncio.create_task(sources.known())
    await cluster.server.until(lambda: cluster.server.count("GET", PATHS["pods"]) >= 3)
    assert not known.done()
    cluster.refused = set()
    async with asyncio.timeout(300):
        await known
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.usefixtures("cluster")
async def test_stopped_sources_are_emptied_and_followed_again(client: Client) -> None:
    sources = ReadinessSources(client)
    for _ in range(2):
        async with running(sources):
            assert len(sources.pods_of(("ns", "js"))) == 2
        assert [len(source.store) for source in sources.all] == [0] * 7
        assert sources.gangs_on("n1") == {}
        assert sources.nodes_by_name() is None
        assert not any(source.known for source in sources.all)


class One:
    """A single namespace is of interest."""

    def current(self) -> list[str]:
        return ["ns"]

    def subscribe(self, on_change: Callable[[], None]) -> None:
        """It stays the only one."""


async def test_a_shard_reads_only_its_own_namespaces(client: Client, server: ScriptedServer, cluster: Cluster) -> None:
    """But for nodes, which belong to no namespace."""
    answer = cluster._answer("pods")
    server.on("GET", "/api/v1/namespaces/ns/pods", answer)
    server.on("GET", "/apis/events.k8s.io/v1/namespaces/ns/events", cluster._answer("events"))
    sources = ReadinessSources(client, namespaces=One())
    async with running(sources):
        assert sorted(each.name for each in sources.pods_of(("ns", "js"))) == ["p1", "p2"]
        assert list(sources.gangs_on("n1")) == [("ns", "js")]
        assert sources.nodes_by_name() is not None
    paths = {seen.path for seen in server.seen}
    assert paths == {"/api/v1/namespaces/ns/pods", "/apis/events.k8s.io/v1/namespaces/ns/events", PATHS["nodes"]}
