"""Is something stuck, whose is it, since when, and why."""

from __future__ import annotations

from grafana_foundation_sdk.models import dashboard

from grafana.generate import links, phases, promql
from grafana.generate.board import Board, Row, targets, tenants
from grafana.generate.panels import Column, Query, graph, heat, number, rows

_WARN, _BAD = "orange", "red"
_QUARTER, _HOUR = 900, 3600


def board() -> Board:
    """The dashboard to open first."""
    return Board(
        uid="gangctl-overview",
        title="gangctl / Gangs overview",
        description=(
            "Is something stuck, whose is it, since when, and why. Every other dashboard is one click from here."
        ),
        tags=("gangs",),
        variables=[*targets("gangctl_build_info"), *tenants()],
        links=[links.to("gangctl-health", "Is gangctl well?")],
        rows=[
            Row("Is something stuck?", _numbers()),
            Row("Whose, since when, why?", [_by_cause(), _by_gang()]),
            Row("How did it come to this?", _history()),
            Row("Where are the pods?", _pods()),
            Row("How long do gangs take to start?", _times()),
            Row("What took running gangs down?", _disruptions()),
            Row("What has been alerted?", [_alerts()]),
        ],
    )


def _numbers() -> list[dashboard.Panel]:
    oldest = promql.queue("gangctl_oldest_blocked_gang_timestamp_seconds", promql.UNINTENDED)
    return [
        number(
            "Gangs held back",
            "JobSets whose most likely cause does not end by itself. Above 0, the tables below name them. A gang that "
            "waits for its turn in a queue is not counted, nor is one that its user has suspended.",
            promql.or_zero(promql.gangs("", "gangctl_gangs_blocked", promql.UNINTENDED)),
            unit="short",
            steps=[(1, _WARN)],
            links=[links.runbook("GangStuckPending")],
        ),
        number(
            "Held back for",
            "How long the gang that has been held back for longest has been so. Orange from a quarter of an hour on, "
            "red from an hour on.",
            promql.or_zero(promql.age("", oldest)),
            unit="s",
            steps=[(_QUARTER, _WARN), (_HOUR, _BAD)],
            links=[links.runbook("GangStuckPending")],
        ),
        number(
            "Stranded pods",
            "Pods that hold nodes while their group is short of its minimum: paid for, and of no use. Two gangs that "
            "each have some can wait for each other without end; delete or suspend one.",
            promql.or_zero(promql.gangs("", "gangctl_gang_stranded_pods")),
            unit="short",
            steps=[(1, _BAD)],
            links=[links.runbook("GangPartiallyPlaced")],
        ),
        number(
            "Degraded",
            "Gangs that were ready and are no longer. Check their nodes and containers: gangctl why JOBSET -n "
            "NAMESPACE.",
            promql.or_zero(promql.gangs("", "gangctl_gangs", 'phase="degraded"')),
            unit="short",
            steps=[(1, _BAD)],
            links=[links.runbook("GangDegraded")],
        ),
        *_standing(),
    ]


def _standing() -> list[dashboard.Panel]:
    return [
        number(
            "Guarantee lost",
            "JobSets that asked for a gang and are scheduled pod by pod, because a feature gate is off or a field was "
            "dropped. Nothing fails, so nothing else reports it.",
            promql.or_zero(promql.gangs("", "gangctl_guarantee_lost_gangs")),
            unit="short",
            steps=[(1, _BAD)],
            links=[links.runbook("GangGuaranteeLost")],
        ),
        number(
            "Waiting in queues",
            "Gangs that wait for Kueue to admit them. That is what queues are for; the dashboard Tenants and queues "
            "says how long it takes.",
            promql.or_zero(promql.gangs("", "gangctl_gangs", 'phase="queued"')),
            unit="short",
            links=[links.to("gangctl-queues", "Tenants and queues")],
        ),
        number(
            "Ready",
            "Gangs of which all pods are ready.",
            promql.or_zero(promql.gangs("", "gangctl_gangs", 'phase="ready"')),
            unit="short",
        ),
        number(
            "Shards without leader",
            "Shards of gangctl that no replica leads; without --shards there is one. Only leaders know what is shown "
            "here: with one that is missing, nothing is known of the gangs in a part of the namespaces, and what "
            "is shown above counts the others only. Go to the dashboard Controller and webhook health.",
            promql.shards_led("== 0"),
            unit="short",
            steps=[(1, _BAD)],
            nothing="not scraped",
            links=[links.runbook("GangctlShardWithoutLeader"), links.to("gangctl-health", "Health")],
        ),
    ]


