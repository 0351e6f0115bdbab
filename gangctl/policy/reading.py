"""From documents to models: the errors of a policy or an exception before any expression is compiled.

The rules are those of the API server for ValidatingAdmissionPolicy and its bindings (``k8s.io/kubernetes``,
``pkg/apis/admissionregistration/validation``), and a few of gangctl's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from pydantic import BaseModel
from pydantic import ValidationError as PydanticError

from gangctl.api.labelselector import check_labels, check_term
from gangctl.api.meta import JOBSET_GROUP
from gangctl.api.modelerrors import field_errors
from gangctl.api.names import is_dns_subdomain, is_label_value, is_qualified_name
from gangctl.errors import ErrorKind, FieldError, ValidationError, one_line
from gangctl.gang.validate import NEVER, is_delay
from gangctl.policy.model import (
    LABEL_VALUE_CHARACTERS,
    POLICY_CHARACTERS,
    Accelerator,
    Defaults,
    GangPolicy,
    GangPolicyException,
    GangPolicySpec,
    LabelSelector,
    MatchResources,
    ParamKind,
    ParamRef,
    QueueChoice,
    QueueMatch,
    ResourceRule,
    Validation,
)
from gangctl.policy.review import JOBSETS
from gangctl.policy.verdict import is_rule

_IDENTIFIER: Final = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
# celReserved of the API server's validation: names of variables that it refuses.
_RESERVED: Final = frozenset(
    {"true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if"}
    | {"import", "let", "loop", "package", "namespace", "return", "var", "void", "while"}
)
_LABEL: Final = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_SHOWN: Final = 80
# IsValidPathSegmentName of apimachinery refuses these, and names with a slash or a percent sign.
_PATH_SEGMENTS: Final = frozenset({".", ".."})

Model = TypeVar("Model", bound=BaseModel)


def read_model(document: Mapping[str, Any], model: type[Model]) -> Model:
    """A document without its status as a model; ValidationError when types, sizes or values are wrong."""
    try:
        return model.model_validate({key: value for key, value in document.items() if key != "status"})
    except PydanticError as problem:
        raise ValidationError(field_errors(problem)) from problem


def read_exception(document: Mapping[str, Any]) -> GangPolicyException:
    """A GangPolicyException; ValidationError with all errors."""
    exception = read_model(document, GangPolicyException)
    if errors := list(_check_exception(exception)):
        raise ValidationError(errors)
    return exception


def check_policy(policy: GangPolicy) -> list[FieldError]:
    """The errors of a GangPolicy that has the right shape."""
    spec = policy.spec
    errors = [*_check_name(policy.metadata.name), *check_spec(spec, policy.metadata.name)]
    for field, rules in (
        ("resourceRules", spec.match_constraints.resource_rules),
        ("excludeResourceRules", spec.match_constraints.exclude_resource_rules),
    ):
        for index, resource_rule in enumerate(rules):
            errors += _check_jobsets_only(resource_rule, f"spec.matchConstraints.{field}[{index}]")
    if spec.param_kind is None and spec.param_ref is not None:
        errors.append(FieldError("spec.paramKind", ErrorKind.REQUIRED, "paramRef needs the kind of the objects"))
    if not spec.validations and not spec.audit_annotations and spec.defaults is None:
        detail = "a policy needs at least one of validations, auditAnnotations and defaults"
        errors.append(FieldError("spec.validations", ErrorKind.REQUIRED, detail))
    if spec.defaults is not None:
        errors += _check_defaults(spec.defaults)
    return errors


def check_spec(spec: GangPolicySpec, name: str) -> list[FieldError]:
    """The errors of the fields that native policies have, too; ``name`` is the policy's."""
    errors = list(check_constraints(spec.match_constraints, "spec.matchConstraints"))
    errors += _check_match_conditions(spec)
    errors += _check_variables(spec)
    errors += _check_validations(spec.validations)
    errors += _check_audit_annotations(spec, name)
    errors += check_actions(spec.validation_actions)
    if spec.param_kind is not None:
        errors += _check_param_kind(spec.param_kind)
    if spec.param_ref is not None:
        errors += check_param_ref(spec.param_ref)
    texts = [
        *(condition.expression for condition in spec.match_conditions),
        *(variable.expression for variable in spec.variables),
        *(rule.expression + rule.message_expression for rule in spec.validations),
        *(annotation.value_expression for annotation in spec.audit_annotations),
    ]
    total = sum(map(len, texts))
    if total > POLICY_CHARACTERS:
        detail = f"all expressions together have {total} characters, at most {POLICY_CHARACTERS} are read"
        errors.append(FieldError("spec", ErrorKind.TOO_LONG, detail))
    return errors


