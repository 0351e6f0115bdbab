"""Time that passes in many places at once, added up without looking at each of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
P = TypeVar("P", bound=Hashable)


@dataclass(slots=True)
class _Meter:
    running: int = 0
    seconds: float = 0.0
    read_at: float = 0.0


class Lapse(Generic[K, P]):
    """Seconds that keys spend in places, by place. Sums only grow, on any clock that does."""

    def __init__(self, most: int, others: P) -> None:
        """Places beyond ``most`` are counted as ``others``, and stay there."""
        self._most = most
        self._others = others
        self._meters: dict[P, _Meter] = {}
        self._where: dict[K, P] = {}

    def enter(self, key: K, place: P, now: float) -> bool:
        """Begin to count a key, which is nowhere yet; returns whether the place is counted on its own."""
        own = place in self._meters or len(self._meters) - (self._others in self._meters) < self._most
        counted = place if own else self._others
        meter = self._meters.setdefault(counted, _Meter(read_at=now))
        _read(meter, now)
        meter.running += 1
        self._where[key] = counted
        return own

    def leave(self, key: K, now: float) -> None:
        """Stop to count a key, wherever it is."""
        place = self._where.pop(key, None)
        if place is not None:
            meter = self._meters[place]
            _read(meter, now)
            meter.running -= 1

    def seconds(self, now: float) -> Iterator[tuple[P, float]]:
        """What has come together in each place."""
        for place, meter in self._meters.items():
            _read(meter, now)
            yield place, meter.seconds

    def keep(self, wanted: Callable[[P], bool]) -> None:
        """Forget places that are not wanted any more and in which nothing runs; the others stay."""
        gone = [place for place, meter in self._meters.items() if not meter.running and not wanted(place)]
        for place in gone:
            if place != self._others:
                del self._meters[place]


def _read(meter: _Meter, now: float) -> None:
    meter.seconds += meter.running * (now - meter.read_at)
    meter.read_at = now
