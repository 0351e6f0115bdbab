"""What is wrong with policies and exceptions, each with the path of the field."""

from __future__ import annotations

from typing import Any

import pytest

from gangctl.errors import ErrorKind, ValidationError
from gangctl.policy.model import GangPolicy
from gangctl.policy.reading import check_policy, read_exception, read_model
from tests.policy.documents import Object, exception, policy, rule
from tests.policy.reviews import read_policy
from tests.rows import each

K = ErrorKind


def errors_of(document: Object) -> set[tuple[str, ErrorKind]]:
    try:
        errors = check_policy(read_model(document, GangPolicy))
    except ValidationError as refused:
        errors = [*refused.errors]
    return {(error.path, error.kind) for error in errors}


def constraints(**more: Any) -> Object:
    return policy("true", matchConstraints=more)


PARAMS: Object = {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}
REFERENCE: Object = {"name": "x", "parameterNotFoundAction": "Deny"}

WRONG: dict[str, tuple[Object, str, ErrorKind]] = {
    "unknown field": (policy("true", enforce=True), "spec.enforce", K.FORBIDDEN),
    "no rules": (policy(), "spec.validations", K.REQUIRED),
    "no expression": (policy(validations=[{}]), "spec.validations[0].expression", K.REQUIRED),
    "blank expression": (policy("true", " \n"), "spec.validations[1].expression", K.REQUIRED),
    "long expression": (policy("x" * 4097), "spec.validations[0].expression", K.TOO_LONG),
    "number for a text": (policy(validations=[{"expression": 1}]), "spec.validations[0].expression", K.TYPE_INVALID),
    "null for a text": (
        policy(validations=[{"expression": "true", "message": None}]),
        "spec.validations[0].message",
        K.TYPE_INVALID,
    ),
    "word for a boolean": (policy("true", background="yes"), "spec.background", K.TYPE_INVALID),
    "message of lines": (
        policy(validations=[{"expression": "true", "message": "a\rb"}]),
        "spec.validations[0].message",
        K.INVALID,
    ),
    "blank message": (
        policy(validations=[{"expression": "true", "message": "  "}]),
        "spec.validations[0].message",
        K.INVALID,
    ),
    "blank messageExpression": (
        policy(validations=[{"expression": "true", "messageExpression": " "}]),
        "spec.validations[0].messageExpression",
        K.INVALID,
    ),
    "reason": (
        policy(validations=[{"expression": "true", "reason": "Teapot"}]),
        "spec.validations[0].reason",
        K.NOT_SUPPORTED,
    ),
    "name twice": (
        policy(validations=[{"name": "a", "expression": "true"}, {"name": "a", "expression": "true"}]),
        "spec.validations[1].name",
        K.DUPLICATE,
    ),
    "name like an index": (
        policy(validations=[{"name": "1", "expression": "true"}]),
        "spec.validations[0].name",
        K.INVALID,
    ),
    "name of the whole policy": (
        policy(validations=[{"name": "spec", "expression": "true"}]),
        "spec.validations[0].name",
        K.INVALID,
    ),
    "65 conditions": (
        policy("true", matchConditions=[{"name": f"c{i}", "expression": "true"} for i in range(65)]),
        "spec.matchConditions",
        K.TOO_MANY,
    ),
    "condition twice": (
        policy("true", matchConditions=[{"name": "c", "expression": "true"}] * 2),
        "spec.matchConditions[1].name",
        K.DUPLICATE,
    ),
    "condition with a bad name": (
        policy("true", matchConditions=[{"name": "a b", "expression": "true"}]),
        "spec.matchConditions[0].name",
        K.INVALID,
    ),
    "variable twice": (
        policy("true", variables=[{"name": "v", "expression": "1"}] * 2),
        "spec.variables[1].name",
        K.DUPLICATE,
    ),
    "reserved variable": (
        policy("true", variables=[{"name": "in", "expression": "1"}]),
        "spec.variables[0].name",
        K.INVALID,
    ),
    "annotation twice": (
        policy("true", auditAnnotations=[{"key": "k", "valueExpression": "'v'"}] * 2),
        "spec.auditAnnotations[1].key",
        K.DUPLICATE,
    ),
    "annotation with a bad key": (
        policy("true", auditAnnotations=[{"key": "a/b", "valueExpression": "'v'"}]),
        "spec.auditAnnotations[0].key",
        K.INVALID,
    ),
    "21 annotations": (
        policy("true", auditAnnotations=[{"key": f"k{i}", "valueExpression": "'v'"} for i in range(21)]),
        "spec.auditAnnotations",
        K.TOO_MANY,
    ),
    "no action": (policy("true", validationActions=[]), "spec.validationActions", K.REQUIRED),
    "action twice": (policy("true", validationActions=["Audit"] * 2), "spec.validationActions[1]", K.DUPLICATE),
    "Deny and Warn": (policy("true", validationActions=["Deny", "Warn"]), "spec.validationActions", K.INVALID),
    "action": (policy("true", validationActions=["deny"]), "spec.validationActions[0]", K.NOT_SUPPORTED),
    "paramRef alone": (policy("true", paramRef=REFERENCE), "spec.paramKind", K.REQUIRED),
    "paramRef without anything": (
        policy("true", **PARAMS, paramRef={"parameterNotFoundAction": "Deny"}),
        "spec.paramRef",
        K.REQUIRED,
    ),
    "paramRef with both": (
        policy("true", **PARAMS, paramRef={**REFERENCE, "selector": {}}),
        "spec.paramRef.selector",
        K.FORBIDDEN,
    ),
    "paramRef without action": (
        policy("true", **PARAMS, paramRef={"name": "x"}),
        "spec.paramRef.parameterNotFoundAction",
        K.REQUIRED,
    ),
    "paramKind version": (
        policy("true", paramKind={"apiVersion": "a/b/c", "kind": "X"}, paramRef=REFERENCE),
        "spec.paramKind.apiVersion",
        K.INVALID,
    ),
    "paramKind kind": (
        policy("true", paramKind={"apiVersion": "v1", "kind": "X Y"}, paramRef=REFERENCE),
        "spec.paramKind.kind",
        K.INVALID,
    ),
    "other groups": (
        constraints(resourceRules=[rule(apiGroups=["*"])]),
        "spec.matchConstraints.resourceRules[0].apiGroups",
        K.NOT_SUPPORTED,
    ),
    "other resources": (
        constraints(resourceRules=[rule(), rule(resources=["jobsets", "jobsets/status"])]),
        "spec.matchConstraints.resourceRules[1].resources",
        K.NOT_SUPPORTED,
    ),
    "star among operations": (
        constraints(resourceRules=[rule("*", "CREATE")]),
        "spec.matchConstraints.resourceRules[0].operations",
        K.INVALID,
    ),
    "operation": (
        constraints(resourceRules=[rule("PATCH")]),
        "spec.matchConstraints.resourceRules[0].operations[0]",
        K.NOT_SUPPORTED,
    ),
    "resource name": (
        constraints(resourceRules=[rule(resourceNames=["a/b"])]),
        "spec.matchConstraints.resourceRules[0].resourceNames[0]",
        K.INVALID,
    ),
    "selector term": (
        constraints(namespaceSelector={"matchExpressions": [{"key": "a", "operator": "In"}]}),
        "spec.matchConstraints.namespaceSelector.matchExpressions[0].values",
        K.REQUIRED,
    ),
    "selector value": (
        constraints(objectSelector={"matchLabels": {"a.b/c": "not a label"}}),
        "spec.matchConstraints.objectSelector.matchLabels[a.b/c]",
        K.INVALID,
    ),
    "selector number": (
        constraints(objectSelector={"matchLabels": {"a": 1}}),
        "spec.matchConstraints.objectSelector.matchLabels[a]",
        K.TYPE_INVALID,
    ),
    "empty defaults": (policy(defaults={}), "spec.defaults", K.REQUIRED),
    "default mode": (policy(defaults={"gangMode": "gang"}), "spec.defaults.gangMode", K.NOT_SUPPORTED),
    "default modes": (
        policy(defaults={"gangMode": "Gang", "replicatedJobGangMode": "ReplicatedGang"}),
        "spec.defaults.replicatedJobGangMode",
        K.FORBIDDEN,
    ),
    "a default gang of no replicated job": (
        policy(defaults={"gangMode": "Gang", "replicatedJobGangMode": "Off"}),
        "spec.defaults.replicatedJobGangMode",
        K.FORBIDDEN,
    ),
    "default queue": (policy(defaults={"queue": "a b"}), "spec.defaults.queue", K.INVALID),
    "default option": (policy(defaults={"options": {"x": 1}}), "spec.defaults.options.x", K.FORBIDDEN),
    "name of the policy": (policy("true", name="No Name"), "metadata.name", K.INVALID),
    "another version": ({**policy("true"), "apiVersion": "gangctl.dev/v1"}, "apiVersion", K.NOT_SUPPORTED),
    "no spec": (
        {"apiVersion": "gangctl.dev/v1alpha1", "kind": "GangPolicy", "metadata": {"name": "x"}},
        "spec",
        K.REQUIRED,
    ),
}


