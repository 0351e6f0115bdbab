"""Policies whose meaning is in doubt, to be asked of gangctl and of a real API server alike.

The objects are ConfigMaps, so that nothing else has a say.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.policy.documents import Object

LONG = "x" * 6000
DATA = {"a": "1", "long": LONG, "lines": "a\nb", "blank": "  "}

FAILS = "object.metadata.name == 'nobody'"
ERRS = "object.nothing.there == 1"
ALSO_ERRS = "object.data.more == '1'"


@dataclass(frozen=True)
class Case:
    """A policy's and a binding's fields, and the object's name (``*`` at its end: generateName)."""

    spec: Object
    binding: Object = field(default_factory=dict)
    name: str = "subject"
    rules: Object = field(default_factory=dict)


def rules(*validations: Object | str, binding: Object | None = None, name: str = "subject", **spec: Any) -> Case:
    spec["validations"] = [{"expression": each} if isinstance(each, str) else each for each in validations]
    if not validations:
        del spec["validations"]
    return Case(spec, binding or {}, name)


def says(expression: str, message: str = "") -> Object:
    """A rule that is broken, with a computed message."""
    written = {"message": message} if message else {}
    return {"expression": FAILS, "messageExpression": expression, **written}


def when(*conditions: str, **more: Any) -> Case:
    named = [{"name": f"c{index}", "expression": each} for index, each in enumerate(conditions)]
    return rules({"expression": FAILS, "message": "applied"}, matchConditions=named, **more)


def with_params(
    *validations: Object | str, reference: Object | None, binding: Object | None = None, **spec: Any
) -> Case:
    bound = {**(binding or {}), **({"paramRef": reference} if reference else {})}
    return rules(*validations, binding=bound, paramKind={"apiVersion": "v1", "kind": "ConfigMap"}, **spec)


def named(name: str, action: str = "Deny") -> Object:
    return {"name": name, "parameterNotFoundAction": action}


def labelled(value: str, action: str = "Deny") -> Object:
    return {"selector": {"matchLabels": {"param": value}}, "parameterNotFoundAction": action}


def variable(name: str, expression: str) -> Object:
    return {"name": name, "expression": expression}


def notes(expression: str, **more: Any) -> Case:
    return rules("true", auditAnnotations=[{"key": "note", "valueExpression": expression}], **more)


WARNS: Object = {"validationActions": ["Warn"]}
AUDITS: Object = {"validationActions": ["Audit"]}
USES_PARAMS: Object = {"expression": "params.data.limit == '1'", "messageExpression": "'limit ' + params.data.limit"}

