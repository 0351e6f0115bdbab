"""gangctl gives the verdicts of the test files, on every engine there is."""

from datetime import UTC, datetime

import pytest

from gangctl.cli.policy.suite import FILE_NAME
from gangctl.cli.policy.suitefiles import read_suite_file
from gangctl.cli.policy.testing import Ground, run_tests
from gangctl.policy.cel.engines import available, make_engine
from gangctl.policy.load import load_policy
from gangctl.policy.verdict import Result
from tests.policies.bare import ACCEPTED, REFUSED
from tests.policies.judged import judged_by
from tests.policies.pack import Shipped, shipped
from tests.rows import each

GROUND = Ground(now=datetime(2026, 1, 1, tzinfo=UTC))

every_engine = pytest.mark.parametrize("engine", available())


@every_engine
def test_says_what_the_test_files_expect_and_every_rule_is_covered(engine: str) -> None:
    files = [read_suite_file(policy.home / FILE_NAME) for policy in shipped()]
    tests = run_tests(files, [make_engine(engine)], GROUND)
    assert [f"{each.name}: {each.failure}" for each in tests.failed] == []
    assert tests.coverage.missing() == []
    assert list(tests.notes) == []
    assert {policy for policy, _ in tests.coverage.rules} == {policy.name for policy in shipped()}


@every_engine
@each("policy", shipped(), ids=lambda policy: policy.name)
def test_loads_without_a_remark_and_is_cheap(policy: Shipped, engine: str) -> None:
    loaded = load_policy(policy.document, make_engine(engine))
    assert [str(each) for each in loaded.warnings] == []
    assert loaded.bound(8) <= CHEAP


@every_engine
def test_has_an_answer_where_everything_is_missing(engine: str) -> None:
    made = make_engine(engine)
    loaded = [load_policy(policy.document, made) for policy in shipped()]
    unanswered = []
    for spec in (*ACCEPTED, *REFUSED):
        obj = {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": {"name": "bare", "namespace": "team-a"},
            **({} if spec is None else {"spec": spec}),
        }
        for policy in loaded:
            outcome = judged_by(policy, obj, made)
            if any(finding.result is Result.ERROR for finding in outcome.findings):
                unanswered.append(f"{policy.name} of {spec}")
    assert unanswered == []


CHEAP = 10_000
"""Steps for a JobSet with eight replicated jobs and containers: a hundredth of what one request may spend."""
