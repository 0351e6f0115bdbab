"""Metric families as data: what a registry can export, without any value.

``prometheus_client`` does not expose which labels a family has before its first value; :class:`Catalogue` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, cast

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

Type = Literal["counter", "gauge", "histogram"]
Row = tuple[Sequence[str], float]

_UNITS: Final = ("seconds", "bytes")


@dataclass(frozen=True, slots=True)
class Family:
    """One family. Counters are named like their samples, with ``_total``."""

    name: str
    type: Type
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = field(default=(), compare=False)
    """Upper bounds of a histogram, the infinite one included; empty where they are not known."""

    @property
    def unit(self) -> str:
        """Its base unit, derived from the name; empty for plain numbers and for timestamps."""
        return next((unit for unit in _UNITS if self.stem.endswith(f"_{unit}")), "")

    @property
    def series(self) -> tuple[str, ...]:
        """Names of its series, as in queries."""
        if self.type == "histogram":
            return f"{self.name}_bucket", f"{self.name}_sum", f"{self.name}_count"
        return (self.name,)

    def metric(self, rows: Callable[[], Iterable[Row]] = tuple) -> Deferred:
        """The family as a metric of its type, with a sample for each of ``rows``.

        Label values in order, and the number.
        """
        return Deferred(self, rows)

    @property
    def stem(self) -> str:
        """Its name without the suffixes that Prometheus adds."""
        return self.name.removesuffix("_total")


class Deferred(Metric):
    """A family of gauges or counters whose samples are made when they are read.

    A registry is collected in the event loop and formatted in a thread, which does not block the loop.
    """

    def __init__(self, family: Family, rows: Callable[[], Iterable[Row]]) -> None:
        """``rows`` is called once, in any thread: the data that it reads must not change any more."""
        self.family = family
        self._samples: list[Sample] | None = None
        self._rows = rows
        super().__init__(family.stem, family.help, family.type, family.unit)

    @property
    def samples(self) -> list[Sample]:
        """One of each row."""
        if self._samples is None:
            labels, name = self.family.labels, self.family.name
            self._samples = [Sample(name, dict(zip(labels, row, strict=True)), value) for row, value in self._rows()]
        return self._samples

    @samples.setter
    def samples(self, samples: list[Sample]) -> None:
        # The empty list that every family begins with.
        self._samples = samples or None


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
