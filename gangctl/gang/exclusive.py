"""Exclusive placement (one Job per topology domain) written as pod affinity, which does not deadlock a gang.

With JobSet's annotation the followers of a Job are admitted after their leader has a node, but the leader of a gang is
scheduled only together with its followers. Pod affinity expresses the same rule for the scheduler: all pods of a Job in
one domain, and no pod of another Job there. ``matchLabelKeys`` and ``mismatchLabelKeys`` (KEP-3633, on by default since
Kubernetes 1.31) compare JobSet's label ``job-key`` without knowing its value. As in JobSet, only pods of the same
priority are excluded: preemption considers one node at a time.
"""

from __future__ import annotations

from typing import Final

from gangctl.api.jobset import JobSet, ReplicatedJob, read_jobset
from gangctl.api.meta import (
    EXCLUSIVE_TOPOLOGY,
    GANG_OPTIONS,
    JOB_KEY,
    JOBSET_NAME,
    JOBSET_PRIORITY,
    NODE_SELECTOR_STRATEGY,
)
from gangctl.api.reader import Reader
from gangctl.api.scheduling import Generation
from gangctl.errors import ErrorKind, FieldError
from gangctl.gang.config import GangConfig, GangMode, read_config
from gangctl.gang.convert import Conversion, options_text
from gangctl.gang.counting import job_pods
from gangctl.gang.edits import Object, with_key, with_metadata

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
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
    keys = {rj.index: key for rj in jobset.replicated_jobs if (key := _key(jobset, rj))}
    ganged = [rj for rj in jobset.replicated_jobs if rj.index in keys and _mode(config, rj) is not GangMode.OFF]
    if not any(job_pods(rj) > 1 for rj in ganged):
        return Conversion(raw)
    errors = [each for rj in jobset.replicated_jobs if rj.index in keys for each in _affinity_errors(raw, rj)]
    if errors:
        return Conversion(raw, tuple(errors))
    entries = list(raw["spec"]["replicatedJobs"])
    for rj in jobset.replicated_jobs:
        if rj.index in keys:
            entries[rj.index] = _placed(entries[rj.index], keys[rj.index])
        elif NODE_SELECTOR_STRATEGY in rj.annotations and (inherited := _inherited(jobset, rj)):
            entries[rj.index] = _with_own_annotation(entries[rj.index], inherited)
    changed = {**raw, "spec": with_key(raw["spec"], "replicatedJobs", entries)}
    notes: dict[str, str | None] = {EXCLUSIVE_TOPOLOGY: None}
    if generation is not None and generation.capabilities.constraints and _each_gang_is_a_job(jobset, config, keys):
        options = config.options.model_copy(update={"topology_key": next(iter(keys.values()))})
        notes[GANG_OPTIONS] = options_text(options)
    return Conversion(with_metadata(changed, "annotations", notes))


def _key(jobset: JobSet, rj: ReplicatedJob) -> str:
    """The topology of a ReplicatedJob that JobSet's webhook places exclusively."""
    if NODE_SELECTOR_STRATEGY in rj.annotations or NODE_SELECTOR_STRATEGY in jobset.annotations:
        return ""
    return rj.annotations.get(EXCLUSIVE_TOPOLOGY) or jobset.annotations.get(EXCLUSIVE_TOPOLOGY) or ""


def _inherited(jobset: JobSet, rj: ReplicatedJob) -> str:
    """The topology that a ReplicatedJob has from its JobSet alone."""
    return "" if EXCLUSIVE_TOPOLOGY in rj.annotations else jobset.annotations.get(EXCLUSIVE_TOPOLOGY, "")


def _mode(config: GangConfig, rj: ReplicatedJob) -> GangMode:
    for gang in config.gangs:
        if rj.name in gang.replicated_jobs:
            return GangMode.REPLICATED_GANG if gang.per_replica else GangMode.GANG
    return config.replicated_jobs[rj.index] or config.jobset or GangMode.OFF


def _each_gang_is_a_job(jobset: JobSet, config: GangConfig, keys: dict[int, str]) -> bool:
    """Whether all pods of any gang belong in one domain."""
    if config.gangs or config.options.topology_key is not None or len(set(keys.values())) > 1:
        return False
    ganged = [rj for rj in jobset.replicated_jobs if _mode(config, rj) is not GangMode.OFF]
    if config.jobset is GangMode.GANG and len(ganged) > 1:
        return False
    return all(
        rj.index in keys and (rj.replicas == 1 or _mode(config, rj) is GangMode.REPLICATED_GANG) for rj in ganged
    )


def _affinity_errors(raw: Object, rj: ReplicatedJob) -> list[FieldError]:
    """Values of an affinity that have the wrong type, or that conflict with another term."""
    errors: list[FieldError] = []
    pods = Reader(raw["spec"]["replicatedJobs"][rj.index], rj.path, errors)
    for part in ("template", "spec", "template", "spec", "affinity"):
        pods = pods.child(part)
    terms = {part: pods.child(part).children(_REQUIRED, _MOST_TERMS) for part in ("podAffinity", "podAntiAffinity")}
    if terms["podAffinity"]:
        detail = (
            "requires other pods already, and Kubernetes counts only pods that match all required terms of a pod "
            f"together: write what {EXCLUSIVE_TOPOLOGY} means into these terms by hand"
        )
        errors.append(FieldError(f"{pods.path}.podAffinity.{_REQUIRED}", ErrorKind.FORBIDDEN, detail))
    return errors


def _part(value: Object, key: str) -> Object:
    """The object under ``key``, which may be absent or null."""
    found: Object = value.get(key) or {}
    return found


def _placed(entry: Object, key: str) -> Object:
    """The ReplicatedJob with pod affinity in place of the annotation."""
    template = _part(entry, "template")
    job = _part(template, "spec")
    pod = _part(job, "template")
    spec = _part(pod, "spec")
    affinity = _part(spec, "affinity")
    own = {"labelSelector": _OF_JOBSETS, "matchLabelKeys": [JOB_KEY], "topologyKey": key}
    others = {
        "labelSelector": _OF_JOBSETS,
        "matchLabelKeys": [JOBSET_PRIORITY],
        "mismatchLabelKeys": [JOB_KEY],
        "namespaceSelector": {},
        "topologyKey": key,
    }
    added = {
        part: {**_part(affinity, part), _REQUIRED: [*(_part(affinity, part).get(_REQUIRED) or ()), term]}
        for part, term in (("podAffinity", own), ("podAntiAffinity", others))
    }
    job = {**job, "template": {**pod, "spec": {**spec, "affinity": {**affinity, **added}}}}
    return {**entry, "template": with_metadata({**template, "spec": job}, "annotations", {EXCLUSIVE_TOPOLOGY: None})}


def _with_own_annotation(entry: Object, key: str) -> Object:
    """The ReplicatedJob with the JobSet's annotation on itself."""
    return {**entry, "template": with_metadata(_part(entry, "template"), "annotations", {EXCLUSIVE_TOPOLOGY: key})}
