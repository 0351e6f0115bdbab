"""What panels answer: the queries that an operator acts on, evaluated by promtool on series that are made up."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from gangctl.readiness.result import GangPhase
from tests.grafana.queries import PanelQuery, panel_queries
from tests.monitoring.promtool import run
from tests.rows import each

TARGET: Final = 'job="gangctl",instance="a"'
OTHER: Final = 'job="gangctl",instance="b"'
QUEUE: Final = 'namespace="team-a",local_queue="research",cluster_queue="gpus"'
LEADER: Final = {
    f"gangctl_leader_election_master_status{{{TARGET}}}": "1x60",
    f"gangctl_leader_election_master_status{{{OTHER}}}": "0x60",
}
NOBODY_LEADS: Final = {
    f"gangctl_leader_election_master_status{{{TARGET}}}": "0x60",
    f"gangctl_leader_election_master_status{{{OTHER}}}": "0x60",
}
Samples = Mapping[str, float]


def asked(dashboard: str, panel: str, ref: str = "A") -> PanelQuery:
    (found,) = (
        query
        for query in panel_queries()
        if (query.dashboard, query.panel, query.ref) == (f"gangctl-{dashboard}", panel, ref)
    )
    return found


class Context:
    """Series by the minute, and what queries come to at minute 30."""

    def __init__(self, promtool: Path, directory: Path) -> None:
        self._promtool = promtool
        self._directory = directory

    def answers(
        self,
        query: PanelQuery,
        series: Mapping[str, str],
        expected: Samples,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """AssertionError with the output of promtool, if the result is another one."""
        samples = [{"labels": labels, "value": value} for labels, value in expected.items()]
        look: dict[str, Any] = {
            "expr": query.runnable(variables or {}, shown="30m"),
            "eval_time": "30m",
            "exp_samples": samples,
        }
        given = [{"series": name, "values": values} for name, values in series.items()]
        test = {"interval": "1m", "input_series": given, "promql_expr_test": [look]}
        run(self._promtool, self._directory, {"rule_files": [], "evaluation_interval": "1m", "tests": [test]})


@pytest.fixture
def context(promtool: Path, tmp_path: Path) -> Context:
    return Context(promtool, tmp_path)


def gauge(metric: str, labels: str = QUEUE, target: str = TARGET) -> str:
    return f"{metric}{{{target},{labels}}}"


@each("panel", ["Gangs held back", "Held back for", "Stranded pods", "Degraded", "Guarantee lost"])
def test_gauges_of_gangs_are_zero_only_with_a_leader(panel: str, context: Context) -> None:
    """An empty cluster and a gangctl without a leader look different."""
    query = asked("overview", panel)
    context.answers(query, LEADER, {"{}": 0})
    context.answers(query, NOBODY_LEADS, {})
    context.answers(query, {}, {})


def leading(shard: int, *leads: int) -> dict[str, str]:
    """Whether each replica leads it."""
    return {
        gauge("gangctl_shard_leader_election_master_status", f'shard="{shard}"', target): f"{lead}x60"
        for target, lead in zip((TARGET, OTHER), leads, strict=True)
    }


@pytest.mark.parametrize(
    ("dashboard", "panel"),
    [("overview", "Shards without leader"), ("health", "Shards led amiss")],
    ids=["overview", "health"],
)
def test_shards_without_a_leader_are_counted(dashboard: str, panel: str, context: Context) -> None:
    query = asked(dashboard, panel)
    context.answers(query, {**leading(0, 1, 0), **leading(1, 0, 1)}, {"{}": 0})
    context.answers(query, {**leading(0, 1, 0), **leading(1, 0, 0), **leading(2, 0, 0)}, {"{}": 2})
    context.answers(query, leading(0, 0, 0), {"{}": 1})
    context.answers(query, {}, {})


def test_a_shard_with_two_leaders_is_shown(context: Context) -> None:
    series = {**leading(0, 1, 0), **leading(1, 1, 1)}
    context.answers(asked("health", "Shards led amiss"), series, {"{}": 1})
    context.answers(asked("overview", "Shards without leader"), series, {"{}": 0})


def test_gangs_exported_by_two_replicas_count_once(context: Context) -> None:
    blocked = [gauge("gangctl_gangs_blocked", f'{QUEUE},reason="NeverFits"', target) for target in (TARGET, OTHER)]
    elsewhere = gauge("gangctl_gangs_blocked", 'namespace="team-b",reason="NeverFits"')
    series = {**LEADER, **dict.fromkeys(blocked, "2x60"), elsewhere: "1x60"}
    context.answers(asked("overview", "Gangs held back"), series, {"{}": 3})
    context.answers(asked("overview", "Gangs held back"), series, {"{}": 2}, {"namespace": "team-a|team-c"})


@pytest.mark.parametrize("panel", ["Gangs held back", "Held back for"])
def test_what_a_user_has_suspended_is_not_held_back(panel: str, context: Context) -> None:
    suspended = 'namespace="team-a",reason="Suspended"'
    series = {
        **LEADER,
        gauge("gangctl_gangs_blocked", suspended): "1x60",
        gauge("gangctl_oldest_blocked_gang_timestamp_seconds", suspended): "600x60",
    }
    context.answers(asked("overview", panel), series, {"{}": 0})


@each(("panel", "ref"), [("Gangs of each tenant", "A"), ("ClusterQueues, in Kueue and here", "F")])
def test_queues_do_not_count_what_a_user_has_suspended(panel: str, ref: str, context: Context) -> None:
    series = {}
    for reason, since in (("Suspended", 600), ("Unschedulable", 1200)):
        series[gauge("gangctl_gangs_blocked", f'{QUEUE},reason="{reason}"')] = "1x60"
        series[gauge("gangctl_oldest_blocked_gang_timestamp_seconds", f'{QUEUE},reason="{reason}"')] = f"{since}x60"
    expected = {"A": {f"{{{QUEUE}}}": 600.0}, "F": {'{cluster_queue="gpus"}': 1.0}}
    context.answers(asked("queues", panel, ref), series, expected[ref])


def test_the_table_of_causes_has_queue_cause_count_and_age(context: Context) -> None:
    blocked = gauge("gangctl_gangs_blocked", f'{QUEUE},reason="Unschedulable"')
    gone = gauge("gangctl_gangs_blocked", f'{QUEUE},reason="NodeLost"')
    oldest = gauge("gangctl_oldest_blocked_gang_timestamp_seconds", f'{QUEUE},reason="Unschedulable"')
    series = {blocked: "2x60", gone: "0x60", oldest: "600x60"}
    row = f'{{{QUEUE},reason="Unschedulable"}}'
    context.answers(asked("overview", "Held back, by queue and cause", "A"), series, {row: 1200})
    context.answers(asked("overview", "Held back, by queue and cause", "B"), series, {row: 2})


def test_the_table_of_gangs_joins_the_series_of_each(context: Context) -> None:
    gang, ready = 'namespace="team-a",jobset="train"', 'namespace="team-a",jobset="done"'
    starting = 'namespace="team-a",jobset="starting"'
    queued = 'local_queue="research",cluster_queue="gpus",level="JobSet"'
    series = {
        gauge("gangctl_gang_status_reason", f'{gang},reason="Unschedulable"'): "1x60",
    }
    for item, phase in ((gang, "unschedulable"), (ready, "ready"), (starting, "starting")):
        series[gauge("gangctl_gang_info", f"{item},{queued}")] = "1x60"
        series[gauge("gangctl_gang_status_phase", f'{item},phase="{phase}"')] = "1x60"
        series |= {
            gauge("gangctl_gang_phase_timestamp_seconds", item): "900x60",
            gauge("gangctl_gang_ready_pods", item): "3x60",
            gauge("gangctl_gang_wanted_pods", item): "8x60",
        }
    held = f'{{{gang},{queued},phase="unschedulable",reason="Unschedulable"}}'
    without_cause = f'{{{starting},{queued},phase="starting"}}'
    context.answers(asked("overview", "Gangs that are not ready", "A"), series, {held: 900, without_cause: 900})
    for ref, value in (("B", 3), ("C", 8)):
        expected = {f"{{{gang}}}": value, f"{{{starting}}}": value}
        context.answers(asked("overview", "Gangs that are not ready", ref), series, expected)


@each("phase", GangPhase)
def test_the_phase_of_a_gang_is_one_number_that_grafana_names(phase: GangPhase, context: Context) -> None:
    info = gauge("gangctl_gang_status_phase", f'namespace="team-a",jobset="train",phase="{phase.label}"')
    other = gauge("gangctl_gang_status_phase", 'namespace="team-a",jobset="other",phase="failed"')
    before = gauge("gangctl_gang_status_phase", 'namespace="team-a",jobset="train",phase="gone"')
    series = {info: "_x20 1x40", other: "1x60", before: "1x19 stale"}
    number = list(GangPhase).index(phase) + 1
    context.answers(asked("gang", "Phases"), series, {"{}": number}, {"namespace": "team-a", "jobset": "train"})


CLUSTERS: Final = ("east", "west")


def of_clusters(metric: str, labels: str, *values: float) -> dict[str, str]:
    """The series of a process in each of two clusters of one store."""
    return {
        gauge(metric, f'{labels},cluster="{cluster}"'): f"{value:g}x60"
        for cluster, value in zip(CLUSTERS, values, strict=True)
    }


def test_gangs_of_one_name_in_two_clusters_are_two_gangs(context: Context) -> None:
    gang = 'namespace="team-a",jobset="train"'
    chosen = {"namespace": "team-a", "jobset": "train"}
    east, west = ('{cluster="east"}', '{cluster="west"}')
    phases = {
        gauge("gangctl_gang_status_phase", f'{gang},phase="{phase}",cluster="{cluster}"'): "1x60"
        for cluster, phase in zip(CLUSTERS, ("ready", "queued"), strict=True)
    }
    numbers = {phase: number for number, phase in enumerate(GangPhase, 1)}
    expected = {east: float(numbers[GangPhase.READY]), west: float(numbers[GangPhase.QUEUED])}
    for panel in ("Phase", "Phases"):
        context.answers(asked("gang", panel), phases, expected, chosen)
    since = of_clusters("gangctl_gang_phase_timestamp_seconds", gang, 600, 1200)
    for panel in ("For", "Time in the phase"):
        context.answers(asked("gang", panel), since, {east: 1200, west: 600}, chosen)
    ready = of_clusters("gangctl_gang_ready_pods", gang, 2, 4)
    wanted = of_clusters("gangctl_gang_wanted_pods", gang, 8, 4)
    context.answers(asked("gang", "Ready pods"), {**ready, **wanted}, {east: 0.25, west: 1}, chosen)
    context.answers(asked("gang", "Wanted pods"), wanted, {east: 8, west: 4}, chosen)


def test_clusters_with_queues_of_one_name_are_added(context: Context) -> None:
    pending = of_clusters("kueue_pending_workloads", 'cluster_queue="gpus",status="active"', 3, 4)
    row = '{cluster_queue="gpus",status="active"}'
    context.answers(asked("queues", "Pending workloads in Kueue"), pending, {row: 7})
    why = 'cluster_queue="gpus",reason="NoQuota",underlying_cause="x"'
    unadmitted = of_clusters("kueue_unadmitted_workloads", why, 3, 4)
    context.answers(asked("queues", "Unadmitted workloads, by Kueue's reason"), unadmitted, {'{reason="NoQuota"}': 7})


def test_policies_of_several_clusters_are_added_and_the_oldest_scan_is_shown(context: Context) -> None:
    loaded, replica = of_clusters("gangctl_policies", 'state="loaded"', 3, 4), "gangctl_policies"
    loaded[gauge(replica, 'state="loaded",cluster="west"', OTHER)] = "4x60"
    context.answers(asked("policies", "Loaded"), loaded, {"{}": 7})
    context.answers(asked("policies", "Policies in force"), loaded, {'{state="loaded"}': 7})
    scanned = of_clusters("gangctl_policy_last_scan_timestamp_seconds", 'x=""', 600, 1200)
    scanned[gauge("gangctl_policy_last_scan_timestamp_seconds", 'cluster="west"', OTHER)] = "0x60"
    context.answers(asked("policies", "Last scan"), scanned, {"{}": 1200})


def test_the_three_waits_add_up_to_the_time_to_ready(context: Context) -> None:
    """Two gangs: 100 s until admitted, 130 s until scheduled, 190 s until ready, each on average.

    A third one has a node and never became ready: it is in no mean.
    """
    labels = 'cluster_queue="gpus",level="JobSet"'
    # Counted from 0 on, so that all gangs are growth.
    series = {
        gauge("gangctl_gang_time_to_ready_seconds_count", labels): "0x27 2x60",
        gauge("gangctl_gang_time_to_ready_seconds_sum", labels): "0x27 380x60",
        gauge("gangctl_gang_time_to_scheduled_seconds_count", labels): "0x27 3x60",
        gauge("gangctl_gang_time_to_scheduled_seconds_sum", labels): "0x27 9000x60",
    }
    waits = {"admission": 100, "scheduling": 30, "containers": 60}
    for stage, wait in waits.items():
        series[gauge("gangctl_gang_start_stage_seconds_total", f'{labels},stage="{stage}"')] = f"0x27 {2 * wait}x60"
    for ref, wait in zip("ABC", waits.values(), strict=True):
        context.answers(asked("queues", "Mean wait, by what is waited for", ref), series, {"{}": wait})
        row = '{cluster_queue="gpus"}'
        context.answers(asked("queues", "Mean wait by ClusterQueue, in the time shown", ref), series, {row: wait})


def test_series_of_kueue_replicas_are_not_summed(context: Context) -> None:
    def of_kueue(metric: str, role: str, labels: str = "") -> str:
        return f'{metric}{{job="kueue",instance="{role}",cluster_queue="gpus",replica_role="{role}"{labels}}}'

    series = {}
    for role in ("leader", "follower"):
        series[of_kueue("kueue_pending_workloads", role, ',status="inadmissible"')] = "4x60"
        series[of_kueue("kueue_cluster_queue_info", role, ',root_cohort="all"')] = "1x60"
        quota = ',flavor="a100",resource="gpu"'
        series[of_kueue("kueue_cluster_queue_resource_usage", role, quota)] = "6x60"
        series[of_kueue("kueue_cluster_queue_nominal_quota", role, quota)] = "8x60"
    table = "ClusterQueues, in Kueue and here"
    context.answers(asked("queues", table, "A"), series, {'{cluster_queue="gpus",root_cohort="all"}': 1})
    context.answers(asked("queues", table, "C"), series, {'{cluster_queue="gpus"}': 4})
    row = '{cluster_queue="gpus",flavor="a100",resource="gpu"}'
    context.answers(asked("queues", "Use of nominal quota"), series, {row: 0.75})


FOREIGN: Final = {
    'up{job="node-exporter",instance="c"}': "1x60",
    'process_start_time_seconds{job="node-exporter",instance="c"}': "1200x60",
    'process_cpu_seconds_total{job="node-exporter",instance="c"}': "0+60x60",
    'process_resident_memory_bytes{job="node-exporter",instance="c"}': "7x60",
    'process_open_fds{job="node-exporter",instance="c"}': "7x60",
}
"""Another target of the Prometheus. The variables stand for all jobs and instances at first."""


def test_health_is_that_of_gangctl_and_of_no_other_target(context: Context) -> None:
    up, down = 'job="gangctl",instance="a"', 'job="gangctl",instance="b"'
    ours = {
        f"up{{{up}}}": "1x60",
        f"up{{{down}}}": "0x60",
        f'gangctl_build_info{{{up},version="1"}}': "1x60",
        f"process_start_time_seconds{{{up}}}": "600x60",
        f"process_cpu_seconds_total{{{up}}}": "0+30x60",
        f"process_resident_memory_bytes{{{up}}}": "5x60",
        f"process_open_fds{{{up}}}": "5x60",
    }
    expected: dict[str, Samples] = {
        "Replicas up": {"{}": 1},
        "Since the last start": {"{}": 1200},
        "CPU": {'{instance="a"}': 0.5},
        "Memory": {'{instance="a"}': 5},
        "Open files": {'{instance="a"}': 5},
        "Caches not synced": {"{}": 0},
        "Not ready to answer, in an hour": {"{}": 0},
    }
    for panel, samples in expected.items():
        context.answers(asked("health", panel), {**ours, **FOREIGN}, samples)
        context.answers(asked("health", panel), FOREIGN, {})
    context.answers(asked("health", "Replicas", "C"), {**ours, **FOREIGN}, {'{instance="a"}': 1200})


def test_a_silent_watch_is_shown_among_active_ones(context: Context) -> None:
    contact = "gangctl_informer_last_contact_timestamp_seconds"
    series = {
        gauge(contact, 'resource="pods"'): "1500x60",
        gauge(contact, 'resource="jobs"'): "1795x60",
        gauge(contact, 'resource="never"'): "0x60",
    }
    context.answers(asked("health", "Longest silence"), series, {"{}": 300})


def test_the_certificate_that_expires_first_is_shown(context: Context) -> None:
    expires = "gangctl_certificate_expiration_timestamp_seconds"
    series = {
        gauge(expires, 'usage="serving"'): "90000x60",
        gauge(expires, 'usage="authority"'): "80000x60",
        gauge(expires, 'usage="serving"', OTHER): "0x60",
    }
    context.answers(asked("health", "Certificate ends in"), series, {"{}": 90000 - 1800})


def test_what_failures_cost_is_shares_and_hours_of_what_is_allocated(context: Context) -> None:
    """Eight accelerators for an hour: half of it ready, half of it incomplete, a quarter of it after a restart."""
    labels = f'{QUEUE},resource="nvidia.com/gpu"'
    sums = {"allocated": 8 * 3600, "ready": 8 * 1800, "incomplete": 8 * 1800, "restart": 8 * 900}
    series = {}
    for name, seconds in sums.items():
        family = f"gangctl_gang_{name}_resource_seconds_total"
        # Counted from 0 on, so that all of it is growth.
        series[gauge(family, labels)] = f"0x27 {seconds}x60"
        series[gauge(family, f'{QUEUE},resource="pods"')] = f"0x27 {seconds // 8}x60"
    chosen = {"resource": "nvidia.com/gpu"}
    for title, value in (("Ready, of allocated", 0.5), ("Held by incomplete gangs", 4), ("Lost to restarts", 2)):
        context.answers(asked("costs", title), series, {"{}": value}, chosen)
    table = "Hours of each queue and resource"
    for ref, value in (("A", 8), ("B", 0.5), ("C", 4), ("D", 2)):
        context.answers(asked("costs", table, ref), series, {f"{{{labels}}}": value}, chosen)
