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
from gangctl.manager import readinessmetrics as gangs
from gangctl.manager.readinessmetrics import MOST_DISRUPTIONS, MOST_STARTS
from gangctl.pathways.status import Phase
from gangctl.readiness.causes import PROMISES, TIERS
from gangctl.readiness.metrics import DATED, OTHERS, Limits
from gangctl.readiness.result import GangPhase
from gangctl.runtime.metrics import Family
from gangctl.runtime.shards import MOST_SHARDS
from tests.manager.families import families

PAGE: Final = Path(__file__).parents[2] / "docs" / "metrics.md"
LIMITS: Final = Limits()
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
_BY_START: Final = _and_others(MOST_STARTS, len(_LEVELS), "pairs of ClusterQueue and level", "levels")
_ONE: Final = Bound(1, "1")

READINESS: Final[Mapping[str, Bound]] = {
    gangs.GANGS.name: _product(_QUEUES, (len(GangPhase), "phases")),
    gangs.PODS.name: _product(_QUEUES, (len(gangs.STATES), "states")),
    gangs.STRANDED.name: _product(_QUEUES),
    gangs.BLOCKED.name: _BY_REASON,
    gangs.OLDEST.name: _and_others(LIMITS.reasons, len(REASONS) * len(GangPhase), _CAUSES, "reasons in phases"),
    gangs.OLDEST_PHASE.name: _and_others(LIMITS.reasons, (len(REASONS) + 1) * len(DATED), _CAUSES, "reasons in phases"),
    gangs.RESTART_LOOPS.name: _product(_QUEUES),
    gangs.LOST.name: _product((LIMITS.namespaces + 1, "namespaces"), (len(PROMISES), "causes")),
    gangs.INFO.name: _JOBSETS,
    gangs.READY_PODS.name: _JOBSETS,
    gangs.WANTED_PODS.name: _JOBSETS,
    gangs.PHASE_SINCE.name: _JOBSETS,
    gangs.WITHOUT_SERIES.name: _ONE,
    gangs.DEGRADED.name: _product(_QUEUES),
    gangs.TO_SCHEDULED.name: _BY_START,
    gangs.TO_READY.name: _BY_START,
    gangs.ADMITTED_TO_READY.name: _BY_START,
    gangs.SPREAD.name: _BY_START,
    gangs.TRANSITIONS.name: _product((len(GangPhase), "phases"), (len(GangPhase) - 1, "others")),
    gangs.DISRUPTIONS.name: _and_others(MOST_DISRUPTIONS, len(REASONS), "pairs of ClusterQueue and reason", "reasons"),
    gangs.DROPPED.name: Bound(18, "18 families"),
    gangs.EVALUATIONS.name: _ONE,
    gangs.EVALUATION_SECONDS.name: _ONE,
    gangs.LAG.name: _ONE,
}

