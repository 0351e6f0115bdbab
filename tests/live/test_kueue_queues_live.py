"""Queues of a policy beside a real Kueue: given before it looks, changed later; what is refused would never start."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any, Final

import pytest
import yaml

from tests.controlplane.api import ApiFailure, Object, path_of
from tests.controlplane.kubelet import Kubelet
from tests.controlplane.nodes import add_nodes
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for
from tests.docpages import Page
from tests.jobsets import jobset, rj
from tests.live import kueue
from tests.live.cluster import JOBSETS, Cluster
from tests.live.definitions import serve
from tests.live.gangctl import Gangctl, create_namespaces, prepare, shared, shared_gangctl
from tests.live.kueue import POOL, PRIORITY, QUEUE_NAME, make_queue, runs, until
from tests.live.policed import Policed
from tests.manifests.definitions.policies import definitions

pytestmark = [pytest.mark.controlplane, pytest.mark.xdist_group("kueue-queues")]

PODSET: Final = "kueue.x-k8s.io/podset"
PODS: Final = 2


@pytest.fixture(scope="module")
def kueue_plane() -> Iterator[ControlPlane]:
    """A plane with Kueue, on which each test has a namespace and queues of its own."""

    async def start() -> ControlPlane:
        started = await ControlPlane.start("1.37")
        await prepare(started)
        await kueue.install(started)
        await serve(started.api, definitions().values())
        return started

    yield from shared(start)


@pytest.fixture(scope="module")
def evaluating(kueue_plane: ControlPlane) -> Iterator[Gangctl]:
    yield from shared_gangctl(Gangctl(kueue_plane, "--discovery-period=1"))


@pytest.fixture
async def policed(kueue_plane: ControlPlane, evaluating: Gangctl) -> AsyncIterator[Policed]:
    """A namespace with policies of its own, of which none is left in the end."""
    namespace = f"mapped-{secrets.token_hex(3)}"
    await create_namespaces(kueue_plane, [namespace])
    made = Policed(Cluster(kueue_plane, namespace), evaluating)
    yield made
    await made.gone()


def gang(name: str, *, mode: str | None = "Gang", labels: Object | None = None, **pod: Any) -> Object:
    raw = jobset(name, rj("w", 1, PODS, PODS, cpu="1", pod=pod), mode=mode)
    if labels is not None:
        raw["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["metadata"] = {"labels": labels}
    return raw


async def labels_of(policed: Policed, raw: Object) -> dict[str, str]:
    """Labels of a JobSet once a dry run gives it a queue: the API server does not learn of webhooks at once."""

    async def given() -> dict[str, str]:
        answer = await policed.cluster.create_jobset(raw, dry_run=True)
        found: dict[str, str] = answer["metadata"].get("labels") or {}
        if QUEUE_NAME not in found:
            raise NotYet(str(answer["metadata"]))
        return found

    return await wait_for(given, what=f"a queue for {raw['metadata']['name']}")


async def finished_reason(cluster: Cluster, name: str) -> str:
    """Why Kueue's Workload of a JobSet is Finished."""
    uid = (await cluster.jobset(name))["metadata"]["uid"]

    async def ended() -> str:
        for workload in await cluster.api.list(kueue.path("workloads", namespace=cluster.namespace)):
            if uid in str(workload["metadata"].get("ownerReferences")):
                for each in workload.get("status", {}).get("conditions", []):
                    if (each["type"], each["status"]) == ("Finished", "True"):
                        return str(each["reason"])
        raise NotYet(name)

    return await wait_for(ended, what=f"the Workload of {name} to be finished")


