"""Gangs restart, as a whole or one Job alone, while gangctl is down."""

from __future__ import annotations

import copy
import secrets
from collections.abc import Iterator
from typing import Final

import pytest

from gangctl.api.meta import JOB_RESTART_ATTEMPT, RESTART_ATTEMPT
from tests.cases import object_name
from tests.controlplane.api import ApiFailure, Object, path_of
from tests.controlplane.kubelet import Kubelet
from tests.controlplane.nodes import add_nodes, remove_nodes
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for
from tests.jobsets import jobset, rj
from tests.live.cluster import Cluster, on, reference_of, refused
from tests.live.gangctl import Gangctl, create_namespaces, prepare, shared
from tests.live.jobhooks import JOB_WEBHOOKS, calls, exists
from tests.live.observe import running_pods

pytestmark = pytest.mark.controlplane


@on("1.37", "1.36")
@pytest.mark.parametrize("mode", ["Gang", "ReplicatedGang"])
async def test_a_gang_restarts_as_a_whole_while_gangctl_is_down(
    cluster: Cluster, kubelet: Kubelet, running: Gangctl, mode: str
) -> None:
    before = await calls(cluster)
    pod: Object = cluster.room
    raw = jobset("js", rj("w", 2, 1, 1, mode=mode, pod=pod), failurePolicy={"maxRestarts": 2})
    uid = (await cluster.create_jobset(raw))["metadata"]["uid"]
    scopes = ["rj/w"] * 2 if mode == "Gang" else ["job/w/0", "job/w/1"]
    groups = [[object_name("js", uid, scope, attempt) for scope in scopes] for attempt in range(3)]
    pods = await running_pods(cluster, 2)
    await groups_exist(cluster, *groups[0], *groups[1])
    await running.process.stop()
    try:
        # The groups of the next attempt are there: it starts.
        await kubelet.fail(pods[0])
        assert await references(cluster, attempt=1) == named(groups[1])
        again = await running_pods(cluster, 2)
        await a_put_without_the_reference_keeps_it(cluster, "js-w-0")
        # Those of the one after it are not: its Jobs and pods are made, and none starts without the others.
        await kubelet.fail(again[0])
        assert await references(cluster, attempt=2) == named(groups[2])
        assert not [each for each in await pods_of(cluster, attempt=2, count=2) if each["spec"].get("nodeName")]
        # New gangs are refused meanwhile, as ever.
        failure = await refused(cluster.create_jobset({**raw, "metadata": {**raw["metadata"], "name": "new"}}))
        assert 'failed calling webhook "jobsets.gangs.gangctl.dev"' in failure.message
    finally:
        await running.process.start()
    started = await running_pods(cluster, 2)
    made = (await cluster.gangs()).groups
    last = max(made[name]["metadata"]["creationTimestamp"] for name in groups[2])
    assert all(since(each, "PodScheduled") >= last for each in started)
    assert await calls(cluster) == before
    assert await exists(cluster, JOB_WEBHOOKS)


def named(groups: list[str]) -> dict[str, object]:
    return {f"js-w-{index}": {"podGroupName": group} for index, group in enumerate(groups)}


def since(pod: Object, condition: str) -> str:
    """When a condition of a pod changed last."""
    return str(next(each["lastTransitionTime"] for each in pod["status"]["conditions"] if each["type"] == condition))


async def groups_exist(cluster: Cluster, *names: str) -> None:
    async def there() -> bool:
        if (found := (await cluster.gangs()).groups.keys()) != {*names}:
            raise NotYet(str(sorted(found)))
        return True

    await wait_for(there, what=f"PodGroups {', '.join(sorted({*names}))}, and no others")


async def references(cluster: Cluster, *, attempt: int) -> dict[str, object]:
    """The groups that both Jobs name, once they are of this attempt."""

    async def restarted() -> dict[str, object]:
        jobs = await cluster.jobs()
        attempts = [job["metadata"]["labels"].get(RESTART_ATTEMPT) for job in jobs.values()]
        if attempts != [str(attempt)] * 2:
            raise NotYet(f"attempts {attempts}")
        return {name: reference_of(job) for name, job in jobs.items()}

    return await wait_for(restarted, what=f"attempt {attempt}")


async def pods_of(cluster: Cluster, *, attempt: int, count: int) -> list[Object]:
    async def made() -> list[Object]:
        pods = [p for p in await cluster.pods() if p["metadata"]["labels"].get(RESTART_ATTEMPT) == str(attempt)]
        if len(pods) != count:
            raise NotYet(f"{len(pods)} pods")
        return pods

    return await wait_for(made, what=f"{count} pods of attempt {attempt}")


