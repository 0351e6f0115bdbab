"""How many gangs there are, by phase, queue and cause, and their pods.

The cost of a change does not depend on the number of gangs. The number of series is limited on reading: the first keys
keep their own rows while they exist, the others share one row of :data:`OTHERS`, and a freed row goes to the key that
has waited longest. So the sums are always exact. JobSets that have finished have no rows of their own: they are counted
in the sums for as long as they exist, and there may be thousands of them.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from typing import Final, Generic, NamedTuple, TypeVar

from gangctl.api.objects import Key
from gangctl.gang.reasons import Reason
from gangctl.readiness.result import Cause, Counts, GangPhase, Readiness

K = TypeVar("K", bound=Hashable)

_SLACK: Final = 16
"""Stale entries of a heap that are tolerated before it is rebuilt."""


class Oldest(Generic[K]):
    """Keys with a time each, and the earliest of these times.

    A change costs O(log n). Removed and moved entries stay in the heap until they reach its top, or until they are
    half of it.
    """

    def __init__(self) -> None:
        """Start empty."""
        self._times: dict[K, int] = {}
        self._heap: list[tuple[int, K]] = []

    def __len__(self) -> int:
        """The number of keys."""
        return len(self._times)

    def put(self, key: K, time: int) -> None:
        """Add a key, or change its time."""
        if self._times.get(key) == time:
            return
        self._times[key] = time
        if len(self._heap) > 2 * len(self._times) + _SLACK:
            self._heap = [(since, other) for other, since in self._times.items()]
            heapq.heapify(self._heap)
        else:
            heapq.heappush(self._heap, (time, key))

    def time(self, key: K) -> int | None:
        """The time of a key; None for another."""
        return self._times.get(key)

    def remove(self, key: K) -> None:
        """Remove an existing key."""
        del self._times[key]

    def first(self) -> int:
        """The earliest time; ValueError when there is none."""
        if not self._times:
            raise ValueError("there is nothing that could be the oldest")
        while self._times.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0]


OTHERS: Final = "(others)"


class Queue(NamedTuple):
    """Key of one count of gangs; the queues are empty for those without one."""

    namespace: str
    local_queue: str
    cluster_queue: str


THE_OTHERS: Final = Queue(OTHERS, OTHERS, OTHERS)


DEFAULT_JOBSETS: Final = 2000
"""JobSets with rows of their own, unless the flag ``--metrics-jobset-limit`` says otherwise."""


@dataclass(frozen=True, slots=True)
class RowLimits:
    """How many have own rows: unfinished JobSets, queues, causes, namespaces, and phases :data:`DATED`, by queue."""

    gangs: int = DEFAULT_JOBSETS
    queues: int = 500
    reasons: int = 2000
    namespaces: int = 200
    dated: int = 500


class PodState(StrEnum):
    """The states of a gang's pods, of which each pod has one: their sum is the number of pods that there should be."""

    MISSING = "missing"
    UNSCHEDULED = "unscheduled"
    UNREADY = "unready"
    READY = "ready"
    SUCCEEDED = "succeeded"


def pod_states(pods: Counts) -> Mapping[PodState, int]:
    """How many pods of one gang are in each state; never negative.

    >>> pods = Counts(desired=8, wanted=7, created=5, placed=4, ready=3, finished=1)
    >>> [f"{state} {count}" for state, count in pod_states(pods).items()]
    ['missing 2', 'unscheduled 1', 'unready 1', 'ready 3', 'succeeded 1']
    """
    return {
        PodState.MISSING: max(0, pods.wanted - pods.created),
        PodState.UNSCHEDULED: max(0, pods.created - pods.placed),
        PodState.UNREADY: max(0, pods.placed - pods.ready),
        PodState.READY: pods.ready,
        PodState.SUCCEEDED: pods.finished,
    }


@dataclass(slots=True)
class QueueRow:
    """The gangs of one queue: by phase, their pods, and how many they are."""

    phases: Counter[GangPhase] = field(default_factory=Counter)
    states: Counter[PodState] = field(default_factory=Counter)
    """Pods by state."""
    desired: int = 0
    minimum: int = 0
    stranded: int = 0
    gangs: int = 0

    def add(self, readiness: Readiness, sign: int = 1) -> None:
        """Add one gang, or remove it if ``sign`` is -1."""
        pods = readiness.counts
        _count(self.phases, readiness.phase, sign)
        # By gang: a surplus of one is not what another one misses.
        for state, count in pod_states(pods).items():
            self.states[state] += sign * count
        self.desired += sign * pods.desired
        self.minimum += sign * pods.minimum
        self.stranded += sign * pods.stranded
        self.gangs += sign

    def merge(self, other: QueueRow) -> None:
        """Add the counts of ``other``."""
        self.phases.update(other.phases)
        self.states.update(other.states)
        self.desired += other.desired
        self.minimum += other.minimum
        self.stranded += other.stranded
        self.gangs += other.gangs


