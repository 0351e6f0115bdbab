"""What the validating webhook of JobSet 0.10 to 0.12 refuses: ``pkg/webhooks/jobset_webhook.go``.

Left out is what asks a cluster, whether a claim of ``volumeClaimPolicies`` exists. Errors without a field are internal
errors, as the webhook makes them. Releases before 0.12 do not check the label of the coordinator.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from gangctl.api.names import LABEL_LENGTH, dns_1035_label, dns_subdomain, label_value
from gangctl.api.objects import INT32_MAX, keep
from gangctl.apiserver.childjobs import coordinator_of, replicas_of
from gangctl.apiserver.jobsets import replicated_jobs
from gangctl.apiserver.metadata import Causes, Object, validate_manager
from gangctl.apiserver.pods import SCHEDULING_DIRECTIVES, containers

# What may change in the pod templates of a suspended JobSet.
_SUSPENDED_METADATA: Final = ("annotations", "labels")


def validate_update(new: Object, old: Object, gates: Mapping[str, bool]) -> Causes:
    """Errors of the validating webhook for a change: all but what queues and elasticity need."""
    wrong = Causes()
    # The definition does not require a spec; to the webhook none is an empty one.
    new, old = {"spec": {}, **new}, {"spec": {}, **old}
    earlier_ones, munged = replicated_jobs(old), replicated_jobs(new)
    before = {earlier_one["name"]: earlier_one for earlier_one in earlier_ones}
    suspended = bool(old["spec"].get("suspend")) or bool(new["spec"].get("suspend"))
    for index, replicated in enumerate(munged):
        earlier = before.get(replicated["name"])
        if earlier is None:
            continue
        if gates.get("ElasticJobSet"):
            _elastic(replicated, earlier, old, f"spec.replicatedJobs[{index}].template.spec", wrong)
        if suspended:
            pod, old_pod = replicated["template"]["spec"]["template"], earlier["template"]["spec"]["template"]
            for field in SCHEDULING_DIRECTIVES:
                keep(pod["spec"], old_pod["spec"], field)
            for field in _SUSPENDED_METADATA:
                keep(pod.setdefault("metadata", {}), old_pod.get("metadata", {}), field)
    if munged != earlier_ones:
        wrong.invalid("spec.replicatedJobs", munged, "field is immutable")
    if new["spec"].get("managedBy") != old["spec"].get("managedBy"):
        wrong.invalid("spec.managedBy", new["spec"].get("managedBy"), "field is immutable")
    return wrong


def _elastic(replicated: Object, earlier: Object, old: Object, path: str, wrong: Causes) -> None:
    job, before = replicated["template"]["spec"], earlier["template"]["spec"]
    if job.get("completionMode") != "Indexed":
        return
    fields = ("parallelism", "completions")
    changed = [field for field in fields if job.get(field) != before.get(field)]
    if changed and _finished(old):
        message = "Cannot mutate parallelism or completions when JobSet is in a terminal state (Completed or Failed)"
        wrong.forbidden(path, message)
    elif changed:
        for field in changed:
            if job.get(field) is not None and job[field] < 1:
                wrong.invalid(f"{path}.{field}", job[field], f"{field} must be >= 1")
        if None not in {job.get("parallelism"), job.get("completions")} and job["parallelism"] != job["completions"]:
            message = "completions must be equal to parallelism for Elastic Indexed Jobs"
            wrong.invalid(f"{path}.completions", job["completions"], message)
    for field in fields:
        keep(job, before, field)


def _finished(jobset: Object) -> bool:
    conditions = jobset.get("status", {}).get("conditions", ())
    return any(current["type"] in {"Completed", "Failed"} and current["status"] == "True" for current in conditions)


_SINGLE_JOBS: Final = ("RestartJob", "RestartJobAndIgnoreMaxRestarts")
_MOST_REPLICAS: Final = 1024
"""Of a ReplicatedJob whose Jobs restart alone."""
_RULE_NAME: Final = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_RULE_NAME_LENGTH: Final = 128
_REASONS: Final = (
    *("BackoffLimitExceeded", "DeadlineExceeded", "FailedIndexes", "MaxFailedIndexesExceeded", "PodFailurePolicy"),
)
# In the place of the random characters that the Job controller appends.
_POD_SUFFIX: Final = "-abcde"


def validate_create(jobset: Object, gates: Mapping[str, bool], *, new: bool = True) -> Causes:
    """Errors of a JobSet as if it were new, which has its defaults and no error by its schema.

    Restarts in place may be asked for later, without these checks of the Jobs, of one that is not ``new``.
    """
    spec, wrong = jobset["spec"], Causes()
    jobs: list[Object] = spec.get("replicatedJobs") or []
    failure: Object = spec.get("failurePolicy") or {}
    in_place = failure.get("restartStrategy") == "InPlaceRestart"
    if in_place and not gates.get("InPlaceRestart"):
        wrong.internal(
            "spec.failurePolicy.restartStrategy",
            "InPlaceRestart restart strategy cannot be set when InPlaceRestart feature gate is disabled",
        )
    if jobs and jobs[0].get("dependsOn") is not None:
        wrong.internal("spec.replicatedJobs[0].dependsOn", "DependsOn can't be set for the first ReplicatedJob")
    if subdomain := (spec.get("network") or {}).get("subdomain"):
        wrong.invalid_each("spec.network.subdomain", subdomain, dns_subdomain(subdomain))
        details = _shortened(dns_1035_label(subdomain), ".spec.network.subdomain is too long, must be less than")
        wrong.invalid_each("spec.network.subdomain", subdomain, details)
    if "managedBy" in spec:
        validate_manager(spec["managedBy"], wrong)
    earlier: set[str] = set()
    for index, replicated in enumerate(jobs):
        earlier.add(replicated["name"])
        _replicated_job(jobset, replicated, f"spec.replicatedJobs[{index}]", earlier, wrong)
        if new and in_place and gates.get("InPlaceRestart"):
            _restarts_in_place(replicated, f"spec.replicatedJobs[{index}].template.spec", wrong)
    general = {
        "spec.successPolicy.targetReplicatedJobs": _unknown_targets(spec.get("successPolicy") or {}, earlier, ""),
        "spec.failurePolicy.rules": _failure_policy(failure, jobs, earlier, gates),
        "spec.coordinator": _coordinator(jobset, spec["coordinator"], jobs) if spec.get("coordinator") else (),
    }
    for place, messages in general.items():
        for message in messages:
            wrong.internal(place, message)
    _claims(jobset, jobs, wrong)
    return wrong


def _shortened(details: list[str], too_long: str) -> list[str]:
    """Messages of a name, of which JobSet words the one about its length."""
    length = f"must be no more than {LABEL_LENGTH} characters"
    return [f"{too_long} {LABEL_LENGTH} characters" if detail == length else detail for detail in details]


def _replicated_job(jobset: Object, replicated: Object, path: str, earlier: set[str], wrong: Causes) -> None:
    name, replicas, job = replicated["name"], replicas_of(replicated), replicated["template"]["spec"]
    if job.get("parallelism", 1) * replicas > INT32_MAX:
        product = f"the product of replicas and parallelism must not exceed {INT32_MAX}"
        wrong.internal(f"{path}.replicas", f"{product} for replicatedJob '{name}'")
    group = replicated.get("groupName", "default")
    details = dns_1035_label(group)
    wrong.invalid_each(
        f"{path}.groupName",
        group,
        _shortened(details, ".spec.replicatedJob[].groupName is too long, must be less than"),
    )
    longest = f"{jobset['metadata']['name']}-{name}-{replicas - 1}"
    generated = {"job": longest}
    if job.get("completionMode") == "Indexed" and job.get("completions") is not None:
        generated["pod"] = f"{longest}-{job['completions'] - 1}{_POD_SUFFIX}"
    for what, text in generated.items():
        too_long = f"JobSet name is too long, {what} names generated for this JobSet will exceed"
        wrong.invalid_each(f"{path}.name", longest, _shortened(dns_1035_label(text), too_long))
    for index, dependency in enumerate(replicated.get("dependsOn") or ()):
        if dependency["name"] not in earlier:
            place = f"{path}.dependsOn[{index}].name"
            wrong.internal(place, f"replicatedJob: {name} cannot depend on replicatedJob: {dependency['name']}")


def _restarts_in_place(replicated: Object, path: str, wrong: Causes) -> None:
    """Check what the strategy InPlaceRestart asks of the Jobs of a ReplicatedJob."""
    job, when = replicated["template"]["spec"], "when in-place restart is enabled"
    whose = f"replicatedJob {replicated['name']}"
    for field, only, word in (
        ("backoffLimit", INT32_MAX, f"{INT32_MAX} (MaxInt32)"),
        ("podReplacementPolicy", "Failed", "Failed"),
    ):
        if job.get(field) != only:
            wrong.invalid(f"{path}.{field}", job.get(field), f"{whose}: must be set to {word} {when}")
    if job.get("completions") is None or job["completions"] != job.get("parallelism"):
        detail = f"{whose}: completions and parallelism must be set and equal to each other {when}"
        wrong.invalid(f"{path}.completions", job.get("completions"), detail)


def _failure_policy(policy: Object, jobs: list[Object], names: set[str], gates: Mapping[str, bool]) -> Iterator[str]:
    rules: list[Object] = policy.get("rules") or []
    if any(rule["action"] in _SINGLE_JOBS for rule in rules):
        if not gates.get("RestartJob"):
            why = f"{' and '.join(_SINGLE_JOBS)} failure policy actions are not allowed"
            yield f"{why} when RestartJob feature gate is disabled"
            return
        if any(replicas_of(replicated) > _MOST_REPLICAS for replicated in jobs):
            action = f"JobSet cannot have a failure policy rule with {' or '.join(_SINGLE_JOBS)} action"
            yield f"{action} and a replicated job with replicas > {_MOST_REPLICAS}"
    yield from _failure_rules(rules, names)


def _unknown_targets(policy: Object, names: set[str], where: str) -> Iterator[str]:
    for name in policy.get("targetReplicatedJobs") or ():
        if name not in names:
            yield f"invalid replicatedJob name '{name}' {where}does not appear in .spec.ReplicatedJobs"


def _failure_rules(rules: list[Object], names: set[str]) -> Iterator[str]:
    places: dict[str, list[int]] = {}
    for index, rule in enumerate(rules):
        name = rule["name"]
        places.setdefault(name, []).append(index)
        if not 0 < len(name) <= _RULE_NAME_LENGTH:
            yield (
                f"invalid failure policy rule name of length {len(name)}, the rule name must be at least 1 characters "
                f"long and at most {_RULE_NAME_LENGTH} characters long"
            )
        if not _RULE_NAME.fullmatch(name):
            yield (
                f"invalid failure policy rule name '{name}', a failure policy rule name must start with an alphabetic "
                "character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an "
                "alphanumeric character or '_'"
            )
        yield from _unknown_targets(rule, names, "in failure policy ")
        for reason in rule.get("onJobFailureReasons") or ():
            if reason not in _REASONS:
                yield f"invalid job failure reason '{reason}' in failure policy is not a recognized job failure reason"
    for name, indexes in places.items():
        if len(indexes) > 1:
            listed = " ".join(map(str, indexes))
            yield f"rule names are not unique, rules with indices [{listed}] all have the same name '{name}'"


def _coordinator(jobset: Object, coordinator: Object, jobs: list[Object]) -> Iterator[str]:
    name, job_index, pod_index = (coordinator.get(key, 0) for key in ("replicatedJob", "jobIndex", "podIndex"))
    replicated = next((replicated for replicated in jobs if replicated["name"] == name), None)
    job = replicated["template"]["spec"] if replicated is not None else {}
    if replicated is None:
        yield f"coordinator replicatedJob {name} does not exist"
    elif not 0 <= job_index < replicas_of(replicated):
        yield f"coordinator job index {job_index} is invalid for replicatedJob {name}"
    elif job.get("completionMode") != "Indexed" or job.get("completions") is None:
        yield "job for coordinator pod must be indexed completion mode, and completions number must be set"
    elif not 0 <= pod_index < job["completions"]:
        yield f"coordinator pod index {pod_index} is invalid for replicatedJob {name} job index {job_index}"
    endpoint = coordinator_of(jobset)
    if details := label_value(endpoint):
        yield (
            f'spec will lead to invalid label value "{endpoint}" for coordinator label '
            f'"jobset.sigs.k8s.io/coordinator" '
            f"(long JobSet / ReplicatedJob / SubDomain name?): {', '.join(details)}"
        )


def _claims(jobset: Object, jobs: list[Object], wrong: Causes) -> None:
    """Errors of ``volumeClaimPolicies``."""
    seen: set[str] = set()
    pods: list[Object] = [replicated["template"]["spec"]["template"]["spec"] for replicated in jobs]
    mounted = {mount["name"] for pod in pods for one in containers(pod) for mount in one.get("volumeMounts") or ()}
    for number, policy in enumerate(jobset["spec"].get("volumeClaimPolicies") or ()):
        for index, template in enumerate(policy.get("templates") or ()):
            name: Any = (template.get("metadata") or {}).get("name", "")
            path = f"spec.volumeClaimPolicies[{number}].template[{index}].name"
            if name in seen:
                wrong.invalid(path, name, "names must be unique for VolumeClaimPolicies template")
            wrong.invalid_each(path, name, dns_subdomain(name))
            if len(f"{name}-{jobset['metadata']['name']}") > LABEL_LENGTH:
                wrong.invalid(path, name, "VolumeClaimPolicies template name is too long")
            for at, pod in enumerate(pods):
                for place, volume in enumerate(pod.get("volumes") or ()):
                    if volume["name"] == name:
                        where = f"spec.replicatedJobs[{at}].template.spec.template.spec.volumes[{place}].name"
                        wrong.invalid(
                            where, name, f"volume name conflicts with VolumeClaimPolicy template name: {name}"
                        )
            if name not in mounted:
                detail = f"replicatedJob containers don't have a matching volumeMount: {name} from VolumeClaimPolicies"
                wrong.invalid("spec.replicatedJobs", jobs, detail)
            seen.add(name)
