"""Prometheus metrics of the client and the runtime, and metric families as data.

Labels hold verbs, resources, controllers and classes of errors: all of them few. Names of objects never become labels.
"""

from __future__ import annotations

from collections import Counter as Total
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric
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


Labels = tuple[str, ...]

OTHERS: Final = "(others)"

_REQUEST_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_WORK_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)


class RuntimeMetrics:
    """The collectors, in one registry; its methods and observers are hooks of the observed parts."""

    def __init__(self, registry: CollectorRegistry, *, clock: Clock | None = None) -> None:
        """Register every family at once, so that each is described before it has a value."""
        self._clock = clock or Clock()
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
        self._controllers = _ControllerFamilies(registry)
        self._informers = _InformerFamilies(registry)
        self._leader = Gauge(
            "gangctl_leader", "Whether this replica leads, with shards any of them: 1 or 0.", registry=registry
        )
        self._shards = Gauge(
            "gangctl_shard_leader",
            "Whether this replica leads a shard: 1 or 0. There is shard 0 alone unless gangctl runs with --shards.",
            ["shard"],
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

    def on_request(self, verb: str, resource: str, status: int, seconds: float) -> None:
        """Count one request: the hook of a transport."""
        self._requests.labels(verb, resource, str(status) if status else "none").inc()
        self._request_seconds.labels(verb, resource).observe(seconds)

    def controller_observer(self, name: str) -> ControllerObserver:
        """Return the observer of the controller called ``name``, and of its queue."""
        return _ControllerMetrics(self._controllers, name)

    def informer_observer(self, resource: Resource) -> InformerObserver:
        """Return the observer of the informer of ``resource``."""
        return _InformerMetrics(self._informers, resource.qualified_name)

    def event_recorded(self, result: str) -> None:
        """Count one event by its result: the hook of an event recorder."""
        self._events.labels(result).inc()

    def track_informer(self, informer: Informer[Any]) -> None:
        """Export whether an informer is synced, its size and its last contact with the server.

        A later informer of the same resource replaces an earlier one.
        """
        resource = informer.resource.qualified_name
        self._informers.synced.labels(resource).set_function(lambda: float(informer.synced.is_set()))
        self._informers.objects.labels(resource).set_function(lambda: float(len(informer.store)))
        self._informers.contact.labels(resource).set_function(lambda: self._contact_timestamp(informer))

    def _contact_timestamp(self, informer: Informer[Any]) -> float:
        age = informer.contact_age()
        return 0.0 if age is None else self._clock.wall().timestamp() - age

    def track_election(self, election: ShardElection | None) -> None:
        """Export whether this replica leads, and which shard: always, and all, without an election."""
        self._leader.set_function(lambda: float(election is None or election.is_leader))
        for number in range(election.total if election is not None else 1):
            leads = partial(_leads, election, number)
            self._shards.labels(str(number)).set_function(leads)


def _leads(election: ShardElection | None, number: int) -> float:
    return float(election is None or election.leads(number))


class _ControllerFamilies:
    def __init__(self, registry: CollectorRegistry) -> None:
        self.depth = Gauge(
            "gangctl_workqueue_depth",
            "Keys in line. A replica that does not lead has none.",
            ["name"],
            registry=registry,
        )
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
        self.unfinished = Gauge(
            "gangctl_workqueue_unfinished_work_seconds",
            "Seconds that keys which are processed now have taken so far, together.",
            ["name"],
            registry=registry,
        )
        self.longest = Gauge(
            "gangctl_workqueue_longest_running_processor_seconds",
            "Seconds that the key which is processed for longest has taken so far.",
            ["name"],
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


class _ControllerMetrics(ControllerObserver):
    def __init__(self, families: _ControllerFamilies, name: str) -> None:
        self._depth = families.depth.labels(name)
        self._adds = families.adds.labels(name)
        self._retries = families.retries.labels(name)
        self._waits = families.waits.labels(name)
        self._work = families.work.labels(name)
        self._unfinished = families.unfinished.labels(name)
        self._longest = families.longest.labels(name)
        self._reconciles = families.reconciles
        self._seconds = families.reconcile_seconds.labels(name)
        self._errors = families.errors
        self._name = name

    def made(self, queue: WorkQueue[Any]) -> None:
        self._unfinished.set_function(lambda: sum(queue.working()))
        self._longest.set_function(lambda: max(queue.working(), default=0))

    def added(self, depth: int) -> None:
        self._adds.inc()
        self._depth.set(depth)

    def taken(self, depth: int, waited_seconds: float) -> None:
        self._depth.set(depth)
        self._waits.observe(waited_seconds)

    def retried(self) -> None:
        self._retries.inc()

    def finished(self, worked_seconds: float) -> None:
        self._work.observe(worked_seconds)

    def dropped(self) -> None:
        self._depth.set(0)

    def reconciled(self, result: str, seconds: float) -> None:
        self._reconciles.labels(self._name, result).inc()
        self._seconds.observe(seconds)

    def failed(self, kind: str) -> None:
        self._errors.labels(self._name, kind).inc()


class _InformerFamilies:
    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ["resource"]
        self.synced = Gauge(
            "gangctl_informer_synced", "Whether the cache holds a complete list: 1 or 0.", labels, registry=registry
        )
        self.objects = Gauge("gangctl_informer_objects", "Objects in the cache.", labels, registry=registry)
        self.contact = Gauge(
            "gangctl_informer_last_contact_timestamp_seconds",
            "When the server last answered or sent an event (Unix time, 0: never).",
            labels,
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


class _InformerMetrics(InformerObserver):
    def __init__(self, families: _InformerFamilies, resource: str) -> None:
        self._families = families
        self._resource = resource

    def restarted(self, reason: str) -> None:
        self._families.restarts.labels(self._resource, reason).inc()

    def broken(self, what: str) -> None:
        self._families.broken.labels(self._resource, what).inc()


class PlacedGauge:
    """Counts objects by place; there may be any number of places, such as queues or namespaces.

    Beyond ``most`` places the rest is counted together, as :data:`OTHERS`; a place counted there stays there until it
    is empty.
    """

    def __init__(self, gauge: Gauge, most: int) -> None:
        """The labels of ``gauge`` are a place, followed by the further labels."""
        self._gauge = gauge
        self._most = most
        self._own: Total[Labels] = Total()
        """Counts of the places with labels of their own."""
        self._others: Total[Labels] = Total()
        self._shown: Total[Labels] = Total()

    def add(self, place: Labels, *more: str, step: int = 1) -> None:
        """Count one object; one less with a ``step`` of -1."""
        own = place in self._own or (place not in self._others and len(self._own) < self._most)
        _count(self._own if own else self._others, place, step)
        labels = (*(place if own else (OTHERS,) * len(place)), *more)
        _count(self._shown, labels, step)
        if labels in self._shown:
            self._gauge.labels(*labels).set(self._shown[labels])
        else:
            self._gauge.remove(*labels)

    def clear(self) -> None:
        """End every series."""
        self._gauge.clear()
        for each in (self._own, self._others, self._shown):
            each.clear()


def _count(total: Total[Labels], key: Labels, step: int) -> None:
    total[key] += step
    if not total[key]:
        del total[key]
