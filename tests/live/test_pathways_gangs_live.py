"""Pathways JobSets that together need more pools than there are: as gangs they take turns, and nothing is stranded.

Nobody's client ends before all of its pods have a node, as one does that waits for its devices. First everybody
arrives and nobody finishes, until the scheduler can place nothing more; then those that are complete may finish.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from gangctl.pathways.job import PathwaysJob, gangs
from gangctl.pathways.rendering.jobset import render
from gangctl.pathways.result import RenderingInputs
from tests.controlplane.api import Object, path_of
from tests.controlplane.kubelet import JOBSET_NAME, Kubelet, Outcome
from tests.controlplane.nodes import NODES
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for
from tests.live.cluster import Cluster
from tests.live.gangctl import Gangctl, create_namespaces
from tests.live.pathways_ground import OWN, Ground, Standing, open_ground, pods_of, readable, rendered
from tests.live.placing import nothing_to_place
from tests.pathways.samples import annotated, pathways_job

pytestmark = [pytest.mark.controlplane]

COLOCATED = {"deploymentMode": "colocate_head_with_workers"}
PRIORITIES = path_of("scheduling.k8s.io/v1", "priorityclasses")
HEADS = "gangctl.dev/heads"
EMPTY = Standing((), {}, 0)


@dataclass
class Contest:
    """PathwaysJobs on pools of their own, and what was seen of them."""

    ground: Ground
    jobs: list[PathwaysJob] = field(default_factory=list)

    @classmethod
    async def begin(cls, ground: Ground, kind: str, pools: int, raws: Sequence[Object]) -> Contest:
        """So many pools for the jobs of one kind, and all of the jobs at once."""
        kinds = {OWN: f"{ground.cluster.namespace[-30:]}-{kind}"}
        contest = cls(ground)
        for raw in raws:
            raw["spec"]["workers"][0]["nodeSelector"] = kinds
            contest.jobs.append(readable(raw))
        for _ in range(pools):
            await ground.slice_pool(contest.jobs[0].slice, kinds)
        for raw in raws:
            await ground.cluster.create_jobset(rendered(ground.cluster, raw))
        return contest

    def stranded(self, everybody: Mapping[str, Standing]) -> dict[str, Standing]:
        """Jobs of which something that is of use only as a whole holds part of the nodes that it needs."""
        return {job.name: at for job in self.jobs if not _whole(job, at := everybody.get(job.name, EMPTY))}


def _whole(job: PathwaysJob, at: Standing) -> bool:
    """A colocated job is of use as a whole; else workers that are one gang are; else each slice is."""
    workers = sum(len(nodes) for nodes in at.slices.values())
    if job.colocated:
        return at.bound in {0, pods_of(job)}
    if gangs(job).worker == "Gang":
        return workers in {0, job.vms}
    return all(len(nodes) == job.slice.vms for nodes in at.slices.values())


class Clients:
    """The kubelet's policy: pods run until those of the whole JobSet have nodes and :attr:`may_finish`."""

    def __init__(self, pods: Mapping[str, int]) -> None:
        self.pods = pods
        self.may_finish = False

    def __call__(self, pod: Object, jobset: Sequence[Object]) -> Outcome | None:
        name = pod["metadata"].get("labels", {}).get(JOBSET_NAME, "")
        return "Succeeded" if self.may_finish and name in self.pods and len(jobset) >= self.pods[name] else None

    async def finish(self, kubelet: Kubelet, cluster: Cluster) -> None:
        """Finish who is complete already, and from now on whoever becomes so: a policy is only asked about changes."""
        self.may_finish = True
        pods = [pod for pod in kubelet.pods if pod["metadata"]["namespace"] == cluster.namespace]
        for pod in pods:
            peers = [each for each in pods if _jobset(each) == _jobset(pod)]
            if self(pod, peers):
                await kubelet.finish(pod)


def _jobset(pod: Object) -> str:
    return str(pod["metadata"].get("labels", {}).get(JOBSET_NAME, ""))


async def _full(ground: Ground, pods: int) -> dict[str, Standing]:
    """Where everybody is once so many pods exist and the scheduler can place nothing more."""

    async def full() -> dict[str, Standing]:
        standing = await ground.standing()
        if (there := sum(each.bound + each.unbound for each in standing.values())) < pods:
            raise NotYet(f"{there} pods exist")
        await nothing_to_place(ground.cluster.plane, full=True)
        if standing != (now := await ground.standing()):
            raise NotYet(f"{standing}, then {now}")
        return standing

    return await wait_for(full, "the pools to be full", interval=0.3)


async def _finished(cluster: Cluster, contests: Sequence[Contest]) -> None:
    names = [job.name for contest in contests for job in contest.jobs]

    async def finished() -> bool:
        states = {name: (await cluster.jobset(name)).get("status", {}).get("terminalState") for name in names}
        if set(states.values()) != {"Completed"}:
            raise NotYet(str(states))
        return True

    await wait_for(finished, "everybody to finish", interval=0.3)


NEWEST_ONLY = pytest.mark.parametrize(
    "plane", [pytest.param("1.37", marks=pytest.mark.xdist_group("1.37"))], indirect=True, scope="session"
)


