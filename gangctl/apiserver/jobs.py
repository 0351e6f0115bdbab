"""Jobs: defaults, the generated selector, and validation, with the messages of ``batch/v1``.

``ValidateJobSpec`` of ``pkg/apis/batch/validation`` without the pod's fields. The pods and the status are not checked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from gangctl.api.failures import DEFAULT_BACKOFF_LIMIT
from gangctl.api.labelselector import selector_object_test
from gangctl.api.names import dns_label, qualified_name
from gangctl.api.objects import INT32_MAX, copy, keep
from gangctl.apiserver.metadata import (
    Causes,
    FieldCause,
    Object,
    selector_causes,
    spelled,
    validate_labels,
    validate_manager,
    validate_metadata,
)
from gangctl.apiserver.pods import (
    SCHEDULING_DIRECTIVES,
    containers,
    default_conditions,
    default_template,
    drop_reference,
    fill,
    validate_reference,
    validate_resource_names,
)

_NAME_LABELS: Final = ("job-name", "batch.kubernetes.io/job-name")
_UID_LABELS: Final = ("controller-uid", "batch.kubernetes.io/controller-uid")
_UID_LABEL: Final = "batch.kubernetes.io/controller-uid"
_IMMUTABLE: Final = (
    "selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy",
)  # fmt: skip


def drop(job: Object, minor: str, gates: Mapping[str, bool]) -> None:
    """Drop fields of disabled gates."""
    spec = job.get("spec", {})
    drop_reference(spec.get("template", {}).get("spec", {}), minor, gates)
    # WorkloadWithJob is off.
    spec.pop("scheduling", None)


def default(job: Object) -> None:
    """Fill in a Job, in place."""
    spec = job.setdefault("spec", {})
    # As ``SetDefaults_Job``: one that sets parallelism alone is a work queue, and has no completions.
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", INT32_MAX if "backoffLimitPerIndex" in spec else DEFAULT_BACKOFF_LIMIT)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")
    spec.setdefault("manualSelector", False)
    template = spec.setdefault("template", {})
    default_template(template)
    for rule in spec.get("podFailurePolicy", {}).get("rules", ()):
        for pattern in rule.get("onPodConditions", ()):
            fill(pattern, "status", "True")
    default_conditions(job, "lastProbeTime", "lastTransitionTime")
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
    # As ``generateSelector`` in pkg/registry/batch/job/strategy.go.
    template = spec["template"]["metadata"]
    # By identity: only where ``default`` has made one map of both.
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
    validate_resource_names(template["spec"], "spec.template.spec", causes)
    validate_reference(template["spec"], "spec.template.spec", causes)
    validate_restarts(new["spec"], causes)
    _selector(new["spec"], causes)
    if old is None:
        name, completions = new["metadata"].get("name", ""), new["spec"].get("completions", 0)
        hostname = f"{name}-{completions - 1}"
        if new["spec"].get("completionMode") == "Indexed" and completions > 0 and dns_label(hostname):
            detail = f"will not able to create pod with invalid DNS label: {hostname}"
            causes.invalid("metadata.name", name, detail)
    else:
        spec = new["spec"]
        _completions(spec, old["spec"], causes)
        _template(spec, old, minor, causes)
        for field in _IMMUTABLE:
            if spec.get(field) != old["spec"].get(field):
                causes.invalid(f"spec.{field}", spec.get(field), "field is immutable")
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
    if not _selects(spec["selector"], expected):
        causes.invalid("spec.selector", spec["selector"], "`selector` not auto-generated")


def _selector(spec: Object, causes: Causes) -> None:
    labels = spec["template"]["metadata"].get("labels", {})
    if "selector" not in spec:
        causes.required("spec.selector")
        return
    causes += selector_causes(spec["selector"], "spec.selector")
    if not _selects(spec["selector"], labels):
        causes.invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")


def _selects(selector: Object, labels: Object) -> bool:
    """Whether it selects these; nothing is said of an invalid one, whose errors :func:`_selector` reports."""
    return bool(selector_causes(selector, "")) or selector_object_test(selector)(labels)


def _with_own_labels(job: Object) -> Object:
    """The Job without labels that follow its template's, which are looked at there."""
    labels = job["metadata"].get("labels")
    if labels != job["spec"]["template"]["metadata"].get("labels"):
        return job
    return {**job, "metadata": {key: value for key, value in job["metadata"].items() if key != "labels"}}


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
    # MutableSchedulingDirectivesForSuspendedJobs (KEP-5440), on since 1.36: a Job that has started counts, too.
    if minor != "1.35":
        held = any(
            condition["type"] == "Suspended" and condition["status"] == "True"
            for condition in status.get("conditions", ())
        )
        mutable = suspended and (not started or held) and not status.get("active")
    new_template, before = spec["template"], copy(old["template"])
    if mutable:
        _take_directives(new_template, before)
    # MutablePodResourcesForSuspendedJobs, of the same KEP.
    if suspended and mutable and minor != "1.35":
        _only_resources(new_template["spec"], before["spec"], causes)
    elif new_template != before:
        causes.invalid("spec.template", new_template, "field is immutable")


