"""A real API server sends its client certificate to gangctl's webhooks once it is configured to, and not before."""

from __future__ import annotations

import pytest

from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import wait_for, wait_until
from tests.jobsets import jobset, rj
from tests.live.cluster import Cluster, refused
from tests.live.gangctl import Gangctl
from tests.live.observe import gang_of

pytestmark = pytest.mark.controlplane

CONFIGURATION = "apiserver.config.k8s.io/v1"
GANGED = jobset("js", rj("w", 1, 1, 1, mode="Gang"))


def present_certificate(plane: ControlPlane, host: str) -> None:
    """Have the API server show a certificate to webhooks at this host and port, from its next start on."""
    shown = plane.site.user("kube-apiserver-webhooks")
    user = {"client-certificate": str(shown.certificate), "client-key": str(shown.key)}
    kubeconfig = plane.site.write(
        "webhooks.kubeconfig", {"apiVersion": "v1", "kind": "Config", "users": [{"name": host, "user": user}]}
    )
    settings = {"apiVersion": CONFIGURATION, "kind": "WebhookAdmissionConfiguration", "kubeConfigFile": str(kubeconfig)}
    plugins = ("MutatingAdmissionWebhook", "ValidatingAdmissionWebhook")
    configured = [{"name": name, "configuration": settings} for name in plugins]
    file = plane.site.write(
        "admission.yaml", {"apiVersion": CONFIGURATION, "kind": "AdmissionConfiguration", "plugins": configured}
    )
    plane.process("kube-apiserver").command.append(f"--admission-control-config-file={file}")


async def test_the_api_server_must_send_its_client_certificate(own: Cluster) -> None:
    plane = own.plane
    async with Gangctl(plane, "--webhook-client-ca", str(plane.ca)) as gangctl:
        # Before API servers have noticed the webhook, they let a JobSet pass.
        failure = await wait_for(
            lambda: refused(own.create_jobset(GANGED, dry_run=True)), "gangctl to be asked", tolerate=(AssertionError,)
        )
        assert failure.status == 500
        assert "a client certificate is required here" in failure.message

        await wait_until(lambda: "request refused" in gangctl.log, "gangctl to tell of it")
        present_certificate(plane, gangctl.webhook_address)
        await plane.restart("kube-apiserver")
        await wait_for(gangctl.is_ready, what="gangctl to be ready again")
        await own.asked()
        await own.create_jobset(GANGED)
        await gang_of(own, "js")
