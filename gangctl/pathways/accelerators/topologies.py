"""Slices by the user's names: the topologies of a machine type, and the slice of a topology."""

from __future__ import annotations

import re
from typing import Final, NoReturn

from gangctl.errors import shown
from gangctl.pathways.accelerators import shapes
from gangctl.pathways.accelerators.slices import Accelerator, Slice
from gangctl.pathways.accelerators.table import single_chip
from gangctl.pathways.problems import InvalidReason, RefusedValueError

_TOPOLOGY: Final = re.compile(r"[1-9][0-9]{0,5}(x[1-9][0-9]{0,5}){1,2}")
_EXAMPLES: Final = {2: "2x4", 3: "2x2x4"}
_SHOWN: Final = 13
"""Maximum of topologies in a message; of more, only near ones are listed."""


def topologies(accelerator: Accelerator, *, strict: bool) -> tuple[str, ...]:
    """The topologies that a machine type may be given, ascending by chips.

    ``strict`` is the list of PathwaysJobs, which have seven machine types and nothing for others; else XPK's rule.
    """
    return shapes.of_job(accelerator.machine_type) if strict else shapes.of_flags(accelerator)


def normalized(topology: str, accelerator: Accelerator) -> str:
    """A topology in lower case without surrounding blanks; RefusedValueError for another form."""
    text = topology.strip().lower()
    if _TOPOLOGY.fullmatch(text) and text.count("x") + 1 == accelerator.dimensions:
        return text
    form = f"{accelerator.dimensions} positive numbers with x between them, such as {_EXAMPLES[accelerator.dimensions]}"
    wrong = f"{shown(topology)} is not one" if text else "it is empty"
    return _refuse(f"a topology of {accelerator.generation} is {form}; {wrong}")


def slice_of(accelerator: Accelerator, topology: str, *, strict: bool) -> Slice:
    """The slice of a topology; RefusedValueError if the machine type does not have it.

    One chip is on the machine type with one chip, whichever was named: ``1x1`` of ``ct6e-standard-4t``, which a
    PathwaysJob may say, selects nodes of ``ct6e-standard-1t``, and a pod that asks for four chips fits on none of them.
    """
    allowed = topologies(accelerator, strict=strict)
    if strict and not allowed:
        raise RefusedValueError(
            InvalidReason.UNKNOWN_ACCELERATOR,
            f"a PathwaysJob has no {accelerator.machine_type}; it may have {', '.join(shapes.MACHINE_TYPES_OF_JOBS)}",
        )
    text = normalized(topology, accelerator)
    if text not in allowed:
        _refuse(_unknown(text, accelerator, allowed, strict=strict))
    return Slice(single_chip(accelerator) if shapes.chips(text) == 1 else accelerator, text)


def _unknown(topology: str, accelerator: Accelerator, allowed: tuple[str, ...], *, strict: bool) -> str:
    """The message for a valid topology that the machine type does not have."""
    where = " in a PathwaysJob" if strict else ""
    refused = f"{accelerator.machine_type} has no topology {topology}{where}"
    if not allowed:
        return f"{refused}; GKE names none for it"
    if len(allowed) <= _SHOWN:
        return f"{refused}; it has {', '.join(allowed)}"
    near = ", ".join(shapes.near(topology, allowed))
    return f"{refused}; near ones are {near}; gangctl pathways accelerators {accelerator.machine_type} lists all"


def _refuse(detail: str) -> NoReturn:
    raise RefusedValueError(InvalidReason.INVALID_TOPOLOGY, detail)
