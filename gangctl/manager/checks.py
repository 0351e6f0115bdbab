"""The controller of gangctl's AdmissionChecks as part of the process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, TypeVar

from gangctl.api.objects import Key
from gangctl.controllers.checks.activity import Checks, parameter_source
from gangctl.controllers.checks.workloads import Statuses, WorkloadChecks
from gangctl.controllers.queues.sources import QueueSources
from gangctl.kueue.checks import is_ours, of_jobset, reserved
from gangctl.kueue.objects import AdmissionCheck, QueuedWorkload
from gangctl.manager.gangs import Dependencies, GangPart, error_policy
from gangctl.manager.policies import PolicyPart
from gangctl.runtime.controller import Action, Controller, ControllerOptions
from gangctl.runtime.metrics import RuntimeMetrics

K = TypeVar("K", bound=Hashable)

ACTIVITY: Final = "admission-checks"
WORKLOADS: Final = "queued-workloads"
WORKERS: Final = 8


class CheckPart:
    """The two loops of an AdmissionCheck's controller, for the checks and for Kueue's Workloads, and their sources."""

    def __init__(
        self,
        dependencies: Dependencies,
        gangs: GangPart,
        sources: QueueSources,
        policies: PolicyPart | None,
    ) -> None:
        """Make everything, start nothing."""
        clients, metrics = dependencies.clients, dependencies.metrics
        scan_view = None if policies is None else policies.scan_view
        statuses = Statuses(clients.reader, gangs.caches, scan_view, state=lambda: gangs.state, rules=gangs.rules)
        self._gangs = gangs
        self._sources = sources
        self._policies = policies
        self._parameters = parameter_source(
            clients.reader, self._parameters_changed, observer=metrics.informer_observer
        )
        metrics.track_informer(self._parameters.informer)
        self._checks = Checks(clients.reader, clients.writer, sources.checks.informer.store, self._parameters)
        self._loop = WorkloadChecks(
            dependencies.applier,
            sources.workloads.store,
            self._checks,
            gangs.caches,
            statuses=statuses,
            record=gangs.record_event,
        )
        self.awaits = self._loop.awaits
        """Whether a JobSet is held back until its gang exists: then the gang is made while the JobSet is suspended."""
        self._activity: Controller[str] = _controller(ACTIVITY, self._checks.reconcile, 1, metrics)
        self._workloads: Controller[Key] = _controller(
            WORKLOADS, self._loop.reconcile, WORKERS, metrics, gangs.share.admits
        )
        sources.checks.informer.subscribe(self._check_changed)
        sources.workloads.informer.subscribe(self._workload_changed)
        gangs.follow(self._jobset_changed)
        if policies is not None:
            policies.on_swap(self._recheck)

    async def watch(self) -> None:
        """Keep the parameters current until cancelled: on every replica."""
        await self._parameters.informer.run()

    async def lead(self) -> None:
        """Set checks active, and evaluate waiting JobSets, until cancelled: on the leader."""
        async with asyncio.TaskGroup() as group:
            if self._gangs.share.first:
                group.create_task(self._declare(), name=ACTIVITY)
            group.create_task(self._evaluate(), name=WORKLOADS)

    async def _declare(self) -> None:
        """Keep every check's condition Active current; without it a queue admits nothing, so this waits for nothing."""
        await self._sources.checks.informer.synced.wait()
        self._enqueue_checks()
        await self._activity.run()

    async def _evaluate(self) -> None:
        """Evaluate Workloads, once everything that a verdict depends on is synced."""
        await self._gangs.synced()
        for name in ("jobsets", "jobs"):
            await self._gangs.caches.informers[name].synced.wait()
        await self._sources.workloads.informer.synced.wait()
        if self._policies is not None:
            await self._policies.synced()
        await self._sources.checks.informer.synced.wait()
        self._loop.begin()
        self._recheck()
        await self._workloads.run()

    def _recheck(self) -> None:
        """Check every Workload that may be held back, and its gang, which may be required only now."""
        for workload in self._loop.waiting():
            self._workloads.enqueue((workload.namespace, workload.name))
            if of_jobset(workload):
                self._gangs.controller.enqueue((workload.namespace, workload.owner_name))

    def _jobset_changed(self, key: Key) -> None:
        for workload in self._loop.keys_of(key):
            self._workloads.enqueue(workload)

    def _workload_changed(self, old: QueuedWorkload | None, new: QueuedWorkload | None) -> None:
        changed = new or old
        if changed is None:
            return
        self._workloads.enqueue((changed.namespace, changed.name))
        if of_jobset(changed) and _held(old) != _held(new):
            # This may change whether the JobSet waits for its gang.
            self._gangs.controller.enqueue((changed.namespace, changed.owner_name))

    def _check_changed(self, old: AdmissionCheck | None, new: AdmissionCheck | None) -> None:
        changed = new or old
        if changed is not None and is_ours(changed.controller):
            self._activity.enqueue(changed.name)
            self._recheck()

    def _parameters_changed(self) -> None:
        self._enqueue_checks()
        self._recheck()

    def _enqueue_checks(self) -> None:
        for name in self._checks.names():
            self._activity.enqueue(name)


def _held(workload: QueuedWorkload | None) -> frozenset[str]:
    """Names of the checks that hold back a Workload with quota."""
    if workload is None or not reserved(workload):
        return frozenset()
    return frozenset(each.name for each in workload.checks)


def _controller(
    name: str,
    reconcile: Callable[[K], Awaitable[Action]],
    workers: int,
    metrics: RuntimeMetrics,
    admits: Callable[[K], bool] = lambda _: True,
) -> Controller[K]:
    return Controller(
        name,
        reconcile,
        admits=admits,
        options=ControllerOptions(workers=workers),
        error_policy=error_policy,
        observer=metrics.controller_observer(name),
    )
