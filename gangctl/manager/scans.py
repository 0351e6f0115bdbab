"""The background scan as part of the process: what it sees of policies and cluster, and its metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Final

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client import Counter as Total

from gangctl.api.labelselector import holds
from gangctl.api.objects import Object
from gangctl.controllers.policies import PolicyKeeper
from gangctl.controllers.policy_sources import PolicySources
from gangctl.controllers.scan import ScanObserver
from gangctl.gang.resolve import ClusterRules
from gangctl.manager.policymetrics import MOST_POLICIES
from gangctl.policy.existing import review_of_existing
from gangctl.policy.fitvariable import Fit
from gangctl.policy.gangvariable import gang_of
from gangctl.policy.loaded import LoadedPolicy
from gangctl.policy.params import ParamCatalogue, with_params
from gangctl.policy.reports import severity_of
from gangctl.policy.review import Review
from gangctl.policy.verdict import Action, Outcome, Result
from gangctl.webhooks.configurations import WebhookSettings, namespace_selector
from gangctl.webhooks.policies import read_by

_ACTIONS: Final = (Action.DENY, Action.WARN, Action.AUDIT)


class Sight:
    """The :class:`~gangctl.controllers.scan.ScanView` of a replica: the same policies that admission goes by."""

    def __init__(
        self,
        keeper: PolicyKeeper,
        sources: PolicySources,
        catalogue: ParamCatalogue,
        *,
        evaluate: Callable[[Review, Collection[str]], Awaitable[tuple[Outcome, ...]]],
        rules: Callable[[], ClusterRules],
        fit: Fit,
        webhooks: WebhookSettings,
        now: Callable[[], datetime],
    ) -> None:
        """Namespaces that ``webhooks`` leave alone are left alone here."""
        self._keeper = keeper
        self._sources = sources
        self._catalogue = catalogue
        self._evaluate = evaluate
        self._rules = rules
        self._fit = fit
        self._now = now
        self._terms = namespace_selector(webhooks)["matchExpressions"]

    def scanned(self) -> Sequence[LoadedPolicy]:
        """The policies in force that want what exists to be evaluated."""
        return [each for each in self._keeper.current.policies if each.validates and each.spec.background]

    def documents(self) -> Sequence[Object]:
        """Every policy as it was last seen, with its status: also those that are not scanned."""
        return self._sources.policies()

    async def evaluate(self, jobset: Object) -> tuple[Outcome, ...] | None:
        """What these policies say of one JobSet; None in namespaces that are left alone."""
        namespace = await self._sources.namespace(jobset["metadata"]["namespace"])
        if namespace is None or not self._applies(namespace):
            return None
        policies = self.scanned()
        reads = read_by(policies)
        plan = gang_of(jobset, self._rules()) if "gang" in reads else None
        fit = self._fit(jobset, jobset["metadata"]["namespace"], new=False) if "fit" in reads else None
        review = review_of_existing(jobset, namespace, plan, self._now(), fit)
        return await self._evaluate(
            with_params(review, policies, self._catalogue), frozenset(policy.name for policy in policies)
        )

    def _applies(self, namespace: Object) -> bool:
        labels = namespace["metadata"].get("labels") or {}
        return all(holds(term["key"], term["operator"], term.get("values", ()), labels) for term in self._terms)


class ScanMetrics(ScanObserver):
    """What the last scan found; only the replica that scans has anything to tell."""

    def __init__(self, registry: CollectorRegistry, policies: Callable[[], Sequence[LoadedPolicy]]) -> None:
        """Register every family; ``policies`` are those that are scanned."""
        self._policies = policies
        self._violations = Gauge(
            "gangctl_policy_violations",
            "Rules that existing JobSets break, by the last scan.",
            ["policy", "severity", "action"],
            registry=registry,
        )
        self._jobsets = Gauge("gangctl_policy_scanned_jobsets", "JobSets that the last scan saw.", registry=registry)
        self._seconds = Gauge("gangctl_policy_scan_duration_seconds", "How long it took.", registry=registry)
        self._at = Gauge(
            "gangctl_policy_last_scan_timestamp_seconds", "When a scan last got to its end.", registry=registry
        )
        self._failures = Total(
            "gangctl_policy_scan_failures", "Scans that did not get to their end.", registry=registry
        )

    def scan_done(self, jobsets: int, seconds: float, results: Mapping[str, Counter[Result]]) -> None:
        """Replace what the scan before found."""
        self._violations.clear()
        for policy in self._policies()[:MOST_POLICIES]:
            actions = set(policy.spec.validation_actions)
            action = next((each.value.lower() for each in _ACTIONS if each in actions), "none")
            found = results.get(policy.name, Counter())
            self._violations.labels(policy.name, severity_of(policy.source), action).set(found[Result.FAIL])
        self._jobsets.set(jobsets)
        self._seconds.set(seconds)
        self._at.set_to_current_time()

    def scan_failed(self) -> None:
        """Count it."""
        self._failures.inc()
