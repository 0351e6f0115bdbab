"""Jobs: defaults, the generated selector, and mutable fields, with the messages of ``batch/v1`` validation.

The pods and the status are not checked.
"""

from __future__ import annotations

from typing import Any, Final

from gangctl.sandbox import errors
from gangctl.sandbox.kinds import ResourceKind
from gangctl.sandbox.objects import Object, copy, keep
from gangctl.sandbox.rules.jobspec import validate_hostnames, validate_restarts, validate_spec
from gangctl.sandbox.rules.metadata import Causes, validate_labels, validate_metadata
from gangctl.sandbox.rules.pods import default_conditions, default_template, validate_reference
from gangctl.sandbox.selectors import selector_object_test
from gangctl.sandbox.store import Store

_MAX_INT32: Final = 2**31 - 1
_BACKOFF_LIMIT: Final = 6
_NAME_LABELS: Final = ("job-name", "batch.kubernetes.io/job-name")
_UID_LABELS: Final = ("controller-uid", "batch.kubernetes.io/controller-uid")
_UID_LABEL: Final = "batch.kubernetes.io/controller-uid"
_IMMUTABLE: Final = (
    "selector",
    "completionMode",
    "podFailurePolicy",
    "backoffLimitPerIndex",
    "managedBy",
    "successPolicy",
)
# What may change in the template of a suspended Job.
_DIRECTIVES: Final = ("nodeSelector", "tolerations", "schedulingGates")


def default(job: Object) -> None:
    """Fill in a Job, in place."""
    spec = job.setdefault("spec", {})
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", _MAX_INT32 if "backoffLimitPerIndex" in spec else _BACKOFF_LIMIT)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")
    spec.setdefault("manualSelector", False)
    template = spec.setdefault("template", {})
    default_template(template)
    for rule in spec.get("podFailurePolicy", {}).get("rules", ()):
        for pattern in rule.get("onPodConditions", ()):
            pattern.setdefault("status", "True")
    default_conditions(job, "lastProbeTime", "lastTransitionTime")
    _label_like_template(job)


def _label_like_template(job: Object) -> None:
    labels = job["spec"]["template"]["metadata"].get("labels")
    if labels and not job["metadata"].get("labels"):
        # One map for both, as in the real server: what the template gets from now on, the Job gets too.
        job["metadata"]["labels"] = labels


def prepare_create(job: Object) -> None:
    """Give a new Job its selector and its empty status; its own labels follow its template's where it has none."""
    job["status"] = {}
    spec, metadata = job["spec"], job["metadata"]
    if spec["manualSelector"]:
        return
    template = spec["template"]["metadata"]
    follows = metadata.get("labels") is template.get("labels")
    labels = template.setdefault("labels", {})
    for key in _NAME_LABELS:
        labels.setdefault(key, metadata.get("name", ""))
    for key in _UID_LABELS:
        labels.setdefault(key, metadata["uid"])
    selector = spec.setdefault("selector", {})
    selector.setdefault("matchLabels", {}).setdefault(_UID_LABEL, metadata["uid"])
    if follows:
        metadata["labels"] = dict(labels)


def admit(kind: ResourceKind, new: Object, old: Object, store: Store) -> None:
    """The JobValidation plugin of 1.36: the parallelism of a Job in a gang is immutable."""
    if new["spec"].get("parallelism") == old["spec"].get("parallelism"):
        return
    name = (old["spec"]["template"]["spec"].get("schedulingGroup") or {}).get("podGroupName", "")
    group = store.find("podgroups.scheduling.k8s.io", old["metadata"]["namespace"], name)
    if group is not None and "gang" in group["spec"].get("schedulingPolicy", {}):
        message = f'cannot change parallelism for a Job referencing gang-scheduled PodGroup "{name}"'
        raise errors.forbidden(kind, new["metadata"]["name"], message)


def validate(new: Object, old: Object | None, subresource: str, minor: str) -> Causes:
    """Errors of a Job, or of a change of its spec."""
    causes = validate_metadata(_with_own_labels(new) if old is None else new, old)
    if subresource:
        return causes
    if old is None:
        _generated(new, causes)
    validate_spec(new["spec"], causes)
    template = new["spec"]["template"]
    # Not metadata.labels: as in the server.
    validate_labels(template["metadata"].get("labels", {}), "spec.template.labels", causes)
    validate_reference(template["spec"], "spec.template.spec", causes)
    validate_restarts(new["spec"], causes)
    _selector(new["spec"], causes)
    if old is None:
        validate_hostnames(new, causes)
    else:
        _change(new["spec"], old, minor, causes)
    return causes


