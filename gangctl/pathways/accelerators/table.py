"""TPUs by all their names: the table of machine types, the lookup of a name, and the slice of a topology.

Names are looked up, never parsed and composed, so that an unknown name is rejected and not passed on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from typing import Final, NoReturn

from gangctl.errors import shown
from gangctl.pathways.accelerators import slices
from gangctl.pathways.accelerators.slices import Accelerator, Slice
from gangctl.pathways.problems import SHOWN, InvalidReason, RefusedValueError

_NEAR: Final = 3
"""Maximum of names that are suggested for an unknown one."""


ACCELERATORS: Final[tuple[Accelerator, ...]] = (
    # generation, machine type, label, key, chips of a VM, cores of a chip, dimensions
    Accelerator("v4", "ct4p-hightpu-4t", "tpu-v4-podslice", "tpuv4", 4, 2, 3),
    Accelerator("v5e", "ct5lp-hightpu-4t", "tpu-v5-lite-podslice", "tpuv5e", 4, 1, 2),
    Accelerator("v5e", "ct5lp-hightpu-1t", "tpu-v5-lite-podslice", "tpuv5e", 1, 1, 2),
    Accelerator("v5e", "ct5lp-hightpu-8t", "tpu-v5-lite-podslice", "tpuv5e1t", 8, 1, 2),
    Accelerator("v5p", "ct5p-hightpu-4t", "tpu-v5p-slice", "tpuv5", 4, 2, 3),
    Accelerator("v5p", "ct5p-hightpu-1t", "tpu-v5p-slice", "tpuv5", 1, 2, 3),
    Accelerator("v5p", "ct5p-hightpu-2t", "tpu-v5p-slice", "tpuv5", 2, 2, 3),
    Accelerator("v6e", "ct6e-standard-4t", "tpu-v6e-slice", "tpuv6e", 4, 1, 2),
    Accelerator("v6e", "ct6e-standard-1t", "tpu-v6e-slice", "tpuv6e", 1, 1, 2),
    Accelerator("v6e", "ct6e-standard-8t", "tpu-v6e-slice", "tpuv6e1t", 8, 1, 2),
    Accelerator("tpu7x", "tpu7x-standard-4t", "tpu7x", "tpu7x", 4, 2, 3),
    Accelerator("tpu7x", "tpu7x-standard-1t", "tpu7x", "tpu7x", 1, 2, 3),
    Accelerator("tpu7", "tpu7-standard-4t", "tpu7", "tpu7", 4, 2, 3),
    Accelerator("tpu7", "tpu7-standard-1t", "tpu7", "tpu7", 1, 2, 3),
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

_BY_MACHINE_TYPE: Final[Mapping[str, Accelerator]] = {each.machine_type: each for each in ACCELERATORS}


def default_of(generation: str) -> Accelerator:
    """The machine type that a generation's name alone means."""
    return next(each for each in ACCELERATORS if each.generation == generation)


def single_chip(accelerator: Accelerator) -> Accelerator:
    """The machine type of the same generation with one chip; itself where there is none."""
    return next(
        (each for each in ACCELERATORS if each.generation == accelerator.generation and each.chips_per_vm == 1),
        accelerator,
    )


@cache
def names() -> Mapping[str, Accelerator]:
    """Every name of a row without a topology: machine types, labels, families, keys."""
    rows = {each.machine_type: each for each in ACCELERATORS}
    firsts = [default_of(generation) for generation in FAMILIES.values()]
    rows |= {first.label: first for first in firsts}
    rows |= dict(zip(FAMILIES, firsts, strict=True))
    for each in ACCELERATORS:
        rows.setdefault(each.key, each)
    return rows


@cache
def device_types(family: str) -> Mapping[str, str]:
    """The sizes of a family, ascending: name as XPK has it (``v5p-8``, in TensorCores), and the topology it means."""
    accelerator = default_of(FAMILIES[family])
    return {
        f"{family}-{chips * accelerator.cores_per_chip}": topology
        for chips, topology in slices.by_chips(accelerator.generation).items()
    }


