"""TPUs by all their names: machine types, the topologies that their slices come in, and the lookup of a name.

Names are looked up, never parsed and composed, so that an unknown name is rejected and not passed on. A PathwaysJob
names one of a list of topologies per machine type (google/pathways-job v0.1.4). Flags have all of these, and follow the
wider rule of AI-Hypercomputer/xpk (1.16): up to so many cubes of 4x4x4, each side at most 256 chips. Both are stored in
a compact form, and expanded to strings on use.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from math import prod
from typing import Final, NoReturn

from gangctl.errors import shown
from gangctl.pathways.problems import SHOWN, InvalidReason, RefusedValueError


@dataclass(frozen=True, slots=True)
class MachineType:
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

    accelerator: MachineType
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

_LARGER: Final[Mapping[str, tuple[str, ...]]] = {"ct5p-hightpu-4t": (), "tpu7x-standard-4t": ("16x16x32", "16x24x24")}
"""Machine types that have these in a PathwaysJob, and what they have besides."""

_LISTED: Final[Mapping[str, str]] = {
    "ct4p-hightpu-4t": "2x2x1 2x2x2 2x2x4 2x4x4 4x4x4 4x4x8 4x4x16 4x8x8 8x8x8 8x8x12 4x16x16 8x8x16 8x16x16",
    "ct5lp-hightpu-4t": "2x2 2x4 4x4 4x8 8x8 8x16 16x16",
    "ct5lp-hightpu-8t": "2x4",
    "ct6e-standard-4t": "1x1 2x2 2x4 4x4 4x8 8x8 8x16 16x16",
    "ct6e-standard-8t": "2x4",
}

MACHINE_TYPES_OF_JOBS: Final = (
    "tpu7x-standard-4t", "ct6e-standard-4t", "ct6e-standard-8t", "ct5p-hightpu-4t", "ct5lp-hightpu-4t",
    "ct5lp-hightpu-8t", "ct4p-hightpu-4t",
)  # fmt: skip
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

_COMMON: Final[Mapping[str, str]] = {"v4": "ct4p-hightpu-4t", "v5p": "ct5p-hightpu-4t", "tpu7x": "tpu7x-standard-4t"}
"""Generations with common topologies only for this machine type in a PathwaysJob; of others all are common."""


def chips(topology: str) -> int:
    """How many chips a normalized topology has."""
    return prod(int(side) for side in topology.split("x"))


def rule_of(accelerator: MachineType) -> str:
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


@cache
def by_chips(generation: str) -> Mapping[int, str]:
    """The topology for a size alone: the last common one, else XPK's first of the size."""
    common = of_job(_COMMON[generation]) if generation in _COMMON else of_generation(generation)
    sizes: dict[int, str] = {}
    for topology in of_generation(generation):
        if chips(topology) not in sizes or topology in common:
            sizes[chips(topology)] = topology
    return sizes


def near(topology: str, allowed: Sequence[str], count: int = 3) -> tuple[str, ...]:
    """Those of ``allowed`` nearest to a topology in chips, those with the same sides first."""
    wanted, sides = chips(topology), sorted(topology.split("x"))
    return tuple(
        sorted(allowed, key=lambda each: (sorted(each.split("x")) != sides, abs(chips(each) - wanted)))[:count]
    )


_NEAR: Final = 3
"""Maximum of names that are suggested for an unknown one."""


ACCELERATORS: Final[tuple[MachineType, ...]] = (
    # generation, machine type, label, key, chips of a VM, cores of a chip, dimensions
    MachineType("v4", "ct4p-hightpu-4t", "tpu-v4-podslice", "tpuv4", 4, 2, 3),
    MachineType("v5e", "ct5lp-hightpu-4t", "tpu-v5-lite-podslice", "tpuv5e", 4, 1, 2),
    MachineType("v5e", "ct5lp-hightpu-1t", "tpu-v5-lite-podslice", "tpuv5e", 1, 1, 2),
    MachineType("v5e", "ct5lp-hightpu-8t", "tpu-v5-lite-podslice", "tpuv5e1t", 8, 1, 2),
    MachineType("v5p", "ct5p-hightpu-4t", "tpu-v5p-slice", "tpuv5", 4, 2, 3),
    MachineType("v5p", "ct5p-hightpu-1t", "tpu-v5p-slice", "tpuv5", 1, 2, 3),
    MachineType("v5p", "ct5p-hightpu-2t", "tpu-v5p-slice", "tpuv5", 2, 2, 3),
    MachineType("v6e", "ct6e-standard-4t", "tpu-v6e-slice", "tpuv6e", 4, 1, 2),
    MachineType("v6e", "ct6e-standard-1t", "tpu-v6e-slice", "tpuv6e", 1, 1, 2),
    MachineType("v6e", "ct6e-standard-8t", "tpu-v6e-slice", "tpuv6e1t", 8, 1, 2),
    MachineType("tpu7x", "tpu7x-standard-4t", "tpu7x", "tpu7x", 4, 2, 3),
    MachineType("tpu7x", "tpu7x-standard-1t", "tpu7x", "tpu7x", 1, 2, 3),
    MachineType("tpu7", "tpu7-standard-4t", "tpu7", "tpu7", 4, 2, 3),
    MachineType("tpu7", "tpu7-standard-1t", "tpu7", "tpu7", 1, 2, 3),
)
"""Every machine type; the first of a generation is the one that a name without a machine type means."""

