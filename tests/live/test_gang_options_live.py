"""What gangs can be where the feature gates are on: topology keys, a shared claim, gangs that start together.

A control plane for each minor, with those gates, which no other test needs.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, Final

import pytest

from tests.controlplane.api import Object, path_of
from tests.controlplane.components.addon import remove_namespace
from tests.controlplane.kubelet import Kubelet
from tests.controlplane.nodes import NODES, add_nodes, remove_nodes
from tests.controlplane.wait import NotYet, read_until, wait_for
from tests.jobsets import jobset, rj
from tests.live.causes import why
from tests.live.cluster import JOBSETS, Cluster
from tests.live.fixtures import alone, place_for
from tests.live.gangctl import Gangctl
from tests.live.observe import gang_of, running_pods
from tests.live.placing import nothing_to_place

GANGS: Final = "gangctl.dev/gangs"
JOBSET: Final = "jobset.sigs.k8s.io/jobset-name"
REPLICATED_JOB: Final = "jobset.sigs.k8s.io/replicatedjob-name"
INDEX: Final = "jobset.sigs.k8s.io/job-index"
GATES: Final = {"TopologyAwareWorkloadScheduling": True, "DRAWorkloadResourceClaims": True}
DRA: Final = "resource.k8s.io/v1"

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(900)]


_NEWEST: Final = pytest.param("1.37", marks=pytest.mark.minor("1.37"))
NEWEST: Final = pytest.mark.parametrize("running", [_NEWEST], indirect=True)


@pytest.fixture(
    scope="module",
    params=[
        _NEWEST,
        pytest.param("1.36", marks=[pytest.mark.minor("1.36"), pytest.mark.full("1.37 has the same fields")]),
    ],
)
def running(request: pytest.FixtureRequest) -> Iterator[Gangctl]:
    """gangctl on a plane with every gate."""
    newest = request.param == "1.37"
    more = {"CompositePodGroup" if newest else "WorkloadAwarePreemption": True}
    versions = {"scheduling.k8s.io/v1alpha3": True} if newest else {}
    yield from alone(request.param, gates={**GATES, **more}, runtime_config=versions)


@pytest.fixture
async def cluster(running: Gangctl, request: pytest.FixtureRequest) -> AsyncIterator[Cluster]:
    """A namespace there; all nodes are this test's, and go with it."""
    cluster = await place_for(running.plane, request.node.name)
    await cluster.asked()
    yield cluster
    await remove_namespace(cluster.api, cluster.namespace)
    await remove_nodes(cluster.api, [node["metadata"]["name"] for node in await cluster.api.list(NODES)])


@pytest.fixture
async def kubelet(cluster: Cluster) -> AsyncIterator[Kubelet]:
    async with Kubelet(cluster.api) as kubelet:
        yield kubelet


async def racks(cluster: Cluster, *names: str, nodes: int, zone: str = "z") -> None:
    """Nodes with one CPU, some in each rack."""
    for name in names:
        await add_nodes(cluster.api, nodes, cpu="1", labels={"rack": name, "zone": zone})


async def places(cluster: Cluster, label: str, pods: list[Object]) -> Mapping[tuple[str, str], set[str]]:
    """Values of a label of the nodes, by ReplicatedJob and index of the pods' Jobs."""
    nodes = {node["metadata"]["name"]: node["metadata"]["labels"] for node in await cluster.api.list(NODES)}
    found: dict[tuple[str, str], set[str]] = {}
    for pod in pods:
        labels = pod["metadata"]["labels"]
        found.setdefault((labels[REPLICATED_JOB], labels[INDEX]), set()).add(nodes[pod["spec"]["nodeName"]][label])
    return found


