"""What the scheduler makes of gangs. Its metrics of pod groups are alpha: 1.36 has the first, 1.37 all of them."""

from __future__ import annotations

from grafana_foundation_sdk.models import dashboard

from grafana.generate import links, promql
from grafana.generate.board import Board, Row, targets
from grafana.generate.panels import Query, graph, heat, number

_TRIED = ('type="podgroup"', 'queue=~"backoff|unschedulable"')
"""Where pod groups are that did not fit: 1.37 puts them into backoff, and keeps none among what is unschedulable."""
_RESULTS = {"scheduled": "green", "unschedulable": "orange", "error": "red"}


def board() -> Board:
    """The dashboard of kube-scheduler; job and instance are its own."""
    return Board(
        uid="gangctl-scheduler",
        title="gangctl / Scheduler",
        description=(
            "How kube-scheduler schedules pod groups: what waits, what it decides and how fast, what it preempts."
        ),
        tags=("scheduler",),
        variables=targets("scheduler_schedule_attempts_total"),
        links=[links.to("gangctl-overview", "Gangs overview")],
        rows=[
            Row("Does the scheduler know gangs, and what waits?", [*_numbers(), *_waiting()]),
            Row("What does it decide, and how fast?", _attempts()),
            Row("What does it preempt?", _preemption()),
            Row("Does it find places in one topology domain?", _placements()),
        ],
    )


def _numbers() -> list[dashboard.Panel]:
    return [
        number(
            "Pod groups tried",
            "Attempts to schedule pod groups in the last hour. Empty while gangs want to start means that this "
            "scheduler does not know pod groups: its feature gates GenericWorkload and GangScheduling are off, or it is"
            " older than 1.36.",
            promql.in_an_hour(promql.target("scheduler_podgroup_schedule_attempts_total")),
            unit="short",
            width=6,
            nothing="none",
            links=[links.runbook("GangGuaranteeLost")],
        ),
        number(
            "Pod groups without a place",
            "Pod groups that were tried and did not fit. They are tried again after a backoff, or when something "
            "changes in the cluster.",
            promql.most("", promql.without("queue", promql.target("scheduler_queued_entities", *_TRIED))),
            unit="short",
            width=6,
            steps=[(1, "orange")],
            links=[links.runbook("GangUnschedulable")],
        ),
        number(
            "Pods of incomplete groups",
            "Pods that wait in the scheduler because fewer of their group exist than have to start together. If it "
            "stays above 0, Jobs are not creating pods: quota of the namespace, or a webhook that refuses them.",
            promql.most("", promql.target("scheduler_pending_pods", 'queue="incomplete"')),
            unit="short",
            width=6,
            steps=[(1, "orange")],
            links=[links.runbook("GangCreationRefused")],
        ),
        number(
            "Errors in an hour",
            "Attempts that ended in an error of the scheduler itself. Its log says more.",
            promql.in_an_hour(promql.target("scheduler_podgroup_schedule_attempts_total", 'result="error"')),
            unit="short",
            width=6,
            steps=[(1, "red")],
            nothing="none",
            links=[links.runbook("GangSchedulerFailing")],
        ),
    ]


def _waiting() -> list[dashboard.Panel]:
    return [
        graph(
            "Pods in the scheduler's queues",
            "active is about to be tried, backoff comes again soon, unschedulable waits for the cluster to change, "
            "gated and incomplete wait for others: gates, and pods of their group that do not exist yet.",
            [Query(promql.most("queue", promql.target("scheduler_pending_pods")), "{{queue}}")],
            unit="short",
            width=8,
            stacked=True,
        ),
        graph(
            "Pod groups in the scheduler's queues",
            "The same for pod groups as wholes (Kubernetes 1.37).",
            [
                Query(
                    promql.most("queue", promql.target("scheduler_queued_entities", 'type="podgroup"')),
                    "{{queue}}",
                )
            ],
            unit="short",
            width=8,
            stacked=True,
        ),
        graph(
            "Unschedulable pods, by plugin",
            "Which check of the scheduler turned pods away: NodeResourcesFit is too little room, TaintToleration and "
            "NodeAffinity are the wrong nodes. A pod counts for each plugin that refused it.",
            [Query(promql.some(promql.most("plugin", promql.target("scheduler_unschedulable_pods"))), "{{plugin}}")],
            unit="short",
            width=8,
        ),
    ]


