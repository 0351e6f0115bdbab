"""From a raw object to a PathwaysJob that can be rendered, or to all its problems.

Types are checked first. If all are valid, all rules of :mod:`gangctl.pathways.checks` are checked, too, so
that one result has all problems.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any, Final

from gangctl.api.objects import Reader
from gangctl.errors import ErrorKind, FieldError, shown
from gangctl.gang.reasons import Notice
from gangctl.pathways.checks.check import check, check_without_slice
from gangctl.pathways.gangs import together
from gangctl.pathways.job import DEFAULT_MAIN_CONTAINER, DeploymentMode, PathwaysJob
from gangctl.pathways.options import PathwaysOptions
from gangctl.pathways.origins import Origin, OriginKind
from gangctl.pathways.problems import MOST_PROBLEMS, InvalidReason, Problem, listed, near, problem
from gangctl.pathways.reading.annotations import read_modes, read_pathways_options
from gangctl.pathways.reading.fields import MOST_ENTRIES, refuse_unknown, signed
from gangctl.pathways.reading.podtemplate import MOST_VARIABLES, read_template
from gangctl.pathways.reading.spec import ANY_SLICE, read_components, read_workers
from gangctl.pathways.words import API_VERSION, GROUP, KIND, OPTIONS

GENERATED: Final = "xxxxx"
"""Placeholder for the five characters that the API server appends to ``generateName``."""

_NO_OPTIONS: Final = PathwaysOptions()
_OBJECT: Final = ("apiVersion", "kind", "metadata", "spec", "status")
_SPEC: Final = ("maxRestarts", "pathwaysDir", "pathwaysVersion", "workers", "controller", "customComponents")
_WORKER: Final = (
    "type",
    "topology",
    "numSlices",
    "maxSliceRestarts",
    "terminationGracePeriodSeconds",
    "priorityClassName",
    "nodeSelector",
)
_CONTROLLER: Final = ("deploymentMode", "mainContainerName", "enableMetricsCollection", "template", "elasticSlices")
_COMPONENT: Final = ("componentType", "image", "customFlags", "customEnv")
_VARIABLE: Final = ("name", "value", "valueFrom")


@dataclass(frozen=True, slots=True)
class Reading:
    """The result: ``job`` is None if and only if there are problems."""

    job: PathwaysJob | None
    problems: tuple[Problem, ...]
    notices: tuple[Notice, ...] = ()


def is_pathways_job(value: Mapping[str, Any]) -> bool:
    """Whether an object is a PathwaysJob, in any version."""
    group, _, _ = str(value.get("apiVersion", "")).partition("/")
    return group == GROUP and value.get("kind") == KIND


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
        _check_identity(root, problems)
        problems += (Problem(InvalidReason.MALFORMED, error) for error in _unknown_fields(raw))
    job = _read_identity(root, PathwaysJob(name="", slice=ANY_SLICE, slices=1, mode=DeploymentMode.DEFAULT), problems)
    job = _read_options(_read_controller(spec, job, problems), defaults, problems)
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
    others = (each for each in problems if not any(each.error.path.startswith(place) for place in places))
    return tuple(islice(chain((Problem(InvalidReason.MALFORMED, error) for error in errors), others), MOST_PROBLEMS))


def _check_identity(root: Reader, problems: list[Problem]) -> None:
    for key, wanted in (("apiVersion", API_VERSION), ("kind", KIND)):
        found = root.optional_string(key)
        if root.value.get(key) is None:
            _require(key, problems, f": {wanted}")
        elif found not in {None, wanted}:
            detail = f"unsupported value {shown(found)}, allowed: {wanted}"
            problems.append(problem(InvalidReason.MALFORMED, key, detail, ErrorKind.NOT_SUPPORTED))


def _unknown_fields(raw: Mapping[str, Any]) -> list[FieldError]:
    """Fields that an API server would prune silently: in a file they are errors."""
    errors: list[FieldError] = []
    root = Reader(raw, "", errors)
    spec = root.child("spec")
    refuse_unknown(root, _OBJECT)
    refuse_unknown(spec, _SPEC)
    refuse_unknown(spec.child("controller"), _CONTROLLER)
    for worker in spec.children("workers", MOST_ENTRIES):
        refuse_unknown(worker, _WORKER)
    for component in spec.children("customComponents", MOST_ENTRIES):
        refuse_unknown(component, _COMPONENT)
        for variable in component.children("customEnv", MOST_VARIABLES):
            refuse_unknown(variable, _VARIABLE)
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


def _read_options(job: PathwaysJob, defaults: PathwaysOptions, problems: list[Problem]) -> PathwaysJob:
    text = job.annotations.get(OPTIONS)
    own = _NO_OPTIONS if text is None else read_pathways_options(text, problems)
    job = replace(job, options=own.over(defaults))
    if own.startup is None and together(job):
        # A default of the cluster that this job cannot use: it gets the order that it needs.
        job = replace(job, options=job.options.model_copy(update={"startup": None}))
    return job


def _read_controller(spec: Reader, job: PathwaysJob, problems: list[Problem]) -> PathwaysJob:
    controller = spec.child("controller")
    if spec.value.get("controller") is None:
        _require("spec.controller", problems)
    return replace(
        job,
        max_restarts=signed(spec, "maxRestarts") or 0,
        pathways_dir=spec.string("pathwaysDir"),
        pathways_version=spec.string("pathwaysVersion"),
        mode=_read_mode(controller, problems),
        main_container=controller.string("mainContainerName") or DEFAULT_MAIN_CONTAINER,
        metrics=controller.boolean("enableMetricsCollection"),
        template=read_template(controller),
        elastic_slices=signed(controller, "elasticSlices") or 0,
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
    elif controller.value.get("deploymentMode") is None and controller.value:
        _require(path, problems, f", allowed: {listed(DeploymentMode)}")
    return DeploymentMode.DEFAULT


def _require(path: str, problems: list[Problem], more: str = "") -> None:
    problems.append(problem(InvalidReason.MALFORMED, path, f"is required{more}", ErrorKind.REQUIRED))
