"""Whether a policy had the expected result, and which rules have passed and failed."""

from __future__ import annotations

from typing import Any

import pytest

from gangctl.cli.policy.suite import Actual, Expected, SuiteRow, actual, difference
from gangctl.cli.policy.test import Coverage
from gangctl.policy.verdict import Finding, Outcome, Result, ValidationAction
from tests.rows import each

RULES = ("a", "b")
DENY = frozenset({ValidationAction.DENY})


def row(**fields: Any) -> SuiteRow:
    return SuiteRow.model_validate({"policy": "p", "resources": "js", "result": "pass", **fields})


def finding(rule: str, result: Result, message: str = "", **fields: Any) -> Finding:
    return Finding("p", rule, result, message, **fields)


def outcome(
    *findings: Finding, actions: frozenset[ValidationAction] = DENY, matched: bool = True, skipped: str = ""
) -> Outcome:
    return Outcome("p", matched, skipped, actions, findings, findings)


@each(
    ("findings", "rule", "result"),
    [
        ([], None, Expected.SKIP),
        ([finding("a", Result.PASS)], None, Expected.PASS),
        ([finding("a", Result.PASS), finding("b", Result.FAIL)], None, Expected.FAIL),
        ([finding("a", Result.PASS), finding("b", Result.FAIL)], "a", Expected.PASS),
        ([finding("a", Result.FAIL), finding("b", Result.ERROR)], None, Expected.ERROR),
        ([finding("a", Result.EXEMPT), finding("b", Result.PASS)], "a", Expected.SKIP),
        ([finding("a", Result.EXEMPT), finding("b", Result.PASS)], None, Expected.PASS),
        ([finding("spec.paramRef", Result.ERROR)], "a", Expected.ERROR),
    ],
)
def test_the_worst_finding_counts(findings: list[Finding], rule: str | None, result: Expected) -> None:
    assert actual(outcome(*findings), row(rule=rule), RULES).result is result


@each(
    ("actions", "always", "result"),
    [
        ({ValidationAction.DENY, ValidationAction.AUDIT}, False, Expected.FAIL),
        ({ValidationAction.WARN, ValidationAction.AUDIT}, False, Expected.WARN),
        ({ValidationAction.AUDIT}, False, Expected.WARN),
        ({ValidationAction.AUDIT}, True, Expected.FAIL),
    ],
)
def test_a_violation_fails_where_the_request_is_refused(
    actions: set[ValidationAction], always: bool, result: Expected
) -> None:
    printed = outcome(finding("a", Result.FAIL, always=always), actions=frozenset(actions))
    assert actual(printed, row(), RULES).result is result


def test_a_policy_that_does_not_apply_is_skipped_with_a_reason() -> None:
    seen = actual(outcome(matched=False, skipped="operation"), row(rule="a"), RULES)
    assert seen == Actual(Expected.SKIP, ("operation",))


def test_an_error_that_failure_policy_ignores_is_still_an_error() -> None:
    printed = outcome(finding("spec.matchConditions", Result.ERROR, "no such key"), matched=False, skipped="ignored")
    assert actual(printed, row(rule="a"), RULES).result is Expected.ERROR


@pytest.mark.parametrize(("params", "result"), [("low", Expected.FAIL), ("ns/low", Expected.FAIL), ("high", "pass")])
def test_an_expectation_can_name_one_of_several_parameter_objects(params: str, result: str) -> None:
    printed = outcome(finding("a", Result.FAIL, params="ns/low"), finding("a", Result.PASS, params="ns/high"))
    assert actual(printed, row(params=params), RULES).result == result


FAILED = Actual(Expected.FAIL, ("3 pods, at most 2",))


@each(
    ("expected", "seen", "words"),
    [
        ({"result": "fail"}, FAILED, ""),
        ({"result": "pass"}, FAILED, "expected pass, got fail: 3 pods, at most 2"),
        ({"result": "fail"}, Actual(Expected.PASS), "expected fail, got pass"),
        ({"result": "fail", "message": "3 pods, at most 2"}, FAILED, ""),
        ({"result": "fail", "message": "3 pods"}, FAILED, "expected the message '3 pods', got '3 pods, at most 2'"),
        ({"result": "fail", "messageRegex": r"^\d pods"}, FAILED, ""),
        ({"result": "fail", "messageRegex": "jobs"}, FAILED, "matches 'jobs', got '3 pods, at most 2'"),
        ({"result": "fail", "message": "x"}, Actual(Expected.FAIL), "got none"),
    ],
)
def test_an_unexpected_result_has_a_difference(expected: dict[str, Any], seen: Actual, words: str) -> None:
    reported = difference(row(**expected), seen)
    assert bool(reported) is bool(words)
    assert words in reported


def test_coverage_requires_a_passing_and_a_failing_example() -> None:
    coverage = Coverage()
    coverage.expect("p", ("a", "b", "c", "d"))
    coverage.see("p", [finding("a", Result.PASS), finding("b", Result.PASS)])
    coverage.see("p", [finding("a", Result.FAIL), finding("c", Result.FAIL), finding("d", Result.EXEMPT)])
    assert coverage.covered == {("p", "a")}
    assert coverage.missing() == [
        (("p", "b"), "no failing example"),
        (("p", "c"), "no passing example"),
        (("p", "d"), "no passing and no failing example"),
    ]