DATED: Final = frozenset({GangPhase.PARTIALLY_PLACED, GangPhase.DEGRADED})
"""Phases of which it is known since when the JobSet that has been in them for longest is."""


class BlockedGangs(NamedTuple):
    """The gangs of one queue and phase with one cause: their number, and the earliest start."""

    gangs: int
    since: int


class Hold(NamedTuple):
    """What holds gangs up, where, and how far they are: the key of one count of blocked gangs."""

    queue: Queue
    reason: Reason | None
    """None for one that nothing blocks."""
    phase: GangPhase | None
    """None for those of other queues, unless it is one of :data:`DATED`."""


class Aggregates:
    """All observed gangs, and the sums over them."""

    def __init__(self, limits: RowLimits | None = None) -> None:
        """Start without gangs."""
        self.limits = limits or RowLimits()
        self.dropped: Counter[str] = Counter()
        """How often a new key got no row of its own, by the fields of :class:`RowLimits`."""
        self._gangs: dict[Key, Readiness] = {}
        self._unfinished: dict[Key, Readiness] = {}
        """In the order in which they came."""
        self._rows: dict[Queue, QueueRow] = {}
        self._blocked: dict[Hold, Oldest[Key]] = {}
        self._dated: dict[Hold, Oldest[Key]] = {}
        self._began: dict[Key, tuple[Reason, int]] = {}
        """The cause that last came to block a gang that was counted already, and when: for this it is no older."""
        self._lost: Counter[Key] = Counter()
        self._namespaces: Counter[str] = Counter()

    def __len__(self) -> int:
        """The number of gangs."""
        return len(self._gangs)

    def stands(self, before: Readiness | None, now: Readiness | None, at: float = 0) -> None:
        """Move one JobSet to another count; its last counted values are removed, not those of ``before``.

        ``at`` is the Unix time: what had not blocked it before begins now, however old its objects are.
        """
        stated = now or before
        if stated is None:
            return
        counted = self._gangs.get(stated.key)
        # Add before removing: the row must not become empty in between, and lose its place.
        if now is not None:
            self._add(now, counted, int(at))
        if counted is not None:
            self._remove(counted, now)

    def last(self, key: Key) -> Readiness | None:
        """The last reported readiness of one JobSet."""
        return self._gangs.get(key)

    def has(self, queue: Queue) -> bool:
        """Whether this queue has gangs."""
        return queue in self._rows

    def gangs(self) -> list[Readiness]:
        """The unfinished JobSets that have their own rows."""
        return list(islice(self._unfinished.values(), self.limits.gangs))

    @property
    def without_row(self) -> int:
        """The number of unfinished JobSets without a row."""
        return max(0, len(self._unfinished) - self.limits.gangs)

    def rows(self) -> Iterator[tuple[Queue, QueueRow]]:
        """The gangs of each queue, and those of all other queues together."""
        rows = iter(self._rows.items())
        # One iterator: the loop below goes on where the slice ends.
        yield from islice(rows, self.limits.queues)
        others = QueueRow()
        for _, row in rows:
            others.merge(row)
        if others.gangs:
            yield THE_OTHERS, others

    def blocked(self) -> Mapping[Hold, BlockedGangs]:
        """The gangs with a cause, by queue, reason and phase; the earliest start is that of the cause."""
        return self._limited(self._blocked, self.limits.reasons)

    def dated(self) -> Mapping[Hold, BlockedGangs]:
        """The gangs in the phases :data:`DATED`; the earliest start is that of the phase, whatever the causes were."""
        return self._limited(self._dated, self.limits.dated)

    def _limited(self, table: Mapping[Hold, Oldest[Key]], most: int) -> dict[Hold, BlockedGangs]:
        own = set(islice(self._rows, self.limits.queues))
        limited: dict[Hold, BlockedGangs] = {}
        shown = 0
        for hold, oldest in table.items():
            blocked = BlockedGangs(len(oldest), oldest.first())
            # Only the phases that an alert asks for are kept apart: with all, the number of series exceeds its bound.
            others = Hold(THE_OTHERS, hold.reason, hold.phase if hold.phase in DATED else None)
            if hold.queue in own and shown < most:
                shown += 1
                limited[hold] = blocked
            elif (so_far := limited.get(others)) is None:
                limited[others] = blocked
            else:
                limited[others] = BlockedGangs(so_far.gangs + blocked.gangs, min(so_far.since, blocked.since))
        return limited

    def shown(self) -> Callable[[Queue], Queue]:
        """A function that returns the row of a queue: its own, or that of the others."""
        own = set(islice(self._rows, self.limits.queues))
        return lambda queue: queue if queue in own else THE_OTHERS

    def lost(self) -> Mapping[tuple[str, str], int]:
        """Gangs that are scheduled pod by pod, by namespace and cause."""
        own = set(islice(self._namespaces, self.limits.namespaces))
        counts: Counter[tuple[str, str]] = Counter()
        for (namespace, cause), gangs in self._lost.items():
            counts[namespace if namespace in own else OTHERS, cause] += gangs
        return counts

    def _add(self, now: Readiness, counted: Readiness | None, at: int) -> None:
        self._gangs[now.key] = now
        self._give_row(now)
        queue = queue_of(now)
        if (row := self._rows.get(queue)) is None:
            row = self._rows[queue] = QueueRow()
            self._came("queues", len(self._rows))
        row.add(now)
        if (blocked := next((cause for cause in now.causes if cause.blocking), None)) is not None:
            self._block(now, blocked, counted, at)
        if now.phase in DATED:
            hold = Hold(queue, now.blocked_by, now.phase)
            if hold not in self._dated:
                self._dated[hold] = Oldest()
                self._came("dated", len(self._dated))
            self._dated[hold].put(now.key, now.since)
        if now.lost is not None:
            cause = now.lost.reason
            self._lost[now.namespace, cause] += 1
            if now.namespace not in self._namespaces:
                self._came("namespaces", len(self._namespaces) + 1)
            self._namespaces[now.namespace] += 1

    def _block(self, now: Readiness, cause: Cause, counted: Readiness | None, at: int) -> None:
        hold = Hold(queue_of(now), cause.reason, now.phase)
        if (oldest := self._blocked.get(hold)) is None:
            oldest = self._blocked[hold] = Oldest()
            # In another phase it is not new.
            if counted is None or (queue_of(counted), counted.blocked_by) != (hold.queue, hold.reason):
                self._came("reasons", len(self._blocked))
        # To wait behind a head is normal, however long: it is held up from when that does not end by itself.
        if counted is not None and all(
            known.reason is not cause.reason or (known.reason is Reason.HEAD_BLOCKS_QUEUE and not known.blocking)
            for known in counted.causes
        ):
            self._began[now.key] = cause.reason, at
        reason, began = self._began.get(now.key, (cause.reason, 0))
        since = max(cause.since or now.since, began if reason is cause.reason else 0)
        # A loop begins anew with each crash, and has lasted since the first, whatever phases it went through.
        if cause.reason is Reason.CRASH_LOOP and counted is not None:
            before = self._blocked.get(Hold(queue_of(counted), cause.reason, counted.phase))
            since = min((before and before.time(now.key)) or since, since)
        oldest.put(now.key, since)

    def _give_row(self, now: Readiness) -> None:
        """A row of its own, as far as there are some, until it has finished."""
        if now.phase.over:
            self._unfinished.pop(now.key, None)
            return
        is_new = now.key not in self._unfinished
        self._unfinished[now.key] = now
        if is_new:
            self._came("gangs", len(self._unfinished))

    def _remove(self, counted: Readiness, now: Readiness | None) -> None:
        if now is None:
            del self._gangs[counted.key]
            self._unfinished.pop(counted.key, None)
            self._began.pop(counted.key, None)
        queue = queue_of(counted)
        row = self._rows[queue]
        row.add(counted, -1)
        if not row.gangs:
            del self._rows[queue]
        hold = Hold(queue, counted.blocked_by, counted.phase)
        # With the same count as before it was already added again.
        if now is None or Hold(queue_of(now), now.blocked_by, now.phase) != hold:
            for table, counts in ((self._blocked, hold.reason is not None), (self._dated, hold.phase in DATED)):
                if counts:
                    table[hold].remove(counted.key)
                    if not table[hold]:
                        del table[hold]
        if counted.lost is not None:
            cause = counted.lost.reason
            _count(self._lost, (counted.namespace, cause), -1)
            _count(self._namespaces, counted.namespace, -1)

    def _came(self, what: str, how_many: int) -> None:
        if how_many > getattr(self.limits, what):
            self.dropped[what] += 1


def queue_of(readiness: Readiness) -> Queue:
    """The count that a gang belongs to."""
    return Queue(readiness.namespace, readiness.local_queue, readiness.cluster_queue)


def _count(counter: Counter[K], key: K, sign: int) -> None:
    """Without the keys that are gone."""
    counter[key] += sign
    if not counter[key]:
        del counter[key]


def transition(before: Readiness | None, now: Readiness | None) -> tuple[GangPhase, GangPhase] | None:
    """Old and new phase of a JobSet; None if it is unchanged, new or gone."""
    if before is None or now is None or before.uid != now.uid or before.phase is now.phase:
        return None
    return before.phase, now.phase
