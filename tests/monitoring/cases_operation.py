"""Cases of the alerts about queues, gangctl itself and policies."""

from __future__ import annotations

from typing import Final

from tests.monitoring.cases_gangs import LABELS, oldest, phase
from tests.monitoring.promtool import Case

HOLDING: Final = 'kueue_reserving_active_workloads{cluster_queue="gpus",replica_role="leader"}'
PENDING: Final = 'kueue_pending_workloads{cluster_queue="gpus",status="inadmissible",replica_role="leader"}'
STOPPED: Final = 'kueue_cluster_queue_status{cluster_queue="gpus",status="pending",replica_role="leader"}'
ADMITTED: Final = 'kueue_admitted_workloads_total{cluster_queue="gpus",priority_class="",replica_role="leader"}'
CERTIFICATE: Final = 'gangctl_certificate_expiration_timestamp_seconds{instance="a",usage="serving"}'
DAY: Final = 1440


def reconciles(done: str, errors: str) -> dict[str, str]:
    """What one controller does."""
    return {
        'gangctl_reconcile_total{controller="gangs",result="done",instance="a"}': done,
        'gangctl_reconcile_errors_total{controller="gangs",error_class="server",instance="a"}': errors,
    }


def shards(instance: str, *leads: str) -> dict[str, str]:
    """Whether one replica leads each of the shards."""
    return {
        f'gangctl_shard_leader_election_master_status{{instance="{instance}",shard="{number}"}}': values
        for number, values in enumerate(leads)
    }


def informer(contact: str, synced: str = "1x60") -> dict[str, str]:
    """The last contact of one replica for one resource."""
    labels = 'instance="a",resource="pods"'
    return {
        f"gangctl_informer_last_contact_timestamp_seconds{{{labels}}}": contact,
        f"gangctl_informer_synced{{{labels}}}": synced,
    }


def requests(fine: str, failed: str, code: str) -> dict[str, str]:
    """Requests to the API server about one resource."""
    return {
        f'gangctl_rest_client_requests_total{{verb="list",resource="pods",code="{each}"}}': values
        for each, values in (("200", fine), (code, failed))
    }


def admissions(fast: str, every: str, verdict: str = "allowed") -> dict[str, str]:
    """Admission requests: those within a quarter of a second, and all of them; none takes longer than one second."""
    labels = f'path="/mutate-jobsets",verdict="{verdict}"'
    buckets = {"0.25": fast, "1": every, "+Inf": every}
    return {
        **{
            f'gangctl_admission_duration_seconds_bucket{{{labels},le="{le}"}}': values for le, values in buckets.items()
        },
        f"gangctl_admission_duration_seconds_count{{{labels}}}": every,
    }


def lags(fast: str, every: str) -> dict[str, str]:
    """The latency of readiness: within 5 seconds, all of it; nothing above 10."""
    buckets = {"5": fast, "10": every, "+Inf": every}
    return {f'gangctl_readiness_lag_seconds_bucket{{le="{le}"}}': values for le, values in buckets.items()}


def violations(instance: str) -> str:
    """What the last scan of one replica found."""
    labels = f'job="gangctl",instance="{instance}",policy="quota",severity="high",action="audit"'
    return f"gangctl_policy_violations{{{labels}}}"


