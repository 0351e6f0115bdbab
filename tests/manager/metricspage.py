"""Writes docs/metrics.md from the families that a process has.

python -m tests.manager.metricspage
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, get_args

from gangctl.controllers.pathways.controller import MOST_NAMESPACES
from gangctl.gang.plan import Level
from gangctl.manager import costmetrics as costs
from gangctl.manager import readinessmetrics as gangs
from gangctl.pathways.status import PathwaysPhase
from gangctl.readiness.causes import PROMISES, TIERS
from gangctl.readiness.metrics import DATED, OTHERS, PodState, RowLimits
from gangctl.readiness.result import GangPhase
from gangctl.readiness.starts import STAGES
from gangctl.runtime.families import Family
from gangctl.runtime.shards import MOST_SHARDS
from tests.manager.families import families

PAGE: Final = Path(__file__).parents[2] / "docs" / "metrics.md"
LIMITS: Final = RowLimits()
REASONS: Final = tuple(reason for _, reasons in TIERS for reason in reasons)
"""Every cause that can keep a gang."""


class Bound(NamedTuple):
    """How many label sets a family has at most, and how that comes about."""

    sets: int
    text: str


def _product(*factors: tuple[int, str]) -> Bound:
    return Bound(math.prod(count for count, _ in factors), " x ".join(f"{count:,} {what}" for count, what in factors))


def _and_others(own: int, rest: int, what: str, each: str) -> Bound:
    return Bound(own + rest, f"{own:,} {what} + {rest} {each} of {OTHERS}")


_QUEUES: Final = (LIMITS.queues + 1, "queues")
_JOBSETS: Final = _product((LIMITS.gangs, "JobSets"))
_LEVELS: Final = get_args(Level)
_BY_REASON: Final = _and_others(LIMITS.reasons, len(REASONS), "pairs of queue and reason", "reasons")
_CAUSES: Final = "causes by queue and phase"
_STARTS_BY: Final = "pairs of ClusterQueue and level"
_BY_START: Final = _and_others(gangs.MOST_STARTS, len(_LEVELS), _STARTS_BY, "levels")
_BY_STAGE: Final = _product((_BY_START.sets, _STARTS_BY), (len(STAGES), "stages"))
_LOST_BY: Final = "pairs of ClusterQueue and reason"
_BY_LOSS: Final = _and_others(costs.MOST_LOSSES, len(REASONS), _LOST_BY, "reasons")
_BY_RECOVERY: Final = _and_others(costs.MOST_RECOVERIES, len(REASONS), _LOST_BY, "reasons")
_BY_RESOURCE: Final = _and_others(costs.MOST_HELD, costs.MOST_RESOURCES + 1, "pairs of queue and resource", "resources")
_ONE: Final = Bound(1, "1")

READINESS: Final[Mapping[str, Bound]] = {
    gangs.GANGS.name: _product(_QUEUES, (len(GangPhase), "phases")),
    gangs.PODS.name: _product(_QUEUES, (len(PodState), "states")),
    gangs.DESIRED.name: _product(_QUEUES),
    gangs.MINIMUM.name: _product(_QUEUES),
    gangs.STRANDED.name: _product(_QUEUES),
    gangs.BLOCKED.name: _BY_REASON,
    gangs.OLDEST.name: _and_others(LIMITS.reasons, len(REASONS) * (len(DATED) + 1), _CAUSES, "reasons in phases"),
    gangs.OLDEST_PHASE.name: _and_others(LIMITS.dated, (len(REASONS) + 1) * len(DATED), _CAUSES, "reasons in phases"),
    gangs.RESTART_LOOPS.name: _product(_QUEUES),
    gangs.LOST.name: _product((LIMITS.namespaces + 1, "namespaces"), (len(PROMISES), "causes")),
    gangs.INFO.name: _JOBSETS,
    gangs.STATUS_PHASE.name: _JOBSETS,
    gangs.STATUS_REASON.name: _JOBSETS,
    gangs.READY_PODS.name: _JOBSETS,
    gangs.WANTED_PODS.name: _JOBSETS,
    gangs.PHASE_SINCE.name: _JOBSETS,
    gangs.WITHOUT_SERIES.name: _ONE,
    gangs.TO_SCHEDULED.name: _BY_START,
    gangs.TO_READY.name: _BY_START,
    gangs.ADMITTED_TO_READY.name: _BY_START,
    gangs.SPREAD.name: _BY_START,
    gangs.TRANSITIONS.name: _product((len(GangPhase), "phases"), (len(GangPhase) - 1, "others")),
    gangs.STAGES.name: _BY_STAGE,
    costs.DISRUPTIONS.name: _BY_LOSS,
    costs.RECOVERY.name: _BY_RECOVERY,
    costs.ATTEMPTS.name: _product(_QUEUES),
    costs.DEGRADED.name: _product(_QUEUES),
    costs.ALLOCATED.name: _BY_RESOURCE,
    costs.READY.name: _BY_RESOURCE,
    costs.INCOMPLETE.name: _BY_RESOURCE,
    costs.RESTARTING.name: _BY_RESOURCE,
    gangs.DROPPED.name: Bound(len(gangs.LIMITED), f"{len(gangs.LIMITED)} families"),
    gangs.EVALUATION_SECONDS.name: _ONE,
    gangs.LAG.name: _ONE,
}

_RESOURCES: Final = "resources that gangctl reads or writes (about 30)"
_POLICIES: Final = "201 policies"
_WORK_QUEUES: Final = (
    "8 queues: gangs, gangobjects, verdicts, policies, admission-checks, queued-workloads, pathways, evictions"
)
OTHER_BOUNDS: Final[Mapping[str, str]] = {
    "gangctl_admission_duration_seconds": "webhook paths (7) x 4 verdicts",
    "gangctl_api_support_info": "2 resources",
    "gangctl_build_info": "1",
    "gangctl_certificate_expiration_timestamp_seconds": "2 usages",
    "gangctl_certificate_reads_total": "2 results",
    "gangctl_drift_repairs_total": "2 kinds x 4 field classes",
    "gangctl_event_loop_lag_seconds": "1",
    "gangctl_events_total": "5 results",
    "gangctl_feature_enabled": "9 features",
    "gangctl_stranded_gangs_evicted_total": "1",
    "gangctl_stranded_pod_evictions_total": "3 results",
    "gangctl_fit_verdicts": "501 queues x 4 verdicts",
    "gangctl_informer_errors_total": f"{_RESOURCES} x 2 places",
    "gangctl_informer_last_contact_timestamp_seconds": _RESOURCES,
    "gangctl_informer_objects": _RESOURCES,
    "gangctl_informer_synced": _RESOURCES,
    "gangctl_rest_client_request_duration_seconds": f"verbs (9) x {_RESOURCES}",
    "gangctl_rest_client_requests_total": f"verbs (9) x {_RESOURCES} x status codes that occur",
    "gangctl_leader_election_master_status": "1",
    "gangctl_pathways_jobs": f"{MOST_NAMESPACES + 1} namespaces x {len(PathwaysPhase) + 1} phases",
    "gangctl_pathways_deferring": "1",
    "gangctl_policies": "2 states",
    "gangctl_policy_evaluation_duration_seconds": "local and 3 queues",
    "gangctl_policy_evaluations_total": f"{_POLICIES} x 4 results x 4 actions",
    "gangctl_policy_exceptions": "1",
    "gangctl_policy_kills_total": f"{_POLICIES} x 4 whys",
    "gangctl_policy_last_scan_timestamp_seconds": "1",
    "gangctl_policy_scan_duration_seconds": "1",
    "gangctl_policy_scan_failures_total": "1",
    "gangctl_policy_scanned_jobsets": "1",
    "gangctl_policy_unanswered_total": "3 queues x 3 whys",
    "gangctl_policy_violations": "200 policies, each with its severity and action",
    "gangctl_policy_waiting": "3 queues",
    "gangctl_policy_worker_deaths_total": "5 whys",
    "gangctl_policy_workers_broken": "1",
    "gangctl_reconcile_duration_seconds": _WORK_QUEUES,
    "gangctl_reconcile_errors_total": "7 queues x classes of errors (about 20)",
    "gangctl_reconcile_total": "7 queues x 4 results",
    "gangctl_shard_leader_election_master_status": f"{MOST_SHARDS} shards",
    "gangctl_translations_total": "4 levels x 8 results",
    "gangctl_watch_restarts_total": f"{_RESOURCES} x reasons (about 20)",
    "gangctl_workqueue_adds_total": _WORK_QUEUES,
    "gangctl_workqueue_depth": _WORK_QUEUES,
    "gangctl_workqueue_longest_running_processor_seconds": _WORK_QUEUES,
    "gangctl_workqueue_queue_duration_seconds": _WORK_QUEUES,
    "gangctl_workqueue_retries_total": _WORK_QUEUES,
    "gangctl_workqueue_unfinished_work_seconds": _WORK_QUEUES,
    "gangctl_workqueue_work_duration_seconds": _WORK_QUEUES,
    "process_cpu_seconds_total": "1",
    "process_max_fds": "1",
    "process_open_fds": "1",
    "process_resident_memory_bytes": "1",
    "process_start_time_seconds": "1",
    "process_virtual_memory_bytes": "1",
}

_STARTS: Final = (
    "Each start is observed once, by the replica that was the leader when it ended: a restart of gangctl or a change "
    "of leaders does not observe it again, and neither does the recovery of a gang. The start after a restart of a "
    "JobSet is observed as spread only, because its time since the creation contains the time for which it ran. The "
    "stages of a start are of the gangs that `gangctl_gang_time_to_ready_seconds` has observed, and add up to its sum: "
    "the mean of a stage is the increase of its seconds, divided by the increase of "
    "`gangctl_gang_time_to_ready_seconds_count`."
)
_STATE: Final = (
    "Exported by the leader. A series ends with the last gang that it counts. The states of `gangctl_gang_pods` are "
    "disjoint: their sum is the number of pods that there should be, with those that have succeeded."
)
_COSTS: Final = (
    "Counters of the leader. **What happened before this replica became the leader is not counted**: a loss, a "
    "recovery or an attempt that began earlier, and the time until then. They begin at 0 with each leader, so use "
    "`rate` and `increase`, and sum over `instance`. A missed watch event delays what is counted, but loses nothing: "
    "times of losses and starts are those in the objects, and resources are held until a change is seen.\n\n"
    "Resources are `pods` (1 each) and the extended resources that pods request (`nvidia.com/gpu`, `google.com/tpu`, "
    "any name of a device plugin); devices of ResourceClaims are not counted, and neither are pods on worker clusters "
    "of MultiKueue. `ready / allocated` is the part of the held time in which pods were ready. `incomplete` is what "
    "gangs held while they were not whole; `restart` is the part of that from a restart until the gang is ready again."
)
_JOBSET: Final = (
    f"For the {LIMITS.gangs:,} JobSets that run or wait for longest (`--metrics-jobset-limit`). One that has finished "
    "has none, and gives its place to the next at once; `gangctl_gangs` counts it. `gangctl get` has all JobSets."
)
SECTIONS: Final[tuple[tuple[str, str, tuple[str, ...]], ...]] = (
    (
        "State of gangs",
        _STATE,
        (
            gangs.GANGS.name,
            gangs.PODS.name,
            gangs.DESIRED.name,
            gangs.MINIMUM.name,
            gangs.STRANDED.name,
            gangs.BLOCKED.name,
            gangs.OLDEST.name,
            gangs.OLDEST_PHASE.name,
            gangs.RESTART_LOOPS.name,
            gangs.LOST.name,
            "gangctl_fit_verdicts",
        ),
    ),
    (
        "Duration of starts",
        _STARTS,
        (*(family.name for family in gangs.HISTOGRAMS.values()), gangs.STAGES.name),
    ),
    (
        "What failures cost",
        _COSTS,
        tuple(family.name for family in costs.LIMITED),
    ),
    (
        "One JobSet",
        _JOBSET,
        (
            gangs.INFO.name,
            gangs.STATUS_PHASE.name,
            gangs.STATUS_REASON.name,
            gangs.READY_PODS.name,
            gangs.WANTED_PODS.name,
            gangs.PHASE_SINCE.name,
            gangs.WITHOUT_SERIES.name,
        ),
    ),
    (
        "Reconciles of gangs",
        "",
        (
            "gangctl_translations_total",
            "gangctl_drift_repairs_total",
            "gangctl_api_support_info",
            gangs.TRANSITIONS.name,
            gangs.DROPPED.name,
            "gangctl_stranded_",
            gangs.EVALUATION_SECONDS.name,
            gangs.LAG.name,
        ),
    ),
    ("Webhooks and certificates", "Every replica.", ("gangctl_admission_", "gangctl_certificate_")),
    ("PathwaysJobs", "The leader, with `--pathways`.", ("gangctl_pathways_",)),
    ("Policies", "Every replica evaluates; the leader scans.", ("gangctl_policies", "gangctl_policy_")),
    (
        "Work queues",
        "Names of client-go, with the prefix `gangctl_`. A replica that does not lead reconciles nothing.",
        ("gangctl_workqueue_", "gangctl_reconcile_"),
    ),
    (
        "API server",
        "Names of client-go for requests, with the prefix `gangctl_`.",
        ("gangctl_rest_client_", "gangctl_informer_", "gangctl_watch_", "gangctl_events_total"),
    ),
    (
        "The process",
        "",
        (
            *(
                "gangctl_build_info",
                "gangctl_feature_enabled",
                "gangctl_leader_election_master_status",
                "gangctl_shard_leader_election_master_status",
            ),
            *("gangctl_event_loop_", "process_"),
        ),
    ),
)

_HEAD: Final = f"""\
# Metrics