@pytest.mark.usefixtures("kubelet")
async def test_each_gang_has_its_own_topology_key_and_one_claim(cluster: Cluster) -> None:
    gangs = [
        {"name": "racked", "replicatedJobs": ["a", "b"], "topologyKey": "rack"},
        {
            "name": "zoned",
            "replicatedJobs": ["c", "d"],
            "topologyKey": "zone",
            "resourceClaims": [{"name": "net", "resourceClaimTemplateName": "channel"}],
        },
    ]
    await add_device(cluster, "net.example.com")
    await racks(cluster, "r1", nodes=3)
    await racks(cluster, "r2", "r3", nodes=2, zone="y")
    claim = {"resourceClaims": [{"name": "net", "resourceClaimTemplateName": "channel"}]}
    pods = (rj("a", 1, 1, 1, cpu="1"), rj("b", 1, 2, 2, cpu="1"))
    more = (rj("c", 1, 2, 2, cpu="1", pod=claim), rj("d", 1, 2, 2, cpu="1", pod=claim))
    await cluster.create_jobset(jobset("js", *pods, *more, annotations={GANGS: json.dumps(gangs)}))
    running = await running_pods(cluster, 7)
    by_rack, by_zone = await places(cluster, "rack", running), await places(cluster, "zone", running)
    assert by_rack["a", "0"] == by_rack["b", "0"] == {"r1"}
    assert by_zone["c", "0"] == by_zone["d", "0"] == {"y"}
    (claimed,) = await cluster.api.list(cluster.path(DRA, "resourceclaims"))
    assert claimed["status"]["allocation"]["devices"]["results"][0]["device"] == "channel-0"
    (holder,) = claimed["status"]["reservedFor"]
    gang = await gang_of(cluster, "js")
    assert (holder["resource"], gang.template_of(holder["name"])) == ("podgroups", "zoned")


async def add_device(cluster: Cluster, driver: str) -> None:
    """One device that every node can reach, and a template of claims for it."""
    selectors = [{"cel": {"expression": f'device.driver == "{driver}"'}}]
    await cluster.api.create(
        path_of(DRA, "deviceclasses"), {"metadata": {"name": driver}, "spec": {"selectors": selectors}}
    )
    pool = {"name": driver, "generation": 1, "resourceSliceCount": 1}
    slices: Object = {"driver": driver, "pool": pool, "allNodes": True, "devices": [{"name": "channel-0"}]}
    await cluster.api.create(path_of(DRA, "resourceslices"), {"metadata": {"name": driver}, "spec": slices})
    request = {"name": "channel", "exactly": {"deviceClassName": driver}}
    template: dict[str, Any] = {"metadata": {"name": "channel"}, "spec": {"spec": {"devices": {"requests": [request]}}}}
    await cluster.api.create(cluster.path(DRA, "resourceclaimtemplates"), template)


@pytest.mark.usefixtures("kubelet")
async def test_a_gang_preempts_another_by_the_class_of_its_pods(cluster: Cluster) -> None:
    """On 1.36, with the feature gate WorkloadAwarePreemption, the class of the group counts."""
    classes = path_of("scheduling.k8s.io/v1", "priorityclasses")
    await cluster.api.create(classes, {"metadata": {"name": "urgent"}, "value": 1000})
    await racks(cluster, "r1", nodes=2)
    await cluster.create_jobset(jobset("first", rj("w", 1, 2, 2, cpu="1"), mode="Gang"))
    await running_pods(cluster, 2)
    urgent = {"priorityClassName": "urgent"}
    await cluster.create_jobset(jobset("urgent", rj("w", 1, 2, 2, cpu="1", pod=urgent), mode="Gang"))

    def runs(pods: list[Object]) -> bool:
        own = [pod for pod in pods if pod["metadata"]["labels"][JOBSET] == "urgent"]
        return [pod["status"].get("phase") for pod in own] == ["Running", "Running"]

    await read_until(cluster.pods, runs, "the urgent gang to run")


async def test_a_gang_that_has_finished_frees_its_devices_for_the_next_one(cluster: Cluster, kubelet: Kubelet) -> None:
    """They stay allocated to a PodGroup for as long as it exists, whether or not it has pods."""
    claims = [{"name": "net", "resourceClaimTemplateName": "channel"}]
    gangs = [{"name": "sweep", "replicatedJobs": ["w"], "perReplica": True, "resourceClaims": claims}]
    await add_device(cluster, "sweep.example.com")
    await racks(cluster, "r9", nodes=2)
    worker = rj(
        "w", 2, 2, 2, cpu="1", pod={"resourceClaims": [{"name": "net", "resourceClaimTemplateName": "channel"}]}
    )
    await cluster.create_jobset(jobset("js", worker, annotations={GANGS: json.dumps(gangs)}))
    first = await running_pods(cluster, 2)
    (index,) = {pod["metadata"]["labels"][INDEX] for pod in first}
    for pod in first:
        await kubelet.finish(pod)
    await read_until(
        lambda: running_pods(cluster, 2),
        lambda pods: {pod["metadata"]["labels"][INDEX] for pod in pods} == {"0", "1"} - {index},
        "the other replica to run",
    )


