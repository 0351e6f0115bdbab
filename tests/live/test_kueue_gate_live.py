"""gangctl's gate in front of a real Kueue: on at CREATE, off once the gang is there, and never a silent success."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Iterator
from itertools import count

import pytest

from tests.cases import object_name
from tests.controlplane.api import ApiFailure
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for
from tests.jobsets import jobset, rj
from tests.live.admission import GATED_BY, KUEUE, QUEUE, Queues, chronicle, gates_of, holds, install, wrote
from tests.live.admission_rights import Context, granted, opens
from tests.live.cluster import JOBSETS, Cluster, refused
from tests.live.definitions import serve
from tests.live.gangctl import USER, Gangctl, create_namespaces, prepare
from tests.live.observe import foreign_workload, said
from tests.live.proxy import Proxy
from tests.live.rights import missing
from tests.live.test_crash_live import Assassin, Condition, kill_after_each_write
from tests.manifests.definitions.policies import definitions

pytestmark = [pytest.mark.controlplane, pytest.mark.xdist_group("kueue-gate")]

GATE = "gangctl.dev/gang"
FOREIGN = "example.com/budget"


async def start_plane(*, honoured: bool) -> ControlPlane:
    gates = {} if honoured else {"AdmissionGatedBy": False}
    started = await ControlPlane.start("1.37", ("jobset", "kueue"), scheduler=False, kueue_gates=gates)
    await prepare(started)
    await install(started.api, "kueue-gate")
    return started


@pytest.fixture(scope="module")
def kueue_plane() -> Iterator[ControlPlane]:
    plane = asyncio.run(start_plane(honoured=True))
    yield plane
    asyncio.run(plane.close())


@pytest.fixture(scope="module")
def gating(kueue_plane: ControlPlane) -> Iterator[Gangctl]:
    """gangctl in this mode; a test that stops it starts it again."""
    gangctl = Gangctl(kueue_plane, "--kueue-gate")
    asyncio.run(gangctl.start())
    yield gangctl
    asyncio.run(gangctl.close())
    assert "Traceback" not in gangctl.log


async def queues_of(plane: ControlPlane, test: str) -> Queues:
    """A namespace of the test's own, with queues."""
    slug = re.sub(r"[^a-z0-9]+", "-", test.lower()).strip("-")[5:35].strip("-")
    name = f"{slug}-{secrets.token_hex(3)}"
    await create_namespaces(plane, [name])
    queues = Queues(Cluster(plane, name))
    await queues.open()
    await queues.active()
    return queues


@pytest.fixture
async def queues(kueue_plane: ControlPlane, gating: Gangctl, request: pytest.FixtureRequest) -> Queues:
    assert gating.process.running, "an earlier test left gangctl stopped"
    return await queues_of(kueue_plane, request.node.name)


async def test_a_jobset_is_queued_once_its_gang_exists(queues: Queues, kueue_plane: ControlPlane) -> None:
    since = kueue_plane.audit_position
    async with chronicle(queues) as seen:
        created = await queues.submit()
        assert created["metadata"]["annotations"][GATED_BY] == GATE
        await wait_for(lambda: queues.started("js"), what="the JobSet to start")
    assert seen.admissions("js") == [1]
    await wrote(
        kueue_plane, queues.name, since, ["create workloads", "create podgroups", "create podgroups", "patch jobsets"]
    )
    await said(queues.cluster, "AdmissionGateRemoved")
    assert "AdmissionGateNotHonoured" not in await queues.cluster.reasons("js")
    gated = [each for each in seen.versions["js"] if GATED_BY in each["metadata"].get("annotations", {})]
    assert gated, "Kueue had to show that it minds the gate"
    assert not any(holds(each, "QuotaReserved") for each in gated)


@pytest.mark.full("the first tier has its life once, who is not gated, and what the account may not do")
async def test_gates_of_other_controllers_are_kept(queues: Queues) -> None:
    created = await queues.submit(annotations={GATED_BY: f"{FOREIGN}"})
    assert created["metadata"]["annotations"][GATED_BY].split(",") == [FOREIGN, GATE]

    async def opened() -> bool:
        if (names := await gates_of(queues.cluster, "js")) != [FOREIGN]:
            raise NotYet(str(names))
        return True

    await wait_for(opened, what="gangctl's gate to be open")
    assert (await queues.cluster.gangs()).groups
    assert not holds(await queues.workload("js"), "QuotaReserved")
    await queues.cluster.patch_jobset("js", {"metadata": {"annotations": {GATED_BY: None}}})
    await wait_for(lambda: queues.started("js"), what="the JobSet to start")


