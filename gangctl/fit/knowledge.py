"""What is asked, and what must be known to answer: the seam to whoever holds the cluster's objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gangctl.fit.quotas import Quotas
from gangctl.fit.requests import Surroundings
from gangctl.kueue.objects import AdmissionCheck, LocalQueue, ResourceFlavor


@dataclass(frozen=True, slots=True)
class Ask:
    """One JobSet, as raw JSON, that a namespace has or is about to have.

    ``namespace_labels`` is None where they are not known. ``queue`` is the LocalQueue that its label names, or empty.
    ``new`` says that it is not created yet: only then does Kueue put it into the queue called ``default``.
    """

    jobset: Mapping[str, Any]
    namespace: str
    namespace_labels: Mapping[str, str] | None
    queue: str
    new: bool = True


class Knowledge(Protocol):
    """The cluster's objects of Kueue, at one moment; nothing here raises or waits."""

    @property
    def queued(self) -> bool:
        """Whether Kueue is there at all: its kinds are served."""

    @property
    def quotas(self) -> Quotas:
        """ClusterQueues, Cohorts, and who uses what of them."""

    @property
    def queue_limit(self) -> int | None:
        """Podsets that a Workload of Kueue may have: 8, 10 or 18 by version; None where that is not known."""

    def local_queue(self, namespace: str, name: str) -> LocalQueue | None:
        """A LocalQueue, or None where it does not exist."""

    def flavor(self, name: str) -> ResourceFlavor | None:
        """A ResourceFlavor, or None where it does not exist."""

    def check(self, name: str) -> AdmissionCheck | None:
        """An AdmissionCheck, or None where it does not exist or is not known."""

    def priority(self, name: str) -> int | None:
        """Value of a WorkloadPriorityClass, or None where it does not exist or is not known."""

    def surroundings(self, namespace: str) -> Surroundings:
        """What changes the requests of pods in a namespace; Kueue's configuration among it."""

    def unknown(self) -> Sequence[str]:
        """What could not be read, each in a few words: a never that leans on it is none."""
