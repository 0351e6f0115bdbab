"""From a raw object to a PathwaysJob that can be rendered, or to all its problems.

Types are checked first. If all are valid, all rules of :mod:`gangctl.pathways.checks` are checked, too, so that one
result has all problems.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any, Final

from pydantic import ValidationError
from pydantic.alias_generators import to_camel

from gangctl.api.jobset import GENERATED
from gangctl.api.meta import GANG_MODE, GANG_OPTIONS, GANGS
from gangctl.api.modelerrors import message_of
from gangctl.api.objects import Reader
from gangctl.errors import ErrorKind, FieldError, shown
from gangctl.gang.config import JOBSET_MODES, REPLICATED_JOB_MODES, GangMode, check_members, parse_gangs, read_options
from gangctl.gang.reasons import Notice
from gangctl.pathways import podtemplate, words
from gangctl.pathways.accelerators import MACHINE_TYPES_OF_JOBS, Slice, by_machine_type, slice_of
from gangctl.pathways.checks import check, check_without_slice
from gangctl.pathways.job import (
    DEFAULT_MAIN_CONTAINER,
    DEFAULT_SLICE_RESTARTS,
    ComponentChanges,
    ComponentType,
    DeploymentMode,
    PathwaysJob,
    together,
)
from gangctl.pathways.options import PathwaysOptions
from gangctl.pathways.problems import MOST_PROBLEMS, InvalidReason, Problem, RefusedValueError, listed, near, problem
from gangctl.pathways.result import Origin, OriginKind

_MOST_ERRORS: Final = 20


def read_modes(annotations: Mapping[str, str], problems: list[Problem]) -> tuple[GangMode | None, GangMode | None]:
    """The requested modes: of head and workers together, and of the workers."""
    hint = f"; groups of the workers alone are asked for with {words.WORKER_MODE}"
    together = _mode(annotations, GANG_MODE, JOBSET_MODES, hint, problems)
    worker = _mode(annotations, words.WORKER_MODE, REPLICATED_JOB_MODES, "", problems)
    if (listed_gangs := annotations.get(GANGS)) is not None:
        if together is not None or worker is not None:
            detail = f"must not stand beside {GANG_MODE} or {words.WORKER_MODE}: write one of them"
            problems.append(
                problem(InvalidReason.INVALID_GANG_MODE, words.annotation(GANGS), detail, ErrorKind.FORBIDDEN)
            )
        together, worker = _modes_of(listed_gangs, problems)
    if (text := annotations.get(GANG_OPTIONS)) is not None:
        errors: list[FieldError] = []
        read_options(text, words.annotation(GANG_OPTIONS), errors)
        problems += (Problem(InvalidReason.INVALID_OPTIONS, error) for error in errors)
    return together, worker


def _modes_of(text: str, problems: list[Problem]) -> tuple[GangMode | None, GangMode | None]:
    """The modes that a list of gangs means for the head and the workers."""
    gangs, errors = parse_gangs(text)
    errors = (*errors, *check_members(gangs, (words.HEAD, words.WORKER)))
    problems += (Problem(InvalidReason.INVALID_GANG_MODE, error) for error in errors)
    gang = next((gang for gang in gangs if words.WORKER in gang.replicated_jobs), None)
    if gang is None:
        return None, GangMode.OFF
    if words.HEAD in gang.replicated_jobs:
        return GangMode.GANG, None
    return None, GangMode.REPLICATED_GANG if gang.per_replica else GangMode.GANG


def _mode(
    annotations: Mapping[str, str], key: str, allowed: Sequence[GangMode], hint: str, problems: list[Problem]
) -> GangMode | None:
    value = annotations.get(key)
    if value is None:
        return None
    choice = next((mode for mode in allowed if mode == value), None)
    if choice is None:
        detail = f"unsupported value {shown(value)}, allowed (case-sensitive): {listed(allowed)}"
        text = f"{detail}{hint if value == GangMode.REPLICATED_GANG else ''}"
        problems.append(problem(InvalidReason.INVALID_GANG_MODE, words.annotation(key), text, ErrorKind.NOT_SUPPORTED))
    return choice


def read_pathways_options(text: str, problems: list[Problem]) -> PathwaysOptions:
    """The JSON of annotation ``gangctl.dev/pathways-options``; no options if it is invalid."""
    try:
        # The model takes the names of Python, too, which flags give: an annotation has one spelling only.
        return PathwaysOptions.model_validate_json(text, by_alias=True, by_name=False)
    except ValidationError as wrong:
        names = [to_camel(name) for name in PathwaysOptions.model_fields]
        for error in wrong.errors(include_url=False, include_context=False, include_input=False)[:_MOST_ERRORS]:
            problems.append(_option_problem(dict(error), names))
        return PathwaysOptions()


def _option_problem(error: Mapping[str, Any], names: Collection[str]) -> Problem:
    steps = [str(step) for step in error["loc"]]
    path = ".".join([words.OPTIONS_PATH, *steps])
    if error["type"] != "extra_forbidden":
        kind = ErrorKind.NOT_SUPPORTED if error["type"] in {"enum", "literal_error"} else ErrorKind.INVALID
        detail = message_of(error) if steps else f"{message_of(error)}; a JSON object with: {listed(names)}"
        return problem(InvalidReason.INVALID_OPTIONS, path, detail, kind)
    if len(steps) > 1:
        return problem(InvalidReason.INVALID_OPTIONS, path, "unknown option", ErrorKind.FORBIDDEN)
    detail = f"unknown option{near(steps[0], names)}, allowed: {listed(names)}"
    return problem(InvalidReason.INVALID_OPTIONS, path, detail, ErrorKind.FORBIDDEN)


ANY_SLICE: Final = slice_of(by_machine_type("ct5p-hightpu-4t"), "2x2x1", strict=True)
"""Placeholder while a job is read; it is replaced before use."""


def read_workers(spec: Reader, job: PathwaysJob, problems: list[Problem]) -> tuple[PathwaysJob, bool]:
    """The job with its workers, and whether its slice is known; if not, it has a placeholder."""
    groups = spec.children("workers", podtemplate.MOST_ENTRIES)
    # Until it is known: the wrong number of slices must not be reported as too many elastic ones.
    job = replace(job, slices=max(1, job.elastic_slices + 1))
    if len(groups) != 1:
        detail = f"must be exactly one group of workers, got {len(groups)}"
        kind = ErrorKind.TOO_MANY if groups else ErrorKind.REQUIRED
        problems.append(problem(InvalidReason.INVALID_WORKERS, "spec.workers", detail, kind))
        return job, False
    (group,) = groups
    slices = podtemplate.signed(group, "numSlices")
    if group.value.get("numSlices") is None:
        detail = "is required: how many slices, at least 1"
        problems.append(
            problem(InvalidReason.INVALID_NUM_SLICES, f"{group.path}.numSlices", detail, ErrorKind.REQUIRED)
        )
    restarts = podtemplate.signed(group, "maxSliceRestarts")
    tpu_slice = _read_slice(group, problems)
    job = replace(
        job,
        slice=tpu_slice or ANY_SLICE,
        slices=job.slices if slices is None else slices,
        max_slice_restarts=DEFAULT_SLICE_RESTARTS if restarts is None else restarts,
        worker_grace_seconds=podtemplate.signed(group, "terminationGracePeriodSeconds", 64),
        worker_priority_class=group.string("priorityClassName"),
        worker_node_selector=dict(group.strings("nodeSelector")),
    )
    return job, tpu_slice is not None


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


def read_components(spec: Reader, problems: list[Problem]) -> dict[ComponentType, ComponentChanges]:
    """The entries of ``spec.customComponents`` by their container."""
    components: dict[ComponentType, ComponentChanges] = {}
    for entry in spec.children("customComponents", podtemplate.MOST_ENTRIES):
        component = ComponentChanges(
            entry.path,
            entry.string("image"),
            podtemplate.texts(entry, "customFlags"),
            podtemplate.read_environment(entry, "customEnv"),
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


_NO_OPTIONS: Final = PathwaysOptions()
_OBJECT: Final = ("apiVersion", "kind", "metadata", "spec", "status")
_SPEC: Final = ("maxRestarts", "pathwaysDir", "pathwaysVersion", "workers", "controller", "customComponents")
_WORKER: Final = (
    "type", "topology", "numSlices", "maxSliceRestarts", "terminationGracePeriodSeconds", "priorityClassName",
    "nodeSelector",
)  # fmt: skip
_CONTROLLER: Final = ("deploymentMode", "mainContainerName", "enableMetricsCollection", "template", "elasticSlices")
_COMPONENT: Final = ("componentType", "image", "customFlags", "customEnv")
_VARIABLE: Final = ("name", "value", "valueFrom")


@dataclass(frozen=True, slots=True)
class Reading:
    """The result: ``job`` is None if and only if there are problems."""

    job: PathwaysJob | None
    problems: tuple[Problem, ...]
    notices: tuple[Notice, ...] = ()


def read_pathways_job(
    raw: Mapping[str, Any], defaults: PathwaysOptions = _NO_OPTIONS, *, cluster_checked: bool = False
) -> Reading:
    """Read an object of any content; it is not changed, and the result shares no values with it.

    ``defaults`` are options for jobs without their own. ``cluster_checked`` is whether an API server stored the
    object, so that it has a name, and unknown fields are those of another release.
    """
    errors: list[FieldError] = []
    problems: list[Problem] = []
    root = Reader(raw, "", errors)
    spec = root.child("spec")
    if not cluster_checked:
        for key, wanted in (("apiVersion", words.API_VERSION), ("kind", words.KIND)):
            value = root.optional_string(key)
            if root.value.get(key) is None:
                _require(key, problems, f": {wanted}")
            elif value not in {None, wanted}:
                detail = f"unsupported value {shown(value)}, allowed: {wanted}"
                problems.append(problem(InvalidReason.MALFORMED, key, detail, ErrorKind.NOT_SUPPORTED))
        problems += (Problem(InvalidReason.MALFORMED, error) for error in _unknown_fields(raw))
    job = _read_identity(root, PathwaysJob(name="", slice=ANY_SLICE, slices=1, mode=DeploymentMode.DEFAULT), problems)
    job = _read_controller(spec, job, problems)
    text = job.annotations.get(words.OPTIONS)
    own = _NO_OPTIONS if text is None else read_pathways_options(text, problems)
    job = replace(job, options=own.over(defaults))
    if own.startup is None and together(job):
        # A default of the cluster that this job cannot use: it gets the order that it needs.
        job = replace(job, options=job.options.model_copy(update={"startup": None}))
    job = replace(job, components=read_components(spec, problems))
    job, whole = read_workers(spec, job, problems)
    job = replace(job, sources=_left_out(spec.value))
    if errors:
        return Reading(None, _with_types_first(errors, problems))
    broken, notices = check(job) if whole else (check_without_slice(job), ())
    problems += broken
    return Reading(None, tuple(problems[:MOST_PROBLEMS])) if problems else Reading(job, (), notices)


def _left_out(spec: Mapping[str, Any]) -> dict[str, Origin]:
    """Absent fields with a default: their values are not the user's."""
    groups = spec.get("workers")
    group = groups[0] if isinstance(groups, list) and groups and isinstance(groups[0], Mapping) else {}
    places = {
        "spec.maxRestarts": spec.get("maxRestarts"),
        "spec.pathwaysDir": spec.get("pathwaysDir"),
        "spec.workers[0].maxSliceRestarts": group.get("maxSliceRestarts"),
    }
    return {path: Origin(OriginKind.DEFAULT, path) for path, value in places.items() if value is None}


