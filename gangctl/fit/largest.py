"""How many equal pods fit at once now: on one node, in one domain, on the nodes of one flavor, and on all nodes.

The numbers are those of :func:`~gangctl.fit.nodes.node_fit`, asked again and again with other numbers of pods: with so
many it says ``fits``, with one more it does not.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Any, Final, Literal, TypedDict

from gangctl.api.jobset import read_jobset
from gangctl.api.meta import GANG_MODE, GANG_OPTIONS, GANG_REF, GANGS
from gangctl.api.objects import Object, object_at, objects_at, text_at
from gangctl.api.reportfields import QUANTITY
from gangctl.fit import limits
from gangctl.fit.clusterstate import FitRequest
from gangctl.fit.devices import as_extended
from gangctl.fit.exploring import Exploration
from gangctl.fit.floor import NodeShape
from gangctl.fit.members import Neighbours
from gangctl.fit.nodes import admitted, asked_of_nodes
from gangctl.fit.packing import Vector
from gangctl.fit.report import FitIdentity, bounded
from gangctl.fit.requests import PodSet, Surroundings
from gangctl.fit.room import highest
from gangctl.fit.scheduling import Floor
from gangctl.gang.config import read_config
from gangctl.kueue.names import PODSET_GROUP
from gangctl.kueue.objects import ResourceFlavor

KIND: Final = "LargestGang"
MOST: Final = 2**31 - 1
"""The highest parallelism that a Job can have."""
Scope = Literal["node", "domain", "flavor", "cluster", "gang"]


class RoomReport(TypedDict):
    """How many pods of one shape have room somewhere now."""

    scope: Annotated[Scope, "Where; gang is the largest gang of these pods that gangctl fit says fits now."]
    level: Annotated[str, "The node label of a domain; empty otherwise."]
    name: Annotated[str, "The node or domain with the most room, or the flavor; empty for cluster and gang."]
    pods: Annotated[int, "Pods that fit there at once, whichever nodes the scheduler chooses."]
    possible: Annotated[int, "Pods that fit at most: more than pods if the scheduler may choose nodes that are wrong."]
    limit: Annotated[str, "What one pod more does not find: nodes, quota, or a sentence."]


class ShapeReport(TypedDict):
    """The pods of one replicated job, whatever their number."""

    name: str
    requests: Annotated[dict[str, int], "Of one pod.", QUANTITY]
    rooms: list[RoomReport]
    unknown: Annotated[list[str], "What is not known, and could change the numbers."]


class LargestReport(TypedDict):
    """The largest gang of each replicated job's pods that fits now."""

    apiVersion: Literal["gangctl.dev/v1alpha1"]
    kind: Literal["LargestGang"]
    metadata: FitIdentity
    queue: Annotated[str, "LocalQueue, or empty."]
    clusterQueue: str
    podSets: list[ShapeReport]


@dataclass(frozen=True, slots=True)
class CountRange:
    """Pods that fit for certain, and at most."""

    pods: int = 0
    possible: int = 0


_OTHERS: Final = ("coordinator", "successPolicy", "failurePolicy", "startupPolicy", "gangConfig")
"""What a spec says of several replicated jobs, or of all."""


def alone(raw: Object, index: int, topology: str, pods: int) -> dict[str, Any]:
    """A JobSet whose only pods are so many of one replicated job: one gang, in one domain of a topology if named."""
    metadata, spec = object_at(raw, "metadata"), object_at(raw, "spec")
    entry = objects_at(spec, "replicatedJobs")[index]
    template = object_at(entry, "template")
    job = object_at(template, "spec")
    # These are about other replicated jobs, too, which are not in it.
    annotations = _without(object_at(metadata, "annotations"), GANGS, GANG_OPTIONS)
    name, config = text_at(entry, "name"), read_config(read_jobset(raw)[0])[0]
    claims = [claim.encode() for gang in config.gangs if name in gang.replicated_jobs for claim in gang.claims()]
    if claims:
        # Without them each pod would count with a claim of its own.
        gang = {"name": "gang", "replicatedJobs": [name], "resourceClaims": claims}
        annotations |= {GANGS: json.dumps([gang | ({"topologyKey": topology} if topology else {})])}
    elif topology:
        annotations |= {GANG_MODE: "Gang", GANG_OPTIONS: json.dumps({"topologyKey": topology})}
    # A stamp of the JobSet that exists would outrank the mode that is set above.
    own = _without(object_at(object_at(template, "metadata"), "annotations"), GANG_REF, GANG_MODE)
    pod = object_at(job, "template")
    of_pod = object_at(pod, "metadata")
    job = {
        **job,
        # Both, because a Job runs no more pods than it has completions.
        "parallelism": pods,
        "completions": pods,
        "template": {
            **pod,
            # Kueue rejects a group of one podset.
            "metadata": {**of_pod, "annotations": _without(object_at(of_pod, "annotations"), PODSET_GROUP)},
        },
    }
    template = {**template, "metadata": {**object_at(template, "metadata"), "annotations": own}, "spec": job}
    entry = {**_without(entry, "dependsOn", "gangConfig"), "replicas": 1, "template": template}
    return {
        # Its status is about other numbers of Jobs.
        **_without(raw, "status"),
        "metadata": {**metadata, "annotations": annotations},
        "spec": {**_without(spec, *_OTHERS), "replicatedJobs": [entry]},
    }


