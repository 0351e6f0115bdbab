"""What is made of JobSets, and out of which API, as Prometheus metrics."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge

from gangctl.controllers.translations import FieldClass, Result, TranslationObserver
from gangctl.controllers.writer import scheduling_resources
from gangctl.gang.build import ADAPTERS
from gangctl.gang.diff import Kind
from gangctl.gang.generation import ApiState
from gangctl.gang.report import Level


class GangMetrics(TranslationObserver):
    """The collectors, in one registry; told by the gang controller, and of what discovery found."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register every family at once."""
        self._translations = Counter(
            "gangctl_translations",
            "Looks at what a JobSet should have, by level (JobSet, ReplicatedJob, Replica, Mixed) and result: "
            "unchanged, created, recreated (something had gone), prepared (groups of the next attempt), patched, "
            "deleted, rejected (a name belongs to another owner), failed.",
            ["level", "result"],
            registry=registry,
        )
        self._repairs = Counter(
            "gangctl_drift_repairs",
            "Objects that were not any more as they should be and were repaired, by kind (Workload, PodGroup) and by "
            "what was wrong: existence (it had gone), min_count (edited, or the JobSet was resized), templates, "
            "surplus (nobody needs it).",
            ["kind", "field_class"],
            registry=registry,
        )
        self._support = Gauge(
            "gangctl_api_support_info",
            "Resources of scheduling.k8s.io that gangs are made of, always 1, and the field of pods that names their "
            "group. Nothing where no gang can be made.",
            ["resource", "version", "link_field"],
            registry=registry,
        )

    def translated(self, level: Level, result: Result) -> None:
        """Count one look."""
        self._translations.labels(level, result).inc()

    def repaired(self, kind: Kind, field_class: FieldClass) -> None:
        """Count one object."""
        self._repairs.labels(kind, field_class).inc()

    def found(self, state: ApiState) -> None:
        """Tell which generation can be relied on."""
        self._support.clear()
        if state.generation is None:
            return
        field = ADAPTERS[state.generation].reference_field
        for resource in scheduling_resources(state.generation).values():
            self._support.labels(resource.plural, resource.version, field).set(1)
