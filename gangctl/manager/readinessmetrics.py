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

from prometheus_client import CollectorRegistry, Metric

from gangctl.controllers.readiness.controller import ReadinessObserver
from gangctl.gang.reasons import Reason
from gangctl.manager import costmetrics
from gangctl.manager.costmetrics import QUEUE, CostMetrics
from gangctl.readiness import starts
from gangctl.readiness.metrics import OTHERS, Aggregates, Queue, RowLimits, transition
from gangctl.readiness.restarts import MANY, WITHIN, RestartLog
from gangctl.readiness.result import GangPhase, Readiness
from gangctl.readiness.starts import Starts, StartSpan
from gangctl.runtime.families import Family, FirstCome, Scraped

JOBSET: Final = ("namespace", "jobset")
START: Final = ("cluster_queue", "level")
_START_SECONDS: Final = (1, 2.5, *(5 * 2**power for power in range(14)))
"""Kueue's, and two more: up to 40,960, so that one panel can show both waiting in a queue and starting."""

_PHASES: Final = ", ".join(phase.label for phase in GangPhase)
_WITHOUT_QUEUE: Final = "Queues are empty for a JobSet without one."

GANGS: Final = Family("gangctl_gangs", "gauge", f"JobSets by phase: {_PHASES}. {_WITHOUT_QUEUE}", (*QUEUE, "phase"))
PODS: Final = Family(
    "gangctl_gang_pods",
    "gauge",
    "Pods of gangs by state, each pod in one: missing (should exist and does not), unscheduled (without a node), "
    "unready (on a node), ready, succeeded.",
    (*QUEUE, "state"),
)
DESIRED: Final = Family(
    "gangctl_gangs_desired_pods",
    "gauge",
    "Pods that the specs of gangs ask for: parallelism times replicas.",
    QUEUE,
)
MINIMUM: Final = Family(
    "gangctl_gangs_min_pods", "gauge", "Pods of gangs that have to be scheduled together: the sum of minCount.", QUEUE
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
    "Since when a JobSet has been blocked by this cause in this phase, of those that are blocked by it the first (Unix "
    "time).",
    (*QUEUE, "reason", "phase"),
)
OLDEST_PHASE: Final = Family(
    "gangctl_oldest_gang_timestamp_seconds",
    "gauge",
    "Since when a JobSet has been in this phase, of those that are in it the first (Unix time), by what blocks it now: "
    "partiallyplaced and degraded.",
    (*QUEUE, "phase", "reason"),
)
RESTART_LOOPS: Final = Family(
    "gangctl_gangs_restart_loop",
    "gauge",
    f"JobSets that have restarted, or one Job of which has restarted alone, {MANY} times or more within the last "
    f"{WITHIN / 3600:.0f} hours.",
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
    "Information about one JobSet, always 1.",
    (*JOBSET, "local_queue", "cluster_queue", "level"),
)
STATUS_PHASE: Final = Family(
    "gangctl_gang_status_phase", "gauge", "The phase of one JobSet, always 1.", (*JOBSET, "phase")
)
STATUS_REASON: Final = Family(
    "gangctl_gang_status_reason",
    "gauge",
    "The most likely cause for which one JobSet is not ready, always 1; absent where there is none.",
    (*JOBSET, "reason"),
)
READY_PODS: Final = Family("gangctl_gang_ready_pods", "gauge", "Ready pods of one JobSet.", JOBSET)
WANTED_PODS: Final = Family(
    "gangctl_gang_wanted_pods", "gauge", "Pods of one JobSet that should exist, without those that succeeded.", JOBSET
)
PHASE_SINCE: Final = Family(
    "gangctl_gang_phase_timestamp_seconds", "gauge", "Since when one JobSet is in its phase (Unix time).", JOBSET
)
WITHOUT_SERIES: Final = Family(
    "gangctl_gangs_without_series",
    "gauge",
    "Unfinished JobSets without series of their own, because --metrics-jobset-limit others have them.",
)
TO_SCHEDULED: Final = Family(
    "gangctl_gang_time_to_scheduled_seconds",
    "histogram",
    "Seconds from the creation of a JobSet until all pods that have to start together had nodes for the first time.",
    START,
    _START_SECONDS,
)
TO_READY: Final = Family(
    "gangctl_gang_time_to_ready_seconds",
    "histogram",
    "Seconds from the creation of a JobSet until all its pods were ready for the first time.",
    START,
    _START_SECONDS,
)
ADMITTED_TO_READY: Final = Family(
    "gangctl_gang_admitted_to_ready_seconds",
    "histogram",
    "Seconds from each admission (by Kueue; without it, creation) until all pods were ready for the first time, "
    "without JobSets of which a part starts after the end of another (dependsOn Complete).",
    START,
    _START_SECONDS,
)
SPREAD: Final = Family(
    "gangctl_gang_ready_spread_seconds",
    "histogram",
    "Seconds from the first ready pod to the last at each start of a JobSet, without those of which a part starts "
    "after the end of another (dependsOn Complete).",
    START,
    _START_SECONDS,
)
STAGES: Final = Family(
    "gangctl_gang_start_stage_seconds_total",
    "counter",
    "Seconds of gangctl_gang_time_to_ready_seconds by stage, of the same gangs: admission (until the last admission by "
    "Kueue), scheduling (until all pods that start together had nodes), containers (until all were ready).",
    (*START, "stage"),
)
TRANSITIONS: Final = Family(
    "gangctl_gang_phase_transitions_total",
    "counter",
    "Changes of the phase of JobSets, by the phase before and after.",
    ("from", "to"),
)
DROPPED: Final = Family(
    "gangctl_series_dropped_total",
    "counter",
    "Label sets that were counted under (others), or left out, because the family had reached its limit of series.",
    ("family",),
)
EVALUATION_SECONDS: Final = Family(
    "gangctl_readiness_evaluation_duration_seconds",
    "histogram",
    "Duration of an evaluation of the readiness of a JobSet in seconds.",
    buckets=(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 1),
)
LAG: Final = Family(
    "gangctl_readiness_lag_seconds",
    "histogram",
    "Seconds from the first change of a gang that had not been evaluated until its new readiness was published.",
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)

