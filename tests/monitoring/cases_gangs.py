"""Cases of the alerts about gangs."""

from __future__ import annotations

from typing import Final

from tests.monitoring.promtool import Case

QUEUE: Final = 'namespace="team-a",local_queue="research",cluster_queue="gpus"'
OTHER: Final = 'namespace="team-b",local_queue="batch",cluster_queue="gpus"'
ELSEWHERE: Final = 'namespace="team-b",local_queue="batch",cluster_queue="cpus"'
LABELS: Final = {"namespace": "team-a", "local_queue": "research", "cluster_queue": "gpus"}


def oldest(reason: str, labels: str = QUEUE, *, phase: str = "scheduling") -> str:
    """The series of the moment since when it blocks the first that is in this phase."""
    return f'gangctl_oldest_blocked_gang_timestamp_seconds{{{labels},reason="{reason}",phase="{phase}"}}'


def first_in(name: str, labels: str = QUEUE, *, reason: str = "Unschedulable") -> str:
    """The series of the moment since when the first gang that this blocks is in a phase."""
    return f'gangctl_oldest_gang_timestamp_seconds{{{labels},phase="{name}",reason="{reason}"}}'


IN_TURN: Final = "_ 60x3 300x3 540x3 780x3 1020x3 1260x3 1500x3 1740x3 1980x3 2220x40"
"""Until minute 37 another gang is the first every four minutes."""


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
        {first_in("partiallyplaced"): "_x4 300x40"},
        fires=23,
        labels=LABELS,
        says="Pods of a gang in team-a, queue research have held nodes for 18m 0s, and other pods of the same gang "
        "have no node.",
    ),
    Case(
        "GangPartiallyPlaced",
        "the rest is placed after fourteen minutes",
        {first_in("partiallyplaced"): "_x4 300x14 stale"},
        silent=50,
    ),
    Case("GangPartiallyPlaced", "other gangs in turn", {first_in("partiallyplaced"): IN_TURN}, silent=49),
    Case(
        "GangPartiallyPlaced",
        "leadership moves meanwhile and two replicas tell the same",
        {
            f'gangctl_oldest_gang_timestamp_seconds{{{QUEUE},phase="partiallyplaced",instance="a"}}': "0x12 stale",
            f'gangctl_oldest_gang_timestamp_seconds{{{QUEUE},phase="partiallyplaced",instance="b"}}': "_x11 0x40",
        },
        fires=18,
        labels=LABELS,
        says="Pods of a gang in team-a, queue research have held nodes for 18m 0s, and other pods of the same gang "
        "have no node.",
    ),
    Case(
        "GangPartiallyPlaced",
        "a JobSet without a queue has no label of one",
        {
            'gangctl_oldest_gang_timestamp_seconds{namespace="team-a",local_queue="",cluster_queue="",'
            'phase="partiallyplaced"}': "0x40"
        },
        fires=18,
        labels={"namespace": "team-a"},
        says="Pods of a gang in team-a have held nodes for 18m 0s, and other pods of the same gang have no node.",
    ),
    Case(
        "GangMutualDeadlock",
        "two gangs of different namespaces",
        {
            phase("partiallyplaced"): "1x40",
            phase("partiallyplaced", OTHER): "1x40",
            first_in("partiallyplaced"): "0x40",
            first_in("partiallyplaced", OTHER): "0x40",
        },
        fires=16,
        labels={"cluster_queue": "gpus"},
        says="Gangs of ClusterQueue gpus have been placed in part for 15 minutes. Each may wait for nodes that another "
        "one holds, and none gives them back. Gangs: 2.",
    ),
    Case(
        "GangMutualDeadlock",
        "the second twenty minutes after the first, of which the alert says so until then",
        {
            phase("partiallyplaced"): "1x60",
            phase("partiallyplaced", OTHER): "_x20 1x60",
            first_in("partiallyplaced"): "0x60",
            first_in("partiallyplaced", OTHER): "_x20 1200x60",
        },
        fires=34,
        later=1,
        labels={"cluster_queue": "gpus"},
        says="Gangs of ClusterQueue gpus have been placed in part for 15 minutes. Each may wait for nodes that another "
        "one holds, and none gives them back. Gangs: 2.",
    ),
    Case(
        "GangMutualDeadlock",
        "gangs of two queues have nothing to do with each other",
        {
            phase("partiallyplaced"): "1x60",
            phase("partiallyplaced", ELSEWHERE): "1x60",
            first_in("partiallyplaced"): "0x60",
            first_in("partiallyplaced", ELSEWHERE): "0x60",
        },
        silent=60,
        also=frozenset({"GangPartiallyPlaced"}),
    ),
    Case(
        "GangMutualDeadlock",
        "one gang alone waits for nobody",
        {phase("partiallyplaced"): "1x60", first_in("partiallyplaced"): "0x60"},
        silent=60,
        also=frozenset({"GangPartiallyPlaced"}),
    ),
    Case(
        "GangMutualDeadlock",
        "two gangs at each time, and others in turn",
        {phase("partiallyplaced"): "2x60", first_in("partiallyplaced"): IN_TURN},
        silent=49,
    ),
    Case(
        "GangMutualDeadlock",
        "one of two gets on after fourteen minutes",
        {
            phase("partiallyplaced"): "1x60",
            phase("partiallyplaced", OTHER): "1x14 0x40",
            first_in("partiallyplaced"): "0x60",
        },
        silent=60,
        also=frozenset({"GangPartiallyPlaced"}),
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
            {oldest(reason): "_x3 240x20"},
            fires=9,
            labels={**LABELS, "reason": reason},
            says=f"A gang in team-a, queue research can never start as it is: {reason}. Waiting does not help. It has "
            "been so for 5m 0s.",
        )
        for reason in ("NeverFits", "TopologyTooSmall", "MinCountUnreachable")
    ),
    Case("GangNeverFits", "gone within two minutes", {oldest("NeverFits"): "0x1 stale"}, silent=30),
    Case("GangNeverFits", "unschedulable now is not never", {oldest("Unschedulable"): "0x30"}, silent=30),
    Case(
        "GangUnschedulable",
        "for more than an hour",
        {oldest("Unschedulable"): "0x90"},
        fires=66,
        labels=LABELS,
        says="A gang in team-a, queue research, has been unschedulable for 1h 6m 0s.",
    ),
    Case(
        "GangUnschedulable",
        "beside a gang of the same queue that is degraded",
        {oldest("Unschedulable"): "0x90", first_in("degraded"): "0x90"},
        fires=66,
        labels=LABELS,
        says="A gang in team-a, queue research, has been unschedulable for 1h 6m 0s.",
        also=frozenset({"GangDegraded"}),
    ),
    Case(
        "GangUnschedulable",
        "pods of one that was ready, which another alert says",
        {oldest("Unschedulable", phase="degraded"): "0x90", first_in("degraded"): "0x90"},
        silent=90,
        also=frozenset({"GangDegraded"}),
    ),
    Case("GangUnschedulable", "placed just before", {oldest("Unschedulable"): "0x65 stale"}, silent=90),
    Case(
        "GangSchedulerFailing",
        "silent for ten minutes",
        {oldest("SchedulerSilent"): "_x4 300x40"},
        fires=18,
        labels={**LABELS, "reason": "SchedulerSilent"},
        says="A gang in team-a has all its pods, and the scheduler has not decided about it for 13m 0s: "
        "SchedulerSilent.",
    ),
    Case("GangSchedulerFailing", "it answers after nine", {oldest("SchedulerError"): "_x4 300x9 stale"}, silent=40),
    Case("GangSchedulerFailing", "other gangs in turn", {oldest("SchedulerError"): IN_TURN}, silent=38),
    Case(
        "GangGroupMissing",
        "a group was deleted",
        {oldest("PodGroupMissing"): "_x4 300x40"},
        fires=13,
        labels={**LABELS, "reason": "PodGroupMissing"},
        says="A gang in team-a does not have the Workload or PodGroup that its pods name, for 8m 0s: PodGroupMissing.",
    ),
    Case("GangGroupMissing", "it is made again", {oldest("PodGroupMissing"): "_x4 300x4 stale"}, silent=40),
    Case("GangGroupMissing", "other gangs in turn", {oldest("PodGroupMissing"): IN_TURN}, silent=38),
    Case(
        "GangCreationRefused",
        "a quota refuses pods",
        {oldest("PodCreationRefused"): "_x4 300x40"},
        fires=13,
        labels={**LABELS, "reason": "PodCreationRefused"},
        says="The API server has rejected objects that a gang in team-a needs for 8m 0s: PodCreationRefused.",
    ),
    Case("GangCreationRefused", "once and not again", {oldest("JobCreationRefused"): "_x4 300x4 stale"}, silent=40),
    Case("GangCreationRefused", "other gangs in turn", {oldest("JobCreationRefused"): IN_TURN}, silent=38),
    Case(
        "GangNodeLost",
        "a node does not come back",
        {oldest("NodeLost"): "_x4 300x40"},
        fires=13,
        labels=LABELS,
        says="A gang in team-a, queue research has waited for 8m 0s for pods whose nodes are gone or do not answer.",
    ),
    Case("GangNodeLost", "it does", {oldest("NodeLost"): "_x4 300x4 stale"}, silent=40),
    Case("GangNodeLost", "other gangs in turn", {oldest("NodeLost"): IN_TURN}, silent=38),
    Case(
        "GangImagePullFailing",
        "an image cannot be pulled",
        {oldest("ImagePull"): "_x4 300x40"},
        fires=18,
        labels=LABELS,
        says="A gang in team-a holds its nodes, and an image has not been pulled for 13m 0s.",
    ),
    Case("GangImagePullFailing", "the registry comes back", {oldest("ImagePull"): "_x4 300x9 stale"}, silent=40),
    Case("GangImagePullFailing", "other gangs in turn", {oldest("ImagePull"): IN_TURN}, silent=38),
    Case(
        "GangContainersFailing",
        "containers crash",
        {oldest("CrashLoop"): "_x4 300x40"},
        fires=23,
        labels={**LABELS, "reason": "CrashLoop"},
        says="A gang in team-a holds its nodes, and its containers have not run, or not for long, for 18m 0s: "
        "CrashLoop.",
    ),
    Case("GangContainersFailing", "they run in the end", {oldest("CrashLoop"): "_x4 300x14 stale"}, silent=40),
    Case("GangContainersFailing", "other gangs in turn", {oldest("CrashLoop"): IN_TURN}, silent=38),
    Case(
        "GangDegraded",
        "it does not recover",
        {first_in("degraded"): "_x9 600x60"},
        fires=23,
        labels=LABELS,
        says="A gang in team-a, queue research has run without all its pods for 13m 0s.",
    ),
    Case("GangDegraded", "it recovers", {first_in("degraded"): "_x9 600x9 stale"}, silent=40),
    Case("GangDegraded", "other gangs in turn", {first_in("degraded"): IN_TURN}, silent=44),
    Case(
        "GangDegraded",
        "it has lost a node, which another alert says",
        {first_in("degraded", reason="NodeLost"): "0x40", oldest("NodeLost", phase="degraded"): "0x40"},
        silent=40,
        also=frozenset({"GangNodeLost"}),
    ),
    Case(
        "GangDegraded",
        "beside a gang of the same queue that has lost a node",
        {
            first_in("degraded"): "_x9 600x60",
            first_in("degraded", reason="NodeLost"): "0x60",
            oldest("NodeLost", phase="degraded"): "0x60",
        },
        fires=23,
        labels=LABELS,
        says="A gang in team-a, queue research has run without all its pods for 13m 0s.",
        also=frozenset({"GangNodeLost"}),
    ),
    Case(
        "GangDegraded",
        "a pod that replaces a lost one is gated",
        {first_in("degraded", reason="PodsGated"): "_x9 600x60", oldest("PodsGated", phase="degraded"): "_x9 600x60"},
        fires=23,
        labels=LABELS,
        says="A gang in team-a, queue research has run without all its pods for 13m 0s.",
    ),
    Case(
        "GangDegraded",
        "nothing is known to block it",
        {first_in("degraded", reason=""): "_x9 600x60"},
        fires=23,
        labels=LABELS,
        says="A gang in team-a, queue research has run without all its pods for 13m 0s.",
    ),
    Case(
        "GangRestartLoop",
        "three times within two hours",
        {f"gangctl_gangs_restart_loop{{{QUEUE}}}": "0x9 1x30"},
        fires=12,
        labels=LABELS,
        says="JobSets in team-a, queue research have restarted three times or more within two hours. Gangs: 1.",
    ),
    Case("GangRestartLoop", "less often", {f"gangctl_gangs_restart_loop{{{QUEUE}}}": "0x40"}, silent=40),
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