QUEUES: Final = (
    Case(
        "QueueBlocked",
        "the ClusterQueue is stopped",
        {oldest("QueueBlocked"): "0x60"},
        fires=33,
        labels={**LABELS, "reason": "QueueBlocked"},
        says="A gang waits in queue research of team-a (ClusterQueue gpus), which has admitted nothing for 33m 0s: "
        "QueueBlocked.",
    ),
    Case("QueueBlocked", "it is opened again", {oldest("QueueBlocked"): "0x29 stale"}, silent=60),
    Case(
        "QueueWorkloadStuck",
        "a Workload was deactivated",
        {oldest("Deactivated"): "0x30"},
        fires=18,
        labels={**LABELS, "reason": "Deactivated"},
        says="Kueue does not admit a gang in team-a, queue research without a change: Deactivated. It has been so for "
        "18m 0s.",
    ),
    Case("QueueWorkloadStuck", "for less than that", {oldest("EvictedHoldsQuota"): "0x14 stale"}, silent=40),
    Case(
        "QueueStarved",
        "nothing is admitted for two hours",
        {phase("queued"): "2x200", PENDING: "3x200", ADMITTED: "7+1x10 17x200", HOLDING: "0x200"},
        # The last admission is within an hour until minute 70 (counted from the sample before it).
        fires=129,
        later=1,
        labels={"cluster_queue": "gpus"},
        says="Workloads in ClusterQueue gpus, gangs among them, cannot be admitted. None has been admitted for two "
        "hours, and none holds quota. Workloads: 3.",
    ),
    Case(
        "QueueStarved",
        "nothing was ever admitted",
        {phase("queued"): "2x200", PENDING: "3x200", STOPPED: "0x200"},
        fires=60,
        labels={"cluster_queue": "gpus"},
        says="Workloads in ClusterQueue gpus, gangs among them, cannot be admitted. None has been admitted for two "
        "hours, and none holds quota. Workloads: 3.",
    ),
    Case(
        "QueueStarved",
        "the queue is stopped",
        {phase("queued"): "2x200", PENDING: "3x200", STOPPED: "1x200"},
        silent=200,
    ),
    Case(
        "QueueStarved",
        "one is admitted now and then",
        {phase("queued"): "2x300", PENDING: "3x300", ADMITTED: "7x49 8x49 9x49 10x49 11x100", HOLDING: "0x300"},
        silent=240,
    ),
    Case(
        "QueueStarved",
        "what runs holds all quota",
        {phase("queued"): "2x300", PENDING: "3x300", ADMITTED: "7x300", HOLDING: "2x300"},
        silent=240,
    ),
    Case(
        "QueueStarved",
        "what holds the quota waits for an admission check",
        {
            phase("queued"): "2x300",
            PENDING: "1x300",
            ADMITTED: "7x300",
            HOLDING: "1x300",
            'kueue_admitted_active_workloads{cluster_queue="gpus",replica_role="leader"}': "0x300",
        },
        silent=240,
    ),
    Case("QueueStarved", "no gang waits in it", {phase("queued"): "0x200", PENDING: "3x200"}, silent=200),
    Case("QueueStarved", "what waits is about to be tried", {phase("queued"): "2x200", PENDING: "0x200"}, silent=200),
)

