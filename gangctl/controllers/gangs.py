"""The gang controller: makes the Workload and PodGroups of one JobSet what its stamps say.

A reconcile is five steps: observe, plan, diff, apply, report. It is level-triggered: every call reads what is there now
and does what is missing, so that a crash after any single write is repaired by the next call. It never writes to
JobSets, Jobs or pods, and never touches an object that it does not control.

Every present gang is reconciled again after ten minutes at most, and nothing is written if nothing has changed: a
trigger that was missed costs minutes.

The assessment of a JobSet is made once for each state of it: a reconcile and a check of readiness need the same one,
and while a gang starts both happen several times without a change of the JobSet.
"""

from __future__ import annotations

import asyncio
import random
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

import structlog

from gangctl.api.jobset import JobSet
from gangctl.api.meta import JOBSET_API_VERSION, JOBSET_NAME, JOBSET_UID
from gangctl.api.objects import Key
from gangctl.api.pods import UNFINISHED
from gangctl.api.scheduling import ApiState, Generation, Observed
from gangctl.client.client import Client, Selection
from gangctl.client.resources import PODS
from gangctl.controllers.caches import GangCaches
from gangctl.controllers.discovery import DiscoveryLoop
from gangctl.controllers.namespaces import ServedNamespaces
from gangctl.controllers.reporter import GangMetrics, GangReporter, event_of
from gangctl.controllers.writer import Writer
from gangctl.errors import ApiError, OwnershipConflictError, is_transient
from gangctl.gang.desired import Assessment, Desired, JobProgress, Lifecycle, assess, desire, with_own_restarts
from gangctl.gang.diff import Change, Difference, Existing, Kind, diff, ending, retire
from gangctl.gang.plan import GangPlan
from gangctl.gang.reasons import Notice
from gangctl.gang.resolve import ClusterRules
from gangctl.runtime.controller import Action, await_change, computed, in_parts, requeue, retry
from gangctl.runtime.events import ObjectReference
from gangctl.runtime.manager import Manager

_Inputs = tuple[JobSet, ClusterRules, Lifecycle]

MOST_KEPT: Final = 500
"""JobSets whose assessment is kept: those that were assessed last."""
LARGEST_KEPT: Final = 128
"""Jobs of a JobSet whose assessment is kept: larger ones would take much memory."""


class Assessments:
    """Assesses JobSets with the last result of discovery."""

    def __init__(
        self,
        state: Callable[[], ApiState],
        rules: Callable[[Generation], ClusterRules],
        suspended: Callable[[JobSet], Lifecycle] = lambda _: Lifecycle.RETIRED,
    ) -> None:
        """``state`` is the last result of discovery.

        ``suspended`` returns which objects a suspended JobSet keeps, which depends on what will resume it: without
        Kueue only the user.
        """
        self.state = state
        self._rules = rules
        self.suspended = suspended
        self._kept: OrderedDict[Key, tuple[_Inputs, Assessment]] = OrderedDict()

    def rules(self) -> ClusterRules:
        """The rules now; those of the newest generation where the cluster serves none."""
        return self._rules(self.state().generation or ClusterRules().generation)

    def of(self, jobset: JobSet) -> Assessment:
        """The assessment of a stored JobSet."""
        inputs = self._inputs(jobset)
        return self._known(inputs) or self._keep(inputs, assess(*inputs))

    async def computed(self, jobset: JobSet) -> Assessment:
        """The same; in a thread where it takes long."""
        inputs = self._inputs(jobset)
        return self._known(inputs) or self._keep(inputs, await computed(jobset.jobs, assess, *inputs))

    def _inputs(self, jobset: JobSet) -> _Inputs:
        # Of a JobSet that runs this is not read: as a constant it makes no assessment obsolete.
        return jobset, self.rules(), self.suspended(jobset) if jobset.suspend else Lifecycle.RETIRED

    def _known(self, inputs: _Inputs) -> Assessment | None:
        known = self._kept.get(inputs[0].key)
        # The whole JobSet is compared: its generation does not change with its status, which the assessment reads, too.
        return known[1] if known is not None and known[0] == inputs else None

    def _keep(self, inputs: _Inputs, assessment: Assessment) -> Assessment:
        jobset = inputs[0]
        # Removed first, so that it becomes the youngest entry.
        self._kept.pop(jobset.key, None)
        if jobset.jobs <= LARGEST_KEPT:
            self._kept[jobset.key] = inputs, assessment
        if len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)
        return assessment


