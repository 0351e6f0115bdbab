"""Metric families as data: what a registry can have to tell, without any value.

``prometheus_client`` does not say which labels a family has before it has its first value; :class:`Catalogue` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, cast

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

Type = Literal["counter", "gauge", "histogram"]

_UNITS: Final = ("seconds", "bytes")


@dataclass(frozen=True, slots=True)
class Family:
    """One family. Counters are named as their samples are, with ``_total``."""

    name: str
    type: Type
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = field(default=(), compare=False)
    """Upper bounds of a histogram, the infinite one included; empty where they are not known."""

    @property
    def unit(self) -> str:
        """Its base unit, by the name; empty for plain numbers and for points in time."""
        return next((unit for unit in _UNITS if self._stem.endswith(f"_{unit}")), "")

    @property
    def series(self) -> tuple[str, ...]:
        """Names of its series, as queries have them."""
        if self.type == "histogram":
            return f"{self.name}_bucket", f"{self.name}_sum", f"{self.name}_count"
        return (self.name,)

    def gauge(self) -> GaugeMetricFamily:
        """An empty gauge to fill."""
        return GaugeMetricFamily(self.name, self.help, labels=self.labels, unit=self.unit)

    def counter(self) -> CounterMetricFamily:
        """An empty counter to fill."""
        return CounterMetricFamily(self._stem, self.help, labels=self.labels, unit=self.unit)

    def histogram(self) -> HistogramMetricFamily:
        """An empty histogram to fill."""
        return HistogramMetricFamily(self.name, self.help, labels=self.labels, unit=self.unit)

    def metric(self) -> Metric:
        """It, of its type, without samples."""
        return {"gauge": self.gauge, "counter": self.counter, "histogram": self.histogram}[self.type]()

    @property
    def _stem(self) -> str:
        return self.name.removesuffix("_total")


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
        # Neither kind says it in public; a family of a collector of its own carries them itself.
        owner = collector if hasattr(collector, "_labelnames") else metric
        labels: Sequence[str] = getattr(owner, "_labelnames", ())
        name = f"{metric.name}_total" if metric.type == "counter" else metric.name
        buckets: Sequence[float] = getattr(collector, "_upper_bounds", ())
        yield Family(name, cast("Type", metric.type), metric.documentation, tuple(labels), tuple(buckets))
