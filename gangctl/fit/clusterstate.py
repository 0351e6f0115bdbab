"""Input of a fit: the request, and the interface to the cluster's objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gangctl.fit.ends import Outlook
from gangctl.fit.floor import NodeShape
from gangctl.fit.quotas import Quotas
from gangctl.fit.requests import Surroundings
from gangctl.kueue.objects import AdmissionCheck, Amounts, LocalQueue, QueuedWorkload, ResourceFlavor, Topology


@dataclass(frozen=True, slots=True)
class FitRequest:
    """One JobSet, as raw JSON, that exists in a namespace or is about to be created there.

    ``namespace_labels`` is None if unknown. ``queue`` is the LocalQueue that its label names, or empty.
    ``new`` means that it is not created yet: only then Kueue may set the queue called ``default``. ``workload`` is
    Kueue's Workload of it, if there is one: then its priority is known, and since when it waits. ``fixed_nodes`` takes
    the nodes for all that there will ever be. With an ``outlook`` the report says when it starts.
    """

    jobset: Mapping[str, Any]
    namespace: str
    namespace_labels: Mapping[str, str] | None
    queue: str
    new: bool = True
    workload: QueuedWorkload | None = None
    fixed_nodes: bool = False
    outlook: Outlook | None = None


@dataclass(frozen=True, slots=True)
class KnownNodes:
    """Nodes, and the pods on them.

    ``used`` are requests by the node's name, without pods that Kueue placed in a topology; None if unknown.
    """

    shapes: Sequence[NodeShape]
    used: Mapping[str, Amounts] | None


class ClusterState(Protocol):
    """Kueue's objects in the cluster, at one point in time; methods neither raise nor block."""

    @property
    def queued(self) -> bool:
        """Whether Kueue is installed: its kinds are served."""

    @property
    def quotas(self) -> Quotas:
        """ClusterQueues, Cohorts, and their usage."""

    @property
    def queue_limit(self) -> int | None:
        """Podsets that a Workload of Kueue may have: 8, 10 or 18 by version; None if unknown."""

    def local_queue(self, namespace: str, name: str) -> LocalQueue | None:
        """A LocalQueue, or None if it does not exist."""

    def flavor(self, name: str) -> ResourceFlavor | None:
        """A ResourceFlavor, or None if it does not exist."""

    @property
    def topologies(self) -> Mapping[str, Topology] | None:
        """Topologies by name, or None if they are unknown."""

    @property
    def nodes(self) -> KnownNodes | None:
        """The nodes, or None if they are unknown."""

    def check(self, name: str) -> AdmissionCheck | None:
        """An AdmissionCheck, or None if it does not exist or is unknown."""

    def priority(self, name: str) -> int | None:
        """Value of a WorkloadPriorityClass, or None if it does not exist or is unknown."""

    def pod_priority(self, name: str) -> int | None:
        """Value of a PriorityClass, or of the default if the name is empty; None if unknown."""

    def surroundings(self, namespace: str) -> Surroundings:
        """Objects that change the requests of pods in a namespace, including Kueue's configuration."""

    def unknown(self) -> Sequence[str]:
        """Objects that could not be read, each in a few words: they turn a dependent ``never`` into unknown."""
