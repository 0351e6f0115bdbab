"""gangctl as the controller of an AdmissionCheck beside a real Kueue: order, restraint, retries and crashes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import count

import pytest

from tests.cases import object_name
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for
from tests.jobsets import jobset, rj
from tests.live.admission import CHECKS, KUEUE, PARAMETERS, Queues, chronicle, holds, install, state_of, wrote
from tests.live.admission_rights import Check, Context, asks_policies, declares, follows_parameters, granted, says_ready
from tests.live.cluster import refused
from tests.live.fixtures import place_for
from tests.live.gangctl import USER, Gangctl, prepare, shared, shared_gangctl
from tests.live.observe import foreign_workload, said
from tests.live.proxy import Proxy
from tests.live.queued import known_to_kueue
from tests.live.rights import Right, missing
from tests.live.test_crash_live import Assassin, Condition, kill_after_each_write
from tests.manifests.definitions.admissionparameters import definitions
from tests.manifests.definitions.policies import definitions as policy_definitions

pytestmark = [pytest.mark.controlplane, pytest.mark.xdist_group("kueue-check")]

MANAGER = "gangctl-admission-check"


@pytest.fixture(scope="module")
def kueue_plane() -> Iterator[ControlPlane]:
    crds = [*definitions().values(), *policy_definitions().values()]

    async def start() -> ControlPlane:
        started = await ControlPlane.start("1.37", ("jobset", "kueue"), scheduler=False, crds=crds)
        await prepare(started)
        await install(started.api, "kueue-check")
        return started

    yield from shared(start)


@pytest.fixture(scope="module")
def checking(kueue_plane: ControlPlane) -> Iterator[Gangctl]:
    """gangctl in this mode; a test that stops it starts it again."""
    yield from shared_gangctl(Gangctl(kueue_plane, "--kueue-check"))


@pytest.fixture
async def queues(kueue_plane: ControlPlane, checking: Gangctl, request: pytest.FixtureRequest) -> Queues:
    """A namespace of the test's own."""
    assert checking.process.running, "an earlier test left gangctl stopped"
    return Queues(await place_for(kueue_plane, request.node.name))


async def ready_queue(queues: Queues, parameters: str = "", others: tuple[str, ...] = ()) -> str:
    """A queue behind a check of gangctl's; the check's name."""
    check = await queues.check("gang", parameters=parameters)
    await queues.condition(check, "True", "Active")
    await queues.open((check, *others))
    await queues.active()
    return check


async def test_a_jobset_starts_once_its_gang_exists(queues: Queues, kueue_plane: ControlPlane) -> None:
    check = await ready_queue(queues)
    since = kueue_plane.audit_position
    async with chronicle(queues) as seen:
        created = await queues.submit()
        await wait_for(lambda: queues.started("js"), what="the JobSet to start")
    assert seen.states("js", check) == ["Pending", "Ready"]
    assert seen.admissions("js") == [1]
    # Its entry of the check is written once more where it has waited for some seconds.
    gang = ["create workloads", "create podgroups", "create podgroups"]
    await wrote(kueue_plane, queues.name, since, gang, but="patch workloads")
    event = await said(queues.cluster, "AdmissionCheckReady")
    assert check in event["note"]
    owned = {o["metadata"]["ownerReferences"][0]["uid"] for o in (await queues.cluster.gangs()).groups.values()}
    assert owned == {created["metadata"]["uid"]}


async def test_parameters_decide_whether_a_check_is_active(queues: Queues, kueue_plane: ControlPlane) -> None:
    name = f"late-{queues.name[-6:]}"
    check = await queues.check("gang", parameters=name)
    condition = await queues.condition(check, "False", "BadParametersRef")
    assert name in condition["message"]
    await queues.parameters("late", timeoutSeconds=5)
    await queues.condition(check, "True", "Active")
    patch = {"spec": {"parameters": {"kind": "ConfigMap", "apiGroup": "example.com", "name": "x"}}}
    await queues.api.patch(f"{CHECKS}/{check}", patch)
    await queues.condition(check, "False", "BadParametersRef")
    await queues.api.patch(f"{CHECKS}/{check}", {"spec": {"parameters": None}})
    await queues.condition(check, "True", "Active")
    failure = await refused(queues.parameters("bad", timeoutSeconds=0))
    assert failure.status == 422
    assert "spec.timeoutSeconds" in failure.message
    await queues.api.delete(f"{PARAMETERS}/{name}")
    since = kueue_plane.audit_position
    await queues.api.patch(f"{CHECKS}/{check}", {"metadata": {"labels": {"a": "b"}}})
    # It is told of changes in their order: when it has answered for a new one it knows of the label.
    await queues.condition(await queues.check("new"), "True", "Active")
    named = [each["objectRef"].get("name") for each in kueue_plane.writes_by(USER, since).objects]
    assert check not in named, named


