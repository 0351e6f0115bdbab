"""The gang controller: makes the Workload and PodGroups of one JobSet what its stamps say.

Level-triggered: every call reads what is there now and does what is missing, so that a
crash after any single write is mended by the next call. It never writes to JobSets,
Jobs or pods, and never touches an object that it does not control.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

from gangctl.api.jobset import JobSet
from gangctl.api.scheduling import Generation
from gangctl.controllers.announce import announce, created, obstacles
from gangctl.controllers.caches import GangCaches
from gangctl.controllers.pods import PodReader
from gangctl.controllers.translations import TranslationObserver, repairs, result_of
from gangctl.controllers.writer import Writer
from gangctl.errors import ApiError, OwnershipConflictError
from gangctl.gang.assess import Assessment, Lifecycle, assess
from gangctl.gang.diff import Change, Create, Delete, Difference, Existing, diff, retire
from gangctl.gang.generation import ApiState
from gangctl.gang.outsiders import find_outsiders, tell, without
from gangctl.gang.plan import GangPlan
from gangctl.gang.progress import JobProgress, pods_left, target_min_counts
from gangctl.gang.reasons import Notice, Reason
from gangctl.gang.report import level_of
from gangctl.gang.resolve import ClusterRules
from gangctl.runtime.controller import Action, await_change, requeue

CONFLICT_RETRY_SECONDS: Final = 30.0
TERMINATING_RETRY_SECONDS: Final = 5.0
PODS_RETRY_SECONDS: Final = 1.0
NEW: Final = timedelta(minutes=2)
"""Younger JobSets get the events of their creation again after a restart of gangctl, in case they died with it."""

Key = tuple[str, str]


class Announcer(Protocol):
    """Records events on JobSets; never blocks."""

    def __call__(self, jobset: JobSet, notice: Notice) -> None:
        """Record one event."""
        ...


class GangController:
    """``reconcile(key) -> Action`` for JobSets, over caches, pods, a writer and an announcer."""

    def __init__(
        self,
        caches: GangCaches,
        writer: Callable[[Generation], Writer],
        pods: PodReader,
        say: Announcer,
        *,
        state: Callable[[], ApiState],
        rules: Callable[[Generation], ClusterRules],
        suspended: Callable[[JobSet], Lifecycle] = lambda _: Lifecycle.RETIRED,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        observer: TranslationObserver | None = None,
    ) -> None:
        """Compose; ``state`` is what discovery last found, ``writer`` makes one for a generation.

        ``suspended`` says what should exist for a JobSet while it is suspended, which depends on who starts it again.
        """
        self._caches = caches
        self._writer = writer
        self._pods = pods
        self._say = say
        self._state = state
        self._rules = rules
        self._suspended = suspended
        self._now = now
        self._observer = observer or TranslationObserver()
        self._told: dict[Key, str] = {}
        """UIDs of the JobSets whose creation this process has told."""
        self._complete: dict[Key, tuple[str, int]] = {}
        """UID and attempt of the JobSets that have had all their objects: what is missing of these has gone."""

    async def reconcile(self, key: Key) -> Action:
        """Bring one JobSet's objects up to date."""
        jobset = self._caches.jobset(key)
        if jobset is None:
            self._told.pop(key, None)
            self._complete.pop(key, None)
            return await_change()
        state = self._state()
        rules = self._rules(state.generation or ClusterRules().generation)
        assessment = assess(jobset, rules, self._suspended(jobset))
        if assessment.lifecycle is Lifecycle.UNTOUCHED:
            return await_change()
        if state.generation is None:
            if not jobset.finished and (assessment.plan is not None or assessment.unstamped):
                self._say(jobset, Notice(Reason.API_UNAVAILABLE, f"No gang can be made: {state.reason}."))
            return await_change()
        self._announce_assessment(jobset, assessment)
        if assessment.plan is None:
            return await_change()
        jobs = self._jobs(jobset, assessment.plan)
        outsiders = find_outsiders(assessment.plan, jobs, state.generation)
        for notice in () if jobset.finished else tell(outsiders, state.generation):
            self._say(jobset, notice)
        if assessment.lifecycle is Lifecycle.RETIRED:
            return await self._retire(jobset, assessment.plan, state.generation)
        if assessment.lifecycle is Lifecycle.KEPT:
            return await_change()
        return await self._present(jobset, without(assessment.plan, outsiders), state.generation)

    def _announce_assessment(self, jobset: JobSet, assessment: Assessment) -> None:
        notices = list(assessment.notices)
        foreign = self._caches.claimed(*jobset.key)
        if foreign and (assessment.unstamped or assessment.plan is not None):
            outcome = "gangctl leaves this JobSet to it" if assessment.unstamped else "gangctl's own objects stand"
            notices.append(Notice(Reason.FOREIGN_WORKLOAD, f"Workload {foreign} is for this JobSet: {outcome}."))
        elif assessment.unstamped:
            message = (
                "Runs without a gang: gangctl's webhook was not asked when this JobSet was created. Create it again "
                "while gangctl runs."
            )
            notices.append(Notice(Reason.NOT_GANGED, message))
        # What was decided when the JobSet was created is told once, that it has no gang as long as it lives.
        if notices and (assessment.unstamped or self._is_new(jobset)):
            for notice in notices:
                self._say(jobset, notice)

    def _untold(self, jobset: JobSet) -> bool:
        """Whether a process before this one may have died between creating the gang and telling so."""
        if self._told.get(jobset.key) == jobset.uid:
            return False
        self._told[jobset.key] = jobset.uid
        return self._is_new(jobset)

    def _is_complete(self, jobset: JobSet) -> bool:
        return self._complete.get(jobset.key) == (jobset.uid, jobset.restarts)

    def _mended(self, jobset: JobSet, difference: Difference) -> None:
        """Tell what was not as it should be, and keep whether everything is there now."""
        for kind, field_class in repairs(difference.changes, before=self._is_complete(jobset)):
            self._observer.repaired(kind, field_class)
        # A Workload that was deleted for its templates comes back, which is the same repair.
        if difference.conflicts or any(isinstance(c, Delete) and not c.progress for c in difference.changes):
            self._complete.pop(jobset.key, None)
        else:
            self._complete[jobset.key] = (jobset.uid, jobset.restarts)

    def _is_new(self, jobset: JobSet) -> bool:
        try:
            created = datetime.fromisoformat(jobset.created)
        except ValueError:
            return True
        return self._now() - created < NEW

    def _existing(self, plan: GangPlan) -> Existing:
        names = [group.name for group in plan.groups]
        return Existing(
            self._caches.scheduling("Workload", plan.jobset.namespace, plan.workload.name),
            self._caches.groups_of(plan.jobset.namespace, plan.uid, names),
        )

    async def _retire(self, jobset: JobSet, plan: GangPlan, generation: Generation) -> Action:
        """Delete the objects once no pod is left that needs them."""
        changes = retire(plan.uid, self._existing(plan))
        if not changes or any(job.active for job in self._jobs(jobset, plan)):
            return await_change()
        # It may have been resumed while its pods were asked for.
        if await self._pods.any_unfinished(jobset) or self._caches.jobset(jobset.key) != jobset:
            return requeue(PODS_RETRY_SECONDS)
        self._complete.pop(jobset.key, None)
        await self._carry_out(jobset, plan, changes, generation)
        return await_change()

    def _jobs(self, jobset: JobSet, plan: GangPlan) -> list[JobProgress]:
        """The child Jobs of this very JobSet, not of an earlier one of its name."""
        return [job for job in self._caches.jobs(jobset.key) if job.jobset_uid == plan.uid]

    async def _present(self, jobset: JobSet, plan: GangPlan, generation: Generation) -> Action:
        jobs = self._jobs(jobset, plan)
        existing = self._existing(plan)
        difference = diff(plan, existing, target_min_counts(plan, jobs), generation.capabilities)
        interrupted = existing.workload is not None and self._untold(jobset)
        if not await self._carry_out(jobset, plan, difference.changes, generation, tell=not interrupted):
            return requeue(CONFLICT_RETRY_SECONDS)
        self._mended(jobset, difference)
        if interrupted and not difference.conflicts:
            self._say(jobset, created(plan, generation.capabilities))
        for notice in obstacles(difference, generation):
            self._say(jobset, notice)
        if not generation.capabilities.min_count_mutable:
            await self._warn_of_tail(jobset, plan, jobs)
        if existing.workload is not None and existing.workload.deleting:
            return requeue(TERMINATING_RETRY_SECONDS)
        return requeue(CONFLICT_RETRY_SECONDS) if difference.conflicts else await_change()

    async def _carry_out(
        self, jobset: JobSet, plan: GangPlan, changes: Sequence[Change], generation: Generation, *, tell: bool = True
    ) -> bool:
        """Write, and ``tell`` what was done; False when a name turned out to be somebody else's."""
        level, complete = level_of(plan), self._is_complete(jobset)
        if not changes:
            self._observer.translated(level, "unchanged")
            return True
        done: list[Change] = []
        try:
            await self._writer(generation).carry_out(changes, done)
        except OwnershipConflictError as conflict:
            self._observer.translated(level, "rejected")
            self._say(jobset, Notice(Reason.NAME_CONFLICT, f"{conflict}: gangctl never adopts it."))
            return False
        except ApiError as error:
            if error.namespace_terminating:
                return True
            self._observer.translated(level, "failed")
            self._say(jobset, Notice(Reason.FAILED_CREATE, f"The API server refused a write ({error.reason}): {error}"))
            # The next attempt finds these done and would keep silent; a creation is told when all of it is there.
            for notice in announce(plan, [change for change in done if not isinstance(change, Create)], generation):
                self._say(jobset, notice)
            raise
        self._observer.translated(level, result_of(changes, before=complete))
        self._told[jobset.key] = jobset.uid
        if jobset.restarts and not complete:
            # The groups of a restart are routine, and no news.
            changes = [each for each in changes if not (isinstance(each, Create) and each.again)]
        for notice in announce(plan, changes, generation) if tell else ():
            self._say(jobset, notice)
        return True

    async def _warn_of_tail(self, jobset: JobSet, plan: GangPlan, jobs: Sequence[JobProgress]) -> None:
        """Say that a replacement pod can never be scheduled where minCount cannot follow."""
        if not any(job.failed and job.active for job in jobs):
            return
        left = pods_left(plan, jobs)
        wanted = {group.name: group.template.min_count for group in plan.groups}
        short = {name for name, count in left.items() if 0 < count < wanted[name]}
        if not short:
            return
        group_of = {(j.replicated_job, j.index): j.reference.group for j in plan.jobs() if j.reference is not None}
        waiting = {group_of.get(job) for job in await self._pods.unscheduled(jobset)}
        for name in sorted(short & waiting):
            message = (
                f"A pod of gang {name} waits for ever: {wanted[name]} pods are required, and at most {left[name]} can "
                "still exist since others have finished. minCount is fixed before Kubernetes 1.37: restart the JobSet."
            )
            self._say(jobset, Notice(Reason.GANG_TAIL_BLOCKED, message))
