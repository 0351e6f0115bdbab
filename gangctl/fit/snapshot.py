"""The cluster as a fit sees it, in plain collections: filled from lists at once, or kept current one change at a time.

It is the :class:`~gangctl.fit.knowledge.Knowledge` of the CLI and of a running gangctl alike, so that both give the
same answer. A change of one object costs what that object is in the way of, not what the cluster has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from gangctl.api.objects import Object
from gangctl.fit.quotas import Quotas
from gangctl.fit.requests import Surroundings
from gangctl.kueue.configuration import KueueConfiguration, read_configuration
from gangctl.kueue.objects import (
    AdmissionCheck,
    ClusterQueue,
    Cohort,
    LocalQueue,
    PriorityClass,
    QueuedWorkload,
    ResourceFlavor,
)

Held = ClusterQueue | Cohort | LocalQueue | ResourceFlavor | QueuedWorkload | AdmissionCheck | PriorityClass
"""What a snapshot holds as it is."""


class Snapshot:
    """What is known of the cluster; ``unknown`` says what is not, and is asked each time."""

    def __init__(
        self,
        held: Iterable[Held] = (),
        *,
        limit_ranges: Iterable[Object] | None = (),
        runtime_classes: Iterable[Object] | None = None,
        configuration: str | None = None,
        queued: bool = True,
        queue_limit: int | None = None,
        unknown: Callable[[], Sequence[str]] = lambda: (),
    ) -> None:
        """Take all of it.

        LimitRanges and RuntimeClasses are raw; those that are None are not known. ``configuration`` is the text of
        Kueue's, None where it is not known.
        """
        self.quotas = Quotas()
        self.queued = queued
        self.queue_limit = queue_limit
        self._unknown = unknown
        self._local_queues: dict[tuple[str, str], LocalQueue] = {}
        self._flavors: dict[str, ResourceFlavor] = {}
        self._checks: dict[str, AdmissionCheck] = {}
        self._priorities: dict[str, int] = {}
        self._limit_ranges: dict[str, dict[str, Object]] = {}
        self._runtime_classes: dict[str, Object] | None = None
        self._configuration: KueueConfiguration = read_configuration(configuration)
        for each in held:
            self.take(each)
        self.limits_known = limit_ranges is not None
        for raw in limit_ranges or ():
            self.take_limit_range(raw)
        if runtime_classes is not None:
            self.take_runtime_classes(runtime_classes)

    def take(self, held: Held) -> None:
        """Learn of an object, new or changed."""
        match held:
            case ClusterQueue():
                self.quotas.set_queue(held)
            case Cohort():
                self.quotas.set_cohort(held)
            case QueuedWorkload():
                self.quotas.set_usage(held)
            case LocalQueue():
                self._local_queues[held.namespace, held.name] = held
            case ResourceFlavor():
                self._flavors[held.name] = held
            case AdmissionCheck():
                self._checks[held.name] = held
            case PriorityClass():
                self._priorities[held.name] = held.value

    def drop(self, held: Held) -> None:
        """Learn that an object is gone; harmless when it was not known."""
        match held:
            case ClusterQueue():
                self.quotas.remove_queue(held.name)
            case Cohort():
                self.quotas.remove_cohort(held.name)
            case QueuedWorkload():
                self.quotas.remove_usage(held.uid)
            case LocalQueue():
                self._local_queues.pop((held.namespace, held.name), None)
            case ResourceFlavor():
                self._flavors.pop(held.name, None)
            case AdmissionCheck():
                self._checks.pop(held.name, None)
            case PriorityClass():
                self._priorities.pop(held.name, None)

    @contextmanager
    def without(self, workloads: Iterable[QueuedWorkload]) -> Iterator[None]:
        """For as long as the block runs, these hold nothing: what a JobSet has itself is not in its way."""
        own = list(workloads)
        for each in own:
            self.drop(each)
        try:
            yield
        finally:
            for each in own:
                self.take(each)

    def take_limit_range(self, raw: Object) -> None:
        """Learn of a LimitRange, new or changed."""
        metadata = raw["metadata"]
        self._limit_ranges.setdefault(metadata.get("namespace") or "", {})[metadata["name"]] = raw

    def drop_limit_range(self, raw: Object) -> None:
        """Learn that a LimitRange is gone."""
        namespace = raw["metadata"].get("namespace") or ""
        there = self._limit_ranges.get(namespace, {})
        there.pop(raw["metadata"]["name"], None)
        if not there:
            self._limit_ranges.pop(namespace, None)

    def take_runtime_classes(self, raws: Iterable[Object] | None) -> None:
        """These are all RuntimeClasses that there are; None: they are not known."""
        self._runtime_classes = None if raws is None else {raw["metadata"]["name"]: raw for raw in raws}

    def take_configuration(self, text: str | None) -> None:
        """This is Kueue's configuration; None: it is not known."""
        self._configuration = read_configuration(text)

    @property
    def configuration(self) -> KueueConfiguration:
        """Kueue's configuration."""
        return self._configuration

    def local_queue(self, namespace: str, name: str) -> LocalQueue | None:
        """A LocalQueue, or None where it does not exist."""
        return self._local_queues.get((namespace, name))

    def flavor(self, name: str) -> ResourceFlavor | None:
        """A ResourceFlavor, or None where it does not exist."""
        return self._flavors.get(name)

    def check(self, name: str) -> AdmissionCheck | None:
        """An AdmissionCheck, or None where it does not exist or is not known."""
        return self._checks.get(name)

    def priority(self, name: str) -> int | None:
        """Value of a WorkloadPriorityClass, or None where it does not exist or is not known."""
        return self._priorities.get(name)

    def surroundings(self, namespace: str) -> Surroundings:
        """What changes the requests of pods in a namespace; Kueue's configuration among it."""
        ranges = tuple(self._limit_ranges.get(namespace, {}).values()) if self.limits_known else None
        return Surroundings(ranges, self._runtime_classes, self._configuration)

    def unknown(self) -> Sequence[str]:
        """What could not be read, each in a few words."""
        return self._unknown()
