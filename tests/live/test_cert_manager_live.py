"""The component cert-manager, without cert-manager: its Secret is a directory here, with what it would issue."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gangctl.runtime.authority import found, issue
from tests.cli.run import fine
from tests.controlplane.api import path_of
from tests.jobsets import REF, jobset, rj
from tests.live.cluster import Cluster
from tests.live.gangctl import OWN_NAMESPACE
from tests.live.incluster import InCluster
from tests.live.installed import REGISTRATIONS, found_again, is_gone
from tests.manifests.kubectl import Kubectl

pytestmark = [pytest.mark.controlplane, pytest.mark.xdist_group("rough")]


async def test_api_servers_trust_what_is_issued_for_the_names_in_the_manifest(rough: Cluster, tmp_path: Path) -> None:
    objects = fine("install", "--component", "cert-manager").documents
    (names,) = [each["spec"]["dnsNames"] for each in objects if "dnsNames" in each.get("spec", {})]
    now, day = datetime.now(UTC), timedelta(days=1)
    authority = found(now, day)
    pair = issue(authority, names, now, day)
    for name, text in (("ca.crt", authority.certificate), ("tls.crt", pair.chain), ("tls.key", pair.key)):
        (tmp_path / name).write_bytes(text)
    installed = [each for each in objects if not each["apiVersion"].startswith("cert-manager.io/")]
    gangctl = InCluster(rough.plane, installed, f"--cert-dir={tmp_path}", "--shutdown-delay=0")
    async with found_again(rough):
        secret = path_of("v1", "secrets", namespace=OWN_NAMESPACE, name="gangctl-webhook-certs")
        if not await is_gone(rough, secret):
            await rough.api.delete(secret)
        await gangctl.install()
        try:
            await gangctl.process.start()
            await rough.asked()
            created = await rough.create_jobset(jobset("js", rj("w", 1, 1, 1, mode="Gang")))
            assert REF in str(created)
            for plural in REGISTRATIONS:
                path = path_of("admissionregistration.k8s.io/v1", plural, name="gangctl-gangs")
                bundles = {each["clientConfig"]["caBundle"] for each in (await rough.api.get(path))["webhooks"]}
                assert bundles == {base64.b64encode(authority.certificate).decode()}
            assert await is_gone(rough, secret), "there is no authority of its own beside it"
        finally:
            await gangctl.close()
            removal = fine("install", "--uninstall").out
            await Kubectl(tmp_path, rough.plane.kubeconfig).run(
                "delete", "--ignore-not-found", "-f", "-", given=removal
            )
