"""The policy part of the process: sources, evaluator, the policies in force, their status, and the webhooks' view."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from gangctl.api.labelselector import holds
from gangctl.api.objects import Object
from gangctl.controllers.exported import ExportedPolicies
from gangctl.controllers.policies import Key, PolicyKeeper, PolicyStatusWriter
from gangctl.controllers.policy_sources import Parameters, PolicySources
from gangctl.controllers.scan import PolicyScan, Reports, ScanMetrics, ScanOptions
from gangctl.evaluation.options import EvaluatorOptions
from gangctl.fit.report import FitReport
from gangctl.gang.resolve import ClusterRules
from gangctl.manager.gangs import Dependencies, GangPart, error_policy
from gangctl.manager.policymetrics import PolicyMetrics
from gangctl.policy.loaded import LoadedPolicy, PolicySet
from gangctl.policy.params import ParamCatalogue, with_params
from gangctl.policy.review import Review, review_of_existing
from gangctl.policy.variables import COMPUTED, Fit, gang_of, unknown_fit
from gangctl.policy.verdict import Outcome
from gangctl.runtime.controller import Controller, ControllerOptions
from gangctl.runtime.server import Refusal
from gangctl.webhooks.configurations import Demand, WebhookSettings, namespace_selector
from gangctl.webhooks.policies import demand_of, read_by

if TYPE_CHECKING:
    from gangctl.evaluation.evaluator import PolicyEvaluator

NAME: Final = "policies"


class _LazyEvaluator:
    """A policy evaluator that is made for the first policy: a cluster without policies has no workers."""

    def __init__(self, options: EvaluatorOptions, metrics: PolicyMetrics) -> None:
        self._options = options
        self._metrics = metrics
        self._stack = AsyncExitStack()
        self._evaluator: PolicyEvaluator | None = None
        self._closed = False

    @property
    def problem(self) -> str:
        return "" if self._evaluator is None else self._evaluator.problem

    async def load(self, document: Object) -> LoadedPolicy:
        return await (await self._made()).load(document)

    async def install(self, policies: PolicySet) -> None:
        if self._evaluator is not None or policies.policies or policies.broken:
            evaluator = await self._made()
            # Without this, a request after a start, or after many changes at once, would wait for the workers and be
            # refused.
            await evaluator.prepare(policies)
            await evaluator.install(policies)

    async def evaluate(self, review: Review, policies: Collection[str] | None) -> tuple[Outcome, ...]:
        if self._closed:
            # Without policies a request would be allowed.
            raise Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "gangctl is ending")
        return () if self._evaluator is None else await self._evaluator.evaluate(review, policies)

    async def close(self) -> None:
        self._closed, self._evaluator = True, None
        await self._stack.aclose()

    async def _made(self) -> PolicyEvaluator:
        if self._evaluator is None:
            from gangctl.evaluation.evaluator import PolicyEvaluator  # noqa: PLC0415 -- it is large, and most clusters do not need it

            made = PolicyEvaluator(self._options, observer=self._metrics)
            self._evaluator = await self._stack.enter_async_context(made)
        return self._evaluator


def without_queues(raw: Object, namespace: str, *, new: bool = True) -> FitReport:  # noqa: ARG001
    """The answer of a gangctl that does not watch Kueue."""
    return unknown_fit(raw, namespace, ["gangctl does not look at Kueue"])


class ReplicaScanView:
    """The :class:`~gangctl.controllers.scan.ScanView` of a replica: the same policies as for admission."""

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
        """Namespaces that ``webhooks`` exclude are excluded here."""
        self._keeper = keeper
        self._sources = sources
        self._catalogue = catalogue
        self._evaluate = evaluate
        self._rules = rules
        self._fit = fit
        self._now = now
        self._terms = namespace_selector(webhooks)["matchExpressions"]

    def scanned(self) -> Sequence[LoadedPolicy]:
        """The policies in force that request evaluation of existing JobSets."""
        return [each for each in self._keeper.current.policies if each.validates and each.spec.background]

    def documents(self) -> Sequence[Object]:
        """Every policy as last seen, with its status: also those that are not scanned."""
        return self._sources.policies()

    async def evaluate(self, jobset: Object) -> tuple[Outcome, ...] | None:
        """Outcomes of these policies for one JobSet; None in excluded namespaces."""
        namespace = await self._sources.namespace(jobset["metadata"]["namespace"])
        if namespace is None or not self._applies(namespace):
            return None
        policies = self.scanned()
        reads = read_by(policies)
        plan = gang_of(jobset, self._rules()) if reads & COMPUTED.keys() else None
        fit = self._fit(jobset, jobset["metadata"]["namespace"], new=False) if "fit" in reads else None
        review = review_of_existing(jobset, namespace, plan, self._now(), fit)
        return await self._evaluate(
            with_params(review, policies, self._catalogue), frozenset(policy.name for policy in policies)
        )

    def _applies(self, namespace: Object) -> bool:
        labels = namespace["metadata"].get("labels") or {}
        return all(holds(term["key"], term["operator"], term.get("values", ()), labels) for term in self._terms)


class PolicyPart:
    """Wires the parts for policies; it is also the :class:`~gangctl.webhooks.policies.PolicyView`."""

    def __init__(self, dependencies: Dependencies, gangs: GangPart, *, fit: Fit) -> None:
        """Make everything, start nothing.

        ``fit`` returns whether a JobSet (of a namespace, where it names none) can be admitted by its queue.
        """
        clients, metrics = dependencies.clients, dependencies.metrics
        self._gangs = gangs
        self.fit = fit
        self._metrics = PolicyMetrics(dependencies.registry, on_trouble=self._write_all)
        self._on_swap: list[Callable[[], None]] = []
        self._lazy = _LazyEvaluator(EvaluatorOptions(), self._metrics)
        self._sources = PolicySources(clients.reader, self._wake, observer=metrics.informer_observer)
        self._parameters = Parameters(clients.reader, self._parameters_changed, observer=metrics.informer_observer)
        webhooks = dependencies.settings.webhooks(dependencies.own_namespace)
        self._exported = ExportedPolicies(
            clients.reader,
            self._wake,
            namespaces=namespace_selector(webhooks)["matchExpressions"],
            observer=metrics.informer_observer,
        )
        self._keeper = PolicyKeeper(
            self._sources,
            self._parameters,
            self._exported,
            self._lazy,
            now=self.now,
            on_swap=self._swapped,
            on_status_change=self._enqueue,
        )
        writer = PolicyStatusWriter(clients.writer, self._sources, self._keeper, self._parameters, self.now)
        self._controller: Controller[Key] = Controller(
            NAME,
            writer.reconcile,
            options=ControllerOptions(workers=1),
            error_policy=error_policy,
            observer=metrics.controller_observer(NAME),
        )
        self.scan_view = ReplicaScanView(
            self._keeper,
            self._sources,
            self._parameters,
            evaluate=self._lazy.evaluate,
            rules=self.cluster_rules,
            fit=fit,
            webhooks=webhooks,
            now=self.now,
        )
        self._scan = PolicyScan(
            clients.reader,
            clients.writer,
            self.scan_view,
            Reports(clients.reader, clients.writer, now=self.now),
            options=ScanOptions(period_seconds=dependencies.settings.policy_scan_period),
            metrics=ScanMetrics(dependencies.registry, self.scan_view.scanned),
            now=self.now,
        )
        for informer in self._sources.informers + self._exported.informers:
            metrics.track_informer(informer)
        self._sources.subscribe(self._enqueue)
        self.on_swap(self._scan.wake)

    @property
    def in_force(self) -> PolicySet:
        """The policies, those that cannot be used, and the exceptions."""
        return self._keeper.current

    @property
    def catalogue(self) -> ParamCatalogue:
        """Parameter objects."""
        return self._parameters

    def cluster_rules(self) -> ClusterRules:
        """Rules by which gangs are planned on this cluster; those of the newest API where no gang can be made."""
        return self._gangs.assessments.rules()

    def now(self) -> datetime:
        """The time."""
        return datetime.now(UTC)

    async def namespace(self, name: str) -> Object | None:
        """A namespace by name."""
        return await self._sources.namespace(name)

    async def evaluate(self, review: Review, policies: Collection[str] | None = None) -> tuple[Outcome, ...]:
        """Outcome of each policy in force at admission, or of each named one."""
        outcomes = await self._lazy.evaluate(review, policies)
        if policies is None:
            self._metrics.evaluated_request(outcomes)
        return outcomes

    def demand(self) -> Demand:
        """The webhooks that the policies in force need."""
        return demand_of(self._keeper.current)

    def on_swap(self, call: Callable[[], None]) -> None:
        """Also call this when another set of policies is in force."""
        self._on_swap.append(call)

    @property
    def problem(self) -> str:
        """Why policies are not evaluated, and since when; empty where they are."""
        return self._lazy.problem

    def unready(self) -> str | None:
        """What is not synced yet, so that requests cannot be evaluated."""
        if self._keeper.synced.is_set():
            return None
        missing = self._sources.unsynced()
        return f"waiting for {', '.join(missing)}" if missing else "loading the policies"

    async def synced(self) -> None:
        """Wait until requests can be evaluated."""
        await self._keeper.synced.wait()

    @asynccontextmanager
    async def evaluating(self) -> AsyncIterator[None]:
        """Evaluate until the last request is answered: longer than the informers run."""
        try:
            yield
        finally:
            await self._lazy.close()

    async def watch(self) -> None:
        """Keep policies and their inputs current until cancelled: on every replica."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._sources.run(), name="policy-sources")
            group.create_task(self._exported.run(), name="exported-policies")
            group.create_task(self._keeper.run(), name="policies")

    async def lead(self) -> None:
        """Write statuses and scan existing JobSets until cancelled: on the leader, with shards the first one's."""
        if not self._gangs.share.first:
            return
        await self.synced()
        self._write_all()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._controller.run(), name="policy-status")
            group.create_task(self._scan.run(), name="policy-scan")

    def _write_all(self) -> None:
        for key in self._sources.keys():  # noqa: SIM118 - it is not a mapping
            self._controller.enqueue(key)

    def _wake(self) -> None:
        self._keeper.wake()

    def _parameters_changed(self) -> None:
        """Some became readable or unreadable: statuses and the results for existing JobSets change."""
        self._keeper.wake()
        self._scan.wake()

    def _enqueue(self, key: Key) -> None:
        self._controller.enqueue(key)

    def _swapped(self) -> None:
        self._metrics.in_force(self._keeper.current)
        for call in self._on_swap:
            call()
