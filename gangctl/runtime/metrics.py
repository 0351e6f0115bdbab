"""Prometheus metrics of the client and the runtime, and metric families as data.

Labels hold verbs, resources, controllers and classes of errors: all of them few. Names of objects never become labels.
"""

from __future__ import annotations

from collections import Counter as Total
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from prometheus_client import CollectorRegistry, Counter, Histogram, Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from gangctl.client.pacing import Clock
from gangctl.client.resources import Resource
from gangctl.runtime.controller import ControllerObserver, WorkQueue
from gangctl.runtime.election import ShardElection
from gangctl.runtime.events import RESULTS as EVENT_RESULTS
from gangctl.runtime.informer import Informer, InformerObserver

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

_REQUEST_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_WORK_SECONDS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)

_LEADER: Final = Family("gangctl_leader", "gauge", "Whether this replica leads, with shards any of them: 1 or 0.")
_SHARDS: Final = Family(
    "gangctl_shard_leader",
    "gauge",
    "Whether this replica leads a shard: 1 or 0. There is shard 0 alone unless gangctl runs with --shards.",
    ("shard",),
)
_DEPTH: Final = Family(
    "gangctl_workqueue_depth", "gauge", "Keys in line. A replica that does not lead has none.", ("name",)
)
_UNFINISHED: Final = Family(
    "gangctl_workqueue_unfinished_work_seconds",
    "gauge",
    "Seconds that keys which are processed now have taken so far, together.",
    ("name",),
)
_LONGEST: Final = Family(
    "gangctl_workqueue_longest_running_processor_seconds",
    "gauge",
    "Seconds that the key which is processed for longest has taken so far.",
    ("name",),
)
_SYNCED: Final = Family(
    "gangctl_informer_synced", "gauge", "Whether the cache holds a complete list: 1 or 0.", ("resource",)
)
_OBJECTS: Final = Family("gangctl_informer_objects", "gauge", "Objects in the cache.", ("resource",))
_CONTACT: Final = Family(
    "gangctl_informer_last_contact_timestamp_seconds",
    "gauge",
    "When the server last answered or sent an event (Unix time, 0: never).",
    ("resource",),
)
_SCRAPED: Final = (_LEADER, _SHARDS, _DEPTH, _UNFINISHED, _LONGEST, _SYNCED, _OBJECTS, _CONTACT)


