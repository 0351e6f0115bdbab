"""JobSet's own gang scheduling, ``spec.scheduling`` (KEP-969), from GangConfig and as GangConfig.

Rules of that API: a top-level policy and ``replicatedJobs`` exclude each other, every ReplicatedJob is the target of
exactly one entry, an absent policy means gang, and one Workload holds at most eight groups, of which ``job`` takes one
per replica. What the modes of GangConfig cannot say becomes a list of named gangs. Basic groups have no equivalent
beside gangs, and are rejected with their field path where they would be lost.

The API has changed three times before its first release (the KEP, and jobset pull request 1250 twice). What is written
is accepted by each: the newest has ``minCount`` and ``resourceClaims`` under ``job`` only, no top-level policy with a
sequenced startup, and none beside ``replicatedJobs``. What only an older one accepts is read, and not written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import ValidationError

from gangctl.api.fieldpath import FieldPath
from gangctl.api.jobset import JobSet, ReplicatedJob
from gangctl.api.meta import GANG_OPTIONS, GANGS
from gangctl.api.modelerrors import field_errors
from gangctl.api.scheduling import MAX_TEMPLATES
from gangctl.errors import ErrorKind, FieldError, shown
from gangctl.gang.config import MAX_CLAIMS, PATH, Gang, GangConfig, GangMode, GangOptions, ResourceClaim, is_label_key
from gangctl.gang.naming import template_names
from gangctl.gang.plan import is_sequenced, is_split, job_pods, replicated_job_pods
from gangctl.gang.validate import check_sequences, deadlocks, pod_field

ROOT: Final = "spec.scheduling"


def _policy(asked: GangOptions | Gang) -> dict[str, Any]:
    minimum, claims = (asked.min_count, asked.resource_claims) if isinstance(asked, Gang) else (None, ())
    policy: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": minimum} if minimum else {}}}
    if asked.topology_key:
        policy["schedulingConstraints"] = {"topology": [{"key": asked.topology_key}]}
    if asked.disruption:
        policy["disruptionMode"] = {asked.disruption: {}}
    if claims:
        policy["resourceClaims"] = [claim.model_dump(by_alias=True, exclude_none=True) for claim in claims]
    return policy


def _entry(rj: ReplicatedJob, mode: GangMode | None, options: GangOptions) -> dict[str, Any]:
    match mode:
        case GangMode.GANG:
            return {"targetReplicatedJobs": [rj.name], **_policy(options)}
        case GangMode.REPLICATED_GANG:
            return {"targetReplicatedJobs": [rj.name], "job": _policy(options)}
        case _:
            return {"targetReplicatedJobs": [rj.name], "schedulingPolicy": {"basic": {}}}


def _by_job(jobset: JobSet, gang: Gang) -> bool:
    """Whether a gang is written as that of each Job: it is one, or it is the only Job's with what needs ``job``."""
    if gang.per_replica or not (gang.min_count or gang.resource_claims):
        return gang.per_replica
    return [rj.replicas for rj in jobset.replicated_jobs if rj.name in gang.replicated_jobs] == [1]


def _named(jobset: JobSet, config: GangConfig) -> dict[str, Any]:
    """Entries for named gangs, and basic ones for the ReplicatedJobs in none; one policy for a gang of all."""
    members = {name for gang in config.gangs for name in gang.replicated_jobs}
    rest = [_entry(rj, None, config.options) for rj in jobset.replicated_jobs if rj.name not in members]
    first = config.gangs[0]
    if not rest and len(config.gangs) == 1 and len(members) > 1:
        return _policy(first)
    entries: list[dict[str, Any]] = [
        {
            "targetReplicatedJobs": list(gang.replicated_jobs),
            **({"job": _policy(gang)} if _by_job(jobset, gang) else _policy(gang)),
        }
        for gang in config.gangs
    ]
    return {"replicatedJobs": [*entries, *rest]}


def _jobset_wide(jobset: JobSet, config: GangConfig) -> dict[str, Any]:
    pairs = list(zip(jobset.replicated_jobs, config.replicated_jobs, strict=True))
    members = [rj for rj, mode in pairs if mode is None]
    if not members:
        return {}
    sequenced = is_split(jobset, members)
    if len(members) == len(pairs) and not sequenced:
        return _policy(config.options)
    if len(members) == 1 or sequenced:
        entries = [_entry(rj, GangMode.GANG if mode is None else None, config.options) for rj, mode in pairs]
        return {"replicatedJobs": entries}
    together = {"targetReplicatedJobs": [rj.name for rj in members], **_policy(config.options)}
    apart = [_entry(rj, None, config.options) for rj, mode in pairs if mode is not None]
    return {"replicatedJobs": [together, *apart]}


