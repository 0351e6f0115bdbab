"""Caches of cluster state: JobSets with their Jobs, and the scheduling objects of the served generation.

Every replica keeps these caches, because the webhooks answer from them; the leader also reconciles from them. Workloads
and PodGroups are dropped and read again when the cluster starts to serve another generation. Of each object a few
fields are kept, because there are many objects. Pods are not among them: gangs need only their Jobs, and only the
leader follows pods, for readiness.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import structlog

from gangctl.api.jobset import JobSet
from gangctl.api.meta import JOBSET_NAME
from gangctl.api.objects import Key
from gangctl.api.scheduling import Generation, Observed
from gangctl.api.scheduling_versions import ADAPTERS
from gangctl.api.store import Store
from gangctl.client.client import Client, Selection
from gangctl.client.resources import JOBS, JOBSETS, Resource
from gangctl.cluster import members
from gangctl.controllers.writer import Overlay, scheduling_resources
from gangctl.gang.desired import JobProgress, is_linked, with_own_restarts
from gangctl.gang.diff import Existing, Kind
from gangctl.gang.naming import without_uid
from gangctl.gang.plan import GangPlan
from gangctl.runtime.controller import AT_ONCE, computed, in_parts
from gangctl.runtime.informer import Informer, InformerObserver

Enqueue = Callable[[Key, float | None], None]
Observer = Callable[[Resource], InformerObserver]

PROGRESS_DELAY_SECONDS: Final = 0.25
"""Jobs report pods one by one; their JobSet is checked once for many of them."""

_log = structlog.get_logger(__name__)
# JobSet puts this label on each Job that it creates: the API server leaves out all other Jobs.
_CHILDREN: Final = Selection(label_selector=JOBSET_NAME)


class SchedulingCache:
    """Workloads and groups of one generation."""

    def __init__(
        self,
        client: Client,
        generation: Generation,
        composite: str,
        observer: Callable[[Resource], InformerObserver],
        on_lost: Callable[[], None],
    ) -> None:
        """Make the informers; :meth:`run` runs them. ``on_lost`` is called when the server no longer serves them."""
        self.generation = generation
        self.informers: dict[Kind, Informer[Observed]] = {}
        self._on_lost = on_lost
        self._lost = asyncio.Event()
        for kind, resource in scheduling_resources(generation, composite=composite).items():
            self.informers[kind] = Informer(
                client,
                resource,
                members.project_scheduling(ADAPTERS[generation], kind),
                store=members.scheduling_store(),
                on_absent=self._note_loss,
                observer=observer(resource),
            )

    async def settled(self) -> None:
        """Wait until both collections are synced, or the server turns out not to serve this generation."""
        tasks: list[asyncio.Task[bool]] = [asyncio.create_task(self._seen()), asyncio.create_task(self._lost.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _seen(self) -> bool:
        for informer in self.informers.values():
            await informer.synced.wait()
        return True

    def _note_loss(self) -> None:
        self._lost.set()
        self._on_lost()

    async def run(self) -> None:
        """Keep both collections current until cancelled."""
        async with asyncio.TaskGroup() as group:
            for informer in self.informers.values():
                group.create_task(informer.run())


class GangCaches:
    """The informers, and queries of them that include own writes whose watch events are still to come."""

    def __init__(
        self,
        client: Client,
        enqueue: Enqueue,
        clock: Callable[[], float],
        observer: Observer = lambda _: InformerObserver(),
        on_lost: Callable[[], None] = lambda: None,
    ) -> None:
        """``enqueue(key, seconds)`` asks for a reconcile of a JobSet after a delay.

        The delay is None for changes that no reconcile depends on, which readiness shows.
        ``on_lost`` is called when the server turns out not to serve the followed generation any more.
        """
        self._on_lost = on_lost
        self._client = client
        self._enqueue = enqueue
        self._observer = observer
        self.overlay = Overlay(clock)
        self.absent = False
        """The cluster does not serve JobSets."""
        self.reading = False
        """The scheduling objects are being listed: what a store lacks may exist."""
        self.jobsets: Informer[JobSet] = Informer(
            client, JOBSETS, members.project_jobset, on_absent=self._on_absent, observer=observer(JOBSETS)
        )
        self._jobs: Informer[JobProgress] = Informer(
            client,
            JOBS,
            members.project_job,
            store=members.job_store(),
            selection=_CHILDREN,
            observer=observer(JOBS),
        )
        self._scheduling: SchedulingCache | None = None
        self._task: asyncio.Task[None] | None = None
        self._broken: asyncio.Queue[BaseException] = asyncio.Queue()
        self.jobsets.subscribe(self._on_jobset)
        self._jobs.subscribe(self._on_job)

    @property
    def informers(self) -> dict[str, Informer[Any]]:
        """Every informer by the plural name of its resource."""
        informers: dict[str, Informer[Any]] = {"jobsets": self.jobsets, "jobs": self._jobs}
        if self._scheduling is not None:
            informers |= {i.resource.plural: i for i in self._scheduling.informers.values()}
        return informers

    def unsynced(self) -> list[str]:
        """Names of informers that are not synced yet; a cluster without JobSets is complete without them."""
        return [
            name
            for name, informer in self.informers.items()
            if not informer.synced.is_set() and not (name == "jobsets" and self.absent)
        ]

    async def run(self) -> None:
        """Keep JobSets and Jobs current until cancelled; raises what ends an informer of a followed generation, too."""
        try:
            async with asyncio.TaskGroup() as group:
                for informer in (self.jobsets, self._jobs):
                    group.create_task(informer.run())
                group.create_task(self._until_broken())
        finally:
            await self._stop_scheduling()

    async def _until_broken(self) -> None:
        # Without these informers gangs would be computed from what was true once: the process has to start again.
        raise await self._broken.get()

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._broken.put_nowait(error)

    async def follow(self, generation: Generation | None, *, composite: str = "") -> None:
        """Mirror Workloads and groups of ``generation`` and forget any others; returns once they are synced.

        ``composite`` is the version of CompositePodGroups, empty if there are none.
        """
        self.reading = True
        await self._stop_scheduling()
        self.overlay.clear()
        if generation is not None:
            cache = SchedulingCache(self._client, generation, composite, self._observer, self._on_lost)
            for kind, informer in cache.informers.items():
                informer.subscribe(self._on_scheduling(kind))
            self._scheduling = cache
            # A task of its own: these informers end with the generation, those of JobSets and Jobs do not.
            self._task = asyncio.create_task(cache.run(), name=f"scheduling-{generation}")
            self._task.add_done_callback(self._ended)
            await cache.settled()
        self.reading = False
        # What each JobSet needs depends on the generation, and no event of its own follows when that changes.
        await in_parts(self.jobsets.store.keys(), lambda key: self._enqueue(key, 0.0))

    async def _stop_scheduling(self) -> None:
        task, cache = self._task, self._scheduling
        # Before the wait: nothing may be answered from a cache that is not kept current any more.
        self._task = self._scheduling = None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if cache is not None:
            # Metrics still have them, where a synced informer without contact is one whose watch hangs.
            for informer in cache.informers.values():
                informer.forget()

    def jobset(self, key: Key) -> JobSet | None:
        """A JobSet as last seen."""
        return self.jobsets.store.get(*key)

    def restarted_jobset(self, key: Key) -> JobSet | None:
        """The same with the restarts of its Jobs, as a plan needs it: this takes longer with many Jobs."""
        jobset = self.jobset(key)
        return with_own_restarts(jobset, self.jobs(key)) if jobset is not None else None

    def jobs(self, key: Key) -> list[JobProgress]:
        """Child Jobs of a JobSet of this name."""
        return self._jobs.store.by_index("jobset", key)

    def job(self, namespace: str, name: str) -> JobProgress | None:
        """A JobSet's child Job."""
        return self._jobs.store.get(namespace, name)

    def scheduling(self, kind: Kind, namespace: str, name: str) -> Observed | None:
        """A Workload or group, own writes included, with any owner."""
        return self.overlay.view(kind, namespace, name, self._store(kind).get(namespace, name))

    def groups_of(self, namespace: str, uid: str, names: Sequence[str]) -> dict[str, Observed]:
        """PodGroups under these names, and all others that the JobSet with this UID controls."""
        return self._found("PodGroup", namespace, [*names, *self._owned("PodGroup", uid)(names)])

    async def existing(self, plan: GangPlan) -> Existing:
        """What exists for the JobSet of a plan; long lookups yield to the event loop."""
        namespace, names = plan.jobset.namespace, [group.name for group in plan.groups]
        names += await computed(len(names), self._owned("PodGroup", plan.uid), names)
        groups = self._found("PodGroup", namespace, names[:AT_ONCE])
        for begin in range(AT_ONCE, len(names), AT_ONCE):
            await asyncio.sleep(0)
            groups |= self._found("PodGroup", namespace, names[begin : begin + AT_ONCE])
        parents = [plan.composite.name] if plan.composite is not None else []
        parents += self._owned("CompositePodGroup", plan.uid)(parents)
        composites = self._found("CompositePodGroup", namespace, parents)
        workload = self.scheduling("Workload", namespace, plan.workload.name)
        return Existing(workload, groups, composites, tuple(self._orphans(plan)))

    def _orphans(self, plan: GangPlan) -> Iterator[tuple[Kind, Observed]]:
        """What gangctl made for a JobSet of this name and nothing controls now, a Workload after its groups.

        Without those of Kubernetes 1.35: a group is kept by the API server while pods name it, and a Workload is not.
        """
        if self._scheduling is None or not self._scheduling.generation.capabilities.pod_groups:
            return
        namespace, workloads = plan.jobset.namespace, without_uid(plan.workload.name)
        # Groups by the name of their Workload, which may be gone: the garbage collector takes one owner reference after
        # the other, and each kind has a watch of its own.
        places: tuple[tuple[Kind, str, str], ...] = (
            ("CompositePodGroup", "orphaned_groups", workloads),
            ("PodGroup", "orphaned_groups", workloads),
            ("Workload", "orphans", plan.jobset.name),
        )
        for kind, index, of in places:
            for _, name in self._store(kind).keys_by_index(index, (namespace, of)):
                # Read through the overlay: the index is of the cache, which may not show gangctl's own delete yet.
                observed = self.scheduling(kind, namespace, name)
                if observed is not None and observed.orphan_of and not observed.deleting:
                    yield kind, observed

    def _owned(self, kind: Kind, uid: str) -> Callable[[Sequence[str]], list[str]]:
        """A function that returns the names of the groups that a JobSet controls now, except the known ones."""
        # Copied here, in the event loop: for a large JobSet, ``others`` runs in a thread.
        seen, written = self._store(kind).keys_by_index("owner", uid), self.overlay.written(kind)

        def others(known: Sequence[str]) -> list[str]:
            owned = {name for _, name in seen}
            owned.update(o.name for o in written if o.owner_uid == uid)
            return sorted(owned.difference(known))

        return others

    def _found(self, kind: Kind, namespace: str, names: Sequence[str]) -> dict[str, Observed]:
        observations = ((name, self.scheduling(kind, namespace, name)) for name in names)
        return {name: observed for name, observed in observations if observed is not None}

    def claimed(self, namespace: str, jobset: str) -> str | None:
        """Name of a Workload that another controller made for this JobSet."""
        return members.claimed(self._store("Workload"), namespace, jobset)

    def _store(self, kind: Kind) -> Store[Observed]:
        informer = self._scheduling.informers.get(kind) if self._scheduling is not None else None
        # An empty one has the same indexes: callers need not know which kinds a generation has.
        return informer.store if informer is not None else members.scheduling_store()

    def _on_absent(self) -> None:
        self.absent = True
        _log.warning("the cluster has no JobSets, gangctl waits for them", remedy="install JobSet 0.10 or later")

    def _on_jobset(self, old: JobSet | None, new: JobSet | None) -> None:
        self.absent = False
        # Also of a deleted JobSet, which the reporter has to forget.
        changed = new or old
        if changed is not None:
            self._enqueue(changed.key, 0.0)

    def _on_job(self, old: JobProgress | None, new: JobProgress | None) -> None:
        # A new Job needs no reconcile: its group is planned from the JobSet. If it names another group, that is noticed
        # when its pods are counted first.
        if old is not None and (new is None or changes_objects(old, new) or not self._names_its_group(new)):
            self._enqueue((old.namespace, old.jobset), PROGRESS_DELAY_SECONDS)

    def _names_its_group(self, job: JobProgress) -> bool:
        jobset, cache = self.jobset((job.namespace, job.jobset)), self._scheduling
        return jobset is not None and cache is not None and is_linked(jobset, job, cache.generation)

    def _on_scheduling(self, kind: Kind) -> Callable[[Observed | None, Observed | None], None]:
        def on_change(old: Observed | None, new: Observed | None) -> None:
            # Before the overlay drops its entry: the event that shows gangctl's own write is no change.
            known = self.overlay.view(kind, new.namespace, new.name, old) if new is not None else old
            self.overlay.observed_change(kind, old, new)
            # gangctl's own write may have shown first that the gang has started: nothing was decided by that yet.
            started = new is not None and _has_started(new) and not (old is not None and _has_started(old))
            delay = None if same_object(known, new) and not started else 0.0
            # Of both: an object that loses its owner reference concerns the JobSet that it belonged to.
            for namespace, jobset in {key: None for observed in (old, new) for key in _concerned(observed)}:
                self._enqueue((namespace, jobset), delay)

        return on_change


def changes_objects(old: JobProgress, new: JobProgress) -> bool:
    """Whether a gang's objects depend on this change of a Job. They do not on its first pods, only on their end."""
    begins = new.active and not new.failed and replace(old, active=True) == new
    return not begins


def same_object(known: Observed | None, new: Observed | None) -> bool:
    """Whether a watch shows an object as gangctl knows it, from an event or its own write.

    Of the scheduler's condition only its status counts: a gang that has started gets the groups of its next attempt.
    """
    if known is None or new is None or _has_started(known) is not _has_started(new):
        return False
    return replace(known, resource_version=new.resource_version, scheduled=new.scheduled) == new


def _has_started(observed: Observed) -> bool:
    return observed.scheduled is not None and observed.scheduled.status


def _concerned(observed: Observed | None) -> list[Key]:
    """The JobSets that an object belongs to, or claims to."""
    if observed is None:
        return []
    return [(observed.namespace, name) for name in (observed.owner_jobset, observed.claims_jobset) if name]