Written by `python -m tests.manager.metricspage` from what a process registers.

`GET /metrics` at `--metrics-bind-address` answers in the plain format of Prometheus, and in OpenMetrics where that is
asked for (`Accept: application/openmetrics-text`); with `--metrics-secure` only to [who may](security.md). OpenMetrics
alone has units and exemplars: the histograms of starts name a JobSet in each bucket (`jobset="namespace/name"`).

Times are seconds, points in time are Unix time (an age is `time() - x`), and nothing is in a name that is a value of a
label. There are no `_created` series. Labels hold names of namespaces, queues and policies, all of them bounded: what
is beyond is counted under `{OTHERS}`, `gangctl_series_dropped_total` says that it happened, and sums over a family stay
true. Names of JobSets are in the families of [One JobSet](#one-jobset) and nowhere else.
"""


def page(known: Iterable[Family]) -> str:
    """The whole page."""
    found = {family.name: family for family in known}
    return "\n".join([_HEAD, *(_section(found, *section) for section in SECTIONS), _values(), _sums(found), _renamed()])


def in_section(names: Sequence[str], family: str) -> bool:
    """Whether a section has a family: by its name, or by the beginning of it."""
    return any(family == name or (name.endswith("_") and family.startswith(name)) for name in names)


def _section(found: Mapping[str, Family], title: str, text: str, names: Sequence[str]) -> str:
    rows = [found[name] for name in found if in_section(names, name)]
    lines = [f"## {title}", ""] + ([text, ""] if text else [])
    lines += ["| family | type | labels | what it says | label sets at most |", "|---|---|---|---|---|"]
    return "\n".join([*lines, *map(_row, rows), ""])


def _row(family: Family) -> str:
    labels = ", ".join(f"`{label}`" for label in family.labels)
    return f"| `{family.name}` | {_type(family)} | {labels} | {_cell(family.help)} | {_cell(bound(family.name))} |"


def _type(family: Family) -> str:
    if not family.buckets:
        return family.type
    bounds = [f"{each:g}" for each in family.buckets if not math.isinf(each)]
    shown = bounds if len(bounds) <= 4 else [*bounds[:3], "…", bounds[-1]]
    return f"{family.type}: {', '.join(shown)}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def bound(name: str) -> str:
    """How many label sets a family has at most."""
    if name in READINESS:
        sets, text = READINESS[name]
        return f"{text} = {sets:,}" if " x " in text or " + " in text else text
    return OTHER_BOUNDS[name]


def _values() -> str:
    lines = [
        "## Values",
        "",
        "Phases, `phase` in lower case, `from` and `to`:",
        "",
        "| phase | what it means |",
        "|---|---|",
    ]
    lines += [f"| `{phase.label}` | {phase.sentence} |" for phase in GangPhase]
    lines += ["", f"Levels: {_names(_LEVELS)}: what the gangs of a JobSet consist of.", ""]
    lines += ["Reasons of `gangctl_gangs_blocked`, the most likely first:", "", "| reasons | because |", "|---|---|"]
    lines += [f"| {_names(reason.value for reason in reasons)} | {why} |" for why, reasons in TIERS]
    return "\n".join([*lines, ""])


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def series_at_most(family: Family) -> int:
    """How many series one family of readiness has at most."""
    sets = READINESS[family.name].sets
    if family.type == "histogram":
        return sets * (len(family.buckets) + 2)
    return sets


def _sums(found: Mapping[str, Family]) -> str:
    text = (
        f"The families of readiness have at most {total(found):,} series, whatever there is in the cluster: the label "
        "sets in the tables above, and for a histogram as many times its buckets, `_sum` and `_count`."
    )
    shape = "200 namespaces with two queues each, every phase and reason"
    test = f"A test gives 10,000 gangs the worst shape ({shape}) and counts: fewer than 42,000."
    return f"## The bound\n\n{text}\n{test}\n"


_RENAMED: Final = (
    (
        '`gangctl_gang_pods{state="desired"}`, `{state="minimum"}`',
        "`gangctl_gangs_desired_pods`, `gangctl_gangs_min_pods`",
    ),
    (
        '`gangctl_gang_pods{state="wanted"}`, `{state="created"}`, `{state="scheduled"}`',
        "sums over the states `ready` and `unready` (scheduled), and `unscheduled` (created), and `missing` (wanted)",
    ),
    (
        "`gangctl_gang_info{phase=..., reason=...}`",
        "`gangctl_gang_status_phase{phase=...}`, `gangctl_gang_status_reason{reason=...}`",
    ),
    (
        "`gangctl_certificate_expiry_timestamp_seconds{usage=...}`",
        "`gangctl_certificate_expiration_timestamp_seconds{usage=...}`",
    ),
    (
        "`gangctl_certificate_expiration_timestamp_seconds` without a label",
        '`gangctl_certificate_expiration_timestamp_seconds{usage="serving"}`',
    ),
    ("`gangctl_certificate_looks_total`", "`gangctl_certificate_reads_total`"),
    ("`gangctl_readiness_evaluations_total`", "`gangctl_readiness_evaluation_duration_seconds_count`"),
    (
        "`gangctl_kube_requests_total`, `gangctl_kube_request_duration_seconds`",
        "`gangctl_rest_client_requests_total`, `gangctl_rest_client_request_duration_seconds`",
    ),
    (
        "`gangctl_leader`, `gangctl_shard_leader`",
        "`gangctl_leader_election_master_status`, `gangctl_shard_leader_election_master_status`",
    ),
    ("`gangctl_pathways_standing_down`", "`gangctl_pathways_deferring`"),
    ("every `..._created`", "none: Prometheus detects the restart of a counter"),
)


def _renamed() -> str:
    lines = ["## Names of earlier versions", "", "| before | now |", "|---|---|"]
    return "\n".join([*lines, *(f"| {_cell(old)} | {_cell(new)} |" for old, new in _RENAMED), ""])


def total(found: Mapping[str, Family]) -> int:
    """All series of readiness together."""
    return sum(series_at_most(found[name]) for name in READINESS)


if __name__ == "__main__":
    PAGE.write_text(page(families()), encoding="utf-8")
