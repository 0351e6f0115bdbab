"""Tenants and queues: who waits, where the time goes, and what quota is left, by the metrics of gangctl and Kueue."""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.models import dashboard

from grafana.generate import links, phases, promql
from grafana.generate.board import Board, Row, choice, targets, tenants
from grafana.generate.panels import Column, Query, graph, rows

_QUARTER, _HOUR = 900, 3600
_TO_SCHEDULED: Final = "gangctl_gang_time_to_scheduled_seconds"
_TO_READY: Final = "gangctl_gang_time_to_ready_seconds"
_ADMITTED: Final = "gangctl_gang_admitted_to_ready_seconds"
_WAITS: Final = {"admission": "blue", "scheduling": "orange", "containers": "light-green"}
"""Stages of a start."""


def board() -> Board:
    """The dashboard of who shares the cluster."""
    return Board(
        uid="gangctl-queues",
        title="gangctl / Tenants and queues",
        description="Who waits in which queue, where the time goes between creation and ready, and what quota is left.",
        tags=("gangs", "kueue"),
        variables=[
            *targets("gangctl_build_info"),
            choice(
                "kueue_job",
                "Kueue's job",
                'label_values(kueue_build_info{cluster=~"$cluster"}, job)',
                everything=".+",
            ),
            *tenants(),
        ],
        links=[links.to("gangctl-overview", "Gangs overview")],
        rows=[
            Row("Who waits, and for how long?", [_local_queues(), _cluster_queues()]),
            Row("Where does the time go?", [*_decomposition(), *_waits()]),
            Row("Why does Kueue not admit?", _admission()),
            Row("What does Kueue take back?", _evictions()),
            Row("Is there quota left?", _quota()),
        ],
    )


def _local_queues() -> dashboard.Panel:
    by = "cluster, namespace, local_queue, cluster_queue"

    def gangs(phase: str) -> str:
        return promql.some(promql.gangs(by, "gangctl_gangs", f'phase=~"{phase}"'))

    return rows(
        "Gangs of each tenant",
        "Each LocalQueue with gangs in it: how many wait for admission, are admitted and have no place yet, start, and "
        "run. Held back for says how long the worst of them has been held back by something that does not end by "
        "itself. Rows without a queue are JobSets that go past Kueue.",
        [
            promql.age(by, promql.queue("gangctl_oldest_blocked_gang_timestamp_seconds", promql.UNINTENDED)),
            gangs("queued"),
            gangs(phases.ADMITTED),
            gangs("starting|partiallyready|restarting"),
            gangs("ready"),
            gangs("degraded"),
            promql.some(promql.gangs(by, "gangctl_gang_stranded_pods")),
        ],
        [
            Column("cluster", "Cluster"),
            Column("namespace", "Namespace"),
            Column("local_queue", "LocalQueue"),
            Column("cluster_queue", "ClusterQueue", link=links.QUEUE),
            Column("Value #B", "Queued", unit="short"),
            Column("Value #C", "Without a place", unit="short", steps=[(1, "orange")]),
            Column("Value #D", "Starting", unit="short"),
            Column("Value #E", "Ready", unit="short"),
            Column("Value #F", "Degraded", unit="short", steps=[(1, "red")]),
            Column("Value #G", "Stranded pods", unit="short", steps=[(1, "red")]),
            Column("Value #A", "Held back for", unit="s", steps=[(_QUARTER, "orange"), (_HOUR, "red")]),
        ],
        sort="Held back for",
        nothing="no gangs",
        links=[links.runbook("GangStuckPending")],
    )


def _cluster_queues() -> dashboard.Panel:
    by = "cluster, cluster_queue"

    def pending(status: str) -> str:
        return promql.most(by, promql.kueue("kueue_pending_workloads", f'status="{status}"'))

    return rows(
        "ClusterQueues, in Kueue and here",
        "Kueue's count of workloads beside what became of the gangs that it admitted. Admitted in Kueue and not ready "
        "here is quota that is held and not used. Inadmissible workloads wait for something to change, not for their "
        "turn.",
        [
            promql.most(f"{by}, root_cohort", promql.kueue("kueue_cluster_queue_info")),
            pending("active"),
            pending("inadmissible"),
            promql.most(by, promql.kueue("kueue_admitted_active_workloads")),
            promql.gangs(by, "gangctl_gangs", 'phase="ready"', 'cluster_queue!=""'),
            promql.some(promql.gangs(by, "gangctl_gangs_blocked", 'cluster_queue!=""', promql.UNINTENDED)),
        ],
        [
            Column("cluster", "Cluster"),
            Column("cluster_queue", "ClusterQueue"),
            Column("root_cohort", "Cohort"),
            Column("Value #B", "Pending", unit="short"),
            Column("Value #C", "Inadmissible", unit="short", steps=[(1, "orange")]),
            Column("Value #D", "Admitted in Kueue", unit="short"),
            Column("Value #E", "Gangs ready", unit="short"),
            Column("Value #F", "Gangs held back", unit="short", steps=[(1, "orange")]),
            Column("Value #A", "Info", hidden=True),
        ],
        sort="Inadmissible",
        nothing="no ClusterQueues",
        links=[links.runbook("QueueStarved"), links.runbook("QueueBlocked")],
    )