SCRAPED: Final = (
    GANGS,
    PODS,
    DESIRED,
    MINIMUM,
    STRANDED,
    BLOCKED,
    OLDEST,
    OLDEST_PHASE,
    RESTART_LOOPS,
    LOST,
    INFO,
    STATUS_PHASE,
    STATUS_REASON,
    READY_PODS,
    WANTED_PODS,
    PHASE_SINCE,
    WITHOUT_SERIES,
    *costmetrics.SCRAPED,
)
"""Families that are computed from the gangs at each scrape; the others are updated by changes."""


MOST_STARTS: Final = 40
"""Pairs of ClusterQueue and level that have histograms of their own; one pair is 80 series."""
# OpenMetrics allows 128 characters for the labels of an exemplar, and prometheus_client raises beyond.
MOST_EXEMPLAR_CHARACTERS: Final = 128 - len("jobset")

HISTOGRAMS: Final = {
    StartSpan.TO_SCHEDULED: TO_SCHEDULED,
    StartSpan.TO_READY: TO_READY,
    StartSpan.ADMITTED_TO_READY: ADMITTED_TO_READY,
    StartSpan.SPREAD: SPREAD,
}
_CUT_OFF: Final = {
    "gangs": (INFO, STATUS_PHASE, STATUS_REASON, READY_PODS, WANTED_PODS, PHASE_SINCE),
    "queues": (GANGS, PODS, DESIRED, MINIMUM, STRANDED, RESTART_LOOPS),
    "reasons": (BLOCKED, OLDEST),
    "dated": (OLDEST_PHASE,),
    "namespaces": (LOST,),
}
"""Families by the limit of the aggregates that cuts them off."""
LIMITED: Final = (*chain(*_CUT_OFF.values()), *HISTOGRAMS.values(), *costmetrics.LIMITED)
"""All families with such a limit."""