@pytest.mark.full("the first tier has its life once, who is not gated, and what the account may not do")
async def test_the_gate_stays_while_the_gang_cannot_be_made(
    queues: Queues, kueue_plane: ControlPlane, gating: Gangctl
) -> None:
    assassin = Assassin(gating, queues.cluster.namespace)
    async with (
        Proxy(kueue_plane, USER, assassin) as proxy,
        gating.through(proxy.kubeconfig(kueue_plane.directory / "proxy-held.json")),
    ):
        # Dead after its first write for this JobSet: the name of a group can be taken before the next life.
        assassin.arm(1, "podgroups")
        created = await queues.submit()
        name = object_name("js", created["metadata"]["uid"], "workload")

        async def dead() -> bool:
            return await assassin.struck()

        await wait_for(dead, what="gangctl to be killed")
        await queues.api.delete(queues.cluster.scheduling("workloads", name))
        await queues.api.create(
            queues.cluster.scheduling("workloads"), foreign_workload(queues.cluster, name, "somebody")
        )
        await gating.process.start()
        await said(queues.cluster, "NameConflict")
        assert await gates_of(queues.cluster, "js") == [GATE]
        assert not holds(await queues.workload("js"), "QuotaReserved")
        await queues.api.delete(queues.cluster.scheduling("workloads", name))
        await wait_for(lambda: queues.started("js"), what="the JobSet to start")


@pytest.mark.full("the first tier has its life once, who is not gated, and what the account may not do")
async def test_a_policy_that_denies_the_patch_keeps_the_gate(queues: Queues, gating: Gangctl) -> None:
    await serve(queues.api, definitions().values())
    name = f"later-{queues.name[-6:]}"
    here = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": queues.name}}}
    rules = [{"expression": "request.operation != 'UPDATE' || has(object.metadata.labels.go)", "message": "wait"}]
    spec = {"matchConstraints": here, "validations": rules}
    body = {"apiVersion": "gangctl.dev/v1alpha1", "kind": "GangPolicy", "metadata": {"name": name}, "spec": spec}
    path = f"/apis/gangctl.dev/v1alpha1/gangpolicies/{name}"
    await queues.api.patch(path, body, kind="apply", fieldManager="test")
    try:
        probe = jobset("probe", rj("w", 1, 1, 1))
        await queues.cluster.create_jobset(probe)

        async def denied() -> bool:
            try:
                await queues.cluster.patch_jobset("probe", {"metadata": {"labels": {"a": secrets.token_hex(3)}}})
            except ApiFailure as failure:
                return failure.status == 422
            return False

        await wait_for(denied, what="the policy to be in force")
        await queues.submit()
        event = await said(queues.cluster, "FailedCreate")
        assert "wait" in event["note"]
        assert await gates_of(queues.cluster, "js") == [GATE]
        assert gating.process.running
    finally:
        await queues.api.delete(path)
    await wait_for(lambda: queues.started("js"), what="the JobSet to start")


@pytest.mark.full("the first tier has its life once, who is not gated, and what the account may not do")
async def test_a_kill_after_every_write_leaves_no_gate(
    queues: Queues, kueue_plane: ControlPlane, gating: Gangctl
) -> None:
    assassin = Assassin(gating, queues.cluster.namespace)
    names = (f"c{n}" for n in count())

    async def create(_: int) -> Condition:
        name = next(names)
        await queues.submit(name)

        async def whole() -> bool:
            if "WorkloadCreated" not in (events := await queues.cluster.reasons(name)):
                raise NotYet(f"events {events}")
            return await queues.started(name)

        return whole

    async with (
        chronicle(queues) as seen,
        Proxy(kueue_plane, USER, assassin) as proxy,
        gating.through(proxy.kubeconfig(kueue_plane.directory / "proxy-gate.json")),
    ):
        # Apart, because they overlap: which of two is the n-th of all is chance.
        objects = await kill_after_each_write(gating, proxy, assassin, create, "scheduling.k8s.io")
        opened = await kill_after_each_write(gating, proxy, assassin, create, "jobset.x-k8s.io")
        events = await kill_after_each_write(gating, proxy, assassin, create, "events.k8s.io")
    assert objects == ["POST workloads", "POST podgroups", "POST podgroups"]
    assert opened == ["PATCH jobsets"]
    assert events
    for owner in seen.versions:
        assert seen.admissions(owner) == [1], owner
        assert await gates_of(queues.cluster, owner) == []


