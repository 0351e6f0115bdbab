"""Whether gangctl itself is well: the leader, its view of the cluster, its work, its webhooks and its process."""

from __future__ import annotations

from grafana_foundation_sdk.models import dashboard

from grafana.generate import links, promql, work
from grafana.generate.board import Board, Row, targets
from grafana.generate.panels import Column, Query, graph, number, rows

_WEEK = 7 * 86400
_REJECTED = "apiserver_admission_webhook_rejection_count"
_ADMITTED = "apiserver_admission_webhook_fail_open_count"
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
            Row("Is it up, and is there a leader?", _numbers()),
            Row("Do webhooks answer, and in time?", _webhooks()),
            Row("Does it see the cluster as it is?", _sight()),
            Row("Does it make of JobSets what they ask for?", work.gangs()),
            Row("Does it keep up?", work.keys()),
            Row("Is what the other dashboards show complete and fresh?", work.readiness()),
            Row("What does it ask of the API server?", work.requests()),
            Row("How is the process?", work.process()),
        ],
    )


def _numbers() -> list[dashboard.Panel]:
    return [
        number(
            "Replicas up",
            "Replicas that are scraped. One alone is enough to work and not to be restarted.",
            promql.replicas(),
            unit="short",
            steps=[(1, "orange"), (2, "green")],
            below="red",
            nothing="not scraped",
            links=[links.runbook("GangctlDown")],
        ),
        number(
            "Shards led amiss",
            "Shards that no replica leads, or two; without --shards there is one. Without a leader no gang of its "
            "namespaces is written and nothing is known of any: there must be as many replicas as shards, better one "
            "more. With two, one of them has a stopped clock, or they use different Leases.",
            promql.shards_led("!= 1"),
            unit="short",
            steps=[(1, "red")],
            nothing="not scraped",
            links=[links.runbook("GangctlNoLeader"), links.runbook("GangctlShardWithoutLeader")],
        ),
        number(
            "Certificate ends in",
            "Time until the serving certificate of the webhooks ends, of the replica where it is soonest. gangctl "
            "renews its own when a third of the time is left, which is a month if nothing else is configured.",
            promql.until(promql.target("gangctl_certificate_expiration_timestamp_seconds", 'usage="serving"')),
            unit="s",
            steps=[(_WEEK, "orange"), (2 * _WEEK, "green")],
            below="red",
            nothing="no webhooks",
            links=[links.runbook("GangctlCertificateExpiring")],
        ),
        *_troubles(),
        *_tables(),
    ]


def _troubles() -> list[dashboard.Panel]:
    denied = promql.target("gangctl_admission_duration_seconds_count", 'verdict="unready"')
    return [
        number(
            "Caches not synced",
            "Caches that do not hold a complete list. It decides nothing until they do; after a start that is seconds.",
            promql.or_zero_if_scraped(f"count({promql.target('gangctl_informer_synced')} == 0)"),
            unit="short",
            steps=[(1, "red")],
            nothing="not scraped",
            links=[links.runbook("GangctlInformerStale")],
        ),
        number(
            "Longest silence",
            "The longest time for which a cache has received nothing from the API server. A quiet watch is opened "
            "again after 90 seconds, so minutes mean that gangctl acts on outdated objects.",
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
            promql.or_zero_if_scraped(promql.in_an_hour(denied)),
            unit="short",
            steps=[(100, "orange")],
            links=[links.runbook("GangctlWebhookFailing")],
        ),
        number(
            "Since the last start",
            "How long the replica that started last has run. Minutes, without an upgrade, is one that is restarted: its"
            " log and kubectl describe pod say why.",
            f"time() - {promql.most('', promql.of_gangctl('process_start_time_seconds'))}",
            unit="s",
            steps=[(600, "green")],
            below="orange",
            nothing="not scraped",
            links=[links.runbook("GangctlDown")],
        ),
    ]


