"""The readiness events of a JobSet in a real cluster, and that only the leader follows pods."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.controlplane.api import Object
from tests.controlplane.kubelet import Kubelet
from tests.controlplane.nodes import add_nodes, remove_nodes
from tests.controlplane.wait import read_until
from tests.jobsets import jobset, rj
from tests.live.cluster import Cluster
from tests.live.gangctl import Gangctl
from tests.live.observe import pods_refused, said
from tests.live.replicas import two_replicas

pytestmark = pytest.mark.controlplane


@pytest.fixture
async def nodes(cluster: Cluster) -> AsyncIterator[list[str]]:
    found = await add_nodes(cluster.api, 2, cpu="4", labels={"room": cluster.namespace})
    async with Kubelet(cluster.api):
        yield found
    await remove_nodes(cluster.api, found)


def gang(cluster: Cluster, name: str, pods: int) -> Object:
    """So many pods of one CPU that have to start together, on nodes of the test's own."""
    return jobset(name, rj("w", 1, pods, pods, cpu="1", pod={"nodeSelector": {"room": cluster.namespace}}), mode="Gang")


async def counted(gangctl: Gangctl, number: int, metric: str, **labels: str) -> None:
    """Wait until a metric has the value."""
    await read_until(
        lambda: gangctl.metric(metric, labels), lambda value: value == number, f"{metric} of {labels} to be {number}"
    )


@pytest.mark.usefixtures("nodes")
async def test_a_started_gang_gets_two_events_and_a_waiting_one_is_counted_by_cause(
    cluster: Cluster, running: Gangctl
) -> None:
    await cluster.create_jobset(gang(cluster, "runs", 6))
    event = await said(cluster, "GangReady", "runs")
    assert event["type"] == "Normal"
    assert event["note"].startswith("All 6 pods are ready, ")
    await cluster.create_jobset(gang(cluster, "waits", 4))
    await counted(running, 1, "gangctl_gangs", namespace=cluster.namespace, phase="ready")
    await counted(running, 1, "gangctl_gangs_blocked", namespace=cluster.namespace, reason="Unschedulable")
    await counted(running, 6, "gangctl_gang_pods", namespace=cluster.namespace, state="ready")
    await running.settle()
    assert await cluster.reasons("runs") == ["GangReady", "WorkloadCreated"]


@pytest.mark.full("half a minute after it was first seen; what is told is in tests/controllers/readiness")
@pytest.mark.usefixtures("nodes")
async def test_a_waiting_gang_gets_an_event_with_the_cause(cluster: Cluster) -> None:
    await cluster.create_jobset(gang(cluster, "waits", 10))
    event = await said(cluster, "Unschedulable", "waits")
    assert event["type"] == "Warning"
    assert await cluster.reasons("waits") == ["Unschedulable", "WorkloadCreated"]


@pytest.mark.usefixtures("nodes")
async def test_refused_pods_are_reported_with_the_refusing_plugin(cluster: Cluster, running: Gangctl) -> None:
    quota: Object = {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
    await cluster.api.create(cluster.path("v1", "resourcequotas"), quota)
    await pods_refused(cluster, "exceeded quota")
    await cluster.create_jobset(gang(cluster, "js", 2))
    labels = {"namespace": cluster.namespace, "reason": "PodCreationRefused"}
    await counted(running, 1, "gangctl_gangs_blocked", **labels)


async def test_only_the_current_leader_follows_pods(bare: Cluster) -> None:
    pods = {"resource": "pods"}
    async with two_replicas(bare.plane) as replicas:
        leader, follower = await replicas.roles()
        await bare.create_jobset(jobset("js", rj("w", 1, 2, 2, mode="Gang")))
        await counted(leader, 2, "gangctl_gang_pods", namespace=bare.namespace, state="unscheduled")
        assert await follower.metric("gangctl_informer_objects", pods) == 0
        assert await follower.metric("gangctl_gangs") == 0
        leader.process.terminate()
        await counted(follower, 2, "gangctl_gang_pods", namespace=bare.namespace, state="unscheduled")
        assert await follower.metric("gangctl_informer_objects", pods) >= 2
