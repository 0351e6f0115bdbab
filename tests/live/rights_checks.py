"""What each right is for: a check for every one, that fails to happen without it, and happens once it is granted again.

A check is a generator in three parts. What it prepares, with all rights; the first ``yield``. Then the right is
taken away: what it does and sees without it; the second ``yield``. Then the right is there again, and gangctl has
to come to itself without being started anew.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Final

from gangctl.gang.naming import base_name, group_name
from gangctl.webhooks.configurations import JOBS_NAME
from tests.cases import object_name
from tests.controlplane.api import Object, path_of
from tests.controlplane.wait import HUNG_SECONDS, wait_for
from tests.jobsets import jobset, rj
from tests.live.cluster import Cluster, refused
from tests.live.gangctl import OWN_NAMESPACE, POLICY, path_to
from tests.live.observe import foreign_workload, gang_of, min_counts, no_gang, resize, said
from tests.live.rights import Right, missing
from tests.live.rights_stage import COMPOSITES, Stage, collection

SECRET: Final = path_of("v1", "secrets", namespace=OWN_NAMESPACE, name="gangctl-webhook-certs")
LEASE: Final = path_of("coordination.k8s.io/v1", "leases", namespace=OWN_NAMESPACE, name="gangctl")
CONFIGURATIONS: Final = tuple(
    path_of("admissionregistration.k8s.io/v1", f"{kind}webhookconfigurations", name=name)
    for kind, name in (("mutating", JOBS_NAME), ("mutating", "gangctl-gangs"), ("validating", "gangctl-gangs"))
)
UNREGISTERED: Final = CONFIGURATIONS[1:]
"""What goes with --unregister-on-exit."""

Check = Callable[[Stage, tuple[Right, ...]], AsyncGenerator[None, None]]


async def starts_unready(stage: Stage, rights: tuple[Right, ...]) -> AsyncGenerator[None, None]:
    """Without it gangctl does not become ready."""
    # Time enough: killed it would leave behind what it has to create.
    await stage.gangctl.process.stop(grace=HUNG_SECONDS)
    async for part in _unready(stage, rights[0]):
        yield part


async def creates_its_secret(stage: Stage, rights: tuple[Right, ...]) -> AsyncGenerator[None, None]:
    await stage.gangctl.process.stop()
    await stage.api.delete(SECRET)
    async for part in _unready(stage, rights[0]):
        yield part


async def repairs_its_secret(stage: Stage, rights: tuple[Right, ...]) -> AsyncGenerator[None, None]:
    await stage.gangctl.process.stop()
    await stage.api.patch(SECRET, {"data": {"tls.crt": None}})
    async for part in _unready(stage, rights[0]):
        yield part


async def sets_the_authorities(stage: Stage, rights: tuple[Right, ...]) -> AsyncGenerator[None, None]:
    await stage.gangctl.process.stop()
    for path in CONFIGURATIONS:
        await forget_authorities(stage, path)
    async for part in _unready(stage, rights[0]):
        yield part


async def creates_the_policy(stage: Stage, rights: tuple[Right, ...]) -> AsyncGenerator[None, None]:
    """It stays where gangctl unregisters itself."""
    await stage.gangctl.process.stop(grace=HUNG_SECONDS)
    for each in POLICY:
        await stage.api.delete(path_to(each))
    async for part in _unready(stage, rights[0]):
        yield part


async def repairs_the_policy(stage: Stage, rights: tuple[Right, ...]) -> AsyncGenerator[None, None]:
    """What another version left behind."""
    await stage.gangctl.process.stop(grace=HUNG_SECONDS)
    for each in POLICY:
        await stage.api.delete(path_to(each))
        await stage.api.create(path_to(each).rpartition("/")[0], each)
    async for part in _unready(stage, rights[0]):
        yield part


async def _unready(stage: Stage, right: Right) -> AsyncGenerator[None, None]:
    yield
    await stage.launch()
    await stage.reported(right)
    await stage.unready()
    yield
    await stage.ready()


async def forget_authorities(stage: Stage, path: str) -> None:
    hooks = (await stage.api.get(path))["webhooks"]
    for hook in hooks:
        hook["clientConfig"].pop("caBundle", None)
    await stage.api.patch(path, {"webhooks": hooks})


async def authorities(stage: Stage, path: str) -> list[str]:
    return [hook["clientConfig"].get("caBundle", "") for hook in (await stage.api.get(path))["webhooks"]]


async def watches_its_configurations(stage: Stage, rights: tuple[Right, ...]) -> AsyncGenerator[None, None]:
    """Changes by others are reverted at once, not at the next check half a minute later."""
    await stage.gangctl.process.stop()
    yield
    await stage.start()
    # Who may not list has seen nothing, and sees nothing later.
    for right in rights:
        await stage.reported(right)
    if rights[0].verb == "watch":
        await stage.blind(*rights)
    for path in CONFIGURATIONS:
        await forget_authorities(stage, path)
    await stage.refused_again(*rights)
    repaired_now = [path for path in CONFIGURATIONS if any(await authorities(stage, path))]
    await stage.unseen(bool(repaired_now), *rights)
    yield

    async def repaired() -> bool:
        bundles = [bundle for path in CONFIGURATIONS for bundle in await authorities(stage, path)]
        return all(bundles)

    await wait_for(repaired, what="the authorities to be set again")


async def proves_the_reference(stage: Stage, rights: tuple[Right, ...]) -> AsyncGenerator[None, None]:
    """Without a proof no gang is promised."""
    await stage.gangctl.process.stop()
    yield
    await stage.start()
    failure = await refused(stage.cluster.create_jobset(jobset("js", rj("w", 1, 1, 1, mode="Gang"))))
    assert failure.status == 422
    assert rights[0].words in failure.message
    yield
    await stage.jobset()
    await gang_of(stage.cluster, "js")


async def leads(stage: Stage, _: tuple[Right, ...]) -> AsyncGenerator[None, None]:
    """Without the Lease JobSets are admitted, and their gangs are not created."""
    await stage.gangctl.process.stop()
    async for part in _leads(stage):
        yield part


async def leads_first(stage: Stage, _: tuple[Right, ...]) -> AsyncGenerator[None, None]:
    await stage.gangctl.process.stop()
    await stage.api.delete(LEASE)
    async for part in _leads(stage):
        yield part


async def _leads(stage: Stage) -> AsyncGenerator[None, None]:
    yield
    await stage.start()
    await stage.jobset()
    assert await stage.gangctl.metric("gangctl_leader_election_master_status") == 0
    assert await stage.has("workloads") == 0
    yield
    await gang_of(stage.cluster, "js")


async def watches_jobsets(stage: Stage, rights: tuple[Right, ...]) -> AsyncGenerator[None, None]:
    await stage.gangctl.process.stop()
    yield
    await stage.start()
    await stage.blind(*rights)
    await stage.jobset()
    await stage.unseen(await stage.has("workloads") > 0, *rights)
    yield
    await gang_of(stage.cluster, "js")


async def watches_jobs(stage: Stage, rights: tuple[Right, ...]) -> AsyncGenerator[None, None]:
    """Without it gangctl does not see that a suspended JobSet's pods are gone, and its gang stays."""
    await stage.jobset()
    await gang_of(stage.cluster, "js")

    async def active() -> bool:
        status: Object = (await stage.cluster.jobs())["js-w-0"].get("status", {})
        return status.get("active") == 2

    await wait_for(active, what="the Job to have pods")
    await stage.gangctl.process.stop()
    yield
    await stage.start()
    await stage.blind(*rights)
    await stage.suspend(suspend=True)

    async def without_pods() -> bool:
        return not (await stage.cluster.jobs())["js-w-0"].get("status", {}).get("active")

    await wait_for(without_pods, what="the pods to be gone")
    await stage.unseen(await stage.has("workloads") == 0, *rights)
    yield
    await no_gang(stage.cluster)


