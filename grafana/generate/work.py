"""What gangctl does and what that takes: rows of the dashboard of its health."""

from __future__ import annotations

from grafana_foundation_sdk.models import dashboard

from grafana.generate import links, promql
from grafana.generate.panels import Query, graph

_RESULTS = {"done": "green", "requeued": "blue", "retried": "orange", "failed": "red"}


def gangs() -> list[dashboard.Panel]:
    """What it makes of JobSets."""
    return [
        graph(
            "What was done about JobSets, by result",
            "Results of reconciles of JobSets, without those that changed nothing. recreated again and again means "
            "that another writer deletes what gangctl makes, rejected that a name has another owner.",
            [
                Query(
                    promql.total(
                        "result", promql.increase(promql.target("gangctl_translations_total", 'result!="unchanged"'))
                    ),
                    "{{result}}",
                )
            ],
            unit="short",
            bars=True,
            stacked=True,
            colors={
                "created": "green",
                "prepared": "light-green",
                "patched": "blue",
                "recreated": "orange",
                "rejected": "red",
                "failed": "dark-red",
            },
            links=[links.runbook("GangGroupMissing")],
        ),
        graph(
            "What was repaired",
            "Workloads and PodGroups that were no longer as they should be, by what was wrong. existence is another "
            "writer who deletes them; min_count is an edit, or a JobSet that was resized.",
            [
                Query(
                    promql.total("kind, field_class", promql.increase(promql.target("gangctl_drift_repairs_total"))),
                    "{{kind}} {{field_class}}",
                )
            ],
            unit="short",
            bars=True,
            stacked=True,
            links=[links.runbook("GangGroupMissing")],
        ),
    ]


def keys() -> list[dashboard.Panel]:
    """Reconciles and the lines before them."""
    return [
        graph(
            "Reconciles, by result",
            "retried comes again after a growing delay, failed not before something changes.",
            [Query(promql.total("result", promql.rate(promql.target("gangctl_reconcile_total"))), "{{result}}")],
            unit="ops",
            width=8,
            stacked=True,
            colors=_RESULTS,
        ),
        graph(
            "Errors of reconciles, by class",
            "panic is a bug, deadline is an API server that does not answer, the rest is what it answered.",
            [
                Query(
                    promql.total(
                        "controller, error_class", promql.increase(promql.target("gangctl_reconcile_errors_total"))
                    ),
                    "{{controller}} {{error_class}}",
                )
            ],
            unit="short",
            width=8,
            bars=True,
            stacked=True,
            links=[links.runbook("GangctlReconcileErrors")],
        ),
        graph(
            "One reconcile, p99",
            "Seconds one takes; nearly all of it is waiting for the API server.",
            [
                Query(
                    promql.quantile(0.99, "controller", promql.target("gangctl_reconcile_duration_seconds_bucket")),
                    "{{controller}}",
                )
            ],
            unit="s",
            width=8,
        ),
        *_lines(),
    ]


def _lines() -> list[dashboard.Panel]:
    return [
        graph(
            "Depth of work queues",
            "Keys that wait. A depth that does not return to 0 is more work than the workers do.",
            [Query(promql.most("name", promql.target("gangctl_workqueue_depth")), "{{name}}")],
            unit="short",
            width=6,
            steps=[(100, "orange")],
            links=[links.runbook("GangctlQueueBackedUp")],
        ),
        graph(
            "Time in the work queue, p99",
            "Seconds for which a key waits before it is processed.",
            [
                Query(
                    promql.quantile(0.99, "name", promql.target("gangctl_workqueue_queue_duration_seconds_bucket")),
                    "{{name}}",
                )
            ],
            unit="s",
            width=6,
            links=[links.runbook("GangctlQueueBackedUp")],
        ),
        graph(
            "Adds and retries",
            "Keys that were added, and those that were added again after an error.",
            [
                Query(promql.total("name", promql.rate(promql.target("gangctl_workqueue_adds_total"))), "{{name}}"),
                Query(
                    promql.total("name", promql.rate(promql.target("gangctl_workqueue_retries_total"))),
                    "{{name}} retried",
                ),
            ],
            unit="ops",
            width=6,
        ),
        graph(
            "Longest running key",
            "Seconds for which the longest running key has been processed. A value that keeps rising is a reconcile "
            "that hangs.",
            [
                Query(
                    promql.most("name", promql.target("gangctl_workqueue_longest_running_processor_seconds")),
                    "{{name}}",
                )
            ],
            unit="s",
            width=6,
            steps=[(60, "orange")],
            links=[links.runbook("GangctlQueueBackedUp")],
        ),
    ]


