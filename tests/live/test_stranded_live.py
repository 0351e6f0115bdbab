"""The cure of stranded gangs in real clusters: what holds nodes without it, what runs with it, and what stops it."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import pytest

from gangctl.api.meta import QUEUE_NAME
from tests.controlplane.api import Object
from tests.controlplane.components.addon import remove_namespace
from tests.controlplane.kubelet import Kubelet
from tests.controlplane.nodes import add_nodes, remove_nodes
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for
from tests.jobsets import jobset, rj
from tests.live.admission import QUEUE, Queues, install
from tests.live.cluster import JOBSETS, Cluster
from tests.live.gangctl import USER, Gangctl, create_namespaces, prepare, shared, shared_gangctl
from tests.live.observe import said
from tests.live.placing import is_refused

pytestmark = [pytest.mark.controlplane, pytest.mark.xdist_group("stranded")]

AFTER = "gangctl.dev/evict-stranded-after"
IGNORED = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}
FULL = pytest.mark.full("1.37 shows it in the first tier")
MINORS = [
    pytest.param("1.37"),
    pytest.param("1.36", marks=FULL),
    pytest.param("1.37 with Kueue", marks=FULL, id="1.37-kueue"),
]


@pytest.fixture(scope="module", params=MINORS)
def stranded_plane(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    minor, _, queued = request.param.partition(" ")

    async def start() -> ControlPlane:
        started = await ControlPlane.start(minor, ("jobset", "kueue") if queued else ("jobset",))
        await prepare(started)
        await install(started.api, "stranded")
        return started

    yield from shared(start)


@pytest.fixture(scope="module")
def evicting(stranded_plane: ControlPlane) -> Iterator[Gangctl]:
    yield from shared_gangctl(Gangctl(stranded_plane, "--evict-stranded"))


@dataclass
class Place:
    """A namespace with three nodes of its own, for one pod each."""

    cluster: Cluster
    gangctl: Gangctl
    nodes: list[str]
    queued: bool = False
    """Whether its JobSets are in a queue of Kueue."""

    async def submit(self, name: str, pods: int) -> None:
        """A gang whose pods may be evicted without a failure of their Job."""
        job = {"backoffLimit": 0, "podFailurePolicy": IGNORED}
        pod = {**self.cluster.room, "terminationGracePeriodSeconds": 1}
        raw = jobset(name, rj("w", 1, pods, pods, mode="Gang", cpu="1", job=job, pod=pod))
        if self.queued:
            raw["metadata"]["labels"] = {QUEUE_NAME: QUEUE}
        await self.cluster.create_jobset(raw)

    async def pods_of(self, name: str) -> list[Object]:
        """Its pods that are not being deleted."""
        label = "jobset.sigs.k8s.io/jobset-name"
        found = [pod for pod in await self.cluster.pods() if pod["metadata"]["labels"].get(label) == name]
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    async def until(self, name: str, placed: int, refused: int = 0) -> list[Object]:
        """Wait until so many of its pods are on nodes, and the scheduler has refused so many."""

        async def look() -> list[Object]:
            pods = await self.pods_of(name)
            on = [pod for pod in pods if pod["spec"].get("nodeName")]
            off = [pod for pod in pods if is_refused(pod)]
            if not pods or (len(on), len(off), len(pods)) != (placed, refused, placed + refused):
                raise NotYet(f"{len(on)} of {len(pods)} pods placed, {len(off)} refused")
            return pods

        return await wait_for(look, what=f"{name} to have {placed} pods on nodes")

    async def evict(self, pod: str) -> None:
        """As the taint manager and a drain do."""
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
        await self.cluster.api.create(self.cluster.path("v1", "pods", pod) + "/eviction", body)

    async def lose_a_node(self, name: str) -> None:
        """The node of one of its pods goes, and the pod with it."""
        pod = (await self.pods_of(name))[0]
        node = pod["spec"]["nodeName"]
        await remove_nodes(self.cluster.api, [node])
        self.nodes.remove(node)
        await self.evict(pod["metadata"]["name"])

    async def allow(self, name: str, delay: str) -> None:
        await self.cluster.patch_jobset(name, {"metadata": {"annotations": {AFTER: delay}}})

    def evictions(self, since: int) -> int:
        """How many evictions gangctl has asked for."""
        writes = self.cluster.plane.writes_by(USER, since).objects
        return sum(
            entry["objectRef"].get("subresource") == "eviction"
            and entry["objectRef"].get("namespace") == self.cluster.namespace
            for entry in writes
        )


@pytest.fixture
async def place(stranded_plane: ControlPlane, evicting: Gangctl) -> AsyncIterator[Place]:
    assert evicting.process.running, "an earlier test left gangctl stopped"
    name = f"stranded-{secrets.token_hex(3)}"
    await create_namespaces(stranded_plane, [name])
    cluster = Cluster(stranded_plane, name)
    nodes = await add_nodes(stranded_plane.api, 3, cpu="1", labels=cluster.room["nodeSelector"])
    async with Kubelet(stranded_plane.api):
        made = Place(cluster, evicting, nodes, queued="kueue" in stranded_plane.components)
        if made.queued:
            await Queues(cluster).open()
        yield made
        await remove_namespace(stranded_plane.api, name)
    await remove_nodes(stranded_plane.api, made.nodes)


async def test_another_gang_runs_on_the_nodes_of_one_that_lost_a_node(place: Place) -> None:
    """Without the cure both wait for ever: the first holds the nodes that the second needs, and lacks one itself."""
    since = place.cluster.plane.audit_position
    await place.submit("train", 3)
    await place.until("train", 3)
    await place.lose_a_node("train")
    await place.until("train", 2, refused=1)
    await place.submit("next", 2)
    await place.until("next", 0, refused=2)
    # It has not been asked to, and has had time to look at both, since the scheduler refused the last pod.
    await place.gangctl.settle()
    assert place.evictions(since) == 0
    await place.until("train", 2, refused=1)

    await place.allow("train", "1s")
    await place.until("next", 2)
    await place.until("train", 0, refused=3)
    event = await said(place.cluster, "GangEvicted", "train")
    assert event["note"].startswith("Evicted 2 pods of train-")
    assert place.evictions(since) == 2
    assert await place.gangctl.metric("gangctl_stranded_gangs_evicted_total") >= 1

    place.nodes += await add_nodes(place.cluster.api, 1, cpu="1", labels=place.cluster.room["nodeSelector"])
    await place.cluster.api.delete(place.cluster.path(JOBSETS, "jobsets", "next"), propagation="Background")
    await place.until("train", 3)
    assert "Failed" not in str((await place.cluster.jobset("train")).get("status"))
    assert place.evictions(since) == 2, "a gang that is whole is left alone"


@pytest.mark.full("a minute; the refusal itself is in tests/controllers/readiness/test_evictions.py")
async def test_a_disruption_budget_holds(place: Place) -> None:
    await place.submit("train", 3)
    pods = await place.until("train", 3)
    budgets = place.cluster.path("policy/v1", "poddisruptionbudgets")
    await place.lose_a_node("train")
    labels = {"jobset.sigs.k8s.io/jobset-name": "train"}
    spec = {"minAvailable": len(pods) - 1, "selector": {"matchLabels": labels}}
    await place.cluster.api.create(budgets, {"metadata": {"name": "keep"}, "spec": spec})
    await place.until("train", 2, refused=1)

    async def blocked() -> bool:
        if not await place.gangctl.metric("gangctl_stranded_pod_evictions_total", {"result": "blocked"}):
            raise NotYet("no eviction was refused")
        return True

    await place.allow("train", "1s")
    await wait_for(blocked, what="the budget to refuse an eviction")
    await place.until("train", 2, refused=1)
    await place.cluster.api.delete(f"{budgets}/keep")
    await place.until("train", 0, refused=3)
