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

    async def prove(self, api: ApiClient, seconds: float = 60) -> None:
        async def proved() -> bool:
            await self.proof(api)
            return True

        try:
            await wait_for(proved, seconds, f"{self.process.name} to serve its webhooks", tolerate=(ApiFailure,))
        except TimeoutError as error:
            raise TimeoutError(f"{error}\n{self.process.tail()}") from error


async def create_crds(api: ApiClient, crds: Objects) -> None:
    """Create definitions and wait until the API server serves them."""
    for crd in crds:
        await api.create(CRDS, crd)
    for crd in crds:
        name = crd["metadata"]["name"]

        async def established(name: str = name) -> bool:
            seen = await api.get(f"{CRDS}/{name}")
            conditions = seen.get("status", {}).get("conditions") or []
            return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)

        await wait_for(established, what=f"CRD {name} to be established")


async def create_webhooks(api: ApiClient, webhooks: Objects) -> None:
    for configuration in webhooks:
        await api.create(_WEBHOOK_PATHS[configuration["kind"]], configuration)


async def create_namespace(api: ApiClient, name: str) -> Object:
    body: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    return await api.create(NAMESPACES, body)
