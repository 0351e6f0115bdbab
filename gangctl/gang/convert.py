"""The same gang in another notation: annotations, ``gangConfig`` (KEP-1068), or ``spec.scheduling`` (KEP-969).

The conversion is lossless, or fails with the reason. Other fields of the JobSet stay, and
nothing is changed in place: YAML aliases may make two ReplicatedJobs one object.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from gangctl.api.fieldpath import FieldPath
from gangctl.api.jobset import JobSet, read_jobset
from gangctl.api.meta import GANG_MODE, GANG_OPTIONS, GANGS
from gangctl.errors import ErrorKind, FieldError
from gangctl.gang.config import GangConfig, GangMode, GangOptions, is_configured, read_config
from gangctl.gang.edits import Object, with_key, with_metadata
from gangctl.gang.gangs import PATH, gangs_text
from gangctl.gang.native_read import read_scheduling
from gangctl.gang.native_write import ROOT, write_scheduling


class Notation(StrEnum):
    """Notation of a gang."""

    ANNOTATIONS = "annotations"
    GANGCONFIG = "gangconfig"
    SCHEDULING = "scheduling"


@dataclass(frozen=True, slots=True)
class Conversion:
    """The JobSet in its new notation; unchanged if there are ``errors``."""

    value: Object
    errors: tuple[FieldError, ...] = ()


_RIVAL: Final = "scheduleAtOnce"


def _check_words(value: object, path: FieldPath) -> Iterable[FieldError]:
    """Errors in one ``gangConfig`` field."""
    if not isinstance(value, dict):
        return
    hint = 'is not known: write gangMode: "Gang" in gangConfig, or the annotation ' + GANG_MODE
    if _RIVAL in value:
        yield FieldError(str(path.child(_RIVAL)), ErrorKind.NOT_SUPPORTED, hint)
    config = value.get("gangConfig")
    if not isinstance(config, dict):
        return
    for key in config:
        if key != "gangMode":
            detail = hint if key == _RIVAL else "unknown field, gangConfig has only gangMode"
            yield FieldError(str(path.child("gangConfig", key)), ErrorKind.NOT_SUPPORTED, detail)
    if "gangMode" not in config:
        yield FieldError(str(path.child("gangConfig", "gangMode")), ErrorKind.REQUIRED, "is required in gangConfig")


def check_words(raw: Mapping[str, Any]) -> tuple[FieldError, ...]:
    """Errors for unknown keys next to a gang configuration, which must not be ignored."""
    spec = raw.get("spec")
    path = FieldPath().child("spec")
    errors = list(_check_words(spec, path))
    entries = spec.get("replicatedJobs") if isinstance(spec, dict) else None
    for index, entry in enumerate(entries if isinstance(entries, list) else ()):
        errors += _check_words(entry, path.child("replicatedJobs").index(index))
    return tuple(errors)


def _intent(raw: Mapping[str, Any], jobset: JobSet) -> tuple[GangConfig, tuple[FieldError, ...]]:
    """The configuration of a JobSet, with errors if its notations differ."""
    config, errors = read_config(jobset)
    native = (raw.get("spec") or {}).get("scheduling")
    if errors or native is None:
        return config, errors
    native_config, errors = read_scheduling(jobset, native)
    if errors or not is_configured(jobset):
        return native_config, errors
    said, _ = write_scheduling(jobset, config)
    meant, _ = write_scheduling(jobset, native_config)
    if said == meant:
        return config, ()
    detail = f"says something else than {GANG_MODE} or gangConfig do: leave one of them out"
    return config, (FieldError(ROOT, ErrorKind.INVALID, detail),)


def _with_modes(jobset: JobSet, config: GangConfig) -> GangConfig:
    """The same gangs as modes, where these can say it."""
    scheduling, errors = write_scheduling(jobset, config) if config.gangs else (None, ())
    if scheduling is None or errors:
        return config
    meant, errors = read_scheduling(jobset, scheduling)
    return config if errors else meant


def options_text(options: GangOptions) -> str | None:
    """The value of annotation ``gangctl.dev/gang-options``, None for the defaults."""
    values = options.model_dump(by_alias=True, exclude_defaults=True)
    return json.dumps(values, separators=(",", ":")) if values else None


def _field(mode: GangMode | None, *, wanted: bool) -> Object | None:
    return {"gangMode": str(mode)} if wanted and mode is not None else None


def _note(mode: GangMode | None, *, wanted: bool) -> dict[str, str | None]:
    return {GANG_MODE: str(mode) if wanted and mode is not None else None}


def _write(raw: Mapping[str, Any], config: GangConfig, to: Notation, scheduling: Object | None) -> Object:
    as_notes, as_fields = to is Notation.ANNOTATIONS, to is Notation.GANGCONFIG
    entries = []
    for entry, mode in zip(raw["spec"].get("replicatedJobs") or (), config.replicated_jobs, strict=True):
        changed = with_key(entry, "gangConfig", _field(mode, wanted=as_fields), after="name")
        template = with_metadata(entry.get("template") or {}, "annotations", _note(mode, wanted=as_notes))
        entries.append(
            with_key(changed, "template", template, after="name") if template or "template" in entry else changed
        )
    spec = with_key(raw["spec"], "replicatedJobs", entries) if entries else dict(raw["spec"])
    spec = with_key(spec, "gangConfig", _field(config.jobset, wanted=as_fields))
    spec = with_key(spec, "scheduling", scheduling)
    notes = _note(config.jobset, wanted=as_notes)
    notes[GANGS] = gangs_text(config.gangs) if to is Notation.ANNOTATIONS and config.gangs else None
    if to is Notation.SCHEDULING:
        notes[GANG_OPTIONS] = None
    elif "scheduling" in raw["spec"] or GANGS in ((raw.get("metadata") or {}).get("annotations") or {}):
        notes[GANG_OPTIONS] = options_text(config.options)
    return {**with_metadata(raw, "annotations", notes), "spec": spec}


def convert(raw: Object, to: Notation) -> Conversion:
    """Rewrite a JobSet's gang configuration in the notation ``to``; ``raw`` itself is not changed."""
    jobset, malformed = read_jobset(raw)
    errors = (*malformed, *check_words(raw))
    if errors:
        return Conversion(raw, errors)
    config, errors = _intent(raw, jobset)
    scheduling: Object | None = None
    if not errors and to is Notation.SCHEDULING:
        scheduling, errors = write_scheduling(jobset, config)
    if not errors and to is Notation.GANGCONFIG and (config := _with_modes(jobset, config)).gangs:
        detail = "gangConfig has no word for several gangs over named replicated jobs, or for options of each gang"
        errors = (FieldError(PATH if GANGS in jobset.annotations else ROOT, ErrorKind.FORBIDDEN, detail),)
    if errors or not isinstance(raw.get("spec"), dict):
        return Conversion(raw, errors)
    return Conversion(_write(raw, config, to, scheduling))