def _groups(jobset: JobSet, scheduling: Mapping[str, Any]) -> int:
    """Groups that JobSet would make."""
    if "replicatedJobs" not in scheduling:
        return 1
    replicas = {rj.name: rj.replicas for rj in jobset.replicated_jobs}
    return sum(
        replicas[entry["targetReplicatedJobs"][0]] if "job" in entry else 1 for entry in scheduling["replicatedJobs"]
    )


def _unsupported(jobset: JobSet, config: GangConfig) -> list[FieldError]:
    """Errors for parts of GangConfig that ``spec.scheduling`` cannot express."""
    errors = []
    path = f"metadata.annotations[{GANG_OPTIONS}]"
    if config.options.sequenced == "reject":
        detail = f'"reject" has no equivalent in {ROOT}, which splits a gang whose startup is sequenced'
        errors.append(FieldError(f"{path}.sequenced", ErrorKind.FORBIDDEN, detail))
    errors += check_sequences(jobset, config.gangs)
    for index, gang in enumerate(config.gangs):
        for name, written in (("minCount", gang.min_count), ("resourceClaims", gang.resource_claims)):
            if written and not _by_job(jobset, gang):
                where = f"{PATH}[{index}].{name}" if GANGS in jobset.annotations else ROOT
                detail = (
                    f'{name} of gang "{gang.name}" has no equivalent: JobSet takes it for the gang of one Job only '
                    f"({ROOT}.replicatedJobs[].job)"
                )
                errors.append(FieldError(where, ErrorKind.FORBIDDEN, detail))
    return errors


def write_scheduling(jobset: JobSet, config: GangConfig) -> tuple[dict[str, Any] | None, tuple[FieldError, ...]]:
    """``spec.scheduling`` equivalent to ``config``; None without a gang."""
    errors = _unsupported(jobset, config)
    path = f"metadata.annotations[{GANG_OPTIONS}]"
    scheduling: dict[str, Any] = {}
    if config.gangs:
        scheduling = _named(jobset, config)
    elif config.jobset is GangMode.GANG:
        scheduling = _jobset_wide(jobset, config)
    elif config.asks_for_gangs:
        pairs = zip(jobset.replicated_jobs, config.replicated_jobs, strict=True)
        scheduling = {"replicatedJobs": [_entry(rj, mode, config.options) for rj, mode in pairs]}
    if not scheduling:
        if config.options != GangOptions():
            detail = f"there is no gang that these options could apply to in {ROOT}: remove them"
            errors.append(FieldError(path, ErrorKind.FORBIDDEN, detail))
        return None, tuple(errors)
    if config.options.composite and "replicatedJobs" in scheduling:
        where = f"{path}.composite" if GANG_OPTIONS in jobset.annotations else f"{ROOT}.schedulingPolicy"
        detail = f"gangs that start together have no equivalent: JobSet takes no policy beside {ROOT}.replicatedJobs"
        errors.append(FieldError(where, ErrorKind.FORBIDDEN, detail))
        # Beside the error: convert compares what two notations would write, and without it they would be equal.
        scheduling = {"schedulingPolicy": {"gang": {}}, **scheduling}
    if (groups := _groups(jobset, scheduling)) > MAX_TEMPLATES:
        detail = (
            f"{ROOT} would make {groups} groups, one per replicated job and with ReplicatedGang one per replica; "
            f"JobSet allows {MAX_TEMPLATES}. gangctl's annotations have no such limit on replicas"
        )
        errors.append(FieldError("spec.replicatedJobs", ErrorKind.TOO_MANY, detail))
    return scheduling, tuple(errors)


def _check_classes(jobset: JobSet) -> Iterator[FieldError]:
    """Several priority classes: each group gets that of its pods, and the Workload of them all may have one only."""
    first, *others = jobset.replicated_jobs
    for rj in others:
        if rj.priority_class != first.priority_class:
            detail = (
                f'is "{rj.priority_class}", and "{first.priority_class}" for replicated job "{first.name}": JobSet '
                "makes one Workload with a group for all replicated jobs, also those in no gang, and the API server "
                "refuses one with several priority classes"
            )
            yield FieldError(pod_field(rj, "priorityClassName"), ErrorKind.INVALID, detail)
            return


