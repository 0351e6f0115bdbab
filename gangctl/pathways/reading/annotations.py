"""Annotations of a PathwaysJob: gangs, and options."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from pydantic import ValidationError
from pydantic.alias_generators import to_camel

from gangctl.api.meta import GANG_MODE, GANG_OPTIONS, GANGS
from gangctl.api.modelerrors import message_of
from gangctl.errors import ErrorKind, FieldError, shown
from gangctl.gang.config import JOBSET_MODES, REPLICATED_JOB_MODES, GangMode, check_members, parse_gangs, read_options
from gangctl.pathways.options import PathwaysOptions
from gangctl.pathways.problems import InvalidReason, Problem, listed, near, problem
from gangctl.pathways.words import HEAD, OPTIONS_PATH, WORKER, WORKER_MODE, annotation

_MOST_ERRORS: Final = 20


def read_modes(annotations: Mapping[str, str], problems: list[Problem]) -> tuple[GangMode | None, GangMode | None]:
    """The requested modes: of head and workers together, and of the workers."""
    hint = f"; groups of the workers alone are asked for with {WORKER_MODE}"
    together = _mode(annotations, GANG_MODE, JOBSET_MODES, hint, problems)
    worker = _mode(annotations, WORKER_MODE, REPLICATED_JOB_MODES, "", problems)
    if (listed_gangs := annotations.get(GANGS)) is not None:
        if together is not None or worker is not None:
            detail = f"must not stand beside {GANG_MODE} or {WORKER_MODE}: write one of them"
            problems.append(problem(InvalidReason.INVALID_GANG_MODE, annotation(GANGS), detail, ErrorKind.FORBIDDEN))
        together, worker = _modes_of(listed_gangs, problems)
    if (text := annotations.get(GANG_OPTIONS)) is not None:
        errors: list[FieldError] = []
        read_options(text, annotation(GANG_OPTIONS), errors)
        problems += (Problem(InvalidReason.INVALID_OPTIONS, error) for error in errors)
    return together, worker


def _modes_of(text: str, problems: list[Problem]) -> tuple[GangMode | None, GangMode | None]:
    """The modes that a list of gangs means for the head and the workers."""
    found, errors = parse_gangs(text)
    errors = (*errors, *check_members(found, (HEAD, WORKER)))
    problems += (Problem(InvalidReason.INVALID_GANG_MODE, error) for error in errors)
    gang = next((each for each in found if WORKER in each.replicated_jobs), None)
    if gang is None:
        return None, GangMode.OFF
    if HEAD in gang.replicated_jobs:
        return GangMode.GANG, None
    return None, GangMode.REPLICATED_GANG if gang.per_replica else GangMode.GANG


def _mode(
    annotations: Mapping[str, str], key: str, allowed: Sequence[GangMode], hint: str, problems: list[Problem]
) -> GangMode | None:
    value = annotations.get(key)
    if value is None:
        return None
    found = next((mode for mode in allowed if mode == value), None)
    if found is None:
        detail = f"unsupported value {shown(value)}, allowed (case-sensitive): {listed(allowed)}"
        text = f"{detail}{hint if value == GangMode.REPLICATED_GANG else ''}"
        problems.append(problem(InvalidReason.INVALID_GANG_MODE, annotation(key), text, ErrorKind.NOT_SUPPORTED))
    return found


def read_pathways_options(text: str, problems: list[Problem]) -> PathwaysOptions:
    """The JSON of annotation ``gangctl.dev/pathways-options``; no options if it is invalid."""
    try:
        return PathwaysOptions.model_validate_json(text, by_alias=True, by_name=False)
    except ValidationError as wrong:
        names = [to_camel(name) for name in PathwaysOptions.model_fields]
        for error in wrong.errors(include_url=False, include_context=False, include_input=False)[:_MOST_ERRORS]:
            problems.append(_option_problem(dict(error), names))
        return PathwaysOptions()


def _option_problem(error: Mapping[str, Any], names: Collection[str]) -> Problem:
    steps = [str(step) for step in error["loc"]]
    path = ".".join([OPTIONS_PATH, *steps])
    if error["type"] != "extra_forbidden":
        kind = ErrorKind.NOT_SUPPORTED if error["type"] in {"enum", "literal_error"} else ErrorKind.INVALID
        detail = message_of(error) if steps else f"{message_of(error)}; a JSON object with: {listed(names)}"
        return problem(InvalidReason.INVALID_OPTIONS, path, detail, kind)
    if len(steps) > 1:
        return problem(InvalidReason.INVALID_OPTIONS, path, "unknown option", ErrorKind.FORBIDDEN)
    detail = f"unknown option{near(steps[0], names)}, allowed: {listed(names)}"
    return problem(InvalidReason.INVALID_OPTIONS, path, detail, ErrorKind.FORBIDDEN)
