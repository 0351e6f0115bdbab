"""Annotation gangctl.dev/gangs on a real control plane: several gangs of one JobSet, and a minCount below all pods."""

from __future__ import annotations

import json

import pytest

from tests.controlplane.api import Object
from tests.controlplane.kubelet import Kubelet
from tests.controlplane.nodes import add_nodes, remove_nodes
from tests.jobsets import jobset, rj
from tests.live.cluster import Cluster, on
from tests.live.observe import gang_of, running_pods

pytestmark = pytest.mark.controlplane

GANGS = "gangctl.dev/gangs"
REPLICATED_JOB = "jobset.sigs.k8s.io/replicatedjob-name"


def of(pods: list[Object]) -> list[str]:
    return sorted(pod["metadata"]["labels"][REPLICATED_JOB] for pod in pods)


@on("1.37", "1.36", "1.35")
async def test_each_of_two_gangs_starts_when_all_its_pods_fit(cluster: Cluster) -> None:
    pod = cluster.room
    entries = (
        rj("a", 1, 1, 1, cpu="1", pod=pod),
        rj("b", 1, 2, 2, cpu="1", pod=pod),
        rj("c", 1, 1, 1, cpu="1", pod=pod),
    )
    large = rj("d", 1, 4, 4, cpu="1", pod=pod)
    gangs = [{"name": "first", "replicatedJobs": ["a", "b"]}, {"name": "second", "replicatedJobs": ["c", "d"]}]
    nodes = await add_nodes(cluster.api, 1, cpu="4", labels={"room": cluster.namespace})
    async with Kubelet(cluster.api):
        await cluster.create_jobset(jobset("js", *entries, large, annotations={GANGS: json.dumps(gangs)}))
        assert of(await running_pods(cluster, 3)) == ["a", "b", "b"]
        gang = await gang_of(cluster, "js")
        assert not cluster.has_groups or sorted(map(gang.group_min_count, gang.groups)) == [3, 5]
        nodes += await add_nodes(cluster.api, 1, cpu="8", labels={"room": cluster.namespace})
        assert of(await running_pods(cluster, 8)) == ["a", "b", "b", "c", "d", "d", "d", "d"]
    await remove_nodes(cluster.api, nodes)


@on("1.37", "1.36", "1.35")
async def test_a_gang_with_a_min_count_starts_with_fewer_pods_and_grows(cluster: Cluster) -> None:
    gang = {"name": "elastic", "replicatedJobs": ["w"], "minCount": 3}
    nodes = await add_nodes(cluster.api, 1, cpu="3", labels={"room": cluster.namespace})
    async with Kubelet(cluster.api):
        worker = rj("w", 1, 5, 5, cpu="900m", pod=cluster.room)
        await cluster.create_jobset(jobset("js", worker, annotations={GANGS: json.dumps([gang])}))
        await running_pods(cluster, 3)
        nodes += await add_nodes(cluster.api, 1, cpu="3", labels={"room": cluster.namespace})
        await running_pods(cluster, 5)
    await remove_nodes(cluster.api, nodes)
