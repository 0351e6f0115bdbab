"""The user's GangConfig, from annotations or from ``gangConfig`` (KEP-1068).

Both notations mean the same. If both are given and differ, that is an error, because
any order of precedence would surprise some users.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic import ValidationError as PydanticError
from pydantic.alias_generators import to_camel

from gangctl.api.jobset import JobSet, ReplicatedJob
from gangctl.api.meta import GANG_MODE, GANG_OPTIONS, GANGS
from gangctl.api.modelerrors import message_of
from gangctl.errors import ErrorKind, FieldError, one_line
from gangctl.gang.gangs import PATH, Gang, check_members, parse_gangs
from gangctl.gang.labels import LabelKey

_OPTION_NAME: Final = re.compile(r"[-A-Za-z0-9_]{1,64}")
_MOST_ERRORS: Final = 20


class GangMode(StrEnum):
    """KEP-1068 ``gangMode``; case-sensitive like every enum of Kubernetes."""

    OFF = "Off"
    GANG = "Gang"
    REPLICATED_GANG = "ReplicatedGang"


JOBSET_MODES: Final = (GangMode.OFF, GangMode.GANG)
REPLICATED_JOB_MODES: Final = (GangMode.OFF, GangMode.GANG, GangMode.REPLICATED_GANG)
_MODES: Final = {str(mode): mode for mode in REPLICATED_JOB_MODES}


class GangOptions(BaseModel):
    """The JSON object in annotation ``gangctl.dev/gang-options``; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, alias_generator=to_camel)

    topology_key: LabelKey | None = Field(
        default=None, description="All pods of a gang land on nodes with one value of this node label."
    )
    disruption: Literal["single", "all"] | None = Field(
        default=None, description="Whether preemption takes pods one by one, or the gang as a whole."
    )
    sequenced: Literal["split", "reject"] = Field(
        default="split", description="What a JobSet-wide gang with sequenced startup becomes."
    )
    composite: bool = Field(default=False, description="Sibling gangs under one CompositePodGroup (Kubernetes 1.37).")


_NO_OPTIONS: Final = GangOptions()


@dataclass(frozen=True, slots=True)
class GangConfig:
    """Modes as requested: ``replicated_jobs`` has one entry per ReplicatedJob in list order, None is unset."""

    jobset: GangMode | None
    replicated_jobs: tuple[GangMode | None, ...]
    options: GangOptions = _NO_OPTIONS
    gangs: tuple[Gang, ...] = ()
    """Entries of ``gangctl.dev/gangs``, which say more than the modes, or nothing else."""

    def gang(self, template: str) -> Gang | None:
        """The entry of ``gangctl.dev/gangs`` that a template of the Workload is made from."""
        return next((gang for gang in self.gangs if gang.name == template), None)

    def topology_key(self, template: str) -> str:
        """The node label of which all pods of a gang of this template share one value; empty without one."""
        gang = self.gang(template)
        return (self.options.topology_key if gang is None else gang.topology_key) or ""

    def without_composite(self) -> GangConfig:
        """The same gangs, each of which starts by itself: on a cluster that has lost its CompositePodGroups."""
        if not self.options.composite:
            return self
        return replace(self, options=self.options.model_copy(update={"composite": False}))

    @property
    def asks_for_gangs(self) -> bool:
        """Whether any level requests a gang."""
        return (
            bool(self.gangs)
            or self.jobset is GangMode.GANG
            or any(m not in {None, GangMode.OFF} for m in self.replicated_jobs)
        )


def is_configured(jobset: JobSet) -> bool:
    """Whether any gang configuration is written on the JobSet, valid or not, ``Off`` included."""
    return (
        GANG_MODE in jobset.annotations
        or GANG_OPTIONS in jobset.annotations
        or GANGS in jobset.annotations
        or jobset.gang_config is not None
        or any(GANG_MODE in rj.annotations or rj.gang_config is not None for rj in jobset.replicated_jobs)
    )


def _shown(value: str) -> str:
    return f'"{one_line(value, 64)}"'


def _mode(value: str, path: str, allowed: Iterable[GangMode], errors: list[FieldError]) -> GangMode | None:
    for mode in allowed:
        if mode == value:
            return mode
    names = ", ".join(f'"{mode}"' for mode in allowed)
    hint = ""
    if value == GangMode.REPLICATED_GANG:
        hint = "; ReplicatedGang is set per ReplicatedJob, on replicatedJobs[].template.metadata.annotations"
    detail = f"unsupported value {_shown(value)}, allowed (case-sensitive): {names}{hint}"
    errors.append(FieldError(path, ErrorKind.NOT_SUPPORTED, detail))
    return None


def _merge(
    annotation: tuple[str | None, str],
    field: tuple[str | None, str],
    allowed: tuple[GangMode, ...],
    errors: list[FieldError],
) -> GangMode | None:
    """One mode from two notations; each argument is (value, field path)."""
    values = [_mode(value, path, allowed, errors) for value, path in (annotation, field) if value is not None]
    if annotation[0] is not None and field[0] is not None and annotation[0] != field[0]:
        detail = f"is {_shown(annotation[0])} but {field[1]} is {_shown(field[0])}: write one of them, or both the same"
        errors.append(FieldError(annotation[1], ErrorKind.INVALID, detail))
    return values[0] if values else None