def _check_own(rj: ReplicatedJob) -> Iterator[FieldError]:
    """A group that its pods or its Jobs already have, in a gang or not: JobSet gives all pods one."""
    if rj.scheduling_reference:
        detail = f'the pods of replicated job "{rj.name}" already name a group of their own: remove this field first'
        yield FieldError(pod_field(rj, rj.scheduling_reference), ErrorKind.FORBIDDEN, detail)
    if rj.job_scheduling:
        detail = f"JobSet refuses scheduling of a Job beside {ROOT}: remove this field, or keep the annotations"
        yield FieldError(f"{rj.path}.template.spec.scheduling", ErrorKind.FORBIDDEN, detail)


def _check_pods(jobset: JobSet, scheduling: Mapping[str, Any]) -> Iterator[FieldError]:
    """Gangs without pods: JobSet would write their number as minCount, which is at least 1."""
    by_name = {rj.name: rj for rj in jobset.replicated_jobs}
    for entry in scheduling.get("replicatedJobs", [{"targetReplicatedJobs": [*by_name], **scheduling}]):
        members = [by_name[name] for name in entry["targetReplicatedJobs"]]
        policy = entry.get("job", entry)["schedulingPolicy"]
        if "gang" not in policy or any(job_pods(rj) if "job" in entry else replicated_job_pods(rj) for rj in members):
            continue
        path = members[0].path if len(members) == 1 else "spec.replicatedJobs"
        names = ", ".join(f'"{rj.name}"' for rj in members)
        detail = (
            f"the gang of {names} has no pods, and the API server refuses a Workload with a minCount of 0: leave it "
            "out of the gangs, or keep the annotations"
        )
        yield FieldError(path, ErrorKind.INVALID, detail)


def check_accepted(jobset: JobSet, scheduling: Mapping[str, Any]) -> tuple[FieldError, ...]:
    """Why JobSet or, for its Workload, the API server would refuse the JobSet with this ``spec.scheduling``."""
    own = (error for rj in jobset.replicated_jobs for error in _check_own(rj))
    return (*own, *_check_classes(jobset), *_check_pods(jobset, scheduling))


_SHARED_FIELDS: Final = ("schedulingPolicy", "schedulingConstraints", "disruptionMode", "resourceClaims")
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
    min_count: int | None = None
    """Only if it is not the number of all pods."""
    claims: tuple[ResourceClaim, ...] = ()

    @property
    def options(self) -> tuple[str | None, str | None]:
        """What GangConfig has once for all gangs."""
        return self.topology_key, self.disruption


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
            if key not in allowed:
                known = ", ".join(allowed) or "none"
                where = str(FieldPath.parse(path).child(key))
                self.refuse(where, f"unknown field, known here: {known}", ErrorKind.NOT_SUPPORTED)
        return present

    def choice(
        self, value: object, path: str, names: tuple[str, str], counts: Sequence[str] = ()
    ) -> tuple[str, Mapping[str, Any]]:
        """A union: exactly one of two keys with an object; that of ``gang`` may have ``counts``."""
        present = [(key, item) for key, item in self.mapping(value, path, names).items() if key in names]
        if len(present) != 1:
            self.refuse(path, f"exactly one of {names[0]} and {names[1]} is needed", ErrorKind.INVALID)
            return names[0], {}
        key, item = present[0]
        return key, self.mapping(item, f"{path}.{key}", counts if key == "gang" else ())


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


