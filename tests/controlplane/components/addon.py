"""What the controllers beside Kubernetes have in common: they bring CRDs and webhooks, and must be seen to work."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from tests.controlplane.api import ApiClient, ApiFailure, Object, Objects, path_of
from tests.controlplane.process import Process
from tests.controlplane.wait import wait_for

CRDS = path_of("apiextensions.k8s.io/v1", "customresourcedefinitions")
_WEBHOOK_PATHS = {
    "MutatingWebhookConfiguration": path_of("admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations"),
    "ValidatingWebhookConfiguration": path_of("admissionregistration.k8s.io/v1", "validatingwebhookconfigurations"),
}
NAMESPACES = path_of("v1", "namespaces")


async def _no_proof(_: ApiClient) -> None:
    """For a component without webhooks: its own readiness is all there is to see."""


@dataclass(frozen=True)
class Addon:
    """
    A controller process and what has to be in the API server around it.

    `proof` makes a request that succeeds only when the webhooks serve: a manager says it is ready before it has
    registered its handlers.
    """

    process: Process
    crds: Objects = field(default_factory=list)
    namespaces: tuple[str, ...] = ()
    webhooks: Objects = field(default_factory=list)
    proof: Callable[[ApiClient], Awaitable[object]] = _no_proof

    async def prove(self, api: ApiClient) -> None:
        async def proved() -> bool:
            await self.proof(api)
            return True

        try:
            await wait_for(proved, f"{self.process.name} to serve its webhooks", tolerate=(ApiFailure,))
        except TimeoutError as error:
            raise TimeoutError(f"{error}\n{self.process.tail()}") from error


async def create_crds(api: ApiClient, crds: Objects) -> None:
    """Create definitions and wait until each version can be listed: an established one still refuses at first."""
    for crd in crds:
        await api.create(CRDS, crd)
    for crd in crds:
        for version in (version["name"] for version in crd["spec"]["versions"] if version["served"]):
            path = path_of(f"{crd['spec']['group']}/{version}", crd["spec"]["names"]["plural"])

            async def served(path: str = path) -> bool:
                return "items" in await api.get(path)

            await wait_for(served, f"the API server to serve {path}", tolerate=(ApiFailure,))


async def create_webhooks(api: ApiClient, webhooks: Objects) -> None:
    for configuration in webhooks:
        await api.create(_WEBHOOK_PATHS[configuration["kind"]], configuration)


async def create_namespace(api: ApiClient, name: str) -> Object:
    body: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    return await api.create(NAMESPACES, body)


async def remove_namespace(api: ApiClient, name: str) -> None:
    """Delete it, and its pods at once: they would wait for nodes, or hold places on them, that others count on."""
    await api.delete(f"{NAMESPACES}/{name}")
    # From here on nothing new is created in it, so its pods are taken away for good.
    await api.delete(path_of("v1", "pods", namespace=name), grace=0)