def _by_cause() -> dashboard.Panel:
    by = "cluster, namespace, local_queue, cluster_queue, reason"
    return rows(
        "Held back, by queue and cause",
        "Where gangs are held back, for which cause, how many and since when, the longest first. Click on a "
        "ClusterQueue for its dashboard. gangctl why says what to do about it.",
        [
            promql.age(by, promql.queue("gangctl_oldest_blocked_gang_timestamp_seconds", promql.UNINTENDED)),
            promql.some(promql.gangs(by, "gangctl_gangs_blocked", promql.UNINTENDED)),
        ],
        [
            Column("cluster", "Cluster"),
            Column("namespace", "Namespace"),
            Column("local_queue", "LocalQueue"),
            Column("cluster_queue", "ClusterQueue", link=links.QUEUE),
            Column("reason", "Cause"),
            Column("Value #B", "Gangs", unit="short", width=90),
            Column("Value #A", "For", unit="s", steps=[(_QUARTER, _WARN), (_HOUR, _BAD)], width=140),
        ],
        sort="For",
        height=7,
        nothing="nothing is held back",
        links=[
            links.runbook(alert)
            for alert in (
                "GangNeverFits",
                "GangUnschedulable",
                "GangStuckPending",
                "GangGroupMissing",
                "QueueBlocked",
                "QueueWorkloadStuck",
            )
        ],
    )


def _by_gang() -> dashboard.Panel:
    by = "cluster, namespace, jobset, local_queue, cluster_queue, level, phase, reason"
    phase = promql.namespace("gangctl_gang_status_phase", f'phase!~"{phases.AT_REST}"')
    reason = f"({promql.namespace('gangctl_gang_status_reason')} or on ({promql.GANG_KEY}) {phase})"
    of_queue = "local_queue, cluster_queue, level"
    unsettled = promql.joined(of_queue, phase, promql.queue("gangctl_gang_info"))
    since = promql.namespace("gangctl_gang_phase_timestamp_seconds")
    age = promql.joined(f"phase, {of_queue}", f"(time() - {since})", f"({unsettled})")
    return rows(
        "Gangs that are not ready",
        "Every gang that is neither ready nor over nor suspended by a user, with its most likely cause; the one that "
        "has been in its phase for longest first. Click on a JobSet for its history; gangctl why JOBSET -n NAMESPACE "
        "says more.",
        [
            promql.most(by, promql.joined("reason", age, reason)),
            *(
                promql.most("cluster, namespace, jobset", f"{pods} and on ({promql.GANG_KEY}) ({unsettled})")
                for pods in map(promql.namespace, ("gangctl_gang_ready_pods", "gangctl_gang_wanted_pods"))
            ),
        ],
        [
            Column("cluster", "Cluster"),
            Column("namespace", "Namespace"),
            Column("jobset", "JobSet", link=links.GANG),
            Column("local_queue", "LocalQueue"),
            Column("cluster_queue", "ClusterQueue", link=links.QUEUE),
            Column("level", "Level", width=120),
            Column("phase", "Phase", width=140),
            Column("reason", "Cause"),
            Column("Value #B", "Ready", unit="short", width=80),
            Column("Value #C", "Wanted", unit="short", width=80),
            Column("Value #A", "For", unit="s", steps=[(_QUARTER, _WARN), (_HOUR, _BAD)], width=140),
        ],
        sort="For",
        height=10,
        nothing="every gang is ready",
        links=[links.to("gangctl-gang", "One gang in detail")],
    )


def _history() -> list[dashboard.Panel]:
    return [
        graph(
            "Gangs by phase",
            "How many gangs were in which phase. A band that grows and does not shrink is where they get stuck.",
            [Query(promql.gangs("phase", "gangctl_gangs", f'phase!~"{phases.OVER}"'), "{{phase}}")],
            unit="short",
            stacked=True,
            colors=phases.BY_LABEL,
        ),
        graph(
            "Gangs held back, by cause",
            "What does not end by itself. Causes like NeverFits, MinCountUnreachable and TopologyTooSmall want a change"
            " of the JobSet or of the quota; Unschedulable wants nodes.",
            [Query(promql.gangs("reason", "gangctl_gangs_blocked"), "{{reason}}")],
            unit="short",
            stacked=True,
            links=[links.runbook("GangNeverFits")],
        ),
    ]


