"""The two loops of the controller of gangctl's AdmissionChecks: for the checks, and for Kueue's Workloads."""

from __future__ import annotations

from typing import Final

from gangctl.api.jobset import JobSet
from gangctl.api.objects import Key
from gangctl.controllers.checks.activity import Checks, parameter_source
from gangctl.controllers.checks.workloads import Statuses, WorkloadChecks
from gangctl.controllers.gangs import ReplicaGangs
from gangctl.controllers.policies import PolicyKeeper
from gangctl.controllers.queues.sources import QueueSources
from gangctl.controllers.scan import ScanView
from gangctl.kueue.checks import is_ours, of_jobset, reserved
from gangctl.kueue.objects import AdmissionCheck, QueuedWorkload
from gangctl.runtime.controller import Controller
from gangctl.runtime.manager import Manager

ACTIVITY: Final = "admission-checks"
WORKLOADS: Final = "queued-workloads"
WORKERS: Final = 8
SECONDS_PER_JOB: Final = 1e-4
"""Delay of a check after a change of a gang: each of its groups is one, and a check takes 1/20 of this for each Job."""


class CheckController:
    """Follows checks, their parameters, Workloads and JobSets, and enqueues what they concern."""

    def __init__(
        self,
        manager: Manager,
        gangs: ReplicaGangs,
        sources: QueueSources,
        policies: ScanView | None = None,
        keeper: PolicyKeeper | None = None,
    ) -> None:
        """``policies`` and ``keeper`` are None where no policies are evaluated."""
        self._gangs = gangs
        self._sources = sources
        self._keeper = keeper
        parameters = parameter_source(
            manager.reader, self._parameters_changed, observer=manager.metrics.informer_observer
        )
        manager.metrics.track_informers(parameters.informer)
        self._checks = Checks(manager.reader, manager.writer, sources.checks.informer.store, parameters)
        statuses = Statuses(manager.reader, gangs.caches, policies, state=lambda: gangs.state, rules=gangs.rules)
        self._loop = WorkloadChecks(
            manager.writer,
            sources.workloads.store,
            self._checks,
            gangs.caches,
            statuses=statuses,
            record=gangs.record_event,
            now=manager.clock.wall,
        )
        self._activity: Controller[str] = manager.controller(ACTIVITY, self._checks.reconcile, 1)
        self._workloads = manager.controller(WORKLOADS, self._loop.reconcile, WORKERS, admits=manager.admits)
        sources.checks.informer.subscribe(self._check_changed)
        sources.workloads.informer.subscribe(self._workload_changed)
        gangs.followers.append(self._jobset_changed)
        if keeper is not None:
            keeper.on_swap.append(self._recheck)
        manager.watching["check-parameters"] = parameters.informer.run
        # AdmissionChecks are in no namespace, and so of no shard: the leader of the first one writes their conditions.
        manager.leading_first[ACTIVITY] = self._declare
        manager.leading[WORKLOADS] = self._evaluate

    def awaits(self, jobset: JobSet) -> bool | None:
        """Whether a JobSet is held back until its gang exists: then the gang is made while the JobSet is suspended.

        None while it is not known.
        """
        if self._loop.awaits(jobset):
            return True
        known = self._sources.workloads.known and self._sources.checks.known
        return False if known else None

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
        if self._keeper is not None:
            await self._keeper.synced.wait()
        await self._sources.checks.informer.synced.wait()
        self._loop.begin()
        # What waits in a queue keeps groups with ResourceClaims until it is known that no check waits for them.
        self._gangs.recheck(lambda jobset: bool(jobset.queue) and jobset.suspend)
        self._recheck()
        await self._workloads.run()

    def _recheck(self) -> None:
        """Check every Workload that may be held back, and its gang, which may be required only now."""
        for workload in self._loop.waiting():
            self._workloads.enqueue((workload.namespace, workload.name))
            self._recheck_gang(workload)

    def _jobset_changed(self, key: Key) -> None:
        jobset = self._gangs.caches.jobset(key)
        if jobset is not None:
            for workload in self._loop.workloads_of(jobset):
                self._workloads.enqueue((workload.namespace, workload.name), jobset.jobs * SECONDS_PER_JOB)

    def _workload_changed(self, old: QueuedWorkload | None, new: QueuedWorkload | None) -> None:
        changed = new or old
        if changed is None:
            return
        self._workloads.enqueue((changed.namespace, changed.name))
        if _held(old) != _held(new):
            # This may change whether the JobSet waits for its gang.
            self._recheck_gang(changed)

    def _recheck_gang(self, workload: QueuedWorkload) -> None:
        origin = self._loop.origin(workload)
        if origin is not None and of_jobset(origin):
            self._gangs.controller.enqueue((origin.namespace, origin.owner_name))

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
    return frozenset(check.name for check in workload.checks)
