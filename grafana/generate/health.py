"""Whether gangctl itself is well: the leader, its view of the cluster, its work, its webhooks and its process."""

from __future__ import annotations

from grafana_foundation_sdk.models import dashboard

from grafana.generate import links, promql
from grafana.generate.board import Board, Row, targets
from grafana.generate.panels import Column, Query, graph, number, rows

_RESULTS = {"done": "green", "requeued": "blue", "retried": "orange", "failed": "red"}
_WEEK = 7 * 86400
_REJECTED = "apiserver_admission_webhook_rejection_count"
_LET_THROUGH = "apiserver_admission_webhook_fail_open_count"
_FAILED = 'error_type!="no_error"'
_CALL = "{{name}} {{error_type}}"


def board() -> Board:
    """The dashboard of the process."""
    return Board(
        uid="gangctl-health",
        title="gangctl / Controller and webhook health",
        description=(
            "Whether gangctl is up, leads, sees the cluster, keeps up with it, and answers the API server in time."
        ),
        tags=("health",),
        variables=targets("gangctl_build_info"),
        links=[links.to("gangctl-overview", "Gangs overview"), links.to("gangctl-policies", "Policies")],
        rows=[
            Row("Is it up, and does somebody lead?", _numbers()),
            Row("Do webhooks answer, and in time?", _webhooks()),
            Row("Does it see the cluster as it is?", _sight()),
            Row("Does it keep up?", _work()),
            Row("Is what the other dashboards show complete and fresh?", _readiness()),
            Row("What does it ask of the API server?", _requests()),
            Row("How is the process?", _process()),
        ],
    )


def _numbers() -> list[dashboard.Panel]:
    denied = promql.target("gangctl_admission_duration_seconds_count", 'verdict="unready"')
    return [
        number(
            "Replicas up",
            "Replicas that are scraped. One alone is enough to work and not to be restarted.",
            promql.total("", promql.target("up")),
            unit="short",
            steps=[(1, "orange"), (2, "green")],
            below="red",
            nothing="not scraped",
            links=[links.runbook("GangctlDown")],
        ),
        number(
            "Leaders",
            "Has to be 1. Without a leader no gang is written and nothing is known of any; with two, one of them has a "
            "clock that stands still, or they use different Leases.",
            promql.total("", promql.target("gangctl_leader")),
            unit="short",
            steps=[(1, "green"), (2, "red")],
            below="red",
            nothing="not scraped",
            links=[links.runbook("GangctlNoLeader")],
        ),
        number(
            "Certificate ends in",
            "Time until the serving certificate of the webhooks ends, of the replica where it is soonest. gangctl "
            "renews its own when a third of the time is left, which is a month if nothing else is configured.",
            promql.until(promql.target("gangctl_certificate_expiration_timestamp_seconds")),
            unit="s",
            steps=[(_WEEK, "orange"), (2 * _WEEK, "green")],
            below="red",
            nothing="no webhooks",
            links=[links.runbook("GangctlCertificateExpiring")],
        ),
        number(
            "Caches not synced",
            "Caches that do not hold a complete list. It decides nothing until they do; after a start that is seconds.",
            f"count({promql.target('gangctl_informer_synced')} == 0) or sum({promql.target('up')} == 1) * 0",
            unit="short",
            steps=[(1, "red")],
            nothing="not scraped",
            links=[links.runbook("GangctlInformerStale")],
        ),
        number(
            "Longest silence",
            "How long the cache that has heard nothing of the API server for longest has not. A quiet watch is opened "
            "anew after 90 seconds, so minutes mean that it acts on what it saw long ago.",
            promql.age("", promql.some(promql.target("gangctl_informer_last_contact_timestamp_seconds"))),
            unit="s",
            steps=[(120, "orange"), (300, "red")],
            nothing="not scraped",
            links=[links.runbook("GangctlInformerStale")],
        ),
        number(
            "Failed for good in an hour",
            "Reconciles that failed and are not tried again until something changes. Events of the JobSets say why.",
            promql.or_zero(promql.in_an_hour(promql.target("gangctl_reconcile_total", 'result="failed"'))),
            unit="short",
            steps=[(1, "orange")],
            links=[links.runbook("GangctlReconcileErrors")],
        ),
        number(
            "Not ready to answer, in an hour",
            "Admission requests that came before it knew enough to answer, in the last hour. Some at a start are no "
            "harm.",
            f"sum(increase({denied}[1h])) or sum({promql.target('up')} == 1) * 0",
            unit="short",
            steps=[(100, "orange")],
            links=[links.runbook("GangctlWebhookFailing")],
        ),
        rows(
            "Versions",
            "What runs. Two versions for longer than an upgrade takes are an upgrade that is stuck.",
            [f"count by (cluster, version) ({promql.target('gangctl_build_info')})"],
            [
                Column("cluster", "Cluster"),
                Column("version", "Version"),
                Column("Value", "Replicas", unit="short"),
            ],
            sort="Version",
            width=3,
            height=4,
        ),
    ]


