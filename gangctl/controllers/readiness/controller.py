"""Computes the readiness of JobSets, only of those for which something has changed.

Informers mark keys; requeue timers decide when each is checked. A check reads the current state, calls a pure function
(:mod:`gangctl.readiness.evaluate`) and notifies observers of differences. They record them in events and ``Gang``
objects, so its texts contain times and no ages. The leader does it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final, Protocol

import structlog

from gangctl.api.jobset import JobSet
from gangctl.api.objects import Key
from gangctl.client.pacing import Clock
from gangctl.controllers.assessments import Assessments
from gangctl.controllers.caches import GangCaches
from gangctl.controllers.readiness.observer import ReadinessObserver
from gangctl.controllers.readiness.queues import QueueStatuses
from gangctl.controllers.readiness.requeue_timers import RequeueTimers
from gangctl.controllers.readiness.sources import ReadinessSources
from gangctl.gang.desired import JobProgress
from gangctl.readiness.assembly import Collections, assemble, is_followed
from gangctl.readiness.facts import NodeFacts, PodFacts, Refused, Snapshot
from gangctl.readiness.result import Readiness
from gangctl.runtime.controller import in_parts
from gangctl.runtime.election import Share

LocalQueueKey = tuple[str, str]
"""Namespace and LocalQueue."""

_GROUPS: Final = ("workloads", "podgroups")

_log = structlog.get_logger(__name__)


class Evaluate(Protocol):
    """:func:`gangctl.readiness.evaluate.evaluate`."""

    def __call__(self, snapshot: Snapshot, now: float, before: Readiness | None, /, *, kept: bool) -> Readiness:
        """Evaluate the readiness of one JobSet."""
        ...


class ReadinessController:
    """Subscribes to changes when it is made, and computes while :meth:`run` runs."""

    def __init__(
        self,
        caches: GangCaches,
        assessments: Assessments,
        sources: ReadinessSources,
        evaluate: Evaluate,
        observers: Sequence[ReadinessObserver],
        *,
        queues: QueueStatuses | None = None,
        clock: Clock | None = None,
        share: Share | None = None,
    ) -> None:
        """Subscribe to Jobs and ``sources``; other changes come through :meth:`mark`. ``queues`` is None without Kueue.

        With a ``share``, other replicas follow the JobSets outside it.
        """
        self._share = share or Share()
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
        """Unfinished JobSets by LocalQueue."""
        self._broken: set[Key] = set()
        caches.informers["jobs"].subscribe(self._on_job)
        sources.pods.informer.subscribe(self._on_pod)
        sources.nodes.informer.subscribe(self._on_node)
        for source in sources.refusals:
            source.informer.subscribe(self._on_refusal)

    def mark(self, key: Key) -> None:
        """Check a JobSet soon: something about it has changed."""
        if self._active and self._share.admits(key):
            self._requeue_timers.mark(key)

    def mark_all(self) -> None:
        """Check every JobSet: something that all depend on has changed. Direct changes of a JobSet have priority."""
        for key in self._caches.jobsets.store.keys():  # noqa: SIM118 - a store is not a mapping
            self._mark_later(key)

    def mark_at(self, concerned: Callable[[LocalQueueKey], bool] = lambda _: True) -> None:
        """Check the unfinished JobSets of the matching LocalQueues, with the same priority."""
        for queue_key, keys in self._local_queues.items():
            if concerned(queue_key):
                for key in keys:
                    self._mark_later(key)

    def readiness(self, key: Key) -> Readiness | None:
        """The last reported readiness of a JobSet; None for one that is not followed, and on a standby."""
        return self._known.get(key)

    async def run(self, known: Callable[[], Awaitable[None]]) -> None:
        """Follow and compute until cancelled, and then forget everything; ``known`` waits for the sources of others.

        Those sync first: the webhooks answer from them, and 100,000 pods would delay that.
        """
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
        self._active = True
        await in_parts(self._caches.jobsets.store.keys(), self._mark_later)
        await self._requeue_timers.run()

    def _forget(self) -> None:
        self._active = False
        self._requeue_timers.clear()
        for kept in (self._known, self._local_queues, self._broken):
            kept.clear()
        if self._queues is not None:
            self._queues.forget()
        for observer in self._observers:
            observer.forget()

    def _check(self, key: Key, since: float) -> None:
        """Evaluate one JobSet, and notify observers if its readiness is new."""
        began = self._clock.now()
        jobset = self._caches.jobset(key)
        before = self._known.get(key)
        if before is not None and (jobset is None or jobset.uid != before.uid):
            self._set_status(key, None)
            before = None
        if jobset is None or not is_followed(jobset):
            self._set_status(key, None)
            self._requeue_timers.again(key, None)
            self._broken.discard(key)
            return
        wall = self._clock.wall()
        try:
            now = self._evaluate(self._snapshot(jobset, wall), wall.timestamp(), before, kept=True)
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

    def _snapshot(self, jobset: JobSet, now: datetime) -> Snapshot:
        queue = None
        if self._queues is not None and jobset.queue:
            queue = self._queues.of(jobset, len(self._sources.pods_of(jobset.key)), now)
        assessment = self._assessments.of(jobset)
        return assemble(jobset, assessment, self._assessments.state(), self._collections(), queue=queue)

    def _collections(self) -> Collections:
        caches = self._caches
        found = (caches.informers.get(plural) for plural in _GROUPS)
        return Collections(
            jobs=caches.jobs,
            pods=self._sources.pods_of,
            groups=caches.groups_of,
            workload=lambda namespace, name: caches.scheduling("Workload", namespace, name),
            claimed=caches.claimed,
            refused=self._sources.refused,
            nodes=self._sources.nodes_by_name,
            groups_known=all(informer is None or informer.synced.is_set() for informer in found),
        )

    def _mark_later(self, key: Key) -> None:
        if self._active and self._share.admits(key):
            self._requeue_timers.mark_later(key)

    def _on_job(self, old: JobProgress | None, new: JobProgress | None) -> None:
        job = new or old
        if job is not None:
            self.mark((job.namespace, job.jobset))

    def _on_pod(self, old: PodFacts | None, new: PodFacts | None) -> None:
        pod = new or old
        if pod is not None:
            self.mark((pod.namespace, pod.jobset))

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
    if readiness is None or not readiness.local_queue or readiness.phase.over:
        return None
    return readiness.namespace, readiness.local_queue
