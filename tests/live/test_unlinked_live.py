"""A Job of a gang that bypassed the webhook: its pods run, it is reported, and where possible no pod waits for it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.cases import object_name
from tests.controlplane.api import ApiFailure, Object, path_of
from tests.controlplane.kubelet import Kubelet
from tests.controlplane.nodes import add_nodes, remove_nodes
from tests.controlplane.wait import NotYet, read_until, wait_for
from tests.jobsets import jobset, rj
from tests.live.cluster import Cluster, reference_of
from tests.live.observe import gang_of, running_pods, said

pytestmark = pytest.mark.controlplane


@pytest.fixture
async def room(cluster: Cluster) -> AsyncIterator[Object]:
    """Where pods of this test run; what they select it by."""
    nodes = await add_nodes(cluster.api, 1, cpu="8", labels={"room": cluster.namespace})
    async with Kubelet(cluster.api):
        yield {"nodeSelector": {"room": cluster.namespace}}
    await remove_nodes(cluster.api, nodes)


async def test_a_job_that_bypassed_the_webhook_runs_and_is_reported(cluster: Cluster, room: Object) -> None:
    first, second = (rj(name, 1, 2, 2, pod=room) for name in ("a", "b"))
    created = await cluster.create_jobset(jobset("js", first, second, mode="Gang"))
    before = {pod["metadata"]["uid"] for pod in await running_pods(cluster, 4)}
    await gang_of(cluster, "js")
    await cluster.api.patch(
        path_of("v1", "namespaces", name=cluster.namespace), {"metadata": {"labels": {"gangctl.dev/skip": "true"}}}
    )

    async def skipped() -> bool:
        await cluster.create_jobset(jobset("x", rj("w", 1, 1, 1), mode="nonsense"), dry_run=True)
        return True

    await wait_for(skipped, what="the namespace to be skipped", tolerate=(ApiFailure,))
    await cluster.api.delete(cluster.path("batch/v1", "jobs", "js-b-0"), propagation="Background")

    async def made_anew() -> bool:
        job = (await cluster.jobs())["js-b-0"]
        if reference_of(job) is not None:
            raise NotYet("the old one")
        return True

    await wait_for(made_anew, what="JobSet to make the Job again", tolerate=(KeyError,))
    event = await said(cluster, "FieldDropped")
    assert "js-b-0 name no gang" in event["note"]

    await read_until(
        lambda: running_pods(cluster, 4),
        lambda pods: len(before & {pod["metadata"]["uid"] for pod in pods}) == 2,
        "the pods of the new Job beside those of the other",
    )
    if cluster.minor == "1.37":
        group = object_name("js", created["metadata"]["uid"], "jobset")

        await read_until(
            cluster.gangs, lambda gangs: gangs.group_min_count(group) == 2, "the group to wait for its own pods only"
        )
