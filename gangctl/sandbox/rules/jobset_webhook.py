"""What JobSet 0.12's own webhooks fill in and refuse."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from gangctl.sandbox.errors import Cause
from gangctl.sandbox.objects import Object
from gangctl.sandbox.rules import names
from gangctl.sandbox.rules.causes import Causes
from gangctl.sandbox.rules.jobset_types import complete, in_go_order, replicated_jobs
from gangctl.sandbox.rules.jobset_volumes import check_volume_claims
from gangctl.sandbox.rules.pod_defaults import containers
from gangctl.sandbox.rules.world import World

_MAX_INT32: Final = 2**31 - 1
_MAX_RESTART_JOB_REPLICAS: Final = 1024
_MAX_RULE_NAME: Final = 128
_MANAGED_BY_LENGTH: Final = 63
_RULE_NAME: Final = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_HTTP_PATH: Final = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")
_COORDINATOR: Final = "jobset.sigs.k8s.io/coordinator"
_FAILURE_REASONS: Final = (
    *("BackoffLimitExceeded", "DeadlineExceeded", "FailedIndexes", "MaxFailedIndexesExceeded", "PodFailurePolicy"),
)
_RESTART_JOB: Final = frozenset({"RestartJob", "RestartJobAndIgnoreMaxRestarts"})
_TOO_LONG_JOB: Final = "JobSet name is too long, job names generated for this JobSet will exceed 63 characters"
_TOO_LONG_POD: Final = "JobSet name is too long, pod names generated for this JobSet will exceed 63 characters"
_TOO_LONG_GROUP: Final = ".spec.replicatedJob[].groupName is too long, must be less than 63 characters"
_TOO_LONG_SUBDOMAIN: Final = ".spec.network.subdomain is too long, must be less than 63 characters"
# What may change in the pod templates of a suspended JobSet.
_SUSPENDED_SPEC: Final = ("nodeSelector", "tolerations", "schedulingGates")
_SUSPENDED_METADATA: Final = ("annotations", "labels")


def default(jobset: Object) -> None:
    """Fill in a new JobSet, in place; StatusError 400 when it cannot be read."""
    complete(jobset)
    spec = jobset["spec"]
    spec.setdefault("successPolicy", {"operator": "All"})
    spec.setdefault("startupPolicy", {"startupPolicyOrder": "AnyOrder"})
    for replicated in spec.get("replicatedJobs") or ():
        job = replicated["template"]["spec"]
        job.setdefault("completionMode", "Indexed")
        pod = job["template"]["spec"]
        pod["restartPolicy"] = pod.get("restartPolicy") or "OnFailure"
        _name_references(pod)
    network = spec.setdefault("network", {})
    for field in ("enableDNSHostnames", "publishNotReadyAddresses"):
        network.setdefault(field, True)
    for index, rule in enumerate(spec.get("failurePolicy", {}).get("rules") or ()):
        rule["name"] = rule["name"] or f"failurePolicyRule{index}"
    for policy in spec.get("volumeClaimPolicies") or ():
        policy.setdefault("retentionPolicy", {"whenDeleted": "Delete"})


def _name_references(pod: Object) -> None:
    """What refers to an object has a name, if an empty one."""
    for container in containers(pod):
        for variable in container.get("env") or ():
            for field in ("configMapKeyRef", "secretKeyRef"):
                reference = (variable.get("valueFrom") or {}).get(field)
                if reference is not None:
                    reference.setdefault("name", "")
        for source in container.get("envFrom") or ():
            for field in ("configMapRef", "secretRef"):
                if source.get(field) is not None:
                    source[field].setdefault("name", "")
    for reference in pod.get("imagePullSecrets") or ():
        reference.setdefault("name", "")


class _Wrong(Causes):
    def internal(self, told: str) -> None:
        """An error that upstream returns without a field."""
        self.append(Cause("InternalError", "<nil>", f"Internal error: {told}"))

    def dns_1035(self, path: str, text: str, value: str, long: str) -> None:
        """``text`` is no DNS label, told of ``value``."""
        for told in names.dns_1035_label(text):
            self.invalid(path, value, long if told.startswith("must be no more than") else told)


def validate(jobset: Object, gates: Mapping[str, bool], world: World) -> Causes:
    """What the validating webhook refuses of a new JobSet."""
    wrong, spec = _Wrong(), jobset.get("spec", {})
    replicated = spec.get("replicatedJobs") or []
    strategy = spec.get("failurePolicy", {}).get("restartStrategy")
    if strategy == "InPlaceRestart" and not gates.get("InPlaceRestart"):
        wrong.internal("InPlaceRestart restart strategy cannot be set when InPlaceRestart feature gate is disabled")
    if replicated and replicated[0].get("dependsOn") is not None:
        wrong.internal("DependsOn can't be set for the first ReplicatedJob")
    _network(spec.get("network", {}), wrong)
    if spec.get("managedBy") is not None:
        _managed_by(spec["managedBy"], wrong)
    known: set[str] = set()
    for index, each in enumerate(replicated):
        known.add(each.get("name", ""))
        _replicated(jobset["metadata"].get("name", ""), each, f"spec.replicatedJobs[{index}]", known, wrong)
    for name in spec.get("successPolicy", {}).get("targetReplicatedJobs", ()):
        if name not in known:
            wrong.internal(f"invalid replicatedJob name '{name}' does not appear in .spec.ReplicatedJobs")
    if "failurePolicy" in spec:
        _failure_policy(spec, known, gates, wrong)
    if "coordinator" in spec:
        _coordinator(spec["coordinator"], replicated, wrong)
        _coordinator_label(jobset, wrong)
    check_volume_claims(jobset, world, wrong)
    return wrong


def _network(network: Object, wrong: _Wrong) -> None:
    subdomain, path = network.get("subdomain", ""), "spec.network.subdomain"
    if subdomain:
        wrong.invalid_each(path, subdomain, names.dns_subdomain(subdomain))
        wrong.dns_1035(path, subdomain, subdomain, _TOO_LONG_SUBDOMAIN)


def _managed_by(value: str, wrong: _Wrong) -> None:
    host, slash, path = value.partition("/")
    if not value:
        wrong.required("spec.managedBy")
    elif not slash or not host or not path:
        wrong.invalid("spec.managedBy", value, 'must be a domain-prefixed path (such as "acme.io/foo")')
    else:
        wrong.invalid_each("spec.managedBy", host, names.dns_subdomain(host))
        if _HTTP_PATH.fullmatch(path) is None:
            wrong.invalid("spec.managedBy", path, f"Invalid path (regex used for validation is '{_HTTP_PATH.pattern}')")
    if len(value) > _MANAGED_BY_LENGTH:
        wrong.too_long("spec.managedBy", _MANAGED_BY_LENGTH)


def _replicated(jobset: str, replicated: Object, path: str, known: set[str], wrong: _Wrong) -> None:
    name, replicas = replicated.get("name", ""), int(replicated.get("replicas", 0))
    job: Any = replicated.get("template", {}).get("spec", {})
    if int(job.get("parallelism", 1)) * replicas > _MAX_INT32:
        wrong.internal(
            f"the product of replicas and parallelism must not exceed {_MAX_INT32} for replicatedJob '{name}'"
        )
    group = replicated.get("groupName", "")
    wrong.dns_1035(f"{path}.groupName", group, group, _TOO_LONG_GROUP)
    longest = f"{jobset}-{name}-{replicas - 1}"
    wrong.dns_1035(f"{path}.name", longest, longest, _TOO_LONG_JOB)
    if job.get("completionMode") == "Indexed" and job.get("completions") is not None:
        pod = f"{longest}-{job['completions'] - 1}-abcde"
        wrong.dns_1035(f"{path}.name", pod, longest, _TOO_LONG_POD)
    for dependency in replicated.get("dependsOn") or ():
        if dependency["name"] not in known:
            wrong.internal(f"replicatedJob: {name} cannot depend on replicatedJob: {dependency['name']}")


def _failure_policy(spec: Object, known: set[str], gates: Mapping[str, bool], wrong: _Wrong) -> None:
    rules = spec["failurePolicy"].get("rules", [])
    if any(rule["action"] in _RESTART_JOB for rule in rules):
        if not gates.get("RestartJob"):
            actions = "RestartJob and RestartJobAndIgnoreMaxRestarts failure policy actions"
            wrong.internal(f"{actions} are not allowed when RestartJob feature gate is disabled")
            return
        if any(each.get("replicas", 0) > _MAX_RESTART_JOB_REPLICAS for each in spec.get("replicatedJobs", ())):
            wrong.internal(
                "JobSet cannot have a failure policy rule with RestartJob or RestartJobAndIgnoreMaxRestarts action "
                f"and a replicated job with replicas > {_MAX_RESTART_JOB_REPLICAS}"
            )
    named: dict[str, list[int]] = {}
    for index, rule in enumerate(rules):
        named.setdefault(rule["name"], []).append(index)
        _rule(rule, known, wrong)
    for name, indexes in named.items():
        if len(indexes) > 1:
            listed = " ".join(map(str, indexes))
            wrong.internal(f"rule names are not unique, rules with indices [{listed}] all have the same name '{name}'")


def _rule(rule: Object, known: set[str], wrong: _Wrong) -> None:
    name = rule["name"]
    if not 1 <= len(name) <= _MAX_RULE_NAME:
        wrong.internal(
            f"invalid failure policy rule name of length {len(name)}, the rule name must be at least 1 characters long "
            f"and at most {_MAX_RULE_NAME} characters long"
        )
    if _RULE_NAME.fullmatch(name) is None:
        wrong.internal(
            f"invalid failure policy rule name '{name}', a failure policy rule name must start with an alphabetic "
            "character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an "
            "alphanumeric character or '_'"
        )
    for target in rule.get("targetReplicatedJobs", ()):
        if target not in known:
            told = "in failure policy does not appear in .spec.ReplicatedJobs"
            wrong.internal(f"invalid replicatedJob name '{target}' {told}")
    for reason in rule.get("onJobFailureReasons", ()):
        if reason not in _FAILURE_REASONS:
            told = "in failure policy is not a recognized job failure reason"
            wrong.internal(f"invalid job failure reason '{reason}' {told}")


def _coordinator(coordinator: Object, replicated: list[Any], wrong: _Wrong) -> None:
    name, index, pod = coordinator["replicatedJob"], coordinator.get("jobIndex", 0), coordinator.get("podIndex", 0)
    found = next((each for each in replicated if each["name"] == name), None)
    if found is None:
        wrong.internal(f"coordinator replicatedJob {name} does not exist")
        return
    if not 0 <= index < found.get("replicas", 0):
        wrong.internal(f"coordinator job index {index} is invalid for replicatedJob {name}")
        return
    job = found["template"]["spec"]
    if job.get("completionMode") != "Indexed" or job.get("completions") is None:
        wrong.internal("job for coordinator pod must be indexed completion mode, and completions number must be set")
    elif not 0 <= pod < job["completions"]:
        wrong.internal(f"coordinator pod index {pod} is invalid for replicatedJob {name} job index {index}")


def _coordinator_label(jobset: Object, wrong: _Wrong) -> None:
    coordinator, network = jobset["spec"]["coordinator"], jobset["spec"].get("network") or {}
    name = jobset["metadata"].get("name", "")
    pod = f"{name}-{coordinator['replicatedJob']}-{coordinator.get('jobIndex', 0)}-{coordinator.get('podIndex', 0)}"
    value = f"{pod}.{network.get('subdomain') or name}"
    problems = names.label_value(value)
    if problems:
        wrong.internal(
            f'spec will lead to invalid label value "{value}" for coordinator label "{_COORDINATOR}" '
            f"(long JobSet / ReplicatedJob / SubDomain name?): {', '.join(problems)}"
        )


def validate_update(new: Object, old: Object, gates: Mapping[str, bool]) -> Causes:
    """What the validating webhook refuses of a change: all but what queues and elasticity need."""
    wrong = Causes()
    earlier_ones, munged = replicated_jobs(old), replicated_jobs(new)
    before = {each["name"]: each for each in earlier_ones}
    suspended = bool(old["spec"].get("suspend")) or bool(new["spec"].get("suspend"))
    for index, replicated in enumerate(munged):
        earlier = before.get(replicated["name"])
        if earlier is None:
            continue
        if gates.get("ElasticJobSet"):
            _elastic(replicated, earlier, old, f"spec.replicatedJobs[{index}].template.spec", wrong)
        if suspended:
            _put_back_directives(replicated, earlier)
    if munged != earlier_ones:
        wrong.invalid("spec.replicatedJobs", in_go_order(munged), "field is immutable")
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
        told = "Cannot mutate parallelism or completions when JobSet is in a terminal state (Completed or Failed)"
        wrong.forbidden(path, told)
    elif changed:
        for field in changed:
            if job.get(field) is not None and job[field] < 1:
                wrong.invalid(f"{path}.{field}", job[field], f"{field} must be >= 1")
        if None not in {job.get("parallelism"), job.get("completions")} and job["parallelism"] != job["completions"]:
            told = "completions must be equal to parallelism for Elastic Indexed Jobs"
            wrong.invalid(f"{path}.completions", job["completions"], told)
    for field in fields:
        _put_back(job, before, field)


def _finished(jobset: Object) -> bool:
    conditions = jobset.get("status", {}).get("conditions", ())
    return any(each["type"] in {"Completed", "Failed"} and each["status"] == "True" for each in conditions)


def _put_back_directives(replicated: Object, earlier: Object) -> None:
    pod, before = replicated["template"]["spec"]["template"], earlier["template"]["spec"]["template"]
    for field in _SUSPENDED_SPEC:
        _put_back(pod["spec"], before["spec"], field)
    for field in _SUSPENDED_METADATA:
        _put_back(pod.setdefault("metadata", {}), before.get("metadata", {}), field)


def _put_back(new: Object, old: Object, field: str) -> None:
    if field in old:
        new[field] = old[field]
    else:
        new.pop(field, None)
