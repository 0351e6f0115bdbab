"""Makes a JobSet of each PathwaysJob, once, and reports the JobSet's state in the PathwaysJob's status, and in metrics.

It never changes or deletes an existing JobSet: that is deleted with the PathwaysJob that owns it. While the upstream
controller leads, gangctl writes and records nothing; it takes over upstream's JobSets unchanged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from typing import Any, Final

import structlog
from prometheus_client import CollectorRegistry, Gauge

from gangctl.api.objects import Key, controller_owner
from gangctl.client.pacing import Clock
from gangctl.client.resources import JOBSETS, LEASES
from gangctl.controllers.gangs import ReplicaGangs
from gangctl.controllers.pathways.plan import (
    PATHWAYS_JOBS,
    CreateJobSet,
    PathwaysCopy,
    ReportStatus,
    Skip,
    created,
    obstacle,
    plan,
    project_jobset,
    project_pathways_job,
)
from gangctl.controllers.pathways.upstream import HeadNodes, Upstream
from gangctl.controllers.reporter import event_of
from gangctl.errors import AlreadyExistsError, ApiError, ConflictError, NotFoundError
from gangctl.gang.reasons import Notice, Reason
from gangctl.pathways.draft import Draft, check_head, draft
from gangctl.pathways.options import PathwaysOptions
from gangctl.pathways.result import RenderingInputs, Without, setting_for
from gangctl.pathways.status import (
    JobSetFacts,
    Obstacle,
    PathwaysFacts,
    PathwaysJobStatus,
    next_status,
    read_jobset_facts,
    read_pathways_facts,
)
from gangctl.pathways.status import notices as transitions
from gangctl.pathways.words import API_VERSION, KIND
from gangctl.runtime.controller import Action, await_change, requeue, retry
from gangctl.runtime.election import unwrapped_leadership_loss
from gangctl.runtime.events import ObjectReference
from gangctl.runtime.families import Family, PlacedGauge
from gangctl.runtime.informer import Informer
from gangctl.runtime.manager import Manager

MOST_NAMESPACES: Final = 200
"""Namespaces with labels of their own; the rest is counted together."""
NEW: Final = "new"
"""The phase of those without a recorded status."""


class PathwaysMetrics:
    """The collectors, in one registry; the controller of PathwaysJobs updates them."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register every family at once."""
        jobs = Family(
            "gangctl_pathways_jobs",
            "gauge",
            "PathwaysJobs by the phase in their status: pending, running, suspended, completed, failed, or new without "
            "one. Exported by the leader.",
            ("namespace", "phase"),
        )
        self._deferring = Gauge(
            "gangctl_pathways_deferring",
            "Whether gangctl leaves PathwaysJobs to the upstream controller, which holds its Lease: 1 or 0.",
            registry=registry,
        )
        self._jobs = PlacedGauge(registry, jobs, MOST_NAMESPACES)

    def on_status_change(self, before: PathwaysFacts | None, now: PathwaysFacts | None) -> None:
        """Count a PathwaysJob as it is stored: None before it was known, and after it is gone."""
        # Added first: a namespace must not become empty in between, and lose its place.
        for job, step in ((now, 1), (before, -1)):
            if job is not None:
                phase = job.status.phase
                self._jobs.add((job.namespace,), NEW if phase is None else phase.value.lower(), step=step)

    def set_deferring(self, *, deferring: bool) -> None:
        """Record whether the upstream controller leads."""
        self._deferring.set(deferring)

    def forget(self) -> None:
        """End every series: this replica no longer counts."""
        self._jobs.clear()
        self._deferring.set(0)


NAME: Final = "pathways"
WORKERS: Final = 8
CONFLICT_RETRY_SECONDS: Final = 30.0
"""How often a conflicting JobSet of another owner is checked, besides on every change of it."""
_INTERNAL_ERROR: Final = 500
"""An API server returns this, among others, when it cannot call a webhook: worth reporting to the user."""
GOING_RETRY_SECONDS: Final = 2.0
"""The same for the JobSet of an earlier PathwaysJob of this name: it is being deleted."""

_log = structlog.get_logger(__name__)


