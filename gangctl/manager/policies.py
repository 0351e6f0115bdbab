"""The policies of a replica: their sources, the evaluator, those in force, their status, and the webhooks' view."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextlib import AsyncExitStack
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from gangctl.api.labelselector import all_hold
from gangctl.api.objects import Object
from gangctl.controllers.exported import ExportedPolicies
from gangctl.controllers.gangs import ReplicaGangs
from gangctl.controllers.policies import Key, PolicyKeeper, PolicyStatusWriter
from gangctl.controllers.policy_sources import Parameters, PolicySources
from gangctl.controllers.scan import PolicyScan, ScanMetrics, ScanOptions
from gangctl.evaluation.options import EvaluatorOptions
from gangctl.fit.report import FitReport
from gangctl.manager.policymetrics import PolicyMetrics
from gangctl.manager.settings import ControllerSettings
from gangctl.policy.loaded import LoadedPolicy, PolicySet
from gangctl.policy.review import Review, review_of_existing
from gangctl.policy.variables import COMPUTED, Fit, gang_of, unknown_fit, with_params
from gangctl.policy.verdict import Outcome
from gangctl.runtime.manager import Manager
from gangctl.runtime.server import HttpRefusal
from gangctl.webhooks.configurations import WebhookSettings, namespace_selector
from gangctl.webhooks.policies import PolicyView, read_by

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
            raise HttpRefusal(HTTPStatus.SERVICE_UNAVAILABLE, "gangctl is ending")
        return () if self._evaluator is None else await self._evaluator.evaluate(review, policies)

    async def close(self) -> None:
        # Before the workers end: a request that comes meanwhile is refused, and not left unevaluated.
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

    def __init__(self, view: PolicyView, documents: Callable[[], Sequence[Object]], webhooks: WebhookSettings) -> None:
        """Namespaces that ``webhooks`` exclude are excluded here."""
        self._view = view
        self.documents = documents
        """Every policy as last seen, with its status: also those that are not scanned."""
        self._terms = namespace_selector(webhooks)["matchExpressions"]

    def scanned(self) -> Sequence[LoadedPolicy]:
        """The policies in force that request evaluation of existing JobSets."""
        return [policy for policy in self._view.in_force.policies if policy.validates and policy.spec.background]

    async def evaluate(self, jobset: Object) -> tuple[Outcome, ...] | None:
        """Outcomes of these policies for one JobSet; None in excluded namespaces."""
        view = self._view
        namespace = await view.namespace(jobset["metadata"]["namespace"])
        if namespace is None or not self._applies(namespace):
            return None
        policies = self.scanned()
        reads = read_by(policies)
        plan = gang_of(jobset, view.cluster_rules(), new=False) if reads & COMPUTED.keys() else None
        fit = view.fit(jobset, jobset["metadata"]["namespace"], new=False) if "fit" in reads else None
        review = review_of_existing(jobset, namespace, plan, view.now(), fit)
        # By name, because those that API servers evaluate at admission are scanned here, too.
        names = frozenset(policy.name for policy in policies)
        return await view.evaluate(with_params(review, policies, view.catalogue), names)

    def _applies(self, namespace: Object) -> bool:
        labels = namespace["metadata"].get("labels") or {}
        return all_hold(self._terms, labels)


class ReplicaPolicies:
    """The policies in force; it is also the :class:`~gangctl.webhooks.policies.PolicyView`."""

    def __init__(self, manager: Manager, settings: ControllerSettings, gangs: ReplicaGangs, *, fit: Fit) -> None:
        """``fit`` returns whether a JobSet (of a namespace, where it names none) can be admitted by its queue."""
        reader, observer, registry = manager.reader, manager.metrics.informer_observer, manager.metrics.registry
        webhooks = settings.webhooks(manager.own_namespace)
        self.now = manager.clock.wall
        """The API server's time, by which its objects are dated."""
        self._metrics = PolicyMetrics(registry, on_trouble=self._write_all)
        self._lazy = _LazyEvaluator(EvaluatorOptions(), self._metrics)
        self._sources = PolicySources(reader, self._wake, observer=observer)
        self.catalogue = Parameters(reader, self._parameters_changed, observer=observer)
        exported = ExportedPolicies(
            reader,
            self._wake,
            namespaces=namespace_selector(webhooks)["matchExpressions"],
            observer=observer,
        )
        self.keeper = PolicyKeeper(
            self._sources,
            self.catalogue,
            exported,
            self._lazy,
            now=self.now,
            on_status_change=self._enqueue,
        )
        writer = PolicyStatusWriter(manager.writer, self._sources, self.keeper, self.now)
        self._controller = manager.controller(NAME, writer.reconcile, 1)
        self.cluster_rules = gangs.assessments.rules
        self.fit = fit
        self.namespace = self._sources.namespace
        self.scan_view = ReplicaScanView(self, self._sources.policies, webhooks)
        self._scan = PolicyScan(
            reader,
            manager.writer,
            self.scan_view,
            options=ScanOptions(period_seconds=settings.policy_scan_period),
            metrics=ScanMetrics(registry, self.scan_view.scanned),
            now=self.now,
        )
        self._sources.subscribe(self._enqueue)
        self.keeper.on_swap += [self._count, self._scan.wake]
        manager.metrics.track_informers(*self._sources.informers, *exported.informers)
        manager.watching |= {
            "policy-sources": self._sources.run,
            "exported-policies": exported.run,
            "policies": self.keeper.run,
        }
        manager.leading_first["policies"] = self._lead

    @property
    def in_force(self) -> PolicySet:
        """The policies, those that cannot be used, and the exceptions."""
        return self.keeper.current

    async def evaluate(self, review: Review, policies: Collection[str] | None = None) -> tuple[Outcome, ...]:
        """Outcome of each policy in force at admission, or of each named one."""
        outcomes = await self._lazy.evaluate(review, policies)
        # A scan names its policies, and is no request.
        if policies is None:
            self._metrics.evaluated_request(outcomes)
        return outcomes

    @property
    def problem(self) -> str:
        """Why policies are not evaluated, and since when; empty where they are."""
        return self._lazy.problem

    def unready(self) -> str | None:
        """What is not synced yet, so that requests cannot be evaluated."""
        if self.keeper.synced.is_set():
            return None
        missing = self._sources.unsynced()
        return f"waiting for {', '.join(missing)}" if missing else "loading the policies"

    async def aclose(self) -> None:
        """Refuse what is still to be evaluated, and end the workers."""
        await self._lazy.close()

    async def _lead(self) -> None:
        """Write statuses and scan existing JobSets until cancelled."""
        await self.keeper.synced.wait()
        self._write_all()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._controller.run(), name="policy-status")
            group.create_task(self._scan.run(), name="policy-scan")

    def _write_all(self) -> None:
        for key in self._sources.keys():  # noqa: SIM118 - it is not a mapping
            self._controller.enqueue(key)

    def _enqueue(self, key: Key) -> None:
        self._controller.enqueue(key)

    def _wake(self) -> None:
        self.keeper.wake()

    def _count(self) -> None:
        unreadable = [policy for policy in self.in_force.policies if self.keeper.unreadable(policy)]
        self._metrics.in_force(self.in_force, len(unreadable))

    def _parameters_changed(self) -> None:
        """Some became readable or unreadable: counts, statuses and the results for existing JobSets change."""
        if self.keeper.synced.is_set():
            self._count()
        self.keeper.wake()
        self._scan.wake()
