"""Values of the options, beyond their types, and which machines can have slices of less than a pool, or of more."""

from __future__ import annotations

import re
from typing import Final

from gangctl.errors import shown
from gangctl.gang.config import LABEL_KEY
from gangctl.gang.plan import INT32_MAX
from gangctl.pathways.accelerators.slices import Slice
from gangctl.pathways.checks.findings import Findings
from gangctl.pathways.checks.template import check_amounts
from gangctl.pathways.options import Slicing
from gangctl.pathways.problems import InvalidReason
from gangctl.pathways.words import option_path

_KEY: Final = re.compile(LABEL_KEY)
_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_CUBE: Final = 4
"""Side of the cubes that larger slices of tpu7x are made of."""
_SUB: Final = "parts of a slice exist for ct6e-standard-4t with a topology of at least 2x4"
_SUPER: Final = "slices of several cubes exist for tpu7x-standard-4t, with topologies whose sides are multiples of 4"


def check_options(found: Findings) -> None:
    """Rules of Kubernetes beyond the types; the subdomain is checked with the name."""
    options = found.job.options
    for key, value in (options.head_node_selector or {}).items():
        if not _KEY.fullmatch(key) or not _VALUE.fullmatch(value):
            detail = f"{shown(key)}: {shown(value)} is not a label of a node"
            found.refuse(InvalidReason.INVALID_OPTIONS, option_path("headNodeSelector"), detail)
    for index, prefix in enumerate(options.drop_metadata or ()):
        if not prefix.strip():
            detail = "must not be empty: every label and annotation begins so"
            found.refuse(InvalidReason.INVALID_OPTIONS, option_path(f"dropMetadata[{index}]"), detail)
    for name, seconds in (
        ("ttlSecondsAfterFinished", options.ttl_seconds_after_finished),
        ("unreachableTimeoutSeconds", options.unreachable_timeout_seconds),
    ):
        if seconds is not None and seconds > INT32_MAX:
            found.refuse(InvalidReason.INVALID_OPTIONS, option_path(name), f"must be at most {INT32_MAX} seconds")
    _check_head_resources(found)


def _check_head_resources(found: Findings) -> None:
    resources = found.job.options.head_resources
    if resources is None:
        return
    for name, each in (("resourceManager", resources.resource_manager), ("proxy", resources.proxy)):
        if each is not None:
            check_amounts(found, option_path(f"headResources.{name}"), each.requests or {}, each.limits or {})


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
