"""Parts of the spec: the group of workers, which are the slices, and changes to gangctl's containers."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from gangctl.api.objects import Reader
from gangctl.errors import ErrorKind, shown
from gangctl.pathways.accelerators.shapes import MACHINE_TYPES_OF_JOBS
from gangctl.pathways.accelerators.slices import Slice
from gangctl.pathways.accelerators.table import by_machine_type
from gangctl.pathways.accelerators.topologies import slice_of
from gangctl.pathways.job import DEFAULT_SLICE_RESTARTS, Component, ComponentType, PathwaysJob
from gangctl.pathways.problems import InvalidReason, Problem, RefusedValueError, listed, near, problem
from gangctl.pathways.reading.fields import MOST_ENTRIES, signed, texts
from gangctl.pathways.reading.podtemplate import read_environment

ANY_SLICE: Final = slice_of(by_machine_type("ct5p-hightpu-4t"), "2x2x1", strict=True)
"""Placeholder while a job is read; it is replaced before use."""


def read_workers(spec: Reader, job: PathwaysJob, problems: list[Problem]) -> tuple[PathwaysJob, bool]:
    """The job with its workers, and whether its slice is known; if not, it has a placeholder."""
    groups = spec.children("workers", MOST_ENTRIES)
    job = replace(job, slices=max(1, job.elastic_slices + 1))
    if len(groups) != 1:
        detail = f"must be exactly one group of workers, got {len(groups)}"
        kind = ErrorKind.TOO_MANY if groups else ErrorKind.REQUIRED
        problems.append(problem(InvalidReason.INVALID_WORKERS, "spec.workers", detail, kind))
        return job, False
    (group,) = groups
    slices = signed(group, "numSlices")
    if group.value.get("numSlices") is None:
        detail = "is required: how many slices, at least 1"
        problems.append(
            problem(InvalidReason.INVALID_NUM_SLICES, f"{group.path}.numSlices", detail, ErrorKind.REQUIRED)
        )
    restarts = signed(group, "maxSliceRestarts")
    found = _read_slice(group, problems)
    job = replace(
        job,
        slice=found or ANY_SLICE,
        slices=job.slices if slices is None else slices,
        max_slice_restarts=DEFAULT_SLICE_RESTARTS if restarts is None else restarts,
        worker_grace_seconds=signed(group, "terminationGracePeriodSeconds", 64),
        worker_priority_class=group.string("priorityClassName"),
        worker_node_selector=dict(group.strings("nodeSelector")),
    )
    return job, found is not None


def _read_slice(group: Reader, problems: list[Problem]) -> Slice | None:
    machine, topology = group.string("type"), group.string("topology")
    if machine not in MACHINE_TYPES_OF_JOBS:
        said = f"unsupported machine type {shown(machine)}" if machine else "is required"
        detail = f"{said}{near(machine, MACHINE_TYPES_OF_JOBS)}, allowed: {listed(MACHINE_TYPES_OF_JOBS)}"
        kind = ErrorKind.NOT_SUPPORTED if machine else ErrorKind.REQUIRED
        problems.append(problem(InvalidReason.UNKNOWN_ACCELERATOR, f"{group.path}.type", detail, kind))
        return None
    try:
        return slice_of(by_machine_type(machine), topology, strict=True)
    except RefusedValueError as refused:
        problems.append(problem(refused.reason, f"{group.path}.topology", refused.detail))
        return None


def read_components(spec: Reader, problems: list[Problem]) -> dict[ComponentType, Component]:
    """The entries of ``spec.customComponents`` by their container."""
    components: dict[ComponentType, Component] = {}
    for entry in spec.children("customComponents", MOST_ENTRIES):
        component = Component(
            entry.path, entry.string("image"), texts(entry, "customFlags"), read_environment(entry, "customEnv")
        )
        kind = _read_component_type(entry, problems)
        if kind is not None and kind in components:
            detail = f'a second entry for "{kind}", the first is {components[kind].path}: write one entry for each'
            path = f"{entry.path}.componentType"
            problems.append(problem(InvalidReason.INVALID_COMPONENT, path, detail, ErrorKind.DUPLICATE))
        elif kind is not None:
            components[kind] = component
    return components


def _read_component_type(entry: Reader, problems: list[Problem]) -> ComponentType | None:
    value = entry.string("componentType")
    for kind in ComponentType:
        if kind == value:
            return kind
    said = f"unsupported value {shown(value)}" if value else "is required"
    detail = f"{said}{near(value, ComponentType)}, allowed: {listed(ComponentType)}"
    error = ErrorKind.NOT_SUPPORTED if value else ErrorKind.REQUIRED
    problems.append(problem(InvalidReason.INVALID_COMPONENT, f"{entry.path}.componentType", detail, error))
    return None