@NEWEST_ONLY
async def test_pathways_jobsets_run_one_after_the_other_as_gangs_and_block_each_other_without(cluster: Cluster) -> None:
    """Three kinds side by side, because it is mostly waiting; a pool takes pods of one kind only."""
    beside = [_colocated(f"beside-{n}", slices=slices) for n, slices in enumerate((2, 2, 1, 1))]
    loose = [_colocated(f"loose-{n}", slices=2, metadata=annotated(gang_mode="Off")) for n in range(3)]
    apart = [
        _apart(cluster, "train"),
        _apart(cluster, "notebook", headless=True),
        _apart(cluster, "pair", pathways_worker_mode="Gang"),
        _apart(cluster, "single", workers={"numSlices": 1}),
    ]
    everyone = {job.name: pods_of(job) for job in map(readable, [*beside, *loose, *apart])}
    clients = Clients(everyone)
    async with open_ground(cluster) as ground, Kubelet(cluster.api, clients) as kubelet:
        await ground.head_pool(len(apart), {HEADS: cluster.namespace})
        ganged = [await Contest.begin(ground, "beside", 3, beside), await Contest.begin(ground, "apart", 3, apart)]
        without = await Contest.begin(ground, "loose", 3, loose)
        full = await _full(ground, sum(everyone.values()))
        assert without.stranded(full), f"contention does not strand these: {full}"
        assert [contest.stranded(full) for contest in ganged] == [{}, {}]
        await clients.finish(kubelet, cluster)
        await _finished(cluster, ganged)


def _colocated(name: str, *, slices: int, **more: Any) -> Object:
    return pathways_job(name, workers={"numSlices": slices}, controller=COLOCATED, **more)


def _apart(
    cluster: Cluster, name: str, *, headless: bool = False, workers: Object | None = None, **notes: str
) -> Object:
    """Its head keeps to this namespace's nodes for heads."""
    options = json.dumps({"headNodeSelector": {HEADS: cluster.namespace}})
    metadata = annotated(pathways_options=options, **notes)
    return pathways_job(name, headless=headless, workers=workers, metadata=metadata)


@pytest.fixture
async def priority(cluster: Cluster) -> AsyncIterator[str]:
    """A class of more priority than those without one have."""
    name = f"high-{cluster.namespace[-12:]}"
    await cluster.api.create(PRIORITIES, {"metadata": {"name": name}, "value": 1000})
    yield name
    await cluster.api.delete(f"{PRIORITIES}/{name}")


@pytest.mark.full("that Pathways gangs get pools is shown by the contest; preemption is the scheduler's")
@NEWEST_ONLY
async def test_a_job_of_higher_priority_preempts_a_pool(cluster: Cluster, priority: str) -> None:
    """On all nodes of the pool: preemption looks at one at a time."""
    one = {"numSlices": 1, "priorityClassName": priority}
    pairs = {
        "beside": (_colocated("beside", slices=1), pathways_job("beside-high", workers=one, controller=COLOCATED)),
        "apart": (_apart(cluster, "apart", workers={"numSlices": 1}), _apart(cluster, "apart-high", workers=one)),
    }
    async with open_ground(cluster) as ground, Kubelet(cluster.api):
        await ground.head_pool(2, {HEADS: cluster.namespace})
        for kind, (low, _) in pairs.items():
            (job,) = (await Contest.begin(ground, kind, 1, [low])).jobs
            await ground.started(job)
        for kind, (_, high) in pairs.items():
            (job,) = (await Contest.begin(ground, kind, 0, [high])).jobs
            ground.look_at(job, await ground.started(job))


async def test_a_slice_is_placed_on_a_complete_pool_despite_a_preferred_incomplete_one() -> None:
    """The scheduler likes emptier nodes better, and affinity binds a gang to the pool of the first one it takes."""
    gates = {"TopologyAwareWorkloadScheduling": True}
    async with ControlPlane.start("1.37", ("jobset",), gates=gates) as plane, Gangctl(plane):
        await create_namespaces(plane, ["t"])
        cluster = Cluster(plane, "t")
        async with open_ground(cluster) as ground, Kubelet(plane.api):
            await ground.head_pool(2)
            one = {"numSlices": 1}
            apart, beside = pathways_job("apart", workers=one), _colocated("beside", slices=1)
            blind = pathways_job("blind", workers=one)
            whole = {str(raw["metadata"]["name"]): await _temptation(ground, raw) for raw in (apart, beside, blind)}
            # The scheduler knows now which nodes take no pods.
            await nothing_to_place(plane)
            await cluster.create_jobset(dict(render(readable(blind), RenderingInputs(topology=False)).jobset))
            for raw in (apart, beside):
                await cluster.create_jobset(rendered(cluster, raw))
            for raw in (apart, beside):
                job = readable(raw)
                standing = await ground.started(job)
                ground.look_at(job, standing)
                assert {ground.pool_of(node) for node in standing.slices["0"]} == {whole[job.name]}
            # Its workers come after its head, which may be after those of the others.
            left = await ground.refused("blind", 2)
            assert left.slices == {}, "this does not tempt the scheduler: what does it show?"


async def _temptation(ground: Ground, raw: Object) -> str:
    """Two pools for one slice: an empty one, of which a node takes no pods, and one in use a little, which is named."""
    kind = {OWN: str(raw["metadata"]["name"])}
    raw["spec"]["workers"][0]["nodeSelector"] = kind
    of = readable(raw).slice
    broken, whole = [await ground.slice_pool(of, kind) for _ in range(2)]
    await ground.cluster.api.patch(f"{NODES}/{ground.pools[broken][0]}", {"spec": {"unschedulable": True}})
    for node in ground.pools[whole]:
        await ground.cluster.api.create(ground.cluster.path("v1", "pods"), _user_of(node))
    return whole


def _user_of(node: str) -> Object:
    requests = {"requests": {"cpu": "50", "memory": "100Gi"}}
    spec = {"nodeName": node, "containers": [{"name": "main", "image": "none", "resources": requests}]}
    return {"metadata": {"name": f"user-of-{node}"}, "spec": spec}
