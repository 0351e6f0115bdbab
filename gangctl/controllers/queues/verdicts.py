"""Reports on JobSets that already wait in a queue: that they can never be admitted, or that their queue is blocked.

Kueue has the same message for never and for not yet. A JobSet is evaluated when it is created, and again when a change
of quotas, flavors, limits or Kueue's configuration concerns its queue; usage of a quota never changes the verdict. The
leader does it, for JobSets that ask for a gang.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry

from gangctl.api.jobset import JobSet
from gangctl.api.objects import Key, Object
from gangctl.client.client import Client, Selection
from gangctl.client.pacing import Clock
from gangctl.client.resources import JOBSETS
from gangctl.cluster.queues import LocalQueueKey
from gangctl.controllers.queues.view import Affected, QueueView, reportable_reason
from gangctl.controllers.reporter import RecordEvent
from gangctl.fit.report import FitReport, never_of
from gangctl.gang.reasons import Notice, Reason
from gangctl.kueue.queues import Never, current, may_be_admitted
from gangctl.runtime.controller import Action, await_change, requeue
from gangctl.runtime.events import REPEAT_SECONDS
from gangctl.runtime.families import Family, PlacedGauge, new_registry
from gangctl.runtime.informer import Informer

DEBOUNCE_SECONDS: Final = 1.0
"""Changes come in bursts: the JobSets that they concern are checked once for all of them."""
UNKNOWN_SECONDS: Final = 60.0
"""When to retry what could not be evaluated, even without a change."""
PACE_SECONDS: Final = 0.02
"""A change may concern thousands: pauses between reads keep requests for gangs from waiting."""
MOST_QUEUES: Final = 500
EVENT_INTERVAL_SECONDS: Final = 60.0
"""The least time between two events on one JobSet, however often its verdict changes."""

NEVER: Final = "never"
BLOCKED: Final = "blocked"
WAITING: Final = "waiting"
UNKNOWN: Final = "unknown"
_EVENTS: Final = {Reason.NEVER_FITS: NEVER, Reason.QUEUE_BLOCKED: BLOCKED}
"""The verdicts that get an event, by its reason."""


@dataclass(frozen=True, slots=True)
class WaitStatus:
    """How one JobSet waits; ``verdict`` is :data:`NEVER`, :data:`BLOCKED`, :data:`WAITING` or :data:`UNKNOWN`."""

    namespace: str
    local_queue: str
    cluster_queue: str
    verdict: str


class VerdictMetrics:
    """JobSets that wait, by queue and verdict; beyond :data:`MOST_QUEUES` queues the rest is counted together."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the family."""
        family = Family(
            "gangctl_fit_verdicts",
            "gauge",
            "JobSets that ask for a gang and wait in a queue of Kueue, by verdict: never (it can never be admitted), "
            "blocked (the queue admits nothing now), waiting, unknown. Exported by the leader.",
            ("namespace", "local_queue", "cluster_queue", "verdict"),
        )
        self._waiting = PlacedGauge(registry, family, MOST_QUEUES)

    def on_status_change(self, before: WaitStatus | None, now: WaitStatus | None) -> None:
        """Count one JobSet under its new status: None means that it does not wait."""
        # Added first: a queue must not become empty in between, and lose its place.
        for status, step in ((now, 1), (before, -1)):
            if status is not None:
                place = status.namespace, status.local_queue, status.cluster_queue
                self._waiting.add(place, status.verdict, step=step)


@dataclass(frozen=True, slots=True)
class _ReportedVerdict:
    uid: str
    cause: tuple[object, ...]
    at: float


