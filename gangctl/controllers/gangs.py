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

import random
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from gangctl.api.jobset import JobSet
from gangctl.api.meta import JOBSET_NAME
from gangctl.api.objects import Key
from gangctl.api.scheduling import ApiState, Generation
from gangctl.client.client import Client, Selection
from gangctl.client.resources import PODS
from gangctl.controllers.caches import GangCaches
from gangctl.controllers.reporter import GangReporter
from gangctl.controllers.writer import Writer
from gangctl.errors import ApiError, OwnershipConflictError, is_transient
from gangctl.gang.desired import Assessment, Desired, JobProgress, Lifecycle, assess, desire
from gangctl.gang.diff import Change, Difference, Existing, diff, ending, retire
from gangctl.gang.plan import GangPlan
from gangctl.gang.resolve import ClusterRules
from gangctl.runtime.controller import Action, await_change, computed, requeue

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

        ``suspended`` returns which objects a suspended JobSet keeps, which depends on what will resume it.
        """
        self.state = state
        self._rules = rules
        self._suspended = suspended
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
        return jobset, self.rules(), self._suspended(jobset) if jobset.suspend else Lifecycle.RETIRED

    def _known(self, inputs: _Inputs) -> Assessment | None:
        known = self._kept.get(inputs[0].key)
        return known[1] if known is not None and known[0] == inputs else None

    def _keep(self, inputs: _Inputs, assessment: Assessment) -> Assessment:
        jobset = inputs[0]
        self._kept.pop(jobset.key, None)
        if jobset.jobs <= LARGEST_KEPT:
            self._kept[jobset.key] = inputs, assessment
        if len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)
        return assessment


_log = structlog.get_logger(__name__)

_UNFINISHED: Final = "status.phase!=Succeeded,status.phase!=Failed"


class PodReader:
    """Reads the pods of one JobSet from the API server, in the few cases in which a decision depends on them.

    The watch of pods is for readiness alone, and may be switched off.
    """

    def __init__(self, client: Client) -> None:
        """Ask through ``client``."""
        self._client = client

    async def any_unfinished(self, jobset: JobSet) -> bool:
        """Whether any pod of the JobSet has not finished; one that terminates still counts."""
        selection = Selection(f"{JOBSET_NAME}={jobset.name}", _UNFINISHED)
        async for page in self._client.pages(PODS, jobset.namespace, selection=selection, limit=1):
            return bool(page.items)
        return False


CONFLICT_RETRY_SECONDS: Final = 30.0
TERMINATING_RETRY_SECONDS: Final = 5.0
PODS_RETRY_SECONDS: Final = 1.0
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
        randomness: Callable[[], float] = random.random,
    ) -> None:
        """Compose; ``writer`` makes one for a generation."""
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
            return self._resync() if desired.assessment.unstamped else await_change()
        existing = await self._caches.existing(desired.plan)
        match desired.assessment.lifecycle:
            case Lifecycle.RETIRED:
                return await self._retire(observed, desired.plan, existing, generation)
            case Lifecycle.ENDING:
                changes = await computed(jobset.jobs, ending, desired, existing, generation.capabilities)
                await self._apply(jobset, desired.plan, Difference(changes), generation)
                return self._resync()
            case Lifecycle.KEPT if existing.workload is None:
                return await_change()
        return await self._present(observed, desired, desired.plan, existing, generation)

    def _observe(self, key: Key) -> _Observed | None:
        jobset = self._caches.jobset(key)
        if jobset is None:
            return None
        state = self._assessments.state()
        return _Observed(jobset, self._caches.jobs(key), state, self._caches.claimed(*key))

    async def _present(
        self, observed: _Observed, desired: Desired, plan: GangPlan, existing: Existing, generation: Generation
    ) -> Action:
        jobset = observed.jobset
        difference = await computed(jobset.jobs, diff, desired, existing, generation.capabilities)
        interrupted = self._reporter.interrupted(jobset, existed=existing.workload is not None)
        if not await self._apply(jobset, plan, difference, generation, interrupted=interrupted):
            return requeue(CONFLICT_RETRY_SECONDS)
        self._reporter.present(jobset, plan, difference, generation, interrupted=interrupted)
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
        if any(job.active for job in observed.jobs if job.jobset_uid == plan.uid):
            return self._resync()
        # It may have been resumed while its pods were read.
        if await self._pods.any_unfinished(jobset) or self._caches.jobset(jobset.key) != jobset:
            return requeue(PODS_RETRY_SECONDS)
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
    ) -> bool:
        """Write, and report what was written; False when another owner has one of the names."""
        changes, done = difference.changes, list[Change]()
        try:
            await self._writer(generation).carry_out(changes, done)
        except OwnershipConflictError as conflict:
            self._reporter.rejected(jobset, plan, conflict)
            return False
        except ApiError as error:
            if error.namespace_terminating:
                return True
            self._reporter.failed(jobset, plan, error, done, generation)
            raise
        prepared: list[Change] = []
        try:
            await self._writer(generation).carry_out(difference.spares, prepared)
        except (ApiError, OwnershipConflictError) as error:
            if is_transient(error):
                raise
            # No failure, as by a quota: the gang runs, and a resync tries again.
            _log.info("groups of the next attempt were refused", jobset="/".join(jobset.key), error=str(error))
        finally:
            self._reporter.applied(jobset, plan, changes, generation, interrupted=interrupted, prepared=bool(prepared))
        return True
