"""Readiness of gangs, as Prometheus metrics: their families, labels and values.

Gauges are read from the aggregates when they are scraped, so the series of an object end when it goes. Histograms
and counters follow from changes. Labels hold names of queues, namespaces and JobSets, and every family has a limit
of them (docs/metrics.md has the sums): beyond it, gangs are counted under ``(others)``, and per JobSet not at all.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Final

from prometheus_client import CollectorRegistry, Histogram, Metric
from prometheus_client import Counter as CounterMetric

from gangctl.controllers.readiness.controller import ReadinessObserver
from gangctl.gang.reasons import Reason
from gangctl.readiness.metrics import (
    OTHERS,
    THE_OTHERS,
    Aggregates,
    Disruptions,
    Lapse,
    Limits,
    Queue,
    Span,
    Starts,
    queue_of,
    transition,
)
from gangctl.readiness.restarts import MANY, WITHIN, Restarts
from gangctl.readiness.result import Counts, GangPhase, Readiness
from gangctl.runtime.metrics import Family, Scraped

QUEUE: Final = ("namespace", "local_queue", "cluster_queue")
JOBSET: Final = ("namespace", "jobset")
START: Final = ("cluster_queue", "level")

STATES: Final = ("desired", "minimum", "wanted", "created", "scheduled", "ready", "succeeded")

_PHASES: Final = ", ".join(phase.label for phase in GangPhase)
_WITHOUT_QUEUE: Final = "Queues are empty for a JobSet without one."

GANGS: Final = Family("gangctl_gangs", "gauge", f"JobSets by phase: {_PHASES}. {_WITHOUT_QUEUE}", (*QUEUE, "phase"))
PODS: Final = Family(
    "gangctl_gang_pods",
    "gauge",
    "Pods of gangs by state: desired (as configured), minimum (to be placed together), wanted (desired without those "
    "that have finished), created, scheduled, ready, succeeded.",
    (*QUEUE, "state"),
)
STRANDED: Final = Family(
    "gangctl_gang_stranded_pods", "gauge", "Pods that hold nodes while their group is short of its minimum.", QUEUE
)
BLOCKED: Final = Family(
    "gangctl_gangs_blocked",
    "gauge",
    "JobSets by the most likely cause that does not end by itself: a reason of docs/metrics.md.",
    (*QUEUE, "reason"),
)
OLDEST: Final = Family(
    "gangctl_oldest_blocked_gang_timestamp_seconds",
    "gauge",
    "Since when the one that has been blocked for longest by this cause, in this phase, is (Unix time).",
    (*QUEUE, "reason", "phase"),
)
OLDEST_PHASE: Final = Family(
    "gangctl_oldest_gang_timestamp_seconds",
    "gauge",
    "Since when the JobSet that has been in this phase for longest is in it (Unix time), by what blocks it now: "
    "partiallyplaced and degraded.",
    (*QUEUE, "phase", "reason"),
)
RESTART_LOOPS: Final = Family(
    "gangctl_gangs_restart_loop",
    "gauge",
    f"JobSets that have restarted {MANY} times or more within the last {WITHIN / 3600:.0f} hours.",
    QUEUE,
)
LOST: Final = Family(
    "gangctl_guarantee_lost_gangs",
    "gauge",
    "JobSets that asked for a gang and are scheduled pod by pod, by cause: SchedulingGateOff, FieldDropped, NotGanged.",
    ("namespace", "cause"),
)
INFO: Final = Family(
    "gangctl_gang_info",
    "gauge",
    "What is known of one JobSet, always 1; reason is the most likely cause, empty where there is none.",
    (*JOBSET, "local_queue", "cluster_queue", "level", "phase", "reason"),
)
READY_PODS: Final = Family("gangctl_gang_ready_pods", "gauge", "Ready pods of one JobSet.", JOBSET)
WANTED_PODS: Final = Family("gangctl_gang_wanted_pods", "gauge", "Pods that one JobSet should have now.", JOBSET)
PHASE_SINCE: Final = Family(
    "gangctl_gang_phase_timestamp_seconds", "gauge", "Since when one JobSet is in its phase (Unix time).", JOBSET
)
WITHOUT_SERIES: Final = Family(
    "gangctl_gangs_without_series", "gauge", "JobSets beyond those (2,000) that have series of their own."
)
TO_SCHEDULED: Final = Family(
    "gangctl_gang_time_to_scheduled_seconds",
    "histogram",
    "Seconds from the creation of a JobSet until all pods that have to start together had nodes for the first time.",
    START,
)
TO_READY: Final = Family(
    "gangctl_gang_time_to_ready_seconds",
    "histogram",
    "Seconds from the creation of a JobSet until all its pods were ready for the first time.",
    START,
)
ADMITTED_TO_READY: Final = Family(
    "gangctl_gang_admitted_to_ready_seconds",
    "histogram",
    "Seconds from each admission (by Kueue; without it, creation) until all pods were ready for the first time.",
    START,
)
SPREAD: Final = Family(
    "gangctl_gang_ready_spread_seconds",
    "histogram",
    "Seconds from the first ready pod to the last at each start of a JobSet: time for which nodes stood idle.",
    START,
)
TRANSITIONS: Final = Family(
    "gangctl_gang_phase_transitions_total",
    "counter",
    "Changes of phase, each as the label phase of gangctl_gangs has it.",
    ("from", "to"),
)
DISRUPTIONS: Final = Family(
    "gangctl_gang_disruptions_total",
    "counter",
    "Times at which a gang that had been ready was not any more and had not finished, by reason.",
    ("cluster_queue", "reason"),
)
DEGRADED: Final = Family(
    "gangctl_gang_degraded_seconds_total",
    "counter",
    "Seconds that JobSets spent in the phase degraded, together.",
    QUEUE,
)
DROPPED: Final = Family(
    "gangctl_series_dropped_total",
    "counter",
    "Times at which something new was counted under (others), or not at all, because a family has all its series.",
    ("family",),
)
EVALUATIONS: Final = Family(
    "gangctl_readiness_evaluations_total", "counter", "Times at which the readiness of a JobSet was computed."
)
EVALUATION_SECONDS: Final = Family(
    "gangctl_readiness_evaluation_duration_seconds", "histogram", "Seconds that computing took."
)
LAG: Final = Family(
    "gangctl_readiness_lag_seconds",
    "histogram",
    "Seconds from the first change of a gang that was not reckoned with until its new readiness was published.",
)

SCRAPED: Final = (
    GANGS,
    PODS,
    STRANDED,
    BLOCKED,
    OLDEST,
    OLDEST_PHASE,
    RESTART_LOOPS,
    LOST,
    INFO,
    READY_PODS,
    WANTED_PODS,
    PHASE_SINCE,
    WITHOUT_SERIES,
    DEGRADED,
)
"""Families that are computed from the gangs at each scrape; the others are updated by changes."""


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
    Span.TO_SCHEDULED: TO_SCHEDULED,
    Span.TO_READY: TO_READY,
    Span.ADMITTED_TO_READY: ADMITTED_TO_READY,
    Span.SPREAD: SPREAD,
}
_CUT_OFF: Final = {
    "gangs": (INFO, READY_PODS, WANTED_PODS, PHASE_SINCE),
    "queues": (GANGS, PODS, STRANDED, RESTART_LOOPS),
    "reasons": (BLOCKED, OLDEST, OLDEST_PHASE),
    "namespaces": (LOST,),
}
"""Families by the limit of the aggregates that cuts them off."""
_LIMITED: Final = (*chain(*_CUT_OFF.values()), *_HISTOGRAMS.values(), DISRUPTIONS, DEGRADED)
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
        self._transitions = _counter(TRANSITIONS, registry)
        self._disruptions = _counter(DISRUPTIONS, registry)
        self._dropped = _counter(DROPPED, registry)
        self._evaluations = _counter(EVALUATIONS, registry)
        self._evaluation_seconds = _histogram(EVALUATION_SECONDS, _EVALUATION_SECONDS, registry)
        self._lag = _histogram(LAG, _LAG_SECONDS, registry)
        self._pairs = _FirstCome(MOST_STARTS)
        self._reasons = _FirstCome(MOST_DISRUPTIONS)
        # Start at 0, so that the first event is an increase, too.
        for family in _LIMITED:
            self._dropped.labels(family.name)
        self.forget()
        Scraped(registry, SCRAPED, self._scraped)

    def forget(self) -> None:
        """End the series of existing gangs: this replica no longer follows them."""
        self.aggregates = Aggregates(self._limits)
        self._degraded: Lapse[tuple[str, str], Queue] = Lapse(self._limits.queues, THE_OTHERS)
        self._starts: Starts | None = None
        self._restarts = Restarts()
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
        self.aggregates.stands(last, now, self._wall())
        self._restarts.stands(last, now, self._monotonic())
        self._count_time(last, now)
        if (phases := transition(last, now)) is not None:
            self._transitions.labels(*(phase.label for phase in phases)).inc()
        if (reason := self._found.stands(last, now)) is not None:
            cluster_queue = self._name(self._reasons, stated.cluster_queue, reason.value, DISRUPTIONS)
            self._disruptions.labels(cluster_queue, reason.value).inc()
        self._measure(stated, now)
        self._count_dropped()

    def evaluated(self, seconds: float, lag_seconds: float | None) -> None:
        """Record the duration of one evaluation, and the delay from its first change to its publication."""
        self._evaluations.inc()
        self._evaluation_seconds.observe(seconds)
        if lag_seconds is not None:
            self._lag.observe(lag_seconds)

    def _scraped(self) -> Iterable[Metric]:
        # A thread makes samples of these later, so they are copies.
        aggregates = self.aggregates
        queues = [(queue, tuple(row.phases.items()), row.pods) for queue, row in aggregates.rows()]
        blocked, gangs = aggregates.blocked().items(), aggregates.gangs()
        causes = Counter[tuple[Queue, Reason | None]]()
        for hold, found in blocked:
            causes[hold.queue, hold.reason] += found.gangs
        yield GANGS.metric(((*queue, phase.label), count) for queue, phases, _ in queues for phase, count in phases)
        yield PODS.metric(((*queue, state), count) for queue, _, pods in queues for state, count in _states(pods))
        yield STRANDED.metric((queue, pods.stranded) for queue, _, pods in queues)
        yield BLOCKED.metric(((*queue, reason or ""), count) for (queue, reason), count in causes.items())
        yield OLDEST.metric(
            ((*queue, reason or "", phase.label), found.since) for (queue, reason, phase), found in blocked
        )
        yield OLDEST_PHASE.metric(
            ((*queue, phase.label, reason or ""), found.since)
            for (queue, reason, phase), found in aggregates.dated().items()
        )
        loops, shown = Counter[Queue](), aggregates.shown()
        for queue, count in self._restarts.loops(self._monotonic()).items():
            loops[shown(queue)] += count
        yield RESTART_LOOPS.metric(loops.items())
        yield LOST.metric(aggregates.lost().items())
        yield INFO.metric((_known_of(gang), 1) for gang in gangs)
        yield READY_PODS.metric((gang.key, gang.counts.ready) for gang in gangs)
        yield WANTED_PODS.metric((gang.key, gang.counts.wanted) for gang in gangs)
        yield PHASE_SINCE.metric((gang.key, gang.since) for gang in gangs)
        yield WITHOUT_SERIES.metric([((), aggregates.without_row)])
        # Queues without gangs are forgotten.
        self._degraded.keep(aggregates.has)
        yield DEGRADED.metric([*self._degraded.seconds(self._monotonic())])

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
            self._dropped.labels(DEGRADED.name).inc()

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


def _states(pods: Counts) -> Iterable[tuple[str, int]]:
    counts = (pods.desired, pods.minimum, pods.wanted, pods.created, pods.placed, pods.ready, pods.finished)
    return zip(STATES, counts, strict=True)


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


def _counter(family: Family, registry: CollectorRegistry) -> CounterMetric:
    return CounterMetric(family.name, family.help, family.labels, unit=family.unit, registry=registry)


def _histogram(family: Family, buckets: tuple[float, ...], registry: CollectorRegistry) -> Histogram:
    return Histogram(family.name, family.help, family.labels, unit=family.unit, buckets=buckets, registry=registry)
