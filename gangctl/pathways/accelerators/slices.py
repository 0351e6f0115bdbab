"""A TPU slice: a number of chips in a topology, on a number of VMs."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod


@dataclass(frozen=True, slots=True)
class Accelerator:
    """One machine type of GKE with TPUs; the rows are in :mod:`gangctl.pathways.accelerators`."""

    generation: str
    """``v4``, ``v5e``, ``v5p``, ``v6e``, ``tpu7`` or ``tpu7x``."""
    machine_type: str
    label: str
    """Value of the node label ``cloud.google.com/gke-tpu-accelerator``."""
    key: str
    """Its name in Pathways: ``tpuv5e``."""
    chips_per_vm: int
    cores_per_chip: int
    """TensorCores, the unit of names such as ``v5p-8``."""
    dimensions: int
    """Of a topology: 2 or 3."""


@dataclass(frozen=True, slots=True)
class Slice:
    """A slice; the topology is normalized and fits the accelerator."""

    accelerator: Accelerator
    topology: str
    """``2x2x1``"""

    @property
    def chips(self) -> int:
        """The product of the topology."""
        return prod(int(each) for each in self.topology.split("x"))

    @property
    def vms(self) -> int:
        """VMs, which are nodes and pods, of one slice."""
        return self.chips // self.accelerator.chips_per_vm

    @property
    def instance_type(self) -> str:
        """As an argument of the resource manager: ``tpuv5:2x2x1``."""
        return f"{self.accelerator.key}:{self.topology}"
