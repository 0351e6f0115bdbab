"""Time that gangs take: seconds in a phase, and seconds times what their pods hold of a resource.

Between two changes of a gang nothing changes, so a sum is what is held, times the seconds since it was read last. It
never decreases, and it does not depend on how often it is read.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from gangctl.readiness.result import GangPhase, Readiness

K = TypeVar("K", bound=Hashable)
P = TypeVar("P", bound=Hashable)

Amounts = tuple[int, ...]
"""What one key holds in one place, in as many measures as the sums have; not negative."""


@dataclass(slots=True)
class _Meter:
    held: list[int]
    sums: list[float]
    read_at: float
    keys: int = 0
    idle_since: float = 0.0

    def read(self, now: float) -> None:
        seconds = now - self.read_at
        for number, amount in enumerate(self.held):
            self.sums[number] += amount * seconds
        self.read_at = now

    def change(self, amounts: Amounts, sign: int, now: float) -> None:
        self.read(now)
        for number, amount in enumerate(amounts):
            self.held[number] += sign * amount
        self.keys += sign
        if not self.keys:
            self.idle_since = now


class HeldTime(Generic[K, P]):
    """Sums over time of what keys hold, by place. The measures of one place are read together.

    So a measure that is never more than another one has no larger sum, either.
    """

    def __init__(self, most: int, measures: int = 1) -> None:
        """At most ``most`` places have sums of their own, beside those into which the others are counted."""
        self._most = most
        self._measures = measures
        self._own: dict[P, _Meter] = {}
        self._others: dict[P, _Meter] = {}
        self._held: dict[K, list[tuple[_Meter, Amounts]]] = {}

    def put(self, key: K, held: Mapping[P, tuple[P, Amounts]], now: float) -> int:
        """What a key holds from now on, instead of before; returns how many places are counted under another one.

        ``held`` has by place where it counts if there are too many places, and what is held. ``now`` is in seconds of a
        steady clock.
        """
        before = self._held.pop(key, [])
        for meter, amounts in before:
            meter.change(amounts, -1, now)
        after, beyond = [], 0
        for place, (other, amounts) in held.items():
            own = self._meter(place, now, held)
            meter = own or self._others.setdefault(other, self._new(now))
            beyond += own is None
            meter.change(amounts, 1, now)
            after.append((meter, amounts))
        if after:
            self._held[key] = after
        return beyond

    def add(self, key: K, amounts: Amounts) -> None:
        """Add to the sums where a key holds something, at once."""
        for meter, _ in self._held.get(key, []):
            for number, amount in enumerate(amounts):
                meter.sums[number] += amount

    def sums(self, now: float) -> Iterator[tuple[P, tuple[float, ...]]]:
        """The sums of each place up to ``now``."""
        for meters in (self._own, self._others):
            for place, meter in meters.items():
                meter.read(now)
                yield place, tuple(meter.sums)

    def _meter(self, place: P, now: float, kept: Container[P]) -> _Meter | None:
        """The meter of a place; a new one where there is room, or in the stead of the one that is idle for longest."""
        meter = self._own.get(place)
        if meter is not None:
            return meter
        if len(self._own) >= self._most:
            # A place in which this key holds something again is without keys for a moment only: it was taken out first.
            idle = [name for name, unused in self._own.items() if not unused.keys and name not in kept]
            if not idle:
                return None
            del self._own[min(idle, key=lambda name: self._own[name].idle_since)]
        return self._own.setdefault(place, self._new(now))

    def _new(self, now: float) -> _Meter:
        return _Meter([0] * self._measures, [0.0] * self._measures, now)


class Held(NamedTuple):
    """What a gang holds of one resource; each of the other numbers is at most ``allocated``."""

    allocated: int
    """Of pods that have nodes, those included that terminate."""
    ready: int
    """Of these, of ready pods."""
    incomplete: int
    """All that is allocated while the gang is not whole: not all pods are ready that it needs."""
    restarting: int
    """Of that, from a restart of the JobSet until the gang is whole again."""


def held(now: Readiness) -> Mapping[str, Held]:
    """What a gang holds, by resource."""
    whole = now.phase is GangPhase.READY
    again = now.attempt > 0 and not (now.been_ready or now.ready_before)
    return {
        usage.resource: Held(
            usage.allocated,
            usage.ready,
            0 if whole else usage.allocated,
            usage.allocated if again and not whole else 0,
        )
        for usage in now.usage
    }