PROCESS: Final = (
    Case(
        "GangctlDown",
        "every replica is gone",
        {'gangctl_leader_election_master_status{job="gangctl",instance="a"}': "1x9 stale"},
        fires=15,
        says="Prometheus has seen no gangctl for 5 minutes. If it is gone, JobSets that ask for a gang are refused.",
    ),
    Case(
        "GangctlDown",
        "one of two is gone",
        {
            'gangctl_leader_election_master_status{job="gangctl",instance="a"}': "1x9 stale",
            'gangctl_leader_election_master_status{job="gangctl",instance="b"}': "0x9 1x60",
        },
        silent=60,
    ),
    Case(
        "GangctlDown",
        "it is back within five minutes",
        {'gangctl_leader_election_master_status{job="gangctl",instance="a"}': "1x9 stale _x3 1x60"},
        silent=60,
    ),
    Case(
        "GangctlNoLeader",
        "both replicas stand by",
        {
            'gangctl_leader_election_master_status{job="gangctl",instance="a"}': "1x9 0x20",
            'gangctl_leader_election_master_status{job="gangctl",instance="b"}': "0x40",
        },
        fires=12,
        says="For 2 minutes no replica has held the Lease: groups are neither created nor deleted, and gangs are not "
        "watched.",
    ),
    Case(
        "GangctlNoLeader",
        "another takes over within a minute",
        {
            'gangctl_leader_election_master_status{job="gangctl",instance="a"}': "1x9 0x30",
            'gangctl_leader_election_master_status{job="gangctl",instance="b"}': "0x11 1x30",
        },
        silent=40,
    ),
    Case(
        "GangctlShardWithoutLeader",
        "one of three replicas dies, and another leads its shard",
        {
            **shards("a", "1x40", "0x40", "0x40"),
            **shards("b", "0x40", "1x9 0x30", "0x9 1x30"),
            **shards("c", "0x9 stale", "0x9 stale", "1x9 stale"),
        },
        fires=12,
        labels={"shard": "1"},
        says="For 2 minutes no replica has held the Lease of shard 1: in the namespaces of this shard groups are "
        "neither created nor deleted, and gangs are not watched.",
    ),
    Case(
        "GangctlShardWithoutLeader",
        "who stood by takes over within a minute",
        {**shards("a", "1x40", "0x40"), **shards("b", "0x40", "1x9 stale"), **shards("c", "0x40", "0x11 1x30")},
        silent=40,
    ),
    Case(
        "GangctlShardWithoutLeader", "there is one shard, of which another alert tells", shards("a", "0x40"), silent=40
    ),
    Case(
        "GangctlReconcileErrors",
        "one in ten fails",
        reconciles("0+10x60", "0+1x60"),
        fires=11,
        labels={"controller": "gangs"},
        says="10% of the reconciliations of controller gangs fail.",
    ),
    Case("GangctlReconcileErrors", "one in fifty fails", reconciles("0+50x60", "0+1x60"), silent=60),
    Case("GangctlReconcileErrors", "a conflict of a moment", reconciles("0+10x60", "0x9 5x60"), silent=60),
    Case(
        "GangctlQueueBackedUp",
        "the line stays long",
        {'gangctl_workqueue_depth{name="gangs",instance="a"}': "0x4 150x60"},
        fires=15,
        labels={"name": "gangs"},
        says="The work queue of gangs has been longer than 100 objects for 10 minutes. Objects: 150.",
    ),
    Case(
        "GangctlQueueBackedUp",
        "it is worked off",
        {'gangctl_workqueue_depth{name="gangs",instance="a"}': "0x4 5000-550x9 0x30"},
        silent=40,
    ),
    Case(
        "GangctlQueueBackedUp",
        "a hundred are not too many",
        {'gangctl_workqueue_depth{name="gangs",instance="a"}': "100x60"},
        silent=60,
    ),
    Case(
        "GangctlInformerStale",
        "nothing is heard any more",
        informer("1+60x10 601x30"),
        fires=18,
        labels={"instance": "a", "resource": "pods"},
        says="a has received nothing about pods for 7m 59s.",
    ),
    Case("GangctlInformerStale", "a bookmark every minute", informer("1+60x60"), silent=60),
    Case("GangctlInformerStale", "the cluster does not have it", informer("0x60", "0x60"), silent=60),
    Case("GangctlInformerStale", "the server is back in time", informer("1+60x10 601x5 961+60x30"), silent=40),
    Case("GangctlInformerStale", "another leads now", informer("1+60x10 601x60", "1x10 0x60"), silent=60),
    Case(
        "GangctlApiErrors",
        "one in ten is not answered",
        requests("0+9x60", "0+1x60", "none"),
        fires=11,
        labels={"resource": "pods"},
        says="10% of the requests about pods end with 429, 5xx or no answer.",
    ),
    Case("GangctlApiErrors", "a conflict is an answer", requests("0+9x60", "0+1x60", "409"), silent=60),
    Case("GangctlApiErrors", "for nine minutes", requests("0+9x60", "0+1x5 5x60", "503"), silent=60),
    Case(
        "GangctlWebhookSlow",
        "one in ten takes long",
        admissions("0+9x60", "0+10x60"),
        fires=11,
        labels={"path": "/mutate-jobsets"},
        says="One in a hundred requests to /mutate-jobsets takes longer than 925ms.",
    ),
    Case("GangctlWebhookSlow", "all are fast", admissions("0+10x60", "0+10x60"), silent=60),
    Case("GangctlWebhookSlow", "for five minutes", admissions("0+9x5 95+10x60", "0+10x60"), silent=60),
    Case(
        "GangctlWebhookFailing",
        "one in ten comes too early",
        {**admissions("0+9x60", "0+9x60"), **admissions("0+1x60", "0+1x60", "unready")},
        fires=6,
        labels={"path": "/mutate-jobsets"},
        says="10% of the requests to /mutate-jobsets reach a replica that has not read the cluster yet.",
    ),
    Case(
        "GangctlWebhookFailing",
        "what is denied is evaluated",
        {**admissions("0+9x60", "0+9x60"), **admissions("0+5x60", "0+5x60", "denied")},
        silent=60,
    ),
    Case(
        "GangctlWebhookFailing",
        "just after a start",
        {**admissions("0+9x60", "0+9x60"), **admissions("0+1x1 1x60", "0+1x1 1x60", "unready")},
        silent=60,
    ),
    Case(
        "GangctlWebhookUnreachable",
        "calls fail",
        {
            'apiserver_admission_webhook_rejection_count{name="jobsets.gangs.gangctl.dev",type="admit",operation="CREATE",'
            'error_type="calling_webhook_error",rejection_code="500"}': "0x4 0+1x30"
        },
        fires=8,
        labels={"name": "jobsets.gangs.gangctl.dev"},
        says="Calls of jobsets.gangs.gangctl.dev fail. JobSets that ask for a gang are rejected, or admitted without "
        "one. Failed calls within 10 minutes: 3.",
    ),
    Case(
        "GangctlWebhookUnreachable",
        "the first call of an API server fails",
        {
            'up{job="apiserver",instance="a"}': "1x60",
            'apiserver_admission_webhook_rejection_count{job="apiserver",instance="a",name="jobsets.gangs.gangctl.dev",'
            'type="admit",operation="CREATE",error_type="calling_webhook_error",rejection_code="500"}': "_x20 1x40",
        },
        fires=22,
        labels={"name": "jobsets.gangs.gangctl.dev"},
        says="Calls of jobsets.gangs.gangctl.dev fail. JobSets that ask for a gang are rejected, or admitted without "
        "one. Failed calls within 10 minutes: 1.",
    ),
    Case(
        "GangctlWebhookUnreachable",
        "calls fail and what was asked about is admitted",
        {'apiserver_admission_webhook_fail_open_count{name="jobsets.gangs.gangctl.dev",type="admit"}': "0x4 0+2x30"},
        fires=8,
        labels={"name": "jobsets.gangs.gangctl.dev"},
        says="Calls of jobsets.gangs.gangctl.dev fail. JobSets that ask for a gang are rejected, or admitted without "
        "one. Failed calls within 10 minutes: 6.",
    ),
    Case(
        "GangctlWebhookUnreachable",
        "gangctl says no, and others fail",
        {
            f'apiserver_admission_webhook_rejection_count{{name="{name}",error_type="{error}"}}': "0+1x60"
            for name, error in (("jobsets.gangs.gangctl.dev", "no_error"), ("x.example", "calling_webhook_error"))
        },
        silent=60,
    ),
    Case(
        "GangctlCertificateExpiring",
        "less than two weeks are left",
        {CERTIFICATE: f"{13 * 86400}x100"},
        fires=60,
        labels={"usage": "serving"},
        says="The serving certificate ends in 12d 23h 0m 0s. After that API servers refuse to call gangctl.",
    ),
    Case("GangctlCertificateExpiring", "a month is left", {CERTIFICATE: f"{30 * 86400}x100"}, silent=100),
    Case(
        "GangctlCertificateExpiring",
        "it is replaced within the hour",
        {CERTIFICATE: f"{13 * 86400}x59 {90 * 86400}x60"},
        silent=100,
    ),
    Case("GangctlCertificateExpiring", "a replica without webhooks has none", {CERTIFICATE: "0x100"}, silent=100),
    Case(
        "GangctlReadinessLagging",
        "one in ten is late",
        lags("0+9x60", "0+10x60"),
        fires=11,
        says="One in a hundred changes of gangs is reported later than 9.5s after it happened.",
    ),
    Case("GangctlReadinessLagging", "nothing is late", lags("0+10x60", "0+10x60"), silent=60),
    Case("GangctlReadinessLagging", "for five minutes", lags("0+9x5 95+10x60", "0+10x60"), silent=60),
    Case(
        "GangctlEventsDropped",
        "the queue of events is full",
        {'gangctl_events_total{result="dropped"}': "0x4 0+15x60"},
        fires=11,
        labels={"result": "dropped"},
        says="Events were dropped, so users do not see why their gangs wait. Events within 15 minutes: 90.",
    ),
    Case("GangctlEventsDropped", "events are written", {'gangctl_events_total{result="created"}': "0+9x60"}, silent=60),
)

