"""What a verdict is called and how it is worded."""

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