def _with_types_first(errors: list[FieldError], problems: list[Problem]) -> tuple[Problem, ...]:
    """Type errors, and other problems that do not follow from these."""
    places = [error.path for error in errors]
    others = (other for other in problems if not any(other.error.path.startswith(place) for place in places))
    return tuple(islice(chain((Problem(InvalidReason.MALFORMED, error) for error in errors), others), MOST_PROBLEMS))


def _unknown_fields(raw: Mapping[str, Any]) -> list[FieldError]:
    """Fields that an API server would prune silently: in a file they are errors."""
    errors: list[FieldError] = []
    root = Reader(raw, "", errors)
    spec = root.child("spec")
    podtemplate.refuse_unknown(root, _OBJECT)
    podtemplate.refuse_unknown(spec, _SPEC)
    podtemplate.refuse_unknown(spec.child("controller"), _CONTROLLER)
    for worker in spec.children("workers", podtemplate.MOST_ENTRIES):
        podtemplate.refuse_unknown(worker, _WORKER)
    for component in spec.children("customComponents", podtemplate.MOST_ENTRIES):
        podtemplate.refuse_unknown(component, _COMPONENT)
        for variable in component.children("customEnv", podtemplate.MOST_VARIABLES):
            podtemplate.refuse_unknown(variable, _VARIABLE)
    # Wrong types are reported where the fields are read.
    return [error for error in errors if error.kind is ErrorKind.FORBIDDEN]