def _stages(by: str, over: str) -> list[str]:
    """Means of the stages of a start, of the gangs that became ready: they add up to the mean time to ready."""
    gangs = promql.total(by, promql.increase(promql.cluster_queue(f"{_TO_READY}_count"), over))
    stages = (promql.cluster_queue("gangctl_gang_start_stage_seconds_total", f'stage="{stage}"') for stage in _WAITS)
    return [f"{promql.total(by, promql.increase(stage, over))} / ({gangs} > 0)" for stage in stages]


def _decomposition() -> list[dashboard.Panel]:
    over_time, shown = _stages("", promql.RATE), _stages("cluster_queue", promql.SHOWN)
    return [
        graph(
            "Mean wait, by what is waited for",
            "From creation to ready in three stages: until Kueue admits (quota), from there until all pods that start "
            "together have nodes (scheduler), from there until all are ready (images and containers). All three are of "
            "the gangs that became ready in a step, so that their sum is the mean time to ready of these.",
            [Query(expr, name, "5m") for expr, name in zip(over_time, _WAITS, strict=True)],
            unit="s",
            stacked=True,
            colors=_WAITS,
            links=[links.runbook("GangReadySlow")],
        ),
        rows(
            "Mean wait by ClusterQueue, in the time shown",
            "The same three parts for each ClusterQueue, over all of the time that is shown: who pays for which wait.",
            shown,
            [
                Column("cluster_queue", "ClusterQueue"),
                Column("Value #A", "Admission", unit="s"),
                Column("Value #B", "Scheduling", unit="s"),
                Column("Value #C", "Containers", unit="s"),
            ],
            sort="Admission",
            width=12,
            nothing="no gang has become ready in this time",
        ),
    ]


def _waits() -> list[dashboard.Panel]:
    def p95(metric: str, *, of_kueue: bool) -> str:
        select = promql.kueue if of_kueue else promql.cluster_queue
        return promql.quantile(0.95, "cluster_queue", select(f"{metric}_bucket"))

    return [
        graph(
            "Wait for admission, p95",
            "From the creation of a Workload until Kueue admitted it, by Kueue's count: all workloads, not gangs only.",
            [Query(p95("kueue_admission_wait_time_seconds", of_kueue=True), "{{cluster_queue}}", "5m")],
            unit="s",
            width=8,
        ),
        graph(
            "Wait for nodes, p95",
            "From the creation of a JobSet until all pods that start together had nodes. It contains the wait for "
            "admission: what is on top of the panel to the left is the scheduler's.",
            [Query(p95(_TO_SCHEDULED, of_kueue=False), "{{cluster_queue}}", "5m")],
            unit="s",
            width=8,
        ),
        graph(
            "From admission to ready, p95",
            "How long quota is held before it is of use. Kueue's own number is beside ours where waitForPodsReady is "
            "on; it stops at the pods of a Workload, ours at those that are wanted.",
            [
                Query(p95(_ADMITTED, of_kueue=False), "{{cluster_queue}}", "5m"),
                Query(
                    p95("kueue_admitted_until_ready_wait_time_seconds", of_kueue=True),
                    "{{cluster_queue}} (Kueue)",
                    "5m",
                ),
            ],
            unit="s",
            width=8,
            links=[links.runbook("GangReadySlow")],
        ),
    ]