def _is_no(value: str, what: str, path: str) -> FieldError:
    return FieldError(path, ErrorKind.INVALID, f'"{one_line(value, _SHOWN)}" is no {what}')


def _check_name(name: str) -> Iterator[FieldError]:
    if not is_dns_subdomain(name):
        yield _is_no(name, 'name: lower case letters, digits, "-" and "."', "metadata.name")


def _duplicates(values: Iterable[str], place: str, key: str = "") -> Iterator[FieldError]:
    """Errors for each value of an earlier entry, except the empty one; ``key`` is the field of the entries."""
    seen: set[str] = set()
    for index, value in enumerate(values):
        if value and value in seen:
            path = f"{place}[{index}]{f'.{key}' if key else ''}"
            yield FieldError(path, ErrorKind.DUPLICATE, f'"{one_line(value, _SHOWN)}" is written twice')
        seen.add(value)


def _blank(text: str, path: str) -> Iterator[FieldError]:
    if not text.strip():
        yield FieldError(path, ErrorKind.REQUIRED, "expression is not specified")


def _check_match_conditions(spec: GangPolicySpec) -> Iterator[FieldError]:
    place = "spec.matchConditions"
    for index, condition in enumerate(spec.match_conditions):
        yield from _blank(condition.expression, f"{place}[{index}].expression")
        if not is_qualified_name(condition.name):
            yield _is_no(condition.name, "qualified name, such as only-gangs", f"{place}[{index}].name")
    yield from _duplicates((match_condition.name for match_condition in spec.match_conditions), place, "name")


def _check_variables(spec: GangPolicySpec) -> Iterator[FieldError]:
    place = "spec.variables"
    for index, variable in enumerate(spec.variables):
        yield from _blank(variable.expression, f"{place}[{index}].expression")
        if not _IDENTIFIER.fullmatch(variable.name) or variable.name in _RESERVED:
            yield _is_no(variable.name, "CEL identifier", f"{place}[{index}].name")
    yield from _duplicates((variable.name for variable in spec.variables), place, "name")


def _check_validations(validations: Sequence[Validation]) -> Iterator[FieldError]:
    for index, rule in enumerate(validations):
        path = f"spec.validations[{index}]"
        yield from _blank(rule.expression, f"{path}.expression")
        if rule.name and not is_rule(rule.name):
            detail = f"{rule.name} stands for the policy as a whole: give the rule another name"
            yield FieldError(f"{path}.name", ErrorKind.INVALID, detail)
        if rule.message and not rule.message.strip():
            yield FieldError(f"{path}.message", ErrorKind.INVALID, "must be non-empty if specified")
        elif set("\r\n") & set(rule.message.strip()):
            yield FieldError(f"{path}.message", ErrorKind.INVALID, "must not contain line breaks")
        if rule.message_expression and not rule.message_expression.strip():
            yield FieldError(f"{path}.messageExpression", ErrorKind.INVALID, "must be non-empty if specified")
    yield from _duplicates((rule.name for rule in validations), "spec.validations", "name")


def _check_audit_annotations(spec: GangPolicySpec, name: str) -> Iterator[FieldError]:
    place = "spec.auditAnnotations"
    for index, annotation in enumerate(spec.audit_annotations):
        yield from _blank(annotation.value_expression, f"{place}[{index}].valueExpression")
        if not is_qualified_name(f"{name}/{annotation.key}"):
            what = 'name for a note: letters, digits, "-", "_" and "."'
            yield _is_no(annotation.key, what, f"{place}[{index}].key")
    yield from _duplicates((audit_annotation.key for audit_annotation in spec.audit_annotations), place, "key")


def check_actions(actions: Sequence[str]) -> Iterator[FieldError]:
    """The errors of ``validationActions``."""
    path = "spec.validationActions"
    yield from _duplicates(actions, path)
    if {"Deny", "Warn"} <= set(actions):
        detail = "must not contain both Deny and Warn: the answer would say the same thing twice"
        yield FieldError(path, ErrorKind.INVALID, detail)


