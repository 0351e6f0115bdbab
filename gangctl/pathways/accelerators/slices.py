"""TPU slices: a number of chips in a topology on a number of VMs, and the topologies that they come in.

A PathwaysJob names one of a list per machine type (google/pathways-job v0.1.4). Flags have all of these, and follow the
wider rule of AI-Hypercomputer/xpk (1.16): up to so many cubes of 4x4x4, each side at most 256 chips. Both are stored in
a compact form, and expanded to strings on use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Final


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
        return chips(self.topology)

    @property
    def vms(self) -> int:
        """VMs, which are nodes and pods, of one slice."""
        return self.chips // self.accelerator.chips_per_vm

    @property
    def instance_type(self) -> str:
        """As an argument of the resource manager: ``tpuv5:2x2x1``."""
        return f"{self.accelerator.key}:{self.topology}"


_PARTS_OF_A_CUBE: Final = ("2x2x1", "2x2x2", "2x2x4", "2x4x4")
_CUBE_SIDE: Final = 4
_LONGEST_SIDE_CUBES: Final = 64
_CHIPS_OF_VMS_THAT_JOIN: Final = 4
"""VMs with this number of chips can form slices of several VMs."""

_THIRD_SIDES: Final[Mapping[str, str]] = {
    "4x4": "4 8 12 20 28 44 52 68 76 92 116 124 148 164 172 188 212 236 244",
    "4x8": "8 12 20 28 44 52 68 76 92 116 124 148 164 172 188",
    "4x12": "12 20 28 44 52 68 76 92 116 124",
    "4x20": "20 28 44 52 68 76",
    "4x28": "28 44 52",
    "8x8": "8 12 16 20 28 44 52 68 76 92",
    "8x12": "12 16 20 28 44 52",
    "8x16": "16 20 28 44",
    "8x20": "20 28",
    "12x12": "12 16 20 24 28 36",
    "12x16": "16 20 24 28",
    "12x20": "20 24",
    "12x24": "24",
    "16x16": "16 20 24",
    "16x20": "28",
}
"""v5p in a PathwaysJob: two sides of whole cubes, and what the third may be."""

_LARGER: Final[Mapping[str, tuple[str, ...]]] = {
    "ct5p-hightpu-4t": (),
    "tpu7x-standard-4t": ("16x16x32", "16x24x24"),
}
"""Machine types that have these in a PathwaysJob, and what they have besides."""

_LISTED: Final[Mapping[str, str]] = {
    "ct4p-hightpu-4t": "2x2x1 2x2x2 2x2x4 2x4x4 4x4x4 4x4x8 4x4x16 4x8x8 8x8x8 8x8x12 4x16x16 8x8x16 8x16x16",
    "ct5lp-hightpu-4t": "2x2 2x4 4x4 4x8 8x8 8x16 16x16",
    "ct5lp-hightpu-8t": "2x4",
    "ct6e-standard-4t": "1x1 2x2 2x4 4x4 4x8 8x8 8x16 16x16",
    "ct6e-standard-8t": "2x4",
}

MACHINE_TYPES_OF_JOBS: Final = (
    "tpu7x-standard-4t",
    "ct6e-standard-4t",
    "ct6e-standard-8t",
    "ct5p-hightpu-4t",
    "ct5lp-hightpu-4t",
    "ct5lp-hightpu-8t",
    "ct4p-hightpu-4t",
)
"""What ``spec.workers[].type`` of a PathwaysJob may be."""

_FLAT: Final[Mapping[str, str]] = {"v5e": "ct5lp-hightpu-4t", "v6e": "ct6e-standard-4t"}
"""Generations with topologies of two dimensions, which are those of this machine type in a PathwaysJob: XPK's, and
``2x2`` of v5e, which XPK lacks."""

_ONE_VM: Final[Mapping[str, str]] = {
    "ct5lp-hightpu-1t": "1x1",
    "ct5lp-hightpu-8t": "2x4",
    "ct5p-hightpu-1t": "1x1x1",
    "ct6e-standard-1t": "1x1",
    "ct6e-standard-8t": "2x4",
    "tpu7-standard-1t": "1x1x1",
    "tpu7x-standard-1t": "1x1x1",
}
"""Machine types whose slices are one VM, as GKE's autoscaler has them.