class ReadinessMetrics(ReadinessObserver):
    """The collectors, in one registry, notified of every gang that the leader follows."""

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        limits: RowLimits | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """Register every family at once; ``wall`` is Unix time."""
        self._limits = limits or RowLimits()
        self._monotonic = monotonic
        self._wall = wall
        self._spans = {span: family.histogram(registry) for span, family in HISTOGRAMS.items()}
        self._stages = STAGES.counter(registry)
        self._transitions = TRANSITIONS.counter(registry)
        self._dropped = DROPPED.counter(registry)
        self._evaluation_seconds = EVALUATION_SECONDS.histogram(registry)
        self._lag = LAG.histogram(registry)
        self._costs = CostMetrics(registry, self._limits.queues, self._drop)
        self._pairs: FirstCome[tuple[str, str]] = FirstCome(MOST_STARTS)
        # Start at 0, so that the first event is an increase, too.
        for family in LIMITED:
            self._dropped.labels(family.name)
        self.forget()
        Scraped(registry, SCRAPED, self._scraped)

    def forget(self) -> None:
        """End the series of existing gangs: this replica no longer follows them."""
        self.aggregates = Aggregates(self._limits)
        self._starts: Starts | None = None
        self._restarts = RestartLog()
        self._costs.forget()

    def leads(self) -> None:
        """Measure what ends from now on; another leader has measured what ended before."""
        self._starts = Starts(self._wall())
        self._costs.leads(self._wall())

    def on_status_change(self, before: Readiness | None, now: Readiness | None) -> None:
        """Count one JobSet under its new readiness, and the transitions on the way."""
        stated = now or before
        if stated is None:
            return
        # A gang without earlier state here has not been counted here, whatever other replicas counted.
        last = self.aggregates.last(stated.key)
        self.aggregates.stands(last, now, self._wall())
        self._restarts.stands(last, now, self._monotonic())
        self._costs.on_status_change(last, now, self._monotonic())
        if (phases := transition(last, now)) is not None:
            self._transitions.labels(*(phase.label for phase in phases)).inc()
        self._measure(stated, now)
        while self.aggregates.dropped:
            what, times = self.aggregates.dropped.popitem()
            for family in _CUT_OFF[what]:
                self._drop(family, times)

    def evaluated(self, seconds: float, lag_seconds: float | None) -> None:
        """Record the duration of one evaluation, and the delay from its first change to its publication."""
        self._evaluation_seconds.observe(seconds)
        if lag_seconds is not None:
            self._lag.observe(lag_seconds)

    def _scraped(self) -> Iterable[Metric]:
        # A thread makes samples of these later, so they are copies.
        aggregates = self.aggregates
        rows, blocked, gangs = list(aggregates.rows()), aggregates.blocked().items(), aggregates.gangs()
        causes = Counter[tuple[Queue, Reason | None]]()
        for hold, held in blocked:
            causes[hold.queue, hold.reason] += held.gangs
        yield GANGS.metric(
            [((*queue, phase.label), count) for queue, row in rows for phase, count in row.phases.items()]
        )
        yield PODS.metric([((*queue, state), count) for queue, row in rows for state, count in row.states.items()])
        yield DESIRED.metric([(queue, row.desired) for queue, row in rows])
        yield MINIMUM.metric([(queue, row.minimum) for queue, row in rows])
        yield STRANDED.metric([(queue, row.stranded) for queue, row in rows])
        yield BLOCKED.metric(((*queue, reason or ""), count) for (queue, reason), count in causes.items())
        yield OLDEST.metric(
            ((*queue, reason or "", _label(phase)), held.since) for (queue, reason, phase), held in blocked
        )
        yield OLDEST_PHASE.metric(
            ((*queue, _label(phase), reason or ""), held.since)
            for (queue, reason, phase), held in aggregates.dated().items()
        )
        loops, shown = Counter[Queue](), aggregates.shown()
        for queue, count in self._restarts.loops(self._monotonic()).items():
            loops[shown(queue)] += count
        yield RESTART_LOOPS.metric(loops.items())
        yield LOST.metric(aggregates.lost().items())
        yield INFO.metric(((*gang.key, gang.local_queue, gang.cluster_queue, gang.level), 1) for gang in gangs)
        yield STATUS_PHASE.metric(((*gang.key, gang.phase.label), 1) for gang in gangs)
        yield STATUS_REASON.metric(((*gang.key, gang.reason.value), 1) for gang in gangs if gang.reason is not None)
        yield READY_PODS.metric((gang.key, gang.counts.ready) for gang in gangs)
        yield WANTED_PODS.metric((gang.key, gang.counts.wanted) for gang in gangs)
        yield PHASE_SINCE.metric((gang.key, gang.since) for gang in gangs)
        yield WITHOUT_SERIES.metric([((), aggregates.without_row)])
        yield from self._costs.scraped(self._monotonic())

    def _measure(self, stated: Readiness, now: Readiness | None) -> None:
        if self._starts is None:
            return
        if now is None:
            self._starts.forget(stated.key)
            return
        for measured in self._starts.stands(now):
            if measured.span in starts.STAGES:
                # Not counted as dropped: that is done for TO_READY, with which stages are measured.
                cluster_queue = now.cluster_queue if self._pairs.has_place((now.cluster_queue, now.level)) else OTHERS
                self._stages.labels(cluster_queue, now.level, measured.span.name.lower()).inc(measured.seconds)
                continue
            family = HISTOGRAMS[measured.span]
            cluster_queue = self._name(self._pairs, now.cluster_queue, now.level, family)
            exemplar = {"jobset": "/".join(now.key)[:MOST_EXEMPLAR_CHARACTERS]}
            self._spans[measured.span].labels(cluster_queue, now.level).observe(measured.seconds, exemplar)

    def _name(self, first: FirstCome[tuple[str, str]], cluster_queue: str, beside: str, family: Family) -> str:
        if first.has_place((cluster_queue, beside)):
            return cluster_queue
        self._drop(family, 1)
        return OTHERS

    def _drop(self, family: Family, times: int) -> None:
        self._dropped.labels(family.name).inc(times)


def _label(phase: GangPhase | None) -> str:
    return phase.label if phase is not None else ""
