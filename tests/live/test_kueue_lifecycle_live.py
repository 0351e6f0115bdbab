"""A gang through the whole cycle of Kueue, which is installed while gangctl runs: its groups outlive eviction.

Queued, admitted, running, preempted, waiting, admitted again, finished: at each step the Workload and PodGroups of
``scheduling.k8s.io`` are what they should be, with the same UIDs from the first admission on, and nothing is
stranded. Before Kueue is there, suspending deletes them, as it does without it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import pytest

from gangctl.pathways.words import TPU
from tests.cases import object_name
from tests.controlplane.api import Object, path_of
from tests.controlplane.components.addon import remove_namespace
from tests.controlplane.kubelet import Kubelet
from tests.controlplane.nodes import add_nodes, remove_nodes
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, read_until, wait_for
from tests.jobsets import jobset, rj
from tests.live import kueue
from tests.live.cluster import Cluster
from tests.live.gangctl import USER, Gangctl, create_namespaces, prepare
from tests.live.kueue import POOL, Life, look, make_queue, queued, runs, until, waits
from tests.live.observe import gang_of, live_min_counts, no_gang, running_pods, said
from tests.live.pathways_ground import open_ground, pods_of, readable, rendered
from tests.live.pathways_queue import Counted, counted, queue_for, queued_pathways_job

pytestmark = [pytest.mark.controlplane]

CPUS = 4


@dataclass
class Installed:
    """A plane with Kueue that came after gangctl, and a namespace on it."""

    plane: ControlPlane
    gangctl: Gangctl
    kubelet: Kubelet
    cluster: Cluster

    async def finish(self, life: Life) -> None:
        """Let its pods succeed."""
        for pod in life.pods:
            await self.kubelet.finish(pod)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(minor, marks=[pytest.mark.xdist_group(f"kueue-{minor}"), pytest.mark.minor(minor)])
        for minor in ("1.37", "1.36")
    ],
)
def kueued(request: pytest.FixtureRequest) -> Iterator[tuple[ControlPlane, Gangctl]]:
    """gangctl first, then Kueue; gangctl is never restarted for it."""

    plane, gangctl = asyncio.run(_start(request.param))
    yield plane, gangctl
    asyncio.run(_stop(plane, gangctl))


async def _start(minor: str) -> tuple[ControlPlane, Gangctl]:
    plane = await ControlPlane.start(minor)
    gangctl = Gangctl(plane, "--discovery-period=1")
    try:
        await prepare(plane)
        await gangctl.process.start()
        await _without_kueue(plane)
        await kueue.install(plane)
        for name, value in (("low", 1), ("high", 1000)):
            await kueue.create(plane.api, "workloadpriorityclasses", name, value=value)
    except BaseException:
        await _stop(plane, gangctl)
        raise
    return plane, gangctl


async def _stop(plane: ControlPlane, gangctl: Gangctl) -> None:
    await gangctl.close()
    await plane.close()


async def _without_kueue(plane: ControlPlane) -> None:
    """A queue's name means nothing in a cluster without Kueue: who is suspended was suspended by a person."""
    await create_namespaces(plane, ["before"])
    cluster = Cluster(plane, "before")
    await cluster.asked()
    nodes = await add_nodes(plane.api, 1, cpu="8")
    async with Kubelet(plane.api):
        await cluster.create_jobset(queued("js", 2))
        await running_pods(cluster, 2)
        await gang_of(cluster, "js")
        await cluster.patch_jobset("js", {"spec": {"suspend": True}})
        await no_gang(cluster)
        await kueue.delete(cluster, "js")
    await remove_nodes(plane.api, nodes)