async def test_a_restart_leaves_every_condition_alone(
    queues: Queues, kueue_plane: ControlPlane, checking: Gangctl
) -> None:
    good, bad = await queues.check("good"), await queues.check("bad", parameters="missing")
    await queues.condition(good, "True", "Active")
    await queues.condition(bad, "False", "BadParametersRef")
    await checking.process.kill()
    since = kueue_plane.audit_position
    await checking.process.start()
    # What it would have written it would have written before it answers for a new one.
    await queues.condition(await queues.check("new"), "True", "Active")
    named = {each["objectRef"].get("name") for each in kueue_plane.writes_by(USER, since).objects}
    assert named & {good, bad} == set()


async def test_only_the_own_check_state_is_written(
    queues: Queues, kueue_plane: ControlPlane, checking: Gangctl
) -> None:
    other = await queues.check("other", controller="example.com/other")
    active = {"type": "Active", "status": "True", "reason": "Active", "message": "", "lastTransitionTime": NOW}
    await queues.api.patch(f"{CHECKS}/{other}/status", {"status": {"conditions": [active]}})
    check = await ready_queue(queues, others=(other,))
    since = kueue_plane.audit_position
    await _plain(queues, "js")
    await queues.entry("js", check, "Ready")
    after = await queues.workload("js")
    assert not holds(after, "Admitted")
    assert state_of(after, other) == "Pending"
    await wrote(kueue_plane, queues.name, since, ["patch workloads"])
    (mine,) = [each for each in after["metadata"]["managedFields"] if each["manager"] == MANAGER]
    assert (mine["operation"], mine["subresource"]) == ("Apply", "status")
    keys = [key for key in mine["fieldsV1"]["f:status"]["f:admissionChecks"] if key != "."]
    assert keys == [f'k:{{"name":"{check}"}}']
    assert set(mine["fieldsV1"]["f:status"]) == {"f:admissionChecks"}
    assert set(mine["fieldsV1"]) == {"f:status"}
    await checking.process.stop()
    since = kueue_plane.audit_position
    await checking.process.start()
    # One that comes later has its entry: those before it have been looked at.
    await _plain(queues, "later")
    await queues.entry("later", check, "Ready")
    await wrote(kueue_plane, queues.name, since, ["patch workloads"])


async def _plain(queues: Queues, name: str) -> None:
    """A JobSet without a gang, in the queue."""
    raw = jobset(name, rj("w", 1, 2, 2))
    raw["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "main"}
    await queues.cluster.create_jobset(raw)


NOW = "2026-01-01T00:00:00Z"


async def test_workloads_of_other_kinds_are_ready_at_once(queues: Queues, kueue_plane: ControlPlane) -> None:
    check = await ready_queue(queues)
    since = kueue_plane.audit_position
    template = rj("w", 1, 1, 1)["template"]
    metadata = {"name": "plain", "labels": {"kueue.x-k8s.io/queue-name": "main"}}
    body = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {**template["spec"], "suspend": True},
    }
    await queues.api.create(queues.cluster.path("batch/v1", "jobs"), body)
    await queues.until("plain", "Admitted")
    assert "a Job" in (await queues.entry("plain", check, "Ready"))["message"]
    await wrote(kueue_plane, queues.name, since, ["patch workloads"])


@pytest.mark.full("the first tier has its life once, what is denied, a restart and what it may not do")
async def test_quota_is_released_and_retried_if_a_gang_cannot_be_made(queues: Queues) -> None:
    parameters = await queues.parameters("quick", timeoutSeconds=2, retryBaseSeconds=2, retryMaxSeconds=4)
    check = await ready_queue(queues, parameters)
    local = queues.cluster.path(KUEUE, "localqueues", "main")
    await queues.api.patch(local, {"spec": {"stopPolicy": "Hold"}})
    await known_to_kueue(queues.api, local)
    created = await queues.submit()
    name = object_name("js", created["metadata"]["uid"], "workload")
    await queues.api.create(queues.cluster.scheduling("workloads"), foreign_workload(queues.cluster, name, "somebody"))
    async with chronicle(queues) as seen:
        await queues.api.patch(local, {"spec": {"stopPolicy": "None"}})
        await queues.entry("js", check, "Retry")
        await queues.until("js", "QuotaReserved", status=False)
        await queues.api.delete(queues.cluster.scheduling("workloads", name))
        await wait_for(lambda: queues.started("js"), what="the JobSet to start")
    retried = [
        entry
        for version in seen.versions["js"]
        for entry in version.get("status", {}).get("admissionChecks", [])
        if entry["state"] == "Retry"
    ]
    assert all(2 <= entry["requeueAfterSeconds"] <= 4 for entry in retried)
    assert len(retried) > 0
    assert seen.admissions("js") == [*[0] * (len(seen.admissions("js")) - 1), 1]
    assert "AdmissionCheckRetry" in await queues.cluster.reasons("js")