_log = structlog.get_logger(__name__)


class PodReader:
    """Reads the pods of one JobSet from the API server, in the few cases in which a decision depends on them.

    The watch of pods is for readiness alone, and may be switched off.
    """

    def __init__(self, client: Client) -> None:
        """Ask through ``client``."""
        self._client = client

    async def any_unfinished(self, jobset: JobSet) -> bool:
        """Whether any pod of the JobSet has not finished; one that terminates still counts."""
        # By its UID, too: those of an earlier JobSet of this name stay for as long as a lost node does.
        selection = Selection(f"{JOBSET_NAME}={jobset.name},{JOBSET_UID}={jobset.uid}", UNFINISHED)
        # One pod decides, and a JobSet may have thousands.
        async with aclosing(self._client.pages(PODS, jobset.namespace, selection=selection, limit=1)) as pages:
            async for page in pages:
                return bool(page.items)
        return False


CONFLICT_RETRY_SECONDS: Final = 30.0
TERMINATING_RETRY_SECONDS: Final = 5.0
PODS_RETRY_SECONDS: Final = 1.0
"""At least; with a growing delay, because a pod on a lost node may stay for days."""
RESYNC_SECONDS: Final = 600.0
RESYNC_JITTER: Final = 0.5
"""A resync is up to this share earlier, so that those of a new leader's gangs spread."""


@dataclass(frozen=True, slots=True)
class _Observed:
    """The input of a reconcile."""

    jobset: JobSet
    jobs: Sequence[JobProgress]
    state: ApiState
    foreign: str | None


