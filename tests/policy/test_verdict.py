"""What a verdict is called and how it is worded."""

import json

from gangctl.policy.verdict import Finding, Outcome, Result, ValidationAction, merge, show
from tests.rows import each


@each(
    ("policy", "title"),
    [("p", "GangPolicy 'p'"), ("p/b", "ValidatingAdmissionPolicy 'p' with binding 'b'")],
)
def test_a_policy_is_named_with_its_kind(policy: str, title: str) -> None:
    finding = Finding(policy, "r", Result.FAIL, "too many")
    assert show(finding) == f"{title} denied request: too many"
    warned = Outcome(policy, matched=True, actions=frozenset({ValidationAction.WARN}), violations=(finding,))
    assert merge([warned]).warnings == (f"Validation failed for {title}: too many",)


def test_the_first_denial_by_name_is_the_message() -> None:
    def denying(policy: str, reason: str) -> Outcome:
        finding = Finding(policy, "r", Result.FAIL, policy, reason)
        return Outcome(policy, matched=True, actions=frozenset({ValidationAction.DENY}), violations=(finding,))

    verdict = merge([denying("b", "Invalid"), denying("a", "Forbidden")])
    assert [each.policy for each in verdict.denials] == ["a", "b"]
    assert verdict.code == 403


def test_audit_annotations_of_native_policies_have_the_keys_of_the_api_server() -> None:
    """Its bindings share the annotations of a policy, and all policies one for violations."""
    actions = frozenset({ValidationAction.AUDIT})

    def outcome(binding: str, *notes: tuple[str, str]) -> Outcome:
        violations = (Finding(f"p/{binding}", "1", Result.FAIL, "no"),)
        return Outcome(f"p/{binding}", matched=True, actions=actions, violations=violations, audit_annotations=notes)

    said = {"a": "x", "b": "y", "c": "x"}
    annotations = merge(outcome(name, ("k", value)) for name, value in said.items()).audit_annotations
    failures = json.loads(annotations.pop("validation.policy.admission.k8s.io/validation_failure"))
    assert annotations == {"p/k": "x, y"}
    assert [failure["binding"] for failure in failures] == ["a", "b", "c"]
    first = {"message": "no", "policy": "p", "binding": "a", "expressionIndex": 1, "validationActions": ["Audit"]}
    assert failures[0] == first