@pytest.fixture
async def here(kueued: tuple[ControlPlane, Gangctl], request: pytest.FixtureRequest) -> AsyncIterator[Installed]:
    """A namespace of the test's own, with somebody who runs the pods."""
    plane, gangctl = kueued
    name = f"q{abs(hash(request.node.name)) % 10**12:x}"
    await create_namespaces(plane, [name])
    async with Kubelet(plane.api) as kubelet:
        yield Installed(plane, gangctl, kubelet, Cluster(plane, name))
        await remove_namespace(plane.api, name)
        await plane.api.delete(path_of("v1", "pods", namespace=name), grace=0)


@pytest.fixture
async def pools(here: Installed) -> AsyncIterator[list[str]]:
    """Two pools of nodes with room for one gang each, called by names of the test's own."""
    names = [f"{side}-{here.cluster.namespace}" for side in ("a", "b")]
    nodes = [
        node for name in names for node in await add_nodes(here.plane.api, 1, cpu="4", labels={POOL: name}, prefix=name)
    ]
    yield names
    await remove_nodes(here.plane.api, nodes)


async def _hold(cluster: Cluster, queue: str, policy: str) -> None:
    await cluster.api.patch(kueue.path("clusterqueues", queue), {"spec": {"stopPolicy": policy}})


def _groups(cluster: Cluster, name: str, uid: str) -> set[str]:
    """The names that its gang's objects have."""
    return {object_name(name, uid, scope) for scope in ("workload", "rj/w")[: 2 if cluster.has_groups else 1]}


async def test_a_preempted_gang_is_readmitted_with_the_same_groups(here: Installed, pools: list[str]) -> None:
    cluster, api = here.cluster, here.plane.api
    queue = await make_queue(cluster, {pools[0]: CPUS}, stopPolicy="Hold")
    created = await cluster.create_jobset(queued("low", CPUS, priority="low"))
    names = _groups(cluster, "low", created["metadata"]["uid"])

    # Queued: nothing is made for who has never been admitted.
    held = await until(cluster, "low", "to be queued", lambda life: life.suspended and life.workload)
    assert (held.gang, held.pods) == ({}, [])
    # Who comes later, and is in no queue, has a gang: gangctl has seen the one before.
    await cluster.create_jobset(jobset("later", rj("w", 1, 1, 1, mode="Gang")))
    await said(cluster, "WorkloadCreated", "later")
    await kueue.delete(cluster, "later")
    await no_gang(cluster)

    # Admitted: its groups, and all of its pods.
    await _hold(cluster, queue, "None")
    first = await runs(cluster, "low", CPUS)
    assert first.gang.keys() == names
    templates = await _templates(cluster)

    # Preempted: the other one runs, and this one keeps what it has, though it holds no node and no quota.
    await cluster.create_jobset(queued("high", CPUS, priority="high"))
    high = await runs(cluster, "high", CPUS)
    evicted = await waits(cluster, "low")
    assert (evicted.gang, evicted.evictions) == (first.gang, 1)
    assert (await look(cluster, "high")).running == CPUS

    # Another gangctl that begins while it waits leaves it alone as well.
    since = here.plane.audit_position
    await here.gangctl.process.restart()
    await here.gangctl.settle()
    assert [write for write in cluster.writes(USER, since) if "delete" in write] == []
    assert (await look(cluster, "low")).gang == first.gang

    # Admitted again: the same groups, named by the same references.
    await here.finish(high)
    await until(cluster, "high", "to lose its groups", lambda life: not life.gang)
    again = await runs(cluster, "low", CPUS)
    assert again.gang == first.gang
    assert await _templates(cluster) == templates

    # Finished: nothing is left.
    await here.finish(again)
    await no_gang(cluster)
    assert [pod["metadata"]["name"] for pod in await cluster.pods() if pod["status"]["phase"] == "Pending"] == []
    await said(cluster, "WorkloadDeleted", "low")
    assert (await cluster.reasons("low")).count("WorkloadCreated") == 1
    assert await api.get(kueue.path("clusterqueues", queue))


