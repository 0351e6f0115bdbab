"""Metric families as data, and how their label values are bounded.

A family is written down once, with its labels and help, and becomes a collector of ``prometheus_client`` in a registry.
"""

from __future__ import annotations

from collections import Counter as Total
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, Literal, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, disable_created_metrics
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
        """Its base unit, derived from the name; empty for plain numbers."""
        return next((unit for unit in _UNITS if self.stem.endswith(f"_{unit}")), "")

    @property
    def series(self) -> tuple[str, ...]:
        """Names of its series, as in queries."""
        if self.type == "histogram":
            return f"{self.name}_bucket", f"{self.name}_sum", f"{self.name}_count"
        return (self.name,)

    def counter(self, registry: CollectorRegistry) -> Counter:
        """A counter of this family that is updated where something happens."""
        return Counter(self.name, self.help, self.labels, unit=self.unit, registry=registry)

    def gauge(self, registry: CollectorRegistry) -> Gauge:
        """A gauge of this family, in the same way."""
        return Gauge(self.name, self.help, self.labels, registry=registry)

    def histogram(self, registry: CollectorRegistry) -> Histogram:
        """A histogram of this family, in the same way; it must have :attr:`buckets`."""
        buckets = self.buckets or Histogram.DEFAULT_BUCKETS
        return Histogram(self.name, self.help, self.labels, unit=self.unit, buckets=buckets, registry=registry)

    def metric(self, rows: Iterable[Row] = ()) -> Deferred:
        """The family as a metric of its type, with a sample for each of ``rows``: label values in order, the number."""
        return Deferred(self, rows)

    @property
    def stem(self) -> str:
        """Its name without the suffixes that Prometheus adds."""
        return self.name.removesuffix("_total")


class Deferred(Metric):
    """A family of gauges or counters whose samples are made when they are read.

    A registry is collected in the event loop and formatted in a thread, which does not block the loop.
    """

    def __init__(self, family: Family, rows: Iterable[Row]) -> None:
        """``rows`` is read once, in any thread: what an iterator reads must not change any more."""
        self.family = family
        self._samples: list[Sample] | None = None
        self._rows = rows
        super().__init__(family.stem, family.help, family.type, family.unit)

    @property
    def samples(self) -> list[Sample]:
        """One of each row."""
        if self._samples is None:
            labels, name = self.family.labels, self.family.name
            self._samples = [Sample(name, dict(zip(labels, row, strict=True)), value) for row, value in self._rows]
        return self._samples

    @samples.setter
    def samples(self, samples: list[Sample]) -> None:
        # The empty list that every family begins with.
        self._samples = samples or None


class Scraped(Collector):
    """Families whose samples are computed at each scrape, from what the process holds anyway."""

    def __init__(
        self, registry: CollectorRegistry, families: Iterable[Family], collect: Callable[[], Iterable[Metric]]
    ) -> None:
        """``collect`` is called in the event loop, and returns these families with their rows."""
        self._families = families
        self._collect = collect
        registry.register(self)

    def describe(self) -> Iterable[Metric]:
        """Every possible family."""
        return [family.metric() for family in self._families]

    def collect(self) -> Iterable[Metric]:
        """The current values."""
        return self._collect()


Labels = tuple[str, ...]

OTHERS: Final = "(others)"


def new_registry() -> CollectorRegistry:
    """An empty registry. From now on no family of this process has ``_created`` series, in any format.

    They would double the series of every counter, and Prometheus itself finds out when a counter starts again.
    """
    disable_created_metrics()  # type: ignore[no-untyped-call]
    return CollectorRegistry()


H = TypeVar("H", bound=Hashable)


class FirstCome(Generic[H]):
    """Label values with series of their own: the first ones, permanently, as counters never decrease."""

    def __init__(self, most: int) -> None:
        """At most ``most`` of them; the rest is to be counted as :data:`OTHERS`."""
        self._most = most
        self._known: set[H] = set()

    def has_place(self, values: H) -> bool:
        """Whether these values have series of their own, from now on."""
        if values not in self._known and len(self._known) < self._most:
            self._known.add(values)
        return values in self._known


class PlacedGauge:
    """Counts objects by place; there may be any number of places, such as queues or namespaces.

    The first ``most`` places have labels of their own while they have objects; the rest is counted together, as
    :data:`OTHERS`. A freed place goes to the one that has waited longest.
    """

    def __init__(self, registry: CollectorRegistry, family: Family, most: int) -> None:
        """The labels of ``family`` are a place, followed by one more."""
        self._family = family
        self._most = most
        self._counts: dict[Labels, Total[str]] = {}
        Scraped(registry, [family], self._scraped)

    def add(self, place: Labels, more: str, *, step: int = 1) -> None:
        """Count one object; one less with a ``step`` of -1."""
        counts = self._counts.setdefault(place, Total())
        counts[more] += step
        if not counts[more]:
            del counts[more]
        if not counts:
            del self._counts[place]

    def clear(self) -> None:
        """End every series."""
        self._counts.clear()

    def _scraped(self) -> Iterable[Metric]:
        shown: Total[Labels] = Total()
        for number, (place, counts) in enumerate(self._counts.items()):
            labels = place if number < self._most else (OTHERS,) * len(place)
            for more, count in counts.items():
                shown[*labels, more] += count
        return [self._family.metric(shown.items())]
