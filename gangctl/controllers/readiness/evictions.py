"""Evicts the remaining pods of gangs that run below their minimum for longer than they may (``--evict-stranded``).

Only the leader does, with rights of its own (``manifests/stranded``), through the Eviction API, so that
PodDisruptionBudgets hold. What is decided is :mod:`gangctl.readiness.eviction`; this reads what autoscalers said last,
evicts, counts and records an event.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

import structlog
from prometheus_client import CollectorRegistry, Counter

from gangctl.api.jobset import JobSet
from gangctl.api.meta import JOBSET_NAME
from gangctl.api.objects import Key
from gangctl.api.pods import UNFINISHED
from gangctl.client.client import Client, Selection
from gangctl.client.pacing import Clock
from gangctl.client.resources import EVENTS, PODS
from gangctl.controllers.readiness.controller import ReadinessObserver
from gangctl.errors import (
    ApiError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    TooManyRequestsError,
    UnavailableError,
    plural,
)
from gangctl.gang.reasons import Notice, Reason
from gangctl.kueue.amounts import span
from gangctl.readiness.autoscaling import STARTED, ScaleUp, field_selector, latest
from gangctl.readiness.eviction import Stranded, delay_of, stranded
from gangctl.readiness.facts import PodFacts, Snapshot, read_pod, read_scale_up
from gangctl.readiness.result import Readiness
from gangctl.runtime.controller import Action, await_change, requeue
from gangctl.runtime.manager import Manager

NAME: Final = "evictions"
WORKERS: Final = 4
CHECK_SECONDS: Final = 10.0
"""A stranded gang is checked so often: not every change of its pods changes its readiness."""

_log = structlog.get_logger(__name__)


Pods = Mapping[str, tuple[PodFacts, str]]
"""By name, each with its UID."""


async def read_pods(client: Client, jobset: JobSet) -> Pods:
    """The pods of a JobSet that have not finished, as the API server has them now: a cache may lag."""
    pods: dict[str, tuple[PodFacts, str]] = {}
    selection = Selection(f"{JOBSET_NAME}={jobset.name}", UNFINISHED)
    async with aclosing(client.pages(PODS, jobset.namespace, selection=selection)) as pages:
        async for page in pages:
            for item in page.items:
                if (pod := read_pod(item)) is not None:
                    pods[pod.name] = pod, str(item["metadata"].get("uid") or "")
    return pods


class EvictionMetrics:
    """Counts of gangs and pods."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register them."""
        self.gangs = Counter(
            "gangctl_stranded_gangs_evicted",
            "Gangs below their minimum of which gangctl has evicted the remaining pods.",
            registry=registry,
        )
        self.pods = Counter(
            "gangctl_stranded_pod_evictions",
            "Evictions of pods of gangs below their minimum, by result: evicted, blocked (by a PodDisruptionBudget), "
            "failed.",
            ["result"],
            registry=registry,
        )
        for result in ("evicted", "blocked", "failed"):
            self.pods.labels(result)


