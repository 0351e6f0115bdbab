"""What gangctl may cost: the budgets as data, by row, and what each number is held against."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Direction(StrEnum):
    """Which side of the limit is the good one; the limit itself is good, but for the strict one."""

    AT_MOST = "at most"
    AT_LEAST = "at least"
    ABOVE = "above"

    def allows(self, value: float, limit: float) -> bool:
        """Whether the value keeps the limit."""
        match self:
            case Direction.AT_MOST:
                return value <= limit
            case Direction.AT_LEAST:
                return value >= limit
            case Direction.ABOVE:
                return value > limit


@dataclass(frozen=True, slots=True)
class Limit:
    """One number of a row, and the benchmark that measures it.

    ``unit`` is that of what is measured. With ``relative`` the limit is for the ratio of what is measured to the
    yardstick of the same run; otherwise for the value, and the yardstick only tells how fast the machine is.
    ``worst`` judges the worst round, where one exception is one too many; otherwise the median of the rounds counts.
    ``paced`` is a time in which a core is at work, not one of waiting: the limit is for a core of the reference's pace
    (:data:`benchmarks.pace.REFERENCE`), and what was measured is judged as it would have been there.
    """

    id: str
    bench: str
    text: str
    direction: Direction
    limit: float
    unit: str
    yardstick: str = ""
    relative: bool = False
    worst: bool = False
    paced: bool = False

    @property
    def limit_unit(self) -> str:
        """The unit of the limit."""
        return "x" if self.relative else self.unit


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table: what it is about, and its limits.

    ``apart`` is one that takes long and says more of something than the other rows do: measured when it is asked for.
    """

    id: str
    text: str
    limits: tuple[Limit, ...]
    apart: bool = False

    @property
    def benches(self) -> tuple[str, ...]:
        """The benchmarks that measure it, each once."""
        return tuple(dict.fromkeys(limit.bench for limit in self.limits))


_MOST, _LEAST, _ABOVE = Direction.AT_MOST, Direction.AT_LEAST, Direction.ABOVE
_JSON: Final = "JSON round trip of the same JobSet"
_PYTHON: Final = "Python that does nothing"