FAMILIES: Final[Mapping[str, str]] = {
    "v4": "v4",
    "v5e": "v5e",
    "v5litepod": "v5e",
    "v5p": "v5p",
    "v6e": "v6e",
    "tpu7x": "tpu7x",
    "tpu7": "tpu7",
}
"""Names of a generation."""

_KINDS_OF_NAMES: Final = (
    "allowed are a device type (v5p-8, v5p-2x2x1), a machine type (ct5p-hightpu-4t), a label of GKE (tpu-v5p-slice), "
    f"a family ({', '.join(FAMILIES)}), or a key of Pathways (tpuv5)"
)

_UNREAL_LABELS: Final[Mapping[str, str]] = {"tpu-v5e-slice": "tpu-v5-lite-podslice"}
"""Labels in some documents that no node has: pods that select them wait permanently. And the real ones."""

_OTHER_NAMES: Final[Mapping[str, str]] = {"ironwood": "tpu7x", "v7x": "tpu7x", "trillium": "v6e"}
"""Names of generations that Google's documents have, and that no program takes. And the families."""

_DEVICE_TYPE: Final = re.compile(
    rf"(?P<family>{'|'.join(FAMILIES)})-(?:(?P<size>[1-9][0-9]{{0,6}})|(?P<topology>[0-9]{{1,6}}(?:x[0-9]{{1,6}}){{1,2}}))"
)

_BY_MACHINE_TYPE: Final[Mapping[str, MachineType]] = {other.machine_type: other for other in ACCELERATORS}


def default_of(generation: str) -> MachineType:
    """The machine type that a generation's name alone means."""
    return next(other for other in ACCELERATORS if other.generation == generation)


def single_chip(accelerator: MachineType) -> MachineType:
    """The machine type of the same generation with one chip; itself where there is none."""
    return next(
        (other for other in ACCELERATORS if other.generation == accelerator.generation and other.chips_per_vm == 1),
        accelerator,
    )


@cache
def names() -> Mapping[str, MachineType]:
    """Every name of a row without a topology: machine types, labels, families, keys."""
    rows = {other.machine_type: other for other in ACCELERATORS}
    firsts = [default_of(generation) for generation in FAMILIES.values()]
    rows |= {first.label: first for first in firsts}
    rows |= dict(zip(FAMILIES, firsts, strict=True))
    for other in ACCELERATORS:
        # The first counts: machine types of a generation have one key, and tpu7x is the name of a family as well.
        rows.setdefault(other.key, other)
    return rows


@cache
def device_types(family: str) -> Mapping[str, str]:
    """The sizes of a family, ascending: name as XPK has it (``v5p-8``, in TensorCores), and the topology it means."""
    accelerator = default_of(FAMILIES[family])
    return {
        f"{family}-{chips * accelerator.cores_per_chip}": topology
        for chips, topology in by_chips(accelerator.generation).items()
    }


def by_machine_type(text: str) -> MachineType:
    """The machine type, spelled as GKE spells it; RefusedValueError for any other."""
    machine_type = _BY_MACHINE_TYPE.get(text)
    if machine_type is None:
        _refuse(f"{shown(text)} is no machine type with TPUs; there are {', '.join(_BY_MACHINE_TYPE)}")
    return machine_type


def find(text: str) -> tuple[MachineType, str]:
    """The accelerator of a name, and its topology, empty if the name has none.

    A name is a device type of XPK (``v5p-8``, ``v5p-2x2x1``), a machine type, a node label of GKE, a family or a key of
    Pathways; case and surrounding blanks are ignored. A slice of one chip is on the machine type with one chip, and
    ``v6e-8`` is XPK's, two VMs of four chips, as cluster-toolkit's, one VM of eight, has a machine type to be named by.
    RefusedValueError for other names.
    """
    name = text.strip().lower()
    if not name:
        _refuse("the name of an accelerator is empty; " + _KINDS_OF_NAMES)
    if name in names():
        return names()[name], ""
    if (device := _DEVICE_TYPE.fullmatch(name)) is not None:
        return _device(text, device["family"], device["size"], device["topology"])
    if name in _UNREAL_LABELS:
        _refuse(f"no node carries the label {shown(text)}; GKE's is {_UNREAL_LABELS[name]}")
    close = _near_names(name[:SHOWN])
    meant = f"; did you mean {' or '.join(close)}?" if close else ""
    return _refuse(f"{shown(text)} names no TPU, and Pathways runs on nothing else; {_KINDS_OF_NAMES}{meant}")


