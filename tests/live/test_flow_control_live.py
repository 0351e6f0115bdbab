"""The manifests' FlowSchemas on a real API server: which of its requests go where, and what that is good for."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Final

import pytest

from tests.cli.run import fine
from tests.controlplane.api import Answer, ApiClient, Object, path_of
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for
from tests.jobsets import jobset, rj
from tests.live.cluster import Cluster
from tests.live.gangctl import OWN_NAMESPACE
from tests.live.incluster import ACCOUNT, InCluster
from tests.live.observe import gang_of
from tests.manifests.test_flowcontrol import SHIPPED_SHARES

pytestmark = pytest.mark.controlplane

API: Final = "flowcontrol.apiserver.k8s.io/v1"
LEASE: Final = path_of("coordination.k8s.io/v1", "leases", namespace=OWN_NAMESPACE, name="gangctl")
GANGS: Final = path_of("scheduling.k8s.io/v1beta1", "podgroups")
DISPATCHED: Final = re.compile(
    r'^apiserver_flowcontrol_dispatched_requests_total\{flow_schema="([^"]+)",priority_level="([^"]+)"\} (\S+)$',
    flags=re.MULTILINE,
)


@pytest.fixture
async def gangctl(bare: Cluster) -> AsyncIterator[InCluster]:
    """What ``gangctl install`` prints, and its process, not started."""
    process = InCluster(bare.plane, fine("install", "--image", "gangctl:0.1.0").documents, "--shutdown-delay=0")
    await process.install()
    yield process
    await process.close()


@pytest.fixture
async def account(gangctl: InCluster) -> AsyncIterator[ApiClient]:
    """Somebody with the token of its pods, once the API server knows the schemas."""
    client = ApiClient(gangctl.plane.url, ca=gangctl.plane.ca, token=gangctl.token)
    names = await names_of(gangctl.plane)

    async def known() -> bool:
        if (found := classified(await client.exchange("GET", GANGS), names)) != ("gangctl", "gangctl"):
            raise NotYet(str(found))
        return True

    await wait_for(known, what="the schemas to be in force")
    yield client
    await client.close()


async def names_of(plane: ControlPlane) -> dict[str, str]:
    """Names of schemas and levels by UID."""
    found = [*await plane.api.list(path_of(API, "flowschemas"))]
    found += await plane.api.list(path_of(API, "prioritylevelconfigurations"))
    return {each["metadata"]["uid"]: each["metadata"]["name"] for each in found}


def classified(answer: Answer, names: dict[str, str]) -> tuple[str, str]:
    """The schema and the level by which it was answered."""
    schema, level = (answer.headers[f"X-Kubernetes-PF-{each}-UID"] for each in ("FlowSchema", "PriorityLevel"))
    return names[schema], names[level]


async def dispatched(plane: ControlPlane) -> dict[tuple[str, str], float]:
    """How many requests were let in so far, by schema and level."""
    text = await plane.api.text("/metrics")
    return {(schema, level): float(value) for schema, level, value in DISPATCHED.findall(text)}


async def test_leases_and_other_requests_have_their_priority_levels(
    bare: Cluster, gangctl: InCluster, account: ApiClient
) -> None:
    names = await names_of(bare.plane)
    for method, path in (("GET", LEASE), ("POST", LEASE.rpartition("/")[0]), ("PUT", LEASE)):
        answer = await account.exchange(method, path, data="{}" if method != "GET" else None)
        assert classified(answer, names) == ("gangctl-leader-election", "leader-election"), method
    jobs = path_of("batch/v1", "jobs", namespace=OWN_NAMESPACE)
    for method, path in (("GET", GANGS), ("GET", path_of("v1", "pods")), ("POST", jobs), ("GET", "/apis")):
        answer = await account.exchange(method, path, data="{}" if method != "GET" else None)
        assert classified(answer, names) == ("gangctl", "gangctl"), path
    somebody = await bare.api.exchange("GET", GANGS)
    assert classified(somebody, names)[0] not in {"gangctl", "gangctl-leader-election"}
    await every_request_of_the_process_is_in_one_of_the_two(bare, gangctl)
    await where_hardly_anything_else_is_let_in_leases_are(bare, account)


async def every_request_of_the_process_is_in_one_of_the_two(cluster: Cluster, gangctl: InCluster) -> None:
    before, position = await dispatched(cluster.plane), cluster.plane.audit_position
    await gangctl.process.start()
    await cluster.asked()
    await cluster.create_jobset(jobset("gang", rj("w", 1, 2, 2, mode="Gang")))
    await gang_of(cluster, "gang")
    await gangctl.end()

    async def counted_alike() -> int:
        """How many were for Leases; what the process's end cut off is let in before the log has how it ended."""
        after = await dispatched(cluster.plane)
        # A watch is told of when it begins and when it ends.
        log = cluster.plane.audit(position)
        reported = {each["auditID"]: each for each in log if each["user"].get("username") == ACCOUNT}
        leases = [each for each in reported.values() if each.get("objectRef", {}).get("resource") == "leases"]
        schemas = {"gangctl-leader-election": "leader-election", "gangctl": "gangctl"}
        grown = {key: after.get(key, 0) - before.get(key, 0) for key in schemas.items()}
        logged = dict(zip(schemas.items(), (len(leases), len(reported) - len(leases)), strict=True))
        if grown != logged:
            raise NotYet(f"let in were {grown}, logged {logged}")
        return len(leases)

    assert await wait_for(counted_alike, what="every request to be in one of the two") >= 2


async def where_hardly_anything_else_is_let_in_leases_are(cluster: Cluster, account: ApiClient) -> None:
    """Of gangctl's requests, and whatever others ask for."""
    level = path_of(API, "prioritylevelconfigurations", name="gangctl")
    nothing: Object = {"nominalConcurrencyShares": 0, "lendablePercent": 0, "borrowingLimitPercent": 0}
    shut: Object = {**nothing, "limitResponse": {"type": "Reject", "queuing": None}}
    await cluster.api.patch(level, {"spec": {"limited": shut}})

    async def volley() -> list[int]:
        """What those for the Lease, and those of somebody else, get while many requests at once are refused."""
        many = [account.exchange("GET", GANGS) for _ in range(60)]
        others = [client.exchange("GET", path) for client, path in ((account, LEASE), (cluster.api, GANGS)) * 5]
        answers = [each.status for each in await asyncio.gather(*many, *others)]
        if {*answers[:60]} != {200, 429}:
            raise NotYet(f"{set(answers[:60])}")
        return answers[60:]

    spared = await wait_for(volley, what="requests beyond the level's share to be refused")
    assert {*spared} <= {200, 404}, "neither leader election nor others feel it"


async def test_the_default_priority_levels_have_the_assumed_shares(bare: Cluster) -> None:
    levels = await bare.api.list(path_of(API, "prioritylevelconfigurations"))
    shipped = [
        (each["spec"].get("limited") or each["spec"].get("exempt") or {}).get("nominalConcurrencyShares", 0)
        for each in levels
        if not each["metadata"]["name"].startswith("gangctl")
    ]
    assert sum(shipped) == SHIPPED_SHARES
