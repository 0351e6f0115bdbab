"""gangctl is down: gangs are refused at once (or admitted without, if chosen), and other JobSets are not affected."""

from __future__ import annotations

import re
from typing import Final

import pytest

from tests.controlplane.api import ApiFailure, Object, path_of
from tests.controlplane.wait import NotYet, wait_for
from tests.jobsets import REF, jobset, rj
from tests.live.cluster import Cluster, reference_of, refused
from tests.live.gangctl import OWN_NAMESPACE, Gangctl
from tests.live.observe import gang_of, jobs_with_references, said

pytestmark = pytest.mark.controlplane

TIMEOUT_SECONDS: Final = 3
"""How long API servers wait for gangctl: after ten seconds they would give a TLS handshake up, in other words."""
GANGED = jobset("js", rj("w", 1, 1, 1, mode="Gang"))
PLAIN = jobset("plain", rj("w", 1, 1, 1))
REJECTIONS: Final = re.compile(
    r'^apiserver_admission_webhook_rejection_count\{.*name="[^"]*gangctl\.dev".*\} (\S+)$', re.MULTILINE
)


async def refused_for(cluster: Cluster, words: str) -> ApiFailure:
    """Wait for a refusal of a gang with these words: on a machine that stands still any of them may be too late."""

    async def so() -> ApiFailure:
        failure = await refused(cluster.create_jobset(GANGED))
        assert failure.status == 500
        assert 'failed calling webhook "jobsets.gangs.gangctl.dev"' in failure.message
        if words not in failure.message:
            raise NotYet(failure.message)
        return failure

    return await wait_for(so, what=f"a refusal with {words}")


async def rejections(cluster: Cluster) -> float:
    """How often the API server refused anything because of a webhook of gangctl."""
    return sum(float(value) for value in REJECTIONS.findall(await cluster.api.text("/metrics")))


async def nobody_else_notices(cluster: Cluster) -> None:
    """JobSets without a gang, and the namespaces that gangctl and the control plane live in, do not need gangctl.

    Whatever is asked of it is refused now: what passes was not.
    """
    await cluster.create_jobset(jobset("another", rj("w", 1, 1, 1)), dry_run=True)
    for namespace in ("kube-system", OWN_NAMESPACE):
        created = await Cluster(cluster.plane, namespace).create_jobset(GANGED, dry_run=True)
        assert REF not in str(created)
        for api_version, kind in (("v1", "Secret"), ("coordination.k8s.io/v1", "Lease"), ("batch/v1", "Job")):
            body: Object = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "own"}}
            if kind == "Job":
                body["spec"] = PLAIN["spec"]["replicatedJobs"][0]["template"]["spec"]
            path = path_of(api_version, f"{kind.lower()}s", namespace=namespace)
            await cluster.api.create(path, body, dryRun="All")


async def test_only_gangs_are_refused_while_gangctl_is_down(bare: Cluster) -> None:
    async with Gangctl(bare.plane, "--webhook-timeout", str(TIMEOUT_SECONDS)) as gangctl:
        await bare.asked()
        await gangctl.process.stop()
        # At once, without a wait for the timeout.
        await refused_for(bare, "connection refused")
        await nobody_else_notices(bare)
        await bare.create_jobset(PLAIN)

        async def jobs() -> Object:
            return (await bare.jobs())["plain-w-0"]

        await wait_for(jobs, what="the plain JobSet's Job", tolerate=(KeyError,))

        await gangctl.process.start()
        gangctl.process.pause()
        before = await rejections(bare)
        failure = await refused(bare.create_jobset(GANGED))
        assert f"timeout={TIMEOUT_SECONDS}s" in failure.message
        assert "context deadline exceeded" in failure.message
        # Once, and not a second time, for the other webhook or because it is tried again.
        assert await rejections(bare) == before + 1
        await nobody_else_notices(bare)
        await break_the_glass(bare)


async def break_the_glass(cluster: Cluster) -> None:
    """The label that lets everything of a namespace pass while gangctl hangs."""
    namespace = path_of("v1", "namespaces", name=cluster.namespace)
    await cluster.api.patch(namespace, {"metadata": {"labels": {"gangctl.dev/skip": "true"}}})

    # The API server notices the label a moment later, and until then each try takes the whole timeout.
    skipped = await wait_for(
        lambda: cluster.create_jobset(GANGED), "the namespace to be skipped", tolerate=(ApiFailure,)
    )
    assert REF not in str(skipped)


async def test_with_ignore_unlinked_jobs_are_reported_later_and_gangs_stay_complete(bare: Cluster) -> None:
    gang = jobset("gang", rj("w", 1, 1, 1, mode="Gang"))
    async with Gangctl(bare.plane, "--webhook-failure-policy", "Ignore") as gangctl:
        await bare.asked()
        await bare.create_jobset(gang)
        before = await gang_of(bare, "gang")
        await gangctl.process.stop()
        created = await bare.create_jobset(GANGED)
        assert REF not in str(created)

        async def runs() -> Object:
            return (await bare.jobs())["js-w-0"]

        assert reference_of(await wait_for(runs, what="its Job", tolerate=(KeyError,))) is None
        # A Job that comes again in a gang that exists does not come without its group.
        gone = (await bare.jobs())["gang-w-0"]["metadata"]["uid"]
        await bare.api.delete(bare.path("batch/v1", "jobs", "gang-w-0"), propagation="Background")

        async def again() -> Object:
            job = (await bare.jobs())["gang-w-0"]
            if job["metadata"]["uid"] == gone:
                raise NotYet("it is not gone")
            return job

        made = await wait_for(again, what="the Job to be made anew", tolerate=(KeyError,))
        assert reference_of(made) == before.references["gang-w-0"]
        await gangctl.process.start()
        event = await said(bare, "NotGanged", "js")
        assert event["type"] == "Warning"
        assert "webhook was not asked" in event["note"]
        await bare.api.delete(bare.path("jobset.x-k8s.io/v1alpha2", "jobsets", "js"))

        async def without_js() -> bool:
            if "js-w-0" in (jobs := await bare.jobs()):
                raise NotYet(str(set(jobs)))
            return True

        await wait_for(without_js, what="the other Job to be gone")
        assert await jobs_with_references(bare, 1) == before.references
        assert (await bare.gangs()).uids() == before.uids()