@each("case", WRONG)
def test_an_error_is_reported_at_its_field(case: str) -> None:
    document, path, kind = WRONG[case]
    assert errors_of(document) == {(path, kind)}


def test_all_errors_are_reported_at_once() -> None:
    document = policy("", "true", validationActions=["Deny", "deny"], matchConditions=[{"name": "c"}], more=1)
    assert {path for path, _ in errors_of(document)} == {
        "spec.validations[0].expression",
        "spec.validationActions[1]",
        "spec.matchConditions[0].expression",
        "spec.more",
    }


def test_all_expressions_together_are_bounded() -> None:
    assert errors_of(policy(*["x" * 4000] * 17)) == {("spec", K.TOO_LONG)}
    read_policy(policy(*["x" * 4000] * 16))


def test_defaults_alone_are_a_policy() -> None:
    read = read_policy(policy(defaults={"gangMode": "Off", "replicatedJobGangMode": "Gang"}))
    assert read.spec.validations == ()
    assert read.spec.failure_policy == "Fail"
    assert read.spec.background


def test_defaults_are_those_of_native_policies() -> None:
    spec = read_policy(policy("true", matchConstraints={"resourceRules": [rule("CREATE")]})).spec
    assert spec.validation_actions == ("Deny",)
    assert spec.match_constraints.match_policy == "Equivalent"
    assert spec.match_constraints.resource_rules[0].scope == "*"
    assert spec.validations[0].reason == "Invalid"