def check_selector(selector: LabelSelector, path: str) -> Iterator[FieldError]:
    """The errors of a label selector."""
    yield from check_labels(selector.match_labels, f"{path}.matchLabels")
    for index, term in enumerate(selector.match_expressions):
        yield from check_term(term.key, term.operator, term.values, f"{path}.matchExpressions[{index}]")


def check_constraints(constraints: MatchResources, path: str) -> Iterator[FieldError]:
    """The errors of ``matchConstraints``, or ``matchResources`` of a binding."""
    yield from check_selector(constraints.namespace_selector, f"{path}.namespaceSelector")
    yield from check_selector(constraints.object_selector, f"{path}.objectSelector")
    for index, rule in enumerate(constraints.resource_rules):
        yield from _check_rule(rule, f"{path}.resourceRules[{index}]")
    for index, rule in enumerate(constraints.exclude_resource_rules):
        yield from _check_rule(rule, f"{path}.excludeResourceRules[{index}]")


def _check_rule(rule: ResourceRule, path: str) -> Iterator[FieldError]:
    lists = {"operations": rule.operations, "apiGroups": rule.api_groups, "apiVersions": rule.api_versions}
    for field, values in lists.items():
        if len(values) > 1 and "*" in values:
            yield FieldError(f"{path}.{field}", ErrorKind.INVALID, 'if "*" is present, nothing else must be')
    yield from _check_resources(rule.resources, f"{path}.resources")
    yield from _duplicates(rule.resource_names, f"{path}.resourceNames")
    for index, name in enumerate(rule.resource_names):
        if name in _PATH_SEGMENTS or set("/%") & set(name):
            yield FieldError(f"{path}.resourceNames[{index}]", ErrorKind.INVALID, "is no name of an object")


def _check_resources(resources: Sequence[str], path: str) -> Iterator[FieldError]:
    """No entry may cover another one."""
    if len(resources) > 1 and "*/*" in resources:
        yield FieldError(path, ErrorKind.INVALID, 'if "*/*" is present, nothing else must be')
    if "*" in resources and any("/" not in resource and resource != "*" for resource in resources):
        yield FieldError(path, ErrorKind.INVALID, 'if "*" is present, no other resource without a subresource must be')
    for index, entry in enumerate(resources):
        resource, slash, part = entry.partition("/")
        wider = {f"{resource}/*", f"*/{part}"} & set(resources[:index]) if slash else set[str]()
        if wider:
            detail = f'if "{min(wider)}" is present, "{one_line(entry, _SHOWN)}" must not be'
            yield FieldError(f"{path}[{index}]", ErrorKind.INVALID, detail)


def _check_jobsets_only(rule: ResourceRule, path: str) -> Iterator[FieldError]:
    for field, values, only in (("apiGroups", rule.api_groups, JOBSET_GROUP), ("resources", rule.resources, JOBSETS)):
        if values != (only,):
            detail = f"a GangPolicy is about JobSets: write {only} alone, or leave matchConstraints out"
            yield FieldError(f"{path}.{field}", ErrorKind.NOT_SUPPORTED, detail)


def _check_param_kind(kind: ParamKind) -> Iterator[FieldError]:
    group, slash, version = kind.api_version.rpartition("/")
    if (slash and not is_dns_subdomain(group)) or not _LABEL.fullmatch(version):
        yield _is_no(kind.api_version, "API version, such as v1 or example.com/v1", "spec.paramKind.apiVersion")
    if not _LABEL.fullmatch(kind.kind.lower()):
        yield _is_no(kind.kind, "kind, such as ConfigMap", "spec.paramKind.kind")


def check_param_ref(reference: ParamRef) -> Iterator[FieldError]:
    """The errors of ``paramRef``."""
    path = "spec.paramRef"
    if reference.name and reference.selector is not None:
        yield FieldError(f"{path}.selector", ErrorKind.FORBIDDEN, "name and selector are mutually exclusive")
    if not reference.name and reference.selector is None:
        yield FieldError(path, ErrorKind.REQUIRED, "one of name or selector must be specified")
    if reference.name in _PATH_SEGMENTS or set("/%") & set(reference.name):
        yield FieldError(f"{path}.name", ErrorKind.INVALID, "is no name of an object")
    if reference.selector is not None:
        yield from check_selector(reference.selector, f"{path}.selector")


