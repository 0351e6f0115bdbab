"""``gangctl get``, ``describe``, ``why``, ``wait`` and ``top`` print the state of a real cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cli import run
from tests.cli.gangs.place import running
from tests.cli.manifests import write
from tests.cli.run import Answer, process
from tests.controlplane.api import Object, path_of
from tests.controlplane.kubelet import Kubelet
from tests.controlplane.nodes import add_nodes, remove_nodes
from tests.controlplane.wait import HUNG_SECONDS, NotYet, read_until, wait_for
from tests.jobsets import jobset, rj
from tests.live.cluster import JOBSETS, Cluster
from tests.live.observe import running_pods
from tests.live.tenantrights import grant_reading

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(900)]


@pytest.fixture
async def stuck(cluster: Cluster) -> AsyncIterator[Cluster]:
    """Eight CPUs, six of them held by a gang that runs; another one of four waits."""
    nodes = await add_nodes(cluster.api, 2, cpu="4", labels={"room": cluster.namespace})
    async with Kubelet(cluster.api):
        await cluster.create_jobset(gang(cluster, "runs", 6))
        await phase(cluster, "runs", "Ready")
        await cluster.create_jobset(gang(cluster, "waits", 4))
        await phase(cluster, "waits", "Unschedulable")
        yield cluster
    await remove_nodes(cluster.api, nodes)


def gang(cluster: Cluster, name: str, pods: int) -> Object:
    """So many pods of one CPU that have to start together."""
    return jobset(name, rj("w", 1, pods, pods, cpu="1", pod={"nodeSelector": {"room": cluster.namespace}}), mode="Gang")


async def ask(cluster: Cluster, *arguments: str, kubeconfig: Path | None = None) -> Answer:
    """As the administrator, or as another user, in the namespace."""
    config = str(kubeconfig or cluster.plane.kubeconfig)
    return await run.ask(*arguments, "-n", cluster.namespace, "--kubeconfig", config)


async def phase(cluster: Cluster, name: str, wanted: str) -> Object:
    """Wait until gangctl says so, and give what it says."""

    async def said() -> Object:
        answer = await ask(cluster, "get", name, "-o", "json")
        assert answer.code == 0, answer.err
        status: Object = answer.json["status"]
        if status["phase"] != wanted:
            raise NotYet(f"{status['phase']} {status['reason']} {status['message']}")
        return status

    return await wait_for(said, f"{name} to be {wanted}")


@pytest.mark.differs("1.35")
async def test_running_and_waiting_gangs_are_shown(stuck: Cluster) -> None:
    listed = await ask(stuck, "get", "-o", "json")
    assert (listed.code, listed.err) == (0, "")
    seen = {each["metadata"]["name"]: each["status"] for each in listed.json["items"]}
    assert {name: (each["phase"], each["ready"]) for name, each in seen.items()} == {
        "runs": ("Ready", "6/6"),
        "waits": ("Unschedulable", "0/4"),
    }
    assert (await ask(stuck, "why", "runs")).code == 0
    why = await ask(stuck, "why", "waits", "-o", "json")
    assert (why.code, why.err) == (1, "")
    first = why.json["status"]["causes"][0]
    assert (first["reason"], first["blocking"]) == ("Unschedulable", True)
    described = await ask(stuck, "describe", "runs", "-o", "json")
    details = described.json["details"]
    assert sum(node["pods"] for node in details["nodes"]) == 6
    assert {pod["state"] for group in details["groups"] for job in group["jobs"] for pod in job["pods"]} == {"Ready"}
    assert "WorkloadCreated" in [each["reason"] for each in details["events"]]
    top = await ask(stuck, "top", "-o", "json")
    assert (top.json["gangs"], top.json["blocked"], top.json["pods"]) == (
        2,
        1,
        {"wanted": 10, "ready": 6, "stranded": 0},
    )
    assert top.json["queues"][0]["requests"]["cpu"] == "10"


async def test_wait_ends_when_there_is_capacity(stuck: Cluster) -> None:
    async def late() -> bool:
        answer = await ask(stuck, "wait", "waits", "--timeout", "1s")
        assert answer.code == 1
        if "is not ready after 1s: Unschedulable: " not in answer.err:
            raise NotYet(answer.err)
        return True

    await wait_for(late, "gangctl to know in a second")
    place = ("-n", stuck.namespace, "--kubeconfig", str(stuck.plane.kubeconfig))
    async with running("wait", "waits", "--timeout", "1h", *place) as waiting:
        await waiting.until(f"{stuck.namespace}/waits: Unschedulable, 0 of 4 pods ready: ", err=True)
        await stuck.api.delete(stuck.path(JOBSETS, "jobsets", "runs"), propagation="Background")
        # The scheduler may put the pods off for minutes.
        answer = await waiting.end(seconds=2 * HUNG_SECONDS)
    assert (answer.code, answer.out) == (0, f"{stuck.namespace}/waits: Ready, 4 of 4 pods ready\n")


async def test_with_rights_in_one_namespace_its_gangs_are_shown(stuck: Cluster) -> None:
    user = f"user-{stuck.namespace}"
    await grant_reading(stuck, user)
    config = stuck.plane.kubeconfig_for(user)

    answer = await read_until(
        lambda: ask(stuck, "why", "waits", "-o", "json", kubeconfig=config),
        lambda answer: answer.err == "note: left out: nodes may not be read\n",
        "the rights to be in force",
    )
    assert (answer.code, answer.json["status"]["causes"][0]["reason"]) == (1, "Unschedulable")
    everywhere = await asyncio.to_thread(process, "get", "-A", "--kubeconfig", str(config))
    assert (everywhere.code, everywhere.out) == (3, "")
    assert "jobsets" in everywhere.err
    waited = await ask(stuck, "wait", "runs", kubeconfig=config)
    assert waited.code == 0, waited.err


async def dumped(cluster: Cluster) -> list[Object]:
    """Everything that gangctl reads about gangs, as a dump holds it."""
    kinds = [
        (JOBSETS, "jobsets", "JobSet"),
        ("batch/v1", "jobs", "Job"),
        ("v1", "pods", "Pod"),
        ("v1", "events", "Event"),
        (f"scheduling.k8s.io/{cluster.version}", "workloads", "Workload"),
    ]
    if cluster.has_groups:
        kinds.append((f"scheduling.k8s.io/{cluster.version}", "podgroups", "PodGroup"))
    items: list[Object] = [
        {**item, "apiVersion": version, "kind": kind}
        for version, plural, kind in kinds
        for item in await cluster.api.list(cluster.path(version, plural))
    ]
    nodes = await cluster.api.list(path_of("v1", "nodes"))
    return items + [{**item, "apiVersion": "v1", "kind": "Node"} for item in nodes]


def reported(answer: Answer) -> tuple[int, Object, list[str]]:
    """What a description says that does not change with the time of day."""
    return answer.code, answer.json["details"], [cause["reason"] for cause in answer.json["status"]["causes"]]


async def described(cluster: Cluster, name: str) -> tuple[Answer, list[Object]]:
    """What gangctl says of a gang, and everything that was there when it did: events and nodes change at any time."""

    async def unchanged() -> tuple[Answer, list[Object]]:
        before = await ask(cluster, "describe", name, "-o", "json")
        items = await dumped(cluster)
        after = await ask(cluster, "describe", name, "-o", "json")
        if reported(before) != reported(after):
            raise NotYet(f"{reported(before)}, then {reported(after)}")
        return after, items

    return await wait_for(unchanged, "a dump while nothing changes")


async def test_describe_has_what_attempts_took_and_lost(cluster: Cluster) -> None:
    """Two pods fail, one after the other: the third attempt runs."""
    nodes = await add_nodes(cluster.api, 1, cpu="4", labels={"room": cluster.namespace})
    raw = gang(cluster, "train", 2)
    raw["spec"]["failurePolicy"] = {"maxRestarts": 2}
    raw["spec"]["replicatedJobs"][0]["template"]["spec"]["backoffLimit"] = 0
    async with Kubelet(cluster.api) as kubelet:
        await cluster.create_jobset(raw)
        for attempt in range(2):
            await phase(cluster, "train", "Ready")
            await kubelet.fail((await running_pods(cluster, 2))[0])

            async def restarted(attempt: int = attempt) -> bool:
                status = (await cluster.jobset("train")).get("status", {})
                if status.get("restarts", 0) != attempt + 1:
                    raise NotYet(str(status))
                return True

            await wait_for(restarted, f"restart {attempt + 1}")
        await phase(cluster, "train", "Ready")
        costs = (await ask(cluster, "describe", "train", "-o", "json")).json["details"]["costs"]
        text = (await ask(cluster, "describe", "train")).out
    await remove_nodes(cluster.api, nodes)
    assert costs["attempts"] == 3
    assert costs["lastLoss"]["time"]
    assert "first failed job: train-w-0" in costs["lastLoss"]["cause"]
    assert {held["resource"] for held in costs["resources"]} == {"pods"}
    assert all(0 <= held["readySeconds"] <= held["allocatedSeconds"] for held in costs["resources"])
    assert "attempt 3, 2 restarts" in text
    assert "last loss" in text


@pytest.mark.full("pure tests prove that dumps and clusters are read alike")
async def test_a_dump_gives_the_same_output(stuck: Cluster, tmp_path: Path) -> None:
    for name in ("runs", "waits"):
        live, items = await described(stuck, name)
        dump = write(tmp_path / f"{name}.json", *items)
        offline = await asyncio.to_thread(process, "describe", name, "-f", dump, "-o", "json")
        assert offline.err == ""
        assert reported(offline) == reported(live)
