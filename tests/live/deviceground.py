"""A random cluster with devices on a control plane."""

from __future__ import annotations

import asyncio
from typing import Final

from tests.controlplane.api import ApiClient, Object, path_of
from tests.live.deviceworlds import API_VERSION, DeviceWorld
from tests.live.nodeground import Ground

_SLICES: Final = path_of(API_VERSION, "resourceslices")


class DeviceGround(Ground):
    """One world whose pods get claims as the resource claim controller makes them, which does not run here."""

    def __init__(self, api: ApiClient, world: DeviceWorld) -> None:
        super().__init__(api, world)
        self._slices = world.slices
        self._templates = {raw["metadata"]["name"]: raw for raw in world.templates}
        self._taken = world.taken

    def _claims(self, name: str | None = None) -> str:
        return path_of(API_VERSION, "resourceclaims", namespace=self._world.name, name=name)

    async def fill(self) -> None:
        """Create what is in the namespace and its nodes, devices first: the nodes are known last."""
        for raw in self._slices:
            await self._api.create(_SLICES, raw)
        for raw in self._templates.values():
            path = path_of(API_VERSION, "resourceclaimtemplates", namespace=self._world.name)
            await self._api.create(path, raw)
        for raw in self._taken:
            name = raw["metadata"]["name"]
            await self._api.create(self._claims(), raw)
            # No finalizer: nothing that would take it off runs here.
            await self._api.patch(f"{self._claims(name)}/status", {"status": raw["status"]})
        await super().fill()

    async def _make_pod(self, pod: Object) -> None:
        made = await self._api.create(self._path("pods"), pod)
        name, uid = made["metadata"]["name"], made["metadata"]["uid"]
        statuses = []
        for entry in pod["spec"].get("resourceClaims", ()):
            template = self._templates[entry["resourceClaimTemplateName"]]
            owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid, "controller": True}
            claim = {
                "apiVersion": API_VERSION,
                "kind": "ResourceClaim",
                "metadata": {"name": f"{name}-{entry['name']}", "ownerReferences": [owner]},
                "spec": template["spec"]["spec"],
            }
            await self._api.create(self._claims(), claim)
            statuses.append({"name": entry["name"], "resourceClaimName": claim["metadata"]["name"]})
        if statuses:
            await self._api.patch(f"{self._path('pods', name)}/status", {"status": {"resourceClaimStatuses": statuses}})

    async def _remove_pods(self) -> None:
        await super()._remove_pods()
        for raw in await self._api.list(self._claims()):
            name = raw["metadata"]["name"]
            await self._api.patch(self._claims(name), {"metadata": {"finalizers": None}})
            await self._api.delete(self._claims(name))

    async def _remove(self) -> None:
        await super()._remove()
        await asyncio.gather(*(self._api.delete(f"{_SLICES}/{raw['metadata']['name']}") for raw in self._slices))