async def watches_gangs(stage: Stage, rights: tuple[Right, ...]) -> AsyncGenerator[None, None]:
    """Without it changes by others are not reverted."""
    uid = await stage.jobset()
    await gang_of(stage.cluster, "js")
    await stage.gangctl.process.stop()
    yield
    await stage.start()
    await stage.blind(*rights)
    workload, group = object_name("js", uid, "workload"), object_name("js", uid, "rj/w")
    count = "schedulingPolicy/gang/minCount"
    for plural, name, field in (("workloads", workload, "podGroupTemplates/0/"), ("podgroups", group, "")):
        change: Object = {"op": "replace", "path": f"/spec/{field}{count}", "value": 7}
        await stage.api.patch(stage.cluster.scheduling(plural, name), [change], kind="json")
    await stage.refused_again(*rights)
    gangs = await stage.cluster.gangs()
    counts = (gangs.min_counts(workload)["w"], gangs.group_min_count(group))
    await stage.unseen(counts != (7, 7), *rights)
    yield
    await min_counts(stage.cluster, workload, group, 2)


async def watches_composites(stage: Stage, rights: tuple[Right, ...]) -> AsyncGenerator[None, None]:
    """Without it one that was deleted is not created again."""
    await stage.jobset(of=rights)
    await stage.composites(1)
    await stage.gangctl.process.stop()
    yield
    await stage.start()
    await stage.blind(*rights)
    for each in await stage.api.list(collection(stage.cluster, COMPOSITES)):
        await stage.api.delete(collection(stage.cluster, COMPOSITES, each["metadata"]["name"]))
    await stage.refused_again(*rights)
    await stage.unseen(await stage.has(COMPOSITES) > 0, *rights)
    yield
    await stage.composites(1)