class Evictions(ReadinessObserver):
    """Checks the JobSets with stranded pods, and evicts; :meth:`run` does, on the leader."""

    def __init__(
        self,
        manager: Manager,
        *,
        jobset: Callable[[Key], JobSet | None],
        snapshot: Callable[[JobSet, datetime], Snapshot],
        record_event: Callable[[JobSet, Notice], None],
        default: float | None,
        pods: Callable[[Client, JobSet], Awaitable[Pods]] = read_pods,
        clock: Clock | None = None,
    ) -> None:
        """Do nothing yet; ``default`` is the delay in seconds of a JobSet that names none, None for never."""
        self._reader, self._writer = manager.reader, manager.writer
        self._jobset, self._snapshot, self._record_event = jobset, snapshot, record_event
        self._default = default
        self._pods = pods
        self._clock = clock or manager.clock
        self._metrics = EvictionMetrics(manager.metrics.registry)
        self._stranded: set[Key] = set()
        self._seen: dict[tuple[Key, str, str], float] = {}
        """Since when a group is known to be stranded, by JobSet, its UID and the group."""
        self._begun: set[tuple[Key, str, str]] = set()
        """Groups of which a pod has been evicted, and that are still stranded."""
        self._controller = manager.controller(NAME, self._reconcile, WORKERS, admits=manager.share.admits)

    def on_status_change(self, before: Readiness | None, now: Readiness | None) -> None:
        """Check a JobSet with stranded pods; forget one without."""
        if now is not None and now.counts.stranded:
            self._stranded.add(now.key)
            self._controller.enqueue(now.key)
        elif (known := now or before) is not None:
            self._drop(known.key)

    def jobset_changed(self, key: Key) -> None:
        """Check it again: its annotation may be another one."""
        if key in self._stranded:
            self._controller.enqueue(key)

    def forget(self) -> None:
        """Forget every JobSet."""
        for records in (self._stranded, self._seen, self._begun):
            records.clear()

    async def run(self) -> None:
        """Check and evict until cancelled. On the leader only."""
        await self._controller.run()

    def _drop(self, key: Key) -> None:
        self._stranded.discard(key)
        self._seen = {one: since for one, since in self._seen.items() if one[0] != key}
        self._begun = {one for one in self._begun if one[0] != key}

    async def _reconcile(self, key: Key) -> Action:
        jobset = self._jobset(key)
        delay = delay_of(jobset, self._default) if jobset is not None else None
        if jobset is None or delay is None or key not in self._stranded:
            return await_change()
        # First from the cache: where nothing is to be evicted, nothing is read.
        gangs = self._decide(jobset, delay)
        pods: Pods = {}
        if any(gang.evict for gang in gangs):
            try:
                pods = await self._pods(self._reader, jobset)
                scale_ups = await self._scale_ups(key[0])
            except ForbiddenError as refused:
                # A node may be on its way: what is unknown evicts nothing.
                _log.warning("stranded gangs are left alone: pods or events may not be read", error=str(refused))
                return requeue(CHECK_SECONDS)
            # It may have ended, or become whole, while they were read.
            if key not in self._stranded:
                return await_change()
            # Decided again with these: a cache may lag for longer than a gang needs to be completed.
            gangs = self._decide(jobset, delay, scale_ups, pods)
        for gang in gangs:
            if gang.evict:
                await self._evict(jobset, gang, delay, {name: uid for name, (_, uid) in pods.items()})
        now = self._clock.wall().timestamp()
        due = [gang.look_again - now for gang in gangs if gang.look_again is not None]
        return requeue(max(1.0, min([CHECK_SECONDS, *due]))) if gangs else await_change()

    def _decide(
        self, jobset: JobSet, delay: float, scale_ups: Mapping[str, ScaleUp] | None = None, pods: Pods | None = None
    ) -> tuple[Stranded, ...]:
        """The stranded gangs; with the pods that were read, not those of the cache."""
        wall = self._clock.wall()
        now = wall.timestamp()
        own = (jobset.key, jobset.uid)
        seen = {group: since for (*rest, group), since in self._seen.items() if tuple(rest) == own}
        snapshot = self._snapshot(jobset, wall)
        if pods is not None:
            snapshot = replace(snapshot, pods=[pod for pod, _ in pods.values()])
        gangs = stranded(snapshot, now, delay, seen, scale_ups or {})
        groups = {gang.group for gang in gangs}
        for group in seen.keys() - groups:
            self._seen.pop((*own, group))
            self._begun.discard((*own, group))
        for group in groups:
            self._seen.setdefault((*own, group), now)
        return gangs

    async def _scale_ups(self, namespace: str) -> dict[str, ScaleUp]:
        """What autoscalers said last of the pods of a namespace, read now."""
        scale_ups: list[ScaleUp] = []
        # One list for each: a field selector has no alternatives.
        for reason in sorted(STARTED):
            selection = Selection(field_selector=field_selector(reason))
            async with aclosing(self._reader.pages(EVENTS, namespace, selection=selection)) as pages:
                async for page in pages:
                    scale_ups += filter(None, map(read_scale_up, page.items))
        return latest(scale_ups)

    async def _evict(self, jobset: JobSet, gang: Stranded, delay: float, uids: Mapping[str, str]) -> None:
        evicted = await self._evict_pods(jobset.namespace, gang.evict, uids)
        mark = jobset.key, jobset.uid, gang.group
        # One event for each gang: a PodDisruptionBudget may spread its evictions over several checks.
        if not evicted or mark in self._begun:
            return
        # Of one that was dropped meanwhile nothing is kept.
        if jobset.key in self._stranded:
            self._begun.add(mark)
        self._metrics.gangs.inc()
        needs = plural(gang.missing, "pod that it needs has", "pods that it needs have")
        message = (
            f"Evicted {plural(evicted, 'pod')} of {gang.group}: {needs} no node, for more than "
            f"{span(timedelta(seconds=delay))}; it waits as a whole now, and its nodes are free"
        )
        self._record_event(jobset, Notice(Reason.GANG_EVICTED, message))

    async def _evict_pods(self, namespace: str, pods: Iterable[PodFacts], uids: Mapping[str, str]) -> int:
        evicted = 0
        for pod in pods:
            # Without its UID another pod of that name could be evicted in its place.
            if not (uid := uids.get(pod.name)):
                continue
            try:
                await self._writer.evict(namespace, pod.name, uid=uid)
            except (ConflictError, NotFoundError):
                # It is gone, or another pod has its name: the UID is a precondition.
                continue
            except TooManyRequestsError as blocked:
                # A PodDisruptionBudget: the other pods are tried, and this one again at the next check.
                self._metrics.pods.labels("blocked").inc()
                _log.info("a stranded pod is not evicted yet", namespace=namespace, name=pod.name, error=str(blocked))
                continue
            except ApiError as failure:
                self._metrics.pods.labels("failed").inc()
                # Without an answer the other pods would wait as long.
                if isinstance(failure, UnavailableError):
                    raise
                # About this pod alone, as where two PodDisruptionBudgets select it: tried again at the next check.
                _log.warning("a stranded pod is not evicted", namespace=namespace, name=pod.name, error=str(failure))
                continue
            evicted += 1
            self._metrics.pods.labels("evicted").inc()
        return evicted
