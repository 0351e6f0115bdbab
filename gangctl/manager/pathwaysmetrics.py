"""Where PathwaysJobs stand, and whether they are left to the upstream controller, as Prometheus metrics."""

from __future__ import annotations

from collections import Counter
from typing import Final

from prometheus_client import CollectorRegistry, Gauge

from gangctl.controllers.pathways.observer import PathwaysObserver
from gangctl.pathways.status.facts import PathwaysFacts

MOST_NAMESPACES: Final = 200
"""Namespaces with labels of their own; the rest is counted together."""
OTHERS: Final = "(others)"
NEW: Final = "new"
"""The phase of those of which nothing has been said yet."""


class PathwaysMetrics(PathwaysObserver):
    """The collectors, in one registry; told by the controller of PathwaysJobs."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register every family at once."""
        self._jobs = Gauge(
            "gangctl_pathways_jobs",
            "PathwaysJobs by what their status says: pending, running, suspended, completed, failed, or new where it "
            "says nothing yet. The leader counts.",
            ["namespace", "phase"],
            registry=registry,
        )
        self._standing_down = Gauge(
            "gangctl_pathways_standing_down",
            "Whether the upstream controller of PathwaysJobs holds its Lease, so that they are left to it, 1 or 0.",
            registry=registry,
        )
        self._namespaces: Counter[str] = Counter()
        """How many there are in each namespace that has labels of its own."""
        self._shown: Counter[tuple[str, str]] = Counter()
        self._label: dict[tuple[str, str], str] = {}
        """What each is counted under, by namespace and name."""

    def stands(self, before: PathwaysFacts | None, now: PathwaysFacts | None) -> None:
        """Count one elsewhere."""
        if before is not None:
            self._leave(before)
        if now is not None:
            self._enter(now)

    def _enter(self, job: PathwaysFacts) -> None:
        label = job.namespace
        if label not in self._namespaces and len(self._namespaces) >= MOST_NAMESPACES:
            label = OTHERS
        else:
            self._namespaces[label] += 1
        self._label[job.key] = label
        self._add(label, job, 1)

    def _leave(self, job: PathwaysFacts) -> None:
        label = self._label.pop(job.key)
        self._add(label, job, -1)
        if label != OTHERS:
            self._namespaces[label] -= 1
            if not self._namespaces[label]:
                del self._namespaces[label]

    def stood_down(self, *, down: bool) -> None:
        """Tell whether the upstream controller leads."""
        self._standing_down.set(down)

    def forget(self) -> None:
        """End every series: this replica does not count any more."""
        self._jobs.clear()
        self._standing_down.set(0)
        for each in (self._namespaces, self._shown, self._label):
            each.clear()

    def _add(self, namespace: str, job: PathwaysFacts, step: int) -> None:
        phase = job.status.phase
        labels = namespace, NEW if phase is None else phase.value.lower()
        self._shown[labels] += step
        if self._shown[labels]:
            self._jobs.labels(*labels).set(self._shown[labels])
        else:
            del self._shown[labels]
            self._jobs.remove(*labels)
