"""The group of a gang is set in its Jobs by the API server with gangctl's policy, or else by gangctl's webhook."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Final

import pytest

from gangctl.gang.generation import stamped_proof_job
from gangctl.runtime.certs import Rotation, create
from gangctl.runtime.server import WebhookServer
from gangctl.runtime.tls import ServerTls
from gangctl.webhooks.review import AdmissionResponse, decode_review, encode_review
from tests.cases import object_name
from tests.controlplane.api import ApiClient, ApiFailure, Object, path_of
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for
from tests.jobsets import REF, jobset, rj
from tests.live.cluster import Cluster, on, reference_of, refused
from tests.live.gangctl import (
    OWN_NAMESPACE,
    POLICY,
    Gangctl,
    create_namespaces,
    has_policies,
    install_policy,
    path_to,
    policy_noticed,
)
from tests.live.jobhooks import JOB_WEBHOOKS, REGISTRATION, calls, exists
from tests.live.observe import jobs_with_references, webhooks_noticed

pytestmark = pytest.mark.controlplane


@on("1.37")
async def test_a_skipped_namespace_is_left_alone(cluster: Cluster) -> None:
    await cluster.create_jobset(jobset("js", rj("w", 1, 1, 1, mode="Gang")))
    await jobs_with_references(cluster, 1)
    await cluster.api.patch(
        path_of("v1", "namespaces", name=cluster.namespace), {"metadata": {"labels": {"gangctl.dev/skip": "true"}}}
    )

    async def free() -> bool:
        if reference := reference_of((await cluster.jobs())["js-w-0"]):
            await cluster.api.delete(cluster.path("batch/v1", "jobs", "js-w-0"), propagation="Background")
            raise NotYet(str(reference))
        return True

    # The API server notices the label a moment later; JobSet makes the Job anew each time.
    await wait_for(free, what="a Job without a group", tolerate=(ApiFailure, KeyError))


NOWHERE: Final = {"matchResources": {"namespaceSelector": {"matchLabels": {"never": "there"}}}}
NEVER: Final = {"matchConditions": [{"name": "never", "expression": "false"}]}
Tamper = Callable[[ApiClient], Awaitable[object]]
TAMPERS: Final[dict[str, Tamper]] = {
    "policy deleted": lambda api: api.delete(path_to(POLICY[0])),
    "policy edited": lambda api: api.patch(path_to(POLICY[0]), {"spec": NEVER}),
    "binding deleted": lambda api: api.delete(path_to(POLICY[1])),
    "binding edited": lambda api: api.patch(path_to(POLICY[1]), {"spec": NOWHERE}),
}


async def test_no_gang_is_torn_where_the_policy_is_deleted_or_edited(bare: Cluster) -> None:
    async with Gangctl(bare.plane) as gangctl:
        await no_gang_is_torn(bare, gangctl)


@pytest.mark.minor("1.36")
async def test_no_gang_is_torn_where_the_policy_is_deleted_or_edited_on_1_36() -> None:
    async with ControlPlane.start("1.36", ("jobset",), scheduler=False) as plane, Gangctl(plane) as gangctl:
        await no_gang_is_torn(await place(plane), gangctl)


async def no_gang_is_torn(cluster: Cluster, gangctl: Gangctl) -> None:
    """As it is installed: gangctl maintains only the caBundle."""
    await cluster.asked()
    await gangctl.process.stop()
    gangctl.process.command += ["--webhook-registration", "ca-only"]
    await gangctl.start()
    for name, tamper in TAMPERS.items():
        slug, before = name.replace(" ", "-"), await calls(cluster)
        await is_ganged(cluster, f"{slug}-0")
        assert await calls(cluster) == before, "while the policy works gangctl is not called"
        # Some of these are created before the API server has noticed, and some after.
        _, *_ = await asyncio.gather(tamper(cluster.api), *(is_ganged(cluster, f"{slug}-{n}") for n in range(1, 6)))
        await policy_noticed(cluster.plane, there=False)
        before = await calls(cluster)
        await is_ganged(cluster, f"{slug}-6")
        assert await calls(cluster) == before + 1
        assert (await gangctl.fetch("/readyz"))[0] == 200
        # Applied over an edit, it would keep what the edit added.
        for path in map(path_to, POLICY):
            if await exists(cluster, path):
                await cluster.api.delete(path)
        await install_policy(cluster.plane)
    await TAMPERS["policy deleted"](cluster.api)
    await policy_noticed(cluster.plane, there=False)
    await without_policy_and_gangctl_no_job_is_created(cluster, gangctl)
    await cluster.api.delete(JOB_WEBHOOKS)
    assert "gangctl-jobs is missing" in await unready(gangctl)


async def without_policy_and_gangctl_no_job_is_created(cluster: Cluster, gangctl: Gangctl) -> None:
    """The gang waits as a whole; it has its groups again when gangctl is back."""
    name = "policy-deleted-6"
    expected = (await references_of(cluster, name))[f"{name}-w-0"]
    await gangctl.process.stop()
    position = cluster.plane.audit_position
    await cluster.api.delete(cluster.path("batch/v1", "jobs", f"{name}-w-0"), propagation="Background")

    async def job_refused() -> bool:
        for entry in cluster.plane.audit(position):
            about = entry["objectRef"]["resource"], entry["verb"], entry["responseStatus"].get("code")
            if about == ("jobs", "create", 500):
                return True
        raise NotYet("no Job was refused")

    await wait_for(job_refused, what="the API server to refuse the Job")
    assert f"{name}-w-0" not in await cluster.jobs()
    await gangctl.start()

    async def again() -> object:
        return (await references_of(cluster, name))[f"{name}-w-0"]

    assert await wait_for(again, what="the Job", tolerate=(KeyError,)) == expected


async def unready(gangctl: Gangctl) -> str:
    """What /readyz says, once it does not say that all is well."""

    async def says() -> str:
        status, text = await gangctl.fetch("/readyz?verbose")
        if status == 200:
            raise NotYet(text)
        return text

    return await wait_for(says, what="gangctl to be unready")


REPAIRED: Final[dict[str, Tamper]] = {
    **TAMPERS,
    "webhook deleted": lambda api: api.delete(JOB_WEBHOOKS),
    "webhook edited": lambda api: api.patch(JOB_WEBHOOKS, {"webhooks": []}),
}


async def test_what_names_the_groups_is_repaired_and_no_gang_is_torn_meanwhile(bare: Cluster) -> None:
    async with Gangctl(bare.plane):
        await bare.asked()
        for name, tamper in REPAIRED.items():
            await is_repaired(bare, name.replace(" ", "-"), tamper)


async def is_repaired(cluster: Cluster, name: str, tamper: Tamper) -> None:
    """What was deleted or edited; JobSets are named after it."""
    api = cluster.api
    _, *_ = await asyncio.gather(tamper(api), *(is_ganged(cluster, f"{name}-{n}") for n in range(5)))
    # The policy is looked at when a configuration that gangctl watches changes, otherwise every 30 s.
    touched = path_of(REGISTRATION, "mutatingwebhookconfigurations", name="gangctl-gangs")
    await api.patch(touched, {"metadata": {"labels": {"touched": name}}})

    async def repaired() -> bool:
        policy, binding = [await api.get(path_to(each)) for each in POLICY]
        (webhook,) = (await api.get(JOB_WEBHOOKS))["webhooks"]
        if NEVER.items() <= policy["spec"].items() or "never" in str(binding["spec"]):
            raise NotYet(f"{name}: {policy}")
        return bool(webhook["clientConfig"]["caBundle"])

    # An API server leaves empty lists out.
    await wait_for(repaired, what=f"{name} to be repaired", tolerate=(ApiFailure, KeyError, ValueError))
    await webhooks_noticed(cluster.plane)
    await policy_noticed(cluster.plane)
    await is_ganged(cluster, f"{name}-after")


async def test_a_group_that_a_later_webhook_removes_is_set_again(bare: Cluster) -> None:
    """One that was built for an older API, and answers with all the fields that it knows."""
    async with Gangctl(bare.plane):
        await bare.asked()
        await is_set_again(bare)


async def is_set_again(cluster: Cluster) -> None:
    """A group that a webhook behind those of gangctl has removed."""
    async with a_webhook_that_removes_groups(cluster.plane) as removed:
        await is_ganged(cluster, "later")
        # JobSet may create a Job again before it has seen the first one: admission comes before the name is compared.
        assert {*removed} == {"later-w-0"}


@asynccontextmanager
async def a_webhook_that_removes_groups(plane: ControlPlane) -> AsyncIterator[list[str]]:
    """Called after gangctl's, by its name; gives the names of the Jobs whose group it has removed."""
    removed: list[str] = []

    async def remove(body: bytes) -> bytes:
        request = decode_review(body)
        removed.append(request.name)
        path = "/spec/template/spec/schedulingGroup"
        return encode_review(request, AdmissionResponse.allow([{"op": "remove", "path": path}]))

    made = create(datetime.now(UTC), Rotation(), ["127.0.0.1"])
    async with WebhookServer({"/remove": remove}, ("127.0.0.1", 0), ServerTls(made.pair).context) as server:
        webhook: Object = {
            "name": "groups.example.com",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {
                "url": "https://{}:{}/remove".format(*server.address),
                "caBundle": base64.b64encode(made.trusted).decode(),
            },
            "matchConditions": [
                {"name": "has-a-group", "expression": "has(object.spec.template.spec.schedulingGroup)"}
            ],
            "rules": [{"operations": ["CREATE"], "apiGroups": ["batch"], "apiVersions": ["v1"], "resources": ["jobs"]}],
            "sideEffects": "None",
            "timeoutSeconds": 30,
        }
        kind = "MutatingWebhookConfiguration"
        body: Object = {"apiVersion": REGISTRATION, "kind": kind, "metadata": {"name": "zz"}, "webhooks": [webhook]}
        await plane.api.create(path_of(REGISTRATION, "mutatingwebhookconfigurations"), body)
        await webhooks_noticed(plane)
        yield removed