@pytest.mark.parametrize("mode", ["Gang", "ReplicatedGang"])
async def test_a_job_restarts_alone_while_gangctl_is_down(restarting: Cluster, mode: str) -> None:
    """Failure policy action RestartJob: a gang of its own gets a new group, a shared one stays."""
    rules = [{"name": "alone", "action": "RestartJob"}]
    raw = jobset("js", rj("w", 2, 1, 1, mode=mode), failurePolicy={"maxRestarts": 1, "rules": rules})
    nodes = await add_nodes(restarting.api, 1, cpu="8")
    async with Gangctl(restarting.plane) as gangctl, Kubelet(restarting.api) as kubelet:
        await restarting.asked()
        uid = (await restarting.create_jobset(raw))["metadata"]["uid"]
        shared = object_name("js", uid, "rj/w")
        first, second = (object_name("js", uid, f"job/w/{index}") for index in (0, 1))
        alone = {index: f"{object_name('js', uid, f'job/w/{index}')}.1" for index in (0, 1)}
        pods = {pod["metadata"]["name"][:6]: pod for pod in await running_pods(restarting, 2)}
        expected = [shared] if mode == "Gang" else [first, second, *alone.values()]
        await groups_exist(restarting, *expected)
        await gangctl.process.stop()
        await kubelet.fail(pods["js-w-0"])

        async def again() -> dict[str, object]:
            jobs = await restarting.jobs()
            if jobs["js-w-0"]["metadata"]["labels"].get(JOB_RESTART_ATTEMPT) != "1":
                raise NotYet("js-w-0 is that of the first attempt")
            return {name: reference_of(job) for name, job in jobs.items()}

        after = await wait_for(again, what="js-w-0 to be created again", tolerate=(KeyError,))
        assert after == named([shared, shared] if mode == "Gang" else [alone[0], second])
        uids = {pod["metadata"]["uid"] for pod in await running_pods(restarting, 2)}
        assert pods["js-w-1"]["metadata"]["uid"] in uids
        await gangctl.process.start()
        await groups_exist(restarting, *([shared] if mode == "Gang" else [alone[0], second]))
    await remove_nodes(restarting.api, nodes)


@pytest.fixture(scope="module")
def restarting_plane() -> Iterator[ControlPlane]:
    """A plane on which JobSet may restart single Jobs, an alpha feature."""

    async def start() -> ControlPlane:
        plane = await ControlPlane.start("1.37", ("jobset",), jobset_gates={"RestartJob": True})
        await prepare(plane)
        return plane

    yield from shared(start)


@pytest.fixture
async def restarting(restarting_plane: ControlPlane) -> Cluster:
    name = f"t-{secrets.token_hex(3)}"
    await create_namespaces(restarting_plane, [name])
    return Cluster(restarting_plane, name)


ROUNDS: Final = [
    pytest.param(2, id="2"),
    pytest.param(20, id="20", marks=pytest.mark.full("the same ten times as often")),
]


@on("1.37")
@pytest.mark.parametrize("rounds", ROUNDS)
async def test_a_restart_of_a_partly_succeeded_gang_is_complete_without_gangctl(
    cluster: Cluster, running: Gangctl, rounds: int
) -> None:
    """gangctl has lowered the minCount of one attempt, and stands still while the next one finds too little room."""
    (node,) = await add_nodes(cluster.api, 1, cpu="3", labels=cluster.room["nodeSelector"])
    pod: Object = cluster.room
    workers = rj("w", 1, 3, 3, mode="Gang", cpu="1", pod=pod)
    async with Kubelet(cluster.api) as kubelet:
        raw = jobset("js", workers, failurePolicy={"maxRestarts": rounds})
        uid = (await cluster.create_jobset(raw))["metadata"]["uid"]
        for attempt in range(rounds):
            now, then = (object_name("js", uid, "rj/w", number) for number in (attempt, attempt + 1))
            pods = await running_pods(cluster, 3)
            await groups_exist(cluster, now, then)
            await kubelet.finish(pods[0])
            await min_counts_are(cluster, {now: 2, then: 3})
            await room_for(cluster, node, "2")
            running.process.pause()
            try:
                await kubelet.fail(pods[1])
                await refused_by_scheduler(cluster, then)
                assert not [
                    p for p in await pods_of(cluster, attempt=attempt + 1, count=3) if p["spec"].get("nodeName")
                ]
            finally:
                running.process.resume()
            await room_for(cluster, node, "3")
        await running_pods(cluster, 3)
    await remove_nodes(cluster.api, [node])


async def room_for(cluster: Cluster, node: str, cpu: str) -> None:
    status = {"capacity": {"cpu": cpu}, "allocatable": {"cpu": cpu}}
    await cluster.api.patch(path_of("v1", "nodes", name=node) + "/status", {"status": status}, kind="strategic")


async def min_counts_are(cluster: Cluster, wanted: dict[str, int]) -> None:
    async def so() -> bool:
        gangs = await cluster.gangs()
        if (found := {name: gangs.group_min_count(name) for name in gangs.groups}) != wanted:
            raise NotYet(str(found))
        return True

    await wait_for(so, what=f"minCounts {wanted}")


async def refused_by_scheduler(cluster: Cluster, group: str) -> None:
    """Wait until the scheduler has said that it cannot place a gang."""

    async def said() -> bool:
        conditions = (await cluster.gangs()).groups[group].get("status", {}).get("conditions", [])
        if not any(each["type"] == "PodGroupInitiallyScheduled" and each["status"] == "False" for each in conditions):
            raise NotYet(str(conditions))
        return True

    await wait_for(said, what=f"the scheduler to refuse {group}")


async def a_put_without_the_reference_keeps_it(cluster: Cluster, name: str) -> None:
    """As of a controller that was built against another release."""
    path = cluster.path("batch/v1", "jobs", name)

    async def put() -> Object:
        job = copy.deepcopy(await cluster.api.get(path))
        del job["spec"]["template"]["spec"]["schedulingGroup"]
        job["metadata"].setdefault("labels", {})["put"] = "yes"
        return await cluster.api.update(path, job)

    was = reference_of(await cluster.api.get(path))
    # The Job controller writes its status meanwhile.
    stored = await wait_for(put, what="the PUT", tolerate=(ApiFailure,))
    assert (reference_of(stored), stored["metadata"]["labels"]["put"]) == (was, "yes")
