"""Loading: all problems at once, each at its place."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from gangctl.policy.load import load_policy
from gangctl.policy.loaded import PolicyError, PolicyProblem
from gangctl.policy.verdict import ValidationAction
from tests.policy.documents import Object, policy
from tests.policy.reviews import loaded, rules
from tests.rows import each

PARAMS: Any = {
    "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
    "paramRef": {"name": "x", "parameterNotFoundAction": "Deny"},
}


def problems(document: Object) -> tuple[PolicyProblem, ...]:
    with pytest.raises(PolicyError) as refused:
        load_policy(document)
    assert refused.value.exit_code == 2
    return refused.value.problems


def kinds(document: Object) -> dict[str, str]:
    return {each.path: each.kind for each in problems(document)}


def test_every_problem_is_reported_with_its_place() -> None:
    document = policy(
        matchConditions=[{"name": "c", "expression": "1"}, {"name": "c", "expression": "variables.v"}],
        variables=[{"name": "v", "expression": "nothing"}, {"name": "w", "expression": "variables.x"}],
        validations=[
            {"expression": "1 +", "message": "a\nb"},
            {"expression": "true", "messageExpression": "true"},
            {"expression": "authorizer.path('/').check('get').allowed()"},
            {"expression": "object.spec.suspend"},
        ],
        auditAnnotations=[{"key": "k", "valueExpression": "1"}],
    )
    assert kinds(document) == {
        "spec.matchConditions[0].expression": "Type",
        "spec.matchConditions[1].name": "FieldValueDuplicate",
        "spec.matchConditions[1].expression": "Undeclared",
        "spec.variables[0].expression": "Undeclared",
        "spec.variables[1].expression": "Undeclared",
        "spec.validations[0].message": "FieldValueInvalid",
        "spec.validations[0].expression": "Syntax",
        "spec.validations[1].messageExpression": "Type",
        "spec.validations[2].expression": "Unsupported",
        "spec.validations[3].expression": "Type",
        "spec.auditAnnotations[0].valueExpression": "Type",
    }


def test_a_problem_of_an_expression_is_found_in_its_text() -> None:
    (problem,) = problems(policy("true && nobody == 1"))
    assert problem.expression == "true && nobody == 1"
    assert problem.offset == 8
    assert problem.length == 6
    assert str(problem).startswith("spec.validations[0].expression: ")


def test_a_problem_of_a_field_has_no_place_in_a_text() -> None:
    (problem,) = problems(policy("true", validationActions=["Deny", "Warn"]))
    assert (problem.path, problem.offset, problem.expression) == ("spec.validationActions", None, "")


def test_an_invalid_variable_causes_no_further_errors() -> None:
    document = policy("variables.v == 1", variables=[{"name": "v", "expression": "nothing"}])
    assert list(kinds(document)) == ["spec.variables[0].expression"]


def test_params_are_declared_if_the_policy_has_a_param_kind() -> None:
    loaded(policy("params == null", matchConditions=[{"name": "c", "expression": "params.a == 1"}], **PARAMS))
    assert kinds(policy("params == null")) == {"spec.validations[0].expression": "Undeclared"}


def test_variables_have_the_types_of_their_expressions() -> None:
    variables = [
        {"name": "n", "expression": "size(object.metadata.name)"},
        {"name": "twice", "expression": "variables.n * 2"},
        {"name": "groups", "expression": "gang.groups.filter(g, g.minCount > variables.n)"},
        {"name": "sum", "expression": "quantity('1').add(quantity('2'))"},
    ]
    loaded(policy("variables.groups.all(g, g.minCount > variables.twice)", variables=variables))
    loaded(policy("variables.sum.isGreaterThan(quantity('2'))", variables=variables))
    assert kinds(policy("variables.n == 'a'", variables=variables)) == {"spec.validations[0].expression": "Type"}
    assert kinds(policy("variables.groups[0].size == 1", variables=variables)) == {
        "spec.validations[0].expression": "Undeclared"
    }


def test_the_gang_is_an_object_with_declared_fields() -> None:
    loaded(policy("gang.groups.all(g, g.resources['example.com/gpu'] <= 8)"))
    loaded(policy("gang.workload == null || gang.workload == 'x'"))
    assert kinds(policy("gang.group.size() == 1")) == {"spec.validations[0].expression": "Undeclared"}


def test_a_loaded_policy_has_its_rules_and_needs() -> None:
    document = rules(
        {"name": "a", "expression": "variables.v"},
        "true",
        variables=[{"name": "v", "expression": "gang == null"}],
        validationActions=["Audit"],
        failurePolicy="Ignore",
    )
    document["metadata"]["generation"] = 7
    found = loaded(document)
    assert found.rules == ("a", "1")
    assert found.actions == {ValidationAction.AUDIT}
    assert not found.fail_closed
    assert not found.native
    assert found.generation == 7
    assert "gang" in found.reads
    assert found.validates
    assert loaded(document).source == document
    assert not loaded(policy(defaults={"queue": "q"})).validates


@each("document", [{}, {"spec": None}, {"metadata": {"name": 3}, "spec": []}, {"metadata": []}])
def test_malformed_documents_are_refused_with_a_message(document: Object) -> None:
    with pytest.raises(PolicyError) as refused:
        load_policy(document)
    assert refused.value.policy == "(without a name)"
    assert not refused.value.broken.fail_closed


def test_a_policy_of_a_later_version_is_about_what_it_matches() -> None:
    selector = {"matchLabels": {"team": "a"}}
    with pytest.raises(PolicyError) as refused:
        load_policy(policy(unknown=1, matchConstraints={"namespaceSelector": selector}, validationActions=["Warn"]))
    broken = refused.value.broken
    assert broken.spec.match_constraints.namespace_selector.match_labels == selector["matchLabels"]
    assert broken.actions == {ValidationAction.WARN}


def test_the_error_of_a_policy_can_be_pickled() -> None:
    with pytest.raises(PolicyError) as refused:
        load_policy(policy("1"))
    broken = pickle.loads(pickle.dumps(refused.value.broken))
    assert broken == refused.value.broken


def warnings(*expressions: str, **spec: Any) -> dict[str, int | None]:
    return {each.path: each.offset for each in loaded(policy(*expressions, **spec)).warnings}


def test_unknown_fields_of_jobsets_are_warnings() -> None:
    assert warnings("object.spec.replicatedJobs.all(rj, rj.replicas > 0)", "has(object.spec.suspend)") == {}
    assert warnings("object.spec.replicatedJob.all(rj, rj.replicas > 0)", "has(object.spec.suspended)") == {
        "spec.validations[0].expression": 12,
        "spec.validations[1].expression": 0,
    }


def test_warnings_see_through_variables() -> None:
    variables = [
        {"name": "jobs", "expression": "object.spec.replicatedJobs"},
        {"name": "wrong", "expression": "object.spek"},
    ]
    found = warnings("variables.jobs.all(rj, rj.replica > 0)", "variables.wrong.x == 1", variables=variables)
    assert list(found) == ["spec.variables[1].expression", "spec.validations[0].expression"]


def test_every_expression_is_checked() -> None:
    found = warnings(
        matchConditions=[{"name": "c", "expression": "object.a == 1"}],
        validations=[{"expression": "true", "messageExpression": "string(object.b)"}],
        auditAnnotations=[{"key": "k", "valueExpression": "string(oldObject.c)"}],
    )
    assert list(found) == [
        "spec.matchConditions[0].expression",
        "spec.validations[0].messageExpression",
        "spec.auditAnnotations[0].valueExpression",
    ]


def test_params_without_a_reference_are_null() -> None:
    load_policy(policy("params == null", paramKind=PARAMS["paramKind"]))
