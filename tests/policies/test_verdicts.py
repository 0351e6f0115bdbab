"""gangctl gives the verdicts of the test files."""

from datetime import UTC, datetime

from gangctl.cel.limits import profile_of
from gangctl.cli.policy.suite import FILE_NAME, read_suite_file
from gangctl.cli.policy.test import run_tests
from gangctl.policy.load import load_policy
from gangctl.policy.verdict import Result
from tests.policies.bare import ACCEPTED, REFUSED
from tests.policies.evaluated import evaluated_by
from tests.policies.pack import Shipped, shipped
from tests.rows import each

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_policies_give_the_expected_verdicts_and_every_rule_is_covered() -> None:
    files = [read_suite_file(policy.home / FILE_NAME) for policy in shipped()]
    tests = run_tests(files, NOW)
    assert [f"{each.name}: {each.failure}" for each in tests.failed] == []
    assert tests.coverage.missing() == []
    # JobSet refuses a successPolicy that names none of its own: the policy is for what is there already.
    assert [note for note in tests.notes if "JobSet team-a/typo is evaluated as written" not in note] == []
    assert {policy for policy, _ in tests.coverage.rules} == {policy.name for policy in shipped()}


@each("policy", shipped(), ids=lambda policy: policy.name)
def test_a_policy_loads_without_warnings_and_is_cheap(policy: Shipped) -> None:
    loaded = load_policy(policy.document)
    assert [str(each) for each in loaded.warnings] == []
    assert sum(profile_of(each.checked).bound(8) for each in loaded.programs.expressions()) <= CHEAP


def test_an_empty_object_is_evaluated() -> None:
    loaded = [load_policy(policy.document) for policy in shipped()]
    unanswered = []
    for spec in (*ACCEPTED, *REFUSED):
        obj = {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": {"name": "bare", "namespace": "team-a"},
            **({} if spec is None else {"spec": spec}),
        }
        for policy in loaded:
            outcome = evaluated_by(policy, obj)
            if any(finding.result is Result.ERROR for finding in outcome.findings):
                unanswered.append(f"{policy.name} of {spec}")
    assert unanswered == []


CHEAP = 10_000
"""Steps for a JobSet with eight replicated jobs and containers: a hundredth of what one request may spend."""
