"""The cluster upgraded under live gangs and a gangctl that is never restarted: 1.35, 1.36, 1.37 over one store.

There is no conversion between the API versions that carry gangs. What an API server of 1.36 finds
of v1alpha1 it cannot decode: it serves no Workloads at all, and never becomes ready, until that is
removed from the store; the same goes for 1.37 and v1alpha2. Pods are not concerned, but the field
by which those of 1.35 name their gang is unknown to 1.36, while that of 1.36 goes on in 1.37.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from tests.controlplane.api import UNREACHABLE, ApiFailure, Object
from tests.controlplane.kubelet import JOBSET_NAME, Kubelet
from tests.controlplane.nodes import add_nodes
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, read_until, wait_for
from tests.jobsets import jobset, rj
from tests.live.causes import why
from tests.live.cluster import Cluster, reference_of, refused
from tests.live.gangctl import Gangctl, create_namespaces
from tests.live.observe import said

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.full("over three minors; a running gangctl finds what is served anew in test_unavailable_live"),
]

STORED = ("/registry/workloads/", "/registry/podgroups/")
WAITING = jobset("waiting", rj("w", 1, 2, 2, cpu="3", mode="Gang"))


@dataclass
class Upgraded:
    """A plane that is upgraded, and what is beside it."""

    plane: ControlPlane
    gangctl: Gangctl
    kubelet: Kubelet

    @property
    def cluster(self) -> Cluster:
        """The namespace, in the API version that is served now."""
        return Cluster(self.plane, "t")

    async def pods(self, name: str) -> list[Object]:
        """Pods of a JobSet that are not finished."""
        return [
            pod
            for pod in await self.cluster.pods()
            if pod["metadata"]["labels"][JOBSET_NAME] == name and pod["status"]["phase"] in {"Pending", "Running"}
        ]

    async def running(self, name: str, count: int) -> dict[str, str]:
        """Node by UID of a JobSet's running pods, once there are so many."""

        async def run() -> dict[str, str]:
            pods = [pod for pod in await self.pods(name) if pod["status"]["phase"] == "Running"]
            if len(pods) != count:
                raise NotYet(f"{len(pods)} pods of {name} run")
            return {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in pods}

        # Jobs and JobSets put off what they create again by ten seconds and more.
        return await wait_for(run, what=f"{count} running pods of {name}", tolerate=(ApiFailure, *UNREACHABLE))

    async def gang(self, name: str) -> tuple[str, str]:
        """UIDs of a JobSet's Workload and only PodGroup; its Job's pods name that group, if there is such a kind."""
        cluster = self.cluster
        uid = (await cluster.jobset(name))["metadata"]["uid"]

        async def whole() -> tuple[str, str]:
            gangs = await cluster.gangs()
            workloads, groups = (
                [o["metadata"] for o in kind.values() if o["metadata"]["ownerReferences"][0]["uid"] == uid]
                for kind in (gangs.workloads, gangs.groups)
            )
            if len(workloads) != 1 or len(groups) != int(cluster.has_groups):
                raise NotYet(f"{name}: Workloads {workloads}, PodGroups {groups}")
            if groups and gangs.references[f"{name}-w-0"] != {"podGroupName": groups[0]["name"]}:
                raise NotYet(f"{name}: reference {gangs.references[f'{name}-w-0']}")
            return workloads[0]["uid"], groups[0]["uid"] if groups else ""

        return await wait_for(whole, what=f"the gang of {name}", tolerate=(ApiFailure, *UNREACHABLE, KeyError))

    async def noticed(self, version: str) -> None:
        """Wait until gangctl is ready and works with this version."""

        async def works() -> bool:
            found = f'"generation": "scheduling.k8s.io/{version}"'
            if found not in self.gangctl.process.log.read_text():
                raise NotYet("not found yet")
            return await self.gangctl.is_ready()

        await wait_for(works, what=f"gangctl to find {version}")

    async def create(self, raw: Object) -> None:
        """Create a JobSet as soon as the webhooks of everybody answer again."""

        async def created() -> bool:
            await self.cluster.create_jobset(raw)
            return True

        await wait_for(created, what="JobSets to be accepted", tolerate=(ApiFailure, *UNREACHABLE))


@pytest.fixture
async def upgraded() -> AsyncIterator[Upgraded]:
    async with (
        ControlPlane.start("1.35") as plane,
        Gangctl(plane, "--discovery-period", "1") as gangctl,
        Kubelet(plane.api) as kubelet,
    ):
        await create_namespaces(plane, ["t"])
        await add_nodes(plane.api, 1, cpu="4")
        yield Upgraded(plane, gangctl, kubelet)


async def test_gangs_survive_an_upgrade_from_1_35_to_1_36_to_1_37(upgraded: Upgraded) -> None:
    pid = upgraded.gangctl.process.pid
    runs = await _live_gangs_of_1_35(upgraded)
    await upgraded.plane.upgrade("1.36")
    await _blocked_by_what_is_stored(upgraded)
    for prefix in STORED:
        await upgraded.plane.erase(prefix)
    await upgraded.plane.finish_upgrade()
    await upgraded.noticed("v1alpha2")
    await _on_1_36(upgraded, runs)
    before = {name: await upgraded.gang(name) for name in ("new36", "waiting", "suspended")}
    await upgraded.plane.upgrade("1.37", erase=STORED)
    await upgraded.plane.finish_upgrade()
    await upgraded.noticed("v1beta1")
    await _on_1_37(upgraded, before)
    for uid, node in (await upgraded.running("running", 3)).items():
        assert runs.get(uid, node) == node
    assert upgraded.gangctl.process.pid == pid
    assert '"level": "error"' not in upgraded.gangctl.process.log.read_text()


