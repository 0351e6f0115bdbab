"""Readiness of gangs, as Prometheus metrics.

Gauges are read from the aggregates when they are scraped, so the series of an object end when it goes. Histograms and
counters follow from changes. Labels hold names of queues, namespaces and JobSets, and every family has a limit of them
(docs/metrics.md has the sums): beyond it, gangs are counted under ``(others)``, and per JobSet not at all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram, Metric
from prometheus_client.registry import Collector

from gangctl.controllers.readiness.observer import ReadinessObserver
from gangctl.manager import readinessfamilies as families
from gangctl.readiness.aggregates import OTHERS, THE_OTHERS, Aggregates, Lapse, Limits, Queue, queue_of
from gangctl.readiness.changes import Disruptions, Span, Starts, transition
from gangctl.readiness.phases import GangPhase
from gangctl.readiness.result import Counts, Readiness
from gangctl.runtime.metrics import Family

MOST_STARTS: Final = 40
"""Pairs of ClusterQueue and level that have histograms of their own; one pair is 80 series."""
MOST_DISRUPTIONS: Final = 200
"""Pairs of ClusterQueue and reason that are counted on their own."""
MOST_EXEMPLAR_CHARACTERS: Final = 128 - len("jobset")

_START_SECONDS: Final = (1, 2.5, *(5 * 2**power for power in range(14)))
"""Kueue's, and two more: up to 40,960, so that one panel can show both waiting in a queue and starting."""
_EVALUATION_SECONDS: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 1)
_LAG_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)

_HISTOGRAMS: Final = {
    Span.TO_SCHEDULED: families.TO_SCHEDULED,
    Span.TO_READY: families.TO_READY,
    Span.ADMITTED_TO_READY: families.ADMITTED_TO_READY,
    Span.SPREAD: families.SPREAD,
}
_CUT_OFF: Final = {
    "gangs": (families.INFO, families.READY_PODS, families.WANTED_PODS, families.PHASE_SINCE),
    "queues": (families.GANGS, families.PODS, families.STRANDED),
    "reasons": (families.BLOCKED, families.OLDEST),
    "namespaces": (families.LOST,),
}
"""Families by the limit of the aggregates that cuts them off."""
_LIMITED: Final = (*chain(*_CUT_OFF.values()), *_HISTOGRAMS.values(), families.DISRUPTIONS, families.DEGRADED)
"""All families with such a limit."""


class ReadinessMetrics(ReadinessObserver):
    """The collectors, in one registry, notified of every gang that the leader follows."""

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        limits: Limits | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """Register every family at once; ``wall`` is Unix time."""
        self._limits = limits or Limits()
        self._monotonic = monotonic
        self._wall = wall
        self._spans = {span: _histogram(family, _START_SECONDS, registry) for span, family in _HISTOGRAMS.items()}
        self._transitions = _counter(families.TRANSITIONS, registry)
        self._disruptions = _counter(families.DISRUPTIONS, registry)
        self._dropped = _counter(families.DROPPED, registry)
        self._evaluations = _counter(families.EVALUATIONS, registry)
        self._evaluation_seconds = _histogram(families.EVALUATION_SECONDS, _EVALUATION_SECONDS, registry)
        self._lag = _histogram(families.LAG, _LAG_SECONDS, registry)
        self._pairs = _FirstCome(MOST_STARTS)
        self._reasons = _FirstCome(MOST_DISRUPTIONS)
        # Start at 0, so that the first event is an increase, too.
        for family in _LIMITED:
            self._dropped.labels(family.name)
        self.forget()
        registry.register(_Gauges(self))

    def forget(self) -> None:
        """End the series of existing gangs: this replica no longer follows them."""
        self.aggregates = Aggregates(self._limits)
        self._degraded: Lapse[tuple[str, str], Queue] = Lapse(self._limits.queues, THE_OTHERS)
        self._starts: Starts | None = None
        self._found = Disruptions()

    def leads(self) -> None:
        """Measure what ends from now on; another leader has measured what ended before."""
        self._starts = Starts(self._wall())

    def on_status_change(self, before: Readiness | None, now: Readiness | None) -> None:
        """Count one JobSet under its new readiness, and the transitions on the way."""
        stated = now or before
        if stated is None:
            return
        # A gang without earlier state here has not been counted here, whatever other replicas counted.
        last = self.aggregates.last(stated.key)
        self.aggregates.stands(last, now)
        self._count_time(last, now)
        if (phases := transition(last, now)) is not None:
            self._transitions.labels(*(phase.label for phase in phases)).inc()
        if (reason := self._found.stands(last, now)) is not None:
            cluster_queue = self._name(self._reasons, stated.cluster_queue, reason.value, families.DISRUPTIONS)
            self._disruptions.labels(cluster_queue, reason.value).inc()
        self._measure(stated, now)
        self._count_dropped()

    def evaluated(self, seconds: float, lag_seconds: float | None) -> None:
        """Record the duration of one evaluation, and the delay from its first change to its publication."""
        self._evaluations.inc()
        self._evaluation_seconds.observe(seconds)
        if lag_seconds is not None:
            self._lag.observe(lag_seconds)

    def seconds_degraded(self) -> Iterable[tuple[Queue, float]]:
        """Seconds that gangs of each queue have been degraded; queues without gangs are forgotten."""
        self._degraded.keep(self.aggregates.has)
        return self._degraded.seconds(self._monotonic())

    def _measure(self, stated: Readiness, now: Readiness | None) -> None:
        if self._starts is None:
            return
        if now is None:
            self._starts.forget(stated.key)
            return
        for measured in self._starts.stands(now):
            family = _HISTOGRAMS[measured.span]
            cluster_queue = self._name(self._pairs, now.cluster_queue, now.level, family)
            exemplar = {"jobset": "/".join(now.key)[:MOST_EXEMPLAR_CHARACTERS]}
            self._spans[measured.span].labels(cluster_queue, now.level).observe(measured.seconds, exemplar)

    def _count_time(self, last: Readiness | None, now: Readiness | None) -> None:
        """Move a degraded gang from one queue's time to another's."""
        was = queue_of(last) if last is not None and last.phase is GangPhase.DEGRADED else None
        is_now = queue_of(now) if now is not None and now.phase is GangPhase.DEGRADED else None
        if was == is_now:
            return
        if last is not None and was is not None:
            self._degraded.leave(last.key, self._monotonic())
        if now is not None and is_now is not None and not self._degraded.enter(now.key, is_now, self._monotonic()):
            self._dropped.labels(families.DEGRADED.name).inc()

    def _name(self, first: _FirstCome, cluster_queue: str, beside: str, family: Family) -> str:
        if first.has_place((cluster_queue, beside)):
            return cluster_queue
        self._dropped.labels(family.name).inc()
        return OTHERS

    def _count_dropped(self) -> None:
        while self.aggregates.dropped:
            what, times = self.aggregates.dropped.popitem()
            for family in _CUT_OFF[what]:
                self._dropped.labels(family.name).inc(times)


