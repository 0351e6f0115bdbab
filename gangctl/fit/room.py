"""Whether all pods of a JobSet have room now, each gang with a topology in one domain of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from gangctl.fit.exploring import Exploration
from gangctl.fit.packing import Vector
from gangctl.fit.scheduling import Floor, Together

_MOST_COPIES: Final = 200


@dataclass(slots=True)
class RoomOutcome:
    """Whether all pods fit now: ``placed`` are the domains of gangs with a topology."""

    answer: Exploration
    placed: list[tuple[Together, str]] = field(default_factory=list)


def room_now(floor: Floor, gangs: Sequence[Together], pods: Mapping[int, int] | None = None) -> RoomOutcome:
    """Whether all pods fit at once now, or so many of each podset, by index."""
    free = floor.free()
    if pods is None:
        pods = {index: podset.pods for index, podset in enumerate(floor.podsets)}
    answer = floor.room_of(pods, free)
    placed_in = [gang for gang in gangs if gang.topology]
    # A topology only takes nodes away.
    if not placed_in or answer.possible is False:
        return RoomOutcome(answer)
    return _InDomains(floor, placed_in, free, answer, pods).outcome()


def room_of_stages(floor: Floor, gangs: Sequence[Together], stages: Sequence[Mapping[int, int]]) -> RoomOutcome:
    """Whether the pods of each stage fit now, without those of the others."""
    placed: dict[int, list[tuple[Together, str]]] = {}
    answers = []
    for stage in stages:
        whole = [gang for gang in gangs if gang.pods.keys() <= stage.keys()]
        parts = [
            # Those of its podsets that run in this stage are still in one domain.
            replace(gang, pods={index: pods for index, pods in gang.pods.items() if index in stage})
            for gang in gangs
            if gang not in whole and not gang.pods.keys().isdisjoint(stage)
        ]
        outcome = room_now(floor, [*whole, *parts], stage)
        answers.append(outcome.answer)
        for gang in whole:
            # A gang that is in several stages stays where it is.
            placed.setdefault(id(gang), [(other, value) for other, value in outcome.placed if other is gang])
    worst = Exploration(_worst(one.possible for one in answers), _worst(one.certain for one in answers))
    return RoomOutcome(worst, [pair for pairs in placed.values() for pair in pairs])


def _worst(answers: Iterable[bool | None]) -> bool | None:
    kinds = set(answers)
    return False if False in kinds else None if None in kinds else True


def highest(holds: Callable[[int], bool], bound: int) -> int:
    """The highest number up to a bound for which this holds, 0 if there is none; what holds, holds for fewer, too.

    >>> highest(lambda count: count <= 5, 100), highest(lambda count: False, 9), highest(lambda count: True, 9)
    (5, 0, 9)
    """
    low, step = 0, 1
    while low + step <= bound and holds(low + step):
        low, step = low + step, step * 2
    high = min(bound, low + step - 1)
    while low < high:
        middle = (low + high + 1) // 2
        if holds(middle):
            low = middle
        else:
            high = middle - 1
    return low


class _InDomains:
    """Gangs with a topology: the scheduler tries every domain for each, and takes one in which all of it fits."""

    def __init__(
        self,
        floor: Floor,
        gangs: Sequence[Together],
        free: dict[int, Vector],
        anywhere: Exploration,
        pods: Mapping[int, int],
    ) -> None:
        self._floor = floor
        self._gangs = gangs
        self._free = free
        self._anywhere = anywhere
        self._pods = [index for index, count in pods.items() if count]
        self._rest = dict(pods)
        self._copies = [self._take(gang) for gang in gangs]

    def _take(self, gang: Together) -> int:
        copies = min((self._rest[index] // pods for index, pods in gang.pods.items()), default=0)
        for index, pods in gang.pods.items():
            self._rest[index] -= copies * pods
        return copies

    def outcome(self) -> RoomOutcome:
        """Whether all fit, and in which domains."""
        if sum(self._copies) > _MOST_COPIES:
            return RoomOutcome(Exploration(None, None))
        rooms = [self._rooms(gang, copies) for gang, copies in zip(self._gangs, self._copies, strict=True)]
        # Each domain by itself, with nothing else of the JobSet placed: what lacks room even so never has it.
        if any(sum(most for _, most in domains) < copies for domains, copies in zip(rooms, self._copies, strict=True)):
            return RoomOutcome(Exploration(possible=False, certain=False))
        others = sum(self._copies) + sum(self._rest.values()) - 1
        # Beside them no domain has the room that it has by itself.
        if others and any(map(self._reached, self._gangs, self._copies)):
            return RoomOutcome(Exploration(None, None))
        placed = self._greedy(rooms)
        possible = True if placed is not None else None
        certain = bool(self._anywhere.certain) or not any(self._rest.values())
        if len(rooms) == 1 and not any(self._rest.values()):
            # Equal gangs in domains of their own: none takes room that another one could use otherwise.
            certain = sum(least for least, _ in rooms[0]) >= self._copies[0]
        else:
            # Each of the others is in one domain at most.
            certain = certain and all(sum(least > 0 for least, _ in room) > others for room in rooms)
        return RoomOutcome(Exploration(possible or certain or None, certain or None), placed or [])

    def _reached(self, gang: Together, copies: int) -> bool:
        return self._floor.members.reach(gang.pods, self._pods, copies=copies, topology=gang.topology)

    def _rooms(self, gang: Together, copies: int) -> list[tuple[int, int]]:
        """By domain, the copies that fit in any order, and at most; not more than there are."""
        rooms = []
        helped = self._floor.members.helped(gang.pods, sum(self._copies))
        for value in self._values(gang):
            nodes, least, highest = self._nodes(gang, value), 0, 0
            for number in range(1, copies + 1):
                answer = self._floor.room_of({index: pods * number for index, pods in gang.pods.items()}, nodes)
                if answer.possible is False:
                    break
                highest = number
                least = number if answer.certain and least == number - 1 else least
            # That the gang has no room by itself says nothing where pods of another one come first.
            rooms.append((least, copies if helped else highest))
        return rooms

    def _values(self, gang: Together) -> list[str]:
        return list(self._floor.domains(gang.topology))

    def _nodes(self, gang: Together, value: str) -> dict[int, Vector]:
        domain = self._floor.domains(gang.topology)[value]
        return {number: self._free[number] for number in domain if number in self._free}

    def _greedy(self, rooms: Sequence[Sequence[tuple[int, int]]]) -> list[tuple[Together, str]] | None:
        """The domain of each copy, if each is put into the first that has room; ``rooms`` are those of each gang."""
        placed = []
        for gang, copies, domains in zip(self._gangs, self._copies, rooms, strict=True):
            # Each copy is put by itself: what copies do to each other in one domain is in these numbers.
            left_in = {value: highest for value, (_, highest) in zip(self._values(gang), domains, strict=True)}
            for _ in range(copies):
                for value in (value for value, room in left_in.items() if room):
                    left = self._floor.put(gang.pods, self._nodes(gang, value))
                    if left is not None:
                        self._free |= left
                        left_in[value] -= 1
                        placed.append((gang, value))
                        break
                else:
                    return None
        return placed if self._floor.put(self._rest, self._free) is not None else None