async def test_kueue_starts_and_evicts_a_gang_while_gangctl_is_down(here: Installed, pools: list[str]) -> None:
    cluster = here.cluster
    queue = await make_queue(cluster, {pools[0]: CPUS}, stopPolicy="Hold")
    await cluster.create_jobset(queued("js", CPUS))
    await until(cluster, "js", "to be queued", lambda life: life.suspended and life.workload)
    await here.gangctl.process.stop()
    try:
        await _hold(cluster, queue, "None")
        # Its pods wait for their group: gangctl makes it.
        await until(cluster, "js", "to be started", lambda life: not life.suspended)
        await _hold(cluster, queue, "HoldAndDrain")
        await waits(cluster, "js")
    finally:
        await here.gangctl.process.start()
    await _hold(cluster, queue, "None")
    await here.finish(await runs(cluster, "js", CPUS))
    await no_gang(cluster)


async def test_gangs_are_readmitted_after_their_first_pods_have_finished(here: Installed) -> None:
    cluster = here.cluster
    names = [f"js-{number}" for number in range(20)]
    pool = cluster.namespace
    nodes = await add_nodes(here.plane.api, 2, cpu="40", labels={POOL: pool}, prefix=pool)
    queue = await make_queue(cluster, {pool: 4 * len(names)})
    for name in names:
        raw = jobset(name, rj("init", 1, 1, 1, cpu="1"), rj("workers", 1, 3, 3, cpu="1"), mode="Gang")
        raw["metadata"]["labels"] = {kueue.QUEUE_NAME: "q"}
        await cluster.create_jobset(raw)
    first = [pod for pod in await running_pods(cluster, 4 * len(names)) if "-init-" in pod["metadata"]["name"]]
    await asyncio.gather(*map(here.kubelet.finish, first))

    async def completed() -> bool:
        done = [name for name, job in (await cluster.jobs()).items() if job.get("status", {}).get("completionTime")]
        if len(done) < len(names):
            raise NotYet(f"only {done} are complete")
        return True

    await wait_for(completed, "the first Jobs to be complete")
    await _hold(cluster, queue, "HoldAndDrain")
    for name in names:
        assert (await waits(cluster, name)).gang
    await _hold(cluster, queue, "None")
    await running_pods(cluster, 3 * len(names))
    await live_min_counts(cluster, [3] * len(names))
    await remove_nodes(here.plane.api, nodes)


async def _templates(cluster: Cluster) -> Object:
    """What the pods of the first Job carry by way of labels and reference, without Kueue's."""
    job = (await cluster.jobs())["low-w-0"]
    template = job["spec"]["template"]
    labels = {key: value for key, value in template["metadata"]["labels"].items() if "kueue" not in key}
    return {"labels": labels, "reference": template["spec"].get("schedulingGroup")}


@pytest.mark.full("the lifecycle of a gang in a queue is shown above")
async def test_a_pathwaysjob_is_preempted_and_readmitted_as_a_whole(here: Installed) -> None:
    cluster = here.cluster
    low, high = queued_pathways_job("low", "low"), queued_pathways_job("high", "high")
    job = readable(low)
    async with open_ground(cluster) as ground:
        queue = await queue_for(ground, low)
        await cluster.create_jobset(rendered(cluster, low))
        held = await until(cluster, "low", "to be queued", lambda life: life.suspended and life.workload)
        assert (held.gang, held.pods) == ({}, [])

        await _hold(cluster, queue, "None")
        first = await runs(cluster, "low", pods_of(job))
        quota = {
            "pathways-head": Counted(1, frozenset({"cpu", "memory"})),
            "worker": Counted(job.vms, frozenset({TPU})),
        }
        assert await counted(cluster, "low") == quota
        ground.look_at(job, await ground.started(job))

        # There is quota for one only.
        await cluster.create_jobset(rendered(cluster, high))
        other = await runs(cluster, "high", pods_of(job))
        evicted = await waits(cluster, "low")
        assert (evicted.gang, evicted.evictions) == (first.gang, 1)
        ground.look_at(readable(high), await ground.started(readable(high)))

        # Its client ends, and with it everything; the other one starts again, in the same groups.
        await here.kubelet.finish(_head(other))
        again = await runs(cluster, "low", pods_of(job))
        assert (again.gang, await counted(cluster, "low")) == (first.gang, quota)
        ground.look_at(job, await ground.started(job))
        await here.kubelet.finish(_head(again))
        await no_gang(cluster)