async def test_a_jobset_that_a_policy_denies_is_rejected(queues: Queues) -> None:
    parameters = await queues.parameters("strict", onFailure="Reject")
    check = await ready_queue(queues, parameters)
    local = queues.cluster.path(KUEUE, "localqueues", "main")
    await queues.api.patch(local, {"spec": {"stopPolicy": "Hold"}})
    await known_to_kueue(queues.api, local)
    await queues.submit()
    name = f"later-{queues.name[-6:]}"
    here = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": queues.name}}}
    rules = [{"expression": "has(object.metadata.labels.team)", "message": "say whose it is"}]
    spec = {"matchConstraints": here, "validations": rules}
    body = {"apiVersion": "gangctl.dev/v1alpha1", "kind": "GangPolicy", "metadata": {"name": name}, "spec": spec}
    path = f"/apis/gangctl.dev/v1alpha1/gangpolicies/{name}"
    await queues.api.patch(path, body, kind="apply", fieldManager="test")

    async def in_force() -> bool:
        status = (await queues.api.get(path)).get("status", {})
        if [each["status"] for each in status.get("conditions", [])] != ["True"]:
            raise NotYet(str(status))
        return True

    try:
        await wait_for(in_force, what="the policy to be in force")
        async with chronicle(queues) as seen:
            await queues.api.patch(local, {"spec": {"stopPolicy": "None"}})
            await queues.until("js", "Evicted")
    finally:
        await queues.api.delete(path)
        await queues.until("js", "QuotaReserved", status=False)
    assert "Rejected" in seen.states("js", check)
    assert "say whose it is" in (await said(queues.cluster, "AdmissionCheckRejected"))["note"]
    assert seen.admissions("js") == [0]
    workload = await queues.workload("js")
    assert workload["spec"]["active"] is False
    # Kueue 0.19.2 never queues it again, whatever becomes of spec.active; but it makes another.
    await queues.api.delete(queues.cluster.path(KUEUE, "workloads", workload["metadata"]["name"]))
    await wait_for(lambda: queues.started("js"), what="the JobSet to start after all")


@pytest.mark.full("the first tier has its life once, what is denied, a restart and what it may not do")
async def test_a_kill_after_every_write_loses_no_check_state(
    queues: Queues, kueue_plane: ControlPlane, checking: Gangctl
) -> None:
    check = await ready_queue(queues)
    assassin = Assassin(checking, queues.cluster.namespace)
    names = (f"c{n}" for n in count())

    async def create(_: int) -> Condition:
        name = next(names)
        await queues.submit(name)

        async def whole() -> bool:
            events = await queues.cluster.reasons(name)
            if "AdmissionCheckReady" not in events:
                raise NotYet(f"events {events}")
            return await queues.started(name)

        return whole

    async with (
        chronicle(queues) as seen,
        Proxy(kueue_plane, USER, assassin) as proxy,
        checking.through(proxy.kubeconfig(kueue_plane.directory / "proxy-check.json")),
    ):
        # Apart, because they overlap: which of two is the n-th of all is chance.
        objects = await kill_after_each_write(checking, proxy, assassin, create, "scheduling.k8s.io")
        said_so = await kill_after_each_write(checking, proxy, assassin, create, "kueue.x-k8s.io")
        events = await kill_after_each_write(checking, proxy, assassin, create, "events.k8s.io")
    assert objects == ["POST workloads", "POST podgroups", "POST podgroups"]
    assert [each.partition(" ")[0] for each in said_so] == ["PATCH"]
    assert events
    for owner in seen.versions:
        assert seen.admissions(owner) == [1], owner
        assert seen.states(owner, check) == ["Pending", "Ready"], owner


