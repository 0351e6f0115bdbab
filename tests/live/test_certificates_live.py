"""A year of certificates under load: no admission fails, and changes by others are repaired."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.api import Object, path_of
from tests.controlplane.wait import NotYet, wait_for
from tests.jobsets import REF, jobset, rj
from tests.live.cluster import Cluster
from tests.live.gangctl import OWN_NAMESPACE, Gangctl
from tests.live.load import Load
from tests.live.observe import webhooks_noticed

pytestmark = pytest.mark.controlplane

CONFIGURATIONS = tuple(
    path_of("admissionregistration.k8s.io/v1", f"{kind}webhookconfigurations", name="gangctl-gangs")
    for kind in ("mutating", "validating")
)
SECRET = path_of("v1", "secrets", namespace=OWN_NAMESPACE, name="gangctl-webhook-certs")
AGEING = str(Path(__file__).with_name("ageing.py"))
MINUTE = 60
# Made in the past by an hour, for clocks that are behind: so all of this fits into that hour.
LIFETIME, CA_LIFETIME = 24 * MINUTE, 48 * MINUTE


@dataclass(frozen=True)
class Step:
    """What is due after so many minutes, when a third of a time is left or a quarter of a certificate's has passed."""

    minutes: int
    authorities: int = 1
    """How many are trusted then."""
    another_certificate: bool = False
    another_signer: bool = False


CREATED = Step(0)
RENEWED = Step(17, another_certificate=True)
INTRODUCED = Step(33, authorities=2, another_certificate=True)
SIGNING = Step(40, authorities=2, another_certificate=True, another_signer=True)
DROPPED = Step(47)


async def bundles(cluster: Cluster) -> set[str]:
    """The CA bundles that API servers go by, of all webhooks."""
    found = [await cluster.api.get(path) for path in CONFIGURATIONS]
    return {webhook["clientConfig"].get("caBundle", "") for each in found for webhook in each["webhooks"]}


async def test_no_admission_fails_while_certificates_and_authority_change(bare: Cluster, tmp_path: Path) -> None:
    later = tmp_path / "later"
    later.write_text("0")
    flags = ["--cert-lifetime", str(LIFETIME), "--ca-lifetime", str(CA_LIFETIME), "--webhook-timeout", "30"]
    seen: list[dict[str, str]] = []

    async with Gangctl(bare.plane, *flags, program=["-P", AGEING, str(later)]) as gangctl, Load(bare, pace=20) as load:
        for step in (CREATED, RENEWED, INTRODUCED, SIGNING, DROPPED):
            write(later, str(step.minutes * MINUTE))

            async def done(step: Step = step) -> dict[str, str]:
                data: dict[str, str] = (await bare.api.get(SECRET))["data"]
                before = seen[-1] if seen else data
                changed = [before[key] != data[key] for key in ("tls.crt", "ca.key")]
                found = (len(authorities(data)), *changed)
                if found != (step.authorities, step.another_certificate, step.another_signer):
                    raise NotYet(str(found))
                if await bundles(bare) != {data["ca.crt"]}:
                    raise NotYet("the bundle of the webhooks is another one")
                return data

            seen.append(await wait_for(done, what=str(step)))
            # The next step comes when this one has reached every replica, as it has long before.
            await webhooks_noticed(bare.plane)
            await load.more()
        assert load.refusals == []
        assert "Traceback" not in gangctl.log
    assert authorities(seen[0]).isdisjoint(authorities(seen[-1]))


def write(file: Path, text: str) -> None:
    """At once, as by a client that reads it all the time."""
    fresh = file.with_suffix(".fresh")
    fresh.write_text(text)
    fresh.rename(file)


def authorities(secret: dict[str, str]) -> set[str]:
    pem = base64.b64decode(secret["ca.crt"]).decode()
    return {each for each in pem.split("-----END CERTIFICATE-----") if each.strip()}


async def test_a_broken_ca_bundle_is_repaired(bare: Cluster) -> None:
    another = base64.b64encode(bare.plane.ca.read_bytes()).decode()
    async with Gangctl(bare.plane):
        (right,) = await bundles(bare)
        for broken in (another, None):
            await break_bundles(bare, broken)

            async def repaired() -> bool:
                if (now := await bundles(bare)) != {right}:
                    raise NotYet(f"{len(now)} bundles")
                return True

            await wait_for(repaired, what="the bundle to be repaired")
            await webhooks_noticed(bare.plane)
            gang = jobset("js", rj("w", 1, 1, 1, mode="Gang"))
            assert REF in str(await bare.create_jobset(gang, dry_run=True))


async def break_bundles(cluster: Cluster, bundle: str | None) -> None:
    """Put another one in its place, or take it away."""
    for path in CONFIGURATIONS:
        live: dict[str, Any] = await cluster.api.get(path)
        edits: list[Object] = [
            {"op": "replace" if bundle else "remove", "path": f"/webhooks/{n}/clientConfig/caBundle"}
            | ({"value": bundle} if bundle else {})
            for n in range(len(live["webhooks"]))
        ]
        await cluster.api.patch(path, edits, kind="json")
