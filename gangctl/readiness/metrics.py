"""What metrics say of gangs: how many there are by phase, queue and cause; disturbances, and durations of starts.

The cost of a change does not depend on the number of gangs. The number of series is limited on reading: the first keys
keep their own rows while they exist, the others share one row of :data:`OTHERS`, and a freed row goes to the key that
has waited longest. So the sums are always exact.

Nothing is measured twice: not when a gang becomes ready again, and not by a new leader for events before it led.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import astuple, dataclass, field
from enum import Enum
from itertools import islice
from typing import Final, Generic, NamedTuple, TypeVar

from gangctl.api.objects import Key
from gangctl.gang.reasons import Reason
from gangctl.readiness.result import Cause, Counts, GangPhase, Readiness

K = TypeVar("K", bound=Hashable)
P = TypeVar("P", bound=Hashable)

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
            self._heap = [(since, each) for each, since in self._times.items()]
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


@dataclass(slots=True)
class _Meter:
    running: int = 0
    seconds: float = 0.0
    read_at: float = 0.0


class Lapse(Generic[K, P]):
    """Seconds that keys spend in places, by place. Sums never decrease if the clock does not."""

    def __init__(self, most: int, others: P) -> None:
        """Places beyond ``most`` are counted as ``others``, and stay there."""
        self._most = most
        self._others = others
        self._meters: dict[P, _Meter] = {}
        self._where: dict[K, P] = {}

    def enter(self, key: K, place: P, now: float) -> bool:
        """Start to count a new key; returns whether its place is counted separately."""
        own = place in self._meters or len(self._meters) - (self._others in self._meters) < self._most
        counted = place if own else self._others
        meter = self._meters.setdefault(counted, _Meter(read_at=now))
        _read(meter, now)
        meter.running += 1
        self._where[key] = counted
        return own

    def leave(self, key: K, now: float) -> None:
        """Stop counting a key."""
        place = self._where.pop(key, None)
        if place is not None:
            meter = self._meters[place]
            _read(meter, now)
            meter.running -= 1

    def seconds(self, now: float) -> Iterator[tuple[P, float]]:
        """The seconds of each place."""
        for place, meter in self._meters.items():
            _read(meter, now)
            yield place, meter.seconds

    def keep(self, wanted: Callable[[P], bool]) -> None:
        """Remove unneeded places that have no keys; the others stay."""
        gone = [place for place, meter in self._meters.items() if not meter.running and not wanted(place)]
        for place in gone:
            if place != self._others:
                del self._meters[place]


def _read(meter: _Meter, now: float) -> None:
    meter.seconds += meter.running * (now - meter.read_at)
    meter.read_at = now


OTHERS: Final = "(others)"


class Queue(NamedTuple):
    """Key of one count of gangs; the queues are empty for those without one."""

    namespace: str
    local_queue: str
    cluster_queue: str


THE_OTHERS: Final = Queue(OTHERS, OTHERS, OTHERS)


@dataclass(frozen=True, slots=True)
class Limits:
    """How many have their own rows: JobSets, queues, causes by queue and phase, namespaces."""

    gangs: int = 2000
    queues: int = 500
    reasons: int = 2000
    namespaces: int = 200


@dataclass(slots=True)
class Row:
    """The gangs of one queue: by phase, their pods, and how many they are."""

    phases: Counter[GangPhase] = field(default_factory=Counter)
    sums: list[int] = field(default_factory=lambda: list(astuple(Counts())))
    gangs: int = 0

    @property
    def pods(self) -> Counts:
        """The sum of their pods."""
        return Counts(*self.sums)

    def add(self, readiness: Readiness, sign: int = 1) -> None:
        """Add one gang, or remove it if ``sign`` is -1."""
        _count(self.phases, readiness.phase, sign)
        self._sum(readiness.counts, sign)
        self.gangs += sign

    def merge(self, other: Row) -> None:
        """Add the counts of ``other``."""
        self.phases.update(other.phases)
        self._sum(other.pods, 1)
        self.gangs += other.gangs

    def _sum(self, pods: Counts, sign: int) -> None:
        for place, name in enumerate(Counts.__slots__):
            self.sums[place] += sign * getattr(pods, name)


DATED: Final = frozenset({GangPhase.PARTIALLY_PLACED, GangPhase.DEGRADED})
"""Phases of which it is known since when the JobSet that has been in them for longest is."""


class Blocked(NamedTuple):
    """The gangs of one queue and phase with one cause: their number, and the earliest start."""

    gangs: int
    since: int


class Hold(NamedTuple):
    """What holds gangs up, where, and how far they are: the key of one count of blocked gangs."""

    queue: Queue
    reason: Reason | None
    """None for one that nothing blocks."""
    phase: GangPhase


class Aggregates:
    """All observed gangs, and the sums over them."""

    def __init__(self, limits: Limits | None = None) -> None:
        """Start without gangs."""
        self.limits = limits or Limits()
        self.dropped: Counter[str] = Counter()
        """How often a new key got no row of its own, by the fields of :class:`Limits`."""
        self._gangs: dict[Key, Readiness] = {}
        self._rows: dict[Queue, Row] = {}
        self._blocked: dict[Hold, Oldest[Key]] = {}
        self._dated: dict[Hold, Oldest[Key]] = {}
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
        elif now is not None:
            self._came("gangs", len(self._gangs))

    def last(self, key: Key) -> Readiness | None:
        """The last reported readiness of one JobSet."""
        return self._gangs.get(key)

    def has(self, queue: Queue) -> bool:
        """Whether this queue has gangs."""
        return queue in self._rows

    def gangs(self) -> list[Readiness]:
        """The JobSets that have their own rows."""
        return list(islice(self._gangs.values(), self.limits.gangs))

    @property
    def without_row(self) -> int:
        """The number of JobSets without a row."""
        return max(0, len(self._gangs) - self.limits.gangs)

    def rows(self) -> Iterator[tuple[Queue, Row]]:
        """The gangs of each queue, and those of all other queues together."""
        rows = iter(self._rows.items())
        yield from islice(rows, self.limits.queues)
        others = Row()
        for _, row in rows:
            others.merge(row)
        if others.gangs:
            yield THE_OTHERS, others

    def blocked(self) -> Mapping[Hold, Blocked]:
        """The gangs with a cause, by queue, reason and phase; the earliest start is that of the cause."""
        return self._limited(self._blocked)

    def dated(self) -> Mapping[Hold, Blocked]:
        """The gangs in the phases :data:`DATED`; the earliest start is that of the phase, whatever the causes were."""
        return self._limited(self._dated)

    def _limited(self, table: Mapping[Hold, Oldest[Key]]) -> dict[Hold, Blocked]:
        own = set(islice(self._rows, self.limits.queues))
        found: dict[Hold, Blocked] = {}
        shown = 0
        for hold, oldest in table.items():
            blocked = Blocked(len(oldest), oldest.first())
            others = hold._replace(queue=THE_OTHERS)
            if hold.queue in own and shown < self.limits.reasons:
                shown += 1
                found[hold] = blocked
            elif (so_far := found.get(others)) is None:
                found[others] = blocked
            else:
                found[others] = Blocked(so_far.gangs + blocked.gangs, min(so_far.since, blocked.since))
        return found

    def shown(self) -> Callable[[Queue], Queue]:
        """A function that returns the row of a queue: its own, or that of the others."""
        own = set(islice(self._rows, self.limits.queues))
        return lambda queue: queue if queue in own else THE_OTHERS

    def lost(self) -> Mapping[tuple[str, str], int]:
        """Gangs that are scheduled pod by pod, by namespace and cause."""
        own = set(islice(self._namespaces, self.limits.namespaces))
        found: Counter[tuple[str, str]] = Counter()
        for (namespace, cause), gangs in self._lost.items():
            found[namespace if namespace in own else OTHERS, cause] += gangs
        return found

    def _add(self, now: Readiness, counted: Readiness | None, at: int) -> None:
        self._gangs[now.key] = now
        queue = queue_of(now)
        if (row := self._rows.get(queue)) is None:
            row = self._rows[queue] = Row()
            self._came("queues", len(self._rows))
        row.add(now)
        if (blocked := next((cause for cause in now.causes if cause.blocking), None)) is not None:
            self._block(now, blocked, counted, at)
        if now.phase in DATED:
            hold = Hold(queue, now.blocked_by, now.phase)
            if hold not in self._dated:
                self._dated[hold] = Oldest()
                # With a cause it has a row of that limit already.
                if now.blocked_by is None:
                    self._came("reasons", len(self._dated))
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
        since = cause.since or now.since
        if counted is not None and all(known.reason is not cause.reason for known in counted.causes):
            since = max(since, at)
        # A loop begins anew with each crash, and has lasted since the first, whatever phases it went through.
        if cause.reason is Reason.CRASH_LOOP and counted is not None:
            before = self._blocked.get(Hold(queue_of(counted), cause.reason, counted.phase))
            since = min((before and before.time(now.key)) or since, since)
        oldest.put(now.key, since)

    def _remove(self, counted: Readiness, now: Readiness | None) -> None:
        if now is None:
            del self._gangs[counted.key]
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


VAGUE: Final = frozenset(
    {Reason.NOT_READY, Reason.STARTING, Reason.PODS_MISSING, Reason.PODS_TERMINATING, Reason.UNKNOWN}
)
"""Reasons that describe the first symptom of a disturbance, not its origin."""


class Disruptions:
    """Detects once that a ready gang is no longer ready, with the reason found."""

    def __init__(self) -> None:
        """Start without disturbances."""
        self._open: dict[Key, Reason] = {}
        """Disturbed gangs with only a vague reason."""

    def stands(self, before: Readiness | None, now: Readiness | None) -> Reason | None:
        """The reason of a disturbance to count now."""
        stated = now or before
        if stated is None:
            return None
        if now is None or now.phase.settled:
            return self._open.pop(stated.key, None)
        if before is not None and before.phase is GangPhase.READY:
            self._open[now.key] = Reason.UNKNOWN
        if now.key not in self._open:
            return None
        reason = now.reason or Reason.UNKNOWN
        if reason in VAGUE:
            self._open[now.key] = reason
            return None
        del self._open[now.key]
        return reason


def transition(before: Readiness | None, now: Readiness | None) -> tuple[GangPhase, GangPhase] | None:
    """Old and new phase of a JobSet; None if it is unchanged, new or gone."""
    if before is None or now is None or before.uid != now.uid or before.phase is now.phase:
        return None
    return before.phase, now.phase


class Span(Enum):
    """Measured durations of a start."""

    TO_SCHEDULED = "from creation to the last node"
    TO_READY = "from creation to the last ready pod"
    ADMITTED_TO_READY = "from admission to the last ready pod"
    SPREAD = "from the first ready pod to the last"


@dataclass(frozen=True, slots=True)
class Measured:
    """One duration of one gang, in seconds."""

    span: Span
    seconds: int


@dataclass(slots=True)
class _Measurements:
    """Durations of one JobSet that were measured, possibly by another leader."""

    uid: str
    scheduled: bool = False
    ready: bool = False
    admitted_at: int = -1
    """The last measured admission."""
    start: tuple[int, int] = (-1, -1)
    """The last measured start: attempt and admission."""


class Starts:
    """Measures starts: once for each JobSet from its creation, once for each admission, and the spread of each attempt.

    A restarted JobSet is not measured from its creation, unless it has never been ready.
    """

    def __init__(self, since: float) -> None:
        """Measure events after ``since``, Unix seconds: when this replica became the leader."""
        # Times of Kubernetes are in whole seconds.
        self._since = int(since)
        self._known: dict[Key, _Measurements] = {}

    def forget(self, key: Key) -> None:
        """Remove a deleted JobSet."""
        self._known.pop(key, None)

    def stands(self, now: Readiness) -> list[Measured]:
        """The durations to record for the present state of a gang."""
        known = self._known.get(now.key)
        if known is None or known.uid != now.uid:
            known = self._known[now.key] = _Measurements(now.uid)
            if now.attempt:
                # The result of earlier attempts is unknown.
                known.scheduled = known.ready = True
                known.admitted_at = now.admitted_at
        spans: list[tuple[Span, int, int]] = []
        start = now.attempt, now.admitted_at
        if now.placed_at and not known.scheduled:
            known.scheduled = True
            spans.append((Span.TO_SCHEDULED, now.created_at, now.placed_at))
        if now.ready_at:
            if not known.ready:
                spans.append((Span.TO_READY, now.created_at, now.ready_at))
            if known.admitted_at != now.admitted_at <= now.ready_at:
                known.admitted_at = now.admitted_at
                spans.append((Span.ADMITTED_TO_READY, now.admitted_at, now.ready_at))
            if known.start != start:
                spans.append((Span.SPREAD, now.first_ready_at, now.ready_at))
            known.ready, known.start = True, start
        elif now.been_ready:
            known.ready, known.admitted_at, known.start = True, now.admitted_at, start
        # Both ends are known, and this replica observed the end.
        return [Measured(span, max(0, end - begin)) for span, begin, end in spans if begin and end >= self._since]
