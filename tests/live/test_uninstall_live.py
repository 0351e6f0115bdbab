"""gangctl is uninstalled while it runs: no JobSet is blocked afterwards, and running ones continue."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.run import fine
from tests.controlplane.api import ApiFailure, Object, path_of
from tests.controlplane.wait import NotYet, wait_for
from tests.jobsets import REF, jobset, rj
from tests.live.cluster import Cluster, reference_of
from tests.live.gangctl import policy_noticed
from tests.live.incluster import InCluster
from tests.live.installed import REGISTRATIONS, is_gone, registered
from tests.live.observe import gang_of, webhooks_noticed
from tests.live.policed import GROUP
from tests.manifests.kubectl import Kubectl

pytestmark = pytest.mark.controlplane

REFUSALS = 3
GANG = jobset("gang", rj("w", 1, 2, 2, mode="Gang"))


def policy_of(cluster: Cluster) -> str:
    """Where the test's own policy is."""
    return path_of(GROUP, "gangpolicies", name=f"any-{cluster.namespace[-6:]}")


async def test_an_uninstalled_gangctl_blocks_no_jobset_and_running_ones_continue(bare: Cluster, tmp_path: Path) -> None:
    cluster = bare
    kubectl = Kubectl(tmp_path, cluster.plane.kubeconfig)
    gangctl = InCluster(cluster.plane, fine("install", "--image", "gangctl:0.1.0").documents, "--shutdown-delay=0")
    await gangctl.install()
    await a_policy(cluster)
    await gangctl.process.start()
    try:
        await cluster.asked()
        await cluster.create_jobset(GANG)
        gang = await gang_of(cluster, "gang")
        jobs = await everything(cluster, 1)

        async def asked() -> bool:
            if not (found := await registered(cluster))[f"{REGISTRATIONS[1]}/gangctl-policies"]:
                raise NotYet(str(found))
            return True

        await wait_for(asked, what="policies to be asked for")
        position = cluster.plane.audit_position
        removal = fine("install", "--uninstall").out
        await kubectl.run("delete", "--ignore-not-found", "-f", "-", given=removal)
        # It runs yet, as pods do while they end, and makes nothing of it again, although it has seen that it is gone.
        await turned_away(cluster, cluster.plane.audit_position)
        left = await kubectl.run("get", "--ignore-not-found", "-o", "name", "-f", "-", given=removal)
        assert (left.text, await registered(cluster)) == ("", {})
    finally:
        await gangctl.close()
    first = [entry["objectRef"]["resource"] for entry in cluster.plane.audit(position) if is_removal(entry)][:5]
    assert sorted(first) == sorted((*REGISTRATIONS * 2, "mutatingwebhookconfigurations"))
    assert await registered(cluster) == {}
    assert await everything(cluster, 1) == jobs
    assert (await cluster.gangs()).uids() == gang.uids()
    assert not await is_gone(cluster, policy_of(cluster)), "definitions and their objects stay"
    await nobody_is_blocked(cluster, jobs)


async def turned_away(cluster: Cluster, since: int) -> None:
    """Wait until gangctl has tried this and that without a right to anything."""

    async def so() -> bool:
        # With its ServiceAccount it has lost its name.
        own = [entry for entry in cluster.plane.audit(since) if entry.get("userAgent", "").startswith("gangctl/")]
        refusals = [entry for entry in own if entry.get("responseStatus", {}).get("code") in {401, 403}]
        if len(refusals) < REFUSALS:
            raise NotYet(f"{len(refusals)} requests of {len(own)} were refused")
        return True

    await wait_for(so, what="gangctl to be turned away")


def is_removal(entry: Object) -> bool:
    return bool(entry["verb"] == "delete" and entry["userAgent"].startswith("kubectl"))


async def a_policy(cluster: Cluster) -> None:
    """One that lets everything pass, and for which JobSets of this namespace are refused while nobody answers."""
    collection, _, name = policy_of(cluster).rpartition("/")
    here = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": cluster.namespace}}}
    spec: Object = {"validations": [{"expression": "true", "message": "never"}], "matchConstraints": here}
    body = {"apiVersion": GROUP, "kind": "GangPolicy", "metadata": {"name": name}, "spec": spec}

    await wait_for(lambda: cluster.api.create(collection, body), "GangPolicies to be served", tolerate=(ApiFailure,))


async def everything(cluster: Cluster, count: int) -> dict[str, str]:
    """UIDs of Jobs and their pods, once there are so many Jobs and two pods of each."""

    async def all_there() -> dict[str, str]:
        jobs, pods = list((await cluster.jobs()).values()), await cluster.pods()
        if (len(jobs), len(pods)) != (count, 2 * count):
            raise NotYet(f"{len(jobs)} Jobs, {len(pods)} pods")
        return {each["metadata"]["name"]: each["metadata"]["uid"] for each in [*jobs, *pods]}

    return await wait_for(all_there, what=f"{count} Jobs and their pods")


async def nobody_is_blocked(cluster: Cluster, before: dict[str, str]) -> None:
    """A new JobSet is one without a gang; a Job that goes comes again."""
    await webhooks_noticed(cluster.plane)
    await policy_noticed(cluster.plane, there=False)
    created = await cluster.create_jobset({**GANG, "metadata": {**GANG["metadata"], "name": "later"}})
    assert REF not in str(created)
    await cluster.api.delete(cluster.path("batch/v1", "jobs", "gang-w-0"), propagation="Background")

    async def again() -> dict[str, Object]:
        jobs = await cluster.jobs()
        if {"gang-w-0", "later-w-0"} - jobs.keys() or jobs["gang-w-0"]["metadata"]["uid"] == before["gang-w-0"]:
            raise NotYet(str(jobs.keys()))
        return jobs

    jobs = await wait_for(again, what="the Jobs")
    assert [reference_of(job) for job in jobs.values()] == [None, None]
