"""Defaults of JobSet 0.12's own webhooks for a new JobSet, and rejections of changes.

Rejections of a new one are left out: the simulated controllers do what they can.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gangctl.sandbox.objects import Object, keep
from gangctl.sandbox.rules.causes import Causes
from gangctl.sandbox.rules.jobset_schema import jobset_schema
from gangctl.sandbox.rules.jobset_types import complete, replicated_jobs
from gangctl.sandbox.rules.pod_defaults import containers
from gangctl.sandbox.rules.schema_values import check_value

# What may change in the pod templates of a suspended JobSet.
_SUSPENDED_SPEC: Final = ("nodeSelector", "tolerations", "schedulingGates")
_SUSPENDED_METADATA: Final = ("annotations", "labels")


def default(jobset: Object) -> None:
    """Fill in a new JobSet, in place; with type errors, which its schema reports, as far as possible."""
    complete(jobset)
    if _has_wrong_types(jobset):
        return
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


def _has_wrong_types(jobset: Object) -> bool:
    causes = Causes()
    check_value(jobset, jobset_schema(), "", causes)
    return any(cause.reason == "FieldValueTypeInvalid" for cause in causes)


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


def validate_update(new: Object, old: Object, gates: Mapping[str, bool]) -> Causes:
    """Errors of the validating webhook for a change: all but what queues and elasticity need."""
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
    return any(each["type"] in {"Completed", "Failed"} and each["status"] == "True" for each in conditions)


def _put_back_directives(replicated: Object, earlier: Object) -> None:
    pod, before = replicated["template"]["spec"]["template"], earlier["template"]["spec"]["template"]
    for field in _SUSPENDED_SPEC:
        keep(pod["spec"], before["spec"], field)
    for field in _SUSPENDED_METADATA:
        keep(pod.setdefault("metadata", {}), before.get("metadata", {}), field)