def _check_defaults(defaults: Defaults) -> Iterator[FieldError]:
    if not defaults.model_fields_set:
        yield FieldError("spec.defaults", ErrorKind.REQUIRED, "needs at least one default")
    if defaults.gang_mode == "Gang" and defaults.replicated_job_gang_mode is not None:
        detail = "cannot stand beside gangMode Gang, which is about all replicated jobs"
        yield FieldError("spec.defaults.replicatedJobGangMode", ErrorKind.FORBIDDEN, detail)
    if defaults.queue is not None:
        yield from _check_queue(defaults.queue, "spec.defaults.queue")
    if defaults.priority_class is not None:
        yield from _check_priority_class(defaults.priority_class, "spec.defaults.priorityClass")
    after = defaults.evict_stranded_after
    if after is not None and not is_delay(after):
        what = f"delay: {NEVER}, or a positive duration such as 10m"
        yield _is_no(after, what, "spec.defaults.evictStrandedAfter")
    for index, choice in enumerate(defaults.queues):
        yield from _check_choice(choice, f"spec.defaults.queues[{index}]")


def _check_choice(choice: QueueChoice, path: str) -> Iterator[FieldError]:
    match = choice.match
    if match == QueueMatch():
        detail = "needs at least one condition; what all other JobSets get is spec.defaults.queue"
        yield FieldError(f"{path}.match", ErrorKind.REQUIRED, detail)
    selectors = {"namespaceSelector": match.namespace_selector, "objectSelector": match.object_selector}
    for field, selector in selectors.items():
        if selector is not None:
            yield from check_selector(selector, f"{path}.match.{field}")
    yield from _duplicates(match.priority_classes, f"{path}.match.priorityClasses")
    for index, name in enumerate(match.priority_classes):
        if not is_dns_subdomain(name):
            what = 'name of a priority class: lower case letters, digits, "-" and "."'
            yield _is_no(name, what, f"{path}.match.priorityClasses[{index}]")
    if match.accelerator is not None:
        yield from _check_accelerator(match.accelerator, f"{path}.match.accelerator")
    yield from _check_queue(choice.queue, f"{path}.queue")
    if choice.priority_class is not None:
        yield from _check_priority_class(choice.priority_class, f"{path}.priorityClass")


def _check_accelerator(accelerator: Accelerator, path: str) -> Iterator[FieldError]:
    if not accelerator.resource and not accelerator.node_labels:
        yield FieldError(path, ErrorKind.REQUIRED, "needs resource, nodeLabels, or both")
    if accelerator.resource and not is_qualified_name(accelerator.resource):
        yield _is_no(accelerator.resource, "name of a resource, such as nvidia.com/gpu", f"{path}.resource")
    yield from check_labels(accelerator.node_labels, f"{path}.nodeLabels")


def _check_queue(name: str, path: str) -> Iterator[FieldError]:
    if len(name) > LABEL_VALUE_CHARACTERS:
        detail = (
            f"has {len(name)} characters: a LocalQueue may have such a name, but JobSets name theirs in a label, which "
            f"holds {LABEL_VALUE_CHARACTERS}, so that none can be put into it; make a LocalQueue with a shorter name"
        )
        yield FieldError(path, ErrorKind.TOO_LONG, detail)
    elif not is_dns_subdomain(name):
        yield _is_no(name, 'name of a LocalQueue: lower case letters, digits, "-" and "."', path)


def _check_priority_class(name: str, path: str) -> Iterator[FieldError]:
    if not name or not is_label_value(name):
        detail = f'"{one_line(name, _SHOWN)}" cannot be the value of a label'
        yield FieldError(path, ErrorKind.INVALID, detail)


def _check_exception(exception: GangPolicyException) -> Iterator[FieldError]:
    yield from _check_name(exception.metadata.name)
    spec = exception.spec
    yield from _duplicates((policy.name for policy in spec.policies), "spec.policies", "name")
    for field, text in (("owner", spec.owner), ("reason", spec.reason)):
        if not text.strip():
            yield FieldError(f"spec.{field}", ErrorKind.REQUIRED, "says nothing")
    for index, pattern in enumerate(spec.match.names):
        if "*" in pattern[:-1]:
            yield FieldError(f"spec.match.names[{index}]", ErrorKind.INVALID, "a * stands at the end only")
    yield from check_selector(spec.match.namespace_selector, "spec.match.namespaceSelector")
    yield from check_selector(spec.match.object_selector, "spec.match.objectSelector")
