"""Checks for gangs that can never be scheduled, for options that a cluster or a JobSet lacks, for misspelt keys."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import islice
from typing import Any, Final

from pydantic.alias_generators import to_camel

from gangctl.api import meta
from gangctl.api.jobset import JobSet, ReplicatedJob, exclusive_topology, pod_path
from gangctl.api.objects import INT32_MAX
from gangctl.api.pods import MAX_PRIORITY, SYSTEM_CLASSES
from gangctl.api.scheduling import MAX_TEMPLATES, Capabilities, Claim, Feature, Generation
from gangctl.cel.times import SECOND, parse_duration
from gangctl.errors import ErrorKind, FieldError, one_line, plural
from gangctl.gang.config import PATH, Gang, GangConfig, GangOptions
from gangctl.gang.plan import is_sequenced, job_pods, replicated_job_pods
from gangctl.gang.reasons import Notice, Reason

MAX_JOBS: Final = 50_000
"""Jobs in one JobSet with gangs: every one of them is planned in memory, by JobSet's controller too."""

_LISTED: Final = 8
"""Replicated jobs spelled out in one message."""

Group = Sequence[ReplicatedJob]
"""ReplicatedJobs whose pods share a template."""


def pod_field(rj: ReplicatedJob, field: str) -> str:
    """Path of a field of the pods of a ReplicatedJob."""
    return f"{pod_path(rj.index)}.{field}"


def _variants(group: Iterable[ReplicatedJob], values: Iterable[str]) -> str:
    pairs = islice(zip(group, values, strict=False), _LISTED)
    return ", ".join(f'"{one_line(rj.name, 64)}" has "{one_line(value, 64)}"' for rj, value in pairs)


def check_schedulers(group: Group) -> list[FieldError]:
    """All pods of one group must use one scheduler: a scheduler places only its own pods."""
    schedulers = [rj.scheduler or meta.DEFAULT_SCHEDULER for rj in group]
    odd = next((rj for rj, name in zip(group, schedulers, strict=True) if name != schedulers[0]), None)
    if odd is None:
        return []
    detail = f"all pods of one gang need the same scheduler: {_variants(group, schedulers)}"
    return [FieldError(pod_field(odd, "schedulerName"), ErrorKind.INVALID, detail)]


def _check_priority(group: Group, capabilities: Capabilities) -> tuple[list[FieldError], list[Notice]]:
    system = next((rj for rj in group if rj.priority_class in SYSTEM_CLASSES), None)
    # Before 1.37 such a gang can start: its group need not have the priority of the pods.
    if system is not None and capabilities.uniform_priority:
        name = system.priority_class
        detail = (
            f'"{name}" has priority {SYSTEM_CLASSES[name]}, and a gang may have at most {MAX_PRIORITY}: '
            "use another priority class"
        )
        return [FieldError(pod_field(system, "priorityClassName"), ErrorKind.INVALID, detail)], []
    classes = [rj.priority_class for rj in group]
    if classes.count(classes[0]) == len(classes):
        return [], []
    odd = next(rj for rj in group if rj.priority_class != classes[0])
    variants = _variants(group, classes)
    if capabilities.uniform_priority:
        detail = f"all pods of one gang need the same priority class, or the scheduler refuses the gang: {variants}"
        return [FieldError(pod_field(odd, "priorityClassName"), ErrorKind.INVALID, detail)], []
    message = f"Pods of one gang have different priority classes, which Kubernetes 1.37 refuses: {variants}."
    return [], [Notice(Reason.MIXED_PRIORITY, message)]


def _check_exclusive(jobset: JobSet, group: Group) -> list[FieldError]:
    """Exclusive placement by webhook admits a Job's followers only after its leader is scheduled.

    The leader of a gang is scheduled only with its followers, so any Job with more than one pod deadlocks.
    """
    for rj in group:
        placed = exclusive_topology(jobset, rj)
        if placed is None or job_pods(rj) <= 1:
            continue
        _, path = placed
        pods = plural(job_pods(rj), "pod")
        detail = (
            f'deadlocks with the gang of replicated job "{rj.name}" ({pods} per Job): JobSet admits '
            "followers only after their leader is scheduled, and the gang is scheduled only as a whole. "
            f"Write {meta.NODE_SELECTOR_STRATEGY} beside it, or use pod affinity: gangctl convert --to annotations "
            "--replace-exclusive-topology writes it"
        )
        return [FieldError(path, ErrorKind.FORBIDDEN, detail)]
    return []


def check_groups(
    jobset: JobSet, groups: Iterable[Group], capabilities: Capabilities
) -> tuple[list[FieldError], list[Notice]]:
    """Rules on the pods that share a group; a ReplicatedJob without replicas has no pods and is not checked."""
    errors: list[FieldError] = []
    notices: list[Notice] = []
    for group in groups:
        present = [rj for rj in group if rj.replicas > 0]
        if not present:
            continue
        refused, noticed = _check_priority(present, capabilities)
        errors += refused
        notices += noticed
        errors += _check_exclusive(jobset, present)
    return errors, notices


