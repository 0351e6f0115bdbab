"""What failures cost: lost members, the time until gangs are whole again, and resources that were held without use."""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.models import dashboard

from grafana.generate import links, promql
from grafana.generate.board import Board, Row, choice, targets, tenants
from grafana.generate.panels import Column, Query, graph, number, rows

_ALLOCATED: Final = "gangctl_gang_allocated_resource_seconds_total"
_READY: Final = "gangctl_gang_ready_resource_seconds_total"
_INCOMPLETE: Final = "gangctl_gang_incomplete_resource_seconds_total"
_RESTART: Final = "gangctl_gang_restart_resource_seconds_total"
_RECOVERY: Final = "gangctl_gang_recovery_seconds"
_HOUR_SECONDS: Final = 3600


def board() -> Board:
    """The dashboard of what failures cost."""
    return Board(
        uid="gangctl-costs",
        title="gangctl / What failures cost",
        description="How often gangs lose members, how long they take to recover, and the time of pods and "
        "accelerators that is held without use.",
        tags=("gangs",),
        since="now-168h",
        variables=[
            *targets("gangctl_build_info"),
            *tenants(),
            choice(
                "resource",
                "Resource",
                f'label_values({_ALLOCATED}{{cluster=~"$cluster", job=~"$job"}}, resource)',
            ),
        ],
        links=[links.to("gangctl-overview", "Gangs overview"), links.to("gangctl-queues", "Tenants and queues")],
        rows=[
            Row("What was held, and what of it was used?", _numbers()),
            Row("Whose time is it?", [_by_queue(), *_over_time()]),
            Row("How long do gangs take to recover?", _recovery()),
            Row("How often do gangs fail?", _losses()),
        ],
    )


def _held(by: str, family: str, over: str) -> str:
    return promql.total(by, promql.increase(promql.queue(family, 'resource=~"$resource"'), over))


def _hours(by: str, family: str, over: str = promql.SHOWN) -> str:
    return f"{_held(by, family, over)} / {_HOUR_SECONDS}"


def _share(by: str, family: str, over: str) -> str:
    """The part of the allocated time; nothing where nothing was allocated."""
    return f"{_held(by, family, over)} / ({_held(by, _ALLOCATED, over)} > 0)"


def _numbers() -> list[dashboard.Panel]:
    counted = (
        "Of the resources that are chosen, in the time shown, as far as the leaders that there were have seen it. "
        "Choose one resource: hours of pods and of accelerators are not to be added."
    )
    return [
        number(
            "Ready, of allocated",
            f"The part of the allocated time in which pods were ready. {counted}",
            _share("", _READY, promql.SHOWN),
            unit="percentunit",
            width=4,
            steps=[(0.8, "orange"), (0.95, "green")],
            below="red",
            nothing="nothing allocated",
        ),
        number(
            "Allocated hours",
            f"Hours for which pods of gangs were on nodes, times what they request. {counted}",
            _hours("", _ALLOCATED),
            unit="short",
            width=4,
            nothing="nothing allocated",
        ),
        number(
            "Held by incomplete gangs",
            "Hours held by gangs that were not ready as a whole: while they started, and while a member was lost. "
            f"{counted}",
            _hours("", _INCOMPLETE),
            unit="short",
            width=4,
            nothing="nothing allocated",
            links=[links.runbook("GangDegraded")],
        ),
        number(
            "Lost to restarts",
            f"The part of these from a restart of a JobSet until its gang was ready again. {counted}",
            _hours("", _RESTART),
            unit="short",
            width=4,
            nothing="nothing allocated",
            links=[links.runbook("GangRestartLoop")],
        ),
        number(
            "Recovery, p95",
            "Seconds from the loss of a member until the gang was ready again, for 95 of 100 recoveries in the time "
            "shown. Gangs that did not recover are not in it.",
            f"histogram_quantile(0.95, {promql.total('le', promql.increase(_buckets(), promql.SHOWN))})",
            unit="s",
            width=4,
            nothing="no recovery",
        ),
        number(
            "Attempts",
            "Attempts of JobSets that began in the time shown: the first, and one for each restart.",
            promql.total("", promql.increase(promql.queue("gangctl_gang_attempts_total"), promql.SHOWN)),
            unit="short",
            width=4,
            nothing="none",
        ),
    ]


