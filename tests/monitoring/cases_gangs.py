"""Cases of the alerts about gangs."""

from __future__ import annotations

from typing import Final

from tests.monitoring.promtool import Case

QUEUE: Final = 'namespace="team-a",local_queue="research",cluster_queue="gpus"'
OTHER: Final = 'namespace="team-b",local_queue="batch",cluster_queue="gpus"'
LABELS: Final = {"namespace": "team-a", "local_queue": "research", "cluster_queue": "gpus"}


def blocked(reason: str, labels: str = QUEUE) -> str:
    """The series of gangs that one reason blocks."""
    return f'gangctl_gangs_blocked{{{labels},reason="{reason}"}}'


def oldest(reason: str) -> str:
    """The series of the moment since when it blocks the first."""
    return f'gangctl_oldest_blocked_gang_timestamp_seconds{{{QUEUE},reason="{reason}"}}'


def phase(name: str, labels: str = QUEUE) -> str:
    """The series of gangs in a phase."""
    return f'gangctl_gangs{{{labels},phase="{name}"}}'


def starts(fast: str, every: str) -> dict[str, str]:
    """The histogram of starts: those within 640 seconds, and all of them; none takes longer than 1280."""
    name, labels = "gangctl_gang_admitted_to_ready_seconds", 'cluster_queue="gpus",level="JobSet"'
    buckets = {"640": fast, "1280": every, "+Inf": every}
    return {
        **{f'{name}_bucket{{{labels},le="{le}"}}': values for le, values in buckets.items()},
        f"{name}_count{{{labels}}}": every,
    }


