"""Every metric family that a ``gangctl controller`` can export, without running one.

Rules, dashboards and the page about metrics are checked against it. ``prometheus_client`` does not expose which labels
a family has before its first value; :class:`Catalogue` does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.registry import Collector

from gangctl.client.client import Client
from gangctl.client.transport import Transport
from gangctl.manager.metrics import register_process_metrics
from gangctl.manager.settings import load_settings
from gangctl.manager.wiring import Wiring
from gangctl.runtime.families import Deferred, Family, Type
from gangctl.runtime.manager import Manager
from gangctl.runtime.metrics import RuntimeMetrics
from tests.credentials import StaticCredentials

NOWHERE: Final = "http://127.0.0.1:1"
EVERYTHING: Final[Mapping[str, Any]] = {
    "kueue_check": True,
    "gang_objects": True,
    "evict_stranded": True,
    "pathways": True,
}
"""Flags that enable optional parts that have metrics."""


class Catalogue(CollectorRegistry):
    """A registry that knows which families are registered, in that order."""

    def __init__(self) -> None:
        """Start empty."""
        super().__init__()
        self._collectors: list[Collector] = []

    def register(self, collector: Collector) -> None:
        """Register as any registry does."""
        super().register(collector)
        self._collectors.append(collector)

    def families(self) -> tuple[Family, ...]:
        """All of them, with or without values."""
        return tuple(family for collector in self._collectors for family in _families(collector))


def _families(collector: Collector) -> Iterable[Family]:
    describe = getattr(collector, "describe", collector.collect)
    for metric in cast("Iterable[Metric]", describe()):
        if isinstance(metric, Deferred):
            yield metric.family
            continue
        # These attributes are private.
        labels: Sequence[str] = getattr(collector, "_labelnames", ())
        name = f"{metric.name}_total" if metric.type == "counter" else metric.name
        buckets: Sequence[float] = getattr(collector, "_upper_bounds", ())
        yield Family(name, cast("Type", metric.type), metric.documentation, tuple(labels), tuple(buckets))


def families() -> tuple[Family, ...]:
    """All of them, in the order of their names; must not be called in an event loop."""
    return asyncio.run(composed_families())


async def composed_families() -> tuple[Family, ...]:
    """All of them, within an event loop. Starts nothing and sends no request."""
    catalogue = Catalogue()
    settings = load_settings(EVERYTHING, None)
    register_process_metrics(catalogue, settings)
    client = Client(Transport(StaticCredentials(NOWHERE)))
    Wiring(Manager(client, client, metrics=RuntimeMetrics(catalogue), own_namespace="gangctl-system"), settings)
    known = {family.name: family for family in catalogue.families()}
    return tuple(known[name] for name in sorted(known))