POLICIES: Final = (
    Case(
        "GangPolicyBroken",
        "a mistake stays",
        {'gangctl_policies{state="broken",instance="a"}': "0x4 1x20"},
        fires=10,
        says="GangPolicies have errors. Requests that they match are rejected or admitted, as their failurePolicy "
        "says. GangPolicies: 1.",
    ),
    Case(
        "GangPolicyBroken",
        "it is repaired",
        {'gangctl_policies{state="broken",instance="a"}': "0x4 1x4 0x20"},
        silent=20,
    ),
    Case(
        "GangPolicyKilled",
        "one evaluation takes for ever",
        {'gangctl_policy_kills_total{policy="quota",why="time"}': "0x9 30x60"},
        fires=10,
        labels={"policy": "quota", "why": "time"},
        says="Evaluations of policy quota were killed (time). Evaluations within 30 minutes: 30.",
    ),
    Case(
        "GangPolicyKilled",
        "it was long ago",
        {'gangctl_policy_kills_total{policy="quota",why="time"}': "1x60"},
        silent=60,
    ),
    Case(
        "GangPolicyUnanswered",
        "too many wait",
        {'gangctl_policy_unanswered_total{queue="large",why="full"}': "0x4 0+10x30"},
        fires=11,
        labels={"queue": "large", "why": "full"},
        says="Policies were not evaluated (queue large: full). Evaluations that did not take place within 10 minutes: "
        "60.",
    ),
    Case(
        "GangPolicyUnanswered",
        "all are answered",
        {'gangctl_policy_unanswered_total{queue="large",why="full"}': "5x30"},
        silent=30,
    ),
    Case(
        "GangPolicyViolationsRising",
        "more than a day ago",
        {violations("a"): f"2x{DAY} 5x200"},
        fires=DAY + 61,
        labels={"policy": "quota", "action": "audit"},
        says="JobSets that exist violate more rules of policy quota (audit) than a day ago. Violations now: 5.",
    ),
    Case("GangPolicyViolationsRising", "fewer than a day ago", {violations("a"): f"5x{DAY} 2x200"}, silent=DAY + 120),
    Case(
        "GangPolicyViolationsRising",
        "a replica that led once found more",
        {
            violations("b"): f"_x{DAY} 9x200",
            violations("a"): f"2x{DAY + 200}",
            'gangctl_leader_election_master_status{job="gangctl",instance="b"}': f"0x{DAY + 200}",
        },
        silent=DAY + 120,
    ),
    Case(
        "GangPolicyScanStale",
        "no scan gets to its end",
        {"gangctl_policy_last_scan_timestamp_seconds": "600x100"},
        fires=76,
        says="No scan by policies has ended within 1h 6m 0s.",
    ),
    Case(
        "GangPolicyScanStale",
        "no scan has ever got to its end",
        {"gangctl_policy_last_scan_timestamp_seconds": "0x100"},
        fires=65,
        says="No scan by policies has ended within 1h 0m 0s.",
    ),
    Case(
        "GangPolicyScanStale",
        "no scan of the next leader gets to its end",
        {
            'gangctl_policy_last_scan_timestamp_seconds{job="gangctl",instance="a"}': "600x20 0x100",
            'gangctl_policy_last_scan_timestamp_seconds{job="gangctl",instance="b"}': "0x120",
        },
        fires=85,
        later=1,
        says="No scan by policies has ended within 1h 0m 0s.",
    ),
    Case(
        "GangPolicyScanStale",
        "there is no leader",
        {
            "gangctl_policy_last_scan_timestamp_seconds": "0x100",
            'gangctl_leader_election_master_status{job="gangctl",instance="a"}': "0x100",
        },
        silent=100,
        also=frozenset({"GangctlNoLeader"}),
    ),
    Case(
        "GangPolicyScanStale",
        "a scan every ten minutes",
        {"gangctl_policy_last_scan_timestamp_seconds": "1+60x100"},
        silent=100,
    ),
)

CASES: Final = (*QUEUES, *PROCESS, *POLICIES)