def _by_queue() -> dashboard.Panel:
    by = "cluster, namespace, local_queue, cluster_queue, resource"
    return rows(
        "Hours of each queue and resource",
        "Allocated hours of each LocalQueue and resource in the time shown, the part in which pods were ready, and the "
        "hours that were held without use. The queue with the most hours held by incomplete gangs gains most from "
        "fewer failures and faster starts.",
        [
            _hours(by, _ALLOCATED),
            _share(by, _READY, promql.SHOWN),
            _hours(by, _INCOMPLETE),
            _hours(by, _RESTART),
        ],
        [
            Column("cluster", "Cluster"),
            Column("namespace", "Namespace"),
            Column("local_queue", "LocalQueue"),
            Column("cluster_queue", "ClusterQueue", link=links.QUEUE),
            Column("resource", "Resource"),
            Column("Value #A", "Allocated hours", unit="short"),
            Column("Value #B", "Ready", unit="percentunit"),
            Column("Value #C", "Held by incomplete gangs", unit="short"),
            Column("Value #D", "Lost to restarts", unit="short"),
        ],
        sort="Held by incomplete gangs",
        nothing="nothing allocated",
    )


def _over_time() -> list[dashboard.Panel]:
    return [
        graph(
            "Ready share of the allocated time",
            "The part of the allocated time in which pods were ready, by ClusterQueue and resource. A fall that lasts "
            "is nodes that wait for other nodes, images or restarts.",
            [Query(_share("cluster_queue, resource", _READY, promql.RATE), "{{cluster_queue}} {{resource}}", "5m")],
            unit="percentunit",
            most=1,
        ),
        graph(
            "Held by incomplete gangs, by ClusterQueue",
            "What gangs hold that are not ready as a whole, as an average in each step: 8 are 8 pods or accelerators "
            "all the time.",
            [
                Query(
                    promql.total(
                        "cluster_queue, resource", promql.rate(promql.queue(_INCOMPLETE, 'resource=~"$resource"'))
                    ),
                    "{{cluster_queue}} {{resource}}",
                    "5m",
                )
            ],
            unit="short",
            stacked=True,
            links=[links.runbook("GangDegraded"), links.runbook("GangPartiallyPlaced")],
        ),
    ]


def _buckets() -> str:
    return promql.cluster_queue(f"{_RECOVERY}_bucket")


def _recovery() -> list[dashboard.Panel]:
    recoveries, seconds = (
        promql.total(
            "cluster_queue, reason", promql.increase(promql.cluster_queue(f"{_RECOVERY}_{part}"), promql.SHOWN)
        )
        for part in ("count", "sum")
    )
    return [
        graph(
            "Time to recover, p95 by reason",
            "From the loss of a member until the gang is ready again, in the same or a later attempt, by the reason of "
            "the loss.",
            [Query(promql.quantile(0.95, "reason", _buckets()), "{{reason}}", "5m")],
            unit="s",
            links=[links.runbook("GangNodeLost")],
        ),
        rows(
            "Recoveries in the time shown",
            "How many gangs recovered, and how long that took on average, by ClusterQueue and reason.",
            [
                promql.some(recoveries),
                f"{seconds} / ({promql.some(recoveries)})",
            ],
            [
                Column("cluster_queue", "ClusterQueue"),
                Column("reason", "Reason"),
                Column("Value #A", "Recoveries", unit="short"),
                Column("Value #B", "Mean time", unit="s"),
            ],
            sort="Recoveries",
            width=12,
            nothing="no recovery in this time",
        ),
    ]


def _losses() -> list[dashboard.Panel]:
    return [
        graph(
            "Losses, by reason",
            "Times at which a gang that was ready was no longer ready and had not finished.",
            [
                Query(
                    promql.total("reason", promql.increase(promql.cluster_queue("gangctl_gang_disruptions_total"))),
                    "{{reason}}",
                    "5m",
                )
            ],
            unit="short",
            bars=True,
            stacked=True,
            links=[links.runbook("GangNodeLost"), links.runbook("GangContainersFailing")],
        ),
        graph(
            "Attempts, by ClusterQueue",
            "Attempts that began. Many more than new JobSets are restarts.",
            [
                Query(
                    promql.total("cluster_queue", promql.increase(promql.queue("gangctl_gang_attempts_total"))),
                    "{{cluster_queue}}",
                    "5m",
                )
            ],
            unit="short",
            bars=True,
            stacked=True,
            links=[links.runbook("GangRestartLoop")],
        ),
    ]