def _read_identity(root: Reader, job: PathwaysJob, problems: list[Problem]) -> PathwaysJob:
    metadata = root.child("metadata")
    name, prefix = metadata.string("name"), metadata.string("generateName")
    if not name and not prefix:
        detail = "a PathwaysJob needs a name or a generateName"
        problems.append(problem(InvalidReason.INVALID_NAME, "metadata.name", detail, ErrorKind.REQUIRED))
    annotations = metadata.strings("annotations")
    gang_mode, worker_mode = read_modes(annotations, problems)
    return replace(
        job,
        name=name or (f"{prefix}{GENERATED}" if prefix else ""),
        namespace=metadata.string("namespace"),
        uid=metadata.string("uid"),
        labels=dict(metadata.strings("labels")),
        annotations=dict(annotations),
        gang_mode=gang_mode,
        worker_mode=worker_mode,
    )


def _read_controller(spec: Reader, job: PathwaysJob, problems: list[Problem]) -> PathwaysJob:
    controller = spec.child("controller")
    mode = DeploymentMode.DEFAULT
    if spec.value.get("controller") is None:
        _require("spec.controller", problems)
    else:
        mode = _read_mode(controller, problems)
    return replace(
        job,
        max_restarts=podtemplate.signed(spec, "maxRestarts") or 0,
        pathways_dir=spec.string("pathwaysDir"),
        pathways_version=spec.string("pathwaysVersion"),
        mode=mode,
        main_container=controller.string("mainContainerName") or DEFAULT_MAIN_CONTAINER,
        metrics=controller.boolean("enableMetricsCollection"),
        template=podtemplate.read_template(controller),
        elastic_slices=podtemplate.signed(controller, "elasticSlices") or 0,
    )


def _read_mode(controller: Reader, problems: list[Problem]) -> DeploymentMode:
    value = controller.optional_string("deploymentMode")
    path = "spec.controller.deploymentMode"
    for mode in DeploymentMode:
        if mode == value:
            return mode
    if value is not None:
        detail = f"unsupported value {shown(value)}{near(value, DeploymentMode)}, allowed: {listed(DeploymentMode)}"
        problems.append(problem(InvalidReason.MALFORMED, path, detail, ErrorKind.NOT_SUPPORTED))
    elif controller.value.get("deploymentMode") is None:
        _require(path, problems, f", allowed: {listed(DeploymentMode)}")
    return DeploymentMode.DEFAULT


def _require(path: str, problems: list[Problem], more: str = "") -> None:
    problems.append(problem(InvalidReason.MALFORMED, path, f"is required{more}", ErrorKind.REQUIRED))
