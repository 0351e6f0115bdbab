"""A random cluster with rare details on a control plane."""

from __future__ import annotations

from typing import Final

from tests.controlplane.api import ApiClient, Object, path_of
from tests.live.detailedworlds import DetailedWorld
from tests.live.nodeground import Ground

_PLURALS: Final = {"LimitRange": "limitranges", "RuntimeClass": "runtimeclasses"}


class DetailedGround(Ground):
    """One world whose other pods are as a kubelet and a deletion leave them."""

    def __init__(self, api: ApiClient, world: DetailedWorld) -> None:
        super().__init__(api, world)
        self._rules = world.rules

    async def fill(self) -> None:
        """Create what is in the namespace, and its nodes; first what admission reads."""
        for raw in self._rules:
            path = path_of(raw["apiVersion"], _PLURALS[raw["kind"]], namespace=raw["metadata"].get("namespace"))
            await self._api.create(path, raw)
        await super().fill()

    async def _make_other(self, pod: Object) -> None:
        ends = "deletionTimestamp" in pod["metadata"]
        metadata = {key: pod["metadata"][key] for key in ("name", "namespace", "labels")}
        await super()._make_other({**pod, "metadata": metadata})
        path = self._path("pods", metadata["name"])
        await self._api.patch(f"{path}/status", {"status": pod["status"]})
        if ends:
            # It stays: no kubelet ends it.
            await self._api.delete(path, grace=pod["metadata"]["deletionGracePeriodSeconds"])

    def _hides_a_refusal(self) -> bool:
        modes = (mode for raw in self._world.claims for mode in raw["spec"].get("accessModes", ()))
        return super()._hides_a_refusal() or "ReadWriteOncePod" in modes
