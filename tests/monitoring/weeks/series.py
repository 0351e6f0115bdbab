"""What a Prometheus would scrape of a week, once a minute, in promtool's notation of input series.

Only series that an alert reads, or a rule that it reads: others cost time, and change no alert.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import groupby
from typing import Final

from tests.monitoring.rulefiles import alerts, recordings
from tests.monitoring.weeks.cluster import Cluster
from tests.monitoring.weeks.watched import START

MINUTE: Final = 60.0
_STALE: Final = None
_NAME: Final = re.compile(r"[a-zA-Z_][\w:]*")


class Recorder:
    """Scrapes a cluster: gangctl's registry, and what Kueue exports of its queues."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._values: dict[str, list[float | None]] = {}
        self.minutes = 0
        self._registry = cluster.watched.registry.restricted_registry(_read_by_alerts())

    async def scrape(self, minutes: int) -> None:
        """Once a minute, for so long."""
        for _ in range(minutes):
            # A scrape is never at the very moment of a change.
            await asyncio.sleep(self.minutes * MINUTE + 0.5 - self._cluster.now)
            for name, value in self._samples():
                values = self._values.setdefault(name, [])
                values.extend([_STALE] * (self.minutes - len(values)))
                values.append(value)
            self.minutes += 1

    def _samples(self) -> Iterator[tuple[str, float]]:
        yield 'gangctl_leader_election_master_status{instance="a",job="gangctl"}', 1.0
        for metric in self._registry.collect():
            # Time begins at 0 in promtool.
            begin = START.timestamp() if metric.name.endswith("_timestamp_seconds") else 0.0
            for sample in metric.samples:
                yield _series(sample.name, sample.labels), sample.value - begin
        for queue in self._cluster.queues.values():
            labels = {"cluster_queue": queue.name}
            yield _series("kueue_pending_workloads", {**labels, "status": "active"}), 0.0
            yield _series("kueue_pending_workloads", {**labels, "status": "inadmissible"}), float(len(queue.waiting))
            yield _series("kueue_cluster_queue_status", {**labels, "status": "pending"}), float(queue.stopped)
            yield _series("kueue_reserving_active_workloads", labels), float(len(queue.holding))
            # Kueue has no series of what is admitted before the first admission.
            if queue.admissions:
                yield _series("kueue_admitted_workloads_total", labels), float(queue.admissions)

    def series(self) -> dict[str, str]:
        """Every series by its name and labels, from the first minute."""
        return {
            name: notation([*values, *[_STALE] * (self.minutes - len(values))]) for name, values in self._values.items()
        }


def _read_by_alerts() -> set[str]:
    recorded = {rule.name: rule for rule in recordings()}
    names, ahead = set[str](), [rule.expression for rule in alerts()]
    while ahead:
        new = {*_NAME.findall(ahead.pop())} - names
        names |= new
        ahead += [recorded[name].expression for name in new & recorded.keys()]
    return names


def _series(name: str, labels: Mapping[str, str]) -> str:
    return _written(name, tuple(labels.items()))


@lru_cache(100_000)
def _written(name: str, labels: tuple[tuple[str, str], ...]) -> str:
    return name + "{" + ",".join(f'{label}="{value}"' for label, value in sorted(labels)) + "}"


def notation(values: list[float | None]) -> str:
    """Values of a series, one a minute, None where it has none.

    >>> notation([None, 1, 1, 1, 2, None])
    '_x1 1x2 2 stale'

    >>> notation([None, None, None, 1, None, None, None, None, 1])
    '_x3 1 stale _x3 1'
    """
    parts: list[str] = []
    begun = False
    for value, run in groupby(values):
        count = len(list(run))
        if value is None:
            # The first scrape without a series that had been there marks its end.
            parts += (["stale"] if begun else []) + ([f"_x{count - begun}"] if count > begun else [])
            continue
        begun = True
        number = repr(value).removesuffix(".0")
        parts.append(number if count == 1 else f"{number}x{count - 1}")
    return " ".join(parts)