@on("1.37", "1.35")
async def test_gangctl_creates_jobs_as_dry_runs_only(cluster: Cluster, running: Gangctl) -> None:
    api = cluster.plane.client(running.user)
    jobs = path_of("batch/v1", "jobs", namespace=OWN_NAMESPACE)
    job = stamped_proof_job(OWN_NAMESPACE)
    try:
        await api.create(jobs, job, dryRun="All")
        failure = await refused(api.create(jobs, job))
    finally:
        await api.close()
    assert "gangctl may create Jobs as dry runs only" in failure.message


async def test_an_end_that_unregisters_keeps_what_names_groups(bare: Cluster) -> None:
    """A gang that exists goes on, and a new JobSet is one without a gang."""
    async with Gangctl(bare.plane, "--unregister-on-exit") as gangctl:
        await bare.asked()
        await is_ganged(bare)
        before = await references_of(bare, "js")
        await gangctl.end()
        assert await exists(bare, JOB_WEBHOOKS)
        assert [await exists(bare, path_to(each)) for each in POLICY] == [True, True]
        await webhooks_noticed(bare.plane)
        created = await bare.create_jobset(jobset("new", rj("w", 1, 1, 1, mode="Gang")))
        assert REF not in str(created)
        old = (await bare.jobs())["js-w-0"]["metadata"]["uid"]
        await bare.api.delete(bare.path("batch/v1", "jobs", "js-w-0"), propagation="Background")

        async def again() -> bool:
            jobs = await bare.jobs()
            return "new-w-0" in jobs and jobs["js-w-0"]["metadata"]["uid"] != old

        await wait_for(again, what="the Jobs", tolerate=(KeyError,))
        assert await references_of(bare, "js") == before
        assert reference_of((await bare.jobs())["new-w-0"]) is None


