"""Gangs that start with fewer than all of their pods (minCount): whether the nodes have room for so many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from gangctl.errors import plural
from gangctl.fit.nodecase import NOTHING_SHOWS, NodesAnswer, NodesCase, exceeding, names_of, where
from gangctl.fit.room import highest
from gangctl.fit.scheduling import Floor, Together


def decided(case: NodesCase) -> tuple[NodesCase, NodesAnswer]:
    """The verdict, and the case that it is about: gangs may start with fewer than all of their pods (minCount)."""
    fewer = [gang for gang in case.gangs if gang.minimum]
    # evaluate appends what it does not know of all pods, and the minimum is asked without that.
    before = list(case.unknown)
    answer = case.evaluate()
    if not fewer or answer[0] == "fits" or case.refused:
        return case, answer
    floor = case.floor
    # Of different pods that no node takes, the others may be enough.
    several = {index for gang in fewer if len(gang.pods) > 1 for index in gang.pods}
    if any(
        podset.pods and not floor.has_place(podset.index) for podset in floor.podsets if podset.index not in several
    ):
        return case, answer
    case.unknown = before
    # NeedsNodes is the same finding for nodes that are not fixed.
    never = answer[0] == "never" or answer[1] == "NeedsNodes"
    if mixed := next((gang for gang in fewer if len(gang.pods) > 1 or floor.members.differ), None):
        return case, _mixed(case, mixed)
    ((index, pods),) = fewer[0].pods.items()
    least = _least(case, {index: gang.minimum for gang in fewer for index in gang.pods})
    verdict, reason, message = least.evaluate()
    words = "; ".join(_starts_with(floor, gang) for gang in fewer)
    if verdict != "fits":
        return least, (verdict, reason, f"{message}; {words}")
    if why := _disturbed(case, least, fewer):
        least.unknown.append(why)
        return least, ("unknown", "Unknown", f"{NOTHING_SHOWS}not known: {why}; {words}")
    if len(fewer) > 1 or floor.podsets[index].pods != pods:
        return least, (verdict, reason, f"the nodes have room now for the pods with which it starts; {words}")
    # The ends are known: the minimum has room, and all of them have not.
    room = highest(lambda count: count <= fewer[0].minimum or _fits(_least(case, {index: count})), pods - 1)
    later = f"can never hold all {pods} at once" if never else f"have no room for all {pods} now"
    message = f'the nodes have room for {room} of its {pods} pods of "{floor.podsets[index].name}" now, and {later}'
    return least, (verdict, reason, f"{message}; {words}{where(floor, least.now.placed if least.now else ())}")


def _fits(case: NodesCase) -> bool:
    return case.evaluate()[0] == "fits"


def _starts_with(floor: Floor, gang: Together) -> str:
    pods = plural(sum(gang.pods.values()), "pod")
    return f"a gang of {pods} of {names_of(floor, [gang])} starts with {gang.minimum} (minCount)"


def _least(case: NodesCase, counts: Mapping[int, int]) -> NodesCase:
    """The same gangs with so many pods each, by index of their only podset."""
    gangs = [
        replace(gang, pods={index: counts[index] for index in gang.pods})
        if gang.minimum and gang.pods.keys() <= counts.keys()
        else gang
        for gang in case.gangs
    ]
    sizes = {index: pods for gang in case.gangs for index, pods in gang.pods.items()}
    stages = [
        {index: pods // sizes[index] * counts[index] if index in counts else pods for index, pods in stage.items()}
        for stage in case.stages
    ]
    return replace(case, gangs=gangs, stages=stages, unknown=list(case.unknown), now=None, least=True)


def _disturbed(case: NodesCase, least: NodesCase, fewer: Sequence[Together]) -> str:
    """Why pods beyond the minimum of one gang may take the room of other pods; empty if they do not.

    The scheduler places all pods of a gang for which there is room.
    """
    floor = case.floor
    more = f"whether pods beyond the minCount of {names_of(floor, fewer)} take the room of its other pods"
    kinds = {index: frozenset(_nodes(floor, index)) for stage in case.stages for index, pods in stage.items() if pods}
    for gang in fewer:
        ((index, pods),) = gang.pods.items()
        alone = all(kinds[index].isdisjoint(kinds[other]) for other in kinds if other != index)
        if len(kinds) > 1 and not (alone and floor.independent):
            return more
        if (copies := floor.podsets[index].pods // pods) > 1:
            # The other gangs of this template may come first, with all of their pods.
            stages = [
                {**stage, index: (copies - 1) * pods + gang.minimum} if index in stage else stage
                for stage in least.stages
            ]
            if gang.topology or not _fits(replace(least, stages=stages, unknown=list(case.unknown))):
                return more
    return ""


def _nodes(floor: Floor, index: int) -> Iterator[int]:
    """The nodes that have room for a pod of a podset now."""
    return (number for number in range(len(floor.nodes)) if floor.room_on(number, index))


def _mixed(case: NodesCase, gang: Together) -> NodesAnswer:
    """The verdict on a gang of which different pods may be those with which it starts."""
    floor, words = case.floor, _starts_with(case.floor, gang)
    now, ever = 0, 0
    rooms: dict[str, list[tuple[int, int]]] = {}
    for index, pods in gang.pods.items():
        for value, free, maximum in floor.rooms(gang, index):
            rooms.setdefault(value, []).append((min(pods, free), min(pods, maximum)))
    for room in rooms.values():
        now, ever = max(now, sum(free for free, _ in room)), max(ever, sum(most for _, most in room))
    if not case.unknown and ever < gang.minimum:
        message = f"the nodes hold {plural(ever, 'pod')} of it at most; {words}"
        return case.too_few(exceeding(gang), message)
    if not case.unknown and floor.neighbours.pods is not None and now < gang.minimum:
        return "not-now", "WaitsForNodes", f"the nodes have room for {plural(now, 'pod')} of it now at most; {words}"
    if floor.neighbours.pods is None:
        case.unknown.append("what is in use on the nodes")
    case.unknown += [*case.deciding, f"which of its different pods the scheduler places; {words}"]
    verdict, reason, message = case.no_answer()
    return verdict, reason, message
