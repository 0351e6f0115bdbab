"""GangConfig as JobSet's own gang scheduling, ``spec.scheduling`` (KEP-969).

Rules of that API: a top-level policy and ``replicatedJobs`` exclude each other, every
ReplicatedJob is the target of exactly one entry, an absent policy means gang, and one
Workload holds at most eight groups, of which ``job`` takes one per replica.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gangctl.api.jobset import JobSet, ReplicatedJob
from gangctl.api.meta import GANG_OPTIONS
from gangctl.api.scheduling import MAX_TEMPLATES
from gangctl.errors import ErrorKind, FieldError
from gangctl.gang.config import GangConfig, GangMode, GangOptions
from gangctl.gang.counting import is_sequenced
from gangctl.gang.gangs import Gang

ROOT: Final = "spec.scheduling"


def _policy(options: GangOptions) -> dict[str, Any]:
    policy: dict[str, Any] = {"schedulingPolicy": {"gang": {}}}
    if options.topology_key:
        policy["schedulingConstraints"] = {"topology": [{"key": options.topology_key}]}
    if options.disruption:
        policy["disruptionMode"] = {options.disruption: {}}
    return policy


def _entry(rj: ReplicatedJob, mode: GangMode | None, options: GangOptions) -> dict[str, Any]:
    match mode:
        case GangMode.GANG:
            return {"targetReplicatedJobs": [rj.name], **_policy(options)}
        case GangMode.REPLICATED_GANG:
            return {"targetReplicatedJobs": [rj.name], "job": _policy(options)}
        case _:
            return {"targetReplicatedJobs": [rj.name], "schedulingPolicy": {"basic": {}}}


def _gang_policy(gang: Gang) -> dict[str, Any]:
    policy: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": gang.min_count} if gang.min_count else {}}}
    if gang.topology_key:
        policy["schedulingConstraints"] = {"topology": [{"key": gang.topology_key}]}
    if gang.disruption:
        policy["disruptionMode"] = {gang.disruption: {}}
    if gang.resource_claims:
        claims = [each.model_dump(by_alias=True, exclude_none=True) for each in gang.resource_claims]
        policy["resourceClaims"] = claims
    return policy


def _named(jobset: JobSet, config: GangConfig) -> dict[str, Any]:
    """Entries for named gangs, and basic ones for the ReplicatedJobs in none; one policy for a gang of all."""
    members = {name for gang in config.gangs for name in gang.replicated_jobs}
    rest = [_entry(rj, None, config.options) for rj in jobset.replicated_jobs if rj.name not in members]
    first = config.gangs[0]
    if not rest and len(config.gangs) == 1 and not first.per_replica and len(members) > 1:
        return _gang_policy(first)
    entries: list[dict[str, Any]] = [
        {
            "targetReplicatedJobs": list(gang.replicated_jobs),
            **({"job": _gang_policy(gang)} if gang.per_replica else _gang_policy(gang)),
        }
        for gang in config.gangs
    ]
    return {"replicatedJobs": [*entries, *rest]}


def _jobset_wide(jobset: JobSet, config: GangConfig) -> dict[str, Any]:
    pairs = list(zip(jobset.replicated_jobs, config.replicated_jobs, strict=True))
    members = [rj for rj, mode in pairs if mode is None]
    if len(members) == len(pairs):
        return _policy(config.options)
    if not members:
        return {}
    if len(members) == 1 or is_sequenced(jobset, members):
        modes = [GangMode.GANG if mode is None else None for mode in config.replicated_jobs]
        return {
            "replicatedJobs": [_entry(rj, mode, config.options) for (rj, _), mode in zip(pairs, modes, strict=True)]
        }
    together = {"targetReplicatedJobs": [rj.name for rj in members], **_policy(config.options)}
    apart = [_entry(rj, None, config.options) for rj, mode in pairs if mode is not None]
    return {"replicatedJobs": [together, *apart]}


def _groups(jobset: JobSet, scheduling: Mapping[str, Any]) -> int:
    """Groups that JobSet would make."""
    if "replicatedJobs" not in scheduling:
        return len(jobset.replicated_jobs) if is_sequenced(jobset, jobset.replicated_jobs) else 1
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
    for rj, mode in zip(jobset.replicated_jobs, config.replicated_jobs, strict=True):
        ganged = mode in {GangMode.GANG, GangMode.REPLICATED_GANG} or (mode is None and config.jobset is GangMode.GANG)
        if ganged and rj.scheduling_reference:
            detail = (
                f'the pods of replicated job "{rj.name}" already name a group of their own: remove this field first'
            )
            where = f"{rj.path}.template.spec.template.spec.{rj.scheduling_reference}"
            errors.append(FieldError(where, ErrorKind.FORBIDDEN, detail))
    return errors


def write_scheduling(jobset: JobSet, config: GangConfig) -> tuple[dict[str, Any] | None, tuple[FieldError, ...]]:
    """``spec.scheduling`` equivalent to ``config``; None without a gang."""
    errors = _unsupported(jobset, config)
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
            errors.append(FieldError(f"metadata.annotations[{GANG_OPTIONS}]", ErrorKind.FORBIDDEN, detail))
        return None, tuple(errors)
    if config.options.composite and "replicatedJobs" in scheduling:
        # JobSet takes both together with its feature gate JobSetGangOfGangs.
        scheduling = {"schedulingPolicy": {"gang": {}}, **scheduling}
    if (groups := _groups(jobset, scheduling)) > MAX_TEMPLATES:
        detail = (
            f"{ROOT} would make {groups} groups, one per replicated job and with ReplicatedGang one per replica; "
            f"JobSet allows {MAX_TEMPLATES}. gangctl's annotations have no such limit on replicas"
        )
        errors.append(FieldError("spec.replicatedJobs", ErrorKind.TOO_MANY, detail))
    return scheduling, tuple(errors)