def _take_directives(new: Object, old: Object) -> None:
    for field in SCHEDULING_DIRECTIVES:
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


_COUNTS: Final = (
    *("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"),
    *("backoffLimitPerIndex", "maxFailedIndexes"),
)
_MODES: Final = ("NonIndexed", "Indexed")
_MOST_INDEXES: Final = 100_000
_MANY_INDEXES_AT_ONCE: Final = 10_000
"""Limit of parallelism and maxFailedIndexes where more than ``_MOST_INDEXES`` completions fail by index."""
_MAX_RULES: Final = 20
_MAX_EXIT_CODES: Final = 255
_ACTIONS: Final = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS: Final = ("In", "NotIn")
_STATUSES: Final = ("False", "True", "Unknown")


def validate_spec(spec: Object, causes: Causes) -> None:
    """Errors of the spec of a new or changed Job."""
    for field in _COUNTS:
        _nonnegative(spec, field, "spec", causes)
        if field == "maxFailedIndexes" and field in spec and "backoffLimitPerIndex" not in spec:
            causes.required("spec.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    if "managedBy" in spec:
        validate_manager(spec["managedBy"], causes)
    mode = spec.get("completionMode")
    if mode not in _MODES:
        causes.unsupported("spec.completionMode", mode, _MODES)
    elif mode == "Indexed":
        _indexed(spec, causes)
    else:
        for field in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if field in spec:
                causes.invalid(f"spec.{field}", spec[field], "requires indexed completion mode")
    _policies(spec, causes)


def _nonnegative(fields: Mapping[str, Any], field: str, path: str, causes: Causes) -> None:
    if fields.get(field, 0) < 0:
        causes.invalid(f"{path}.{field}", fields[field], "must be greater than or equal to 0")


def _indexed(spec: Object, causes: Causes) -> None:
    completions, parallelism = spec.get("completions"), spec.get("parallelism", 0)
    most_failed = spec.get("maxFailedIndexes")
    if completions is None:
        causes.required("spec.completions", "when completion mode is Indexed")
    at_most = "must be less than or equal to"
    if parallelism > _MOST_INDEXES:
        causes.invalid("spec.parallelism", parallelism, f"{at_most} {_MOST_INDEXES} when completion mode is Indexed")
    if most_failed is not None:
        if completions is not None and most_failed > completions:
            causes.invalid("spec.maxFailedIndexes", most_failed, f"{at_most} completions")
        if most_failed > _MOST_INDEXES:
            causes.invalid("spec.maxFailedIndexes", most_failed, f"{at_most} {_MOST_INDEXES}")
    if completions is None or completions <= _MOST_INDEXES or "backoffLimitPerIndex" not in spec:
        return
    if most_failed is None:
        causes.required("spec.maxFailedIndexes", f"must be specified when completions is above {_MOST_INDEXES}")
    for field, value in (("parallelism", parallelism), ("maxFailedIndexes", most_failed or 0)):
        if value > _MANY_INDEXES_AT_ONCE:
            detail = f"when completions are above {_MOST_INDEXES} and used with backoff limit per index"
            causes.invalid(f"spec.{field}", value, f"{at_most} {_MANY_INDEXES_AT_ONCE} {detail}")


def _policies(spec: Object, causes: Causes) -> None:
    failure, success = spec.get("podFailurePolicy"), spec.get("successPolicy")
    if failure is not None:
        rules = failure.get("rules", [])
        _at_most(_MAX_RULES, rules, "spec.podFailurePolicy.rules", causes)
        for index, rule in enumerate(rules):
            _failure_rule(spec, rule, f"spec.podFailurePolicy.rules[{index}]", causes)
    if success is not None:
        _success_policy(spec, success.get("rules", []), causes)
    replacement = spec.get("podReplacementPolicy", "Failed")
    supported = ("Failed",) if failure is not None else ("Failed", "TerminatingOrFailed")
    if replacement not in supported:
        causes.unsupported("spec.podReplacementPolicy", replacement, supported)


def _at_most(limit: int, items: Sequence[Any], path: str, causes: Causes) -> None:
    if len(items) > limit:
        causes.too_many(path, len(items), limit)


def _one_of(supported: Sequence[str], value: str, path: str, causes: Causes) -> None:
    if not value:
        causes.required(path, f"valid values: [{' '.join(map(spelled, supported))}]")
    elif value not in supported:
        causes.unsupported(path, value, supported)


def _failure_rule(spec: Object, rule: Object, path: str, causes: Causes) -> None:
    action, codes, conditions = rule.get("action", ""), rule.get("onExitCodes"), rule.get("onPodConditions", [])
    if action == "FailIndex" and "backoffLimitPerIndex" not in spec:
        causes.invalid(f"{path}.action", action, "requires the backoffLimitPerIndex to be set")
    else:
        _one_of(_ACTIONS, action, f"{path}.action", causes)
    if codes is not None:
        _exit_codes(spec, codes, f"{path}.onExitCodes", causes)
    _at_most(_MAX_RULES, conditions, f"{path}.onPodConditions", causes)
    for index, pattern in enumerate(conditions):
        place, kind = f"{path}.onPodConditions[{index}]", pattern.get("type", "")
        causes.invalid_each(f"{place}.type", kind, qualified_name(kind))
        _one_of(_STATUSES, pattern.get("status", ""), f"{place}.status", causes)
    if (codes is None) == (not conditions):
        detail = "one of OnExitCodes and OnPodConditions is required"
        if codes is not None:
            detail = "both OnExitCodes and OnPodConditions is not supported"
        causes.append(FieldCause("FieldValueInvalid", path, f"Invalid value: specifying {detail}"))


def _exit_codes(spec: Object, codes: Object, path: str, causes: Causes) -> None:
    operator, values = codes.get("operator", ""), codes.get("values", [])
    _one_of(_OPERATORS, operator, f"{path}.operator", causes)
    pod = spec["template"]["spec"]
    name = codes.get("containerName")
    if name is not None and name not in {container["name"] for container in containers(pod)}:
        detail = "must be one of the container or initContainer names in the pod template"
        causes.invalid(f"{path}.containerName", name, detail)
    if not values:
        causes.invalid(f"{path}.values", None, "at least one value is required")
    _at_most(_MAX_EXIT_CODES, values, f"{path}.values", causes)
    earlier: set[int] = set()
    for index, value in enumerate(values):
        if operator == "In" and value == 0:
            causes.invalid(f"{path}.values[{index}]", value, "must not be 0 for the In operator")
        if value in earlier:
            causes.duplicate(f"{path}.values[{index}]", value)
        earlier.add(value)
    if values != sorted(values):
        causes.invalid(f"{path}.values", values, "must be ordered")


def _success_policy(spec: Object, rules: Sequence[Object], causes: Causes) -> None:
    if spec.get("completionMode") != "Indexed":
        # The server prints its internal type, whose fields have Go's names.
        names = ("SucceededIndexes", "SucceededCount")
        value = [{name: rule.get(name[0].lower() + name[1:]) for name in names} for rule in rules]
        causes.invalid("spec.successPolicy", {"Rules": value or None}, "requires indexed completion mode")
        return
    if not rules:
        detail = "at least one rules must be specified when the successPolicy is specified"
        causes.required("spec.successPolicy.rules", detail)
    _at_most(_MAX_RULES, rules, "spec.successPolicy.rules", causes)
    for index, rule in enumerate(rules):
        _success_rule(rule, spec.get("completions", 0), f"spec.successPolicy.rules[{index}]", causes)


def _success_rule(rule: Object, completions: int, path: str, causes: Causes) -> None:
    count, indexes = rule.get("succeededCount"), rule.get("succeededIndexes")
    if count is None and indexes is None:
        causes.required(path, "at least one of succeededCount or succeededIndexes must be specified")
    total = 0
    if indexes is not None:
        try:
            total = _count_indexes(indexes, completions)
        except ValueError as error:
            causes.invalid(f"{path}.succeededIndexes", indexes, f"error parsing succeededIndexes: {error}")
    _nonnegative(rule, "succeededCount", path, causes)
    limits = {"specified completions": completions}
    if indexes is not None:
        limits["indexes in the specified succeededIndexes field"] = total
    for what, limit in limits.items():
        if count is not None and count > limit:
            detail = f"must be less than or equal to {limit} (the number of {what})"
            causes.invalid(f"{path}.succeededCount", count, detail)


def _count_indexes(text: str, completions: int) -> int:
    """The number of indexes in ``0,2-4``; ValueError in the server's words."""
    # As ``validateIndexesFormat`` reads it.
    last, total = -1, 0
    for part in text.split(",") if text else ():
        limits = part.split("-")
        if len(limits) > len(("first", "last")):
            raise ValueError(
                f"the fragment {spelled(part)} violates the requirement that an index interval can have at most two "
                "parts separated by '-'"
            )
        for limit in limits:
            if not re.fullmatch(r"[0-9]+", limit):
                raise ValueError(f"cannot convert string to integer for index: {spelled(limit)}")
            if int(limit) >= completions:
                raise ValueError(f"too large index: {spelled(limit)}")
            if int(limit) <= last:
                raise ValueError(f"non-increasing order, previous: {last}, current: {limit}")
            last = int(limit)
        total += int(limits[-1]) - int(limits[0]) + 1
    return total


def validate_restarts(spec: Object, causes: Causes) -> None:
    """Errors of the restart policy of a Job's pods, which the server reports after all others of the pods."""
    policy, path = spec["template"]["spec"].get("restartPolicy"), "spec.template.spec.restartPolicy"
    supported = ("OnFailure", "Never")
    if policy in {"Always", None}:
        causes.required(path, 'valid values: "OnFailure", "Never"')
    elif policy not in supported:
        causes.unsupported(path, policy, supported)
    elif "podFailurePolicy" in spec and policy != "Never":
        causes.invalid(path, policy, 'only "Never" is supported when podFailurePolicy is specified')