def _pods() -> list[dashboard.Panel]:
    return [
        graph(
            "Pods of gangs",
            "Pods by state; each pod has one, so that the stack is the number of pods that there should be. An "
            "unscheduled pod waits for the scheduler, an unready one for images and containers.",
            [Query(promql.gangs("state", "gangctl_gang_pods"), "{{state}}")],
            unit="short",
            stacked=True,
            links=[links.runbook("GangImagePullFailing"), links.runbook("GangCreationRefused")],
            colors={
                "missing": "red",
                "unscheduled": "orange",
                "unready": "yellow",
                "ready": "green",
                "succeeded": "dark-green",
            },
        ),
        graph(
            "Stranded pods, by namespace",
            "Pods that hold nodes without their gang having its minimum. More than a moment of it is a deadlock or "
            "nodes that were lost: suspend or delete one of the gangs that hold each other up.",
            [Query(promql.gangs("namespace", "gangctl_gang_stranded_pods"), "{{namespace}}")],
            unit="short",
            stacked=True,
            links=[links.runbook("GangPartiallyPlaced"), links.runbook("GangMutualDeadlock")],
        ),
    ]


def _times() -> list[dashboard.Panel]:
    found = [
        graph(
            title,
            description,
            [
                Query(promql.quantile(share, "cluster_queue", promql.cluster_queue(f"{metric}_bucket")), legend, "5m")
                for share, legend in ((0.5, "{{cluster_queue}} p50"), (0.95, "{{cluster_queue}} p95"))
            ],
            unit="s",
            links=[links.runbook("GangReadySlow")],
        )
        for title, metric, description in (
            (
                "Until scheduled",
                "gangctl_gang_time_to_scheduled_seconds",
                "From the creation of a JobSet until all pods that start together had nodes: queue and scheduler.",
            ),
            (
                "Until ready",
                "gangctl_gang_time_to_ready_seconds",
                (
                    "From the creation of a JobSet until all its pods were ready for the first time: what users wait. "
                    "If it grows and the one beside it does not, images or containers are slow."
                ),
            ),
        )
    ]
    return [
        *found,
        heat(
            "Until ready, all starts",
            "How many gangs took how long. Two bands are two kinds of gangs, or one that waits for something that comes"
            " late.",
            promql.total("le", promql.increase(promql.cluster_queue("gangctl_gang_time_to_ready_seconds_bucket"))),
            unit="s",
        ),
        heat(
            "From the first ready pod to the last",
            "For how long nodes stood idle because others of their gang were not ready: slow images, slow nodes, or a "
            "start in stages.",
            promql.total("le", promql.increase(promql.cluster_queue("gangctl_gang_ready_spread_seconds_bucket"))),
            unit="s",
        ),
    ]


def _disruptions() -> list[dashboard.Panel]:
    return [
        graph(
            "Disruptions, by cause",
            "How often a ready gang stopped being ready before it had finished. Preempted is a higher priority, "
            "NodeLost is the machines, CrashLoop is the program.",
            [
                Query(
                    promql.total("reason", promql.increase(promql.cluster_queue("gangctl_gang_disruptions_total"))),
                    "{{reason}}",
                )
            ],
            unit="short",
            width=8,
            bars=True,
            stacked=True,
            links=[
                links.runbook(alert)
                for alert in ("GangNodeLost", "GangContainersFailing", "GangDegraded", "GangRestartLoop")
            ],
        ),
        graph(
            "Degraded gangs, on average",
            "Seconds spent degraded, a second: how many gangs were degraded at a time, by namespace.",
            [
                Query(
                    promql.total("namespace", promql.rate(promql.queue("gangctl_gang_degraded_seconds_total"))),
                    "{{namespace}}",
                )
            ],
            unit="short",
            width=8,
            stacked=True,
            links=[links.runbook("GangDegraded")],
        ),
        graph(
            "What ready gangs became",
            "Changes from ready to something else: succeeded is the end that all want.",
            [
                Query(
                    promql.total(
                        "to", promql.increase(promql.target("gangctl_gang_phase_transitions_total", 'from="ready"'))
                    ),
                    "{{to}}",
                )
            ],
            unit="short",
            width=8,
            bars=True,
            stacked=True,
            colors=phases.BY_LABEL,
        ),
    ]


def _alerts() -> dashboard.Panel:
    by = "cluster, alertname, severity, alertstate, namespace, local_queue, cluster_queue, reason"
    return rows(
        "Alerts of gangctl",
        "Alerts that are pending or firing, from the rules in manifests/monitoring. Click on one for its runbook.",
        [promql.most(by, 'ALERTS{cluster=~"$cluster", alertname=~"Gang.*|Queue(Blocked|Starved|WorkloadStuck)"}')],
        [
            Column("cluster", "Cluster"),
            Column("alertname", "Alert", link=links.ALERT),
            Column("severity", "Severity", width=110),
            Column("alertstate", "State", width=110),
            Column("namespace", "Namespace"),
            Column("local_queue", "LocalQueue"),
            Column("cluster_queue", "ClusterQueue", link=links.QUEUE),
            Column("reason", "Cause"),
            Column("Value", "Value", hidden=True),
        ],
        sort="Severity",
        height=6,
        nothing="no alerts",
    )