def check_job_scheduling(members: Iterable[ReplicatedJob]) -> list[FieldError]:
    """A Job's own gang (``spec.scheduling``, KEP-5547) beside a gang of the JobSet: its pods can name one group only.

    The Job controller of 1.37 ignores the field where the pod template names a group already.
    """
    return [
        FieldError(
            f"{rj.path}.template.spec.scheduling",
            ErrorKind.FORBIDDEN,
            f"asks for a gang of each Job, and {meta.GANG_MODE} for one of the JobSet: pods name one group only. "
            f'Remove this field, or set {meta.GANG_MODE}: "Off" on this replicated job',
        )
        for rj in members
        if rj.job_scheduling
    ]


def check_jobs(jobset: JobSet) -> list[FieldError]:
    """The number of Jobs, in or out of gangs, that one JobSet may have: replicas alone could be two billion."""
    if jobset.jobs <= MAX_JOBS:
        return []
    most = f"a JobSet with gangs may have at most {MAX_JOBS}"
    detail = f"{jobset.jobs} Jobs, but {most}: use fewer Jobs with more pods each"
    return [FieldError("spec.replicatedJobs", ErrorKind.TOO_MANY, detail)]


def check_templates(jobset: JobSet, groups: Sequence[Group]) -> list[FieldError]:
    """Limits of one Workload: eight templates, and int32 for every minCount."""
    errors = []
    if len(groups) > MAX_TEMPLATES:
        detail = (
            f"{len(groups)} replicated jobs with a gang of their own, but a Workload holds at most {MAX_TEMPLATES}: "
            "use a JobSet-wide gang, merge replicated jobs into one with more replicas, or split the JobSet"
        )
        errors.append(FieldError("spec.replicatedJobs", ErrorKind.TOO_MANY, detail))
    for group in groups:
        pods = sum(replicated_job_pods(rj) for rj in group)
        if pods > INT32_MAX:
            path = "spec.replicatedJobs" if len(group) > 1 else jobset.replicated_jobs[group[0].index].path
            errors.append(
                FieldError(path, ErrorKind.INVALID, f"{pods} pods in one gang, at most {INT32_MAX} are possible")
            )
    return errors


OPTIONS_PATH: Final = f"metadata.annotations[{meta.GANG_OPTIONS}]"
COMPOSITE_PATH: Final = f"{OPTIONS_PATH}.composite"


NEEDS: Final = {
    "topology_key": Feature.TOPOLOGY,
    "disruption": Feature.DISRUPTION,
    "resource_claims": Feature.CLAIMS,
    "composite": Feature.COMPOSITE,
}
"""What options need from the cluster, by field of :class:`GangOptions` and :class:`Gang`; others every minor has."""


_DEFAULTS: Final[Mapping[type, Mapping[str, Any]]] = {
    model: {name: field.default for name, field in model.model_fields.items() if name in NEEDS}
    for model in (GangOptions, Gang)
}


def _requested(config: GangConfig) -> Iterator[tuple[str, Feature]]:
    """Field paths of options, and what they need from the cluster."""
    gangs = ((f"{PATH}[{index}]", gang) for index, gang in enumerate(config.gangs))
    places = ((OPTIONS_PATH, config.options), *gangs)
    for name, feature in NEEDS.items():
        for path, options in places:
            defaults = _DEFAULTS[type(options)]
            if name in defaults and getattr(options, name) != defaults[name]:
                yield f"{path}.{to_camel(name)}", feature


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
        # Without these two it would be another gang than was asked for; without other options it starts all the same.
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


def check_gangs(jobset: JobSet, gangs: Sequence[Gang], *, resizable: bool = False) -> list[FieldError]:
    """Errors for gangs of ``gangctl.dev/gangs`` that cannot start, or whose pods do not use their claims.

    One that is ``resizable`` may have become smaller than its minCount, which then is all of its pods.
    """
    errors: list[FieldError] = []
    by_name = {rj.name: rj for rj in jobset.replicated_jobs} if gangs else {}
    for index, gang in enumerate(gangs):
        path, members = f"{PATH}[{index}]", [by_name[name] for name in gang.replicated_jobs]
        pods = sum(map(job_pods if gang.per_replica else replicated_job_pods, members))
        # One without pods is no gang, of which there is a notice (GangEmpty).
        if gang.min_count is not None and gang.min_count > pods > 0 and not resizable:
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


def deadlocks(jobset: JobSet, gangs: Sequence[Gang]) -> Iterator[tuple[int, str]]:
    """The gangs, by position, that could never start, and why.

    JobSet starts the ReplicatedJobs of one gang one after another, or gangs wait for each other.
    """
    by_name = {rj.name: rj for rj in jobset.replicated_jobs}
    members = [[by_name[name] for name in gang.replicated_jobs] for gang in gangs]
    # A gang does not wait for a ReplicatedJob without pods.
    present = [[rj for rj in group if replicated_job_pods(rj)] for group in members]
    # One that may start with fewer pods may not need those that come later.
    needs_all = [
        gang.min_count is None or gang.min_count >= sum(map(replicated_job_pods, group))
        for gang, group in zip(gangs, present, strict=True)
    ]
    whole = [group for group, every in zip(present, needs_all, strict=True) if every and len(group) > 1]
    for index, group in enumerate(members):
        if is_sequenced(jobset, group):
            why = "these replicated jobs start one after another (dependsOn or startupPolicy InOrder)"
        elif whole and needs_all[index] and is_sequenced(jobset, present[index], whole):
            why = "one of these replicated jobs starts only after another gang, which waits for this one (dependsOn)"
        else:
            continue
        yield (
            index,
            f"{why}: the first pods of the gang would wait for pods that wait for them. Write a gang for each of them",
        )


