"""The phases of a gang: one closed list for metrics, events, the command line and ``Gang`` objects.

A JobSet's phase is that of its least advanced group; of running groups, the worst.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class GangPhase(StrEnum):
    """Stable, CamelCase, in the order of the lifecycle; :attr:`label` in metrics."""

    SUSPENDED = "Suspended"
    QUEUED = "Queued"
    GATED = "Gated"
    PENDING = "Pending"
    WAITING_FOR_PODS = "WaitingForPods"
    SCHEDULING = "Scheduling"
    UNSCHEDULABLE = "Unschedulable"
    PARTIALLY_PLACED = "PartiallyPlaced"
    STARTING = "Starting"
    PARTIALLY_READY = "PartiallyReady"
    READY = "Ready"
    DEGRADED = "Degraded"
    RESTARTING = "Restarting"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"

    @property
    def label(self) -> str:
        """Value of the metrics label."""
        return self.value.lower()

    @property
    def sentence(self) -> str:
        """Description for users."""
        return _SENTENCES[self]

    @property
    def over(self) -> bool:
        """Whether the phase is final."""
        return self in {GangPhase.SUCCEEDED, GangPhase.FAILED}

    @property
    def settled(self) -> bool:
        """Whether no cause is needed: the gang is ready or finished."""
        return self is GangPhase.READY or self.over


_SENTENCES: Final[Mapping[GangPhase, str]] = {
    GangPhase.SUSPENDED: "A user suspended the JobSet, and no queue will start it.",
    GangPhase.QUEUED: "It waits in a queue of Kueue.",
    GangPhase.GATED: "It is held back: by a gate on the JobSet, or by scheduling gates on its pods.",
    GangPhase.PENDING: "It is there, and nothing has been made for it in this cluster yet.",
    GangPhase.WAITING_FOR_PODS: "Fewer pods exist than have to start together.",
    GangPhase.SCHEDULING: "All pods that have to start together exist, and the scheduler has not decided.",
    GangPhase.UNSCHEDULABLE: "The scheduler has looked, and found no place for all of them.",
    GangPhase.PARTIALLY_PLACED: "Some pods hold nodes while others that they need have none.",
    GangPhase.STARTING: "All pods have nodes; none is ready yet.",
    GangPhase.PARTIALLY_READY: "All pods have nodes; some are ready.",
    GangPhase.READY: "All pods that it needs are ready.",
    GangPhase.DEGRADED: "It was ready, and is not any more.",
    GangPhase.RESTARTING: "The JobSet starts anew: pods of the attempt before are on their way out.",
    GangPhase.SUCCEEDED: "It has finished, with success.",
    GangPhase.FAILED: "It has finished, without success.",
}