def _attempts() -> list[dashboard.Panel]:
    attempts = "scheduler_podgroup_schedule_attempts_total"
    seconds = "scheduler_podgroup_scheduling_attempt_duration_seconds"
    return [
        graph(
            "Attempts on pod groups, by result",
            "unschedulable at a steady rate is a scheduler that tries the same gangs over and over.",
            [Query(promql.total("result", promql.rate(promql.target(attempts))), "{{result}}")],
            unit="ops",
            width=8,
            stacked=True,
            colors=_RESULTS,
        ),
        graph(
            "An attempt on a pod group",
            "Seconds of one attempt at a whole pod group. While it runs nothing else is scheduled, so seconds here "
            "delay all pods.",
            [
                Query(promql.quantile(share, "result", promql.target(f"{seconds}_bucket")), f"{{{{result}}}} {name}")
                for share, name in ((0.5, "p50"), (0.99, "p99"))
            ],
            unit="s",
            width=8,
        ),
        heat(
            "Algorithm, all pod groups",
            "How long the search for places took.",
            promql.total(
                "le",
                promql.increase(promql.target("scheduler_podgroup_scheduling_algorithm_duration_seconds_bucket")),
            ),
            unit="s",
            width=8,
        ),
        graph(
            "Attempts on single pods, by result",
            "What is not in a pod group, for comparison. Pods of gangs here are gangs that have lost their guarantee.",
            [
                Query(
                    promql.total("result", promql.rate(promql.target("scheduler_schedule_attempts_total"))),
                    "{{result}}",
                )
            ],
            unit="ops",
            stacked=True,
            colors=_RESULTS,
            links=[links.runbook("GangGuaranteeLost")],
        ),
        graph(
            "From the queue to a node, p99",
            "Seconds from the moment a pod came to the scheduler until it had a node, over all attempts.",
            [
                Query(
                    promql.quantile(0.99, "", promql.target("scheduler_pod_scheduling_sli_duration_seconds_bucket")),
                    "p99",
                    "5m",
                )
            ],
            unit="s",
        ),
    ]


def _preemption() -> list[dashboard.Panel]:
    return [
        graph(
            "Preemptions for pod groups, by result",
            "Attempts to make room for a pod group by preempting others.",
            [
                Query(
                    promql.total(
                        "result", promql.increase(promql.target("scheduler_workload_preemption_attempts_total"))
                    ),
                    "{{result}}",
                )
            ],
            unit="short",
            width=8,
            bars=True,
            stacked=True,
        ),
        graph(
            "Victims of one preemption",
            "How many pods had to go for one pod group.",
            [
                Query(
                    promql.quantile(share, "", promql.target("scheduler_workload_preemption_victims_bucket")),
                    name,
                    "5m",
                )
                for share, name in ((0.5, "p50"), (0.99, "p99"))
            ],
            unit="short",
            width=8,
        ),
        graph(
            "Groups and single pods disrupted",
            "What was disrupted a second, by who preempted: a pod group with disruption mode all counts once, whatever "
            "its size.",
            [
                Query(
                    promql.total(
                        "preemptor", promql.rate(promql.target("scheduler_preemption_workload_disruptions_sum"))
                    ),
                    "for a {{preemptor}}",
                )
            ],
            unit="ops",
            width=8,
            links=[links.runbook("GangDegraded")],
        ),
    ]


def _placements() -> list[dashboard.Panel]:
    return [
        graph(
            "Evaluated placements, by result",
            "Topology domains that were tried for a pod group with a topology constraint. Only infeasible ones: all "
            "are full (Unschedulable in gangctl), or none is large enough (TopologyTooSmall). Needs the gate "
            "TopologyAwareWorkloadScheduling.",
            [
                Query(
                    promql.total("result", promql.rate(promql.target("scheduler_placement_evaluations_total"))),
                    "{{result}}",
                )
            ],
            unit="ops",
            stacked=True,
            colors={"feasible": "green", "infeasible": "orange"},
            links=[links.runbook("GangNeverFits")],
        ),
        graph(
            "One placement, p99",
            "Seconds to find out whether a pod group fits in one domain.",
            [
                Query(
                    promql.quantile(
                        0.99, "result", promql.target("scheduler_placement_evaluation_duration_seconds_bucket")
                    ),
                    "{{result}}",
                )
            ],
            unit="s",
        ),
    ]
