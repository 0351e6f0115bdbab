"""Slices that are less than a node pool, or more: which machines can have them."""

from __future__ import annotations

from typing import Final

from gangctl.pathways.accelerators.slices import Slice
from gangctl.pathways.checks.findings import Findings
from gangctl.pathways.options import Slicing
from gangctl.pathways.paths import option_path
from gangctl.pathways.problems import InvalidReason

_CUBE: Final = 4
"""Side of the cubes that larger slices of tpu7x are made of."""
_SUB: Final = "parts of a slice exist for ct6e-standard-4t with a topology of at least 2x4"
_SUPER: Final = "slices of several cubes exist for tpu7x-standard-4t, with topologies whose sides are multiples of 4"


def check_slicing(found: Findings) -> None:
    """Option ``slicing`` is possible for the slice."""
    slicing, part = found.job.options.slicing, found.job.slice
    refused = ""
    if slicing is Slicing.SUB and not _can_be_part(part):
        refused = _SUB
    elif slicing is Slicing.SUPER and not _is_of_cubes(part):
        refused = _SUPER
    if refused:
        detail = f"{slicing} is not possible with {part.accelerator.machine_type} {part.topology}: {refused}"
        found.refuse(InvalidReason.INVALID_SLICING, option_path("slicing"), detail)


def _can_be_part(part: Slice) -> bool:
    return part.accelerator.machine_type == "ct6e-standard-4t" and part.vms > 1


def _is_of_cubes(part: Slice) -> bool:
    sides = [int(side) for side in part.topology.split("x")]
    return part.accelerator.generation == "tpu7x" and all(side % _CUBE == 0 for side in sides)
