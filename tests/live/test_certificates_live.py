"""A year of certificates in forty seconds, under load: every admission goes through; what others break is mended."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.controlplane.api import ApiFailure, Object, path_of
from tests.controlplane.wait import NotYet, wait_for
from tests.jobsets import jobset, rj
from tests.live.cluster import Cluster
from tests.live.gangctl import OWN_NAMESPACE, Gangctl
from tests.live.load import Load

pytestmark = [pytest.mark.controlplane, pytest.mark.xdist_group("rough")]

CONFIGURATIONS = tuple(
    path_of("admissionregistration.k8s.io/v1", f"{kind}webhookconfigurations", name="gangctl-gangs")
    for kind in ("mutating", "validating")
)
SECRET = path_of("v1", "secrets", namespace=OWN_NAMESPACE, name="gangctl-webhook-certs")
# A machine that pauses has 5 s to renew a certificate before it ends, and a step of a change of authorities 3.75 s to
# reach everybody. Renewed after 10, 20 and 30 s, and signed anew at 34 s, there are five certificates before the old
# authority is dropped at 38 s: one more than must be seen.
LIFETIME_SECONDS, CA_LIFETIME_SECONDS = 15, 45


async def bundles(cluster: Cluster) -> set[str]:
    """The CA bundles that API servers go by, of all webhooks."""
    found = [await cluster.api.get(path) for path in CONFIGURATIONS]
    return {webhook["clientConfig"].get("caBundle", "") for each in found for webhook in each["webhooks"]}


async def test_no_admission_fails_while_certificates_and_authority_change(rough: Cluster) -> None:
    # A Secret of an earlier gangctl holds certificates that last for months.
    await forget_certificates(rough)
    short = ["--cert-lifetime", str(LIFETIME_SECONDS), "--ca-lifetime", str(CA_LIFETIME_SECONDS)]
    served: set[str] = set()
    signers: list[str] = []

    async with Gangctl(rough.plane, *short) as gangctl, Load(rough, pace=20) as load:

        async def authority_replaced() -> bool:
            data: dict[str, str] = (await rough.api.get(SECRET))["data"]
            served.add(data["tls.crt"])
            if data["ca.key"] not in signers:
                signers.append(data["ca.key"])
            over = len(signers) > 1 and "previous-ca.crt" not in data and "next-ca.crt" not in data
            if not over or await bundles(rough) != {data["ca.crt"]}:
                raise NotYet(f"{len(served)} certificates, {len(signers)} authorities")
            return True

        await wait_for(authority_replaced, what="another authority")
        await load.more()
        assert load.failures == []
        assert len(served) >= 4
        assert await gangctl.metric("gangctl_certificate_looks_total", {"result": "failed"}) == 0
    await forget_certificates(rough)


async def forget_certificates(cluster: Cluster) -> None:
    secrets: list[Object] = await cluster.api.list(path_of("v1", "secrets", namespace=OWN_NAMESPACE))
    for secret in secrets:
        if SECRET.endswith(secret["metadata"]["name"]):
            await cluster.api.delete(SECRET)


@pytest.mark.parametrize("broken", ["another authority's", "none"])
async def test_a_bundle_that_somebody_breaks_is_mended(rough: Cluster, broken: str) -> None:
    bundle = base64.b64encode(rough.plane.ca.read_bytes()).decode() if broken != "none" else None
    async with Gangctl(rough.plane):
        (right,) = await bundles(rough)
        for path in CONFIGURATIONS:
            live: dict[str, Any] = await rough.api.get(path)
            edits = [
                {"op": "replace" if bundle else "remove", "path": f"/webhooks/{n}/clientConfig/caBundle"}
                | ({"value": bundle} if bundle else {})
                for n in range(len(live["webhooks"]))
            ]
            await rough.api.patch(path, edits, kind="json")

        async def mended() -> bool:
            if (now := await bundles(rough)) != {right}:
                raise NotYet(f"{len(now)} bundles")
            return True

        # Sooner than gangctl looks of itself, every 30 s: the watch has told it.
        await wait_for(mended, what="the bundle to be mended")

        async def trusted() -> Object:
            return await rough.create_jobset(jobset("js", rj("w", 1, 1, 1, mode="Gang")), dry_run=True)

        # The API server notices a moment after it was written.
        await wait_for(trusted, what="an admission", tolerate=(ApiFailure,))
