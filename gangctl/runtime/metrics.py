"""Prometheus metrics of the client and the runtime, by the names of client-go and controller-runtime.

Labels hold verbs, resources, controllers and classes of errors: all of them few. Names of objects never become labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from prometheus_client import CollectorRegistry, Metric

from gangctl.client.pacing import Clock
from gangctl.client.resources import Resource
from gangctl.runtime.controller import ControllerObserver, WorkQueue
from gangctl.runtime.election import ShardElection
from gangctl.runtime.events import RESULTS as EVENT_RESULTS
from gangctl.runtime.families import Family, Scraped
from gangctl.runtime.informer import Informer, InformerObserver

# Up to the default time of a call (TransportOptions).
_REQUEST_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
# Up to the deadline of a reconcile (ControllerOptions).
_WORK_SECONDS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)

_LEADER: Final = Family(
    "gangctl_leader_election_master_status", "gauge", "Whether this replica leads, with shards any of them: 1 or 0."
)
_SHARDS: Final = Family(
    "gangctl_shard_leader_election_master_status",
    "gauge",
    "Whether this replica leads a shard: 1 or 0. There is shard 0 alone unless gangctl runs with --shards.",
    ("shard",),
)
_DEPTH: Final = Family(
    "gangctl_workqueue_depth",
    "gauge",
    "Current number of keys in the work queue. A replica that does not lead has none.",
    ("name",),
)
_UNFINISHED: Final = Family(
    "gangctl_workqueue_unfinished_work_seconds",
    "gauge",
    "Seconds of processing of the keys that are being processed, in total.",
    ("name",),
)
_LONGEST: Final = Family(
    "gangctl_workqueue_longest_running_processor_seconds",
    "gauge",
    "Seconds of processing of the key that has been processed for longest.",
    ("name",),
)
_SYNCED: Final = Family(
    "gangctl_informer_synced", "gauge", "Whether the store of a running informer has synced: 1 or 0.", ("resource",)
)
_OBJECTS: Final = Family("gangctl_informer_objects", "gauge", "Objects in the informer's store.", ("resource",))
_CONTACT: Final = Family(
    "gangctl_informer_last_contact_timestamp_seconds",
    "gauge",
    "Time of a running informer's last response or watch event from the API server (Unix time, 0: never).",
    ("resource",),
)
_REQUESTS: Final = Family(
    "gangctl_rest_client_requests_total",
    "counter",
    "Requests to the API server by verb, resource and HTTP status code (none: no response).",
    ("verb", "resource", "code"),
)
_REQUEST_DURATION: Final = Family(
    "gangctl_rest_client_request_duration_seconds",
    "histogram",
    "Seconds from a request to the API server to the beginning of its response.",
    ("verb", "resource"),
    _REQUEST_SECONDS,
)
_EVENTS: Final = Family(
    "gangctl_events_total",
    "counter",
    "Events by result: created, existing, dropped (queue full), refused, unwelcome (no namespace).",
    ("result",),
)
_ADDS: Final = Family("gangctl_workqueue_adds_total", "counter", "Adds to the work queue.", ("name",))
_RETRIES: Final = Family(
    "gangctl_workqueue_retries_total", "counter", "Keys that were queued again after a failed reconcile.", ("name",)
)
_WAITS: Final = Family(
    "gangctl_workqueue_queue_duration_seconds",
    "histogram",
    "Seconds for which a key stayed in the work queue before it was processed.",
    ("name",),
    _WORK_SECONDS,
)
_WORK: Final = Family(
    "gangctl_workqueue_work_duration_seconds",
    "histogram",
    "Seconds for which a key of the work queue was processed.",
    ("name",),
    _WORK_SECONDS,
)
_RECONCILES: Final = Family(
    "gangctl_reconcile_total",
    "counter",
    "Reconciles by result: done, requeued (fixed delay), retried (exponential backoff), failed (not retried).",
    ("controller", "result"),
)
_RECONCILE_DURATION: Final = Family(
    "gangctl_reconcile_duration_seconds",
    "histogram",
    "Duration of a reconcile in seconds.",
    ("controller",),
    _WORK_SECONDS,
)
_RECONCILE_ERRORS: Final = Family(
    "gangctl_reconcile_errors_total",
    "counter",
    "Failed reconciles by class of error; panic is an unexpected error, deadline a reconcile that timed out.",
    ("controller", "error_class"),
)
_WATCH_RESTARTS: Final = Family(
    "gangctl_watch_restarts_total",
    "counter",
    "Watches that were started again, by reason: ended, gone (resourceVersion too old), absent (no such resource), or "
    "the class of the error.",
    ("resource", "reason"),
)
_INFORMER_ERRORS: Final = Family(
    "gangctl_informer_errors_total",
    "counter",
    "Errors of gangctl while it processed one object of a watch, by place: project or handler.",
    ("resource", "place"),
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
        self._requests = _REQUESTS.counter(registry)
        self._request_seconds = _REQUEST_DURATION.histogram(registry)
        self._events = _EVENTS.counter(registry)
        # Start at 0, so that the first loss is an increase, too.
        for result in EVENT_RESULTS:
            self._events.labels(result)
        self.adds = _ADDS.counter(registry)
        self.retries = _RETRIES.counter(registry)
        self.waits = _WAITS.histogram(registry)
        self.work = _WORK.histogram(registry)
        self.reconciles = _RECONCILES.counter(registry)
        self.reconcile_seconds = _RECONCILE_DURATION.histogram(registry)
        self.errors = _RECONCILE_ERRORS.counter(registry)
        self.restarts = _WATCH_RESTARTS.counter(registry)
        self.broken = _INFORMER_ERRORS.counter(registry)
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
        """Export the size of an informer, and while it runs whether it is synced, and its last contact with the server.

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
        yield _OBJECTS.metric([(resource, len(informer.store)) for resource, informer in informers])
        # A standby runs none of the leader's informers, and most clusters lack some resource: neither is out of sync.
        following = [(resource, informer) for resource, informer in informers if informer.following]
        yield _SYNCED.metric([(resource, informer.synced.is_set()) for resource, informer in following])
        ages = [(resource, informer.contact_age()) for resource, informer in following]
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