def _webhooks() -> list[dashboard.Panel]:
    count = promql.target("gangctl_admission_duration_seconds_count")
    bucket = promql.target("gangctl_admission_duration_seconds_bucket")
    return [
        graph(
            "Admission requests, by verdict",
            "What the API server asked, and what it was told. Unready is a replica that has just started.",
            [Query(promql.total("verdict", promql.rate(count)), "{{verdict}}")],
            unit="reqps",
            width=6,
            stacked=True,
            colors={"allowed": "green", "patched": "blue", "denied": "orange", "unready": "red"},
            links=[links.runbook("GangctlWebhookFailing")],
        ),
        graph(
            "Time to answer, p99, by webhook",
            "The API server, and whoever creates a Job, waits for it. Above 100 ms it is felt; see the dashboard "
            "Policies if it is the policies'.",
            [Query(promql.quantile(0.99, "path", bucket), "{{path}}")],
            unit="s",
            width=6,
            steps=[(0.1, "orange"), (1, "red")],
            links=[links.runbook("GangctlWebhookSlow")],
        ),
        graph(
            "Calls that failed, as API servers count",
            "Calls of gangctl's webhooks that API servers could not make: JobSets were refused, or let through without "
            "a gang. gangctl cannot count what never came. The API servers have to be scraped.",
            [
                Query(promql.total("name, error_type", promql.increase(promql.api_server(_REJECTED, _FAILED))), _CALL),
                Query(promql.total("name", promql.increase(promql.api_server(_LET_THROUGH))), "{{name}} let through"),
            ],
            unit="short",
            width=6,
            bars=True,
            stacked=True,
            links=[links.runbook("GangctlWebhookUnreachable")],
        ),
        graph(
            "Looks at certificates",
            "failed is a look that did not work: the old certificates are served until they end.",
            [
                Query(
                    promql.total("result", promql.increase(promql.target("gangctl_certificate_looks_total"))),
                    "{{result}}",
                )
            ],
            unit="short",
            width=6,
            bars=True,
            stacked=True,
            colors={"ok": "green", "failed": "red"},
            links=[links.runbook("GangctlCertificateExpiring")],
        ),
    ]


def _sight() -> list[dashboard.Panel]:
    contact = promql.target("gangctl_informer_last_contact_timestamp_seconds")
    return [
        graph(
            "Since the last contact, by resource",
            "How long each cache has not heard of the API server. It grows for all at once when the API server or the "
            "network is away, for one alone when its rights are.",
            [Query(f"time() - min by (resource) ({contact} > 0)", "{{resource}}")],
            unit="s",
            width=8,
            steps=[(120, "orange"), (300, "red")],
            links=[links.runbook("GangctlInformerStale")],
        ),
        graph(
            "Watches opened anew, by reason",
            "ended is what API servers do every few minutes. gone again and again is a cache that does not keep up; "
            "forbidden is a missing right.",
            [
                Query(
                    promql.total("resource, reason", promql.increase(promql.target("gangctl_watch_restarts_total"))),
                    "{{resource}} {{reason}}",
                )
            ],
            unit="short",
            width=8,
            bars=True,
            stacked=True,
            links=[links.runbook("GangctlInformerStale")],
        ),
        graph(
            "Objects in caches",
            "What it remembers of the cluster; memory follows it.",
            [Query(promql.most("resource", promql.target("gangctl_informer_objects")), "{{resource}}")],
            unit="short",
            width=8,
        ),
        graph(
            "Objects it could not read",
            "Errors of gangctl's own on one object. Each is a bug: the log has the object and the trace.",
            [
                Query(
                    promql.total("resource, place", promql.increase(promql.target("gangctl_informer_errors_total"))),
                    "{{resource}} {{place}}",
                )
            ],
            unit="short",
            bars=True,
            steps=[(1, "red")],
            links=[links.runbook("GangctlReconcileErrors")],
        ),
        graph(
            "Events written",
            "Events on JobSets by what became of them. dropped and refused are events that nobody reads.",
            [Query(promql.total("result", promql.rate(promql.target("gangctl_events_total"))), "{{result}}")],
            unit="ops",
            stacked=True,
            links=[links.runbook("GangctlEventsDropped")],
        ),
    ]