def slices(name: str) -> Object:
    """A JobSet of three slices, each of which needs a rack."""
    options = json.dumps({"topologyKey": "rack", "composite": True})
    worker = rj("w", 3, 2, 2, cpu="1", mode="ReplicatedGang", job={"backoffLimit": 3})
    return jobset(name, worker, options=options)


@NEWEST
@pytest.mark.usefixtures("kubelet")
async def test_slices_of_two_jobs_start_all_or_none_and_each_in_one_rack(cluster: Cluster) -> None:
    await racks(cluster, "r1", "r2", "r3", "r4", nodes=2)
    for name in ("one", "two"):
        await cluster.create_jobset(slices(name))
    await running_pods(cluster, 6)
    await nothing_to_place(cluster.plane, full=True)
    running = await running_pods(cluster, 6)
    counts = Counter(pod["metadata"]["labels"][JOBSET] for pod in running)
    assert sorted(counts.values()) == [6], counts
    explained = await why(cluster.plane, cluster.namespace, next(iter({"one", "two"} - counts.keys())))
    assert explained.first == "Unschedulable", explained
    found = await places(cluster, "rack", running)
    assert all(len(values) == 1 for values in found.values()), found
    await cluster.api.delete(cluster.path(JOBSETS, "jobsets", next(iter(counts))))
    await others_run(cluster, next(iter(counts)))


async def others_run(cluster: Cluster, gone: str) -> None:
    await read_until(
        lambda: running_pods(cluster, 6),
        lambda pods: gone not in {pod["metadata"]["labels"][JOBSET] for pod in pods},
        "the other job to run",
    )


@NEWEST
async def test_a_pod_of_a_slice_is_replaced_after_another_slice_has_finished(
    cluster: Cluster, kubelet: Kubelet
) -> None:
    await racks(cluster, "r1", "r2", "r3", nodes=2)
    await cluster.create_jobset(slices("js"))
    pods = await running_pods(cluster, 6)
    of_slice = {index: [p for p in pods if p["metadata"]["labels"][INDEX] == index] for index in "012"}
    for pod in of_slice["0"]:
        await kubelet.finish(pod)
    await kubelet.fail(of_slice["1"][0])
    running = await running_pods(cluster, 4)
    assert of_slice["1"][0]["metadata"]["uid"] not in {pod["metadata"]["uid"] for pod in running}


@NEWEST
async def test_slices_start_together_again_after_a_restart(cluster: Cluster, kubelet: Kubelet) -> None:
    await racks(cluster, "r1", "r2", "r3", nodes=2)
    raw = slices("js")
    raw["spec"]["failurePolicy"] = {"maxRestarts": 1}
    for entry in raw["spec"]["replicatedJobs"]:
        entry["template"]["spec"]["backoffLimit"] = 0
    await cluster.create_jobset(raw)
    before = {pod["metadata"]["uid"]: pod for pod in await running_pods(cluster, 6)}
    await kubelet.fail(next(iter(before.values())))

    await read_until(
        lambda: running_pods(cluster, 6),
        lambda pods: not before.keys() & {pod["metadata"]["uid"] for pod in pods},
        "the pods of the second attempt to run",
    )

    async def only_the_new_parent() -> bool:
        parents = await cluster.api.list(cluster.path("scheduling.k8s.io/v1alpha3", "compositepodgroups"))
        if (names := [parent["metadata"]["name"] for parent in parents]) and names[0][-2:] == "-1":
            return len(names) == 1
        raise NotYet(str(names))

    await wait_for(only_the_new_parent, what="the parent of the first attempt to be deleted")
