"""Policies of a process: what is counted under which labels, and the answers before policies are loaded."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from gangctl.controllers.scan import MOST_POLICIES
from gangctl.evaluation.options import EvaluatorOptions
from gangctl.manager.policies import _LazyEvaluator
from gangctl.manager.policymetrics import PolicyMetrics
from gangctl.manager.settings import load_settings
from gangctl.manager.webhooks import Webhooks, _unready
from gangctl.policy.loaded import PolicySet
from gangctl.policy.review import Review
from gangctl.policy.verdict import Finding, Outcome, Result, ValidationAction
from gangctl.runtime.families import OTHERS
from gangctl.runtime.server import HttpRefusal
from gangctl.webhooks.configurations import MUTATE_DEFAULTS, VALIDATE_FAIL, VALIDATE_IGNORE
from tests.webhooks.test_policies import broken, loaded

COUNTER = "gangctl_policy_evaluations_total"


def outcome(policy: str, result: Result, *actions: ValidationAction, **more: Any) -> Outcome:
    finding = Finding(policy, "0", result)
    violated = (finding,) if result in {Result.FAIL, Result.ERROR} else ()
    return Outcome(policy, True, "", frozenset(actions), (finding,), violated, **more)


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


def value(registry: CollectorRegistry, policy: str, result: str, action: str) -> float | None:
    return registry.get_sample_value(COUNTER, {"policy": policy, "result": result, "action": action})


def policies(*names: str) -> PolicySet:
    return PolicySet(1, tuple(loaded(name) for name in names))


def test_requests_are_counted_by_worst_result_and_decision(registry: CollectorRegistry) -> None:
    metrics = PolicyMetrics(registry)
    metrics.in_force(policies("a", "b"))
    skipped = Outcome("b", matched=False, skipped="operation")
    metrics.evaluated_request([outcome("a", Result.FAIL, ValidationAction.AUDIT, ValidationAction.DENY), skipped])
    metrics.evaluated_request([outcome("a", Result.PASS, ValidationAction.DENY)])
    metrics.evaluated_request([outcome("a", Result.EXEMPT, ValidationAction.DENY)])
    metrics.evaluated_request([outcome("a", Result.ERROR, ValidationAction.WARN)])
    expected = [("fail", "deny"), ("pass", "none"), ("exempt", "none"), ("error", "warn")]
    assert [value(registry, "a", *labels) for labels in expected] == [1, 1, 1, 1]
    evaluations = (family for family in registry.collect() if family.name == "gangctl_policy_evaluations")
    counted = {
        sample.labels["policy"]
        for family in evaluations
        for sample in family.samples
        if sample.value and sample.name == COUNTER
    }
    assert counted == {"a"}
    assert value(registry, "b", "fail", "deny") == 0, "so that the first one is an increase"


def test_counters_of_lost_evaluations_start_at_zero(registry: CollectorRegistry) -> None:
    metrics = PolicyMetrics(registry)
    metrics.in_force(policies("a"))
    ended = ("gangctl_policy_kills_total", {"policy": "a", "why": "time"})
    lost = ("gangctl_policy_unanswered_total", {"queue": "penalized", "why": "full"})
    assert [registry.get_sample_value(*each) for each in (ended, lost)] == [0, 0]
    metrics.killed("a", "time")
    metrics.unanswered("penalized", "full")
    assert [registry.get_sample_value(*each) for each in (ended, lost)] == [1, 1]


def test_deleted_policies_leave_no_series(registry: CollectorRegistry) -> None:
    metrics = PolicyMetrics(registry)
    metrics.in_force(policies("a", "b"))
    metrics.evaluated_request([outcome("a", Result.FAIL, ValidationAction.DENY), outcome("b", Result.PASS)])
    metrics.killed("a", "time")
    metrics.in_force(policies("b"))
    labels = {sample.labels.get("policy") for family in registry.collect() for sample in family.samples}
    assert "a" not in labels
    assert value(registry, "b", "pass", "none") == 1


def test_policies_beyond_the_limit_are_counted_together(registry: CollectorRegistry) -> None:
    metrics = PolicyMetrics(registry)
    names = [f"p{number:04}" for number in range(MOST_POLICIES + 50)]
    metrics.in_force(policies(*names))
    metrics.evaluated_request([outcome(name, Result.PASS) for name in names])
    labels = {sample.labels["policy"] for sample in _samples(registry)}
    assert len(labels) == MOST_POLICIES + 1
    assert value(registry, OTHERS, "pass", "none") == 50


def _samples(registry: CollectorRegistry) -> list[Any]:
    return [each for family in registry.collect() for each in family.samples if each.name == COUNTER]


def test_loaded_and_broken_policies_are_exported(registry: CollectorRegistry) -> None:
    PolicyMetrics(registry).in_force(PolicySet(1, (loaded("a"),), broken=(broken("b"), broken("c"))))
    states = [registry.get_sample_value("gangctl_policies", {"state": each}) for each in ("loaded", "broken")]
    assert states == [1, 2]


def test_before_policies_are_loaded_each_path_follows_its_failure_policy() -> None:
    assert _unready(VALIDATE_FAIL).code == 503
    assert _unready(VALIDATE_IGNORE).allowed
    with pytest.raises(HttpRefusal, match="just started"):
        _unready(MUTATE_DEFAULTS)


async def test_a_closing_evaluator_refuses_and_does_not_allow(registry: CollectorRegistry) -> None:
    bench = _LazyEvaluator(EvaluatorOptions(), PolicyMetrics(registry))
    review = Review("CREATE", datetime.now(UTC), {})
    assert await bench.evaluate(review, None) == ()
    await bench.close()
    with pytest.raises(HttpRefusal, match="ending"):
        await bench.evaluate(review, None)


DOCUMENT: dict[str, Any] = {
    "apiVersion": "gangctl.dev/v1alpha1",
    "kind": "GangPolicy",
    "metadata": {"name": "p"},
    "spec": {"validations": [{"expression": "object.metadata.name == 'js'"}]},
}


def test_the_defaults_of_the_policy_flags() -> None:
    settings = load_settings({}, None)
    assert (settings.policies, settings.webhook_service_port) == ("auto", 443)
    assert load_settings({"policies": "off"}, None).policies == "off"


def test_a_replica_whose_policy_workers_do_not_work_is_not_ready() -> None:
    policies = SimpleNamespace(problem="no policy-worker works")
    webhooks: Any = SimpleNamespace(_policies=policies, _policies_registered=True)
    assert Webhooks._policies_unready(webhooks) == "no policy-worker works"
    policies.problem = ""
    assert Webhooks._policies_unready(webhooks) is None


def test_the_metric_and_the_statuses_follow_the_workers(registry: CollectorRegistry) -> None:
    written: list[None] = []
    metrics = PolicyMetrics(registry, on_trouble=lambda: written.append(None))
    metrics.troubled("no policy-worker works")
    assert registry.get_sample_value("gangctl_policy_workers_broken") == 1
    metrics.troubled("")
    assert registry.get_sample_value("gangctl_policy_workers_broken") == 0
    assert len(written) == 2