def by_machine_type(text: str) -> Accelerator:
    """The machine type, spelled as GKE spells it; RefusedValueError for any other."""
    found = _BY_MACHINE_TYPE.get(text)
    if found is None:
        _refuse(f"{shown(text)} is no machine type with TPUs; there are {', '.join(_BY_MACHINE_TYPE)}")
    return found


def find(text: str) -> tuple[Accelerator, str]:
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
    return [f"{each}{dash}{size}" if dash and _is_device(f"{each}-{size}") else each for each in families]


def _is_device(name: str) -> bool:
    """Whether it is a device type, with a size or a topology that its family has."""
    found = _DEVICE_TYPE.fullmatch(name)
    if found is None:
        return False
    family, topology = found["family"], found["topology"]
    known = slices.of_generation(FAMILIES[family]) if topology else device_types(family)
    return (topology or name) in known


def _device(text: str, family: str, size: str | None, topology: str | None) -> tuple[Accelerator, str]:
    """The row and topology of a family and either a size or a topology."""
    accelerator = default_of(FAMILIES[family])
    sizes = device_types(family)
    known = slices.of_generation(accelerator.generation)
    meant = sizes.get(f"{family}-{size}") if topology is None else topology
    if meant in known:
        return (single_chip(accelerator) if slices.chips(meant) == 1 else accelerator), meant
    if topology is not None:
        near = ", ".join(f"{family}-{each}" for each in slices.near(topology, known))
        return _refuse(f"{shown(text)}: {family} has no topology {topology}; near ones are {near}")
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


def topologies(accelerator: Accelerator, *, strict: bool) -> tuple[str, ...]:
    """The topologies that a machine type may be given, ascending by chips.

    ``strict`` is the list of PathwaysJobs, which have seven machine types and nothing for others; else XPK's rule.
    """
    return slices.of_job(accelerator.machine_type) if strict else slices.of_flags(accelerator)


def normalized(topology: str, accelerator: Accelerator) -> str:
    """A topology in lower case without surrounding blanks; RefusedValueError for another form."""
    text = topology.strip().lower()
    if _TOPOLOGY.fullmatch(text) and text.count("x") + 1 == accelerator.dimensions:
        return text
    form = f"{accelerator.dimensions} positive numbers with x between them, such as {_EXAMPLES[accelerator.dimensions]}"
    wrong = f"{shown(topology)} is not one" if text else "it is empty"
    return _refuse_topology(f"a topology of {accelerator.generation} is {form}; {wrong}")


def slice_of(accelerator: Accelerator, topology: str, *, strict: bool) -> Slice:
    """The slice of a topology; RefusedValueError if the machine type does not have it.

    One chip is on the machine type with one chip, whichever was named: ``1x1`` of ``ct6e-standard-4t``, which a
    PathwaysJob may say, selects nodes of ``ct6e-standard-1t``, and a pod that asks for four chips fits on none of them.
    """
    allowed = topologies(accelerator, strict=strict)
    if strict and not allowed:
        raise RefusedValueError(
            InvalidReason.UNKNOWN_ACCELERATOR,
            f"a PathwaysJob has no {accelerator.machine_type}; it may have {', '.join(slices.MACHINE_TYPES_OF_JOBS)}",
        )
    text = normalized(topology, accelerator)
    if text not in allowed:
        _refuse_topology(_unknown(text, accelerator, allowed, strict=strict))
    return Slice(single_chip(accelerator) if slices.chips(text) == 1 else accelerator, text)


def _unknown(topology: str, accelerator: Accelerator, allowed: tuple[str, ...], *, strict: bool) -> str:
    """The message for a valid topology that the machine type does not have."""
    where = " in a PathwaysJob" if strict else ""
    refused = f"{accelerator.machine_type} has no topology {topology}{where}"
    if not allowed:
        return f"{refused}; GKE names none for it"
    if len(allowed) <= _SHOWN:
        return f"{refused}; it has {', '.join(allowed)}"
    near = ", ".join(slices.near(topology, allowed))
    return f"{refused}; near ones are {near}; gangctl pathways accelerators {accelerator.machine_type} lists all"


def _refuse_topology(detail: str) -> NoReturn:
    raise RefusedValueError(InvalidReason.INVALID_TOPOLOGY, detail)