def _admission() -> list[dashboard.Panel]:
    return [
        graph(
            "Gangs that wait, by verdict",
            "gangctl's verdict on those that wait: never cannot be admitted with the quota as it is (change the "
            "JobSet or the quota), blocked is in a queue that admits nothing now, waiting only has to wait.",
            [Query(promql.gangs("verdict", "gangctl_fit_verdicts"), "{{verdict}}")],
            unit="short",
            width=8,
            stacked=True,
            colors={"never": "red", "blocked": "orange", "waiting": "blue"},
            links=[links.runbook("GangNeverFits")],
        ),
        graph(
            "Pending workloads in Kueue",
            "active takes part in admission, inadmissible waits for something to change. Inadmissible workloads while "
            "nothing is admitted is a queue that starves.",
            [
                Query(
                    promql.replicated("cluster_queue, status", promql.kueue("kueue_pending_workloads")),
                    "{{cluster_queue}} {{status}}",
                )
            ],
            unit="short",
            width=8,
            links=[links.runbook("QueueStarved"), links.runbook("QueueBlocked")],
        ),
        graph(
            "Unadmitted workloads, by Kueue's reason",
            "Kueue's own words for why it has not admitted; they need its feature gate "
            "UnadmittedWorkloadsObservability.",
            [
                Query(
                    promql.replicated(
                        "reason", promql.kueue("kueue_unadmitted_workloads"), "cluster_queue, underlying_cause"
                    ),
                    "{{reason}}",
                )
            ],
            unit="short",
            width=8,
            stacked=True,
        ),
    ]


def _evictions() -> list[dashboard.Panel]:
    evicted = promql.increase(promql.kueue("kueue_evicted_workloads_total"))
    preempted = promql.increase(promql.kueue_preempting("kueue_preempted_workloads_total"))
    return [
        graph(
            "Admitted workloads",
            "Admissions in each step. Nothing here while workloads are pending is what to look into.",
            [
                Query(
                    promql.total("cluster_queue", promql.increase(promql.kueue("kueue_admitted_workloads_total"))),
                    "{{cluster_queue}}",
                )
            ],
            unit="short",
            width=8,
            bars=True,
            stacked=True,
            links=[links.runbook("QueueStarved"), links.runbook("QueueBlocked")],
        ),
        graph(
            "Evictions, by reason",
            "Workloads that Kueue stopped. PodsReadyTimeout again and again is a gang that never becomes ready and "
            "comes back: find its cause before it is admitted again.",
            [Query(promql.total("cluster_queue, reason", evicted), "{{cluster_queue}} {{reason}}")],
            unit="short",
            width=8,
            bars=True,
            stacked=True,
            links=[links.runbook("QueueWorkloadStuck")],
        ),
        graph(
            "Preemptions, by who preempts",
            "Workloads that had to go for another one; the queue is the one that took the quota.",
            [
                Query(
                    promql.total("preempting_cluster_queue, reason", preempted),
                    "{{preempting_cluster_queue}} {{reason}}",
                )
            ],
            unit="short",
            width=8,
            bars=True,
            stacked=True,
        ),
    ]


def _quota() -> list[dashboard.Panel]:
    by = "cluster, cluster_queue, flavor, resource"

    def most(metric: str) -> str:
        return promql.most(by, promql.kueue(metric))

    used = f"{most('kueue_cluster_queue_resource_usage')} / ({most('kueue_cluster_queue_nominal_quota')} > 0)"
    return [
        graph(
            "Use of nominal quota",
            "Above 1 a ClusterQueue borrows. It needs metrics.enableClusterQueueResources in Kueue's configuration.",
            [Query(used, "{{cluster_queue}} {{flavor}} {{resource}}")],
            unit="percentunit",
            steps=[(0.9, "orange"), (1, "red")],
        ),
        rows(
            "Quota now",
            "What is used, reserved and nominal, by flavor and resource. Reserved and not used is quota that admitted "
            "workloads hold before they start.",
            [
                most("kueue_cluster_queue_nominal_quota"),
                most("kueue_cluster_queue_resource_reservation"),
                most("kueue_cluster_queue_resource_usage"),
                used,
            ],
            [
                Column("cluster", "Cluster"),
                Column("cluster_queue", "ClusterQueue"),
                Column("flavor", "Flavor"),
                Column("resource", "Resource"),
                Column("Value #A", "Nominal", unit="short"),
                Column("Value #B", "Reserved", unit="short"),
                Column("Value #C", "Used", unit="short"),
                Column("Value #D", "Of nominal", unit="percentunit", steps=[(0.9, "orange"), (1, "red")]),
            ],
            sort="Of nominal",
            width=12,
            nothing="Kueue does not export quotas (metrics.enableClusterQueueResources)",
        ),
    ]
