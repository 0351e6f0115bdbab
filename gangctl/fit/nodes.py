"""Whether the nodes of a cluster can hold a gang, regardless of its queue.

Only the shapes of nodes are considered: resources, labels, taints. Affinity between pods, ports and volumes are
ignored, which can only overestimate capacity: ``never`` here is always correct. Nodes may be added, though, so the
verdict is ``never`` only if the user declares the nodes fixed; otherwise the gang waits for other nodes. Nodes that are
drained or not ready now count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from gangctl.api.jobset import JobSet
from gangctl.errors import one_line, plural
from gangctl.fit import report
from gangctl.fit.clusterstate import FitRequest
from gangctl.fit.floor import Excess, Floor, NodeShape, Together
from gangctl.fit.requests import Surroundings, podsets_of, requests_of
from gangctl.gang.naming import Scope
from gangctl.gang.plan import job_pods, stored_stamps
from gangctl.gang.resolve import ClusterRules, resolve
from gangctl.kueue.configuration import KueueConfiguration
from gangctl.kueue.objects import PODS, Amounts

_MOST_ROWS: Final = 20


def gangs_of(jobset: JobSet) -> tuple[Together, ...]:
    """The gangs of a JobSet, from its stamps or else its configuration; of equal ones only the first."""
    stamps, _ = stored_stamps(jobset)
    resolution = resolve(jobset, ClusterRules())
    stamps = stamps if any(stamps) else resolution.stamps
    config = resolution.config
    gangs: dict[str, dict[int, int]] = {}
    for rj, stamp in zip(jobset.replicated_jobs, stamps, strict=True):
        gang = config.gang(stamp.template) if stamp is not None else None
        # Which pods are enough for a gang that starts with fewer is not known beforehand.
        if stamp is None or rj.replicas < 1 or (gang is not None and gang.min_count is not None):
            continue
        whole = stamp.scope is not Scope.JOB
        gangs.setdefault(stamp.template, {})[rj.index] = job_pods(rj) * (rj.replicas if whole else 1)
    return tuple(
        Together({index: pods for index, pods in members.items() if pods > 0}, config.topology_key(template))
        for template, members in gangs.items()
    )


def node_fit(
    request: FitRequest,
    nodes: Iterable[NodeShape],
    surroundings: Surroundings,
    *,
    used: Mapping[str, Amounts] | None = None,
) -> report.FitReport:
    """Whether the nodes can ever hold each gang of a JobSet, and whether all of its pods fit now.

    ``used`` are requests of the pods on each node, by its name; None if unknown. Kueue's configuration in
    ``surroundings`` is ignored.
    """
    jobset = request.read()
    plain = replace(surroundings, configuration=KueueConfiguration())
    podsets = podsets_of(request.jobset)
    counted = [requests_of(podset, plain) for podset in podsets]
    requests = [each.requests for each in counted]
    unknown = list(dict.fromkeys(why for each in counted for why in each.unknown))
    floor = Floor(podsets, requests, list(nodes), used)
    gangs = gangs_of(jobset) if len(jobset.replicated_jobs) == len(podsets) else ()
    placed = floor.placed_now(gangs) if used is not None else None
    verdict, reason, message = _evaluate(
        floor, gangs, unknown, placed=placed, in_use=used is not None, fixed_nodes=request.fixed_nodes
    )
    sentence = one_line(message[:1].upper() + message[1:] + ".")
    return {
        **report.report_of(jobset, request.namespace, verdict, reason, sentence),
        "podSets": [
            report.podset_report(podset.name, podset.pods, each.requests)
            for podset, each in zip(podsets, counted, strict=True)
        ],
        "limits": _limits(floor, requests, used),
        "domains": _domains(floor, gangs, placed or ()),
        "unknown": unknown,
    }


def _evaluate(
    floor: Floor,
    gangs: Sequence[Together],
    unknown: list[str],
    *,
    placed: Sequence[tuple[Together, str]] | None,
    in_use: bool,
    fixed_nodes: bool,
) -> tuple[report.Verdict, str, str]:
    """Verdict, reason and message; adds unknown facts. ``placed`` is where the pods fit now."""
    impossible = _impossible(floor, gangs)
    if impossible:
        reason, message = impossible
        if unknown:
            return "unknown", "Unknown", f"the nodes there are can never hold it: {message}; {_not_known(unknown)}"
        if not fixed_nodes:
            return "not-now", "NeedsNodes", f"it waits until there are other nodes: {message}"
        return "never", reason, f"the nodes can never hold it: {message}"
    if placed is not None:
        return "fits", "Fits", f"the nodes have room for all of its pods now{_where(floor, placed)}"
    if not floor.placeable(gangs):
        unknown.append("whether its pods can be spread so that all have room")
        return "unknown", "Unknown", f"nothing shows that the nodes cannot hold it, but {_not_known(unknown)}"
    if not in_use:
        unknown.append("what is in use on the nodes")
        return "unknown", "Unknown", f"the nodes hold it with nothing else on them, but {_not_known(unknown)}"
    if floor.placed_now([replace(gang, topology="") for gang in gangs]) is not None:
        keys = report.quoted(gang.topology for gang in gangs if gang.topology)
        return "not-now", "WaitsForTopology", f"the nodes have room for all of it now, but not in one domain of {keys}"
    return (
        "not-now",
        "WaitsForNodes",
        "the nodes hold it with nothing else on them, but have no room for all of it now",
    )


def _where(floor: Floor, placed: Sequence[tuple[Together, str]]) -> str:
    """The domains of gangs with a topology."""
    if not placed:
        return ""
    gang, value = placed[0]
    names = report.quoted(floor.podsets[index].name for index in sorted(gang.pods))
    others = f", and {plural(len(placed) - 1, 'gang')} more" if len(placed) > 1 else ""
    return f': {names} in "{value}" ({gang.topology}){others}'


def _domains(
    floor: Floor, gangs: Sequence[Together], placed: Sequence[tuple[Together, str]]
) -> list[report.DomainReport]:
    """The domains of gangs with a topology, those of their pods first, then those with the most room."""
    reports: list[report.DomainReport] = []
    for gang in gangs:
        for index, pods in sorted(gang.pods.items()) if gang.topology else ():
            assigned = Counter(value for each, value in placed if each is gang)
            rooms = sorted(
                floor.rooms(gang, index), key=lambda room: (-assigned[room[0]], room[2] < pods, -room[1], room[0])
            )
            reports += [
                {
                    "podSet": floor.podsets[index].name,
                    "flavor": "",
                    "level": gang.topology,
                    "domain": value,
                    "requested": report.bounded(pods),
                    "assigned": report.bounded(assigned[value] * pods),
                    "free": report.bounded(free),
                    "maximum": report.bounded(maximum),
                }
                for value, free, maximum in rooms[:_MOST_ROWS]
            ]
    return reports


def _not_known(unknown: Sequence[str]) -> str:
    return f"not known: {'; '.join(unknown)}"


def _impossible(floor: Floor, gangs: Sequence[Together]) -> tuple[str, str] | None:
    """Reason and message for the first single pod, or gang, that provably never fits on empty nodes."""
    for index, podset in enumerate(floor.podsets):
        if podset.pods and not floor.has_place(index):
            return "NeverNoNode", _no_node(floor, index)
    for gang in gangs:
        proofs = floor.proofs(gang)
        if proofs:
            nearest = max(proofs, key=lambda proof: proof.there / proof.wanted)
            reason = "NeverExceedsTopology" if gang.topology else "NeverExceedsNodes"
            return reason, _exceeds(floor, gang, nearest)
        if proofs is not None:
            return "NeverNoNode", f'no node has label "{gang.topology}", of which all pods of a gang need one value'
    return None


def _no_node(floor: Floor, index: int) -> str:
    name = floor.podsets[index].name
    taking = sum(index in takers for takers in floor.takers)
    if not taking:
        return (
            f'taints, node selectors and affinity keep pods of "{name}" from all of {plural(len(floor.nodes), "node")}'
        )
    nodes = "the one node" if taking == 1 else f"any of the {taking} nodes"
    return f'a pod of "{name}" asks for more than {nodes} has that would take it; ask for less'


def _exceeds(floor: Floor, gang: Together, proof: Excess) -> str:
    members = sorted(gang.pods)
    names = report.quoted(floor.podsets[members[kind]].name for kind in proof.kinds)
    where = f' in one domain of "{gang.topology}"' if gang.topology else ""
    if proof.resource is None:
        return (
            f"a gang has {plural(proof.wanted, 'pod')} of {names} at once, and the nodes hold "
            f"{proof.there} of that size at most{where}; ask for fewer pods, smaller ones, or more nodes"
        )
    resource = floor.resources[proof.resource]
    return (
        f"{names} of one gang ask for {report.show(resource, proof.wanted)} at once, and the nodes have "
        f"{report.show(resource, proof.there)}{where}; ask for fewer pods, smaller ones, or more nodes"
    )


def _limits(floor: Floor, requests: Sequence[Amounts], used: Mapping[str, Amounts] | None) -> list[report.LimitReport]:
    """Each resource on all nodes that accept any of the pods."""
    usable = [node for node, takers in zip(floor.nodes, floor.takers, strict=True) if takers]
    reports = []
    for resource in floor.resources:
        asked = sum(
            podset.pods * (1 if resource == PODS else each.get(resource, 0))
            for podset, each in zip(floor.podsets, requests, strict=True)
        )
        there = sum(node.capacity.get(resource, 0) for node in usable)
        taken = sum((used or {}).get(node.name, {}).get(resource, 0) for node in usable)
        reports.append(
            report.limit_report(
                "", resource, asked, there, plural(len(usable), "node"), nominal=there, used=taken, free=there - taken
            )
        )
    return reports