_RESOURCES: Final = "resources that gangctl reads or writes (about 30)"
_POLICIES: Final = "201 policies"
_WORK_QUEUES: Final = "7 queues: gangs, gangobjects, verdicts, policies, admission-checks, queued-workloads, pathways"
OTHER_BOUNDS: Final[Mapping[str, str]] = {
    "gangctl_admission_duration_seconds": "webhook paths (7) x 4 verdicts",
    "gangctl_api_support_info": "2 resources",
    "gangctl_build_info": "1",
    "gangctl_certificate_expiration_timestamp_seconds": "1",
    "gangctl_certificate_expiry_timestamp_seconds": "2 usages",
    "gangctl_certificate_looks_total": "2 results",
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
    "gangctl_kube_request_duration_seconds": f"verbs (9) x {_RESOURCES}",
    "gangctl_kube_requests_total": f"verbs (9) x {_RESOURCES} x status codes that occur",
    "gangctl_leader": "1",
    "gangctl_pathways_jobs": f"{MOST_NAMESPACES + 1} namespaces x {len(Phase) + 1} phases",
    "gangctl_pathways_standing_down": "1",
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
    "gangctl_shard_leader": f"{MOST_SHARDS} shards",
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
    "Measured by the leader that saw it happen, once: a restart of gangctl, or another leader, does not measure again, "
    "and neither does a gang that was disturbed and comes back. What a JobSet takes after its own restart is measured "
    "as spread only: counted from its creation it would be its running time."
)
_JOBSET: Final = (
    f"For the first {LIMITS.gangs:,} JobSets to come, as long as they live; a freed place goes to the next. "
    "`gangctl get` knows all of them."
)
SECTIONS: Final[tuple[tuple[str, str, tuple[str, ...]], ...]] = (
    (
        "Where gangs stand",
        "The leader exports these; the others have none. A series ends when the last gang that it counts goes.",
        (
            gangs.GANGS.name,
            gangs.PODS.name,
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
        "How long starts take",
        _STARTS,
        (gangs.TO_SCHEDULED.name, gangs.TO_READY.name, gangs.ADMITTED_TO_READY.name, gangs.SPREAD.name),
    ),
    (
        "What happens to gangs",
        "Counters of the leader. They begin at nothing with each leader, as counters do.",
        (gangs.TRANSITIONS.name, gangs.DISRUPTIONS.name, gangs.DEGRADED.name, gangs.DROPPED.name, "gangctl_stranded_"),
    ),
    (
        "One JobSet",
        _JOBSET,
        (
            gangs.INFO.name,
            gangs.READY_PODS.name,
            gangs.WANTED_PODS.name,
            gangs.PHASE_SINCE.name,
            gangs.WITHOUT_SERIES.name,
        ),
    ),
    (
        "What gangctl does for gangs",
        "",
        (
            "gangctl_translations_total",
            "gangctl_drift_repairs_total",
            "gangctl_api_support_info",
            gangs.EVALUATIONS.name,
            gangs.EVALUATION_SECONDS.name,
            gangs.LAG.name,
        ),
    ),
    ("Webhooks and certificates", "Every replica.", ("gangctl_admission_", "gangctl_certificate_")),
    ("PathwaysJobs", "The leader, with `--pathways`.", ("gangctl_pathways_",)),
    ("Policies", "Every replica evaluates; the leader scans.", ("gangctl_policies", "gangctl_policy_")),
    (
        "Work queues",
        "By the names of client-go, with `gangctl_` before them. A replica that does not lead has no work.",
        ("gangctl_workqueue_", "gangctl_reconcile_"),
    ),
    (
        "API server",
        "",
        ("gangctl_kube_", "gangctl_informer_", "gangctl_watch_", "gangctl_events_total"),
    ),
    (
        "The process",
        "",
        (
            *("gangctl_build_info", "gangctl_feature_enabled", "gangctl_leader", "gangctl_shard_leader"),
            *("gangctl_event_loop_", "process_"),
        ),
    ),
)

_HEAD: Final = f"""\
# Metrics

Written by `python -m tests.manager.metricspage` from what a process registers.

`GET /metrics` at `--metrics-bind-address` answers in the plain format of Prometheus, and in OpenMetrics where that is
asked for (`Accept: application/openmetrics-text`); with `--metrics-secure` it does so elsewhere, and to those who may
([security.md](security.md)). Only OpenMetrics has units and exemplars: the histograms of starts
name a JobSet in each bucket (`jobset="namespace/name"`).

Times are seconds, points in time are Unix time (an age is `time() - x`), and nothing is in a name that is a value of a
label. Labels hold names of namespaces, queues and policies, all of them bounded: what is beyond is counted under
`{OTHERS}`, `gangctl_series_dropped_total` says that it happened, and sums over a family stay true. Names of JobSets are
in the families of [One JobSet](#one-jobset) and nowhere else.
"""


def page(known: Iterable[Family]) -> str:
    """The whole page."""
    found = {family.name: family for family in known}
    return "\n".join([_HEAD, *(_section(found, *section) for section in SECTIONS), _values(), _sums(found)])


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
    """How many series one family of readiness has at most; what Prometheus clients add as ``_created`` is one each."""
    sets = READINESS[family.name].sets
    if family.type == "histogram":
        return sets * (len(family.buckets) + 3)
    return sets if family in gangs.SCRAPED else sets * (2 if family.type == "counter" else 1)


def _sums(found: Mapping[str, Family]) -> str:
    text = (
        "Series that the families of readiness have at most, whatever there is in the cluster. A label set of a "
        "histogram is its buckets, `_sum`, `_count` and `_created`, one of a counter is itself and `_created`."
    )
    lines = ["## The bound", "", text, "", "| family | label sets | series |", "|---|---|---|"]
    rows = [found[name] for name in READINESS]
    lines += [f"| `{each.name}` | {READINESS[each.name].sets:,} | {series_at_most(each):,} |" for each in rows]
    lines += [f"| together | | **{total(found):,}** |", ""]
    shape = "200 namespaces with two queues each, every phase and reason"
    lines += [f"A test gives 10,000 gangs the worst shape ({shape}) and counts: fewer than 31,000.", ""]
    return "\n".join(lines)


def total(found: Mapping[str, Family]) -> int:
    """All series of readiness together."""
    return sum(series_at_most(found[name]) for name in READINESS)


if __name__ == "__main__":
    PAGE.write_text(page(families()), encoding="utf-8")