async def test_queues_set_by_a_policy_are_used_and_writes_of_kueue_are_admitted(policed: Policed) -> None:
    cluster, api = policed.cluster, policed.cluster.api
    pool = "pool-mapped"
    await make_queue(cluster, {pool: PODS})
    await kueue.create(api, "workloadpriorityclasses", "urgent", value=1000)
    await add_nodes(api, 1, cpu="8", labels={POOL: pool})
    entry = {"match": {"accelerator": {"nodeLabels": {POOL: pool}}}, "queue": "q", "priorityClass": "urgent"}
    await policed.in_force(await policed.policy("map", defaults={"queues": [entry], "queue": "typo"}))

    # The first entry that fits, or the fallback, which does not exist: that is told, and refuses nothing.
    pooled: Object = {"nodeSelector": {POOL: pool}}
    assert await labels_of(policed, gang("a", **pooled)) == {QUEUE_NAME: "q", PRIORITY: "urgent"}
    await policed.until(201, gang("b"), "typo")

    # Kueue's own webhook sees the label that gangctl's gave: the JobSet is suspended before anybody makes a pod.
    created = await cluster.create_jobset(gang("a", **pooled))
    assert created["spec"]["suspend"] is True
    waiting = await cluster.create_jobset(gang("b", **pooled) | {"metadata": labelled(gang("b"), queue="typo")})
    assert waiting["metadata"]["labels"][QUEUE_NAME] == "typo"

    async with Kubelet(api) as kubelet:
        life = await runs(cluster, "a", PODS)
        template = (await cluster.jobset("a"))["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
        assert template["metadata"]["labels"][PODSET] == "w"
        groups = (await cluster.gangs()).groups.values()
        assert [group["spec"].get("priorityClassName", "") for group in groups] == [""]

        # Who waits in a queue that does not exist is moved to one that does.
        await cluster.patch_jobset("b", {"metadata": {"labels": {QUEUE_NAME: "q"}}})
        await until(cluster, "b", "to be queued", lambda life: life.suspended and life.workload)
        for pod in life.pods:
            await kubelet.finish(pod)
        await runs(cluster, "b", PODS)


async def test_the_policy_of_the_page_leaves_a_gang_in_a_queue_alone(policed: Policed) -> None:
    """Kueue starts and evicts a gang that is larger than the policy allows, because it was there before."""
    cluster, api, files = policed.cluster, policed.cluster.api, Page("policies.md").files
    queue = kueue.path("clusterqueues", await make_queue(cluster, {"pool-older": 9}, stopPolicy="Hold"))
    old = kueue.queued("older", 6)
    old["metadata"]["finalizers"] = ["example.com/hold"]
    await cluster.create_jobset(old)
    await until(cluster, "older", "to wait", lambda life: life.suspended and life.workload)
    limits, policy = (yaml.safe_load(files[name]) for name in ("limits.yaml", "policy.yaml"))
    maps = path_of("v1", "configmaps", namespace=limits["metadata"]["namespace"])
    await api.patch(f"{maps}/{limits['metadata']['name']}", limits, kind="apply", fieldManager="test", force=True)
    await policed.policy(policy["metadata"]["name"], **policy["spec"])
    await policed.until(422, kueue.queued("new", 6), "a gang has at most 4 pods")

    await api.patch(queue, {"spec": {"stopPolicy": "None"}})
    await until(cluster, "older", "to be started", lambda life: not life.suspended)
    template = (await cluster.jobset("older"))["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    assert template["spec"]["nodeSelector"] == {POOL: "pool-older"}, "what Kueue writes into pods"
    await cluster.patch_jobset("older", {"metadata": {"labels": {"team": "a"}}})
    await api.patch(queue, {"spec": {"stopPolicy": "HoldAndDrain"}})
    await until(cluster, "older", "to be evicted", lambda life: life.suspended and life.evictions)
    await api.delete(cluster.path(JOBSETS, "jobsets", "older"), propagation="Foreground")
    await cluster.patch_jobset("older", {"metadata": {"finalizers": ["foregroundDeletion"]}})

    async def gone() -> bool:
        if [each["metadata"]["name"] for each in await api.list(cluster.path(JOBSETS, "jobsets"))]:
            raise NotYet("it is there")
        return True

    await wait_for(gone, what="the JobSet to be deleted")
    await api.delete(f"{maps}/{limits['metadata']['name']}")


def labelled(raw: Object, *, queue: str) -> Object:
    metadata: Object = {**raw["metadata"], "labels": {QUEUE_NAME: queue}}
    return metadata


@pytest.mark.full("the sandbox proves what is refused; here is Kueue's own word for it")
async def test_a_jobset_that_kueue_cannot_start_is_refused_if_it_is_a_gang(policed: Policed) -> None:
    """The reason is Kueue's own: without a gang it is not refused, and never starts."""
    cluster = policed.cluster
    await make_queue(cluster, {"pool-preset": PODS})
    preset = gang("gang", labels={PODSET: "other"})
    preset["metadata"] = labelled(preset, queue="q")
    answer = await policed.until(422, preset, "would fail to start")
    assert f"template.metadata.labels[{PODSET}]" in answer.text

    plain = gang("plain", mode=None, labels={PODSET: "other"})
    plain["metadata"] = labelled(plain, queue="q")
    await cluster.create_jobset(plain)
    assert await finished_reason(cluster, "plain") == "FailedToStart"
    live = await cluster.api.get(cluster.path(JOBSETS, "jobsets", "plain"))
    assert live["spec"]["suspend"] is True


async def test_a_policy_refuses_a_jobset_that_never_fits_its_queue(policed: Policed) -> None:
    cluster = policed.cluster
    await make_queue(cluster, {"pool-small": PODS})
    rule = {"name": "can", "expression": "fit.verdict != 'never'", "messageExpression": "fit.message"}
    await policed.in_force(await policed.policy("fits", validations=[rule]))
    answer = await policed.until(422, kueue.queued("large", PODS + 1), "can never give more than 2")
    assert "can never be admitted by ClusterQueue" in answer.text
    small = partial(cluster.create_jobset, kueue.queued("small", PODS))
    # An evaluation has a second: on a machine that stands still it is refused.
    created = await wait_for(small, what="one that fits to be let in", tolerate=(ApiFailure,))
    assert created["spec"]["suspend"] is True