class PathwaysController:
    """Follows PathwaysJobs, their JobSets and the upstream controller while :meth:`run` runs: on the leader."""

    def __init__(
        self,
        manager: Manager,
        record: Callable[[PathwaysFacts, Notice], None],
        *,
        setting: Callable[[], RenderingInputs],
        options: PathwaysOptions,
        serves: Callable[[str], bool],
        metrics: PathwaysMetrics | None = None,
    ) -> None:
        """Do nothing yet.

        ``setting`` holds the cluster facts that renderings depend on, ``options`` are the defaults of PathwaysJobs.
        Where gangctl does not serve a namespace, PathwaysJobs without a JobSet are left alone.
        """
        self._serves = serves
        reader, share, observer = manager.reader, manager.share, manager.metrics.informer_observer
        self._reader = reader
        self._writer = manager.writer
        self._record_event = record
        self._setting = setting
        self._options = options
        self._metrics = metrics or PathwaysMetrics(manager.metrics.registry)
        self._clock = Clock()
        self._nodes = HeadNodes(reader, clock=self._clock)
        self._own: dict[Key, PathwaysCopy] = {}
        """Own writes of statuses that the informer has not shown yet."""
        self._ended: dict[str, JobSetFacts] = {}
        """JobSets that had finished before their deletion, by UID of the PathwaysJob: no check may happen in between.
        """
        self._sent: dict[Key, PathwaysJobStatus] = {}
        """The statuses that were last written."""
        self._conflicts: set[Key] = set()
        """PathwaysJobs whose name belongs to another JobSet."""
        self.upstream = Upstream(reader, self._upstream_changed, clock=self._clock, observer=observer(LEASES))
        self.jobs: Informer[PathwaysCopy] = Informer(
            reader,
            PATHWAYS_JOBS,
            share.within(project_pathways_job),
            on_absent=self._absent,
            on_synced=self.recheck_all,
            observer=observer(PATHWAYS_JOBS),
            clock=self._clock,
        )
        self.jobs.subscribe(self._job_changed)
        self.jobsets: Informer[JobSetFacts] = Informer(
            reader,
            JOBSETS,
            share.within(project_jobset),
            on_synced=self.recheck_all,
            observer=observer(JOBSETS),
            clock=self._clock,
        )
        self.jobsets.subscribe(self._jobset_changed)
        self._controller = manager.controller(NAME, self._reconcile, WORKERS, admits=share.admits)

    async def run(self) -> None:
        """Follow and write until cancelled, and then forget everything."""
        try:
            with unwrapped_leadership_loss():
                async with asyncio.TaskGroup() as group:
                    for informer in (self.jobs, self.jobsets):
                        group.create_task(informer.run(), name=f"pathways-{informer.resource.plural}")
                    group.create_task(self.upstream.run(), name="pathways-upstream")
                    group.create_task(self._controller.run(), name=NAME)
        finally:
            self.jobs.forget()
            self.jobsets.forget()
            for records in (self._own, self._ended, self._sent, self._conflicts):
                records.clear()
            self._metrics.forget()

    def jobset_changed(self, key: Key) -> None:
        """Handle a change of any JobSet, with any owner: a name may be free again."""
        if key in self._conflicts:
            self._controller.enqueue(key)

    def recheck_all(self) -> None:
        """Handle a change that all PathwaysJobs depend on."""
        for key in self.jobs.store.keys():  # noqa: SIM118 - a store is not a mapping
            self._controller.enqueue(key)

    def recheck_in(self, namespaces: Collection[str]) -> None:
        """Handle namespaces that gangctl has begun or ceased to serve."""
        for key in self.jobs.store.keys():  # noqa: SIM118 - a store is not a mapping
            if key[0] in namespaces:
                self._controller.enqueue(key)

    def _absent(self) -> None:
        _log.warning(
            "no PathwaysJobs: the cluster does not have their definition",
            hint="kubectl apply -k manifests/pathways/crds",
        )

    def _upstream_changed(self) -> None:
        self._metrics.set_deferring(deferring=self.upstream.leads)
        if not self.upstream.leads:
            self.recheck_all()

    def _job_changed(self, old: PathwaysCopy | None, new: PathwaysCopy | None) -> None:
        self._metrics.on_status_change(old.facts if old is not None else None, new.facts if new is not None else None)
        copy = new or old
        if copy is None:
            return
        key = copy.facts.key
        own = self._own.get(key)
        if own is not None and (new is None or own.facts.uid != new.facts.uid or own.order <= new.order):
            del self._own[key]
        if new is None:
            self._ended.pop(copy.facts.uid, None)
            self._sent.pop(key, None)
        elif old is not None and _same_but_status(old, new) and new.facts.status == self._sent.get(key):
            # Refused writes are retried with growing delays: the status update for one must not trigger a retry at
            # once.
            return
        self._controller.enqueue(key)

    def _jobset_changed(self, old: JobSetFacts | None, new: JobSetFacts | None) -> None:
        for one in (old, new):
            if one is not None:
                self._controller.enqueue(one.key)
        if new is None and old is not None and old.end is not None:
            copy = self.jobs.store.get(*old.key)
            # A PathwaysJob that is gone before its JobSet would have an entry that nothing removes.
            if not self.jobs.synced.is_set() or (copy is not None and copy.facts.uid == old.owner):
                self._ended[old.owner] = old

    @property
    def _may_write(self) -> bool:
        """Whether all inputs of a decision are known, and upstream does not lead; a change rechecks everything."""
        return self.jobs.synced.is_set() and self.jobsets.synced.is_set() and self.upstream.absent

    def _current(self, key: Key) -> PathwaysCopy | None:
        """The PathwaysJob as cached, or as our last write left it if that is newer."""
        cached = self.jobs.store.get(*key)
        return None if cached is None else self._own.get(key) or cached

    async def _reconcile(self, key: Key) -> Action:
        copy, jobset = self._observe(key)
        if copy is None or not self._may_write:
            return await_change()
        if jobset is None and not self._serves(key[0]):
            return await_change()
        made: list[Draft | Obstacle] = []

        def drafted() -> Draft | Obstacle:
            if not made:
                made.append(draft(copy.raw, self._options, self._setting()))
            return made[0]

        try:
            match plan(copy.facts, jobset, drafted):
                case Skip():
                    return await_change()
                case ReportStatus(found, notices):
                    await self._conclude(copy, found, notices)
                    return await_change()
                case CreateJobSet(prepared, notices):
                    return await self._create(copy, prepared, notices)
        except (ConflictError, NotFoundError):
            # Another client wrote first, and the informer has not shown it yet.
            self._own.pop(key, None)
            return retry()

    def _observe(self, key: Key) -> tuple[PathwaysCopy | None, JobSetFacts | None]:
        """The PathwaysJob, and the JobSet that it owns, or owned until it had finished and was deleted."""
        copy, jobset = self._current(key), self.jobsets.store.get(*key)
        # Noted again below where the name is still taken.
        self._conflicts.discard(key)
        if copy is not None and (jobset is None or jobset.owner != copy.facts.uid):
            jobset = self._ended.get(copy.facts.uid)
        return copy, jobset

    async def _create(self, copy: PathwaysCopy, made: Draft, events: tuple[Notice, ...]) -> Action:
        """Create the JobSet, unless the API server has an obstacle that the informers do not show yet."""
        facts = copy.facts
        if not await self._still_wanted(facts):
            # Wait for the informer as well: this answer may be the stale one.
            return retry()
        outcome = await self._existing(facts) or await self._made(facts, made, events)
        if outcome is None:
            return retry()
        if isinstance(outcome, Obstacle):
            await self._conclude(copy, outcome)
            if outcome.reason != Reason.NAME_CONFLICT:
                return retry()
            self._conflicts.add(facts.key)
            return requeue(CONFLICT_RETRY_SECONDS)
        if outcome.owner != facts.uid:
            return requeue(GOING_RETRY_SECONDS)
        await self._conclude(copy, outcome, created(outcome, made))
        return await_change()

    async def _still_wanted(self, facts: PathwaysFacts) -> bool:
        """Whether the PathwaysJob is as observed: it may be deleted, or another replica may have recorded its end."""
        try:
            raw = await self._reader.get(PATHWAYS_JOBS, facts.name, facts.namespace)
        except NotFoundError:
            return False
        live = read_pathways_facts(raw)
        same = (live.uid, live.generation) == (facts.uid, facts.generation)
        return same and not live.deleting and live.status.end is None

    async def _existing(self, facts: PathwaysFacts) -> JobSetFacts | Obstacle | None:
        """The JobSet of this name, an obstacle if another owner has it; None only if the API server has none."""
        try:
            raw = await self._reader.get(JOBSETS, facts.name, facts.namespace)
        except NotFoundError:
            return None
        jobset = read_jobset_facts(raw)
        owner = controller_owner(raw["metadata"]) or {}
        if jobset.owner == facts.uid or (jobset.owner and owner.get("name") == facts.name):
            return jobset
        return Obstacle(
            Reason.NAME_CONFLICT.value,
            f"JobSet {facts.namespace}/{facts.name} exists and is not owned by this PathwaysJob: it is left alone. "
            "Delete it, or give the PathwaysJob another name",
        )

    async def _made(
        self, facts: PathwaysFacts, made: Draft, events: tuple[Notice, ...]
    ) -> JobSetFacts | Obstacle | None:
        """The JobSet that exists now, or why there is none; None if the error is not about this PathwaysJob."""
        # Checked again: upstream's controller may have begun to lead during the requests before.
        if not self.upstream.absent:
            return None
        self._report(facts, events)
        try:
            raw = await self._writer.create(JOBSETS, made.body(), facts.namespace)
        except AlreadyExistsError:
            # Ours, from a request without an answer, or another owner's.
            return await self._existing(facts)
        except ApiError as error:
            if error.namespace_terminating:
                return None
            if (refusal := obstacle(error)) is not None:
                return refusal
            if error.status == _INTERNAL_ERROR:
                self._report(facts, (Notice(Reason.JOBSET_CREATE_FAILED, error.message),))
            raise
        # Only now, because the creation must not wait until thousands of nodes are read.
        if (notice := await self._check_head(made)) is not None:
            self._report(facts, (notice,))
        return read_jobset_facts(raw)

    async def _check_head(self, made: Draft) -> Notice | None:
        head = made.rendering.jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
        return check_head(made.rendering, await self._nodes.of(head))

    async def _conclude(
        self, copy: PathwaysCopy, found: JobSetFacts | Obstacle, events: tuple[Notice, ...] = ()
    ) -> None:
        """Write the findings to the status and record what is new in them; an unchanged status is not written."""
        facts = copy.facts
        now = self._clock.wall().isoformat(timespec="seconds").replace("+00:00", "Z")
        status = next_status(facts, found, now)
        if not self.upstream.absent:
            return
        # First, so that they are recorded even if the write fails.
        self._report(facts, (*events, *transitions(facts.status, status, found)))
        if status == facts.status:
            return
        patch: dict[str, Any] = {"metadata": {"resourceVersion": copy.version}, "status": status.as_json()}
        # Before the write: its watch event may come before the response.
        self._sent[facts.key] = status
        raw = await self._writer.merge_patch(PATHWAYS_JOBS, facts.name, patch, facts.namespace, subresource="status")
        own = project_pathways_job(raw)
        cached = self.jobs.store.get(*facts.key)
        # The watch event may have arrived before the response.
        if cached is not None and cached.order < own.order:
            self._own[facts.key] = own

    def _report(self, facts: PathwaysFacts, events: Iterable[Notice]) -> None:
        for notice in events:
            self._record_event(facts, notice)