def _read_block(
    parse: _Parse, block: Mapping[str, Any], path: str, gang: _Gang, pods: int, *, jobs: int | None = None
) -> _Gang:
    """Policy, constraints and disruption mode of one gang with ``pods`` pods, of a number of Jobs or of each Job."""
    counts = ("minCount",) if jobs is None else ("minCount", "minGroupCount")
    policy, details = parse.choice(
        block.get("schedulingPolicy", {"gang": {}}), f"{path}.schedulingPolicy", ("gang", "basic"), counts
    )
    gang.basic = policy == "basic"
    groups = details.get("minGroupCount")
    # In Python True equals 1.
    if groups is not None and (isinstance(groups, bool) or groups != jobs):
        where = f"{path}.schedulingPolicy.gang.minGroupCount"
        parse.refuse(where, f"must be the number of Jobs, {jobs}, as a gang is all of them, got {shown(groups)}")
    count = details.get("minCount")
    if count is not None and (not isinstance(count, int) or isinstance(count, bool) or not 0 < count <= pods):
        where = f"{path}.schedulingPolicy.gang.minCount"
        parse.refuse(where, f"must be a number from 1 to the {pods} pods of the gang, got {shown(count)}")
    elif count != pods:
        gang.min_count = count
    gang.claims = _read_claims(parse, block.get("resourceClaims"), f"{path}.resourceClaims")
    gang.topology_key = _read_topology(parse, block, path)
    if "disruptionMode" in block:
        gang.disruption = parse.choice(block["disruptionMode"], f"{path}.disruptionMode", ("single", "all"))[0]
    if gang.basic and (gang.topology_key or gang.disruption or gang.claims):
        parse.refuse(path, "GangConfig has no word for constraints or a disruption mode of pods that are no gang")
    return gang


