"""What policies refuse, what they would refuse, and what evaluating them costs."""

from __future__ import annotations

from grafana_foundation_sdk.models import dashboard

from grafana.generate import links, promql
from grafana.generate.board import Board, Row, targets
from grafana.generate.panels import Column, Query, graph, number, rows

_RESULTS = {"pass": "green", "exempt": "blue", "fail": "orange", "error": "red"}


def board() -> Board:
    """The dashboard of GangPolicies."""
    return Board(
        uid="gangctl-policies",
        title="gangctl / Policies",
        description=(
            "What policies decide and what that costs, what existing JobSets break, and whether the scan keeps up."
        ),
        tags=("policies",),
        variables=targets("gangctl_build_info"),
        links=[links.to("gangctl-health", "Controller and webhook health")],
        rows=[
            Row("Are the policies in force?", _numbers()),
            Row("What do they decide?", _decisions()),
            Row("What do existing JobSets break?", _violations()),
            Row("What does it cost?", _cost()),
        ],
    )


def _numbers() -> list[dashboard.Panel]:
    last = promql.target("gangctl_policy_last_scan_timestamp_seconds")
    return [
        number(
            "Loaded",
            "Policies in force. Every replica has them.",
            promql.replicated("", promql.target("gangctl_policies", 'state="loaded"')),
            unit="short",
        ),
        number(
            "Broken",
            "Policies that could not be loaded and are not in force: their status says where and why.",
            promql.replicated("", promql.target("gangctl_policies", 'state="broken"')),
            unit="short",
            steps=[(1, "red")],
            links=[links.runbook("GangPolicyBroken")],
        ),
        number(
            "Exceptions",
            "Exceptions that can be used now; those that have expired are not counted.",
            promql.replicated("", promql.target("gangctl_policy_exceptions")),
            unit="short",
        ),
        number(
            "Denied in an hour",
            "Requests that a policy denied in the last hour; one that several policies deny counts for each.",
            promql.or_zero(
                promql.in_an_hour(promql.target("gangctl_policy_evaluations_total", 'action="deny"', 'result="fail"'))
            ),
            unit="short",
        ),
        number(
            "Broken rules",
            "Rules that existing JobSets break, by the last scan.",
            promql.total("", promql.target("gangctl_policy_violations")),
            unit="short",
            steps=[(1, "orange")],
            nothing="not scanned",
            links=[links.runbook("GangPolicyViolationsRising")],
        ),
        number(
            "Scanned JobSets",
            "JobSets that the last scan saw.",
            promql.replicated("", promql.target("gangctl_policy_scanned_jobsets")),
            unit="short",
            nothing="not scanned",
        ),
        number(
            "Last scan",
            "Time since the last complete scan, of the cluster where it is longest. It is made anew when policies "
            "change and at the interval of --policy-scan-period; only the leader scans.",
            promql.age("", promql.some(promql.most("cluster", last))),
            unit="s",
            steps=[(1800, "orange"), (3600, "red")],
            nothing="not scanned",
            links=[links.runbook("GangPolicyScanStale")],
        ),
        number(
            "Killed in an hour",
            "Evaluations that used up their time or memory and were killed, in the last hour. The policy that does it "
            "is in the graph below.",
            promql.or_zero(promql.in_an_hour(promql.target("gangctl_policy_kills_total"))),
            unit="short",
            steps=[(1, "red")],
            links=[links.runbook("GangPolicyKilled")],
        ),
    ]


