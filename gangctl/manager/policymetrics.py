"""Prometheus metrics of policies.

Names of policies are labels: operators write them, and few. Beyond :data:`MOST_POLICIES` they are counted together, and
those of deleted policies are dropped. Names of JobSets and of rules never become labels.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from itertools import product
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from gangctl.controllers.scan import MOST_POLICIES
from gangctl.evaluation.options import POOLED, EvaluatorObserver, Queue
from gangctl.policy.loaded import PolicySet
from gangctl.policy.verdict import Outcome, Result, ValidationAction
from gangctl.runtime.families import OTHERS

_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.25, 1, 2.5)
_RESULTS: Final = ("pass", "fail", "error", "exempt")
_ACTIONS: Final = ("deny", "warn", "audit", "none")
_WHYS: Final = ("time", "memory", "crash", "start")
_UNANSWERED: Final = ("full", "late", "broken")


class PolicyMetrics(EvaluatorObserver):
    """The collectors, in one registry, and the observer of the policy evaluator."""

    def __init__(self, registry: CollectorRegistry, *, on_trouble: Callable[[], None] = lambda: None) -> None:
        """Register every family at once; ``on_trouble`` is called when workers stop working, or work again."""
        self._on_trouble = on_trouble
        self._evaluations = Counter(
            "gangctl_policy_evaluations",
            "Requests that a policy matched, by its worst result (pass, exempt, error, fail) and by the action that "
            "was taken (deny, warn, audit, none).",
            ["policy", "result", "action"],
            registry=registry,
        )
        self._seconds = Histogram(
            "gangctl_policy_evaluation_duration_seconds",
            "Duration of the evaluation of one policy for one request in seconds, by queue: local (on the event "
            "loop), or of a worker: small, large, penalized.",
            ["queue"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._kills = Counter(
            "gangctl_policy_kills",
            "Evaluations that were killed, by policy and reason (why): time, memory, crash.",
            ["policy", "why"],
            registry=registry,
        )
        self._unanswered = Counter(
            "gangctl_policy_unanswered",
            "Evaluations that were not carried out: the queue was full (full), the request timed out (late) or no "
            "worker runs (broken).",
            ["queue", "why"],
            registry=registry,
        )
        self._waiting = Gauge(
            "gangctl_policy_waiting",
            "Reviews that wait for a worker, by queue.",
            ["queue"],
            registry=registry,
        )
        self._worker_deaths = Counter(
            "gangctl_policy_worker_deaths",
            "Workers that terminated (time, memory, crash), did not start (start), or returned no results (broken).",
            ["why"],
            registry=registry,
        )
        self._broken = Gauge(
            "gangctl_policy_workers_broken",
            "Whether no worker runs, 1 or 0: this replica evaluates only what takes a few milliseconds, is not ready, "
            "and /readyz has the reason.",
            registry=registry,
        )
        self._policies = Gauge("gangctl_policies", "Policies by state: loaded, broken.", ["state"], registry=registry)
        self._exceptions = Gauge("gangctl_policy_exceptions", "Valid policy exceptions.", registry=registry)
        self._names: frozenset[str] = frozenset()
        # Start at 0, so that the first event is an increase, too.
        for queue, why in product(POOLED, _UNANSWERED):
            self._unanswered.labels(queue, why)

    def in_force(self, policies: PolicySet, unreadable: int = 0) -> None:
        """Record the set that is in force; the parameters of ``unreadable`` loaded policies cannot be read."""
        self._policies.labels("loaded").set(len(policies.policies) - unreadable)
        self._policies.labels("broken").set(len(policies.broken) + unreadable)
        self._exceptions.set(len(policies.exceptions))
        # By name, so that beyond the limit all replicas leave out the same ones.
        names = sorted([policy.name for policy in policies.policies] + [policy.name for policy in policies.broken])
        kept = frozenset(names[:MOST_POLICIES])
        self._forget(self._names - kept)
        self._names = kept
        # At 0 from the beginning, so that the first one is an increase.
        for name, why in product(kept, _WHYS):
            self._kills.labels(name, why)
        for name in kept:
            self._evaluations.labels(name, "fail", "deny")

    def evaluated_request(self, outcomes: Iterable[Outcome]) -> None:
        """Count the outcomes of one request; policies that did not apply are not counted."""
        for outcome in outcomes:
            if outcome.matched:
                self._evaluations.labels(self._label(outcome.policy), _result(outcome), _action(outcome)).inc()

    def evaluated(self, policy: str, queue: Queue, seconds: float) -> None:
        """Record the evaluation of one policy for one request."""
        # A histogram has a dozen series for each combination of labels.
        del policy
        self._seconds.labels(queue).observe(seconds)

    def killed(self, policy: str, why: str) -> None:
        """Record that one policy ended its worker."""
        self._kills.labels(self._label(policy), why).inc()

    def unanswered(self, queue: Queue, why: str) -> None:
        """Record that one policy was not evaluated."""
        self._unanswered.labels(queue, why).inc()

    def waiting(self, queue: Queue, count: int) -> None:
        """Record how many wait."""
        self._waiting.labels(queue).set(count)

    def died(self, why: str) -> None:
        """Record that a worker ended by itself."""
        self._worker_deaths.labels(why).inc()

    def troubled(self, problem: str) -> None:
        """Record that no worker works, or that they work again."""
        self._broken.set(bool(problem))
        self._on_trouble()

    def _label(self, policy: str) -> str:
        return policy if policy in self._names else OTHERS

    def _forget(self, names: Collection[str]) -> None:
        for name in names:
            for result, action in product(_RESULTS, _ACTIONS):
                self._evaluations.remove(name, result, action)
            for why in _WHYS:
                self._kills.remove(name, why)


def _result(outcome: Outcome) -> str:
    results = {finding.result for finding in outcome.findings}
    worst = (Result.FAIL, Result.ERROR, Result.EXEMPT)
    return next((result.value for result in worst if result in results), Result.PASS.value)


def _action(outcome: Outcome) -> str:
    """The strongest action that followed."""
    if not outcome.violations:
        return "none"
    if any(finding.always for finding in outcome.violations):
        return ValidationAction.DENY.value.lower()
    return next((action.value.lower() for action in ValidationAction if action in outcome.actions), "none")