def readiness() -> list[dashboard.Panel]:
    """How fresh and complete the metrics of gangs are."""
    evaluation = promql.target("gangctl_readiness_evaluation_duration_seconds_bucket")
    lag = promql.target("gangctl_readiness_lag_seconds_bucket")
    return [
        graph(
            "Lag of readiness",
            "From a change of a pod until metrics and objects say so. Above some seconds the other dashboards show the "
            "past.",
            [Query(promql.quantile(share, "", lag), name) for share, name in ((0.5, "p50"), (0.99, "p99"))],
            unit="s",
            width=8,
            steps=[(5, "orange"), (30, "red")],
            links=[links.runbook("GangctlReadinessLagging")],
        ),
        graph(
            "Evaluations of readiness",
            "How often the state of a gang is computed again.",
            [
                Query(
                    promql.total("", promql.rate(promql.target("gangctl_readiness_evaluation_duration_seconds_count"))),
                    "evaluations",
                )
            ],
            unit="ops",
            width=4,
        ),
        graph(
            "One evaluation, p99",
            "Seconds of computing; thousands of pods in one gang show here.",
            [Query(promql.quantile(0.99, "", evaluation), "p99")],
            unit="s",
            width=4,
        ),
        graph(
            "Left out of metrics",
            "Unfinished JobSets without series of their own, because there are more than --metrics-jobset-limit, and "
            "what was counted under (others). Sums over all gangs are still right; tables of gangs are not complete.",
            [
                Query(promql.most("", promql.target("gangctl_gangs_without_series")), "JobSets without series"),
                Query(
                    promql.total("family", promql.increase(promql.target("gangctl_series_dropped_total"))),
                    "{{family}}",
                ),
            ],
            unit="short",
            width=8,
            links=[links.runbook("GangMetricsTruncated")],
        ),
    ]


def requests() -> list[dashboard.Panel]:
    """What it asks of the API server."""
    requests = promql.target("gangctl_rest_client_requests_total")
    return [
        graph(
            "Requests, by code",
            "409 is another write in between and tried again, 403 a missing right, 429 an API server that is "
            "busy, none no answer at all.",
            [Query(promql.total("code", promql.rate(requests)), "{{code}}")],
            unit="reqps",
            width=8,
            stacked=True,
            links=[links.runbook("GangctlApiErrors")],
        ),
        graph(
            "Writes, by resource",
            "What it changes in the cluster. In a cluster at rest it is 0.",
            [
                Query(
                    promql.total(
                        "verb, resource",
                        promql.rate(
                            promql.target(
                                "gangctl_rest_client_requests_total", 'verb!~"get|list|watch"', 'resource!="leases"'
                            )
                        ),
                    ),
                    "{{verb}} {{resource}}",
                )
            ],
            unit="reqps",
            width=8,
            stacked=True,
        ),
        graph(
            "Time to an answer, p99",
            "Seconds until the API server begins to answer. When it is slow, so is everything that is done here.",
            [
                Query(
                    promql.quantile(
                        0.99,
                        "verb",
                        promql.target("gangctl_rest_client_request_duration_seconds_bucket", 'verb!="watch"'),
                    ),
                    "{{verb}}",
                )
            ],
            unit="s",
            width=8,
        ),
    ]


def process() -> list[dashboard.Panel]:
    """The process and its event loop."""
    lag = promql.target("gangctl_event_loop_lag_seconds_bucket")
    return [
        graph(
            "CPU",
            "Cores in use by each replica. One event loop uses one core at most: near 1, answers are late.",
            [
                Query(
                    promql.total("instance", promql.of_gangctl("process_cpu_seconds_total", promql.rate)),
                    "{{instance}}",
                )
            ],
            unit="short",
            width=6,
            steps=[(0.8, "orange")],
            links=[links.runbook("GangctlWebhookSlow")],
        ),
        graph(
            "Memory",
            "Resident memory of each replica, without the workers that evaluate policies. The limit in the shipped "
            "manifest is 1536 MiB for all of them.",
            [Query(promql.most("instance", promql.of_gangctl("process_resident_memory_bytes")), "{{instance}}")],
            unit="bytes",
            width=6,
        ),
        graph(
            "Open files",
            "Connections and files of each replica. It grows and does not shrink where connections leak.",
            [Query(promql.most("instance", promql.of_gangctl("process_open_fds")), "{{instance}}")],
            unit="short",
            width=6,
        ),
        graph(
            "Lag of the event loop",
            "How late timers of the event loop ran, measured four times a second. Everything waits while it is late, "
            "webhooks first.",
            [
                Query(promql.quantile(share, "instance", lag), f"{{{{instance}}}} {name}")
                for share, name in ((0.5, "p50"), (0.99, "p99"))
            ],
            unit="s",
            width=6,
            steps=[(0.1, "orange"), (1, "red")],
            links=[links.runbook("GangctlWebhookSlow")],
        ),
    ]
