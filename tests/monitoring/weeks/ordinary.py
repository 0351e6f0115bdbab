"""Ordinary weeks: what happens every day in a cluster that is well. No alert may fire."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from tests.monitoring.weeks.cluster import Cluster
from tests.monitoring.weeks.gang import Gang, Shape
from tests.monitoring.weeks.kueue import Workload

DAY: Final = 86_400
MINUTES: Final = 7 * 24 * 60
_TRACE: Final = Path(__file__).with_name("arrivals.csv")
_TEAMS: Final = {"11cb48": "team-a", "6c71a0": "team-b", "7f04ca": "team-c"}
_QUOTA: Final = {"team-a": 20, "team-b": 20, "team-c": 32}


@dataclass(frozen=True)
class Week:
    """``plays`` makes a cluster, and says what is to happen in it."""

    name: str
    about: str
    plays: Callable[[], Cluster]


def _arrivals() -> Iterator[tuple[float, Shape]]:
    with _TRACE.open(encoding="utf-8") as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        for number, row in enumerate(rows):
            shape = Shape(
                f"job-{number}",
                int(row["gpus"]),
                float(row["seconds"]),
                namespace=_TEAMS[row["queue"]],
                start=30 + number % 7 * 20,
                end="Failed" if number % 17 == 0 else "Completed",
            )
            yield float(row["submitted"]), shape


def _traced(strategy: str = "StrictFIFO", ready_timeout: str = "") -> Cluster:
    cluster = Cluster(_QUOTA, strategy=strategy, ready_timeout=ready_timeout)
    for at, shape in _arrivals():
        cluster.later(at, cluster.submit, shape)
    return cluster


def full() -> Cluster:
    """Everything behind the head of a full queue waits for hours and days."""
    return _traced()


def _running(cluster: Cluster) -> list[Gang]:
    return [gang for gang in cluster.gangs.values() if gang.pods and not gang.over]


def _kueue(gang: Gang) -> Workload:
    assert gang.workload is not None
    return gang.workload


def _every(cluster: Cluster, seconds: float, call: Callable[[Gang], object], *, until: float = 7 * DAY) -> None:
    """Call it with one running gang after another."""

    def turn() -> None:
        gangs = _running(cluster)
        if gangs:
            call(gangs[cluster.random.randrange(len(gangs))])
        if cluster.now + seconds < until:
            cluster.later(seconds, turn)

    cluster.later(seconds, turn)


def queued() -> Cluster:
    """Owners suspend and resume, waitForPodsReady evicts what starts slowly, and it is queued again."""
    cluster = _traced("BestEffortFIFO", ready_timeout="20m")
    _every(cluster, 3 * 3_600, lambda gang: _kueue(gang).suspend(2 * 3_600))
    _every(cluster, 5 * 3_600, lambda gang: _kueue(gang).suspend(30 * 3_600))
    _every(cluster, 2 * 3_600, _evict_once)
    return cluster


def _evict_once(gang: Gang) -> None:
    """After the third time in a row it is no slow start any more."""
    if not _kueue(gang).evictions:
        _kueue(gang).evict(120)


def restarting() -> Cluster:
    """Gangs restart now and then, lose pods, change their size, and nodes are down for minutes: each time others."""
    cluster = _traced()
    _every(cluster, 3 * 3_600, Gang.restart)
    _every(cluster, 7 * 60, Gang.replace_pod)
    _every(cluster, 11 * 60, lambda gang: gang.crash(gang.pods[0], 20))
    _every(cluster, 4 * 3_600, lambda gang: gang.resize(gang.shape.pods + 1) if gang.shape.pods < 8 else None)
    for number in range(7 * 24):
        node = f"node-{number % 16}"
        cluster.later(number * 3_600 + 600, partial(cluster.set_node, node, ready=False))
        cluster.later(number * 3_600 + 780, partial(cluster.set_node, node, ready=True))
    return cluster


def slice_of_all() -> Cluster:
    """Ten hours with each normal state of the weeks in which an alert was wrong once, on purpose and not by chance."""
    cluster = Cluster({"team-a": 8, "team-b": 8}, ready_timeout="20m")
    for number, at in enumerate((5, 600, 700, 800)):
        cluster.later(at, cluster.submit, Shape(f"behind-{number}", 8, 60_000))
    cluster.later(10, cluster.submit, Shape("empty", 4, 1e9, queue="", replicas=0))
    for number in range(3):
        cluster.later(20 + number, cluster.submit, Shape(f"turn-{number}", 2, 1e9, namespace="team-b"))
    cluster.later(30, cluster.submit, Shape("evicted", 2, 1e9, namespace="team-b"))

    def evict_and_fill() -> None:
        _kueue(cluster.gangs["evicted"]).evict(120)
        cluster.submit(Shape("fills", 2, 1e9, namespace="team-b"))

    cluster.later(900, evict_and_fill)
    cluster.later(1_200, lambda: _kueue(cluster.gangs["turn-2"]).suspend(1e9))
    # One of two gangs is short of a pod at each time, another one each time, each for less than five minutes.
    for number in range(60):
        cluster.later(3_600 + number * 200, lambda name=f"turn-{number % 2}": cluster.gangs[name].replace_pod(150))
    for number in range(40):
        turn = f"turn-{number % 2}"
        for ready, at in ((False, 0), (True, 170)):
            cluster.later(18_000 + number * 175 + at, partial(_turn_node, cluster, turn, ready=ready))
    return cluster


def _turn_node(cluster: Cluster, name: str, *, ready: bool) -> None:
    node = "node-1" if name == "turn-0" else "node-2"
    gang = cluster.gangs[name]
    for pod in gang.pods:
        pod["spec"]["nodeName"] = node
        gang.set_container(pod, {"running": {}}, ready=ready)
    cluster.set_node(node, ready=ready)


def without_queue() -> Cluster:
    """JobSets without a queue and with replicas: 0, and hundreds that have finished and stay."""
    cluster = Cluster({"team-a": 16})
    for number in range(1_200):
        shape = Shape(f"short-{number}", 2 + number % 3, 300, queue="", start=20)
        cluster.later(number * 500.0, cluster.submit, shape)
    for number in range(5):
        cluster.later(number * 1_000.0, cluster.submit, Shape(f"empty-{number}", 4, 1e9, queue="", replicas=0))
    return cluster


SLICE: Final = 600
"""Minutes of :func:`slice_of_all`."""
WEEKS: Final = (
    Week("full queues", "A recorded week of submissions to three full StrictFIFO queues.", full),
    Week("evictions", "BestEffortFIFO; owners suspend, waitForPodsReady evicts, Kueue queues again.", queued),
    Week(
        "restarts",
        "Restarts, lost pods, crashes, new sizes, nodes that are down: other gangs each time.",
        restarting,
    ),
    Week("finished", "1,200 short JobSets that stay for two days, and some with replicas: 0.", without_queue),
)