class RuntimeMetrics:
    """The collectors, in one registry; its methods and observers are hooks of the observed parts."""

    def __init__(self, registry: CollectorRegistry, *, clock: Clock | None = None) -> None:
        """Register every family at once, so that each is described before it has a value."""
        self.registry = registry
        self._clock = clock or Clock()
        self._queues: dict[str, WorkQueue[Any]] = {}
        self._informers: dict[str, Informer[Any]] = {}
        self._leads: Callable[[], list[bool]] = list
        """Whether this replica leads, by shard."""
        self._requests = Counter(
            "gangctl_kube_requests",
            "Requests to the API server by verb, resource and HTTP status code (none: no answer).",
            ["verb", "resource", "code"],
            registry=registry,
        )
        self._request_seconds = Histogram(
            "gangctl_kube_request_duration_seconds",
            "Seconds until an answer of the API server began.",
            ["verb", "resource"],
            buckets=_REQUEST_SECONDS,
            registry=registry,
        )
        self._events = Counter(
            "gangctl_events",
            "Events by result: created, existing, dropped (queue full), refused, unwelcome (no namespace).",
            ["result"],
            registry=registry,
        )
        # Start at 0, so that the first loss is an increase, too.
        for result in EVENT_RESULTS:
            self._events.labels(result)
        self.adds = Counter("gangctl_workqueue_adds", "Keys that came into line.", ["name"], registry=registry)
        self.retries = Counter(
            "gangctl_workqueue_retries", "Keys that failed and come again.", ["name"], registry=registry
        )
        self.waits = Histogram(
            "gangctl_workqueue_queue_duration_seconds",
            "Seconds a key waited in line.",
            ["name"],
            buckets=_WORK_SECONDS,
            registry=registry,
        )
        self.work = Histogram(
            "gangctl_workqueue_work_duration_seconds",
            "Seconds that processing a key took.",
            ["name"],
            buckets=_WORK_SECONDS,
            registry=registry,
        )
        self.reconciles = Counter(
            "gangctl_reconcile",
            "Reconciles by result: done, requeued (fixed delay), retried (growing delay), failed (for good).",
            ["controller", "result"],
            registry=registry,
        )
        self.reconcile_seconds = Histogram(
            "gangctl_reconcile_duration_seconds",
            "Seconds one reconcile took.",
            ["controller"],
            buckets=_WORK_SECONDS,
            registry=registry,
        )
        self.errors = Counter(
            "gangctl_reconcile_errors",
            "Failed reconciles by class of error; panic is an unexpected error, deadline one that took too long.",
            ["controller", "error_class"],
            registry=registry,
        )
        self.restarts = Counter(
            "gangctl_watch_restarts",
            "Watches opened anew by reason: ended, gone (version too old), absent (no such resource), class of error.",
            ["resource", "reason"],
            registry=registry,
        )
        self.broken = Counter(
            "gangctl_informer_errors",
            "Errors of our own on one object by place: project or handler.",
            ["resource", "place"],
            registry=registry,
        )
        Scraped(registry, _SCRAPED, self._scraped)

    def on_request(self, verb: str, resource: str, status: int, seconds: float) -> None:
        """Count one request: the hook of a transport."""
        self._requests.labels(verb, resource, str(status) if status else "none").inc()
        self._request_seconds.labels(verb, resource).observe(seconds)

    def controller_observer(self, name: str) -> ControllerObserver:
        """Return the observer of the controller called ``name``, and of its queue."""
        return _ControllerMetrics(self, name)

    def informer_observer(self, resource: Resource) -> InformerObserver:
        """Return the observer of the informer of ``resource``."""
        return _InformerMetrics(self, resource.qualified_name)

    def event_recorded(self, result: str) -> None:
        """Count one event by its result: the hook of an event recorder."""
        self._events.labels(result).inc()

    def track_queue(self, name: str, queue: WorkQueue[Any]) -> None:
        """Export how many keys wait, and how long those that are processed have taken."""
        self._queues[name] = queue

    def track_informers(self, *informers: Informer[Any]) -> None:
        """Export whether an informer is synced, its size and its last contact with the server.

        A later informer of the same resource replaces an earlier one.
        """
        self._informers |= {informer.resource.qualified_name: informer for informer in informers}

    def track_election(self, election: ShardElection | None) -> None:
        """Export whether this replica leads, and which shard: always, and all, without an election."""
        if election is None:
            self._leads = lambda: [True]
        else:
            self._leads = lambda: [election.leads(number) for number in range(election.total)]

    def _scraped(self) -> Iterable[Metric]:
        leads, wall = self._leads(), self._clock.wall().timestamp()
        yield _LEADER.metric([((), any(leads))])
        yield _SHARDS.metric([((str(number),), leading) for number, leading in enumerate(leads)])
        queues = [((name,), queue, queue.working()) for name, queue in self._queues.items()]
        yield _DEPTH.metric([(name, len(queue)) for name, queue, _ in queues])
        yield _UNFINISHED.metric([(name, sum(seconds)) for name, _, seconds in queues])
        yield _LONGEST.metric([(name, max(seconds, default=0)) for name, _, seconds in queues])
        informers = [((resource,), informer) for resource, informer in self._informers.items()]
        yield _SYNCED.metric([(resource, informer.synced.is_set()) for resource, informer in informers])
        yield _OBJECTS.metric([(resource, len(informer.store)) for resource, informer in informers])
        ages = [(resource, informer.contact_age()) for resource, informer in informers]
        yield _CONTACT.metric([(resource, 0 if age is None else wall - age) for resource, age in ages])


class _ControllerMetrics(ControllerObserver):
    def __init__(self, metrics: RuntimeMetrics, name: str) -> None:
        self._metrics = metrics
        self._name = name
        self._adds = metrics.adds.labels(name)
        self._retries = metrics.retries.labels(name)
        self._waits = metrics.waits.labels(name)
        self._work = metrics.work.labels(name)
        self._seconds = metrics.reconcile_seconds.labels(name)

    def made(self, queue: WorkQueue[Any]) -> None:
        self._metrics.track_queue(self._name, queue)

    def added(self) -> None:
        self._adds.inc()

    def taken(self, waited_seconds: float) -> None:
        self._waits.observe(waited_seconds)

    def retried(self) -> None:
        self._retries.inc()

    def finished(self, worked_seconds: float) -> None:
        self._work.observe(worked_seconds)

    def reconciled(self, result: str, seconds: float) -> None:
        self._metrics.reconciles.labels(self._name, result).inc()
        self._seconds.observe(seconds)

    def failed(self, kind: str) -> None:
        self._metrics.errors.labels(self._name, kind).inc()


class _InformerMetrics(InformerObserver):
    def __init__(self, metrics: RuntimeMetrics, resource: str) -> None:
        self._metrics = metrics
        self._resource = resource

    def restarted(self, reason: str) -> None:
        self._metrics.restarts.labels(self._resource, reason).inc()

    def broken(self, what: str) -> None:
        self._metrics.broken.labels(self._resource, what).inc()


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