def _replicated_job_mode(rj: ReplicatedJob, errors: list[FieldError]) -> GangMode | None:
    text = rj.annotations.get(GANG_MODE)
    if text is None and rj.gang_config is None:
        return None
    if text in _MODES and rj.gang_config in {None, text}:
        return _MODES[text]  # paths are written for what is wrong
    return _merge(
        (text, rj.annotation_path(GANG_MODE)),
        (rj.gang_config, f"{rj.path}.gangConfig.gangMode"),
        REPLICATED_JOB_MODES,
        errors,
    )


def _option_kind(error: dict[str, Any]) -> ErrorKind:
    if error["type"] == "extra_forbidden":
        return ErrorKind.FORBIDDEN
    if error["type"] == "literal_error":
        return ErrorKind.NOT_SUPPORTED
    return ErrorKind.INVALID


def read_options(text: str, path: str, errors: list[FieldError]) -> GangOptions:
    """Parse the JSON of ``gangctl.dev/gang-options``; on errors the result has the defaults."""
    try:
        return GangOptions.model_validate_json(text)
    except PydanticError as problem:
        allowed = ", ".join(to_camel(name) for name in GangOptions.model_fields)
        for error in problem.errors(include_url=False, include_context=False, include_input=False)[:_MOST_ERRORS]:
            name = str(error["loc"][0]) if error["loc"] else ""
            plain = _OPTION_NAME.fullmatch(name) is not None
            if error["type"] == "extra_forbidden":
                detail = f"unknown option{'' if plain else f' {name!r:.64}'}, allowed: {allowed}"
            else:
                detail = f"{message_of(error)} (a JSON object with: {allowed})"
            kind = _option_kind(dict(error))
            errors.append(FieldError(f"{path}.{name}" if plain else path, kind, detail))
        return _NO_OPTIONS


def read_config(jobset: JobSet) -> tuple[GangConfig, tuple[FieldError, ...]]:
    """The gang configuration of a JobSet, and errors in its notation."""
    errors: list[FieldError] = []
    annotation = f"metadata.annotations[{GANG_MODE}]"
    field = "spec.gangConfig.gangMode"
    mode = _merge((jobset.annotations.get(GANG_MODE), annotation), (jobset.gang_config, field), JOBSET_MODES, errors)
    modes = tuple(_replicated_job_mode(rj, errors) for rj in jobset.replicated_jobs)
    if mode is GangMode.GANG:
        where = annotation if GANG_MODE in jobset.annotations else field
        for rj, own in zip(jobset.replicated_jobs, modes, strict=True):
            if own in {GangMode.GANG, GangMode.REPLICATED_GANG}:
                path = (
                    rj.annotation_path(GANG_MODE) if GANG_MODE in rj.annotations else f"{rj.path}.gangConfig.gangMode"
                )
                detail = (
                    f'replicated job "{rj.name}" asks for "{own}" while {where} is "Gang": '
                    'set one level only; next to a JobSet-wide gang only "Off" (leave it out) is allowed here'
                )
                errors.append(FieldError(path, ErrorKind.FORBIDDEN, detail))
    options = _NO_OPTIONS
    if (text := jobset.annotations.get(GANG_OPTIONS)) is not None:
        options = read_options(text, f"metadata.annotations[{GANG_OPTIONS}]", errors)
    config = GangConfig(mode, modes, options)
    if errors or (text := jobset.annotations.get(GANGS)) is None:
        return config, tuple(errors)
    gangs, wrong = parse_gangs(text)
    wrong = (*wrong, *check_members(gangs, [rj.name for rj in jobset.replicated_jobs]))
    if not wrong:
        config = replace(config, gangs=gangs)
        wrong = tuple(_disagreements(config, jobset))
    return (config, ()) if not wrong else (GangConfig(mode, modes, options), wrong)


def _disagreements(config: GangConfig, jobset: JobSet) -> Iterator[FieldError]:
    """Errors where the short annotations and ``gangctl.dev/gangs`` mean different gangs."""
    short = {
        (frozenset([rj.name]), mode is GangMode.REPLICATED_GANG)
        for rj, mode in zip(jobset.replicated_jobs, config.replicated_jobs, strict=True)
        if mode in {GangMode.GANG, GangMode.REPLICATED_GANG}
    }
    if config.jobset is GangMode.GANG:
        pairs = zip(jobset.replicated_jobs, config.replicated_jobs, strict=True)
        short = {(frozenset(rj.name for rj, mode in pairs if mode is None), False)}
    given = config.jobset is not None or any(mode is not None for mode in config.replicated_jobs)
    if given and short != {(frozenset(gang.replicated_jobs), gang.per_replica) for gang in config.gangs}:
        detail = f"means other gangs than {GANG_MODE} or gangConfig do: leave one of them out, or write both alike"
        yield FieldError(PATH, ErrorKind.INVALID, detail)
    for name, value in (("topologyKey", config.options.topology_key), ("disruption", config.options.disruption)):
        for index, gang in enumerate(config.gangs):
            own = gang.topology_key if name == "topologyKey" else gang.disruption
            if value is not None and own != value:
                has = f'"{own}"' if own else "not set"
                detail = f'is {has}, and "{value}" in {GANG_OPTIONS}: write it in one of them, or both alike'
                yield FieldError(f"{PATH}[{index}].{name}", ErrorKind.INVALID, detail)
