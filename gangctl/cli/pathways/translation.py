"""A PathwaysJob and its JobSet, with errors of both reported at the user's fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from gangctl.api.fieldpath import FieldPath
from gangctl.api.jobset import JobSet
from gangctl.cli.jobsetchecks import check_jobset
from gangctl.errors import FieldError, InputError, one_line
from gangctl.gang.reasons import Notice
from gangctl.gang.report import requests_per_pod
from gangctl.gang.resolve import ClusterRules, resolve
from gangctl.pathways.job import PathwaysJob
from gangctl.pathways.options import PathwaysOptions
from gangctl.pathways.problems import InvalidReason, Problem
from gangctl.pathways.reading.pathwaysjob import Reading, read_pathways_job
from gangctl.pathways.rendering.jobset import render
from gangctl.pathways.result import Origin, OriginKind, Rendering, Setting

NO_OPTIONS: Final = PathwaysOptions()
DEFAULT_SETTING: Final = Setting()

_WRITTEN: Final = frozenset({OriginKind.FIELD, OriginKind.FLAG})
_DETAIL: Final = 900


@dataclass(frozen=True, slots=True)
class Translation:
    """The PathwaysJob, its JobSet, and all problems and notices.

    ``rendering`` and ``jobset`` are None if nothing could be rendered; with problems they serve only to find more
    problems.
    """

    problems: tuple[Problem, ...]
    notices: tuple[Notice, ...]
    job: PathwaysJob | None = None
    rendering: Rendering | None = None
    jobset: JobSet | None = None
    """The rendering as it was read back, None where its types are wrong."""

    def at_source(self, errors: Iterable[FieldError]) -> tuple[Problem, ...]:
        """Errors of the JobSet as problems of the fields, or flags, of their origin."""
        origins = self.rendering.origins if self.rendering is not None else {}
        return tuple(Problem(InvalidReason.INVALID_JOBSET, _at_source(error, origins)) for error in errors)

    def planned(self, rules: ClusterRules) -> Translation:
        """The same with errors of the plan: impossible gangs, invalid requests."""
        if self.problems or self.rendering is None or self.jobset is None:
            return self
        resolution = resolve(self.jobset, rules)
        errors = [*resolution.errors, *requests_per_pod(self.rendering.jobset)[1]]
        notices = tuple(dict.fromkeys((*self.notices, *resolution.notices)))
        return replace(self, problems=self.at_source(errors), notices=notices)


def translate_reading(reading: Reading, setting: Setting = DEFAULT_SETTING) -> Translation:
    """The result of reading an object or flags, and its JobSet."""
    if reading.job is None:
        return Translation(reading.problems, reading.notices)
    rendering = render(reading.job, setting)
    jobset, errors, readable = check_jobset(rendering.jobset)
    notices = tuple(dict.fromkeys((*reading.notices, *rendering.notices)))
    translation = Translation((), notices, reading.job, rendering, jobset if readable else None)
    return replace(translation, problems=translation.at_source(errors))


def translate(
    raw: Mapping[str, Any], defaults: PathwaysOptions = NO_OPTIONS, setting: Setting = DEFAULT_SETTING
) -> Translation:
    """A PathwaysJob in a file, and its JobSet; ``defaults`` are options without a value in its annotation."""
    return translate_reading(read_pathways_job(raw, defaults), setting)


def field_error(problem: Problem) -> FieldError:
    """A problem as an error of a field: its reason comes after what is allowed."""
    error = problem.error
    return FieldError(error.path, error.kind, f"{one_line(error.detail, _DETAIL)} ({problem.reason})")


def _at_source(error: FieldError, origins: Mapping[str, Origin]) -> FieldError:
    place = _written_at(error.path, origins)
    if not place:
        return FieldError(f"the JobSet's {error.path}", error.kind, f"{error.detail}{_chosen_by(error.path, origins)}")
    detail = error.detail if place == error.path else f"{one_line(error.detail, _DETAIL)} (the JobSet's {error.path})"
    return FieldError(place, error.kind, detail)


def _chosen_by(path: str, origins: Mapping[str, Origin]) -> str:
    """The option that a value is from, where it is from one."""
    origin = origins.get(path)
    return f" (option {origin.place})" if origin is not None and origin.kind is OriginKind.OPTION else ""


def _written_at(path: str, origins: Mapping[str, Origin]) -> str:
    """The field or flag that a field of the JobSet, or everything in it, comes from; empty where there is no such one.

    An absent field has the origin of its nearest existing parent.
    """
    try:
        steps = FieldPath.parse(path).steps
    except InputError:  # a key that field paths cannot express
        return ""
    for length in range(len(steps), 0, -1):
        around = str(FieldPath(steps[:length]))
        inside = [
            each for leaf, each in origins.items() if leaf == around or leaf.startswith((f"{around}.", f"{around}["))
        ]
        if inside:
            return _shared(inside) if all(each.kind in _WRITTEN for each in inside) else ""
    return ""


def lies_in(path: str, around: str) -> bool:
    """Whether a field is another one, or a part of it."""
    return path == around or path.startswith((f"{around}.", f"{around}["))


def _shared(origins: Iterable[Origin]) -> str:
    """The innermost field around the places of all origins."""
    first, *others = [FieldPath.parse(each.place).steps for each in origins]
    length = len(first)
    for steps in others:
        same = (index for index, (one, other) in enumerate(zip(first, steps, strict=False)) if one != other)
        length = min(length, len(steps), next(same, length))
    return str(FieldPath(first[:length]))
