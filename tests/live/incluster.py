"""gangctl as the Deployment runs it: the manifest's arguments, in-cluster configuration, its own ServiceAccount.

Everything in ``manifests/base`` is applied as kustomize builds it. What loopback demands is different:

* both addresses the process listens on: loopback and free ports, instead of :9443 and :8080;
* the Service of the webhooks is of type ExternalName and leads to localhost, and the webhook configurations name the
  listener's port (in those that gangctl fills, by a flag), because nobody routes Service addresses here. The API server
  still calls it, and verifies its certificate, as gangctl-webhook.gangctl-system.svc;
* the Deployment has no replicas: its one pod is this process;
* the service account's directory is named by an environment variable: the place where a pod has it is the machine's.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import yaml

from tests.controlplane.api import Object, path_of
from tests.controlplane.plane import ControlPlane
from tests.live.gangctl import OWN_NAMESPACE, Gangctl, path_to
from tests.manifests.files import MANIFESTS
from tests.manifests.kubectl import Kubectl

ACCOUNT: Final = f"system:serviceaccount:{OWN_NAMESPACE}:gangctl"
"""The user that the API server sees."""

_TOKEN_SECONDS: Final = 3600


async def build(directory: Path, name: str = "base") -> list[Object]:
    """The objects that ``kubectl apply -k manifests/NAME`` applies."""
    built = await Kubectl(directory).run("kustomize", str(MANIFESTS / name))
    return list(yaml.safe_load_all(built.text))


class InCluster(Gangctl):
    """The process of one replica; :meth:`install` first."""

    def __init__(self, plane: ControlPlane, manifests: list[Object], *further: str, name: str = "gangctl-pod") -> None:
        """``further`` are flags that the Deployment does not have."""
        super().__init__(plane, user=ACCOUNT, name=name, kubeconfig=plane.kubeconfig)
        self._manifests = manifests
        self._account = plane.directory / f"{name}-serviceaccount"
        metrics = self.metrics_url.removeprefix("http://")
        adapted = {"--webhook-bind-address": self.webhook_address, "--metrics-bind-address": metrics}
        port_flag = f"--webhook-service-port={self.webhook_address.rpartition(':')[2]}"
        self.arguments = [*_adapted(deployed_arguments(manifests), adapted), port_flag, *further]
        host, _, port = plane.url.removeprefix("https://").partition(":")
        environment = {
            "KUBERNETES_SERVICE_HOST": host,
            "KUBERNETES_SERVICE_PORT": port,
            "GANGCTL_SERVICE_ACCOUNT_DIR": str(self._account),
        }
        # Nothing of this machine's environment, a KUBECONFIG for one.
        variables = [f"{key}={value}" for key, value in environment.items()]
        self.process.command = ["/usr/bin/env", "-i", *variables, sys.executable, "-m", "gangctl", *self.arguments]

    async def install(self) -> None:
        """Apply the manifests, and mount the ServiceAccount."""
        for body in self._manifests:
            await self.apply(self._on_loopback(body))
        await self.mount()

    async def mount(self) -> None:
        """Mount the ServiceAccount, which is installed, with a token that the API server mints for it."""
        path = path_of("v1", "serviceaccounts", namespace=OWN_NAMESPACE, name="gangctl")
        request: Object = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
        request["spec"] = {"expirationSeconds": _TOKEN_SECONDS}
        answer = await self.plane.api.create(f"{path}/token", request)
        self._account.mkdir(exist_ok=True)
        (self._account / "token").write_text(answer["status"]["token"])
        (self._account / "ca.crt").write_bytes(self.plane.ca.read_bytes())
        (self._account / "namespace").write_text(OWN_NAMESPACE)

    @property
    def token(self) -> str:
        """What it shows the API server."""
        return (self._account / "token").read_text()

    async def apply(self, body: Object) -> None:
        """Apply one object as its manifest has it."""
        await self.plane.api.patch(path_to(body), body, kind="apply", fieldManager="kubectl", force=True)

    async def register(self) -> None:
        """Apply the webhook configurations and the policy for Jobs again, where another writer has changed them."""
        for body in self._manifests:
            if body["kind"].endswith("WebhookConfiguration") or body["kind"].startswith("MutatingAdmissionPolicy"):
                await self.apply(self._on_loopback(body))

    def _on_loopback(self, body: Object) -> Object:
        if body["kind"] == "Deployment":
            return {**body, "spec": {**body["spec"], "replicas": 0}}
        return on_loopback(body, self.webhook_address)


def on_loopback(body: Object, address: str) -> Object:
    """An object of the manifests, with webhooks that are called at this address."""
    if body["kind"] == "Service" and body["metadata"]["name"] == "gangctl-webhook":
        return {**body, "spec": {"type": "ExternalName", "externalName": "localhost"}}
    if "webhooks" in body:
        port = int(address.rpartition(":")[2])
        hooks = [{**hook, "clientConfig": _with_port(hook["clientConfig"], port)} for hook in body["webhooks"]]
        return {**body, "webhooks": hooks}
    return body


def deployed_arguments(manifests: list[Object]) -> list[str]:
    """The arguments of the Deployment's only container."""
    (deployment,) = (body for body in manifests if body["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return list(container["args"])


def _adapted(arguments: list[str], values: Mapping[str, str]) -> list[str]:
    """The same arguments with other values for some, each of which must be there."""
    names = [argument.partition("=")[0] for argument in arguments]
    if missing := values.keys() - set(names):
        raise ValueError(f"the Deployment has no {', '.join(sorted(missing))}")
    pairs = zip(names, arguments, strict=True)
    return [f"{name}={values[name]}" if name in values else argument for name, argument in pairs]


def _with_port(config: Object, port: int) -> Object:
    return {**config, "service": {**config["service"], "port": port}}