class Verdicts:
    """``reconcile(key) -> Action`` for JobSets in queues; ``enqueue(key, seconds)`` asks for one after a delay."""

    def __init__(
        self,
        jobsets: Informer[JobSet],
        view: QueueView,
        read: Callable[[Key], Awaitable[Object | None]],
        record: RecordEvent,
        enqueue: Callable[[Key, float], None],
        *,
        follows: Callable[[JobSet], bool],
        metrics: VerdictMetrics | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Follow the JobSets, and the changes that ``view`` reports; ``read`` returns a whole JobSet.

        ``follows`` is whether a JobSet asks gangctl for a gang.
        """
        self._jobsets = jobsets
        self._follows = follows
        self._view = view
        self._read = read
        self._record_event = record
        self._enqueue = enqueue
        self._metrics = metrics or VerdictMetrics(new_registry())
        self._clock = clock or Clock()
        self._local_queues: dict[LocalQueueKey, dict[Key, None]] = {}
        """JobSets that wait, by LocalQueue."""
        self._statuses: dict[Key, WaitStatus] = {}
        self._never: dict[Key, Never] = {}
        self._followers: list[Callable[[Key], None]] = []
        self._reported: dict[Key, _ReportedVerdict] = {}
        self._affected = Affected()
        self._flushing = False
        jobsets.subscribe(self._on_jobset)
        view.subscribe(self.changed)

    def changed(self, affected: Affected) -> None:
        """Check again, soon, the JobSets that a change concerns."""
        self._affected |= affected
        if not self._flushing:
            self._flushing = True
            self._clock.call_later(DEBOUNCE_SECONDS, self._flush)

    def recheck_in(self, namespaces: Collection[str]) -> None:
        """Check again the JobSets of namespaces that gangctl has begun or ceased to serve."""
        for jobset in self._jobsets.store.values():
            if jobset.namespace in namespaces:
                self._on_jobset(jobset, jobset)

    def waiting(self) -> list[Key]:
        """Every JobSet that waits in some LocalQueue."""
        return [key for keys in self._local_queues.values() for key in keys]

    def never(self, key: Key) -> Never | None:
        """Why a waiting JobSet can never be admitted; None where that was not found."""
        return self._never.get(key)

    def decided(self, key: Key, reason: Reason) -> bool:
        """Whether the event of a waiting JobSet is of this reason; also while its first verdict is still to come."""
        status = self._statuses.get(key)
        if status is not None:
            return status.verdict == _EVENTS.get(reason)
        jobset = self._jobsets.store.get(*key)
        return reason in _EVENTS and jobset is not None and self._waits(jobset)

    def follow(self, on_change: Callable[[Key], None]) -> None:
        """Call this with the key of each JobSet for which :meth:`never` changes."""
        self._followers.append(on_change)

    def forget(self) -> None:
        """Drop all counts: another replica leads."""
        for key in list(self._statuses):
            self._set_status(key, None)
        self._reported.clear()
        self._never.clear()

    async def reconcile(self, key: Key) -> Action:
        """Evaluate one JobSet, count it, and record what is wrong."""
        jobset = self._jobsets.store.get(*key)
        if jobset is None or not self._waits(jobset):
            return self._drop(key)
        raw = await self._read(key)
        # It may have been deleted or resumed meanwhile, which enqueues only what has a status.
        latest = self._jobsets.store.get(*key)
        if latest is None or not self._waits(latest):
            return self._drop(key)
        # Another JobSet has the name: its own event causes its reconcile.
        if raw is None or (raw.get("metadata") or {}).get("uid") != jobset.uid:
            return await_change()
        # It is stored: Kueue gives the LocalQueue called default at CREATE only.
        report = self._view.ever(raw, jobset.namespace, new=False)
        self._set_status(key, WaitStatus(jobset.namespace, jobset.queue, report["clusterQueue"], _verdict(report)))
        self._note_never(key, never_of(report))
        later = self._report(jobset, report)
        if _may_be_never(report):
            later = min(later or UNKNOWN_SECONDS, UNKNOWN_SECONDS)
        return requeue(later) if later > 0 else await_change()

    def _drop(self, key: Key) -> Action:
        """Count it no longer, and forget what was reported of it."""
        self._set_status(key, None)
        self._note_never(key, None)
        self._reported.pop(key, None)
        return await_change()

    def _waits(self, jobset: JobSet) -> bool:
        """Whether it waits for quota, as far as is known."""
        if not self._view.present or not self._may_wait(jobset):
            return False
        workload = current(self._view.workloads_of(jobset.uid))
        return may_be_admitted(workload) and not self._view.queued_by_owner(jobset, workload)

    def _may_wait(self, jobset: JobSet) -> bool:
        """Whether it is to be evaluated: suspended, in a queue, and asking for a gang."""
        if not jobset.queue or not jobset.suspend or jobset.finished or jobset.deleting or jobset.managed_elsewhere:
            return False
        return self._follows(jobset)

    def _set_status(self, key: Key, now: WaitStatus | None) -> None:
        before = self._statuses.pop(key, None)
        if now is not None:
            self._statuses[key] = now
        if before != now:
            self._metrics.on_status_change(before, now)

    def _note_never(self, key: Key, why: Never | None) -> None:
        if why == self._never.get(key):
            return
        if why:
            self._never[key] = why
        else:
            del self._never[key]
        for follow in self._followers:
            follow(key)

    def _report(self, jobset: JobSet, report: FitReport) -> float:
        """Record what is wrong, and again while it lasts; returns the seconds until the next one, 0 for never."""
        reason = reportable_reason(report)
        if reason is None:
            return 0.0
        cause = _cause(reason, report)
        reported, now = self._reported.get(jobset.key), self._clock.now()
        if reported is not None and reported.uid == jobset.uid:
            interval = REPEAT_SECONDS if reported.cause == cause else EVENT_INTERVAL_SECONDS
            if now - reported.at < interval:
                return interval - (now - reported.at)
        self._reported[jobset.key] = _ReportedVerdict(jobset.uid, cause, now)
        self._record_event(jobset, Notice(reason, report["message"]))
        return REPEAT_SECONDS

    def _on_jobset(self, old: JobSet | None, new: JobSet | None) -> None:
        # First its earlier place: a suspended JobSet may move to another queue.
        if old is not None:
            keys = self._local_queues.get((old.namespace, old.queue), {})
            keys.pop(old.key, None)
            if not keys:
                self._local_queues.pop((old.namespace, old.queue), None)
        changed = new or old
        if changed is None:
            return
        waits = new is not None and self._may_wait(new)
        if waits:
            self._local_queues.setdefault((changed.namespace, changed.queue), {})[changed.key] = None
        if waits or changed.key in self._statuses:
            # A JobSet applied together with its queue may be seen before the queue.
            self._enqueue(changed.key, DEBOUNCE_SECONDS)

    def _flush(self) -> None:
        self._flushing = False
        affected, self._affected = self._affected, Affected()
        for key in affected.jobsets:
            self._enqueue(key, 0.0)
        for queue_key, keys in self._local_queues.items():
            if affected.concerns(queue_key, self._view.cluster_queue_of(queue_key)):
                for key in keys:
                    self._enqueue(key, 0.0)


def reader(client: Client) -> Callable[[Key], Awaitable[Object | None]]:
    """Reads whole JobSets by list, which RBAC allows anyway: the informers keep a projection without requests."""

    async def read(key: Key) -> Object | None:
        namespace, name = key
        selection = Selection(field_selector=f"metadata.name={name}")
        page = await client.list(JOBSETS, namespace, selection=selection)
        await asyncio.sleep(PACE_SECONDS)
        return page.items[0] if page.items else None

    return read


def _verdict(report: FitReport) -> str:
    reason = reportable_reason(report)
    if reason is not None:
        return _EVENTS[reason]
    return UNKNOWN if _may_be_never(report) else WAITING


def _may_be_never(report: FitReport) -> bool:
    """Whether that is not known: one that may fit waits like any other."""
    return report["verdict"] == "unknown" and report["reason"] != "MayFit"


def _cause(reason: Reason, report: FitReport) -> tuple[object, ...]:
    """What makes a reason new: not the amounts in use at the moment."""
    limits = tuple(
        (limit["flavor"], limit["resource"], limit["requested"], limit["maximum"], limit["limit"])
        for limit in report["limits"]
    )
    return reason, report["reason"], report["queue"], report["clusterQueue"], report["blocked"], limits