class GangController:
    """``reconcile(key) -> Action`` for JobSets, over caches, pods, a writer and a reporter."""

    def __init__(
        self,
        caches: GangCaches,
        writer: Callable[[Generation], Writer],
        pods: PodReader,
        reporter: GangReporter,
        assessments: Assessments,
        *,
        concerns: Callable[[JobSet], bool],
        randomness: Callable[[], float] = random.random,
    ) -> None:
        """Compose; ``writer`` makes one for a generation, ``concerns`` is whether gangctl looks after a JobSet."""
        self._concerns = concerns
        self._caches = caches
        self._writer = writer
        self._pods = pods
        self._reporter = reporter
        self._assessments = assessments
        self._randomness = randomness

    async def reconcile(self, key: Key) -> Action:
        """Bring one JobSet's objects up to date."""
        observed = self._observe(key)
        if observed is None:
            self._reporter.forget(key)
            return await_change()
        jobset, generation = observed.jobset, observed.state.generation
        served = self._assessments.rules().generation
        assessment = await self._assessments.computed(jobset)
        desired = await computed(jobset.jobs, desire, assessment, observed.jobs, served)
        if desired.assessment.lifecycle is Lifecycle.UNTOUCHED:
            return await_change()
        if generation is None:
            self._reporter.unavailable(jobset, desired.assessment, observed.state.reason)
            return self._resync()
        if desired.assessment.lifecycle is not Lifecycle.ENDING:
            self._reporter.planned(jobset, desired, observed.foreign)
        if desired.plan is None:
            # The event that it runs without a gang is recorded for as long as it does.
            return self._resync() if desired.assessment.lacks_its_gang else await_change()
        existing = await self._caches.existing(desired.plan)
        if self._caches.reading:
            # What seems to be missing would be created, and reported as new. Each JobSet follows once all is read.
            return await_change()
        match desired.assessment.lifecycle:
            case Lifecycle.RETIRED:
                return await self._retire(observed, desired.plan, existing, generation)
            case Lifecycle.ENDING:
                changes = await computed(jobset.jobs, ending, desired, existing, observed.state.capabilities)
                await self._apply(jobset, desired.plan, Difference(changes), generation)
                return self._resync()
            case Lifecycle.KEPT | Lifecycle.UNDECIDED if existing.workload is None:
                return await_change()
        return await self._present(observed, desired, desired.plan, existing, generation)

    def _observe(self, key: Key) -> _Observed | None:
        jobset = self._caches.jobset(key)
        if jobset is None or not self._concerns(jobset):
            return None
        jobs, state = self._caches.jobs(key), self._assessments.state()
        return _Observed(with_own_restarts(jobset, jobs), jobs, state, self._caches.claimed(*key))

    async def _present(
        self, observed: _Observed, desired: Desired, plan: GangPlan, existing: Existing, generation: Generation
    ) -> Action:
        jobset = observed.jobset
        difference = await computed(jobset.jobs, diff, desired, existing, observed.state.capabilities)
        # Before the writes, which count as reported once they are applied.
        interrupted = self._reporter.interrupted(jobset, existed=existing.workload is not None)
        refused = await self._apply(jobset, plan, difference, generation, interrupted=interrupted)
        if refused is not None:
            return refused
        suspended = self._assessments.suspended(jobset)
        self._reporter.present(jobset, plan, difference, generation, suspended=suspended, interrupted=interrupted)
        if existing.workload is not None and existing.workload.deleting:
            return requeue(TERMINATING_RETRY_SECONDS)
        return requeue(CONFLICT_RETRY_SECONDS) if difference.conflicts else self._resync()

    def _resync(self) -> Action:
        return requeue(RESYNC_SECONDS * (1 - RESYNC_JITTER * self._randomness()))

    async def _retire(self, observed: _Observed, plan: GangPlan, existing: Existing, generation: Generation) -> Action:
        """Delete the objects once no pod is left that needs them."""
        jobset = observed.jobset
        changes = retire(plan.uid, existing)
        if not changes:
            return await_change()
        # Their end is a change of the Job. Pods that terminate after that are not watched here: they are polled below.
        if any(job.active for job in observed.jobs if job.jobset_uid == plan.uid):
            return self._resync()
        # It may have been resumed while its pods were read.
        if await self._pods.any_unfinished(jobset) or self._caches.restarted_jobset(jobset.key) != jobset:
            return retry(PODS_RETRY_SECONDS)
        # Before the deletes: what is missing from here on is no damage to repair, also if only some succeed.
        self._reporter.retired(jobset)
        await self._apply(jobset, plan, Difference(changes), generation)
        return self._resync()

    async def _apply(
        self,
        jobset: JobSet,
        plan: GangPlan,
        difference: Difference,
        generation: Generation,
        *,
        interrupted: bool = False,
    ) -> Action | None:
        """Write, and report what was written; what to do if nothing could be."""
        changes, done = difference.changes, list[Change]()
        try:
            await self._writer(generation).carry_out(changes, done)
        except OwnershipConflictError as conflict:
            self._reporter.rejected(jobset, plan, conflict)
            # By time: no event of another owner's object leads to this JobSet.
            return requeue(CONFLICT_RETRY_SECONDS)
        except ApiError as error:
            # The deletion of the namespace deletes all: an event would be refused, too, and a retry changes nothing.
            if error.namespace_terminating:
                return self._resync()
            self._reporter.failed(jobset, plan, error, done, generation)
            raise
        # After the changes: a quota may have no place left, and the running gang comes first.
        prepared: list[Change] = []
        try:
            await self._writer(generation).carry_out(difference.spares, prepared)
        except (ApiError, OwnershipConflictError) as error:
            # Until the resync, up to ten minutes later, a restart would wait for these groups.
            if is_transient(error):
                raise
            # No failure, as by a quota: the gang runs, and a resync tries again.
            _log.info("groups of the next attempt were refused", jobset="/".join(jobset.key), error=str(error))
        finally:
            # Also when a spare failed: the next reconcile finds the changes above done, and would not report them.
            self._reporter.applied(jobset, plan, changes, generation, interrupted=interrupted, prepared=bool(prepared))
        return None