async def looks_at_who_holds_its_name(stage: Stage, rights: tuple[Right, ...]) -> AsyncGenerator[None, None]:
    """An object that no watch has delivered is found by a refused create. Here watching is forbidden as well."""
    names = {}
    for plural, scope in (("workloads", "workload"), ("podgroups", "rj/w")):
        names[plural] = object_name(plural, await stage.jobset(plural, suspend=True), scope)
    uid = await stage.jobset(COMPOSITES, suspend=True, of=rights)
    names[COMPOSITES] = group_name(base_name(COMPOSITES), uid, 0)
    await stage.gangctl.process.stop()
    blind = tuple(Right(r.kind, r.role, r.group, r.resource, "watch") for r in rights)
    async with missing(stage.api, stage.gangctl.user, blind, stage.suffix):
        yield
        await stage.start()
        await stage.blind(*blind)
        for plural, body in (
            ("workloads", foreign_workload(stage.cluster, names["workloads"], "somebody-else")),
            ("podgroups", _foreign_group(stage.cluster, names["podgroups"])),
            (COMPOSITES, _foreign_composite(names[COMPOSITES])),
        ):
            await stage.api.create(collection(stage.cluster, plural), body)
            await stage.suspend(suspend=False, name=plural)
        for right, watch in zip(rights, blind, strict=True):
            if not await _asked(stage, right, watch):
                await stage.reported(right)
                seen = "NameConflict" in await stage.cluster.reasons(right.resource)
                await stage.unseen(seen, watch)
        yield
        for right in rights:
            await said(stage.cluster, "NameConflict", right.resource)


async def _asked(stage: Stage, right: Right, watch: Right) -> bool:
    """Wait until it is refused for want of a right; or has a list tell it before it had to ask, which is returned."""

    async def either() -> str:
        if stage.refused(right):
            return "refused"
        return "listed" if stage.read(watch) else ""

    return await wait_for(either, f"gangctl to ask for {right}") == "listed"


def _foreign_group(cluster: Cluster, name: str) -> Object:
    spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    version = f"scheduling.k8s.io/{cluster.version}"
    return {"apiVersion": version, "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}


def _foreign_composite(name: str) -> Object:
    reference = {"workloadName": "another-owner", "templateName": "all"}
    spec = {"workloadRef": reference, "schedulingPolicy": {"gang": {"minGroupCount": 2}}}
    api_version = "scheduling.k8s.io/v1alpha3"
    return {"apiVersion": api_version, "kind": "CompositePodGroup", "metadata": {"name": name}, "spec": spec}


async def creates(stage: Stage, rights: tuple[Right, ...]) -> AsyncGenerator[None, None]:
    yield
    await stage.jobset(of=rights)
    await stage.reported(rights[0])
    assert await stage.has(rights[0].resource) == 0
    event = await said(stage.cluster, "FailedCreate")
    assert rights[0].words in event["note"]
    yield
    await gang_of(stage.cluster, "js")
    await stage.composites(rights[0].resource == COMPOSITES)


async def resizes(stage: Stage, rights: tuple[Right, ...]) -> AsyncGenerator[None, None]:
    uid = await stage.jobset()
    workload, group = object_name("js", uid, "workload"), object_name("js", uid, "rj/w")
    await gang_of(stage.cluster, "js")
    await min_counts(stage.cluster, workload, group, 2)
    yield
    await resize(stage.cluster, await stage.cluster.jobset("js"), 0, 3)
    await stage.reported(rights[0])
    gangs = await stage.cluster.gangs()
    assert 2 in {gangs.min_counts(workload)["w"], gangs.group_min_count(group)}
    yield
    await min_counts(stage.cluster, workload, group, 3)


async def retires(stage: Stage, rights: tuple[Right, ...]) -> AsyncGenerator[None, None]:
    await stage.jobset(of=rights)
    await gang_of(stage.cluster, "js")
    await stage.composites(rights[0].resource == COMPOSITES)
    yield
    await stage.suspend(suspend=True)
    await stage.reported(rights[0])
    assert (await stage.cluster.gangs()).names
    yield
    await no_gang(stage.cluster)
    await stage.composites(0)


async def tells(stage: Stage, rights: tuple[Right, ...]) -> AsyncGenerator[None, None]:
    yield
    await stage.jobset()
    await gang_of(stage.cluster, "js")
    await stage.reported(rights[0])
    assert await stage.cluster.reasons("js") == []
    yield
    await stage.jobset("again")
    await said(stage.cluster, "WorkloadCreated", "again")


async def unregisters(stage: Stage, rights: tuple[Right, ...]) -> AsyncGenerator[None, None]:
    yield
    # Time enough: killed it would leave everything behind.
    await stage.gangctl.process.stop(grace=HUNG_SECONDS)
    await stage.reported(rights[0])
    for path in UNREGISTERED:
        if path.endswith(f"/{rights[0].resource}/{rights[0].name}"):
            await stage.api.get(path)
    yield
    await stage.gangctl.process.start()
    await stage.gangctl.process.stop(grace=HUNG_SECONDS)
    for path in UNREGISTERED:
        assert (await refused(stage.api.get(path))).status == 404


async def finds_its_namespace(stage: Stage, rights: tuple[Right, ...]) -> AsyncGenerator[None, None]:
    await stage.gangctl.process.stop()
    async for part in _unready(stage, rights[0]):
        yield part
    assert f'"own_namespace": "{OWN_NAMESPACE}"' in stage.gangctl.log
