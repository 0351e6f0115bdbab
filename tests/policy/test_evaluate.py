"""The outcome of a policy for a request, beyond the recorded cases of the API server: findings, exceptions, budgets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gangctl.cel.faults import EvalKind
from gangctl.cel.meter import StepMeter
from gangctl.policy.evaluate import Evaluation, refused_by_broken, unanswered
from gangctl.policy.load import load_policy
from gangctl.policy.loaded import PolicyError, load_exception
from gangctl.policy.verdict import Result, ValidationAction, merge
from tests.policy.documents import Object, exception, review_of
from tests.policy.reviews import created, evaluated, loaded, rules
from tests.rows import each

CHAIN = [
    {"name": f"v{index}", "expression": f"variables.v{index - 1}.map(x, x + 1)" if index else "[1]"}
    for index in range(64)
]
FALSE = "object.metadata.name == 'nobody'"
ERROR = "object.nothing == 1"
DEEP = "[1,2,3,4,5,6,7,8,9].all(a, [1,2,3,4,5,6,7,8,9].all(b, a + b + size(object.metadata.name) > 0))"


def test_every_rule_has_a_finding_by_name_or_index() -> None:
    outcome = evaluated(
        rules("true", {"name": "named", "expression": FALSE, "message": "no", "reason": "Forbidden"}, ERROR)
    )
    assert [(each.rule, each.result, each.reason, each.error) for each in outcome.findings] == [
        ("0", Result.PASS, "Invalid", ""),
        ("named", Result.FAIL, "Forbidden", ""),
        ("2", Result.ERROR, "Invalid", "NoSuchKey"),
    ]
    assert outcome.matched
    assert outcome.violations == outcome.findings[1:]
    assert outcome.actions == {ValidationAction.DENY}
    assert outcome.steps > 0


def test_each_variable_may_read_the_one_before() -> None:
    outcome = evaluated(rules("variables.v63 == [64]", variables=CHAIN))
    assert not outcome.violations
    failing = [{"name": "v0", "expression": "[object.no]"}, *CHAIN[1:]]
    (finding,) = evaluated(rules("variables.v63 == [64]", variables=failing)).findings
    assert finding.error == "NoSuchKey"


def test_ignored_errors_are_found_without_consequences() -> None:
    outcome = evaluated(rules(ERROR, FALSE, failurePolicy="Ignore"))
    assert [each.result for each in outcome.findings] == [Result.ERROR, Result.FAIL]
    assert [each.rule for each in outcome.violations] == ["1"]


def test_a_policy_that_does_not_match_costs_nothing() -> None:
    outcome = evaluated(rules(FALSE), created(resource=("", "v1", "pods")))
    assert (outcome.matched, outcome.skipped, outcome.findings, outcome.steps) == (False, "resource", (), 0)


def test_a_false_condition_is_named() -> None:
    outcome = evaluated(rules(FALSE, matchConditions=[{"name": "only-x", "expression": "object.metadata.name == 'x'"}]))
    assert (outcome.matched, outcome.skipped) == (False, "matchConditions[only-x]")
    assert outcome.violations == ()


def test_a_condition_that_fails_is_an_error_of_the_whole_policy() -> None:
    conditions: Any = [{"name": "c", "expression": ERROR}]
    closed = evaluated(rules(FALSE, matchConditions=conditions))
    assert [(each.rule, each.error) for each in closed.violations] == [("spec.matchConditions", "NoSuchKey")]
    opened = evaluated(rules(FALSE, matchConditions=conditions, failurePolicy="Ignore"))
    assert not opened.matched
    assert opened.violations == ()
    assert [each.result for each in opened.findings] == [Result.ERROR]


def test_the_gang_is_null_or_the_plan() -> None:
    policy = rules("gang == null || gang.totalPods < 3")
    assert evaluated(policy).violations == ()
    assert evaluated(policy, created(gang={"totalPods": 2})).violations == ()
    assert len(evaluated(policy, created(gang={"totalPods": 3})).violations) == 1


def test_a_delete_is_evaluated_on_the_old_object() -> None:
    constraints = {"resourceRules": [{**_rule(), "operations": ["DELETE"]}]}
    review = review_of(None, "DELETE", old={"metadata": {"name": "js", "namespace": "ns"}})
    outcome = evaluated(
        rules("object == null && oldObject.metadata.name == 'js'", matchConstraints=constraints), review
    )
    assert [each.result for each in outcome.findings] == [Result.PASS]


def _rule() -> Object:
    return {"apiGroups": ["jobset.x-k8s.io"], "apiVersions": ["*"], "operations": ["*"], "resources": ["jobsets"]}


def test_a_variable_is_computed_once_and_only_when_it_is_read() -> None:
    costly = "object.metadata.name.size() + object.metadata.name.size() + object.metadata.name.size() > 0"
    once = evaluated(rules("variables.v", variables=[{"name": "v", "expression": costly}])).steps
    never = evaluated(rules("true", variables=[{"name": "v", "expression": costly}])).steps
    often = evaluated(rules(*["variables.v"] * 10, variables=[{"name": "v", "expression": costly}])).steps
    assert never < once
    assert often - once < 10 * (once - never) / 2


def test_a_failed_variable_is_not_computed_again() -> None:
    outcome = evaluated(
        rules("variables.v == 1", "variables.v == 2", variables=[{"name": "v", "expression": "object.no"}])
    )
    words = 'composited variable "v" fails to evaluate: no such key: no'
    assert [each.message.partition("error: ")[2] for each in outcome.findings] == [words, words]


def test_audit_annotations_are_cut_by_bytes() -> None:
    name = "ä" * 6000
    key = {"key": "k", "valueExpression": "string(object.metadata.name)"}
    outcome = evaluated(rules("true", auditAnnotations=[key]), created(name))
    assert outcome.audit_annotations == (("k", "ä" * 5120),)


def params(*names: str, **more: Any) -> Any:
    return {"params": {"p": tuple({"metadata": {"name": each, "namespace": "ns"}} for each in names)}, **more}


PARAMS: Any = {
    "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
    "paramRef": {"selector": {}, "parameterNotFoundAction": "Deny"},
}
ALLOWED: Any = {**PARAMS, "paramRef": {"selector": {}, "parameterNotFoundAction": "Allow"}}


def test_each_parameter_is_evaluated_separately() -> None:
    said = {"expression": "params.metadata.name == 'b'", "messageExpression": "'not ' + params.metadata.name"}
    note = {"key": "k", "valueExpression": "'seen ' + params.metadata.name"}
    policy = rules(said, auditAnnotations=[note], **PARAMS)
    outcome = evaluated(policy, created(**params("a", "b", "c")))
    assert [(each.params, each.message) for each in outcome.violations] == [("ns/a", "not a"), ("ns/c", "not c")]
    assert outcome.audit_annotations == (("k", "seen a, seen b, seen c"),)


def test_equal_audit_annotations_of_several_parameters_are_one() -> None:
    policy = rules("true", auditAnnotations=[{"key": "k", "valueExpression": "'same'"}], **PARAMS)
    assert evaluated(policy, created(**params("a", "b"))).audit_annotations == (("k", "same"),)


def test_a_condition_may_leave_out_some_parameters() -> None:
    conditions: Any = [{"name": "c", "expression": "params.metadata.name == 'b'"}]
    policy = rules("false", matchConditions=conditions, **PARAMS)
    outcome = evaluated(policy, created(**params("a", "b")))
    assert outcome.matched
    assert [each.params for each in outcome.violations] == ["ns/b"]
    assert not evaluated(policy, created(**params("a", "c"))).matched


def test_missing_parameters_follow_the_not_found_action() -> None:
    assert evaluated(rules("false", **ALLOWED)).skipped == "paramRef"
    (violation,) = evaluated(rules("true", **PARAMS)).violations
    assert violation.message == (
        "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
    )
    assert evaluated(rules("false", failurePolicy="Ignore", **PARAMS)).violations == ()


def test_unavailable_parameters_deny_with_any_action() -> None:
    warned = rules("true", validationActions=["Warn"], **ALLOWED)
    verdict = merge([evaluated(warned, created(param_errors={"p": "unknown kind"}))])
    assert [each.message for each in verdict.denials] == ["failed to configure binding: unknown kind"]
    assert verdict.warnings == ()


def covering(**more: Any) -> Object:
    return exception({"name": "p", **more})


def test_an_exception_excuses_what_fails_and_what_errs() -> None:
    policy = rules({"name": "a", "expression": FALSE}, {"name": "b", "expression": ERROR})
    outcome = evaluated(policy, None, covering())
    assert [(each.result, each.exception) for each in outcome.findings] == [(Result.EXEMPT, "x"), (Result.EXEMPT, "x")]
    assert outcome.violations == ()
    assert outcome.findings[1].error == "NoSuchKey"


def test_an_exception_from_one_rule_does_not_cover_another() -> None:
    policy = rules({"name": "a", "expression": FALSE}, FALSE)
    assert [each.rule for each in evaluated(policy, None, covering(rules=["a"])).violations] == ["1"]
    assert [each.rule for each in evaluated(policy, None, covering(rules=["1"])).violations] == ["a"]


def test_only_an_exception_from_the_whole_policy_covers_errors_outside_of_rules() -> None:
    policy = rules({"name": "a", "expression": "true"}, **PARAMS)
    assert evaluated(policy, None, covering()).violations == ()
    assert len(evaluated(policy, None, covering(rules=["a"])).violations) == 1


def broken(**spec: Any) -> PolicyError:
    with pytest.raises(PolicyError) as refused:
        load_policy(rules("object.", **spec))
    return refused.value


def test_a_broken_policy_refuses_the_requests_that_it_matches() -> None:
    policy = broken(matchConstraints={"objectSelector": {"matchLabels": {"a": "b"}}}, failurePolicy="Fail").broken
    assert refused_by_broken(policy, created()).skipped == "objectSelector"
    review = review_of({"metadata": {"name": "js", "namespace": "ns", "labels": {"a": "b"}}})
    verdict = merge([refused_by_broken(policy, review)])
    (denial,) = verdict.denials
    assert denial.message.startswith("the policy cannot be used: spec.validations[0].expression: ")
    assert refused_by_broken(policy, review, [load_exception(covering())]).violations == ()


@each("spec", [{}, {"failurePolicy": "Ignore"}], ids=["without a failurePolicy", "Ignore"])
def test_a_broken_policy_refuses_nothing_without_failure_policy_fail(spec: Object) -> None:
    verdict = merge([refused_by_broken(broken(**spec).broken, created())])
    assert verdict.allowed
    (warning,) = verdict.warnings
    assert warning.startswith("GangPolicy 'p' was left out: the policy cannot be used: spec.validations[0].expression")


def test_a_broken_policy_that_only_warns_still_only_warns() -> None:
    spec = {"validationActions": ["Warn"], "failurePolicy": "Fail"}
    verdict = merge([refused_by_broken(broken(**spec).broken, created())])
    assert verdict.allowed
    assert len(verdict.warnings) == 1


def test_a_malformed_policy_matches_every_jobset() -> None:
    with pytest.raises(PolicyError) as refused:
        load_policy({"metadata": {"name": "p"}, "spec": {"failurePolicy": "Fail", "validations": 3}})
    assert merge([refused_by_broken(refused.value.broken, created())]).code == 422
    with pytest.raises(PolicyError) as refused:
        load_policy({"metadata": {"name": "p"}, "spec": {"failurePolicy": "Ignore", "validations": 3}})
    assert merge([refused_by_broken(refused.value.broken, created())]).allowed


def test_a_policy_whose_worker_was_killed_has_an_outcome() -> None:
    policy = loaded(rules("true"))
    outcome = unanswered(policy, created(), EvalKind.DEADLINE_EXCEEDED, "took longer than 1 s")
    assert [(each.rule, each.error) for each in outcome.violations] == [("spec", "DeadlineExceeded")]


EXHAUSTING: dict[str, Object] = {
    "a rule": rules(DEEP),
    "a condition": rules("false", matchConditions=[{"name": "deep", "expression": DEEP}]),
}


@each("document", EXHAUSTING.values(), ids=EXHAUSTING)
def test_what_exceeds_its_budget_is_broken_whatever_the_failure_policy(document: Object) -> None:
    found = {}
    for action in ("Deny", "Warn", "Audit"):
        spec = {**document["spec"], "failurePolicy": "Ignore", "validationActions": [action]}
        verdict = merge([evaluated({**document, "spec": spec}, meter=StepMeter(150, 1.0, lambda: 0.0))])
        assert [each.error for each in verdict.outcomes[0].violations] == ["BudgetExceeded"]
        found[action] = (verdict.allowed, len(verdict.warnings), len(verdict.audit_annotations))
    assert found == {"Deny": (False, 0, 0), "Warn": (True, 1, 0), "Audit": (True, 0, 1)}


def test_the_failure_policy_of_a_native_policy_decides_about_its_budget_as_natively() -> None:
    native = replace(loaded(rules(DEEP, failurePolicy="Ignore")), native=True)
    outcome = Evaluation(created()).evaluate(native, StepMeter(150, 1.0, lambda: 0.0))
    assert [each.error for each in outcome.findings] == ["BudgetExceeded"]
    assert outcome.violations == ()


UNPLANNED = "this JobSet cannot be planned: spec.replicatedJobs[1].replicas: must not be negative"
READING: dict[str, Object] = {
    "a rule": rules("gang.totalPods < 4"),
    "a rule that allows null": rules("gang == null || gang.totalPods < 4"),
    "a variable": rules("variables.pods < 4", variables=[{"name": "pods", "expression": "gang.totalPods"}]),
    "a condition": rules("false", matchConditions=[{"name": "a-gang", "expression": "gang != null"}]),
}


@each("document", READING.values(), ids=READING)
def test_a_gang_that_cannot_be_planned_is_an_error_for_what_reads_it(document: Object) -> None:
    outcome = evaluated(document, created(gang=UNPLANNED))
    (violation,) = outcome.violations
    assert violation.result is Result.ERROR
    assert violation.message.endswith(UNPLANNED)
    ignoring = {**document, "spec": {**document["spec"], "failurePolicy": "Ignore"}}
    verdict = merge([evaluated(ignoring, created(gang=UNPLANNED))])
    assert verdict.allowed
    (warning,) = verdict.warnings
    assert warning.endswith(UNPLANNED)


def test_a_gang_that_cannot_be_planned_is_nothing_to_what_does_not_read_it() -> None:
    conditions = [
        {"name": "elsewhere", "expression": "request.namespace == 'x'"},
        {"name": "g", "expression": "gang != null"},
    ]
    assert evaluated(rules("true"), created(gang=UNPLANNED)).violations == ()
    assert evaluated(rules("gang != null", matchConditions=conditions), created(gang=UNPLANNED)).violations == ()


def test_a_rule_above_the_budget_is_an_error_and_the_others_are_evaluated() -> None:
    meter = StepMeter(10**9, 1.0, lambda: 0.0)
    outcome = evaluated(rules("[1].all(x, x > 0)", "true"), meter=meter)
    assert [each.result for each in outcome.findings] == [Result.PASS, Result.PASS]
    short = StepMeter(150, 1.0, lambda: 0.0)
    outcome = evaluated(rules("true", DEEP, "object.metadata.name != ''"), meter=short)
    assert [each.error for each in outcome.findings] == ["", "BudgetExceeded", "BudgetExceeded"]


def test_the_deadline_uses_the_given_clock() -> None:
    ticks = iter(range(10**6))
    meter = StepMeter.request(lambda: float(next(ticks)), seconds=2.0)
    deep = DEEP.replace("[1,2,3,4,5,6,7,8,9]", str(list(range(30))))
    outcome = evaluated(rules(deep), meter=meter)
    assert [each.error for each in outcome.findings] == ["DeadlineExceeded"]


def test_the_request_has_neither_its_uid_nor_the_objects() -> None:
    outcome = evaluated(
        rules("dyn(request).uid == ''", *(f"dyn(request).{key} == null" for key in ("object", "oldObject")))
    )
    assert not outcome.violations


def test_a_request_is_read_once_for_all_policies() -> None:
    evaluation = Evaluation(created())
    assert evaluation.bindings is evaluation.bindings
