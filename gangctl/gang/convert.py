"""The same gang in another notation: annotations, ``gangConfig`` (KEP-1068), or ``spec.scheduling`` (KEP-969).

The conversion is lossless, or fails with the reason. Other fields of the JobSet stay, and nothing is changed in place:
YAML aliases may make two ReplicatedJobs one object.

Exclusive placement (one Job per topology domain) becomes pod affinity, which does not deadlock a gang. With JobSet's
annotation the followers of a Job are admitted after their leader has a node, but the leader of a gang is scheduled only
together with its followers. Pod affinity expresses the same rule for the scheduler: all pods of a Job in one domain,
and no pod of another Job there. ``matchLabelKeys`` and ``mismatchLabelKeys`` (KEP-3633, on by default since Kubernetes
1.31) compare JobSet's label ``job-key`` without knowing its value. As in JobSet, only pods of the same priority are
excluded: preemption considers one node at a time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Literal

from gangctl.api.fieldpath import FieldPath
from gangctl.api.jobset import JobSet, ReplicatedJob, exclusive_topology, read_jobset
from gangctl.api.meta import (
    EXCLUSIVE_TOPOLOGY,
    GANG_MODE,
    GANG_OPTIONS,
    GANGS,
    JOB_KEY,
    JOBSET_NAME,
    JOBSET_PRIORITY,
)
from gangctl.api.objects import Reader, object_at
from gangctl.api.pods import REQUIRED
from gangctl.api.scheduling import Generation
from gangctl.errors import ErrorKind, FieldError
from gangctl.gang.config import PATH, GangConfig, GangMode, GangOptions, gangs_text, is_configured, read_config
from gangctl.gang.native import ROOT, check_accepted, read_scheduling, write_scheduling
from gangctl.gang.plan import job_pods

Object = dict[str, Any]


def with_key(values: Mapping[str, Any], key: str, value: object, *, after: str | None = None) -> Object:
    """A copy with ``key`` set, removed when ``value`` is None; a new key is inserted after ``after``, else first."""
    if value is None:
        return {name: item for name, item in values.items() if name != key}
    if key in values:
        return {**values, key: value}
    if after not in values:
        return {key: value, **values}
    # The order of the keys is that of the file which is written.
    copy: Object = {}
    for name, item in values.items():
        copy[name] = item
        if name == after:
            copy[key] = value
    return copy


def with_metadata(
    holder: Mapping[str, Any], field: Literal["annotations", "labels"], changes: Mapping[str, str | None]
) -> Object:
    """A copy of an object with annotations or labels set, or removed where the value is None.

    A map that becomes empty is removed; one that was empty before stays.
    """
    meta = holder.get("metadata") or {}
    before = meta.get(field) or {}
    values = {key: value for key, value in before.items() if changes.get(key, value) is not None}
    values |= {key: value for key, value in changes.items() if value is not None}
    if values == before:
        return dict(holder)
    above = ("labels", "namespace") if field == "annotations" else ("namespace",)
    after = next((key for key in above if key in meta), "name")
    meta = with_key(meta, field, values or None, after=after)
    return with_key(holder, "metadata", meta or None)


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
    # Compared in the notation that both have: different annotations may mean the same gangs.
    said, _ = write_scheduling(jobset, config)
    meant, _ = write_scheduling(jobset, native_config)
    if said == meant:
        return config, ()
    detail = f"says something else than {GANG_MODE} or gangConfig do: leave one of them out"
    return config, (FieldError(ROOT, ErrorKind.INVALID, detail),)


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
        errors += check_accepted(jobset, scheduling) if scheduling else ()
    if not errors and to is Notation.GANGCONFIG and config.gangs:
        # The same gangs as modes, where these can say it.
        meant, wrong = write_scheduling(jobset, config)
        as_modes, refused = read_scheduling(jobset, meant) if meant is not None and not wrong else (config, ())
        config = config if refused else as_modes
        if config.gangs:
            detail = "gangConfig has no word for several gangs over named replicated jobs, or for options of each gang"
            errors = (FieldError(PATH if GANGS in jobset.annotations else ROOT, ErrorKind.FORBIDDEN, detail),)
    if errors or not isinstance(raw.get("spec"), dict):
        return Conversion(raw, errors)
    return Conversion(_write(raw, config, to, scheduling))


_MOST_TERMS: Final = 1000
_OF_JOBSETS: Final = {"matchExpressions": [{"key": JOBSET_NAME, "operator": "Exists"}]}
"""Not one of the compared labels: the API server rejects a label in both places."""


def replace_exclusive_topology(raw: Object, generation: Generation | None = None) -> Conversion:
    """A JobSet whose gangs would deadlock with exclusive placement, with pod affinity in its place.

    Other JobSets are unchanged. If ``generation`` has topology constraints, and every gang is one Job, option
    ``topologyKey`` makes the scheduler try whole domains, too. An error for pods that require other pods already.
    """
    jobset, malformed = read_jobset(raw)
    config, wrong = read_config(jobset)
    if malformed or wrong or not isinstance(raw.get("spec"), dict):
        return Conversion(raw, (*malformed, *wrong))
    placed = ((rj.index, exclusive_topology(jobset, rj)) for rj in jobset.replicated_jobs)
    keys = {index: topology[0] for index, topology in placed if topology is not None and topology[0]}
    ganged = [rj for rj in jobset.replicated_jobs if rj.index in keys and config.mode_of(rj) is not GangMode.OFF]
    # A Job of one pod has no followers that wait for its leader.
    if not any(job_pods(rj) > 1 for rj in ganged):
        return Conversion(raw)
    errors = [
        affinity_error
        for rj in jobset.replicated_jobs
        if rj.index in keys
        for affinity_error in _affinity_errors(raw, rj)
    ]
    if errors:
        return Conversion(raw, tuple(errors))
    entries = list(raw["spec"]["replicatedJobs"])
    for index, key in keys.items():
        entries[index] = _placed(entries[index], key)
    changed = {**raw, "spec": with_key(raw["spec"], "replicatedJobs", entries)}
    notes: dict[str, str | None] = {EXCLUSIVE_TOPOLOGY: None}
    if generation is not None and generation.capabilities.constraints and _each_gang_is_a_job(jobset, config, keys):
        options = config.options.model_copy(update={"topology_key": next(iter(keys.values()))})
        notes[GANG_OPTIONS] = options_text(options)
    return Conversion(with_metadata(changed, "annotations", notes))


def _each_gang_is_a_job(jobset: JobSet, config: GangConfig, keys: dict[int, str]) -> bool:
    """Whether all pods of any gang belong in one domain."""
    if config.gangs or config.options.topology_key is not None or len(set(keys.values())) > 1:
        return False
    ganged = [rj for rj in jobset.replicated_jobs if config.mode_of(rj) is not GangMode.OFF]
    if config.jobset is GangMode.GANG and len(ganged) > 1:
        return False
    return all(
        rj.index in keys and (rj.replicas == 1 or config.mode_of(rj) is GangMode.REPLICATED_GANG) for rj in ganged
    )


def _affinity_errors(raw: Object, rj: ReplicatedJob) -> list[FieldError]:
    """Values of an affinity that have the wrong type, or that conflict with another term."""
    errors: list[FieldError] = []
    pods = Reader(raw["spec"]["replicatedJobs"][rj.index], rj.path, errors)
    for part in ("template", "spec", "template", "spec", "affinity"):
        pods = pods.child(part)
    terms = {part: pods.child(part).children(REQUIRED, _MOST_TERMS) for part in ("podAffinity", "podAntiAffinity")}
    if terms["podAffinity"]:
        detail = (
            "requires other pods already, and Kubernetes counts only pods that match all required terms of a pod "
            f"together: write what {EXCLUSIVE_TOPOLOGY} means into these terms by hand"
        )
        errors.append(FieldError(f"{pods.path}.podAffinity.{REQUIRED}", ErrorKind.FORBIDDEN, detail))
    return errors


def _placed(entry: Object, key: str) -> Object:
    """The ReplicatedJob with pod affinity in place of the annotation."""
    template = object_at(entry, "template")
    job = object_at(template, "spec")
    pod = object_at(job, "template")
    spec = object_at(pod, "spec")
    affinity = object_at(spec, "affinity")
    own = {"labelSelector": _OF_JOBSETS, "matchLabelKeys": [JOB_KEY], "topologyKey": key}
    others = {
        "labelSelector": _OF_JOBSETS,
        "matchLabelKeys": [JOBSET_PRIORITY],
        "mismatchLabelKeys": [JOB_KEY],
        # JobSet excludes the Jobs of all namespaces as well (setExclusiveAffinities).
        "namespaceSelector": {},
        "topologyKey": key,
    }
    # Appended to what is there: terms of anti-affinity are independent, and those of affinity were refused before.
    added = {
        part: {**object_at(affinity, part), REQUIRED: [*(object_at(affinity, part).get(REQUIRED) or ()), term]}
        for part, term in (("podAffinity", own), ("podAntiAffinity", others))
    }
    pod = with_metadata(pod, "annotations", {EXCLUSIVE_TOPOLOGY: None})
    job = {**job, "template": {**pod, "spec": {**spec, "affinity": {**affinity, **added}}}}
    return {**entry, "template": with_metadata({**template, "spec": job}, "annotations", {EXCLUSIVE_TOPOLOGY: None})}