def _work() -> list[dashboard.Panel]:
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
        graph(
            "Keys in line",
            "Work that waits. A line that does not come back to 0 is more work than it gets done.",
            [Query(promql.most("name", promql.target("gangctl_workqueue_depth")), "{{name}}")],
            unit="short",
            width=8,
            steps=[(100, "orange")],
            links=[links.runbook("GangctlQueueBackedUp")],
        ),
        graph(
            "Wait in line, p99",
            "How long a change waits until it is its turn.",
            [
                Query(
                    promql.quantile(0.99, "name", promql.target("gangctl_workqueue_queue_duration_seconds_bucket")),
                    "{{name}}",
                )
            ],
            unit="s",
            width=8,
            links=[links.runbook("GangctlQueueBackedUp")],
        ),
        graph(
            "Keys that come in and come again",
            "Work that comes into line, and of it what failed and comes again.",
            [
                Query(promql.total("name", promql.rate(promql.target("gangctl_workqueue_adds_total"))), "{{name}}"),
                Query(
                    promql.total("name", promql.rate(promql.target("gangctl_workqueue_retries_total"))),
                    "{{name}} again",
                ),
            ],
            unit="ops",
            width=8,
        ),
    ]


def _readiness() -> list[dashboard.Panel]:
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
            "How often the state of a gang is computed anew.",
            [Query(promql.total("", promql.rate(promql.target("gangctl_readiness_evaluations_total"))), "evaluations")],
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
            "JobSets without series of their own, because there are more than 2,000, and what was counted under "
            "(others). Sums over all gangs are still right; tables of gangs are not complete.",
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


def _requests() -> list[dashboard.Panel]:
    requests = promql.target("gangctl_kube_requests_total")
    return [
        graph(
            "Requests, by code",
            "409 is somebody else's write in between and tried again, 403 a missing right, 429 an API server that is "
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
                            promql.target("gangctl_kube_requests_total", 'verb!~"get|list|watch"', 'resource!="leases"')
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
                        0.99, "verb", promql.target("gangctl_kube_request_duration_seconds_bucket", 'verb!="watch"')
                    ),
                    "{{verb}}",
                )
            ],
            unit="s",
            width=8,
        ),
    ]


def _process() -> list[dashboard.Panel]:
    return [
        graph(
            "CPU",
            "Cores in use by each replica. One event loop uses one core at most: near 1, answers are late.",
            [Query(promql.total("instance", promql.rate(promql.target("process_cpu_seconds_total"))), "{{instance}}")],
            unit="short",
            width=8,
            steps=[(0.8, "orange")],
            links=[links.runbook("GangctlWebhookSlow")],
        ),
        graph(
            "Memory",
            "Resident memory of each replica, without the workers that evaluate policies. The limit in the shipped "
            "manifest is 1536 MiB for all of them.",
            [Query(promql.most("instance", promql.target("process_resident_memory_bytes")), "{{instance}}")],
            unit="bytes",
            width=8,
        ),
        graph(
            "Open files",
            "Connections and files of each replica. It grows and does not shrink where connections leak.",
            [Query(promql.most("instance", promql.target("process_open_fds")), "{{instance}}")],
            unit="short",
            width=8,
        ),
    ]