CASES: Final = (
    Case(
        "GangPartiallyPlaced",
        "pods are stranded for a quarter of an hour",
        {f"gangctl_gang_stranded_pods{{{QUEUE}}}": "0x4 3x40"},
        fires=20,
        labels=LABELS,
        says="Pods of gangs in team-a, queue research have held nodes for 15 minutes, and other pods of the same gangs "
        "have no node. Pods that hold nodes: 3.",
    ),
    Case(
        "GangPartiallyPlaced",
        "the rest is placed after fourteen minutes",
        {f"gangctl_gang_stranded_pods{{{QUEUE}}}": "0x4 3x14 0x40"},
        silent=50,
    ),
    Case(
        "GangPartiallyPlaced",
        "leadership moves meanwhile and two replicas tell the same",
        {
            f'gangctl_gang_stranded_pods{{{QUEUE},instance="a"}}': "2x12 stale",
            f'gangctl_gang_stranded_pods{{{QUEUE},instance="b"}}': "_x11 2x40",
        },
        fires=15,
        labels=LABELS,
        says="Pods of gangs in team-a, queue research have held nodes for 15 minutes, and other pods of the same gangs "
        "have no node. Pods that hold nodes: 2.",
    ),
    Case(
        "GangPartiallyPlaced",
        "a JobSet without a queue has no label of one",
        {'gangctl_gang_stranded_pods{namespace="team-a",local_queue="",cluster_queue=""}': "1x40"},
        fires=15,
        labels={"namespace": "team-a"},
        says="Pods of gangs in team-a have held nodes for 15 minutes, and other pods of the same gangs have no node. "
        "Pods that hold nodes: 1.",
    ),
    Case(
        "GangMutualDeadlock",
        "two gangs of different namespaces",
        {phase("partiallyplaced"): "1x40", phase("partiallyplaced", OTHER): "1x40"},
        fires=20,
        labels={"cluster_queue": "gpus"},
        says="Gangs of ClusterQueue gpus have been placed in part for 20 minutes. Each may wait for nodes that another "
        "one holds, and none gives them back. Gangs: 2.",
    ),
    Case("GangMutualDeadlock", "one gang alone waits for nobody", {phase("partiallyplaced"): "1x60"}, silent=60),
    Case(
        "GangMutualDeadlock",
        "one of two gets on after nineteen minutes",
        {phase("partiallyplaced"): "1x60", phase("partiallyplaced", OTHER): "1x19 0x40"},
        silent=60,
    ),
    Case(
        "GangMutualDeadlock",
        "one gang of which two replicas tell",
        {f'gangctl_gangs{{{QUEUE},phase="partiallyplaced",instance="{instance}"}}': "1x60" for instance in ("a", "b")},
        silent=60,
    ),
    Case(
        "GangStuckPending",
        "pods have been missing for half an hour",
        {oldest("PodsMissing"): "600x60"},
        fires=46,
        labels={**LABELS, "reason": "PodsMissing"},
        says="A gang in team-a, queue research, has made no progress for 36m 0s: PodsMissing.",
    ),
    Case("GangStuckPending", "it waits for its turn", {oldest("WaitingForQuota"): "0x120"}, silent=120),
    Case("GangStuckPending", "somebody suspended it", {oldest("Suspended"): "0x120"}, silent=120),
    Case("GangStuckPending", "another is the oldest every time", {oldest("Restarting"): "0+1200x6"}, silent=6),
    *(
        Case(
            "GangNeverFits",
            f"blocked by {reason}",
            {blocked(reason): "0x3 2x20"},
            fires=6,
            labels={**LABELS, "reason": reason},
            says=f"Gangs in team-a, queue research can never start as they are: {reason}. Waiting does not help. "
            "Gangs: 2.",
        )
        for reason in ("NeverFits", "TopologyTooSmall", "MinCountUnreachable")
    ),
    Case("GangNeverFits", "gone within two minutes", {blocked("NeverFits"): "1x1 0x30"}, silent=30),
    Case("GangNeverFits", "unschedulable now is not never", {blocked("Unschedulable"): "1x30"}, silent=30),
    Case(
        "GangUnschedulable",
        "for more than an hour",
        {oldest("Unschedulable"): "0x90"},
        fires=66,
        labels=LABELS,
        says="A gang in team-a, queue research, has been unschedulable for 1h 6m 0s.",
    ),
    Case("GangUnschedulable", "placed just before", {oldest("Unschedulable"): "0x65 stale"}, silent=90),
    Case(
        "GangSchedulerFailing",
        "silent for ten minutes",
        {blocked("SchedulerSilent"): "0x4 1x30"},
        fires=15,
        labels={**LABELS, "reason": "SchedulerSilent"},
        says="Gangs in team-a have all their pods, and the scheduler has not decided about them: SchedulerSilent. "
        "Gangs: 1.",
    ),
    Case("GangSchedulerFailing", "it answers after nine", {blocked("SchedulerError"): "0x4 1x9 0x30"}, silent=40),
    Case(
        "GangGroupMissing",
        "a group was deleted",
        {blocked("PodGroupMissing"): "1x30"},
        fires=5,
        labels={**LABELS, "reason": "PodGroupMissing"},
        says="Gangs in team-a do not have the Workload or PodGroup that their pods name: PodGroupMissing. Gangs: 1.",
    ),
    Case("GangGroupMissing", "it is made again", {blocked("PodGroupMissing"): "1x4 0x30"}, silent=30),
    Case(
        "GangCreationRefused",
        "a quota refuses pods",
        {blocked("PodCreationRefused"): "1x30"},
        fires=5,
        labels={**LABELS, "reason": "PodCreationRefused"},
        says="The API server rejects objects that gangs in team-a need: PodCreationRefused. Gangs: 1.",
    ),
    Case("GangCreationRefused", "once and not again", {blocked("JobCreationRefused"): "1x4 0x30"}, silent=30),
    Case(
        "GangNodeLost",
        "a node does not come back",
        {blocked("NodeLost"): "0x2 1x30"},
        fires=8,
        labels=LABELS,
        says="Gangs in team-a, queue research wait for pods whose nodes are gone or do not answer. Gangs: 1.",
    ),
    Case("GangNodeLost", "it does", {blocked("NodeLost"): "0x2 1x4 0x30"}, silent=30),
    Case(
        "GangImagePullFailing",
        "an image cannot be pulled",
        {blocked("ImagePull"): "1x30"},
        fires=10,
        labels=LABELS,
        says="Gangs in team-a hold their nodes, and an image cannot be pulled. Gangs: 1.",
    ),
    Case("GangImagePullFailing", "the registry comes back", {blocked("ImagePull"): "1x9 0x30"}, silent=30),
    Case(
        "GangContainersFailing",
        "containers crash",
        {blocked("CrashLoop"): "1x30"},
        fires=15,
        labels={**LABELS, "reason": "CrashLoop"},
        says="Gangs in team-a hold their nodes, and containers do not run: CrashLoop. Gangs: 1.",
    ),
    Case("GangContainersFailing", "they run in the end", {blocked("CrashLoop"): "1x14 0x30"}, silent=40),
    Case(
        "GangDegraded",
        "it does not recover",
        {phase("degraded"): "0x9 1x30"},
        fires=20,
        labels=LABELS,
        says="Gangs in team-a, queue research have run without all their pods for 10 minutes. Gangs: 1.",
    ),
    Case("GangDegraded", "it recovers", {phase("degraded"): "0x9 1x9 0x30"}, silent=40),
    Case(
        "GangGuaranteeLost",
        "a JobSet without its gang",
        {'gangctl_guarantee_lost_gangs{namespace="team-a",cause="FieldDropped"}': "0x4 1x20"},
        fires=10,
        labels={"namespace": "team-a", "cause": "FieldDropped"},
        says="JobSets in team-a asked for a gang and have none: FieldDropped. They can be placed in part, and block "
        "each other. JobSets: 1.",
    ),
    Case(
        "GangGuaranteeLost",
        "it is over within five minutes",
        {'gangctl_guarantee_lost_gangs{namespace="team-a",cause="FieldDropped"}': "0x4 1x4 0x20"},
        silent=30,
    ),
    Case(
        "GangReadySlow",
        "most take a quarter of an hour",
        starts("0x200", "0+1x200"),
        fires=35,
        labels={"cluster_queue": "gpus"},
        says="Of the gangs of ClusterQueue gpus that became ready within an hour, one in twenty took longer than "
        "20m 48s from its admission.",
    ),
    Case("GangReadySlow", "all of them are within the objective", starts("0+1x200", "0+1x200"), silent=200),
    Case("GangReadySlow", "four an hour are too few to evaluate by", starts("0x200", "0x29 4x170"), silent=200),
    Case(
        "GangMetricsTruncated",
        "a family is full",
        {'gangctl_series_dropped_total{family="gangctl_gangs"}': "0x9 60x60"},
        fires=10,
        labels={"family": "gangctl_gangs"},
        says="gangctl_gangs has reached its limit of series. Gangs or queues that were counted together or left out: "
        "60.",
    ),
    Case(
        "GangMetricsTruncated",
        "JobSets without series of their own",
        {"gangctl_gangs_without_series": "0x4 7x20"},
        fires=5,
        labels={"family": "gangctl_gang_info"},
        says="gangctl_gang_info has reached its limit of series. Gangs or queues that were counted together or left "
        "out: 7.",
    ),
    Case(
        "GangMetricsTruncated",
        "it was so long ago",
        {'gangctl_series_dropped_total{family="gangctl_gangs"}': "3x90", "gangctl_gangs_without_series": "0x90"},
        silent=90,
    ),
)
