"""Native policies with their bindings, as documents."""

from __future__ import annotations

from typing import Any

import pytest

from gangctl.policy.loaded import PolicyError
from gangctl.policy.native import is_native, load_native, pair
from gangctl.policy.verdict import ValidationAction
from tests.policy.documents import Object
from tests.rows import each

V1 = "admissionregistration.k8s.io/v1"
PODS: Object = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}


def native(name: str = "p", version: str = V1, **spec: Any) -> Object:
    spec = {"matchConstraints": {"resourceRules": [PODS]}, "validations": [{"expression": "true"}], **spec}
    return {"apiVersion": version, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name}, "spec": spec}


def binding(name: str = "b", policy: str = "p", version: str = V1, **spec: Any) -> Object:
    spec = {"policyName": policy, "validationActions": ["Deny"], **spec}
    return {"apiVersion": version, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name}, "spec": spec}


def problems(*documents: Object) -> set[tuple[str, str]]:
    with pytest.raises(PolicyError) as refused:
        load_native(documents)
    return {(problem.binding, problem.path) for problem in refused.value.problems}


def test_each_binding_is_a_separate_policy() -> None:
    reference = {"name": "x", "parameterNotFoundAction": "Allow"}
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    warn = binding("warn", validationActions=["Warn"], paramRef=reference)
    narrow = binding("deny", matchResources={"namespaceSelector": {"matchLabels": {"a": "b"}}})
    found = load_native([warn, native(paramKind=kind), narrow])
    assert [each.name for each in found] == ["p/warn", "p/deny"]
    assert [each.actions for each in found] == [{ValidationAction.WARN}, {ValidationAction.DENY}]
    assert [each.spec.param_ref is None for each in found] == [False, True]
    assert [each.narrowing is None for each in found] == [True, False]
    assert all(each.native for each in found)


def test_a_policy_without_a_binding_denies_under_its_own_name() -> None:
    (found,) = load_native([native()])
    assert found.name == "p"
    assert found.actions == {ValidationAction.DENY}


def test_a_loaded_policy_loads_again_from_its_source() -> None:
    documents = [native(), binding("a"), binding("b", validationActions=["Audit"])]
    for policy in load_native(documents):
        (again,) = load_native([policy.source])
        assert (again.name, again.spec, again.narrowing) == (policy.name, policy.spec, policy.narrowing)


@each("version", ["v1", "v1beta1"])
def test_both_versions_are_read(version: str) -> None:
    group = f"admissionregistration.k8s.io/{version}"
    assert is_native(native(version=group))
    assert [each.name for each in load_native([native(version=group), binding(version=group)])] == ["p/b"]


def test_defaults_of_stored_policies_are_accepted() -> None:
    stored = native(
        failurePolicy="Fail",
        matchConstraints={
            "matchPolicy": "Equivalent",
            "namespaceSelector": {},
            "objectSelector": {},
            "resourceRules": [{**PODS, "scope": "*"}],
        },
        paramKind=None,
        auditAnnotations=None,
    )
    stored["metadata"] |= {"uid": "u", "generation": 1, "managedFields": [], "annotations": {}}
    stored["status"] = {"observedGeneration": 1, "typeChecking": {}}
    assert load_native([stored])[0].generation == 1


LONG = f"object.metadata.name in {[f'registry.example.com/team-{n}' for n in range(200)]}"
MANY = {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": [f"team-{n}" for n in range(80)]}]}
"""A selector with more values than one of a GangPolicy may have."""


LARGE: dict[str, Object] = {
    "variable": {"variables": [{"name": "v" * 64, "expression": LONG}]},
    "condition": {"matchConditions": [{"name": "c", "expression": LONG}]},
    "annotation": {"auditAnnotations": [{"key": "k", "valueExpression": f"'{'a' * 5000}'"}]},
    "resources": {"matchConstraints": {"resourceRules": [{**PODS, "resources": [f"r{n}" for n in range(40)]}]}},
    "rules": {"matchConstraints": {"resourceRules": [PODS] * 40}},
    "selector": {"matchConstraints": {"namespaceSelector": MANY, "resourceRules": [PODS]}},
}


@each("spec", LARGE.values(), LARGE)
def test_the_limits_of_gangpolicies_are_not_those_of_native_policies(spec: Object) -> None:
    narrow = {"objectSelector": MANY, "excludeResourceRules": [PODS] * 40}
    bound = binding(matchResources=narrow, paramRef={"selector": MANY, "parameterNotFoundAction": "Allow"})
    assert [one.name for one in load_native([native(**spec), bound])] == ["p/b"]


def test_bindings_without_their_policy_are_reported() -> None:
    pairs, strays = pair([native(), binding(policy="q"), {"apiVersion": "v1", "kind": "ConfigMap"}])
    assert [each.name for each in pairs] == ["p"]
    assert [each["metadata"]["name"] for each in strays] == ["b"]


def test_problems_are_reported_in_their_document() -> None:
    wrong = binding(validationActions=["Deny", "Warn"], paramRef={"parameterNotFoundAction": "Deny"})
    assert problems(native(validations=[{"expression": "1"}]), wrong) == {
        ("", "spec.validations[0].expression"),
        ("b", "spec.validationActions"),
        ("b", "spec.paramRef"),
    }
    assert problems(native(), binding(validationActions=[])) == {("b", "spec.validationActions")}
    assert problems(native(enforce=True), binding(more=1)) == {("", "spec.enforce"), ("b", "spec.more")}


WRONG: dict[str, tuple[Object, str]] = {
    "no constraints": (native(matchConstraints=None), "spec.matchConstraints"),
    "no rules": (native(matchConstraints={}), "spec.matchConstraints.resourceRules"),
    "no validations": (native(validations=[]), "spec.validations"),
    "a name of a rule": (native(validations=[{"name": "a", "expression": "true"}]), "spec.validations[0].name"),
    "a reason": (native(validations=[{"expression": "true", "reason": "Unauthorized"}]), "spec.validations[0].reason"),
    "the gang": (native(validations=[{"expression": "gang == null"}]), "spec.validations[0].expression"),
    "a version": (native(version="admissionregistration.k8s.io/v2"), "apiVersion"),
}


@each("case", WRONG)
def test_invalid_native_policies_are_refused(case: str) -> None:
    document, path = WRONG[case]
    assert problems(document) == {("", path)}


def test_fields_are_checked_if_a_policy_is_about_jobsets_only() -> None:
    jobsets = {**PODS, "apiGroups": ["jobset.x-k8s.io"], "apiVersions": ["*"], "resources": ["jobsets"]}
    wrong = [{"expression": "object.spek == 1"}]
    for rules, expected in (([jobsets], 1), ([jobsets, PODS], 0), ([PODS], 0)):
        (found,) = load_native([native(matchConstraints={"resourceRules": rules}, validations=wrong)])
        assert len(found.warnings) == expected