def _decisions() -> list[dashboard.Panel]:
    evaluations = promql.target("gangctl_policy_evaluations_total")
    failed = promql.target("gangctl_policy_evaluations_total", 'result=~"fail|error"')
    return [
        graph(
            "Evaluations, by result",
            "Requests that a policy applied to. error is a policy that could not be evaluated: its failurePolicy "
            "decided.",
            [Query(promql.total("result", promql.rate(evaluations)), "{{result}}")],
            unit="reqps",
            width=8,
            stacked=True,
            colors=_RESULTS,
        ),
        graph(
            "What followed, by policy",
            "Requests that broke a policy, by what it does about it. A policy that warns or audits shows here what it "
            "would deny.",
            [Query(promql.total("policy, action", promql.increase(failed)), "{{policy}} {{action}}")],
            unit="short",
            width=8,
            bars=True,
            stacked=True,
        ),
        graph(
            "Policies in force",
            "A drop is a policy that was deleted or broken by a change.",
            [Query(promql.replicated("state", promql.target("gangctl_policies")), "{{state}}")],
            unit="short",
            width=8,
            colors={"loaded": "green", "broken": "red"},
        ),
    ]


def _violations() -> list[dashboard.Panel]:
    by = "cluster, policy, severity, action"
    violations = promql.target("gangctl_policy_violations")
    return [
        rows(
            "Broken rules, by policy",
            "What existing JobSets break: those that were there before the policy, or that it only audits. Their "
            "PolicyReports name them.",
            [promql.some(promql.total(by, violations))],
            [
                Column("cluster", "Cluster"),
                Column("policy", "Policy"),
                Column("severity", "Severity"),
                Column("action", "Action"),
                Column("Value", "Broken rules", unit="short", steps=[(1, "orange")]),
            ],
            sort="Broken rules",
            width=12,
            nothing="nothing is broken",
            links=[links.runbook("GangPolicyViolationsRising")],
        ),
        graph(
            "Broken rules over time",
            "Rising while a policy audits: turning it to deny would refuse what people create today.",
            [Query(promql.total("policy", violations), "{{policy}}")],
            unit="short",
            stacked=True,
        ),
    ]


def _cost() -> list[dashboard.Panel]:
    seconds = promql.target("gangctl_policy_evaluation_duration_seconds_bucket")
    return [
        graph(
            "One policy and one request",
            "local is evaluated on the event loop, small and large reviews and penalized policies in worker processes. "
            "The creation of a JobSet waits for these seconds.",
            [
                Query(promql.quantile(share, "queue", seconds), f"{{{{queue}}}} {name}")
                for share, name in ((0.5, "p50"), (0.99, "p99"))
            ],
            unit="s",
            width=8,
            links=[links.runbook("GangctlWebhookSlow")],
        ),
        graph(
            "Without an answer",
            "Evaluations that did not happen because too many waited (full) or their time was over (late), and those "
            "that were killed: failurePolicy decided in their place.",
            [
                Query(
                    promql.total("queue, why", promql.increase(promql.target("gangctl_policy_unanswered_total"))),
                    "{{queue}} {{why}}",
                ),
                Query(
                    promql.total("policy, why", promql.increase(promql.target("gangctl_policy_kills_total"))),
                    "{{policy}} killed: {{why}}",
                ),
                Query(
                    promql.total("why", promql.increase(promql.target("gangctl_policy_worker_deaths_total"))),
                    "worker ended: {{why}}",
                ),
            ],
            unit="short",
            width=8,
            bars=True,
            stacked=True,
            links=[links.runbook("GangPolicyUnanswered")],
        ),
        graph(
            "Reviews that wait for a worker",
            "A value that stays above 0 means that requests come faster than workers evaluate them.",
            [Query(promql.total("queue", promql.target("gangctl_policy_waiting")), "{{queue}}")],
            unit="short",
            width=8,
        ),
        graph(
            "Scan",
            "How long the last scan took, and those that did not get to their end.",
            [
                Query(promql.most("", promql.target("gangctl_policy_scan_duration_seconds")), "the last scan"),
            ],
            unit="s",
        ),
        graph(
            "Scans that failed",
            "Scans that did not get to their end. The log of the leader says why.",
            [Query(promql.total("", promql.increase(promql.target("gangctl_policy_scan_failures_total"))), "failed")],
            unit="short",
            bars=True,
            steps=[(1, "orange")],
            links=[links.runbook("GangPolicyScanStale")],
        ),
    ]