class ReplicaGangs:
    """The gangs as this replica knows them: their caches, their controller, and the webhooks' view of them."""

    def __init__(
        self,
        manager: Manager,
        namespaces: ServedNamespaces,
        *,
        schedulers: Sequence[str],
        workers: int,
        discovery_seconds: float,
    ) -> None:
        """``schedulers`` honour groups."""
        self._manager = manager
        self.namespaces = namespaces
        namespaces.on_change.append(self._recheck_in)
        self._schedulers = frozenset(schedulers)
        self._followed: tuple[Generation | None, str] = (None, "")
        self.followers: list[Callable[[Key], None]] = []
        """Called with the key of each JobSet that changes, or whose gang's objects change."""
        self.on_state: list[Callable[[ApiState], None]] = []
        """Called with each state that discovery finds, the first included."""
        self.discovery = DiscoveryLoop(
            manager.reader, manager.own_namespace, self._on_generation, period_seconds=discovery_seconds
        )
        self.caches = GangCaches(
            manager.reader,
            self._enqueue,
            asyncio.get_running_loop().time,
            manager.metrics.informer_observer,
            # An upgrade of the cluster changes what it serves, and this is the first sign of it.
            on_lost=self.discovery.trigger,
        )
        self.assessments = Assessments(lambda: self.state, self.rules)
        metrics = GangMetrics(manager.metrics.registry, lambda: self.state)
        self._reporter = GangReporter(self.record_event, metrics, manager.clock)
        reconciler = GangController(
            self.caches,
            lambda generation: Writer(manager.writer, generation, self.caches.overlay, self.state.composite),
            PodReader(manager.reader),
            self._reporter,
            self.assessments,
            concerns=namespaces.concerns,
        )
        self.controller = manager.controller("gangs", reconciler.reconcile, workers, admits=manager.admits)
        manager.metrics.track_informers(*self.caches.informers.values())
        manager.watching |= {"caches": self.caches.run, "discovery": self.discovery.run}
        manager.leading["gangs"] = self._lead
        manager.checks["caches"] = self._unready

    @property
    def state(self) -> ApiState:
        """The last result of discovery."""
        return self.discovery.state

    def rules(self, generation: Generation) -> ClusterRules:
        """Rules for decisions on this cluster."""
        return ClusterRules(generation, self._schedulers, self.state.lacks, known=True)

    def claimed(self, namespace: str, jobset: str) -> str | None:
        """Name of another controller's Workload for this JobSet."""
        return self.caches.claimed(namespace, jobset)

    def scheduling(self, kind: Kind, namespace: str, name: str) -> Observed | None:
        """The Workload or PodGroup of this name, with any owner."""
        return self.caches.scheduling(kind, namespace, name)

    def record_event(self, jobset: JobSet, notice: Notice) -> None:
        """Record an event on a JobSet; never waits."""
        regarding = ObjectReference(JOBSET_API_VERSION, "JobSet", jobset.namespace, jobset.name, jobset.uid)
        self._manager.recorder.record(event_of(regarding, notice))

    def recheck(self, concerned: Callable[[JobSet], bool]) -> None:
        """Reconcile these: something else that they depend on has changed."""
        for jobset in self.caches.jobsets.store.values():
            if concerned(jobset):
                self.controller.enqueue(jobset.key)

    def _recheck_in(self, namespaces: Collection[str]) -> None:
        for key in self.caches.jobsets.store.keys():  # noqa: SIM118 - a store is not a mapping
            if key[0] in namespaces:
                self._enqueue(key, 0.0)

    async def synced(self) -> None:
        """Wait until the webhooks can answer from memory."""
        await self.discovery.settled.wait()

    async def known(self) -> None:
        """Wait until gangs can be reconciled.

        A cluster may lack JobSets, and the set of informers may change: neither is waited for.
        """
        await self.synced()
        # minCounts follow the progress of Jobs.
        await self.caches.informers["jobs"].synced.wait()

    async def _lead(self) -> None:
        await self.known()
        # Every JobSet: the replica that led before may have stopped between two writes.
        await in_parts(self.caches.jobsets.store.keys(), self.controller.enqueue)
        try:
            await self.controller.run()
        finally:
            self._reporter.forget_all()

    def _unready(self) -> str | None:
        # First, because discovery finishes when what it has discovered is synced.
        if missing := self.caches.unsynced():
            return f"waiting for {', '.join(missing)}"
        return None if self.discovery.settled.is_set() else "discovery has not finished"

    def _enqueue(self, key: Key, seconds: float | None) -> None:
        if seconds is not None:
            self.controller.enqueue(key, seconds)
        for follow in self.followers:
            follow(key)

    async def _on_generation(self, state: ApiState) -> None:
        # Before the caches: these wait for lists, and the registration of webhooks need not.
        for call in self.on_state:
            call(state)
        # Whether policies are served does not change the objects.
        if self.discovery.settled.is_set() and (state.generation, state.composite) == self._followed:
            return
        self._followed = state.generation, state.composite
        await self.caches.follow(state.generation, composite=state.composite)
        self._manager.metrics.track_informers(*self.caches.informers.values())
