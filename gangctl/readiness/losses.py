"""What gangs lose while they run: how often one that was ready is not any more, why, and how long until it is whole.

A loss is counted once. It counts only if this process saw the gang ready before: what happened before it led is not
counted, neither is what it did not see the end of.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from gangctl.api.objects import Key
from gangctl.gang.reasons import Reason
from gangctl.readiness.result import GangPhase, Readiness

VAGUE: Final = frozenset(
    {Reason.NOT_READY, Reason.STARTING, Reason.PODS_MISSING, Reason.PODS_TERMINATING, Reason.UNKNOWN}
)
"""Reasons that describe the first symptom of a loss, not its origin."""


class Recovery(NamedTuple):
    """A gang that is whole again: why it was not, and for how many seconds."""

    reason: Reason
    seconds: int


@dataclass(frozen=True, slots=True)
class Noticed:
    """What one change of a gang shows: the reason of a loss to count now, and a recovery that has ended.

    ``begun`` is the first symptom of a loss that is counted later: its series can begin at 0 until then.
    """

    begun: Reason | None = None
    loss: Reason | None = None
    recovery: Recovery | None = None


NOTHING: Final = Noticed()


@dataclass(slots=True)
class _Loss:
    since: int
    reason: Reason = Reason.UNKNOWN
    counted: bool = False
    """Whether its reason is specific, and does not change any more."""


class Losses:
    """Gangs that were ready and are not, from the loss until they are ready again, have finished or are gone.

    The deletion of a JobSet is no loss, although it may be there, without its pods, for as long as these terminate.
    """

    def __init__(self) -> None:
        """Start without losses."""
        self._open: dict[Key, _Loss] = {}

    def stands(self, before: Readiness | None, now: Readiness | None) -> Noticed:
        """Take a JobSet's new readiness.

        Times are those of :attr:`Readiness.since`, Unix seconds: of objects in the cluster as far as they have them.
        """
        stated = now or before
        if stated is None:
            return NOTHING
        if now is None or now.phase.settled:
            loss = self._open.pop(stated.key, None)
            if loss is None:
                return NOTHING
            whole = now is not None and now.phase is GangPhase.READY
            return Noticed(
                loss=None if loss.counted else loss.reason,
                recovery=Recovery(loss.reason, max(0, stated.since - loss.since)) if whole else None,
            )
        if now.deleting:
            # Its user ends it. What was lost before stays lost, for its own reason.
            return NOTHING
        if before is not None and before.phase is GangPhase.READY:
            if now.counts.desired > before.counts.desired:
                # It has grown (elastic JobSets): it waits for more pods, and has lost none.
                return NOTHING
            self._open[now.key] = _Loss(max(now.since, before.since))
        loss = self._open.get(now.key)
        if loss is None or loss.counted:
            return NOTHING
        # What took it, rather than what it waits for since: Kueue frees the quota of an evicted gang in a moment.
        loss.reason = now.evicted or now.reason or Reason.UNKNOWN
        loss.counted = loss.reason not in VAGUE
        # Prometheus sees no increase in a series that begins with 1: it begins at 0 with the first symptom.
        return Noticed(loss=loss.reason) if loss.counted else Noticed(begun=loss.reason)
