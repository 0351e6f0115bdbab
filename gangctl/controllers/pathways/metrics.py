"""States of PathwaysJobs, and whether gangctl leaves them to the upstream controller, as Prometheus metrics."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Gauge

from gangctl.pathways.status.facts import PathwaysFacts
from gangctl.runtime.metrics import PlacedGauge

MOST_NAMESPACES: Final = 200
"""Namespaces with labels of their own; the rest is counted together."""
NEW: Final = "new"
"""The phase of those without a recorded status."""


class PathwaysMetrics:
    """The collectors, in one registry; the controller of PathwaysJobs updates them."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register every family at once."""
        jobs = Gauge(
            "gangctl_pathways_jobs",
            "PathwaysJobs by what their status says: pending, running, suspended, completed, failed, or new where it "
            "says nothing yet. The leader counts.",
            ["namespace", "phase"],
            registry=registry,
        )
        self._deferring = Gauge(
            "gangctl_pathways_standing_down",
            "Whether the upstream controller of PathwaysJobs holds its Lease, so that they are left to it, 1 or 0.",
            registry=registry,
        )
        self._jobs = PlacedGauge(jobs, MOST_NAMESPACES)

    def on_status_change(self, before: PathwaysFacts | None, now: PathwaysFacts | None) -> None:
        """Count a PathwaysJob as it is stored: None before it was known, and after it is gone."""
        for job, step in ((before, -1), (now, 1)):
            if job is not None:
                phase = job.status.phase
                self._jobs.add((job.namespace,), NEW if phase is None else phase.value.lower(), step=step)

    def set_deferring(self, *, deferring: bool) -> None:
        """Record whether the upstream controller leads."""
        self._deferring.set(deferring)

    def forget(self) -> None:
        """End every series: this replica no longer counts."""
        self._jobs.clear()
        self._deferring.set(0)