def _near_names(name: str) -> list[str]:
    """Valid names that an unknown one may mean, with its size if they have that."""
    family, dash, size = name.partition("-")
    if family in _OTHER_NAMES:
        families = [_OTHER_NAMES[family]]
    else:
        close = get_close_matches(name, names(), _NEAR, cutoff=0.8)
        if close or not dash:
            return close
        families = get_close_matches(family, FAMILIES, _NEAR, cutoff=0.8)
    return [f"{family}{dash}{size}" if dash and _is_device(f"{family}-{size}") else family for family in families]


def _is_device(name: str) -> bool:
    """Whether it is a device type, with a size or a topology that its family has."""
    match = _DEVICE_TYPE.fullmatch(name)
    if match is None:
        return False
    family, topology = match["family"], match["topology"]
    known = of_generation(FAMILIES[family]) if topology else device_types(family)
    return (topology or name) in known


def _device(text: str, family: str, size: str | None, topology: str | None) -> tuple[MachineType, str]:
    """The row and topology of a family and either a size or a topology."""
    accelerator = default_of(FAMILIES[family])
    sizes = device_types(family)
    known = of_generation(accelerator.generation)
    meant = sizes.get(f"{family}-{size}") if topology is None else topology
    if meant in known:
        return (single_chip(accelerator) if chips(meant) == 1 else accelerator), meant
    if topology is not None:
        others = ", ".join(f"{family}-{other}" for other in near(topology, known))
        return _refuse(f"{shown(text)}: {family} has no topology {topology}; near ones are {others}")
    wanted = int(size or 0)
    closest = sorted(sizes, key=lambda name: abs(int(name.rpartition("-")[2]) - wanted))[:_NEAR]
    listed = ", ".join(f"{name} ({sizes[name]})" for name in sizes if name in closest)
    return _refuse(f"{shown(text)} is no size of {family}, which counts TensorCores; near sizes are {listed}")


def _refuse(detail: str) -> NoReturn:
    raise RefusedValueError(InvalidReason.UNKNOWN_ACCELERATOR, detail)


_TOPOLOGY: Final = re.compile(r"[1-9][0-9]{0,5}(x[1-9][0-9]{0,5}){1,2}")
_EXAMPLES: Final = {2: "2x4", 3: "2x2x4"}
_SHOWN: Final = 13
"""Maximum of topologies in a message; of more, only near ones are listed."""


def topologies(accelerator: MachineType, *, strict: bool) -> tuple[str, ...]:
    """The topologies that a machine type may be given, ascending by chips.

    ``strict`` is the list of PathwaysJobs, which have seven machine types and nothing for others; else XPK's rule.
    """
    if strict:
        return of_job(accelerator.machine_type)
    if accelerator.machine_type in _ONE_VM:
        return (_ONE_VM[accelerator.machine_type],)
    return of_generation(accelerator.generation) if accelerator.chips_per_vm == _CHIPS_OF_VMS_THAT_JOIN else ()


def normalized(topology: str, accelerator: MachineType) -> str:
    """A topology in lower case without surrounding blanks; RefusedValueError for another form."""
    text = topology.strip().lower()
    if _TOPOLOGY.fullmatch(text) and text.count("x") + 1 == accelerator.dimensions:
        return text
    form = f"{accelerator.dimensions} positive numbers with x between them, such as {_EXAMPLES[accelerator.dimensions]}"
    wrong = f"{shown(topology)} is not one" if text else "it is empty"
    return _refuse_topology(f"a topology of {accelerator.generation} is {form}; {wrong}")


def slice_of(accelerator: MachineType, topology: str, *, strict: bool) -> Slice:
    """The slice of a topology; RefusedValueError if the machine type does not have it.

    One chip is on the machine type with one chip, whichever was named: ``1x1`` of ``ct6e-standard-4t``, which a
    PathwaysJob may say, selects nodes of ``ct6e-standard-1t``, and a pod that asks for four chips fits on none of them.
    """
    allowed = topologies(accelerator, strict=strict)
    if strict and not allowed:
        raise RefusedValueError(
            InvalidReason.UNKNOWN_ACCELERATOR,
            f"a PathwaysJob has no {accelerator.machine_type}; it may have {', '.join(MACHINE_TYPES_OF_JOBS)}",
        )
    text = normalized(topology, accelerator)
    if text not in allowed:
        _refuse_topology(_unknown(text, accelerator, allowed, strict=strict))
    return Slice(single_chip(accelerator) if chips(text) == 1 else accelerator, text)


def _unknown(topology: str, accelerator: MachineType, allowed: tuple[str, ...], *, strict: bool) -> str:
    """The message for a valid topology that the machine type does not have."""
    where = " in a PathwaysJob" if strict else ""
    refused = f"{accelerator.machine_type} has no topology {topology}{where}"
    if not allowed:
        return f"{refused}; GKE names none for it"
    if len(allowed) <= _SHOWN:
        return f"{refused}; it has {', '.join(allowed)}"
    others = ", ".join(near(topology, allowed))
    return f"{refused}; near ones are {others}; gangctl pathways accelerators {accelerator.machine_type} lists all"


def _refuse_topology(detail: str) -> NoReturn:
    raise RefusedValueError(InvalidReason.INVALID_TOPOLOGY, detail)