def _generated(job: Object, causes: Causes) -> None:
    """Errors of the labels that :func:`prepare_create` has set, where the user set others."""
    metadata, spec = job["metadata"], job["spec"]
    if spec["manualSelector"]:
        return
    labels = spec["template"]["metadata"]["labels"]
    expected: dict[str, str] = {}
    for uid_label, name_label in zip(_UID_LABELS, _NAME_LABELS, strict=True):
        expected |= {uid_label: metadata["uid"], name_label: metadata.get("name", "")}
    for label, value in expected.items():
        if labels[label] != value:
            causes.invalid(f"spec.template.metadata.labels[{label}]", labels, f"must be '{value}'")
    if not selector_object_test(spec["selector"])(expected):
        causes.invalid("spec.selector", spec["selector"], "`selector` not auto-generated")


def _selector(spec: Object, causes: Causes) -> None:
    labels = spec["template"]["metadata"].get("labels", {})
    if "selector" not in spec:
        causes.required("spec.selector")
    elif not selector_object_test(spec["selector"])(labels):
        causes.invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")


def _with_own_labels(job: Object) -> Object:
    """The Job without labels that follow its template's, which are looked at there."""
    labels = job["metadata"].get("labels")
    if labels != job["spec"]["template"]["metadata"].get("labels"):
        return job
    return {**job, "metadata": {key: value for key, value in job["metadata"].items() if key != "labels"}}


def _change(spec: Object, old_job: Object, minor: str, causes: Causes) -> None:
    old = old_job["spec"]
    _completions(spec, old, causes)
    _template(spec, old_job, minor, causes)
    for field in _IMMUTABLE:
        if spec.get(field) != old.get(field):
            causes.invalid(f"spec.{field}", spec.get(field), "field is immutable")


def _completions(spec: Object, old: Object, causes: Causes) -> None:
    new_value: Any = spec.get("completions")
    if new_value == old.get("completions"):
        return
    if spec.get("completionMode") != "Indexed":
        causes.invalid("spec.completions", new_value, "field is immutable")
    elif new_value is not None and new_value != spec.get("parallelism"):
        causes.invalid("spec.completions", new_value, "can only be modified in tandem with spec.parallelism")


def _template(spec: Object, old_job: Object, minor: str, causes: Causes) -> None:
    """The template is fixed, but for what a queue may change while the Job is suspended."""
    old, status = old_job["spec"], old_job.get("status", {})
    suspended, started = bool(old.get("suspend")), "startTime" in status
    mutable = suspended and not started
    if minor != "1.35":
        held = any(each["type"] == "Suspended" and each["status"] == "True" for each in status.get("conditions", ()))
        mutable = suspended and (not started or held) and not status.get("active")
    new_template, before = spec["template"], copy(old["template"])
    if mutable:
        _take_directives(new_template, before)
    if suspended and mutable and minor != "1.35":
        _only_resources(new_template["spec"], before["spec"], causes)
    elif new_template != before:
        causes.invalid("spec.template", new_template, "field is immutable")


def _take_directives(new: Object, old: Object) -> None:
    for field in _DIRECTIVES:
        keep(old["spec"], new["spec"], field)
    for field in ("annotations", "labels"):
        keep(old["metadata"], new["metadata"], field)
    affinity = dict(old["spec"].get("affinity", {}))
    wanted = new["spec"].get("affinity", {})
    affinity.pop("nodeAffinity", None)
    if "nodeAffinity" in wanted:
        affinity["nodeAffinity"] = wanted["nodeAffinity"]
    if affinity or "affinity" in new["spec"]:
        old["spec"]["affinity"] = affinity
    else:
        old["spec"].pop("affinity", None)


def _only_resources(new: Object, old: Object, causes: Causes) -> None:
    for field in ("containers", "initContainers"):
        mine, theirs = new.get(field, []), old.get(field, [])
        if len(mine) == len(theirs):
            for container, before in zip(mine, theirs, strict=True):
                before["resources"] = container.get("resources", {})
    if new != old:
        causes.invalid("spec.template.spec", new, "field is immutable")
