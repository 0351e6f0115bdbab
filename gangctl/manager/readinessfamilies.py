"""The metric families of readiness: names, labels and what they mean, in one place."""

from __future__ import annotations

from typing import Final

from gangctl.readiness.phases import GangPhase
from gangctl.runtime.metrics import Family

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
    "Since when the one that has been blocked for longest by this cause is (Unix time).",
    (*QUEUE, "reason"),
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
    LOST,
    INFO,
    READY_PODS,
    WANTED_PODS,
    PHASE_SINCE,
    WITHOUT_SERIES,
    DEGRADED,
)
"""Families that are computed from the gangs at each scrape; the others are updated by changes."""
