"""The API server or its store dies while JobSets are created: what was created has its gang afterwards, once."""

from __future__ import annotations

from collections import Counter
from contextlib import AsyncExitStack

import pytest

from tests.controlplane.api import UNREACHABLE, ApiFailure
from tests.controlplane.wait import NotYet, read_until, wait_for
from tests.jobsets import jobset, rj
from tests.live.cluster import JOBSETS, Cluster
from tests.live.gangctl import USER, Gangctl
from tests.live.load import Load

pytestmark = pytest.mark.controlplane


@pytest.mark.parametrize(
    "component", ["kube-apiserver", pytest.param("etcd", marks=pytest.mark.full("its API server is away alike"))]
)
async def test_gangs_are_made_once_after_a_crash_of_the_api_server(own: Cluster, component: str) -> None:
    plane = own.plane
    async with Gangctl(plane) as gangctl:
        pid, position = gangctl.process.pid, plane.audit_position
        async with Load(own, pace=5, keep=1) as load:
            await load.well()
            await plane.kill(component)
            await away(own)
            # What is registered still is, and the webhooks answer from memory.
            await wait_for(gangctl.is_ready, what="gangctl to be ready")
            await plane.start_component(component)
            await wait_for(gangctl.is_ready, what="gangctl to be ready")
            await load.well()
        jobsets = {each["metadata"]["name"] for each in await own.api.list(own.path(JOBSETS, "jobsets"))}
        assert set(load.kept) <= jobsets
        assert jobsets - set(load.kept) <= {each.name for each in load.failures}

        async def whole() -> bool:
            gangs = await own.gangs()
            for objects in (gangs.workloads, gangs.groups):
                owners = Counter(each["metadata"]["ownerReferences"][0]["name"] for each in objects.values())
                if owners != Counter(jobsets):
                    raise NotYet(f"missing {jobsets - owners.keys()}, {owners.most_common(1)}")
            return True

        await wait_for(whole, what="one Workload and one PodGroup for each JobSet")
        assert gangctl.process.pid == pid
        assert gangctl.process.running
        assert "Traceback" not in gangctl.log
        born = [
            (entry["objectRef"]["resource"], entry["objectRef"]["name"])
            for entry in plane.writes_by(USER, position).objects
            if entry["verb"] == "create" and entry["responseStatus"]["code"] == 201
        ]
        assert len(born) == len(set(born))
    await a_gangctl_that_starts_first_waits_for_it(own)


async def away(cluster: Cluster) -> None:
    """Wait until the API server does not call itself ready, for want of itself or of its store."""

    async def unready() -> bool:
        try:
            await cluster.api.text("/readyz")
        except (ApiFailure, *UNREACHABLE):
            return True
        raise NotYet("it is ready")

    await wait_for(unready, what="the API server to be away")


async def a_gangctl_that_starts_first_waits_for_it(own: Cluster) -> None:
    await own.plane.kill("kube-apiserver")
    async with AsyncExitStack() as stack:
        gangctl = Gangctl(own.plane, name="gangctl-first")
        stack.push_async_callback(gangctl.close)
        await gangctl.process.launch()

        async def says_so() -> bool:
            status, text = await gangctl.fetch("/readyz")
            if "the API server does not answer" not in gangctl.log:
                raise NotYet(text)
            return status == 503

        await wait_for(says_so, what="gangctl to say what it waits for", tolerate=UNREACHABLE)
        await own.plane.start_component("kube-apiserver")
        await gangctl.process.wait_ready()
        await own.asked()
        await own.create_jobset(jobset("js", rj("w", 1, 1, 1, mode="Gang")))

        await read_until(
            own.gangs,
            lambda gangs: "js" in [o["metadata"]["ownerReferences"][0]["name"] for o in gangs.groups.values()],
            "its gang",
        )
