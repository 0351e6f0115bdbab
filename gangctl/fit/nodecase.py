"""One verdict on the nodes: whether they can ever hold each gang, and whether all pods that run at once fit now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gangctl.api.jobset import pod_path
from gangctl.api.objects import object_at
from gangctl.api.quantity import figure
from gangctl.errors import one_line, plural
from gangctl.fit import report
from gangctl.fit.floor import features_of
from gangctl.fit.packing import Excess
from gangctl.fit.room import RoomOutcome, room_of_stages
from gangctl.fit.scheduling import Floor, Together
from gangctl.kueue.objects import Amounts

_MOST_RESOURCES: Final = 4
NodesAnswer = tuple[report.Verdict, str, str]
"""Verdict, reason and message."""


@dataclass(slots=True)
class NodesCase:
    """State of one verdict; ``floor`` assumes what admits more pods, where that is unknown."""

    floor: Floor
    requests: Sequence[Amounts]
    gangs: Sequence[Together]
    stages: Sequence[Mapping[int, int]]
    """Pods that may run at once, by index of podset."""
    unknown: list[str]
    deciding: Sequence[str]
    refused: Sequence[str]
    """Why the API server makes no such pods."""
    fixed_nodes: bool
    now: RoomOutcome | None = None
    least: bool = False
    """Whether it is about the pods with which gangs start, where these are fewer than all."""

    def evaluate(self) -> NodesAnswer:
        """Verdict, reason and message; adds unknown facts."""
        if self.refused:
            message = f"no pod of it can be created: {'; '.join(self.refused)}"
            return self._unknown(f"{message}; ") if self.unknown else ("never", "NeverMisconfigured", message)
        if contested := next((why for gang in self.gangs if (why := self.floor.contested(gang.pods, now=False))), ""):
            message = f"it can never start: {contested}; use another access mode, or a claim for each pod"
            # No other nodes help.
            return self._unknown(f"{message}; ") if self.unknown else ("never", "NeverExceedsNodes", message)
        # Bounds first: they name the field and the amount, which the search in `ever` does not.
        impossible = _impossible(self.floor, self.gangs)
        ever = self.floor.ever(self.gangs) if impossible is None else False
        if impossible is None and ever is False:
            why = "its pods keep each other from so many nodes (podAntiAffinity, hostPort) that not all have one"
            impossible = "NeverExceedsNodes", why
        if impossible:
            reason, message = impossible
            if self.unknown:
                return self._unknown(f"the nodes there are can never hold it: {message}; ")
            return self.too_few(reason, message)
        if self.floor.neighbours.pods is None:
            self.unknown.append("what is in use on the nodes")
            if self.floor.assumes:
                self.unknown += _tolerations(self.floor, self.floor.wary(self.requests))
            return self._unknown("the nodes hold it with nothing else on them, but " if self.empty() else NOTHING_SHOWS)
        self.now = room_of_stages(self.floor, self.gangs, self.stages)
        return self._at_present(self.now)

    def _at_present(self, now: RoomOutcome) -> NodesAnswer:
        without_hope = self.floor.wary(self.requests) if self.floor.assumes else self.floor
        wary = room_of_stages(without_hope, self.gangs, self.stages) if self.floor.assumes else now
        certain = now.answer.certain and wary.answer.certain
        if certain and not self.deciding and not self.unknown:
            self.now = wary
            place = where(self.floor, wary.placed)
            stages = ", one stage after the other (dependsOn)" if len(self.stages) > 1 else ""
            return "fits", "Fits", f"the nodes have room for all of its pods now{stages}{place}"
        if now.answer.possible is False and wary.answer.possible is False and not self.unknown:
            without_topology = [replace(gang, topology="") for gang in self.gangs]
            # Only for the message: free nodes elsewhere do not help a gang that needs one domain.
            anywhere = room_of_stages(self.floor, without_topology, self.stages).answer.possible
            if anywhere and any(gang.topology for gang in self.gangs):
                keys = report.quoted(gang.topology for gang in self.gangs if gang.topology)
                why = f"the nodes have room for {self._what} now, but not in one domain of {keys}"
                return "not-now", "WaitsForTopology", why
            contested = (self.floor.contested(stage, now=True) for stage in self.stages)
            return "not-now", "WaitsForNodes", next(filter(None, contested), "") or self._no_room()
        self.unknown += self.deciding
        if now.answer != wary.answer:
            self.unknown += _assumed(self.floor, without_hope)
        elif not certain and now.answer.possible:
            self.unknown.append(
                f"{report.joined(self._ruling())}: in which order kube-scheduler takes its pods, and which "
                "node with room it chooses: after some choices a pod finds no node, and the scheduler does not go back"
            )
        elif not certain:
            self.unknown.append("whether its pods can be spread so that all have room")
        return self._unknown(NOTHING_SHOWS)

    def too_few(self, reason: str, message: str) -> NodesAnswer:
        """The verdict where the nodes that there are can never hold it."""
        if not self.fixed_nodes:
            return "not-now", "NeedsNodes", f"it waits until there are other nodes: {message}"
        return "never", reason, f"the nodes can never hold it: {message}"

    def empty(self) -> bool | None:
        """Whether the nodes have room for all pods that run at once, with nothing else on them."""
        return self.floor.ever([Together(stage) for stage in self.stages])

    def _no_room(self) -> str:
        holds = self.empty()
        if holds is None:
            return f"the nodes have no room for {self._what} now"
        if holds:
            it, all_of_it = (self._what, "these") if self.least else ("it", self._what)
            return f"the nodes hold {it} with nothing else on them, but have no room for {all_of_it} now"
        parts = "each of its gangs" if self.gangs else "each of its pods"
        return f"the nodes hold {parts} with nothing else on them, but never {self._what} at once"

    @property
    def _what(self) -> str:
        return "the pods with which it starts" if self.least else "all of it"

    def _ruling(self) -> list[str]:
        """The fields by which one pod decides where another one can be."""
        fields = []
        for podset in self.floor.podsets:
            path = pod_path(podset.index)
            affinity = object_at(podset.pod_spec, "affinity")
            fields += [f"{path}.affinity.{part}" for part in ("podAffinity", "podAntiAffinity") if affinity.get(part)]
            if podset.pod_spec.get("topologySpreadConstraints"):
                fields.append(f"{path}.topologySpreadConstraints")
        return fields or ["spec.replicatedJobs"]

    def no_answer(self) -> NodesAnswer:
        """The verdict where something is not known."""
        return self._unknown(NOTHING_SHOWS)

    def _unknown(self, words: str) -> NodesAnswer:
        return "unknown", "Unknown", f"{words}not known: {'; '.join(dict.fromkeys(self.unknown))}"


NOTHING_SHOWS: Final = "nothing shows that the nodes cannot hold it, but "


def _assumed(floor: Floor, wary: Floor) -> list[str]:
    """What the one assumes and the other does not, where they differ."""
    assumptions = _tolerations(floor, wary)
    assumptions += [
        f'whether node "{node.name}" becomes ready'
        for number, node in enumerate(floor.nodes)
        if (node.unready or node.passing) and floor.takers_now(number) - wary.takers_now(number)
    ]
    assumptions += [
        f"whether its pods have a higher priority than {pod.namespace}/{pod.name}, for which kube-scheduler keeps room "
        f'on node "{pod.node}" (status.nominatedNodeName)'
        for pod in floor.doubted_pods()
    ]
    return assumptions or [
        "which namespaces a namespaceSelector selects (give the Namespaces with their labels with --queues)"
    ]


def _tolerations(floor: Floor, wary: Floor) -> list[str]:
    """Tolerations with which nodes take pods, and that admission may add."""
    assumptions = [
        f"{pod_path(index)}.tolerations: whether admission adds a toleration of the taint {one_line(key, 80)} ({by})"
        for number, (hoped, certain) in enumerate(zip(floor.takers, wary.takers, strict=True))
        for index in sorted(hoped - certain)
        for key, by in floor.possibly_tolerated(number, index)
    ]
    return list(dict.fromkeys(assumptions))


def without_plugins(floor: Floor) -> list[str]:
    """The resources that nodes would have if their device plugins were registered, each in a clause."""
    usable = [number for number, takers in enumerate(floor.takers) if takers]
    counts = Counter(name for number in usable for name in floor.unreported(number))
    nodes = plural(len(floor.nodes), "node")
    return [
        f"no device plugin reports {one_line(name, 80)} on {count} of {nodes} now (capacity 0): see the pods of its "
        "DaemonSet"
        for name, count in sorted(counts.items())
    ]


def exceeding(gang: Together) -> str:
    """The reason where a gang needs more than there ever is."""
    return "NeverExceedsTopology" if gang.topology else "NeverExceedsNodes"


def names_of(floor: Floor, gangs: Iterable[Together]) -> str:
    """The podsets of gangs."""
    return report.quoted(floor.podsets[index].name for gang in gangs for index in sorted(gang.pods))


def where(floor: Floor, placed: Sequence[tuple[Together, str]]) -> str:
    """The domains of gangs with a topology."""
    if not placed:
        return ""
    gang, value = placed[0]
    others = f", and {plural(len(placed) - 1, 'gang')} more" if len(placed) > 1 else ""
    return f': {names_of(floor, [gang])} in "{value}" ({gang.topology}){others}'


def _impossible(floor: Floor, gangs: Sequence[Together]) -> tuple[str, str] | None:
    """Reason and message for the first single pod, or gang, that provably never fits on empty nodes."""
    for index, podset in enumerate(floor.podsets):
        if podset.pods and not floor.has_place(index):
            return "NeverNoNode", no_node(floor, index)
    for gang in gangs:
        proofs = floor.proofs(gang)
        if proofs:
            nearest = max(proofs, key=lambda proof: proof.there / proof.wanted)
            return exceeding(gang), _exceeds(floor, gang, nearest)
        if proofs is not None:
            return "NeverNoNode", f'no node has label "{gang.topology}", of which all pods of a gang need one value'
    return None


def no_node(floor: Floor, index: int) -> str:
    """Why no node has a place for a pod of a podset, whatever is on the nodes."""
    name = floor.podsets[index].name
    taking = sum(index in takers for takers in floor.takers)
    if not taking:
        declared = frozenset().union(*(node.features for node in floor.nodes))
        if missing := sorted(features_of(floor.podsets[index].pod_spec) - declared):
            return f'no node declares {missing[0]}, which pods of "{name}" need (status.declaredFeatures)'
        return (
            f'taints, node selectors and affinity keep pods of "{name}" from all of {plural(len(floor.nodes), "node")}'
        )
    nodes = "the one node" if taking == 1 else f"any of the {taking} nodes"
    message = f'a pod of "{name}" asks for more than {nodes} has that would take it'
    lacking = list(floor.lacking(index))
    if not lacking:
        return f"{message}; ask for less"
    there = {resource for node in floor.nodes for resource in node.capacity}
    parts = [
        f"{report.show(resource, asked)} of at most {figure(resource, largest)}"
        for resource, asked, largest in lacking[:_MOST_RESOURCES]
    ]
    unknown = [report.meant(resource, there) for resource, _, largest in lacking if resource not in there]
    return f"{message}: {report.joined(parts)}{''.join(unknown[:1]) or '; ask for less'}"


def _exceeds(floor: Floor, gang: Together, proof: Excess) -> str:
    members = sorted(gang.pods)
    names = report.quoted(floor.podsets[members[kind]].name for kind in proof.kinds)
    where = f' in one domain of "{gang.topology}"' if gang.topology else ""
    if proof.resource is None:
        single = report.joined(list(dict.fromkeys(why for kind in proof.kinds for why in floor.single(members[kind]))))
        why = f", one a node ({single})" if single and proof.there <= len(floor.nodes) else ""
        pods = f"{'needs' if gang.minimum else 'has'} {plural(proof.wanted, 'pod')} of {names}"
        return (
            f"a gang {pods} at once, and the nodes hold "
            f"{proof.there} of that size at most{why}{where}; ask for fewer pods, smaller ones, or more nodes"
        )
    resource = floor.name_of(proof.resource)
    return (
        f"{names} of one gang ask for {report.show(resource, proof.wanted)} at once, and the nodes have "
        f"{report.show(resource, proof.there)}{where}; ask for fewer pods, smaller ones, or more nodes"
    )
