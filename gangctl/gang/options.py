"""Checks of the options of gangs: what the cluster supports, and what the JobSet's pods need for them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from gangctl.api.jobset import JobSet, ReplicatedJob
from gangctl.api.meta import DEFAULT_SCHEDULER, GANG_OPTIONS
from gangctl.api.scheduling import Claim, Feature, Generation
from gangctl.errors import ErrorKind, FieldError, plural
from gangctl.gang.config import GangConfig
from gangctl.gang.counting import is_sequenced, job_pods, replicated_job_pods
from gangctl.gang.gangs import PATH, Gang
from gangctl.gang.reasons import Notice, Reason

_OPTIONS_PATH: Final = f"metadata.annotations[{GANG_OPTIONS}]"
_COMPOSITE_PATH: Final = f"{_OPTIONS_PATH}.composite"


def _requested(config: GangConfig) -> Iterator[tuple[str, Feature]]:
    """Field paths of options, and what they need from the cluster."""
    entries = [(f"{PATH}[{index}]", gang.topology_key, gang.disruption) for index, gang in enumerate(config.gangs)]
    for path, topology_key, disruption in (
        (_OPTIONS_PATH, config.options.topology_key, config.options.disruption),
        *entries,
    ):
        if topology_key is not None:
            yield f"{path}.topologyKey", Feature.TOPOLOGY
        if disruption is not None:
            yield f"{path}.disruption", Feature.DISRUPTION
    for index, gang in enumerate(config.gangs):
        if gang.resource_claims:
            yield f"{PATH}[{index}].resourceClaims", Feature.CLAIMS
    if config.options.composite:
        yield _COMPOSITE_PATH, Feature.COMPOSITE


def check_support(
    config: GangConfig, generation: Generation, lacks: Collection[Feature]
) -> tuple[list[FieldError], list[Notice]]:
    """Errors for options that the cluster does not support, and notices of those without which the gang can start.

    ``lacks`` is what the cluster does not keep although its ``generation`` can express it.
    """
    errors, dropped = [], dict[Feature, list[str]]()
    this = f"this is {generation.kubernetes} ({generation.api_version})"
    for path, feature in _requested(config):
        composite = feature is Feature.COMPOSITE
        capable = generation.capabilities.composite if composite else generation.capabilities.constraints
        if not capable:
            detail = f"needs Kubernetes {'1.37' if composite else '1.36'} or later; {this}"
            errors.append(FieldError(path, ErrorKind.FORBIDDEN, detail))
        elif feature in lacks and feature in {Feature.CLAIMS, Feature.COMPOSITE}:
            api = "scheduling.k8s.io/v1alpha3 and " if composite else ""
            detail = (
                f"needs {api}the {feature.gates} on the kube-apiserver, kube-scheduler and "
                "kube-controller-manager, and this cluster does not have it"
            )
            errors.append(FieldError(path, ErrorKind.FORBIDDEN, detail))
        elif feature in lacks:
            dropped.setdefault(feature, []).append(path)
    notices = [
        Notice(
            Reason.OPTION_DROPPED,
            f"The gang starts without {', '.join(paths)}: the API server drops {feature} of groups without the "
            f"{feature.gates}.",
        )
        for feature, paths in dropped.items()
    ]
    return errors, notices


def check_gangs(jobset: JobSet, gangs: Iterable[Gang]) -> list[FieldError]:
    """Errors for gangs of ``gangctl.dev/gangs`` that cannot start, or whose pods do not use their claims."""
    errors = []
    by_name = {rj.name: rj for rj in jobset.replicated_jobs}
    for index, gang in enumerate(gangs):
        path, members = f"{PATH}[{index}]", [by_name[name] for name in gang.replicated_jobs]
        pods = sum(map(job_pods if gang.per_replica else replicated_job_pods, members))
        if gang.min_count is not None and gang.min_count > pods > 0:
            detail = f"is {gang.min_count}, and the gang has {plural(pods, 'pod')}: it could never start"
            errors.append(FieldError(f"{path}.minCount", ErrorKind.INVALID, detail))
        errors += _check_claims(gang, members, f"{path}.resourceClaims")
    return errors


def _check_claims(gang: Gang, members: Sequence[ReplicatedJob], path: str) -> Iterator[FieldError]:
    """Pods share a claim of their group only where their own entry is the same, name and source."""
    names: dict[str, str] = {}
    for index, claim in enumerate(gang.claims()):
        where = f"{path}[{index}]"
        if names.setdefault(claim.name, where) != where:
            detail = f'"{claim.name}" is also the name of {names[claim.name]}'
            yield FieldError(f"{where}.name", ErrorKind.DUPLICATE, detail)
            continue
        named = [(rj, own) for rj in members for own in rj.claims if own.name == claim.name]
        if not named:
            detail = (
                f'no pod of the gang uses it: add {{"name": "{claim.name}", {_source(claim)}}} to resourceClaims of '
                "their pod templates"
            )
            yield FieldError(where, ErrorKind.INVALID, detail)
        for rj, own in named:
            if own != claim:
                detail = (
                    f'{_source(claim)}, and the pods of replicated job "{rj.name}" have a claim of this name with '
                    f"{_source(own)}: write the same in both, or they do not share it"
                )
                yield FieldError(where, ErrorKind.INVALID, detail)


def _source(claim: Claim) -> str:
    return ", ".join(f'"{key}": "{value}"' for key, value in claim.encode().items() if key != "name")


def check_sequences(jobset: JobSet, gangs: Iterable[Gang]) -> list[FieldError]:
    """Errors for ReplicatedJobs of one gang that JobSet starts one after another: the gang would deadlock."""
    by_name = {rj.name: rj for rj in jobset.replicated_jobs}
    detail = (
        "these replicated jobs start one after another (dependsOn or startupPolicy InOrder): the first pods of the "
        "gang would wait for pods that wait for them. Write a gang for each of them"
    )
    return [
        FieldError(f"{PATH}[{index}].replicatedJobs", ErrorKind.INVALID, detail)
        for index, gang in enumerate(gangs)
        if len(gang.replicated_jobs) > 1 and is_sequenced(jobset, [by_name[name] for name in gang.replicated_jobs])
    ]


def check_composite(jobset: JobSet, config: GangConfig, members: Sequence[ReplicatedJob]) -> list[FieldError]:
    """Errors for gangs that cannot start together: those in sequence, and those that the scheduler handles apart."""
    present = [rj for rj in members if rj.replicas > 0]
    if not config.options.composite or not present:
        return []
    errors = []
    if len(present) > 1 and is_sequenced(jobset, present):
        detail = (
            "the gangs start together, and these replicated jobs one after another (dependsOn or startupPolicy "
            "InOrder): leave one of them out"
        )
        errors.append(FieldError(_COMPOSITE_PATH, ErrorKind.INVALID, detail))
    for field, values in (
        ("schedulerName", {rj.scheduler or DEFAULT_SCHEDULER for rj in present}),
        ("priorityClassName", {rj.priority_class for rj in present}),
    ):
        if len(values) > 1:
            listed = ", ".join(f'"{value}"' for value in sorted(values))
            detail = f"all pods need one {field}, because the gangs start together; there are {listed}"
            errors.append(FieldError(_COMPOSITE_PATH, ErrorKind.INVALID, detail))
    return errors
