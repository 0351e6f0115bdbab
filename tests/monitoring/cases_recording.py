"""Cases of the recording rules; every series is scraped once a minute."""

from __future__ import annotations

from typing import Final

from tests.monitoring.cases_gangs import OTHER, QUEUE, phase, starts
from tests.monitoring.cases_operation import admissions, reconciles, requests, violations
from tests.monitoring.promtool import Recorded

MINE: Final = f"{{{QUEUE}}}"
GPUS: Final = '{cluster_queue="gpus"}'
PATH: Final = '{path="/mutate-jobsets"}'


def two_replicas(name: str, labels: str, values: str) -> dict[str, str]:
    """Both export the same series, as for a moment when leadership moves."""
    return {f'{name}{{{labels},instance="{instance}"}}': values for instance in ("a", "b")}


def _histogram(name: str, last: str) -> dict[str, str]:
    """Ten a minute, nine of them within 10 seconds and none later than ``last``."""
    return {
        f'{name}_bucket{{cluster_queue="gpus",level="JobSet",le="{le}"}}': values
        for le, values in (("10", "0+9x90"), (last, "0+10x90"), ("+Inf", "0+10x90"))
    }


CASES: Final = (
    Recorded(
        "local_queue:gangctl_gangs_unready:sum",
        {
            **two_replicas("gangctl_gangs", f'{QUEUE},phase="pending"', "2x10"),
            phase("degraded"): "1x10",
            phase("ready"): "7x10",
            phase("queued"): "5x10",
            phase("succeeded"): "9x10",
            phase("unschedulable", OTHER): "4x10",
        },
        5,
        {MINE: 3, f"{{{OTHER}}}": 4},
    ),
    Recorded(
        "local_queue:gangctl_gangs_ready:ratio",
        {
            **two_replicas("gangctl_gangs", f'{QUEUE},phase="ready"', "3x10"),
            phase("degraded"): "1x10",
            phase("queued"): "5x10",
            phase("ready", OTHER): "0x10",
            phase("queued", OTHER): "4x10",
        },
        5,
        {MINE: 0.75},
    ),
    Recorded(
        "cluster_queue:gangctl_gangs:sum",
        {
            **two_replicas("gangctl_gangs", f'{QUEUE},phase="queued"', "3x10"),
            phase("queued", OTHER): "4x10",
            phase("ready", OTHER): "1x10",
        },
        5,
        {'{cluster_queue="gpus",phase="queued"}': 7, '{cluster_queue="gpus",phase="ready"}': 1},
    ),
    Recorded(
        "cluster_queue:gangctl_gang_stranded_pods:sum",
        {
            **two_replicas("gangctl_gang_stranded_pods", QUEUE, "3x10"),
            f"gangctl_gang_stranded_pods{{{OTHER}}}": "4x10",
        },
        5,
        {GPUS: 7},
    ),
    Recorded(
        "cluster_queue:gangctl_gang_time_to_scheduled_seconds:p95_1h",
        _histogram("gangctl_gang_time_to_scheduled_seconds", "20"),
        70,
        {GPUS: 15},
    ),
    Recorded(
        "cluster_queue:gangctl_gang_time_to_ready_seconds:p95_1h",
        _histogram("gangctl_gang_time_to_ready_seconds", "40"),
        70,
        {GPUS: 25},
    ),
    Recorded(
        "cluster_queue:gangctl_gang_admitted_to_ready_seconds:p95_1h", starts("0+9x90", "0+10x90"), 70, {GPUS: 960}
    ),
    Recorded(
        "cluster_queue:gangctl_gang_admitted_to_ready_seconds_count:increase1h",
        starts("0+9x90", "0+10x90"),
        70,
        {GPUS: 600},
    ),
    Recorded(
        "local_queue:gangctl_gang_degraded_seconds:rate1h",
        {f"gangctl_gang_degraded_seconds_total{{{QUEUE}}}": "0+120x90"},
        70,
        {MINE: 2},
    ),
    Recorded(
        "controller:gangctl_reconcile_error_ratio:rate5m",
        reconciles("0+10x20", "0+1x20"),
        10,
        {'{controller="gangs"}': 0.1},
    ),
    Recorded(
        "resource:gangctl_rest_client_requests_error_ratio:rate5m",
        {
            **requests("0+6x20", "0+1x20", "429"),
            'gangctl_rest_client_requests_total{verb="patch",resource="pods",code="503"}': "0+1x20",
            'gangctl_rest_client_requests_total{verb="patch",resource="pods",code="404"}': "0+2x20",
            # What a PodDisruptionBudget holds back is no error.
            'gangctl_rest_client_requests_total{verb="create",resource="pods/eviction",code="429"}': "0+2x20",
        },
        10,
        {'{resource="pods"}': 0.2},
    ),
    Recorded("path:gangctl_admission_duration_seconds:p99_5m", admissions("0+9x20", "0+10x20"), 10, {PATH: 0.925}),
    Recorded(
        "path:gangctl_admission_unready_ratio:rate5m",
        {
            **admissions("0+6x20", "0+6x20"),
            **admissions("0+2x20", "0+2x20", "denied"),
            **admissions("0+2x20", "0+2x20", "unready"),
        },
        10,
        {PATH: 0.2},
    ),
    Recorded(
        "policy:gangctl_policy_violations:max",
        {
            violations("a"): "2x10",
            violations("b"): "9x10",
            'gangctl_leader_election_master_status{job="gangctl",instance="b"}': "0x10",
        },
        5,
        {'{policy="quota",severity="high",action="audit"}': 2},
    ),
)