ROWS: Final = (
    Row(
        "contention",
        "Pods stranded in half-started JobSets under contention, real scheduler of the newest Kubernetes; one run.",
        (
            Limit("stranded", "contention", "with gangctl", _MOST, 0, "pods", worst=True),
            Limit("stranded-without", "contention", "without, in the same run", _ABOVE, 0, "pods", worst=True),
        ),
    ),
    Row(
        "contention-older",
        "The same with the schedulers of the older minors; one run of each.",
        (
            Limit("stranded-older", "contention-older", "with gangctl, older minors", _MOST, 0, "pods", worst=True),
            Limit(
                *("stranded-older-without", "contention-older", "without, in the same run, older minors"),
                *(_ABOVE, 0, "pods"),
                worst=True,
            ),
        ),
        apart=True,
    ),
    Row(
        "translate",
        "Pure translation of a JobSet of three ReplicatedJobs, on one core.",
        (
            Limit("translate-jobset", "translate", "one gang", _LEAST, 10_000, "/s", _JSON, paced=True),
            Limit(
                "translate-group", "translate", "a gang for each ReplicatedJob", _LEAST, 10_000, "/s", _JSON, paced=True
            ),
            Limit(
                "translate-replica",
                "translate",
                "a gang for each of 12 replicas",
                _LEAST,
                10_000,
                "/s",
                _JSON,
                paced=True,
            ),
        ),
    ),
    Row(
        "planning",
        "Reconcile of a JobSet of 50,000 Jobs: longest time for which the event loop, which answers webhooks, is held.",
        (
            Limit("planning-jobset", "planning", "one gang", _MOST, 20, "ms", worst=True, paced=True),
            Limit("planning-replica", "planning", "a gang for each Job", _MOST, 20, "ms", worst=True, paced=True),
        ),
    ),
    Row(
        "admission",
        "Admission of a 20 KB JobSet, 20 policies, paced 20 creates/s; from the API server's webhook histogram.",
        (
            Limit("admission-slow", "admission", "calls above 25 ms", _MOST, 1, "%"),
            Limit(
                *("admission-added", "admission", "mean added to a create", _MOST, 1, "ms"),
                yardstick="2x what 20 native policies add, or 5 ms if that is more",
                relative=True,
            ),
        ),
    ),
    Row(
        "burst-groups",
        "Burst of 300 JobSets of 4 Jobs: p99 from the answer to a create until a watch has shown all its PodGroups.",
        (
            Limit(
                *("burst-groups", "burst", "until all PodGroups, p99", _MOST, 0.25, "s"),
                yardstick="until all child Jobs, p99",
                relative=True,
            ),
        ),
    ),
    Row(
        "burst-jobs",
        "The same burst: time until every child Job exists.",
        (
            Limit(
                *("burst-jobs", "burst", "until every Job exists", _MOST, 1.1, "s"),
                yardstick="the floor: the same objects, written by a plain client",
                relative=True,
            ),
        ),
    ),
    Row(
        "burst-cpu",
        "The same burst: CPU of gangctl for each JobSet, when everything of all of them exists.",
        (
            Limit(
                *("burst-cpu", "burst", "CPU of gangctl", _MOST, 0.4, "ms"),
                yardstick="CPU of the JobSet controller in the same burst",
                relative=True,
            ),
        ),
    ),
    Row(
        "gangs",
        "Gangs a second until all their pods have nodes: from 3 gangs of 10 pods to 9 of 1,000 on 5,000 nodes.",
        (
            Limit(
                *("gangs-rate", "gangs", "gangs a second, median of the shapes", _LEAST, 0.9, "/s"),
                yardstick="bare PodGroups and pods by a client, same scheduler",
                relative=True,
            ),
        ),
        apart=True,
    ),
    Row(
        "sustained",
        "Sustained creates of JobSets for a minute.",
        (
            Limit(
                *("sustained-backlog", "sustained", "growth of the backlog at 50/s, etcd and API server only"),
                *(_MOST, 1, "%"),
            ),
            Limit(
                *("sustained-accepted", "sustained", "creates accepted with everything running", _LEAST, 0.9, "/s"),
                yardstick="the floor: the same objects, written by a plain client",
                relative=True,
            ),
        ),
    ),
    Row(
        "cold-start",
        "Cold start with 10,000 JobSets and 100,000 pods: raw objects in a real API server, other controllers off.",
        (
            Limit(
                *("cold-start-synced", "readiness", "until everything is published", _MOST, 30, "s"),
                yardstick="listing the same objects once",
                paced=True,
            ),
            Limit("cold-start-writes", "readiness", "writes of objects", _MOST, 0, "writes", worst=True),
            Limit("cold-start-memory", "readiness", "most resident memory", _MOST, 400, "MB", worst=True),
        ),
    ),
    Row(
        "growth",
        "Cost of one more JobSet where there are 10,000, against where there are 100.",
        (
            Limit(
                *("growth-cpu", "growth", "CPU of gangctl for each new JobSet", _MOST, 1.2, "ms"),
                yardstick="where there are 100",
                relative=True,
            ),
            Limit(
                *("growth-reconcile", "growth", "mean time of a reconcile", _MOST, 1.2, "ms"),
                yardstick="where there are 100",
                relative=True,
            ),
        ),
    ),
    Row(
        "scale",
        "50,000 JobSets with 500,000 pods in the informers, caches and queues of one leader, without an API server.",
        (
            Limit(
                *("scale-cpu", "scale", "CPU of one more JobSet", _MOST, 1.2, "ms"),
                yardstick="where there are 100",
                relative=True,
            ),
            Limit("scale-memory", "scale", "resident memory", _MOST, 1_500, "MB"),
            Limit(
                "scale-held",
                "scale",
                "longest turn of the event loop, the start included",
                _MOST,
                100,
                "ms",
                worst=True,
                paced=True,
            ),
            Limit("scale-writes", "scale", "requests although nothing is missing", _MOST, 0, "writes", worst=True),
        ),
    ),
    Row(
        "steady",
        "Steady state: nothing is written without need.",
        (
            Limit(
                "steady-resync",
                "steady",
                "writes when everything is looked at again, events included",
                _MOST,
                0,
                "writes",
                worst=True,
            ),
            Limit(
                "steady-idle", "steady", "writes while nothing happens, events included", _MOST, 0, "writes", worst=True
            ),
            Limit(
                *("steady-objects", "steady", "writes for each new JobSet", _MOST, 1, "writes"),
                yardstick="one Workload and its PodGroups",
                relative=True,
                worst=True,
            ),
            Limit(
                "steady-events",
                "steady",
                "events for each new JobSet; GangReady, once an attempt when it is ready, is counted apart",
                _MOST,
                1,
                "events",
                worst=True,
            ),
        ),
    ),
    Row(
        "verdict",
        "Never-fits verdict for a JobSet of 10 podsets, 500 ClusterQueues in cohorts five deep.",
        (
            Limit(
                *("verdict-time", "fit", "a verdict, p99 of the slowest question", _MOST, 50, "ms"),
                yardstick=_JSON,
                worst=True,
                paced=True,
            ),
            Limit(
                *("verdict-topology", "fit", "the same with a topology of 5,000 nodes", _MOST, 200, "ms"),
                yardstick=_JSON,
                worst=True,
                paced=True,
            ),
            Limit(
                "verdict-unknown", "fit", "exhausted searches not answered `unknown`", _MOST, 0, "answers", worst=True
            ),
        ),
    ),
    Row(
        "metrics",
        "Metrics at 10,000 JobSets.",
        (
            Limit("metrics-series", "scrape", "series of gangs, worst shape", _MOST, 30_000, "series", worst=True),
            Limit(
                *("metrics-scrape", "scrape", "writing them down as OpenMetrics", _MOST, 1_000, "ms"),
                yardstick="as many gauges of one family",
                paced=True,
            ),
            Limit("metrics-all-series", "readiness", "all series of a process", _MOST, 30_000, "series", worst=True),
            Limit("metrics-http", "readiness", "a scrape through HTTP", _MOST, 1_000, "ms", paced=True),
        ),
    ),
    Row(
        "failover",
        "A leader that goes is followed: until the next one's first write.",
        (
            Limit(
                *("failover-killed", "failover", "the leader is killed", _MOST, 1, "s"),
                yardstick="the Lease's duration",
                relative=True,
                worst=True,
            ),
            Limit("failover-graceful", "failover", "the leader gets SIGTERM", _MOST, 2, "s", worst=True),
        ),
    ),
    Row(
        "start",
        "Command line: time from start to end.",
        (
            Limit("start-help", "start", "`gangctl --help`", _MOST, 150, "ms", _PYTHON, paced=True),
            Limit("start-plan", "start", "`gangctl plan` of one file", _MOST, 500, "ms", _PYTHON, paced=True),
        ),
    ),
    Row(
        "readiness",
        "100 transitions of readiness a second among 10,000 JobSets: from the API server's answer until it is seen.",
        (
            Limit("readiness-metrics", "readiness", "in metrics, p99", _MOST, 1, "s", paced=True),
            Limit("readiness-gangs", "readiness", "in the Gang object, p99", _MOST, 1, "s", paced=True),
        ),
    ),
    Row(
        "hostile",
        "What an ordinary review waits while hostile policies are at work.",
        (
            Limit(
                *("hostile", "hostile", "median of ordinary reviews", _MOST, 2, "ms"),
                yardstick="the same without hostile policies",
                relative=True,
                worst=True,
            ),
            Limit(
                *("hostile-slowest", "hostile", "p99 of ordinary reviews", _MOST, 3, "ms"),
                yardstick="the same without hostile policies",
                relative=True,
                worst=True,
            ),
        ),
    ),
    Row(
        "flood",
        "What small JobSets wait while six clients of another user create ones with a text of 400,000 letters.",
        (
            Limit("flood-denied", "flood", "small ones denied, in either flood", _MOST, 0, "answers", worst=True),
            Limit(
                *("flood-direct", "flood", "p99 of the evaluation, asked directly", _MOST, 3, "ms"),
                yardstick="the same while all is calm",
                relative=True,
            ),
            Limit(
                *("flood-server", "flood", "p99 of creates, through an API server", _MOST, 3, "ms"),
                yardstick="the same flood without the policy",
                relative=True,
            ),
        ),
    ),
    Row(
        "soak",
        "Half an hour of churn.",
        (
            Limit(
                *("soak-memory", "soak", "resident memory at the end", _MOST, 1.05, "MB"),
                yardstick="after warming up",
                relative=True,
            ),
            Limit("soak-left", "soak", "objects left over", _MOST, 0, "objects", worst=True),
            Limit("soak-idle", "soak", "writes in a minute afterwards", _MOST, 0, "writes", worst=True),
        ),
        apart=True,
    ),
)
"""Every row, in the order of the report."""


def limits() -> Iterator[Limit]:
    """Every limit of every row."""
    for row in ROWS:
        yield from row.limits


APART: Final = frozenset(bench for row in ROWS if row.apart for bench in row.benches)
"""The benchmarks that are run when they are asked for."""


def limit_of(identifier: str) -> Limit:
    """The limit of this id; KeyError if there is none."""
    return _LIMITS[identifier]


_LIMITS: Final = {limit.id: limit for limit in limits()}
