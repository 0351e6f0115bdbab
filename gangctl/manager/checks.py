"""The admission order as part of the process: the AdmissionCheck's controller and the gate, each if enabled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, TypeVar

from gangctl.api.jobset import JobSet
from gangctl.api.objects import Key
from gangctl.controllers.checks.activity import Checks, parameter_source
from gangctl.controllers.checks.workloads import Statuses, WorkloadChecks
from gangctl.controllers.gates import GateKeeper
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
GATES: Final = "gates"
WORKERS: Final = 8


class CheckPart:
    """Wires both modes; a disabled one is not made."""

    def __init__(
        self,
        dependencies: Dependencies,
        gangs: GangPart,
        sources: QueueSources,
        policies: PolicyPart | None,
    ) -> None:
        """Make everything, start nothing."""
        clients, settings, metrics = dependencies.clients, dependencies.settings, dependencies.metrics
        scan_view = None if policies is None else policies.scan_view
        statuses = Statuses(clients.reader, gangs.caches, scan_view, state=lambda: gangs.state, rules=gangs.rules)
        self._gangs = gangs
        self._sources = sources
        self._policies = policies
        self._check: _CheckMode | None = None
        self._gate: GateKeeper | None = None
        if settings.kueue_check:
            self._check = _CheckMode(dependencies, gangs, sources, statuses)
            if policies is not None:
                policies.on_swap(self._check.recheck)
        if settings.kueue_gate:
            workloads = sources.workloads.store
            self._gate = GateKeeper(
                clients.reader, clients.writer, gangs.caches, workloads, statuses=statuses, record=gangs.record_event
            )
            self._gates = _controller(GATES, self._gate.reconcile, WORKERS, metrics, gangs.share.admits)
        if self._check is not None or self._gate is not None:
            gangs.follow(self._jobset_changed)
            sources.workloads.informer.subscribe(self._workload_changed)

    def awaits(self, jobset: JobSet) -> bool:
        """Whether a JobSet is held back until its gang exists: then the gang is made while the JobSet is suspended."""
        by_check = self._check is not None and self._check.loop.awaits(jobset)
        return by_check or (self._gate is not None and self._gate.awaits(jobset))

    async def watch(self) -> None:
        """Keep the sources of the modes current until cancelled: on every replica."""
        if self._check is not None:
            await self._check.parameters.informer.run()

    async def lead(self) -> None:
        """Set checks active, evaluate waiting JobSets, and remove gates, until cancelled: on the leader."""
        async with asyncio.TaskGroup() as group:
            if self._check is not None:
                if self._gangs.share.first:
                    group.create_task(self._check.declare(), name=ACTIVITY)
                group.create_task(self._check.evaluate(self._known), name=WORKLOADS)
            if self._gate is not None:
                group.create_task(self._open(self._gate), name=GATES)

    async def _open(self, gate: GateKeeper) -> None:
        await self._known()
        for key in gate.waiting():
            self._gates.enqueue(key)
        await self._gates.run()

    async def _known(self) -> None:
        """Wait until everything that a verdict depends on is synced."""
        await self._gangs.synced()
        for name in ("jobsets", "jobs"):
            await self._gangs.caches.informers[name].synced.wait()
        await self._sources.workloads.informer.synced.wait()
        if self._policies is not None:
            await self._policies.synced()

    def _jobset_changed(self, key: Key) -> None:
        if self._check is not None:
            self._check.jobset_changed(key)
        if self._gate is not None:
            self._gates.enqueue(key)

    def _workload_changed(self, old: QueuedWorkload | None, new: QueuedWorkload | None) -> None:
        changed = new or old
        if changed is None:
            return
        if self._check is not None:
            self._check.enqueue((changed.namespace, changed.name))
        if of_jobset(changed):
            jobset = (changed.namespace, changed.owner_name)
            if self._check is not None and _held(old) != _held(new):
                # This may change whether the JobSet waits for its gang.
                self._gangs.controller.enqueue(jobset)
            if self._gate is not None:
                self._gates.enqueue(jobset)


class _CheckMode:
    """The two loops of an AdmissionCheck's controller."""

    def __init__(
        self,
        dependencies: Dependencies,
        gangs: GangPart,
        sources: QueueSources,
        statuses: Statuses,
    ) -> None:
        clients, metrics = dependencies.clients, dependencies.metrics
        self._gangs = gangs
        self._checks = sources.checks.informer
        self.parameters = parameter_source(clients.reader, self._parameters_changed, observer=metrics.informer_observer)
        metrics.track_informer(self.parameters.informer)
        self._ours = Checks(clients.reader, clients.writer, self._checks.store, self.parameters)
        self.loop = WorkloadChecks(
            dependencies.applier,
            sources.workloads.store,
            self._ours,
            gangs.caches,
            statuses=statuses,
            record=gangs.record_event,
        )
        self._activity: Controller[str] = _controller(ACTIVITY, self._ours.reconcile, 1, metrics)
        self._workloads: Controller[Key] = _controller(
            WORKLOADS, self.loop.reconcile, WORKERS, metrics, gangs.share.admits
        )
        self._checks.subscribe(self._check_changed)

    async def declare(self) -> None:
        """Keep every check's condition Active current; without it a queue admits nothing, so this waits for nothing."""
        await self._checks.synced.wait()
        for name in self._ours.names():
            self._activity.enqueue(name)
        await self._activity.run()

    async def evaluate(self, known: Callable[[], Awaitable[None]]) -> None:
        """Evaluate Workloads, once everything is ``known``."""
        await known()
        await self._checks.synced.wait()
        self.loop.begin()
        self.recheck()
        await self._workloads.run()

    def enqueue(self, key: Key) -> None:
        """Check one Workload of Kueue."""
        self._workloads.enqueue(key)

    def recheck(self) -> None:
        """Check every Workload that may be held back, and its gang, which may be required only now."""
        for workload in self.loop.waiting():
            self._workloads.enqueue((workload.namespace, workload.name))
            if of_jobset(workload):
                self._gangs.controller.enqueue((workload.namespace, workload.owner_name))

    def jobset_changed(self, key: Key) -> None:
        """Check the Workloads of a JobSet."""
        for each in self.loop.keys_of(key):
            self._workloads.enqueue(each)

    def _check_changed(self, old: AdmissionCheck | None, new: AdmissionCheck | None) -> None:
        changed = new or old
        if changed is not None and is_ours(changed.controller):
            self._activity.enqueue(changed.name)
            self.recheck()

    def _parameters_changed(self) -> None:
        for name in self._ours.names():
            self._activity.enqueue(name)
        self.recheck()


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