def _read_claims(parse: _Parse, value: object, path: str) -> tuple[ResourceClaim, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or len(value) > MAX_CLAIMS:
        parse.refuse(path, f"must be a list of at most {MAX_CLAIMS} claims, got {shown(value)}", ErrorKind.INVALID)
        return ()
    claims = []
    for index, entry in enumerate(value):
        try:
            claims.append(ResourceClaim.model_validate(entry))
        except ValidationError as problem:
            for error in field_errors(problem):
                where = f"{path}[{index}]" + (f".{error.path}" if error.path else "")
                parse.errors.append(FieldError(where, error.kind, error.detail))
    return tuple(claims)


def _read_targets(parse: _Parse, value: object, path: str, taken: dict[str, str]) -> tuple[ReplicatedJob, ...]:
    by_name = {rj.name: rj for rj in parse.jobset.replicated_jobs}
    if not isinstance(value, list) or not value:
        parse.refuse(path, "must list at least one replicated job", ErrorKind.REQUIRED)
        return ()
    targets = []
    for index, name in enumerate(value):
        where = f"{path}[{index}]"
        if not isinstance(name, str) or name not in by_name:
            parse.refuse(where, f"there is no replicated job {shown(name)}", ErrorKind.INVALID)
        elif name in taken:
            parse.refuse(where, f'replicated job "{name}" is already a target at {taken[name]}', ErrorKind.DUPLICATE)
        else:
            taken[name] = where
            targets.append(by_name[name])
    return tuple(targets)


def _read_entry(parse: _Parse, value: object, path: str, taken: dict[str, str]) -> _Gang:
    entry = parse.mapping(value, path, _ENTRY_FIELDS)
    targets = _read_targets(parse, entry.get("targetReplicatedJobs"), f"{path}.targetReplicatedJobs", taken)
    gang = _Gang(path, tuple(rj.name for rj in targets), basic=False)
    if "job" not in entry:
        jobs = sum(rj.replicas for rj in targets)
        return _read_block(parse, entry, path, gang, sum(map(replicated_job_pods, targets)), jobs=jobs)
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
    # A target that was refused would be missing as well.
    if missing and not parse.errors:
        detail = f"every replicated job must be a target of one entry, missing: {', '.join(missing)}"
        parse.refuse(path, detail, ErrorKind.REQUIRED)
    return gangs


def _check_several(parse: _Parse, gang: _Gang) -> None:
    """Errors for several ReplicatedJobs in one group that is no gang, or in one that could not start."""
    members = [rj for rj in parse.jobset.replicated_jobs if rj.name in gang.members]
    if len(members) > 1 and gang.basic:
        parse.refuse(gang.path, "gangctl has no word for a basic group of several replicated jobs")
    elif is_sequenced(parse.jobset, members):
        detail = (
            "these replicated jobs start one after another and would deadlock as one gang: write one entry for each"
        )
        parse.refuse(f"{gang.path}.targetReplicatedJobs", detail, ErrorKind.INVALID)


def _modes(parse: _Parse, gangs: Sequence[_Gang]) -> tuple[GangMode | None, dict[str, GangMode | None]]:
    """Mode of the JobSet and of each ReplicatedJob."""
    real = [gang for gang in gangs if not gang.basic]
    if not real:
        parse.refuse(ROOT, "GangConfig has no word for groups that are no gangs: remove spec.scheduling instead")
    if all(len(gang.members) == 1 for gang in real):
        words = {True: GangMode.REPLICATED_GANG, False: GangMode.GANG}
        modes = {name: None if gang.basic else words[gang.replicated] for gang in gangs for name in gang.members}
        return None, modes
    return GangMode.GANG, {name: GangMode.OFF for gang in gangs if gang.basic for name in gang.members}


def _read_top(parse: _Parse, scheduling: Mapping[str, Any]) -> list[_Gang]:
    rjs = parse.jobset.replicated_jobs
    gang = _Gang(ROOT, tuple(rj.name for rj in rjs), basic=False)
    _read_block(parse, scheduling, ROOT, gang, sum(map(replicated_job_pods, rjs)), jobs=parse.jobset.jobs)
    if gang.basic:
        detail = "GangConfig has no word for a group that is no gang: remove spec.scheduling instead"
        parse.refuse(f"{ROOT}.schedulingPolicy.basic", detail)
    if gang.claims and not rjs:
        parse.refuse(f"{ROOT}.resourceClaims", "there is no replicated job whose pods share the claims")
    return [gang]


def _read_composite(parse: _Parse, scheduling: Mapping[str, Any]) -> bool:
    """Whether all gangs start together: a policy beside the entries, as files have it that older gangctl wrote."""
    for key in _SHARED_FIELDS[1:]:
        if key in scheduling:
            detail = "must not stand next to replicatedJobs: GangConfig has no word for it on all gangs together"
            parse.refuse(f"{ROOT}.{key}", detail, ErrorKind.INVALID)
    if "schedulingPolicy" not in scheduling:
        return False
    policy, details = parse.choice(scheduling["schedulingPolicy"], f"{ROOT}.schedulingPolicy", ("gang", "basic"))
    if details:
        parse.refuse(f"{ROOT}.schedulingPolicy.gang.minCount", "must not be set next to replicatedJobs")
    return policy == "gang"


def _as_list(jobset: JobSet, real: Sequence[_Gang], *, composite: bool) -> GangConfig:
    """Each gang under the name of its first ReplicatedJob, which no other gang has."""
    known = tuple(rj.name for rj in jobset.replicated_jobs)
    names = dict(zip(known, template_names(known), strict=True))
    listed = tuple(
        Gang.model_validate(
            {
                "name": names[gang.members[0]],
                "replicatedJobs": gang.members,
                "perReplica": gang.replicated,
                "topologyKey": gang.topology_key,
                "disruption": gang.disruption,
                "minCount": gang.min_count,
                "resourceClaims": gang.claims,
            }
        )
        for gang in real
    )
    modes = (None,) * len(known)
    return GangConfig(None, modes, GangOptions(composite=composite), listed)


def read_scheduling(jobset: JobSet, value: object) -> tuple[GangConfig, tuple[FieldError, ...]]:
    """The GangConfig equivalent to ``spec.scheduling``, or errors if there is none."""
    parse = _Parse(jobset)
    scheduling = parse.mapping(value, ROOT, (*_SHARED_FIELDS, "replicatedJobs"))
    by_entries = bool(scheduling.get("replicatedJobs"))
    composite = by_entries and _read_composite(parse, scheduling)
    gangs = _read_entries(parse, scheduling["replicatedJobs"]) if by_entries else _read_top(parse, scheduling)
    real = [gang for gang in gangs if not gang.basic]
    several = len(real) > 1 and any(len(gang.members) > 1 for gang in real)
    # Only a list of gangs says the same.
    listed = several or any(gang.min_count or gang.claims or gang.options != real[0].options for gang in real)
    for gang in gangs if by_entries or listed else ():
        _check_several(parse, gang)
    if listed and not parse.errors:
        config = _as_list(jobset, real, composite=composite)
        for index, detail in deadlocks(jobset, config.gangs):
            parse.refuse(f"{real[index].path}.targetReplicatedJobs", detail, ErrorKind.INVALID)
        return config, tuple(parse.errors)
    mode, modes = _modes(parse, gangs) if by_entries and not parse.errors else (GangMode.GANG, {})
    options = GangOptions()
    if real and not parse.errors:
        first = {"topologyKey": real[0].topology_key, "disruption": real[0].disruption}
        options = GangOptions.model_validate({**first, "composite": composite})
    config = GangConfig(mode, tuple(modes.get(rj.name) for rj in jobset.replicated_jobs), options)
    return config, tuple(parse.errors)