async def test_jobsets_without_a_queue_or_a_gang_are_not_gated(queues: Queues) -> None:
    raw = jobset("alone", rj("w", 1, 1, 1, mode="Gang"))
    assert GATED_BY not in (await queues.cluster.create_jobset(raw))["metadata"].get("annotations", {})
    raw = jobset("plain", rj("w", 1, 1, 1))
    raw["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": QUEUE}
    assert GATED_BY not in (await queues.cluster.create_jobset(raw))["metadata"].get("annotations", {})
    await wait_for(lambda: queues.started("plain"), what="the JobSet without a gang to start")


@pytest.mark.full("the first tier has its life once, who is not gated, and what the account may not do")
async def test_eviction_and_readmission_need_no_gate(queues: Queues) -> None:
    await queues.submit()
    await wait_for(lambda: queues.started("js"), what="the JobSet to start")
    before = (await queues.cluster.gangs()).uids()
    path = queues.cluster.path(KUEUE, "workloads", (await queues.workload("js"))["metadata"]["name"])
    await queues.api.patch(path, {"spec": {"active": False}})
    await queues.until("js", "QuotaReserved", status=False)
    await queues.api.patch(path, {"spec": {"active": True}})
    await wait_for(lambda: queues.started("js"), what="the JobSet to start again")
    assert (await queues.cluster.gangs()).uids() == before


async def test_the_account_can_change_nothing_else_of_a_jobset(queues: Queues, kueue_plane: ControlPlane) -> None:
    await queues.submit(annotations={GATED_BY: FOREIGN, "note": "mine"})
    path = queues.cluster.path(JOBSETS, "jobsets", "js")
    impostor = kueue_plane.client(USER)
    try:
        for patch, words in (
            ({"spec": {"suspend": False}}, "neither the spec nor the status"),
            ({"metadata": {"labels": {"a": "b"}}}, "metadata but an annotation"),
            ({"metadata": {"finalizers": ["example.com/stay"]}}, "metadata but an annotation"),
            ({"metadata": {"annotations": {"note": "yours"}}}, "no annotation of a JobSet but"),
            ({"metadata": {"annotations": {"more": "x"}}}, "no annotation of a JobSet but"),
            ({"metadata": {"annotations": {"note": None}}}, "no annotation of a JobSet but"),
            ({"metadata": {"annotations": {GATED_BY: None}}}, "and no other gate"),
        ):
            failure = await refused(impostor.patch(path, patch))
            assert failure.status == 422, failure
            assert words in failure.message
        failure = await refused(impostor.patch(f"{path}/status", {"status": {"restarts": 1}}))
        assert failure.status == 403
    finally:
        await impostor.close()


@pytest.mark.full("the first tier has its life once, who is not gated, and what the account may not do")
async def test_the_right_to_patch_is_needed(queues: Queues, gating: Gangctl) -> None:
    (patch,) = [each for each in granted("kueue-gate") if each.verb == "patch"]
    act = opens(Context(queues, gating, patch))
    await anext(act)
    async with missing(queues.api, USER, [patch]):
        await anext(act)
    await anext(act, None)


async def test_a_kueue_that_ignores_gates_is_reported(request: pytest.FixtureRequest) -> None:
    plane = await start_plane(honoured=False)
    try:
        async with Gangctl(plane, "--kueue-gate") as gangctl:
            queues = await queues_of(plane, request.node.name)
            # Without the right to look whether the gate is there in truth, nobody is told anything.
            (look,) = [each for each in granted("kueue-gate") if each.verb == "get"]
            async with missing(plane.api, USER, [look]):
                context = Context(queues, gangctl, look)
                await queues.submit()
                await context.refused()
                assert "AdmissionGateNotHonoured" not in await queues.cluster.reasons("js")
            event = await said(queues.cluster, "AdmissionGateNotHonoured")
            assert event["type"] == "Warning"
            await wait_for(lambda: queues.started("js"), what="the JobSet to start")

            async def removed() -> bool:
                return not await gates_of(queues.cluster, "js")

            await wait_for(removed, what="the useless gate to be gone")
            assert "AdmissionGateRemoved" not in await queues.cluster.reasons("js")
        assert "Traceback" not in gangctl.log
    finally:
        await plane.close()
