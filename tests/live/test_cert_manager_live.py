"""The component cert-manager, without cert-manager: its Secret is a directory here, with what it would issue."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gangctl.runtime.tls import found, issue
from tests.cli.run import fine
from tests.controlplane.api import path_of
from tests.jobsets import REF, jobset, rj
from tests.live.cluster import Cluster
from tests.live.gangctl import OWN_NAMESPACE
from tests.live.incluster import InCluster
from tests.live.installed import REGISTRATIONS, is_gone

pytestmark = pytest.mark.controlplane


async def test_api_servers_trust_the_issued_certificate(bare: Cluster, tmp_path: Path) -> None:
    objects = fine("install", "--image", "gangctl:0.1.0", "--component", "cert-manager").documents
    (names,) = [each["spec"]["dnsNames"] for each in objects if "dnsNames" in each.get("spec", {})]
    now, day = datetime.now(UTC), timedelta(days=1)
    authority = found(now, day)
    pair = issue(authority, names, now, day)
    for name, text in (("ca.crt", authority.certificate), ("tls.crt", pair.chain), ("tls.key", pair.key)):
        (tmp_path / name).write_bytes(text)
    installed = [each for each in objects if not each["apiVersion"].startswith("cert-manager.io/")]
    gangctl = InCluster(bare.plane, installed, f"--cert-dir={tmp_path}", "--shutdown-delay=0")
    secret = path_of("v1", "secrets", namespace=OWN_NAMESPACE, name="gangctl-webhook-certs")
    await gangctl.install()
    try:
        await gangctl.process.start()
        await bare.asked()
        created = await bare.create_jobset(jobset("js", rj("w", 1, 1, 1, mode="Gang")))
        assert REF in str(created)
        for plural in REGISTRATIONS:
            path = path_of("admissionregistration.k8s.io/v1", plural, name="gangctl-gangs")
            bundles = {each["clientConfig"]["caBundle"] for each in (await bare.api.get(path))["webhooks"]}
            assert bundles == {base64.b64encode(authority.certificate).decode()}
        assert await is_gone(bare, secret), "there is no authority of its own beside it"
    finally:
        await gangctl.close()
