"""``gangctl fit`` and ``gangctl queue`` beside a real Kueue: their output is what Kueue then does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gangctl.kueue.topology import with_placements
from tests.cli import run
from tests.cli.gangs.place import running
from tests.cli.manifests import write
from tests.cli.run import Answer, process
from tests.controlplane.api import Object, path_of
from tests.controlplane.nodes import add_nodes, remove_nodes
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, read_until, wait_for
from tests.jobsets import jobset, rj
from tests.live import kueue
from tests.live.gangctl import shared
from tests.live.queued import QUEUE, Queued

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(900), pytest.mark.xdist_group("kueue-cli")]

RACK = "example.com/rack"
RBAC = "rbac.authorization.k8s.io/v1"


@pytest.fixture(scope="module")
def beside_kueue() -> Iterator[ControlPlane]:
    """A plane whose Kueue has its configuration where its manifests have it."""

    async def start() -> ControlPlane:
        plane = await ControlPlane.start("1.37", ("jobset", "kueue"))
        await kueue.configure(plane)
        return plane

    yield from shared(start)


@pytest.fixture
async def queued(beside_kueue: ControlPlane) -> Queued:
    return await Queued.make(beside_kueue, "cli")


async def ask(queued: Queued, *arguments: str, kubeconfig: Path | None = None) -> Answer:
    """As the administrator, or as another user."""
    config = str(kubeconfig or queued.plane.kubeconfig)
    return await run.ask(*arguments, "--kubeconfig", config)


def gang(queued: Queued, name: str, pods: int) -> Object:
    """So many pods of one CPU, which no node takes: those of another test are not in their way."""
    made = jobset(name, rj("w", 1, pods, pods, cpu="1", pod={"nodeSelector": {"room": "none"}}))
    made["metadata"]["namespace"] = queued.namespace
    made["metadata"]["labels"] = {QUEUE: "main"}
    return made


def racked(queued: Queued, name: str, pods: int, level: str) -> Object:
    """So many pods of one CPU, which ask Kueue for one domain of a level."""
    entry = rj("w", 1, pods, pods, cpu="1")
    note = {"kueue.x-k8s.io/podset-required-topology": level}
    entry["template"]["spec"]["template"]["metadata"] = {"annotations": note}
    made = jobset(name, entry, namespace=queued.namespace)
    made["metadata"]["labels"] = {QUEUE: "main"}
    return made


async def condition(queued: Queued, name: str, kind: str, *, status: bool) -> str:
    """Wait for a condition of the Workload of Kueue, and give its message."""

    async def there() -> str:
        found = (await queued.workload(name)).conditions.get(kind)
        if found is None or found.status is not status:
            raise NotYet(f"{name}: {kind} is {found}")
        return found.message

    return await wait_for(there, f"{kind} of {name} to be {status}")


async def forgotten(queued: Queued, name: str) -> None:
    """Wait until a JobSet that was deleted has no Workload any more: until then it is in the queue."""

    async def gone() -> bool:
        if queued.uids[name] in {each.owner_uid for each in await queued.workloads()}:
            raise NotYet("it is there")
        return True

    await wait_for(gone, f"the Workload of {name} to be gone")


async def test_kueue_admits_as_fit_predicts(queued: Queued, tmp_path: Path) -> None:
    await queued.queue("4")
    said: dict[str, Answer] = {}
    for name, pods in (("fits", 3), ("waits", 2), ("never", 5)):
        body = gang(queued, name, pods)
        said[name] = await ask(queued, "fit", "-f", write(tmp_path / f"{name}.yaml", body), "-o", "json")
        await queued.submit(name, body=body)
        if name == "fits":
            await condition(queued, name, "Admitted", status=True)
    assert {name: (answer.json["verdict"], answer.code) for name, answer in said.items()} == {
        "fits": ("fits", 0),
        "waits": ("not-now", 0),
        "never": ("never", 1),
    }
    assert [each["name"] for each in said["waits"].json["holders"]] == ["fits"]
    assert "insufficient unused quota" in await condition(queued, "waits", "QuotaReserved", status=False)
    assert "maximum capacity" in await condition(queued, "never", "QuotaReserved", status=False)
    # Of those that are there, the answer is the same, and what one holds is not in its own way.
    for name, verdict in (("fits", "fits"), ("waits", "not-now"), ("never", "never")):
        again = await ask(queued, "fit", name, "-n", queued.namespace, "-o", "json")
        assert (again.json["verdict"], again.err) == (verdict, "")
    table = await ask(queued, "fit", "waits", "-n", queued.namespace)
    assert "  Kueue: Pending for " in table.out
    await queued.delete("fits")
    await condition(queued, "waits", "Admitted", status=True)


async def test_kueue_places_gangs_where_fit_expects_them(queued: Queued, tmp_path: Path) -> None:
    """Two racks of two nodes with one CPU each."""
    api, flavor = queued.plane.api, f"{queued.namespace}-racks"
    place = {"room": queued.namespace}
    racks = {rack: await add_nodes(api, 2, cpu="1", labels={**place, RACK: rack}) for rack in "ab"}
    levels = [{"nodeLabel": label} for label in (RACK, "kubernetes.io/hostname")]
    await queued.apply("Topology", flavor, {"levels": levels})
    await queued.apply("ResourceFlavor", flavor, {"nodeLabels": place, "topologyName": flavor})
    await queued.queue("99", flavor=flavor)

    async def fit(pods: int, level: str = RACK, *flags: str) -> Answer:
        file = write(tmp_path / "a.yaml", racked(queued, "new", pods, level))
        return await ask(queued, "fit", "-f", file, "-o", "json", *flags)

    async def placed(name: str, pods: int, rack: str) -> None:
        (row,) = (await fit(pods)).json["domains"]
        assert (row["domain"], row["assigned"]) == (rack, pods)
        await queued.submit(name, body=racked(queued, name, pods, RACK))
        await condition(queued, name, "Admitted", status=True)
        listed = await api.list(queued.path("Workload", None, queued.namespace))
        (found,) = (each for raw in listed if (each := with_placements(raw)).owner_uid == queued.uids[name])
        assert {host for (host,) in found.placements[0].domains} <= {*racks[rack]}

    try:
        await placed("first", 2, "a")
        await placed("second", 1, "b")
        waits = await fit(2)
        assert (waits.json["reason"], waits.code) == ("WaitsForTopology", 0)
        assert [each["name"] for each in waits.json["holders"]] == ["second"]
        await queued.submit("third", body=racked(queued, "third", 2, RACK))
        assert "topology" in await condition(queued, "third", "QuotaReserved", status=False)
        assert (await fit(3)).json["reason"] == "NeedsNodes"
        assert (await fit(3, RACK, "--fixed-nodes")).json["reason"] == "NeverExceedsTopology"
        assert (await fit(1, "example.com/zone")).json["reason"] == "NeverNoFlavor"
        await queued.delete("first")
        await condition(queued, "third", "Admitted", status=True)
    finally:
        await remove_nodes(api, [node for names in racks.values() for node in names])


async def test_fit_names_the_head_of_a_strict_queue(queued: Queued, tmp_path: Path) -> None:
    await queued.queue("4", queueingStrategy="StrictFIFO")
    # Created within the same second, the two would be in the order of their UIDs.
    await queued.apply("WorkloadPriorityClass", f"{queued.namespace}-high", {}, value=100)
    labels = {"kueue.x-k8s.io/priority-class": f"{queued.namespace}-high"}
    await queued.submit("runs", body=gang(queued, "runs", 3))
    await condition(queued, "runs", "Admitted", status=True)
    await queued.submit("first", body=gang(queued, "first", 2), labels=labels)
    assert "insufficient unused quota" in await condition(queued, "first", "QuotaReserved", status=False)
    body = gang(queued, "small", 1)
    answer = await ask(queued, "fit", "-f", write(tmp_path / "small.yaml", body), "--now", "-o", "json")
    assert (answer.json["verdict"], answer.json["reason"], answer.code) == ("not-now", "HeadBlocksQueue", 1)
    assert f'"{queued.namespace}/first" does not fit now' in answer.json["message"]
    await queued.submit("small", body=body)
    await wait_for(lambda: queued.workload("small"), "Kueue to make its Workload")
    again = await ask(queued, "fit", "small", "-n", queued.namespace, "-o", "json")
    assert (again.json["reason"], (await queued.workload("small")).cluster_queue) == ("HeadBlocksQueue", "")
    await queued.delete("first")
    await condition(queued, "small", "Admitted", status=True)


@pytest.mark.full("pure tests answer the same questions of dumps")
async def test_queue_describe_shows_the_order_of_admission(queued: Queued) -> None:
    await queued.queue("4", queueingStrategy="StrictFIFO")
    await queued.apply("WorkloadPriorityClass", f"{queued.namespace}-high", {}, value=100)
    await queued.submit("runs", body=gang(queued, "runs", 4))
    await condition(queued, "runs", "Admitted", status=True)
    labels = {"kueue.x-k8s.io/priority-class": f"{queued.namespace}-high"}
    await queued.submit("never", body=gang(queued, "never", 5))
    await condition(queued, "never", "QuotaReserved", status=False)
    urgent = gang(queued, "urgent", 2)
    await queued.submit("urgent", body=urgent, labels=labels)
    await condition(queued, "urgent", "QuotaReserved", status=False)
    answer = await ask(queued, "queue", "describe", "main", "-n", queued.namespace, "-o", "json")
    assert (answer.code, answer.err) == (0, "")
    report = answer.json
    shown = [(each["position"], each["name"], each["phase"], each["priority"]) for each in report["members"]]
    assert shown == [(None, "runs", "Admitted", 0), (1, "urgent", "Pending", 100), (2, "never", "Pending", 0)]
    assert (report["state"], report["strategy"], report["pending"], report["admitted"]) == (
        "active",
        "StrictFIFO",
        2,
        1,
    )
    (quota,) = report["quotas"]
    assert (quota["used"], quota["nominal"], quota["borrowable"], quota["free"]) == ("4", "4", "0", "0")
    await queued.delete("urgent")
    await forgotten(queued, "urgent")
    whole = await ask(queued, "queue", "describe", queued.namespace, "--cluster-queue", "-o", "json")
    assert any('"' + queued.namespace + '/never" can never fit' in each for each in whole.json["stuck"])
    summary = await ask(queued, "queue", "list", "-n", queued.namespace, "-o", "json")
    (listed,) = summary.json["items"]
    assert (listed["clusterQueue"], listed["state"]) == (queued.namespace, "active")


@pytest.mark.full("pure tests answer the same questions of dumps")
async def test_queue_list_shows_the_states_of_queues(queued: Queued) -> None:
    await queued.queue("4")

    await queued.apply("LocalQueue", "lost", {"clusterQueue": "nowhere"}, namespace=queued.namespace)

    async def until(wanted: tuple[str, str]) -> None:
        async def there() -> bool:
            answer = await ask(queued, "queue", "list", "-n", queued.namespace, "-o", "json")
            lost, main = answer.json["items"]
            assert (lost["state"], lost["reason"]) == ("missing", "ClusterQueueMissing")
            if (main["state"], main["reason"]) != wanted:
                raise NotYet(f"{main['state']} {main['message']}")
            return True

        await wait_for(there, f"the queue to be {wanted}")

    await until(("active", ""))
    await queued.queue("4", stopPolicy="Hold")
    await until(("stopped", "ClusterQueueStopped"))
    await queued.queue("4", flavor="missing", stopPolicy="None")
    await until(("inactive", "ClusterQueueInactive"))
    await queued.queue("4", namespaceSelector=None)
    await until(("inactive", "NamespaceNotSelected"))


@pytest.mark.full("pure tests answer the same questions of dumps")
async def test_users_with_few_rights_get_an_answer(queued: Queued, tmp_path: Path) -> None:
    await queued.queue("4")
    await queued.submit("runs", body=gang(queued, "runs", 3))
    await condition(queued, "runs", "Admitted", status=True)
    user, api = f"user-{queued.namespace}", queued.plane.api
    wide = ["clusterqueues", "cohorts", "resourceflavors", "admissionchecks"]
    rules: list[dict[str, Any]] = [
        {"apiGroups": ["kueue.x-k8s.io"], "resources": wide, "verbs": ["get", "list"]},
        {"apiGroups": ["node.k8s.io"], "resources": ["runtimeclasses"], "verbs": ["list"]},
    ]
    own: list[dict[str, Any]] = [
        {"apiGroups": ["kueue.x-k8s.io"], "resources": ["localqueues", "workloads"], "verbs": ["list"]},
        {"apiGroups": [""], "resources": ["limitranges"], "verbs": ["list"]},
    ]
    await _grant(api, user, rules)
    await _grant(api, user, own, queued.namespace)
    config = queued.plane.kubeconfig_for(user)
    file = write(tmp_path / "a.yaml", gang(queued, "big", 5))

    answer = await read_until(
        lambda: ask(queued, "fit", "-f", file, "-o", "json", kubeconfig=config),
        lambda answer: answer.code != 3,
        "the rights to be in force",
    )
    # Kueue's configuration is not for everybody to read, and it could change everything.
    assert (answer.code, answer.json["verdict"]) == (0, "unknown")
    assert "who holds quota in other namespaces is not known" in answer.err
    assert answer.json["limits"][0]["used"] == "3"
    described = await ask(queued, "queue", "describe", "main", "-n", queued.namespace, kubeconfig=config)
    assert (described.code, "runs" in described.out) == (0, True)


async def _grant(api: Any, user: str, rules: list[dict[str, Any]], namespace: str | None = None) -> None:
    kind = "Role" if namespace else "ClusterRole"
    subject = {"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}
    role: Object = {"apiVersion": RBAC, "kind": kind, "metadata": {"name": user}, "rules": rules}
    binding: Object = {
        "apiVersion": RBAC,
        "kind": f"{kind}Binding",
        "metadata": {"name": user},
        "subjects": [subject],
        "roleRef": {"kind": kind, "name": user, "apiGroup": "rbac.authorization.k8s.io"},
    }
    await api.create(path_of(RBAC, f"{kind.lower()}s", namespace=namespace), role)
    await api.create(path_of(RBAC, f"{kind.lower()}bindings", namespace=namespace), binding)


@pytest.mark.full("pure tests answer the same questions of dumps")
async def test_a_dump_of_the_cluster_gives_the_same_output(queued: Queued, tmp_path: Path) -> None:
    await queued.queue("4")
    await queued.submit("runs", body=gang(queued, "runs", 3))
    await condition(queued, "runs", "Admitted", status=True)
    api = queued.plane.api
    items: list[Object] = [
        {**item, "apiVersion": queue_path[0], "kind": queue_path[1]}
        for queue_path in (
            (kueue.API_VERSION, "ClusterQueue"),
            (kueue.API_VERSION, "LocalQueue"),
            (kueue.API_VERSION, "ResourceFlavor"),
            (kueue.API_VERSION, "Workload"),
        )
        for item in await api.list(queued.path(queue_path[1]))
    ]
    items.append(yaml.safe_load((queued.plane.directory / "kueue.yaml").read_text()))
    dump = write(tmp_path / "dump.json", *items)
    for pods in (1, 2, 5):
        file = write(tmp_path / "a.yaml", gang(queued, "new", pods))
        live = await ask(queued, "fit", "-f", file, "-o", "json")
        offline = await asyncio.to_thread(process, "fit", "-f", file, "--queues", dump, "-o", "json")
        assert offline.json == live.json
        assert offline.code == live.code


@pytest.mark.full("pure tests answer the same questions of dumps")
async def test_quota_without_capacity_on_nodes_is_reported(queued: Queued, tmp_path: Path) -> None:
    """The real scheduler finds what was said of two nodes of four CPUs."""
    place = {"room": queued.namespace}
    nodes = await add_nodes(queued.plane.api, 2, cpu="4", labels=place)
    await queued.queue("99")

    def here(name: str, pods: int) -> Object:
        body = jobset(name, rj("w", 1, pods, pods, cpu="1", pod={"nodeSelector": place}), mode="Gang")
        body["metadata"] |= {"namespace": queued.namespace, "labels": {QUEUE: "main"}}
        return body

    async def said(pods: int) -> tuple[str, str]:
        file = write(tmp_path / "a.yaml", here("new", pods))
        answer = await ask(queued, "fit", "-f", file, "--fixed-nodes", "-o", "json")
        return answer.json["verdict"], answer.json["reason"]

    try:
        assert await said(9) == ("never", "NeverExceedsNodes")
        assert await said(8) == ("fits", "Fits")
        await queued.submit("runs", body=here("runs", 1))

        await read_until(
            lambda: queued.plane.api.list(path_of("v1", "pods", namespace=queued.namespace)),
            lambda pods: any(pod["spec"].get("nodeName") in nodes for pod in pods),
            "the pod to be bound",
        )
        assert await said(8) == ("not-now", "WaitsForNodes")
        assert await said(7) == ("fits", "Fits")
        own = await ask(queued, "fit", "runs", "-n", queued.namespace, "--fixed-nodes", "--now")
        assert own.code == 0
    finally:
        await remove_nodes(queued.plane.api, nodes)


async def test_a_cluster_without_kueue_is_an_error(plane_1_37: ControlPlane, tmp_path: Path) -> None:
    config = str(plane_1_37.kubeconfig)
    file = write(tmp_path / "a.yaml", jobset("a", rj("w")))
    for arguments in (("fit", "-f", file), ("queue", "list")):
        answer = await asyncio.to_thread(process, *arguments, "--kubeconfig", config)
        assert (answer.code, answer.out) == (3, "")
        assert "the cluster does not have Kueue" in answer.err


async def test_commands_show_a_queued_gang_without_gangctl(queued: Queued) -> None:
    """No gangctl runs here: the commands derive everything from Kueue's objects."""
    await queued.queue("4")

    def body(name: str, pods: int) -> Object:
        made = gang(queued, name, pods)
        made["metadata"]["annotations"] = {"gangctl.dev/gang-mode": "Gang"}
        return made

    for name, pods in (("runs", 3), ("waits", 2), ("never", 5)):
        await queued.submit(name, body=body(name, pods))
        if name == "runs":
            await condition(queued, name, "Admitted", status=True)
    await condition(queued, "waits", "QuotaReserved", status=False)
    await condition(queued, "never", "QuotaReserved", status=False)

    async def said(name: str) -> tuple[str, str]:
        answer = await ask(queued, "why", name, "-n", queued.namespace, "-o", "json")
        assert answer.code in {0, 1}, answer.err
        status = answer.json["status"]
        assert (status["localQueue"], status["clusterQueue"]) == ("main", queued.namespace)
        return status["phase"], status["causes"][0]["reason"]

    assert await said("waits") == ("Queued", "WaitingForQuota")
    assert await said("never") == ("Queued", "NeverFits")
    place = ("-n", queued.namespace, "--kubeconfig", str(queued.plane.kubeconfig))
    impatient = await ask(queued, "wait", "never", "--fail-fast", "-n", queued.namespace)
    assert (impatient.code, "will not be ready: Queued: " in impatient.err) == (1, True)
    async with running("get", "waits", "--watch", *place) as watching:
        await watching.until("Queued")
        await queued.delete("runs")
        assert queued.namespace in await watching.until("waits")
    await condition(queued, "waits", "Admitted", status=True)
    after = await ask(queued, "get", "waits", "-n", queued.namespace, "-o", "json")
    assert after.json["status"]["admittedTime"]
    await queued.queue("4", stopPolicy="Hold")

    await read_until(
        lambda: said("never"), lambda words: words == ("Queued", "QueueBlocked"), "the closed queue to be reported"
    )
