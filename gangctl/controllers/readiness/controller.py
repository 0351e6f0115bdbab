"""Computes the readiness of JobSets, only of those for which something has changed.

Informers mark keys; requeue timers decide when each is checked. A check reads the current state, calls a pure function
(:mod:`gangctl.readiness.evaluate`) and notifies observers of differences. They record them in metrics, events and
``Gang`` objects, so its texts contain times and no ages. The leader does it.

Changes of one key are checked together, and many changes do not starve other keys: a gang of a thousand pods starts in
a thousand steps, and after a change of leaders all gangs are new; the same event loop answers webhooks meanwhile.
Direct changes precede indirect ones: a queue that opens concerns ten thousand gangs, and a pod that fails meanwhile
one.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Final, Generic, TypeVar

import structlog

from gangctl.api.jobset import JobSet
from gangctl.api.objects import Key
from gangctl.client.pacing import Clock, Timer
from gangctl.controllers.caches import GangCaches
from gangctl.controllers.gangs import Assessments
from gangctl.controllers.queues.view import Affected, QueueView
from gangctl.controllers.readiness.sources import QueueStatuses, ReadinessSources
from gangctl.gang.desired import JobProgress
from gangctl.kueue.checks import of_jobset
from gangctl.kueue.objects import QueuedWorkload
from gangctl.readiness.facts import (
    Collections,
    EndedPod,
    NodeFacts,
    PodFacts,
    Refused,
    Snapshot,
    assemble,
)
from gangctl.readiness.result import GangPhase, Readiness
from gangctl.runtime.controller import in_parts
from gangctl.runtime.informer import Informer
from gangctl.runtime.shards import Share


class ReadinessObserver:
    """Notified of each change of a gang's readiness; the default ignores it.

    It is called in the event loop and must return at once. An exception is logged, and the other observers are still
    notified.
    """

    def leads(self) -> None:
        """This replica reports from now on: also what happened after this moment and is observed later."""

    def on_status_change(self, before: Readiness | None, now: Readiness | None) -> None:
        """Handle a JobSet whose readiness has changed.

        ``before`` is None for one that was not followed, ``now`` for one that is no longer followed. Both have the same
        UID: another JobSet of the same name comes after the first one is gone.
        """

    def forget(self) -> None:
        """Forget every JobSet, without any change to them: this replica no longer leads, another one reports."""

    def evaluated(self, seconds: float, lag_seconds: float | None) -> None:
        """Record the duration of one evaluation, after :meth:`on_status_change`.

        ``lag_seconds`` is the time from the first unseen change until the notification, None if nothing was new.
        """


K = TypeVar("K", bound=Hashable)

TOGETHER_SECONDS: Final = 0.1
"""Changes within this time are checked together."""
SLICE_SECONDS: Final = 0.002
"""After this much work, other tasks get as much time."""
REST_SECONDS: Final = 0.5
"""The least time between two checks of a key: a new JobSet has thirty changes in quick succession."""
SHARE: Final = 0.1
"""How much of the time one key may take: a key whose check is slow is checked less often."""
SOONEST_SECONDS: Final = 1.0
"""The least delay of a requested check."""


class RequeueTimers(Generic[K]):
    """Calls ``check(key, since)`` for each changed key; ``since`` is the time of the first of its changes.

    No key is checked twice within :data:`REST_SECONDS`. ``since`` is a time of the clock's monotonic seconds.
    """

    def __init__(
        self,
        check: Callable[[K, float], None],
        *,
        together_seconds: float = TOGETHER_SECONDS,
        clock: Clock | None = None,
    ) -> None:
        """Start empty; ``check`` must not raise."""
        self._check = check
        self._together = together_seconds
        self._clock = clock or Clock()
        self._changed: dict[K, float] = {}
        self._batch: OrderedDict[K, float] = OrderedDict()
        self._later: OrderedDict[K, float] = OrderedDict()
        """Keys to check when there is nothing else to check."""
        self._resting: dict[K, float] = {}
        """Keys that were just checked, and until when they rest."""
        self._alarms: dict[K, Timer] = {}
        """Checks that are due at a time, without a change."""
        self._wake = asyncio.Event()

    def mark(self, key: K) -> None:
        """Check it soon: something about it has changed."""
        if key not in self._batch and key not in self._changed:
            # With the time of its first mark, from which the lag is measured.
            self._changed[key] = self._later.pop(key, self._clock.now())
            self._wake.set()

    def mark_later(self, key: K) -> None:
        """Check it after the keys that are marked now or meanwhile."""
        if not any(key in kept for kept in (self._batch, self._changed, self._later)):
            self._later[key] = self._clock.now()
            self._wake.set()

    def again(self, key: K, seconds: float | None) -> None:
        """Check it after this delay even without a change, instead of an earlier request; None is never."""
        if (alarm := self._alarms.pop(key, None)) is not None:
            alarm.cancel()
        if seconds is not None:
            self._alarms[key] = self._clock.call_later(max(SOONEST_SECONDS, seconds), lambda: self._ring(key))

    def clear(self) -> None:
        """Forget all pending checks; not while it runs."""
        for alarm in self._alarms.values():
            alarm.cancel()
        for kept in (self._changed, self._batch, self._later, self._resting, self._alarms):
            kept.clear()

    async def run(self) -> None:
        """Check pending keys until cancelled."""
        while True:
            self._wake.clear()
            if not (self._changed or self._later):
                await self._wake.wait()
            await self._clock.sleep(self._together)
            self._take()
            await self._work()

    def _ring(self, key: K) -> None:
        del self._alarms[key]
        self.mark(key)

    def _take(self, age: float = 0.0) -> None:
        """The next batch is everything that changed at least this long ago and does not rest."""
        now = self._clock.now()
        self._resting = {key: until for key, until in self._resting.items() if until > now}
        changed, self._changed = self._changed, {}
        for key, since in changed.items():
            waits = key in self._resting or now - since < age
            (self._changed if waits else self._batch)[key] = since

    async def _work(self) -> None:
        """Check the batch, then the keys that can wait; new changes are checked in between."""
        taken = began = self._clock.now()
        while self._batch or self._later:
            key, since = (self._batch or self._later).popitem(last=False)
            # It rests from a check after the batch began: the next one has it, with the time of its first change.
            if self._resting.get(key, 0.0) > began:
                self._changed[key] = since
                continue
            before = self._clock.now()
            self._check(key, since)
            now = self._clock.now()
            self._resting[key] = now + max(REST_SECONDS, (now - before) / SHARE)
            if now - began >= SLICE_SECONDS:
                await self._clock.sleep(now - began)
                began = self._clock.now()
            if began - taken >= self._together:
                taken = began
                self._take(self._together)


LocalQueueKey = tuple[str, str]
"""Namespace and LocalQueue."""

_GROUPS: Final = ("workloads", "podgroups")

_log = structlog.get_logger(__name__)


class ReadinessController:
    """Subscribes to changes when it is made, and computes while :meth:`run` runs."""

    def __init__(
        self,
        caches: GangCaches,
        assessments: Assessments,
        sources: ReadinessSources,
        evaluate: Callable[..., Readiness],
        observers: Sequence[ReadinessObserver],
        *,
        follows: Callable[[JobSet], bool],
        queues: QueueStatuses | None = None,
        clock: Clock | None = None,
        share: Share | None = None,
    ) -> None:
        """Subscribe to Jobs and ``sources``; other changes come through :meth:`mark`. ``queues`` is None without Kueue.

        ``follows`` is whether a JobSet has a readiness. With a ``share``, other replicas follow the JobSets outside it.
        """
        self._share = share or Share()
        self._follows = follows
        self._caches = caches
        self._assessments = assessments
        self._sources = sources
        self._evaluate = evaluate
        self._observers = observers
        self._queues = queues
        self._clock = clock or Clock()
        self._requeue_timers: RequeueTimers[Key] = RequeueTimers(self._check, clock=self._clock)
        self._active = False
        self._known: dict[Key, Readiness] = {}
        self._local_queues: dict[LocalQueueKey, dict[Key, None]] = {}
        """Unfinished JobSets by LocalQueue; those without one by an empty name, because Kueue may suspend them, too."""
        self._broken: set[Key] = set()
        # Not from the caches' own notices: these leave out what no reconcile depends on, such as first pods.
        caches.informers["jobs"].subscribe(self._on_member)
        sources.pods.informer.subscribe(self._on_member)
        sources.failed.informer.subscribe(self._on_failed)
        sources.nodes.informer.subscribe(self._on_node)
        for source in sources.refusals:
            source.informer.subscribe(self._on_refusal)

    def follow(self, view: QueueView, workloads: Informer[QueuedWorkload]) -> None:
        """Also check JobSets when their queues, or their Workloads of Kueue, change."""

        def affect(affected: Affected) -> None:
            for key in affected.jobsets:
                self.mark(key)
            self.mark_at(lambda queue_key: affected.concerns(queue_key, view.cluster_queue_of(queue_key)))

        def change_head(cluster_queue: str) -> None:
            self.mark_at(lambda queue_key: view.cluster_queue_of(queue_key) == cluster_queue)

        view.subscribe(affect)
        view.heads.subscribe(change_head)
        workloads.subscribe(self._on_workload)

    def mark(self, key: Key) -> None:
        """Check a JobSet soon: something about it has changed."""
        if self._active and self._share.admits(key):
            self._requeue_timers.mark(key)

    def mark_all(self) -> None:
        """Check every JobSet: something that all depend on has changed. Direct changes of a JobSet have priority."""
        for key in self._caches.jobsets.store.keys():  # noqa: SIM118 - a store is not a mapping
            self._mark_later(key)

    def mark_at(self, concerned: Callable[[LocalQueueKey], bool]) -> None:
        """Check the unfinished JobSets of the matching LocalQueues, with the same priority."""
        for queue_key, keys in self._local_queues.items():
            if concerned(queue_key):
                for key in keys:
                    self._mark_later(key)

    def mark_held(self) -> None:
        """Check the JobSets that Kueue may hold, with the same priority: those in a queue, and those suspended.

        For when it is found that the cluster has Kueue, or has none: of others nothing depends on that.
        """
        for (_, queue), keys in self._local_queues.items():
            for key in keys:
                if queue or self._known[key].phase is GangPhase.SUSPENDED:
                    self._mark_later(key)

    def readiness(self, key: Key) -> Readiness | None:
        """The last reported readiness of a JobSet; None for one that is not followed, and on a standby."""
        return self._known.get(key)

    async def run(self, known: Callable[[], Awaitable[None]]) -> None:
        """Follow and compute until cancelled, and then forget everything; ``known`` waits for the sources of others.

        Those sync first: the webhooks answer from them, and 100,000 pods would delay that.
        """
        # Before the lists: what becomes ready while they are read counts as observed by this replica.
        self._notify(lambda observer: observer.leads())
        try:
            await known()
            async with asyncio.TaskGroup() as group:
                group.create_task(self._sources.run(), name="readiness-sources")
                group.create_task(self._compute(), name="readiness")
        finally:
            self._forget()

    async def _compute(self) -> None:
        await self._sources.known()
        # Until here marks are dropped: with some sources missing, causes would be reported that are none.
        self._active = True
        await in_parts(self._caches.jobsets.store.keys(), self._mark_later)
        await self._requeue_timers.run()

    def _forget(self) -> None:
        self._active = False
        self._requeue_timers.clear()
        for kept in (self._known, self._local_queues, self._broken):
            kept.clear()
        for observer in self._observers:
            observer.forget()

    def _check(self, key: Key, since: float) -> None:
        """Evaluate one JobSet, and notify observers if its readiness is new."""
        began = self._clock.now()
        jobset = self._caches.restarted_jobset(key)
        before = self._known.get(key)
        if before is not None and (jobset is None or jobset.uid != before.uid):
            self._set_status(key, None)
            before = None
        if jobset is None or not self._follows(jobset):
            self._set_status(key, None)
            self._requeue_timers.again(key, None)
            self._broken.discard(key)
            return
        wall = self._clock.wall()
        try:
            now = self._evaluate(self.snapshot(jobset, wall), wall.timestamp(), before, kept=True)
        except Exception:  # noqa: BLE001 -- an error of one JobSet must not block the others
            if key not in self._broken:
                self._broken.add(key)
                _log.exception("readiness not computed", namespace=key[0], name=key[1])
            return
        self._broken.discard(key)
        news = self._set_status(key, now)
        self._requeue_timers.again(key, None if now.look_again is None else now.look_again - wall.timestamp())
        done = self._clock.now()
        self._notify(lambda observer: observer.evaluated(done - began, done - since if news else None))

    def _set_status(self, key: Key, now: Readiness | None) -> bool:
        """Store the result and notify observers; False when only the time of the next check is new."""
        before = self._known.pop(key, None)
        if now is not None:
            self._known[key] = now
        if before == now or (before is not None and now is not None and _timeless(before) == _timeless(now)):
            return False
        self._move(key, _queue_key(before), _queue_key(now))
        self._notify(lambda observer: observer.on_status_change(before, now))
        return True

    def _move(self, key: Key, old: LocalQueueKey | None, new: LocalQueueKey | None) -> None:
        if old == new:
            return
        if old is not None and (keys := self._local_queues.get(old)) is not None:
            keys.pop(key, None)
            if not keys:
                del self._local_queues[old]
        if new is not None:
            self._local_queues.setdefault(new, {})[key] = None

    def _notify(self, what: Callable[[ReadinessObserver], None]) -> None:
        for observer in self._observers:
            try:
                what(observer)
            except Exception:  # noqa: BLE001 -- the other observers must be notified
                _log.exception("observer of readiness failed", observer=type(observer).__name__)

    def snapshot(self, jobset: JobSet, now: datetime) -> Snapshot:
        """All that is known of a JobSet; on the leader."""
        queue, kueue = None, self._queues.kueue if self._queues is not None else False
        if self._queues is not None:
            queue = self._queues.of(jobset, len(self._sources.pods_of(jobset.key)), now)
        assessment = self._assessments.of(jobset)
        ended = self._sources.failed_of(jobset.key)
        state, collections = self._assessments.state(), self._collections()
        return assemble(jobset, assessment, state, collections, queue=queue, kueue=kueue, ended=ended)

    def _collections(self) -> Collections:
        caches = self._caches
        informers = (caches.informers.get(plural) for plural in _GROUPS)
        parents = caches.informers.get("compositepodgroups")
        return Collections(
            jobs=caches.jobs,
            pods=self._sources.pods_of,
            groups=caches.groups_of,
            workload=lambda namespace, name: caches.scheduling("Workload", namespace, name),
            claimed=caches.claimed,
            refused=self._sources.refused,
            nodes=self._sources.nodes_by_name,
            groups_known=all(informer is None or informer.synced.is_set() for informer in informers),
            composite=partial(caches.scheduling, "CompositePodGroup")
            if parents is not None and parents.synced.is_set()
            else None,
        )

    def _mark_later(self, key: Key) -> None:
        if self._active and self._share.admits(key):
            self._requeue_timers.mark_later(key)

    def _on_member(self, old: JobProgress | PodFacts | None, new: JobProgress | PodFacts | None) -> None:
        member = new or old
        if member is not None:
            self.mark((member.namespace, member.jobset))

    def _on_failed(self, old: EndedPod | None, new: EndedPod | None) -> None:
        self._on_member(old.pod if old is not None else None, new.pod if new is not None else None)

    def _on_workload(self, old: QueuedWorkload | None, new: QueuedWorkload | None) -> None:
        workload = new or old
        if workload is not None and of_jobset(workload):
            self.mark((workload.namespace, workload.owner_name))

    def _on_node(self, old: NodeFacts | None, new: NodeFacts | None) -> None:
        node = new or old
        if node is not None and self._active:
            for key in self._sources.gangs_on(node.name):
                self.mark(key)

    def _on_refusal(self, old: Refused | None, new: Refused | None) -> None:
        """Mark the JobSet that the object belongs to; one whose Job is not cached yet is marked when the Job is."""
        refused = new or old
        if refused is None or not self._active:
            return
        if refused.kind == "JobSet":
            self.mark((refused.namespace, refused.name))
        elif (job := self._caches.job(refused.namespace, refused.name)) is not None:
            self.mark((job.namespace, job.jobset))


def _timeless(readiness: Readiness) -> Readiness:
    return replace(readiness, look_again=None)


def _queue_key(readiness: Readiness | None) -> LocalQueueKey | None:
    if readiness is None or readiness.phase.over:
        return None
    return readiness.namespace, readiness.local_queue