CASES: dict[str, Case] = {
    "kept": rules("true"),
    "message": rules({"expression": FAILS, "message": "not so"}),
    "message-trimmed": rules({"expression": FAILS, "message": "  not so \n"}),
    "no-message": rules(FAILS),
    "no-message-trimmed": rules(f"\n  {FAILS}  \n"),
    "no-message-of-lines": rules("object.metadata.name\n ==\n 'nobody'"),
    "computed": rules(says("'I am ' + object.metadata.name", "else")),
    "computed-error": rules(
        says("object.nothing.there", "else") | {"messageExpression": "string(object.nothing.there)"}
    ),
    "computed-error-without-message": rules(says("string(object.nothing.there)")),
    "computed-empty": rules(says("''", "else")),
    "computed-blank": rules(says("object.data.blank + '\\t'", "else")),
    "computed-trimmed": rules(says("'  said  '", "else")),
    "computed-lines": rules(says("string(object.data.lines)", "else")),
    "computed-long": rules(says("string(object.data.long)", "else")),
    "computed-line-at-the-end": rules(says("'said\\n'", "else")),
    "computed-carriage-return": rules(says("'a\\rb'", "else")),
    "computed-of-variables": rules(says("variables.v + '!'"), variables=[variable("v", "'said'")]),
    "forbidden": rules({"expression": FAILS, "reason": "Forbidden"}),
    "unauthorized": rules({"expression": FAILS, "reason": "Unauthorized"}),
    "too-large": rules({"expression": FAILS, "reason": "RequestEntityTooLarge"}),
    "error": rules(ERRS),
    "error-has-its-own-reason": rules({"expression": ERRS, "reason": "Forbidden", "message": "never said"}),
    "error-ignored": rules(ERRS, failurePolicy="Ignore"),
    "error-ignored-beside-a-failure": rules(ERRS, FAILS, failurePolicy="Ignore"),
    "error-before-failure": rules(ERRS, FAILS),
    "failure-before-error": rules(FAILS, ERRS),
    "all-are-evaluated": rules("true", FAILS, {"expression": FAILS, "reason": "Forbidden"}),
    "error-absorbed": rules(f"true || {ERRS}"),
    "error-absorbed-on-the-left": rules(f"{ERRS} || true"),
    "condition-true": when("true"),
    "condition-false": when("true", "false"),
    "condition-error": when(ERRS),
    "condition-error-ignored": when(ERRS, failurePolicy="Ignore"),
    "condition-error-and-false": when(ERRS, "false"),
    "condition-error-and-true": when("true", ERRS),
    "condition-errors": when(ERRS, ALSO_ERRS),
    "condition-same-errors": when(ERRS, ERRS),
    "condition-sees-no-namespace": when("namespaceObject == null"),
    "condition-sees-a-namespace": when("namespaceObject.metadata.name != ''"),
    "condition-of-variables": when("variables.v", variables=[variable("v", "true")]),
    "condition-of-params": with_params(
        {"expression": FAILS, "message": "applied"},
        reference=named("one"),
        matchConditions=[variable("c", "params.data.limit == '1'")],
    ),
    "condition-of-other-params": with_params(
        {"expression": FAILS, "message": "applied"},
        reference=named("two"),
        matchConditions=[variable("c", "params.data.limit == '1'")],
    ),
    "variable-unused": rules(FAILS, variables=[variable("v", ERRS)]),
    "variable-not-reached": rules("true || variables.v", variables=[variable("v", ERRS)]),
    "variable-absorbed": rules("variables.v || true", variables=[variable("v", ERRS)]),
    "variable-error": rules("variables.v", variables=[variable("v", ERRS)]),
    "variable-composed": rules(
        says("string(variables.b)"), variables=[variable("a", "2"), variable("b", "variables.a * 3")]
    ),
    "variable-composed-error": rules(
        "variables.b", variables=[variable("a", ERRS), variable("b", "variables.a && true")]
    ),
    "variable-forward": rules("variables.a", variables=[variable("a", "variables.b"), variable("b", "true")]),
    "variable-dyn": rules("variables.d == '1'", variables=[variable("d", "object.data.a")]),
    "variable-of-a-quantity": rules(
        "variables.q.isGreaterThan(quantity('1'))", variables=[variable("q", "quantity('2')")]
    ),
    "variable-of-a-request": rules("variables.r.nothing == 1", variables=[variable("r", "request")]),
    "variable-has": rules("has(variables.v)", variables=[variable("v", "1")]),
    "dyn-is-no-bool": rules("object.data.a"),
    "params": with_params(USES_PARAMS, reference=named("two")),
    "params-kept": with_params(USES_PARAMS, reference=named("one")),
    "params-missing": with_params("true", reference=named("none")),
    "params-missing-allowed": with_params(FAILS, reference=named("none", "Allow")),
    "params-missing-ignored": with_params(FAILS, reference=named("none"), failurePolicy="Ignore"),
    "params-missing-warned": with_params(FAILS, reference=named("none"), binding=WARNS),
    "params-by-label": with_params(USES_PARAMS, reference=labelled("both")),
    "params-by-label-none": with_params("true", reference=labelled("nobody")),
    "params-by-label-none-allowed": with_params(FAILS, reference=labelled("nobody", "Allow")),
    "params-without-reference": with_params("params == null", "params.data.limit == '1'", reference=None),
    "params-have-a-type": with_params(
        "params.kind == 'ConfigMap' && params.apiVersion == 'v1'", reference=named("one")
    ),
    "params-of-another-namespace": with_params(
        USES_PARAMS, reference={**named("extension-apiserver-authentication"), "namespace": "kube-system"}
    ),
    "note": notes("'said'"),
    "note-null": notes("null"),
    "note-blank": notes("'  '"),
    "note-error": notes("string(object.nothing.there)"),
    "note-error-ignored": notes("string(object.nothing.there)", failurePolicy="Ignore"),
    "note-error-audited": notes("string(object.nothing.there)", binding=AUDITS),
    "note-alone": rules(auditAnnotations=[{"key": "note", "valueExpression": "'said'"}]),
    "note-of-dyn": notes("object.data.a"),
    "nothing-at-all": rules(),
    "warn": rules({"expression": FAILS, "message": "careful"}, FAILS, binding=WARNS),
    "warn-error": rules(ERRS, binding=WARNS),
    "warn-error-ignored": rules(ERRS, failurePolicy="Ignore", binding=WARNS),
    "audit": rules(FAILS, binding=AUDITS),
    "deny-and-audit": rules(FAILS, binding={"validationActions": ["Audit", "Deny"]}),
    "namespace": rules(says("namespaceObject.metadata.name == object.metadata.namespace ? 'same' : 'other'")),
    "namespace-labels": rules(
        "namespaceObject.metadata.labels['kubernetes.io/metadata.name'] == object.metadata.namespace"
    ),
    "namespace-status": rules(
        "namespaceObject.status.phase == 'Active' && namespaceObject.spec.finalizers == ['kubernetes']"
    ),
    "namespace-without-type": rules("has(namespaceObject.kind)"),
    "namespace-without-annotations": rules("has(namespaceObject.metadata.annotations)"),
    "namespace-not-deleted": rules("has(namespaceObject.metadata.deletionTimestamp)"),
    "namespace-created": rules("namespaceObject.metadata.creationTimestamp > timestamp('2020-01-01T00:00:00Z')"),
    "request": rules(says("request.operation + ' ' + request.kind.kind + ' ' + request.resource.resource")),
    "request-name": rules(says("'name ' + request.name")),
    "request-name-generated": rules(
        "request.name == object.metadata.name && request.name.startsWith('subject-') && size(request.name) == 13",
        name="subject-*",
    ),
    "request-no-subresource": rules("has(request.subResource)"),
    "request-subresource-is-empty": rules("request.subResource == ''"),
    "request-user": rules("size(request.userInfo.groups) > 0 && request.userInfo.username != ''"),
    "request-extra": rules("has(request.userInfo.extra)"),
    "request-kind": rules("request.requestKind.kind == 'ConfigMap' && request.requestResource.version == 'v1'"),
    "request-dry-run": rules("has(request.dryRun) && request.dryRun"),
    "request-options": rules("request.options.kind == 'CreateOptions'"),
    "request-has-no-object": rules("has(request.object)"),
    "old-object": rules("oldObject == null"),
    "old-object-read": rules("oldObject.data.a == '1'"),
    "old-object-has": rules("has(oldObject.data)"),
    "resource-names": Case(
        {"validations": [{"expression": FAILS}]}, rules={"resourceNames": ["subject"]}, name="subject"
    ),
    "resource-names-other": Case({"validations": [{"expression": FAILS}]}, rules={"resourceNames": ["other"]}),
    "resource-names-generated": Case(
        {"validations": [{"expression": FAILS}]}, rules={"resourceNames": ["subject-"]}, name="subject-*"
    ),
    "other-operation": Case({"validations": [{"expression": FAILS}]}, rules={"operations": ["UPDATE"]}),
    "cluster-scope": Case({"validations": [{"expression": FAILS}]}, rules={"scope": "Cluster"}),
    "narrowed-away": rules(FAILS, binding={"matchResources": {"objectSelector": {"matchLabels": {"not": "there"}}}}),
}
