"""The random clusters of :mod:`tests.live.nodeworlds` with devices that pods claim (dynamic resource allocation)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Final

from tests.controlplane.api import Object
from tests.live.nodeworlds import HOST, Chances, NodeWorld
from tests.live.nodeworlds import world as node_world

API_VERSION: Final = "resource.k8s.io/v1"
DRIVER: Final = "gpu.example.com"
CLASS: Final[Object] = {
    "apiVersion": API_VERSION,
    "kind": "DeviceClass",
    "metadata": {"name": "gpu"},
    "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]},
}
"""What all worlds share."""
_SELECTORS: Final = (
    f'device.attributes["{DRIVER}"].model == "a"',
    f'device.attributes["{DRIVER}"].model == "b"',
    f'device.capacity["{DRIVER}"].memory.compareTo(quantity("40Gi")) >= 0',
    f'device.attributes["{DRIVER}"].model == "none"',
)


@dataclass(frozen=True)
class DeviceWorld(NodeWorld):
    """A world with ResourceSlices; ``taken`` are claims of other pods, with their devices."""

    slices: tuple[Object, ...]
    templates: tuple[Object, ...]
    taken: tuple[Object, ...]

    @property
    def known(self) -> Iterator[Object]:
        """All objects but the JobSet."""
        yield from (*super().known, CLASS, *self.slices, *self.templates, *self.taken)


def world(seed: int) -> DeviceWorld:
    """The world of a seed."""
    return _Draw(node_world(seed)).world()


class _Draw(Chances):
    def __init__(self, made: NodeWorld) -> None:
        self.made = made
        self.random = Random(f"{made.seed}-devices")
        self.alike = self.some(0.5)
        """Whether all devices are of one model."""

    def world(self) -> DeviceWorld:
        made = self.made
        slices = [self._slice(node["metadata"]["labels"][HOST]) for node in made.nodes if not self.some(0.15)]
        taken = [self._taken(number, other, slices) for number, other in enumerate(made.others) if self.some(0.5)]
        templates = [self._template(entry) for entry in made.jobset["spec"]["replicatedJobs"] if not self.some(0.15)]
        claims = tuple(claim for claim in taken if claim)
        base = (made.seed, made.nodes, made.others, made.claims, made.jobset)
        return DeviceWorld(*base, made.admitted, tuple(slices), tuple(templates), claims)

    def _slice(self, node: str) -> Object:
        devices = [
            {
                "name": f"d{number}",
                "attributes": {"model": {"string": "a" if self.alike else self.random.choice("ab")}},
                "capacity": {"memory": {"value": self.random.choice(("24Gi", "80Gi", "80Gi"))}},
            }
            for number in range(self.random.choice((2, 4, 4, 8)))
        ]
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        return {
            "apiVersion": API_VERSION,
            "kind": "ResourceSlice",
            "metadata": {"name": node},
            "spec": {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices},
        }

    def _taken(self, number: int, other: Object, slices: list[Object]) -> Object | None:
        """The claim of another pod, with one device of its node that no other claim has."""
        node = other["spec"]["nodeName"]
        own = next((raw for raw in slices if raw["metadata"]["name"] == node), None)
        if own is None or number >= len(own["spec"]["devices"]):
            return None
        result = {"request": "r", "driver": DRIVER, "pool": node, "device": f"d{number}"}
        match = {"key": "metadata.name", "operator": "In", "values": [node]}
        allocation = {
            "devices": {"results": [result]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [match]}]},
        }
        request = {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}
        return {
            "apiVersion": API_VERSION,
            "kind": "ResourceClaim",
            "metadata": {"name": f"taken-{number}", "namespace": self.made.name},
            "spec": {"devices": {"requests": [request]}},
            "status": {"allocation": allocation},
        }

    def _template(self, entry: Object) -> Object:
        """What each pod of a replicated job claims, which it names from now on."""
        name = f"t-{entry['name']}"
        spec = entry["template"]["spec"]["template"]["spec"]
        spec["resourceClaims"] = [{"name": "devices", "resourceClaimTemplateName": name}]
        spec["containers"][0]["resources"]["claims"] = [{"name": "devices"}]
        requests = [self._request(number) for number in range(self.random.choice((1, 1, 1, 2)))]
        return {
            "apiVersion": API_VERSION,
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": name, "namespace": self.made.name},
            "spec": {"spec": {"devices": {"requests": requests}}},
        }

    def _request(self, number: int) -> Object:
        exactly: Object = {"deviceClassName": "gpu", "allocationMode": "ExactCount"}
        if self.some(0.1):
            exactly["allocationMode"] = "All"
        else:
            exactly["count"] = self.random.choice((1, 1, 2, 4))
        if self.some(0.4):
            exactly["selectors"] = [{"cel": {"expression": self.random.choice(_SELECTORS)}}]
        return {"name": f"r{number}", "exactly": exactly}