def _same_but_status(old: PathwaysCopy, new: PathwaysCopy) -> bool:
    return (old.raw, old.facts.deleting) == (new.raw, new.facts.deleting)


def setup(
    manager: Manager, gangs: ReplicaGangs, options: PathwaysOptions, *, fail_open: bool = False
) -> PathwaysController:
    """Have the leader follow PathwaysJobs; with ``fail_open`` none waits for a gang that cannot be made."""

    def record(job: PathwaysFacts, notice: Notice) -> None:
        regarding = ObjectReference(API_VERSION, KIND, job.namespace, job.name, job.uid)
        manager.recorder.record(event_of(regarding, notice))

    def setting() -> RenderingInputs:
        state = gangs.state
        if state.generation is not None:
            return setting_for(gangs.rules(state.generation))
        # As the webhook refuses JobSets. A gang that the user did not ask for is left out only where the cluster has no
        # gangs at all: there exclusive placement is the best choice.
        unasked = Without.UNASKED if state.unserved else Without.NONE
        without = Without.ALL if fail_open else unasked
        return RenderingInputs(gangs=False, topology=False, reason=state.reason, without=without)

    async def lead() -> None:
        # Rendering depends on whether there are gangs.
        await gangs.synced()
        await controller.run()

    controller = PathwaysController(manager, record, setting=setting, options=options, serves=gangs.namespaces.serves)
    gangs.namespaces.on_change.append(controller.recheck_in)
    gangs.followers.append(controller.jobset_changed)
    gangs.on_state.append(lambda _: controller.recheck_all())
    # The informer of all JobSets is exported, which every replica has.
    manager.metrics.track_informers(controller.jobs, controller.upstream.informer)
    manager.leading[NAME] = lead
    return controller