def _tables() -> list[dashboard.Panel]:
    return [
        rows(
            "Replicas",
            "What runs, who leads, and since when. Two versions for longer than an upgrade takes are an upgrade that is"
            " stuck.",
            [
                promql.most("cluster, instance, version", promql.target("gangctl_build_info")),
                promql.most("cluster, instance", promql.target("gangctl_leader_election_master_status")),
                f"time() - {promql.most('cluster, instance', promql.of_gangctl('process_start_time_seconds'))}",
            ],
            [
                Column("cluster", "Cluster"),
                Column("instance", "Instance"),
                Column("version", "Version"),
                Column("Value #B", "Leads", unit="short"),
                Column("Value #C", "Runs for", unit="s"),
                Column("Value #A", "Info", hidden=True),
            ],
            sort="Leads",
            width=9,
            height=6,
            nothing="not scraped",
        ),
        rows(
            "What gangs are made of",
            "The resources and versions of scheduling.k8s.io that the cluster serves, and the field of pods that names "
            "their group. Nothing here: the cluster can make no gangs, and JobSets that ask for one have lost their "
            "guarantee.",
            [promql.most("cluster, resource, version, link_field", promql.target("gangctl_api_support_info"))],
            [
                Column("cluster", "Cluster"),
                Column("resource", "Resource"),
                Column("version", "Version"),
                Column("link_field", "Field of pods"),
                Column("Value", "Info", hidden=True),
            ],
            sort="Resource",
            width=7,
            height=6,
            nothing="no gangs in this cluster",
            links=[links.runbook("GangGuaranteeLost")],
        ),
        *_certificates_and_features(),
    ]


def _certificates_and_features() -> list[dashboard.Panel]:
    return [
        rows(
            "Certificates end in",
            "The serving certificate of the webhooks, and the authority that signed it.",
            [promql.until(promql.target("gangctl_certificate_expiration_timestamp_seconds"), "cluster, usage")],
            [
                Column("cluster", "Cluster"),
                Column("usage", "Usage"),
                Column("Value", "Ends in", unit="s"),
            ],
            sort="Ends in",
            width=4,
            height=6,
            nothing="no webhooks",
            links=[links.runbook("GangctlCertificateExpiring")],
        ),
        rows(
            "Switched on",
            "What the settings switch on (1) and off (0). Replicas that differ are in the middle of an upgrade.",
            [promql.least("cluster, feature", promql.target("gangctl_feature_enabled"))],
            [
                Column("cluster", "Cluster"),
                Column("feature", "Feature"),
                Column("Value", "On", unit="short"),
            ],
            sort="On",
            width=4,
            height=6,
            nothing="not scraped",
        ),
    ]


def _webhooks() -> list[dashboard.Panel]:
    count = promql.target("gangctl_admission_duration_seconds_count")
    bucket = promql.target("gangctl_admission_duration_seconds_bucket")
    return [
        graph(
            "Admission requests, by verdict",
            "Admission requests and their responses. Unready is a replica that has just started.",
            [Query(promql.total("verdict", promql.rate(count)), "{{verdict}}")],
            unit="reqps",
            width=6,
            stacked=True,
            colors={"allowed": "green", "patched": "blue", "denied": "orange", "unready": "red"},
            links=[links.runbook("GangctlWebhookFailing")],
        ),
        graph(
            "Time to answer, p99, by webhook",
            "The API server waits for it, and so does each create. Above 100 ms users notice; see the dashboard "
            "Policies if it is the policies'.",
            [Query(promql.quantile(0.99, "path", bucket), "{{path}}")],
            unit="s",
            width=6,
            steps=[(0.1, "orange"), (1, "red")],
            links=[links.runbook("GangctlWebhookSlow")],
        ),
        graph(
            "Calls that failed, as API servers count",
            "Calls of gangctl's webhooks that API servers could not make: JobSets were rejected, or admitted without "
            "a gang. gangctl cannot count what never came. The API servers have to be scraped.",
            [
                Query(promql.total("name, error_type", promql.increase(promql.api_server(_REJECTED, _FAILED))), _CALL),
                Query(promql.total("name", promql.increase(promql.api_server(_ADMITTED))), "{{name}} admitted"),
            ],
            unit="short",
            width=6,
            bars=True,
            stacked=True,
            links=[links.runbook("GangctlWebhookUnreachable")],
        ),
        graph(
            "Reads of certificates",
            "failed is a read that failed: the previous certificates are served until they expire.",
            [
                Query(
                    promql.total("result", promql.increase(promql.target("gangctl_certificate_reads_total"))),
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
            "How long each cache has received nothing from the API server. It grows for all at once when the API "
            "server or the network fails, for one alone when its rights are missing.",
            [Query(f"time() - min by (resource) ({contact} > 0)", "{{resource}}")],
            unit="s",
            width=8,
            steps=[(120, "orange"), (300, "red")],
            links=[links.runbook("GangctlInformerStale")],
        ),
        graph(
            "Watches opened again, by reason",
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
            "Events on JobSets by what became of them. dropped and refused are events that were lost.",
            [Query(promql.total("result", promql.rate(promql.target("gangctl_events_total"))), "{{result}}")],
            unit="ops",
            stacked=True,
            links=[links.runbook("GangctlEventsDropped")],
        ),
    ]