async def test_without_policies_a_webhook_names_the_groups() -> None:
    """1.35 has none; here a newer cluster has them switched off. It names them again behind a later webhook, too."""
    plane = ControlPlane.start("1.37", ("jobset",), gates={"MutatingAdmissionPolicy": False}, scheduler=False)
    async with plane as started, Gangctl(started) as gangctl:
        assert not has_policies(started)
        cluster = await place(started)
        await cluster.asked()
        await is_ganged(cluster)
        assert await calls(cluster) == 1
        assert await gangctl.metric("gangctl_admission_duration_seconds_count", {"path": "/mutate/jobs"}) == 1
        await is_set_again(cluster)


async def place(plane: ControlPlane) -> Cluster:
    await create_namespaces(plane, ["t"])
    return Cluster(plane, "t")


async def is_ganged(cluster: Cluster, name: str = "js") -> None:
    """Create a JobSet with a gang, and wait until its Job names its group."""
    uid = (await cluster.create_jobset(jobset(name, rj("w", 1, 1, 1, mode="Gang"))))["metadata"]["uid"]

    async def made() -> dict[str, object]:
        if not (found := await references_of(cluster, name)):
            raise NotYet("no Job")
        return found

    references = await wait_for(made, what=f"the Job of {name}")
    assert references == {f"{name}-w-0": {"podGroupName": object_name(name, uid, "rj/w")}}


async def references_of(cluster: Cluster, name: str) -> dict[str, object]:
    """The groups that the Jobs of a JobSet name."""
    jobs = (await cluster.jobs()).values()
    mine = [job for job in jobs if job["metadata"]["labels"]["jobset.sigs.k8s.io/jobset-name"] == name]
    return {job["metadata"]["name"]: reference_of(job) for job in mine}