class _Gauges(Collector):
    """The gauges, computed at each scrape."""

    def __init__(self, metrics: ReadinessMetrics) -> None:
        self._metrics = metrics

    def describe(self) -> Iterable[Metric]:
        """Every possible family."""
        return [family.metric() for family in families.SCRAPED]

    def collect(self) -> Iterable[Metric]:
        """The current values."""
        aggregates = self._metrics.aggregates
        yield from _by_queue(aggregates)
        yield from _by_reason(aggregates)
        yield from _by_jobset(aggregates)
        seconds = list(self._metrics.seconds_degraded())
        yield families.DEGRADED.metric(lambda: seconds)


# The data read from the aggregates must not change while a thread makes samples of it.


def _by_queue(aggregates: Aggregates) -> Iterable[Metric]:
    rows = [(queue, tuple(row.phases.items()), row.pods) for queue, row in aggregates.rows()]
    return (
        families.GANGS.metric(
            lambda: (((*queue, phase.label), count) for queue, phases, _ in rows for phase, count in phases)
        ),
        families.PODS.metric(
            lambda: (((*queue, state), count) for queue, _, pods in rows for state, count in _states(pods))
        ),
        families.STRANDED.metric(lambda: ((queue, pods.stranded) for queue, _, pods in rows)),
    )


def _states(pods: Counts) -> Iterable[tuple[str, int]]:
    counts = (pods.desired, pods.minimum, pods.wanted, pods.created, pods.placed, pods.ready, pods.finished)
    return zip(families.STATES, counts, strict=True)


def _by_reason(aggregates: Aggregates) -> Iterable[Metric]:
    blocked, lost = aggregates.blocked(), aggregates.lost()
    return (
        families.BLOCKED.metric(
            lambda: (((*queue, reason.value), found.gangs) for (queue, reason), found in blocked.items())
        ),
        families.OLDEST.metric(
            lambda: (((*queue, reason.value), found.since) for (queue, reason), found in blocked.items())
        ),
        families.LOST.metric(lost.items),
    )


def _by_jobset(aggregates: Aggregates) -> Iterable[Metric]:
    gangs, without = aggregates.gangs(), aggregates.without_row
    return (
        families.INFO.metric(lambda: ((_known_of(gang), 1) for gang in gangs)),
        families.READY_PODS.metric(lambda: ((gang.key, gang.counts.ready) for gang in gangs)),
        families.WANTED_PODS.metric(lambda: ((gang.key, gang.counts.wanted) for gang in gangs)),
        families.PHASE_SINCE.metric(lambda: ((gang.key, gang.since) for gang in gangs)),
        families.WITHOUT_SERIES.metric(lambda: [((), without)]),
    )


def _known_of(gang: Readiness) -> tuple[str, ...]:
    reason = gang.reason.value if gang.reason is not None else ""
    return (*gang.key, gang.local_queue, gang.cluster_queue, gang.level, gang.phase.label, reason)


class _FirstCome:
    """Pairs of labels with series of their own: the first ones, permanently, because counters never go back."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: set[tuple[str, str]] = set()

    def has_place(self, pair: tuple[str, str]) -> bool:
        if pair not in self._known and len(self._known) < self._most:
            self._known.add(pair)
        return pair in self._known


def _counter(family: Family, registry: CollectorRegistry) -> Counter:
    return Counter(family.name, family.help, family.labels, unit=family.unit, registry=registry)


def _histogram(family: Family, buckets: tuple[float, ...], registry: CollectorRegistry) -> Histogram:
    return Histogram(family.name, family.help, family.labels, unit=family.unit, buckets=buckets, registry=registry)