def _head(life: Life) -> Object:
    (found,) = [pod for pod in life.pods if "-pathways-head-" in pod["metadata"]["name"]]
    return found


@pytest.mark.full("the lifecycle of a gang in a queue is shown above")
async def test_a_gang_is_readmitted_on_another_flavor(here: Installed, pools: list[str]) -> None:
    cluster = here.cluster
    here_first, there = pools
    await make_queue(cluster, {here_first: CPUS, there: CPUS})
    await cluster.create_jobset(queued("low", CPUS, priority="low"))
    first = await runs(cluster, "low", CPUS)
    assert first.flavors == {"cpu": here_first}
    # It can only be where the other one is.
    await cluster.create_jobset(queued("high", CPUS, priority="high", nodeSelector={POOL: here_first}))
    await runs(cluster, "high", CPUS)
    moved = await until(
        cluster,
        "low",
        "to run on the other flavor",
        lambda life: life.evictions == 1 and life.flavors == {"cpu": there} and life.running == CPUS,
    )
    assert moved.gang == first.gang
    assert {pod["spec"]["nodeSelector"][POOL] for pod in moved.pods} == {there}


@pytest.mark.full("what can never be admitted is told in test_kueue_cli_live, and refused in test_kueue_queues_live")
async def test_a_gang_that_never_fits_is_reported_and_counted_until_the_quota_is_raised(
    here: Installed, pools: list[str]
) -> None:
    cluster = here.cluster
    queue = await make_queue(cluster, {pools[0]: 2})
    labels = {"namespace": cluster.namespace, "local_queue": "q", "cluster_queue": queue}
    await _warned(cluster, queued("big", CPUS), "NeverFits")
    await _warned(cluster, queued("lost", 1, queue="nowhere"), 'LocalQueue "nowhere" does not exist')
    await cluster.create_jobset(queued("big", CPUS))
    event = await said(cluster, "NeverFits", "big")
    assert event["type"] == "Warning"
    assert queue in event["note"]
    await _counted(here.gangctl, {**labels, "verdict": "never"}, 1)
    groups = kueue.cpu_groups({pools[0]: CPUS})
    await cluster.api.patch(kueue.path("clusterqueues", queue), {"spec": {"resourceGroups": groups}})
    await runs(cluster, "big", CPUS)
    await _counted(here.gangctl, labels, 0)
    assert (await cluster.reasons("big")).count("NeverFits") == 1


async def _warned(cluster: Cluster, raw: Object, words: str) -> None:
    """Wait until a dry run of a create is warned so: what was made a moment ago may not have been seen."""
    body = {**raw, "metadata": {**raw["metadata"], "namespace": cluster.namespace}}

    async def warned() -> bool:
        answer = await cluster.api.exchange(
            "POST",
            cluster.path("jobset.x-k8s.io/v1alpha2", "jobsets"),
            data=json.dumps(body),
            parameters={"dryRun": "All"},
            headers={"Content-Type": "application/json"},
        )
        warnings = answer.headers.getall("Warning", [])
        if answer.status != 201 or words not in str(warnings).replace('\\\\"', '"'):
            raise NotYet(f"{answer.status} {warnings} {answer.text[:300]}")
        return True

    await wait_for(warned, what=f"a warning of {words}")


async def _counted(gangctl: Gangctl, labels: dict[str, str], count: int) -> None:
    await read_until(
        lambda: gangctl.metric("gangctl_fit_verdicts", labels), lambda value: value == count, f"{count} of {labels}"
    )