def _without(values: Object, *keys: str) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key not in keys}


class ShapeOnNodes:
    """Pods of one shape, and the nodes of a cluster with what else is on them."""

    def __init__(
        self, request: FitRequest, nodes: Sequence[NodeShape], surroundings: Surroundings, neighbours: Neighbours
    ) -> None:
        """``request`` has a JobSet with one replicated job."""
        plain = surroundings.of_pods()
        (self._podset,) = admitted(request.jobset, plain, neighbours)
        (counted,), (self.requests,), devices = asked_of_nodes(
            [self._podset], request, nodes, plain, neighbours.devices
        )
        jobset = request.read()
        self.requests_report = {name: bounded(amount) for name, amount in self.requests.items()}
        self.unknown = list(
            dict.fromkeys(
                [
                    *counted.unknown,
                    *devices.unknown,
                    *as_extended([self.requests], neighbours.devices, nodes),
                    *limits.of_labels(self._podset, neighbours),
                    *limits.deciding(jobset, self._podset, neighbours),
                    *(["what is in use on the nodes"] if neighbours.pods is None else []),
                ]
            )
        )
        self._name, self._neighbours = jobset.name, neighbours
        self._sides = self._sides_of(self._podset, devices.nodes)

    def _sides_of(self, podset: PodSet, nodes: Sequence[NodeShape]) -> list[Side]:
        """By what admits more pods, and where that makes a difference also by what admits fewer."""
        floor = Floor([podset], [self.requests], nodes, self._neighbours, jobset=self._name)
        floors = [floor, floor.wary([self.requests])] if floor.assumes else [floor]
        return [(floor, floor.free()) for floor in floors]

    def rooms(self, levels: Iterable[str]) -> list[RoomReport]:
        """The node with the most room, the domain of each label with the most, and all nodes."""
        sides, floor = self._sides, self._sides[0][0]
        name, span = _best(sides, {node.name: [number] for number, node in enumerate(floor.nodes)})
        rooms = [room_report("node", span, "nodes", name=name)]
        for level in levels:
            name, span = _best(sides, floor.domains(level))
            rooms.append(room_report("domain", span, "nodes", level=level, name=name))
        return [*rooms, room_report("cluster", _span(sides, range(len(floor.nodes))), "nodes")]

    def on_flavor(self, flavor: ResourceFlavor) -> CountRange:
        """Pods on the nodes of a flavor, with the tolerations that it gives to them."""
        nodes = [node for node in self._sides[0][0].nodes if flavor.node_labels.items() <= node.labels.items()]
        spec = self._podset.pod_spec
        tolerations = [*objects_at(spec, "tolerations"), *flavor.tolerations]
        template = {**self._podset.template, "spec": {**spec, "tolerations": tolerations}}
        return _span(self._sides_of(replace(self._podset, template=template), nodes), range(len(nodes)))


def room_report(scope: Scope, span: CountRange, limit: str, *, level: str = "", name: str = "") -> RoomReport:
    """One row."""
    pods, possible = bounded(span.pods), bounded(span.possible)
    return {"scope": scope, "level": level, "name": name, "pods": pods, "possible": possible, "limit": limit}


Side = tuple[Floor, Mapping[int, Vector]]
"""A floor, and the room that is left on its nodes."""


def _bound(sides: Sequence[Side], numbers: Iterable[int]) -> int:
    # By the floor that assumes what admits more pods: no other has more room.
    return min(MOST, sum(sides[0][0].room_on(number, 0) for number in numbers))


def _span(sides: Sequence[Side], numbers: Collection[int]) -> CountRange:
    """Pods that fit on some nodes."""
    bound = _bound(sides, numbers)
    spans = [
        _span_of(floor, {number: free[number] for number in numbers if number in free}, bound) for floor, free in sides
    ]
    # Certain is what both floors hold, possible what one of them holds.
    return CountRange(min(span.pods for span in spans), max(span.possible for span in spans))


def _span_of(floor: Floor, free: Mapping[int, Vector], bound: int) -> CountRange:
    # Both searches below ask about some of the same numbers.
    @cache
    def answer(pods: int) -> Exploration:
        return floor.room_of({0: pods}, free)

    # Unknown counts as possible: it must not lower the number that fits at most.
    possible = highest(lambda pods: answer(pods).possible is not False, bound)
    return CountRange(highest(lambda pods: bool(answer(pods).certain), possible), possible)


def _best(sides: Sequence[Side], domains: Mapping[str, Collection[int]]) -> tuple[str, CountRange]:
    """The domain with the most room, the first by name of equal ones."""
    best, name = CountRange(), ""
    bounds = {value: _bound(sides, numbers) for value, numbers in domains.items()}
    for value in sorted(domains, key=lambda value: (-bounds[value], value)):
        # They are in the order of their bounds: no domain from here on can have more.
        if bounds[value] <= best.pods:
            break
        span = _span(sides, domains[value])
        if (span.pods, span.possible) > (best.pods, best.possible):
            best, name = span, value
    return name, best
