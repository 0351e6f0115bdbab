"""Rules of schemas that are evaluated in Python have the result of CEL."""

from __future__ import annotations

from typing import Any

from gangctl.apiserver.expressions import holds
from gangctl.apiserver.jobsets import jobset_schema
from gangctl.apiserver.structural import IN_PYTHON
from tests.rows import each
from tests.sandbox.asking import walk

IN_ORDER = {"startupPolicyOrder": "InOrder"}
(STARTUP,) = (rule for rule in IN_PYTHON if "startupPolicy" in rule)


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


def test_a_jobset_without_volume_claims_needs_no_cel() -> None:
    schema = jobset_schema()
    spec = schema["properties"]["spec"]["properties"]
    claims = {id(each) for each in walk(spec["volumeClaimPolicies"]["items"])}
    rules = {
        rule["rule"]
        for each in walk(schema)
        if isinstance(each, dict) and id(each) not in claims
        for rule in each.get("x-kubernetes-validations", ())
    }
    assert rules
    assert rules <= IN_PYTHON.keys()
