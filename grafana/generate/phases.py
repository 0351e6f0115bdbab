"""How phases look, the same on every dashboard."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gangctl.readiness.result import GangPhase

COLORS: Final[Mapping[GangPhase, str]] = {
    GangPhase.SUSPENDED: "light-purple",
    GangPhase.QUEUED: "blue",
    GangPhase.GATED: "purple",
    GangPhase.PENDING: "light-blue",
    GangPhase.WAITING_FOR_PODS: "light-yellow",
    GangPhase.SCHEDULING: "yellow",
    GangPhase.UNSCHEDULABLE: "orange",
    GangPhase.PARTIALLY_PLACED: "dark-orange",
    GangPhase.STARTING: "light-green",
    GangPhase.PARTIALLY_READY: "semi-dark-green",
    GangPhase.READY: "green",
    GangPhase.DEGRADED: "red",
    GangPhase.RESTARTING: "semi-dark-orange",
    GangPhase.TERMINATING: "dark-purple",
    GangPhase.SUCCEEDED: "dark-green",
    GangPhase.FAILED: "dark-red",
}

BY_LABEL: Final = {phase.label: color for phase, color in COLORS.items()}

OVER: Final = "|".join(phase.label for phase in GangPhase if phase.over)
"""Pattern of the phases in which nothing more happens."""
AT_REST: Final = "|".join(phase.label for phase in GangPhase if phase.settled or phase is GangPhase.SUSPENDED)
"""Pattern of the phases in which nobody waits for anything."""
ADMITTED: Final = "|".join(
    phase.label
    for phase in (
        GangPhase.PENDING,
        GangPhase.WAITING_FOR_PODS,
        GangPhase.SCHEDULING,
        GangPhase.UNSCHEDULABLE,
        GangPhase.PARTIALLY_PLACED,
    )
)
"""Pattern of the phases in which a gang may start, and has no place yet."""
