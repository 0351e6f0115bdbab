"""Rules of schemas that are evaluated in Python have the result of CEL."""

from __future__ import annotations

from typing import Any

import pytest

from gangctl.apiserver.expressions import ConditionError, holds
from gangctl.apiserver.jobsets import jobset_schema
from gangctl.apiserver.structural import IN_PYTHON
from tests.rows import each
from tests.sandbox.asking import walk

IN_ORDER = {"startupPolicyOrder": "InOrder"}
(STARTUP,) = (rule for rule in IN_PYTHON if "startupPolicy" in rule)
CLAIMS = "self.templates.all(t, !has(t.metadata.namespace) || size(t.metadata.namespace) == 0)"
"""The rule of an entry of ``volumeClaimPolicies``."""


@each(
    "spec",
    [
        {"startupPolicy": IN_ORDER, "replicatedJobs": [{"name": "a"}, {"name": "b", "dependsOn": [{"name": "a"}]}]},
        {"startupPolicy": IN_ORDER, "replicatedJobs": [{"name": "a"}]},
        {"startupPolicy": {"startupPolicyOrder": "AnyOrder"}, "replicatedJobs": [{"name": "b", "dependsOn": []}]},
        {"replicatedJobs": [{"name": "b", "dependsOn": []}]},
    ],
    ids=["both", "in-order", "dependencies", "no-policy"],
)
def test_the_startup_rule_in_python_equals_the_one_in_cel(spec: dict[str, Any]) -> None:
    assert IN_PYTHON[STARTUP](spec, None) is holds(STARTUP, spec, None)


@each(
    "templates",
    [
        [],
        [{"metadata": {"name": "a"}}, {"metadata": {"name": "b", "namespace": ""}}],
        [{"metadata": {"name": "a"}}, {"metadata": {"name": "b", "namespace": "t"}}],
    ],
    ids=["none", "without", "with"],
)
def test_the_rule_of_claims_in_python_equals_the_one_in_cel(templates: list[dict[str, Any]]) -> None:
    policy = {"templates": templates}
    assert IN_PYTHON[CLAIMS](policy, None) is holds(CLAIMS, policy, None)


@each("policy", [{}, {"templates": [{}]}], ids=["no-templates", "no-metadata"])
def test_the_rule_of_claims_fails_in_python_as_in_cel(policy: dict[str, Any]) -> None:
    with pytest.raises(ConditionError) as in_cel:
        holds(CLAIMS, policy, None)
    with pytest.raises(ConditionError) as in_python:
        IN_PYTHON[CLAIMS](policy, None)
    assert str(in_python.value) == str(in_cel.value)


def test_a_jobset_needs_no_cel() -> None:
    schemas = (value for value in walk(jobset_schema()) if isinstance(value, dict))
    rules = {rule["rule"] for schema in schemas for rule in schema.get("x-kubernetes-validations", ())}
    assert {STARTUP, CLAIMS} < rules <= IN_PYTHON.keys()