def test_status_and_metadata_of_a_stored_policy_are_ignored() -> None:
    document = policy("true")
    document["metadata"] |= {"labels": {"a": "b"}, "managedFields": [{}], "generation": 3}
    document["status"] = {"from": "the future"}
    assert read_policy(document).metadata.generation == 3


EXCEPTION: dict[str, tuple[Object, str]] = {
    "no policy": (exception(), "spec.policies"),
    "a policy twice": (exception({"name": "a"}, {"name": "a", "rules": ["x"]}), "spec.policies[1].name"),
    "blank owner": (exception({"name": "a"}, owner=" "), "spec.owner"),
    "no owner": (exception({"name": "a"}, owner=""), "spec.owner"),
    "blank reason": (exception({"name": "a"}, reason="\t"), "spec.reason"),
    "no end": (exception({"name": "a"}, expiresAt=None), "spec.expiresAt"),
    "an end without a zone": (exception({"name": "a"}, expiresAt="2026-01-01T00:00:00"), "spec.expiresAt"),
    "a number for an end": (exception({"name": "a"}, expiresAt=1_900_000_000), "spec.expiresAt"),
    "a day for an end": (exception({"name": "a"}, expiresAt="2026-01-01"), "spec.expiresAt"),
    "a star within": (exception({"name": "a"}, match={"names": ["a*b"]}), "spec.match.names[0]"),
    "a selector": (
        exception({"name": "a"}, match={"objectSelector": {"matchLabels": {"-": ""}}}),
        "spec.match.objectSelector.matchLabels",
    ),
}


@each("case", EXCEPTION)
def test_exceptions_need_an_owner_a_reason_and_an_expiry(case: str) -> None:
    document, path = EXCEPTION[case]
    with pytest.raises(ValidationError) as refused:
        read_exception(document)
    assert {error.path for error in refused.value.errors} == {path}