GKE names no topology for ``ct5p-hightpu-2t``, so that there is none here either.
"""


@dataclass(frozen=True, slots=True)
class CubeRule:
    """How XPK makes topologies of three dimensions: of parts of one cube of 4x4x4, and of whole cubes."""

    cubes: int
    """Maximum number of cubes."""
    ascending: bool = True
    """Whether the sides have to be in order."""
    single: bool = False
    """Whether there is a slice of one chip."""

    def topologies(self) -> Iterator[str]:
        """In XPK's order: that of the sides, one after the other."""
        if self.single:
            yield "1x1x1"
        yield from _PARTS_OF_A_CUBE
        sides = range(1, _LONGEST_SIDE_CUBES + 1)
        for a in sides:
            for b in sides[a - 1 if self.ascending else 0 :]:
                room = min(self.cubes // (a * b), _LONGEST_SIDE_CUBES)
                for c in range(b if self.ascending else 1, room + 1):
                    yield "x".join(str(side * _CUBE_SIDE) for side in (a, b, c))

    def __str__(self) -> str:
        small = ("1x1x1", *_PARTS_OF_A_CUBE) if self.single else _PARTS_OF_A_CUBE
        order = "in ascending order" if self.ascending else "in any order"
        sides = f"multiples of {_CUBE_SIDE} up to {_CUBE_SIDE * _LONGEST_SIDE_CUBES} {order}"
        return f"{' '.join(small)}, and three {sides} that are at most {self.cubes} cubes of 4x4x4"


_CUBE_RULES: Final[Mapping[str, CubeRule]] = {
    "v4": CubeRule(64, ascending=False),
    "v5p": CubeRule(140),
    "tpu7": CubeRule(4, single=True),
    "tpu7x": CubeRule(144, single=True),
}

_COMMON: Final[Mapping[str, str]] = {
    "v4": "ct4p-hightpu-4t",
    "v5p": "ct5p-hightpu-4t",
    "tpu7x": "tpu7x-standard-4t",
}
"""Generations with common topologies only for this machine type in a PathwaysJob; of others all are common."""


def chips(topology: str) -> int:
    """How many chips a normalized topology has."""
    return prod(int(side) for side in topology.split("x"))


def rule_of(accelerator: Accelerator) -> str:
    """XPK's rule for a machine type as text; empty if its list is short enough to be printed."""
    joins = accelerator.chips_per_vm == _CHIPS_OF_VMS_THAT_JOIN
    return str(_CUBE_RULES[accelerator.generation]) if joins and accelerator.generation in _CUBE_RULES else ""


@cache
def of_job(machine_type: str) -> tuple[str, ...]:
    """Topologies of a machine type in a PathwaysJob, ascending by chips; none if it does not support the machine."""
    if machine_type not in _LARGER:
        return tuple(_LISTED.get(machine_type, "").split())
    whole = (f"{sides}x{third}" for sides, thirds in _THIRD_SIDES.items() for third in thirds.split())
    return tuple(sorted([*_PARTS_OF_A_CUBE, *whole, *_LARGER[machine_type]], key=chips))


@cache
def of_generation(generation: str) -> tuple[str, ...]:
    """XPK's topologies of a generation, ascending by chips; those of one size stay in XPK's order."""
    if generation in _FLAT:
        return of_job(_FLAT[generation])
    return tuple(sorted(_CUBE_RULES[generation].topologies(), key=chips))


def of_flags(accelerator: Accelerator) -> tuple[str, ...]:
    """Topologies of a machine type in flags, ascending by chips."""
    if accelerator.machine_type in _ONE_VM:
        return (_ONE_VM[accelerator.machine_type],)
    return of_generation(accelerator.generation) if accelerator.chips_per_vm == _CHIPS_OF_VMS_THAT_JOIN else ()


@cache
def by_chips(generation: str) -> Mapping[int, str]:
    """The topology for a size alone: the last common one, else XPK's first of the size."""
    common = of_job(_COMMON[generation]) if generation in _COMMON else of_generation(generation)
    found: dict[int, str] = {}
    for topology in of_generation(generation):
        if chips(topology) not in found or topology in common:
            found[chips(topology)] = topology
    return found


def near(topology: str, allowed: Sequence[str], count: int = 3) -> tuple[str, ...]:
    """Those of ``allowed`` nearest to a topology in chips, those with the same sides first."""
    wanted, sides = chips(topology), sorted(topology.split("x"))
    return tuple(
        sorted(allowed, key=lambda each: (sorted(each.split("x")) != sides, abs(chips(each) - wanted)))[:count]
    )