def check_sequences(jobset: JobSet, gangs: Sequence[Gang]) -> list[FieldError]:
    """Errors for gangs that could never start, because of the order in which JobSet starts their ReplicatedJobs."""
    return [
        FieldError(f"{PATH}[{index}].replicatedJobs", ErrorKind.INVALID, detail)
        for index, detail in deadlocks(jobset, gangs)
    ]


def check_composite(jobset: JobSet, config: GangConfig, members: Sequence[ReplicatedJob]) -> list[FieldError]:
    """Errors for gangs that cannot start together: those in sequence, and those that the scheduler handles apart."""
    present = [rj for rj in members if rj.replicas > 0]
    if not config.options.composite or not present:
        return []
    errors = []
    if is_sequenced(jobset, present):
        detail = (
            "the gangs start together, and these replicated jobs one after another (dependsOn or startupPolicy "
            "InOrder): leave one of them out"
        )
        errors.append(FieldError(COMPOSITE_PATH, ErrorKind.INVALID, detail))
    for field, values in (
        ("schedulerName", {rj.scheduler or meta.DEFAULT_SCHEDULER for rj in present}),
        ("priorityClassName", {rj.priority_class for rj in present}),
    ):
        if len(values) > 1:
            listed = ", ".join(f'"{value}"' for value in sorted(values))
            detail = f"all pods need one {field}, because the gangs start together; there are {listed}"
            errors.append(FieldError(COMPOSITE_PATH, ErrorKind.INVALID, detail))
    return errors


def _belongs(key: meta.Key) -> str:
    if key.role is meta.KeyRole.WRITTEN:
        return "gangctl writes it itself: leave it out"
    if meta.Place.NAMESPACE in key.places:
        return f"it is a label of {meta.Place.NAMESPACE}"
    return f"it is an annotation{',' if len(key.places) > 1 else ''} of {' or of '.join(key.places)}"


_BELONGS: Final = {key.name: _belongs(key) for key in meta.KEYS}
_READ: Final = tuple(
    key.name for key in meta.KEYS if key.role is not meta.KeyRole.WRITTEN and meta.Place.NAMESPACE not in key.places
)
_SHOWN: Final = 64


def check_keys(jobset: JobSet) -> tuple[Notice, ...]:
    """A notice for each key that has no effect, with the key that was probably meant, and for a value without one."""
    notices = [
        Notice(Reason.UNKNOWN_KEY, f"{path}[{one_line(key, _SHOWN)}] has no effect: {_why(key)}.")
        for path, key in jobset.unread
    ]
    expected = jobset.annotations.get(meta.EXPECTED_DURATION)
    if expected is not None and expected_seconds(expected) is None:
        why = f'"{one_line(expected, _SHOWN)}" is no positive duration, such as 90s, 2h30m or 48h'
        notices.append(
            Notice(Reason.NO_EFFECT, f"metadata.annotations[{meta.EXPECTED_DURATION}] has no effect: {why}.")
        )
    after = jobset.annotations.get(meta.EVICT_STRANDED_AFTER)
    if after is not None and not is_delay(after):
        why = f'"{one_line(after, _SHOWN)}" is neither {NEVER} nor a positive duration, such as 10m'
        notices.append(
            Notice(Reason.NO_EFFECT, f"metadata.annotations[{meta.EVICT_STRANDED_AFTER}] has no effect: {why}.")
        )
    return tuple(notices)


NEVER: Final = "never"
"""The value of ``gangctl.dev/evict-stranded-after`` for a gang that may run below its minimum permanently."""


def is_delay(text: str) -> bool:
    """Whether it is a value of ``gangctl.dev/evict-stranded-after``."""
    return text == NEVER or expected_seconds(text) is not None


def expected_seconds(text: str) -> float | None:
    """How long a JobSet declares to run, in seconds; None if it is no positive duration."""
    try:
        nanoseconds = parse_duration(text).nanoseconds
    except (ValueError, OverflowError):
        return None
    return nanoseconds / SECOND if nanoseconds > 0 else None


def _why(key: str) -> str:
    if key in _BELONGS:
        return _BELONGS[key]
    names = [name.removeprefix(meta.PREFIX) for name in _READ]
    near = get_close_matches(key.removeprefix(meta.PREFIX)[:_SHOWN], names, n=1, cutoff=0.75)
    known = f"did you mean {meta.PREFIX}{near[0]}" if near else f"gangctl reads {', '.join(_READ)}"
    return f"gangctl knows no such key; {known}"