async def _live_gangs_of_1_35(upgraded: Upgraded) -> dict[str, str]:
    """One finished, one running, one waiting for capacity, one suspended."""
    cluster = upgraded.cluster
    await cluster.create_jobset(jobset("finished", rj("w", 1, 1, 1, mode="Gang")))
    await upgraded.running("finished", 1)
    for pod in await upgraded.pods("finished"):
        await upgraded.kubelet.finish(pod)
    await said(cluster, "WorkloadDeleted", "finished")
    await cluster.create_jobset(jobset("running", rj("w", 1, 3, 3, cpu="1", mode="Gang", job={"backoffLimit": 6})))
    runs = await upgraded.running("running", 3)
    await cluster.create_jobset(WAITING)
    await upgraded.gang("waiting")
    once = {"maxRestarts": 1}
    await cluster.create_jobset(jobset("suspended", rj("w", 1, 2, 2, mode="Gang"), suspend=True, failurePolicy=once))

    await read_until(cluster.jobs, lambda jobs: {"waiting-w-0", "suspended-w-0"} <= jobs.keys(), "the Jobs")
    return runs


async def _blocked_by_what_is_stored(upgraded: Upgraded) -> None:
    """The API server of 1.36 over Workloads of 1.35: gangctl says what is the matter, and what to do."""
    cluster = upgraded.cluster

    async def reported() -> Object:
        return await said(cluster, "GangAPIUnavailable", "running")

    event = await wait_for(reported, what="gangctl to say so", tolerate=(ApiFailure, *UNREACHABLE))
    for words in ("stored as scheduling.k8s.io/v1alpha1", *STORED, "etcdctl del --prefix"):
        assert words in event["note"]
    unreadable = await refused(cluster.gangs())
    assert 'no kind "Workload" is registered for version' in unreadable.message
    not_ready = await refused(upgraded.plane.api.text("/readyz"))
    assert not_ready.status == 500

    async def no_gang() -> ApiFailure:
        failure = await refused(cluster.create_jobset(jobset("new", rj("w", 1, 1, 1, mode="Gang")), dry_run=True))
        if failure.status != 422:
            raise NotYet(str(failure))
        return failure

    failure = await wait_for(no_gang, what="the refusal", tolerate=UNREACHABLE)
    assert "etcdctl del --prefix" in failure.message
    await upgraded.create(jobset("plain", rj("w", 1, 1, 1, cpu="1m")))


async def _on_1_36(upgraded: Upgraded, runs: dict[str, str]) -> None:
    cluster = upgraded.cluster
    await upgraded.create(jobset("new36", rj("w", 1, 2, 2, cpu="100m", mode="Gang")))
    await upgraded.gang("new36")
    await upgraded.running("new36", 2)
    # What runs is as it was; its Job lost the reference, which is told, and so it needs no group.
    assert await upgraded.running("running", 3) == runs
    for name in ("running", "waiting", "suspended"):
        event = await said(cluster, "FieldDropped", name)
        assert f"{name}-w-0 name no gang" in event["note"]
        assert event["type"] == "Warning"
        assert reference_of((await cluster.jobs())[f"{name}-w-0"]) is None
    reported = await why(upgraded.plane, "t", "waiting")
    assert (reported.first, reported.blocking) == ("FieldDropped", True), reported
    gangs = await cluster.gangs()
    assert [group for group in gangs.groups if not group.startswith("new36-")] == []
    assert "FieldDropped" not in await cluster.reasons("finished")
    # A replacement of one of its pods is scheduled by itself, and waits for nobody.
    victim = next(pod for pod in await upgraded.pods("running"))
    await upgraded.kubelet.fail(victim)
    after = await upgraded.running("running", 3)
    assert len(after.keys() & runs.keys()) == 2
    runs.pop(victim["metadata"]["uid"])
    # The one that waited is created again, as the event says: it is a gang, and waits as one.
    await cluster.api.delete(cluster.path("jobset.x-k8s.io/v1alpha2", "jobsets", "waiting"), propagation="Foreground")
    await upgraded.create(WAITING)
    await upgraded.gang("waiting")
    # The suspended one runs when it is resumed, and is a gang after a restart, which makes its Jobs anew.
    await cluster.patch_jobset("suspended", {"spec": {"suspend": False}})
    await upgraded.running("suspended", 2)
    await upgraded.kubelet.fail(next(pod for pod in await upgraded.pods("suspended")))
    await upgraded.gang("suspended")
    await upgraded.running("suspended", 2)


async def _on_1_37(upgraded: Upgraded, before: dict[str, tuple[str, str]]) -> None:
    """The gangs of 1.36 are made anew in the new shape under their pods; the one that waits gets its turn."""
    for name, uids in before.items():
        assert set(uids).isdisjoint(await upgraded.gang(name))
    await upgraded.running("new36", 2)
    await upgraded.running("suspended", 2)
    await upgraded.create(jobset("new37", rj("w", 1, 1, 1, cpu="100m", mode="Gang")))
    await upgraded.gang("new37")
    await upgraded.running("new37", 1)
    assert {pod["spec"].get("nodeName") for pod in await upgraded.pods("waiting")} == {None}
    await add_nodes(upgraded.plane.api, 2, cpu="4")
    await upgraded.running("waiting", 2)
    assert [pod for pod in await upgraded.cluster.pods() if pod["status"]["phase"] == "Pending"] == []
