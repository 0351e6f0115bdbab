"""JobSet's own gang scheduling, ``spec.scheduling`` (KEP-969), as GangConfig.

It has more options than GangConfig. Options that GangConfig lacks are rejected with
their field path, because a gang must not silently lose a constraint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from gangctl.api.fieldpath import FieldPath
from gangctl.api.jobset import JobSet, ReplicatedJob
from gangctl.errors import ErrorKind, FieldError, shown
from gangctl.gang.config import GangConfig, GangMode, GangOptions, is_label_key
from gangctl.gang.counting import is_sequenced, job_pods, replicated_job_pods
from gangctl.gang.native_write import ROOT

_SHARED_FIELDS: Final = ("schedulingPolicy", "schedulingConstraints", "disruptionMode")
_ENTRY_FIELDS: Final = ("targetReplicatedJobs", *_SHARED_FIELDS, "job")


@dataclass(slots=True)
class _Gang:
    """One policy block."""

    path: str
    members: tuple[str, ...]
    basic: bool
    replicated: bool = False
    topology_key: str | None = None
    disruption: str | None = None


@dataclass(slots=True)
class _Parse:
    """State of a conversion."""

    jobset: JobSet
    errors: list[FieldError] = field(default_factory=list)

    def refuse(self, path: str, detail: str, kind: ErrorKind = ErrorKind.FORBIDDEN) -> None:
        self.errors.append(FieldError(path, kind, detail))

    def mapping(self, value: object, path: str, allowed: Sequence[str]) -> Mapping[str, Any]:
        """An object with no keys except ``allowed``; keys with null are absent."""
        if not isinstance(value, dict):
            self.refuse(path, f"must be an object, got {shown(value)}", ErrorKind.TYPE_INVALID)
            return {}
        present = {key: item for key, item in value.items() if item is not None}
        for key in present:
            if key == "resourceClaims":
                self.refuse(f"{path}.{key}", "GangConfig has no word for resource claims of a gang")
            elif key not in allowed:
                known = ", ".join(allowed) or "none"
                where = str(FieldPath.parse(path).child(key))
                self.refuse(where, f"unknown field, known here: {known}", ErrorKind.NOT_SUPPORTED)
        return present

    def choice(self, value: object, path: str, names: tuple[str, str]) -> tuple[str, Mapping[str, Any]]:
        """A union: exactly one of two keys with an object."""
        present = [(key, item) for key, item in self.mapping(value, path, names).items() if key in names]
        if len(present) != 1:
            self.refuse(path, f"exactly one of {names[0]} and {names[1]} is needed", ErrorKind.INVALID)
            return names[0], {}
        key, item = present[0]
        return key, self.mapping(item, f"{path}.{key}", ("minCount",) if key == "gang" else ())


def _read_topology(parse: _Parse, block: Mapping[str, Any], path: str) -> str | None:
    if "schedulingConstraints" not in block:
        return None
    where = f"{path}.schedulingConstraints"
    entries = parse.mapping(block["schedulingConstraints"], where, ("topology",)).get("topology", [])
    if not isinstance(entries, list) or len(entries) > 1:
        parse.refuse(f"{where}.topology", "must be a list of at most one topology", ErrorKind.INVALID)
        return None
    if not entries:
        return None
    key = parse.mapping(entries[0], f"{where}.topology[0]", ("key",)).get("key")
    if not isinstance(key, str) or not is_label_key(key):
        parse.refuse(f"{where}.topology[0].key", "must be the key of a node label", ErrorKind.INVALID)
        return None
    return key


def _read_block(parse: _Parse, block: Mapping[str, Any], path: str, gang: _Gang, pods: int) -> _Gang:
    """Policy, constraints and disruption mode of one gang with ``pods`` pods."""
    policy, details = parse.choice(
        block.get("schedulingPolicy", {"gang": {}}), f"{path}.schedulingPolicy", ("gang", "basic")
    )
    gang.basic = policy == "basic"
    count = details.get("minCount")
    if count is not None and (count != pods or isinstance(count, bool)):
        where = f"{path}.schedulingPolicy.gang.minCount"
        parse.refuse(where, f"is {shown(count)} but a gang of GangConfig is all {pods} pods: remove minCount")
    gang.topology_key = _read_topology(parse, block, path)
    if "disruptionMode" in block:
        gang.disruption = parse.choice(block["disruptionMode"], f"{path}.disruptionMode", ("single", "all"))[0]
    if gang.basic and (gang.topology_key or gang.disruption):
        parse.refuse(path, "GangConfig has no word for constraints or a disruption mode of pods that are no gang")
    return gang


def _read_targets(parse: _Parse, value: object, path: str, taken: dict[str, str]) -> tuple[ReplicatedJob, ...]:
    by_name = {rj.name: rj for rj in parse.jobset.replicated_jobs}
    if not isinstance(value, list) or not value:
        parse.refuse(path, "must list at least one replicated job", ErrorKind.REQUIRED)
        return ()
    found = []
    for index, name in enumerate(value):
        where = f"{path}[{index}]"
        if not isinstance(name, str) or name not in by_name:
            parse.refuse(where, f"there is no replicated job {shown(name)}", ErrorKind.INVALID)
        elif name in taken:
            parse.refuse(where, f'replicated job "{name}" is already a target at {taken[name]}', ErrorKind.DUPLICATE)
        else:
            taken[name] = where
            found.append(by_name[name])
    return tuple(found)


def _read_entry(parse: _Parse, value: object, path: str, taken: dict[str, str]) -> _Gang:
    entry = parse.mapping(value, path, _ENTRY_FIELDS)
    targets = _read_targets(parse, entry.get("targetReplicatedJobs"), f"{path}.targetReplicatedJobs", taken)
    gang = _Gang(path, tuple(rj.name for rj in targets), basic=False)
    if "job" not in entry:
        return _read_block(parse, entry, path, gang, sum(map(replicated_job_pods, targets)))
    for key in _SHARED_FIELDS:
        if key in entry:
            parse.refuse(f"{path}.{key}", "must not stand next to job, which replaces it")
    gang.replicated = True
    if len(targets) != 1:
        parse.refuse(f"{path}.job", "needs exactly one replicated job as target", ErrorKind.INVALID)
        return gang
    job = parse.mapping(entry["job"], f"{path}.job", _SHARED_FIELDS)
    _read_block(parse, job, f"{path}.job", gang, job_pods(targets[0]))
    if gang.basic:
        parse.refuse(f"{path}.job.schedulingPolicy.basic", "GangConfig has no word for a group that is no gang")
    return gang


def _read_entries(parse: _Parse, value: object) -> list[_Gang]:
    path = f"{ROOT}.replicatedJobs"
    if not isinstance(value, list):
        parse.refuse(path, f"must be a list, got {shown(value)}", ErrorKind.TYPE_INVALID)
        return []
    taken: dict[str, str] = {}
    gangs = [_read_entry(parse, entry, f"{path}[{index}]", taken) for index, entry in enumerate(value)]
    missing = [f'"{rj.name}"' for rj in parse.jobset.replicated_jobs if rj.name not in taken]
    if missing and not parse.errors:
        detail = f"every replicated job must be a target of one entry, missing: {', '.join(missing)}"
        parse.refuse(path, detail, ErrorKind.REQUIRED)
    return gangs


def _modes(parse: _Parse, gangs: Sequence[_Gang]) -> tuple[GangMode | None, dict[str, GangMode | None]]:
    """Mode of the JobSet and of each ReplicatedJob."""
    real = [gang for gang in gangs if not gang.basic]
    shared = [gang for gang in real if len(gang.members) > 1]
    for gang in gangs:
        if gang.basic and len(gang.members) > 1:
            parse.refuse(gang.path, "GangConfig has no word for a basic group of several replicated jobs")
    if not real:
        parse.refuse(ROOT, "GangConfig has no word for groups that are no gangs: remove spec.scheduling instead")
    if not shared:
        words = {True: GangMode.REPLICATED_GANG, False: GangMode.GANG}
        modes = {name: None if gang.basic else words[gang.replicated] for gang in gangs for name in gang.members}
        return None, modes
    if len(real) > 1:
        detail = "GangConfig has no word for a gang of some replicated jobs beside another gang"
        parse.refuse(f"{shared[0].path}.targetReplicatedJobs", detail)
    members = [rj for rj in parse.jobset.replicated_jobs if rj.name in shared[0].members]
    if is_sequenced(parse.jobset, members):
        detail = (
            "these replicated jobs start one after another and would deadlock as one gang: write one entry for each"
        )
        parse.refuse(f"{shared[0].path}.targetReplicatedJobs", detail, ErrorKind.INVALID)
    return GangMode.GANG, {name: GangMode.OFF for gang in gangs if gang.basic for name in gang.members}


def _read_top(parse: _Parse, scheduling: Mapping[str, Any]) -> list[_Gang]:
    rjs = parse.jobset.replicated_jobs
    gang = _Gang(ROOT, tuple(rj.name for rj in rjs), basic=False)
    _read_block(parse, scheduling, ROOT, gang, sum(map(replicated_job_pods, rjs)))
    if gang.basic:
        detail = "GangConfig has no word for a group that is no gang: remove spec.scheduling instead"
        parse.refuse(f"{ROOT}.schedulingPolicy.basic", detail)
    return [gang]


def read_scheduling(jobset: JobSet, value: object) -> tuple[GangConfig, tuple[FieldError, ...]]:
    """The GangConfig equivalent to ``spec.scheduling``, or errors if there is none."""
    parse = _Parse(jobset)
    scheduling = parse.mapping(value, ROOT, (*_SHARED_FIELDS, "replicatedJobs"))
    by_entries = bool(scheduling.get("replicatedJobs"))
    modes: dict[str, GangMode | None] = {}
    mode: GangMode | None = GangMode.GANG
    if by_entries:
        for key in _SHARED_FIELDS:
            if key in scheduling:
                parse.refuse(f"{ROOT}.{key}", "must not stand next to replicatedJobs", ErrorKind.INVALID)
        gangs = _read_entries(parse, scheduling["replicatedJobs"])
        if not parse.errors:
            mode, modes = _modes(parse, gangs)
    else:
        gangs = _read_top(parse, scheduling)
    real = [gang for gang in gangs if not gang.basic]
    for gang in real[1:]:
        if (gang.topology_key, gang.disruption) != (real[0].topology_key, real[0].disruption):
            parse.refuse(
                gang.path, f"GangConfig has one topology key and disruption mode for all gangs; {real[0].path} differs"
            )
    options = GangOptions()
    if real and not parse.errors:
        options = GangOptions.model_validate({"topologyKey": real[0].topology_key, "disruption": real[0].disruption})
    config = GangConfig(mode, tuple(modes.get(rj.name) for rj in jobset.replicated_jobs), options)
    return config, tuple(parse.errors)
