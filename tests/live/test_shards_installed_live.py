"""An installation with two shards on a real API server: the rights to its Leases, and the report of the doctor."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest

from tests.cli.run import fine
from tests.cli.test_live import in_a_thread
from tests.controlplane.api import ApiClient, path_of
from tests.controlplane.wait import NotYet, read_until, wait_for
from tests.live.cluster import Cluster
from tests.live.gangctl import OWN_NAMESPACE
from tests.live.incluster import InCluster

pytestmark = pytest.mark.controlplane

LEASES: Final = path_of("coordination.k8s.io/v1", "leases", namespace=OWN_NAMESPACE)


@pytest.fixture
async def alone(bare: Cluster) -> AsyncIterator[InCluster]:
    """One replica, where there should be three."""
    process = InCluster(
        bare.plane, fine("install", "--image", "gangctl:0.1.0", "--shards", "2").documents, "--shutdown-delay=0"
    )
    await process.install()
    await process.process.start()
    yield process
    await process.close()


async def doctor(cluster: Cluster) -> dict[str, Any]:
    """Its evidence about the leaders."""
    flags = ("--only", "gangctl-leader", "--kubeconfig", str(cluster.plane.kubeconfig), "-o", "json")
    answer = await in_a_thread("doctor", *flags)
    (check,) = json.loads(answer.out)["checks"]
    return dict(check)


async def says(cluster: Cluster, verdict: str, message: str) -> list[str]:
    """Wait until the doctor says so: a leader may not have renewed its Lease for a moment; the evidence."""

    async def so() -> list[str]:
        said = await doctor(cluster)
        if said["verdict"] != verdict or not said["message"].startswith(message):
            raise NotYet(str(said))
        return list(said["evidence"])

    return await wait_for(so, what=f"the doctor to say that {message}")


async def test_one_replica_leads_one_shard_and_the_doctor_reports_the_other(bare: Cluster, alone: InCluster) -> None:
    await read_until(
        lambda: alone.metric("gangctl_shard_leader_election_master_status", {"shard": "0"}),
        lambda value: value == 1,
        "shard 0 to be led",
    )
    assert await alone.metric("gangctl_shard_leader_election_master_status", {"shard": "1"}) == 0
    first, second = await says(bare, "failed", "shard 1 has no leader")
    assert first.startswith("shard 0: holder ")
    assert second == "shard 1: there is no Lease"
    # Another replica, as far as the Lease tells. Nobody renews it, and the doctor takes its time to start.
    held = await bare.api.get(f"{LEASES}/gangctl")
    spec = {**held["spec"], "holderIdentity": "another", "leaseDurationSeconds": 3600}
    body = {"metadata": {"name": "gangctl-shard-1"}, "spec": spec}
    account = ApiClient(bare.plane.url, ca=bare.plane.ca, token=alone.token)
    await account.create(LEASES, body)
    assert (await account.get(f"{LEASES}/gangctl-shard-1"))["spec"]["holderIdentity"] == "another"
    refused = await account.exchange("GET", f"{LEASES}/gangctl-shard-2")
    await account.close()
    assert refused.status == 403
    await says(bare, "ok", "each of 2 shards has a leader")
