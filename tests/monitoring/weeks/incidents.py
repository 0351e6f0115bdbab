"""A day for each incident: what happens in it, which alert says so, and how soon. No other may fire."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tests.monitoring.weeks.cluster import Cluster
from tests.monitoring.weeks.gang import Fault, Gang, Shape

MINUTES: Final = 24 * 60
BEGINS: Final = 120
"""The minute at which it begins."""
_TEAM: Final = "team-a"


@dataclass(frozen=True)
class Incident:
    """``begins`` is called in a cluster that is well, at minute :data:`BEGINS`."""

    about: str
    alert: str
    promised: int
    """Minutes after its begin by which the alert fires."""
    ends: int
    """Minutes after its begin at which it is over."""
    begins: Callable[[Cluster], None]
    clears: int = 3
    """Minutes after its end by which the alert is silent."""
    also: tuple[tuple[str, int], ...] = ()
    """Alerts that fire too, because something else is wrong as well, with what they promise."""

    @property
    def alerts(self) -> dict[str, int]:
        """Every alert that fires, and no other may, with what it promises."""
        return {self.alert: self.promised, **dict(self.also)}

    @property
    def minutes(self) -> int:
        """How long it is watched: an hour longer than it may take."""
        return BEGINS + max(self.ends + self.clears, *self.alerts.values()) + 60

    def plays(self) -> Cluster:
        """Its cluster, in which three gangs run and others come and go."""
        cluster = Cluster({_TEAM: 32, "team-b": 16})
        cluster.later(5, cluster.submit, Shape("steady", 4, 1e9))
        cluster.later(5, cluster.submit, Shape("steady-2", 4, 1e9))
        cluster.later(5, cluster.submit, Shape("steady-b", 4, 1e9, namespace="team-b"))
        for number in range(23):
            cluster.later(number * 3_600 + 60, cluster.submit, Shape(f"short-{number}", 2, 1_800, namespace="team-b"))
        cluster.later(BEGINS * 60, self.begins, cluster)
        return cluster


def _faulty(fault: Fault, minutes: int, *, gangs: int = 1) -> Callable[[Cluster], None]:
    def begins(cluster: Cluster) -> None:
        for number in range(gangs):
            cluster.submit(Shape(f"faulty-{number}", 4, 7_200, fault=fault, repair=minutes * 60))

    return begins


def _steady(cluster: Cluster, name: str = "steady") -> Gang:
    return cluster.gangs[name]


def _crash_loop(cluster: Cluster) -> None:
    """It runs for a minute between crashes, and the kubelet waits up to five."""
    gang = _steady(cluster)
    for number in range(20):
        pause = min(300, 10 * 2**number)
        cluster.later(sum(min(300, 10 * 2**n) + 60 for n in range(number)), gang.crash, gang.pods[0], pause)


def _restart_loop(cluster: Cluster) -> None:
    for number in range(7):
        cluster.later(number * 900, _steady(cluster).restart)


def _node_lost(cluster: Cluster) -> None:
    gang = _steady(cluster)
    node = gang.pods[0]["spec"]["nodeName"]

    def turn(*, ready: bool) -> None:
        cluster.set_node(node, ready=ready)
        for pod in gang.pods:
            if pod["spec"]["nodeName"] == node:
                gang.set_container(pod, {"running": {}}, ready=ready)

    turn(ready=False)
    cluster.later(60 * 60, lambda: turn(ready=True))


def _pod_lost(cluster: Cluster, name: str = "steady", seconds: float = 7_200) -> None:
    """Nothing has room for its replacement."""
    gang = _steady(cluster, name)
    gang.replace_pod(pause=seconds)
    gang.refuse(gang.pods[-1])


def _deadlock_and_half(cluster: Cluster) -> None:
    """Two in one queue, and one in another."""
    _faulty(Fault.HALF, 50, gangs=2)(cluster)
    cluster.submit(Shape("half", 4, 7_200, namespace="team-b", fault=Fault.HALF, repair=50 * 60))


def _no_room_for_two(cluster: Cluster) -> None:
    """One has lost a pod, another one has not begun."""
    _pod_lost(cluster)
    _faulty(Fault.REFUSED, 120)(cluster)


def _node_and_pod_lost(cluster: Cluster) -> None:
    _node_lost(cluster)
    _pod_lost(cluster, "steady-2", 3_600)


def _too_large(cluster: Cluster) -> None:
    gang = cluster.submit(Shape("too-large", 64, 60))
    cluster.later(3_600, gang.delete)


def _not_stamped(cluster: Cluster) -> None:
    gang = cluster.submit(Shape("not-stamped", 2, 1e9, queue="", stamped=False))
    cluster.later(3_600, gang.delete)


def _slow(cluster: Cluster) -> None:
    for number in range(8):
        cluster.later(number * 300, cluster.submit, Shape(f"slow-{number}", 2, 600, start=900))


def _stopped(cluster: Cluster) -> None:
    queue = cluster.queues[_TEAM]
    queue.stop(stopped=True)
    cluster.submit(Shape("waits", 2, 600))
    cluster.later(10_800, lambda: queue.stop(stopped=False))


def _rejected(cluster: Cluster) -> None:
    gang = cluster.submit(Shape("rejected", 2, 1e9))
    assert gang.workload is not None
    cluster.later(1, gang.workload.reject)
    cluster.later(3_600, gang.delete)


def _evicted_again(cluster: Cluster) -> None:
    """waitForPodsReady evicts it every ten minutes; after an hour its owner repairs it."""
    gang = cluster.submit(Shape("evicted", 4, 7_200, fault=Fault.IMAGE, repair=1e9))

    assert gang.workload is not None
    for number in range(4):
        cluster.later(300 + number * 2_220, gang.workload.evict, 1_800)
    cluster.later(9_000, gang.delete)


def _starved(cluster: Cluster) -> None:
    """Others of the cohort have all that the queue could get."""
    queue = cluster.queues[_TEAM]
    for name in ("steady", "steady-2"):
        _steady(cluster, name).finish()
    queue.pods = 0
    cluster.submit(Shape("starved", 2, 600))

    def comes() -> None:
        queue.pods = 32
        queue.schedule()

    cluster.later(4 * 3_600, comes)


INCIDENTS: Final = (
    Incident("half of a gang's pods have nodes", "GangPartiallyPlaced", 19, 50, _faulty(Fault.HALF, 50)),
    Incident(
        "two gangs hold half of each other's nodes",
        "GangMutualDeadlock",
        17,
        50,
        _faulty(Fault.HALF, 50, gangs=2),
    ),
    Incident(
        "two gangs as before, and one in another queue alone",
        "GangMutualDeadlock",
        17,
        50,
        _deadlock_and_half,
        also=(("GangPartiallyPlaced", 19),),
    ),
    Incident("a readiness probe never succeeds", "GangStuckPending", 37, 120, _faulty(Fault.PROBE, 120)),
    Incident("a JobSet is larger than its quota", "GangNeverFits", 6, 60, _too_large),
    Incident("the scheduler finds no room for a gang", "GangUnschedulable", 67, 120, _faulty(Fault.REFUSED, 120)),
    Incident("the scheduler does not answer", "GangSchedulerFailing", 14, 60, _faulty(Fault.SILENT, 60)),
    Incident("groups are not made", "GangGroupMissing", 9, 60, _faulty(Fault.GROUPS, 60)),
    Incident("a webhook rejects the Jobs", "GangCreationRefused", 9, 60, _faulty(Fault.JOBS, 60)),
    Incident("a node is lost", "GangNodeLost", 9, 60, _node_lost),
    Incident("an image cannot be pulled", "GangImagePullFailing", 14, 60, _faulty(Fault.IMAGE, 60)),
    Incident("a ConfigMap is missing", "GangContainersFailing", 19, 60, _faulty(Fault.CONFIG, 60)),
    Incident("a container crashes, and runs between crashes", "GangContainersFailing", 24, 105, _crash_loop, clears=13),
    Incident("a pod is lost and not replaced", "GangDegraded", 14, 120, _pod_lost),
    Incident(
        "a pod is lost, and no room is found for another gang of the queue",
        "GangUnschedulable",
        67,
        120,
        _no_room_for_two,
        also=(("GangDegraded", 14),),
    ),
    Incident(
        "a node is lost, and a pod of another gang of the queue",
        "GangNodeLost",
        9,
        60,
        _node_and_pod_lost,
        also=(("GangDegraded", 14),),
    ),
    Incident("a JobSet restarts every 15 minutes", "GangRestartLoop", 34, 90, _restart_loop, clears=95),
    Incident("a JobSet that gangctl's webhook has missed", "GangGuaranteeLost", 7, 60, _not_stamped),
    Incident("gangs take 15 minutes from admission to ready", "GangReadySlow", 75, 60, _slow, clears=65),
    Incident("a queue is stopped", "QueueBlocked", 34, 180, _stopped),
    Incident("an admission check rejects a JobSet", "QueueWorkloadStuck", 19, 60, _rejected),
    Incident("waitForPodsReady evicts a JobSet again and again", "QueueWorkloadStuck", 120, 150, _evicted_again),
    Incident("a queue without quota", "QueueStarved", 125, 240, _starved),
)