@pytest.mark.full("the first tier has its life once, what is denied, a restart and what it may not do")
async def test_many_concurrent_jobsets_start(queues: Queues) -> None:
    await ready_queue(queues)
    names = [f"m{n}" for n in range(12)]
    async with chronicle(queues) as seen:
        await asyncio.gather(*(queues.submit(name, replicas=1) for name in names))
        for name in names:
            await wait_for(lambda name=name: queues.started(name), what=f"{name} to start")  # type: ignore[misc]  # bound on purpose
    assert {name: seen.admissions(name) for name in names} == {name: [1] for name in names}


@pytest.mark.full("the first tier has its life once, what is denied, a restart and what it may not do")
async def test_eviction_and_return_keep_the_gang(queues: Queues) -> None:
    check = await ready_queue(queues)
    await queues.submit()
    await wait_for(lambda: queues.started("js"), what="the JobSet to start")
    before = (await queues.cluster.gangs()).uids()
    workload = await queues.workload("js")
    path = queues.cluster.path(KUEUE, "workloads", workload["metadata"]["name"])
    async with chronicle(queues) as seen:
        await queues.api.patch(path, {"spec": {"active": False}})
        await queues.until("js", "QuotaReserved", status=False)
        assert (await queues.cluster.gangs()).uids() == before
        await queues.api.patch(path, {"spec": {"active": True}})
        await wait_for(lambda: queues.started("js"), what="the JobSet to start again")
    assert (await queues.cluster.gangs()).uids() == before
    assert seen.states("js", check)[-2:] == ["Pending", "Ready"]
    # The chronicle begins in the first reservation.
    assert seen.admissions("js") == [1, 1]


async def test_the_account_cannot_write_other_status_fields(
    queues: Queues, kueue_plane: ControlPlane, checking: Gangctl
) -> None:
    other = await queues.check("other", controller="example.com/other")
    active = {"type": "Active", "status": "True", "reason": "Active", "message": "", "lastTransitionTime": NOW}
    await queues.api.patch(f"{CHECKS}/{other}/status", {"status": {"conditions": [active]}})
    check = await ready_queue(queues, others=(other,))
    await queues.submit()
    await queues.entry("js", check, "Ready")
    workload = await queues.workload("js")
    path = queues.cluster.path(KUEUE, "workloads", f"{workload['metadata']['name']}/status")
    entries = workload["status"]["admissionChecks"]
    forged = [{**each, "state": "Ready"} for each in entries]
    conditions = [*workload["status"]["conditions"], {**active, "type": "Admitted"}]
    assert checking.user == USER
    impostor = kueue_plane.client(USER)
    try:
        for status, words in (
            ({"admissionChecks": forged}, "entry of another controller"),
            ({"admissionChecks": [each for each in entries if each["name"] == check]}, "neither add nor remove"),
            ({"conditions": conditions}, "nothing of a Workload's status but"),
            ({"admission": None}, "nothing of a Workload's status but"),
            ({"reclaimablePods": [{"name": "w", "count": 1}]}, "nothing of a Workload's status but"),
        ):
            failure = await refused(impostor.patch(path, {"status": status}))
            assert failure.status == 422, failure
            assert words in failure.message
        mine = [{**each, "message": "mine"} if each["name"] == check else each for each in entries]
        await impostor.patch(path, {"status": {"admissionChecks": mine}})
        failure = await refused(impostor.patch(path.removesuffix("/status"), {"spec": {"active": False}}))
        assert failure.status == 403
    finally:
        await impostor.close()


RIGHTS: dict[tuple[str, str], Check] = {
    ("admissionchecks", "get"): declares,
    ("admissionchecks/status", "patch"): declares,
    ("workloads/status", "patch"): says_ready,
    ("gangadmissionparameters", "list"): follows_parameters,
    ("gangadmissionparameters", "watch"): follows_parameters,
    ("jobsets", "get"): asks_policies,
}


def test_every_right_has_a_check() -> None:
    assert {(each.resource, each.verb) for each in granted("kueue-check")} == RIGHTS.keys()


@pytest.mark.full("rights of the same kinds are looked at in test_rights_live")
@pytest.mark.parametrize("right", granted("kueue-check"), ids=str)
async def test_each_right_is_needed(right: Right, queues: Queues, checking: Gangctl) -> None:
    act = RIGHTS[right.resource, right.verb](Context(queues, checking, right))
    await anext(act)
    async with missing(queues.api, USER, [right]):
        await anext(act)
    await anext(act, None)
    assert checking.process.running
