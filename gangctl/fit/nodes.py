"""Whether the nodes of a cluster can hold a gang, regardless of its queue.

The filters of kube-scheduler's default profile are looked at; what is not is named in the report, and makes ``fits``
unknown. Nodes may be added, so the verdict is ``never`` only if the user declares the nodes fixed; otherwise the gang
waits for other nodes. Nodes that are drained or not ready now count for it, and pods that are there now do not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from gangctl.api.jobset import JobSet, read_jobset
from gangctl.api.meta import JOB_INDEX, NAMESPACED_JOB, REPLICATED_JOB_NAME, TOLERATION
from gangctl.api.objects import Object, object_at, objects_at, text_at
from gangctl.api.volumes import volume_claims
from gangctl.errors import one_line, plural
from gangctl.fit import limits, report
from gangctl.fit.clusterstate import FitRequest
from gangctl.fit.devices import Claimed, Devices, as_extended, claimed
from gangctl.fit.floor import NodeShape
from gangctl.fit.members import Neighbours
from gangctl.fit.minimum import decided
from gangctl.fit.nodecase import NodesCase, no_node, without_plugins
from gangctl.fit.placedpods import PlacedPod
from gangctl.fit.requests import (
    Counted,
    PodSet,
    PodsLeft,
    Surroundings,
    left_after_success,
    podsets_of,
    requests_of,
    stages_of,
    unfinished,
)
from gangctl.fit.scheduling import Floor, Together
from gangctl.fit.started import Addition, Additions
from gangctl.gang.config import GangConfig
from gangctl.gang.naming import Scope, Stamp
from gangctl.gang.plan import job_pods, replicated_job_pods, stored_stamps
from gangctl.gang.resolve import ClusterRules, resolve
from gangctl.kueue.objects import PODS, PREEMPTS, Amounts
from gangctl.kueue.topology import REQUESTS

_MOST_ROWS: Final = 20
_BEHIND_PODS: Final = frozenset({"WaitsForNodes", "WaitsForTopology"})
"""Reasons where other pods have what it needs."""
_MOST_CLOSED: Final = 3
_NONE: Final[Additions] = {}
_ALL_LEFT: Final[Mapping[str, PodsLeft]] = {}


def _stamps(jobset: JobSet, *, resizable: bool = False) -> tuple[Sequence[Stamp | None], GangConfig]:
    stamps, _ = stored_stamps(jobset)
    resolution = resolve(jobset, ClusterRules(), resizable=resizable)
    # Stamps are what was decided at CREATE; the configuration may have been edited since.
    return stamps if any(stamps) else resolution.stamps, resolution.config


def topologies_of(jobset: JobSet) -> list[str]:
    """The topologyKey of each replicated job's gang, empty without one; without pods that of the one it would be in."""
    filled = [
        rj if replicated_job_pods(rj) else replace(rj, replicas=1, parallelism=1, completions=1)
        for rj in jobset.replicated_jobs
    ]
    # resizable: one pod may be fewer than the gang's minCount.
    stamps, config = _stamps(replace(jobset, replicated_jobs=tuple(filled)), resizable=True)
    return [config.topology_key(stamp.template) if stamp is not None else "" for stamp in stamps]


def gangs_of(jobset: JobSet, left: Mapping[str, PodsLeft] = _ALL_LEFT) -> tuple[Together, ...]:
    """The gangs of a JobSet, from its stamps or else its configuration; of equal ones only the first.

    With the pods that are ``left``, by name of the ReplicatedJob; of those that it does not name with all.
    """
    stamps, config = _stamps(jobset)
    gangs: dict[str, dict[int, int]] = {}
    minimums: dict[str, int] = {}
    for rj, stamp in zip(jobset.replicated_jobs, stamps, strict=True):
        gang = config.gang(stamp.template) if stamp is not None else None
        pods = left.get(rj.name) or PodsLeft(replicated_job_pods(rj), job_pods(rj))
        if stamp is None or rj.replicas < 1 or (rj.name in left and not pods.whole):
            continue
        gangs.setdefault(stamp.template, {})[rj.index] = pods.largest if stamp.scope is Scope.JOB else pods.whole
        minimums[stamp.template] = (gang and gang.min_count) or 0
    return tuple(
        Together(
            {index: pods for index, pods in members.items() if pods > 0},
            config.topology_key(template),
            minimums[template] if minimums[template] < sum(members.values()) else 0,
        )
        for template, members in gangs.items()
    )


def partly_on_nodes(raw: Object, pods: Iterable[PlacedPod]) -> bool:
    """Whether a gang with a topology has some of its pods on nodes, and not all: by pods of a JobSet that have nodes.

    GeneratePlacements of TopologyPlacement (1.37): the others get the domain of those, and no other one.
    """
    jobset = read_jobset(raw)[0]
    podsets = {podset.name: podset for podset in podsets_of(raw)}
    named = [(podsets.get(pod.labels.get(REPLICATED_JOB_NAME, "")), pod) for pod in pods]
    for gang in gangs_of(jobset, left_after_success(podsets.values(), raw)):
        own = [(podset, pod) for podset, pod in named if podset is not None and podset.index in gang.pods]
        # Of a podset with more pods than the gang each Job is a gang.
        several = any(podset.pods > gang.pods[podset.index] for podset, _ in own)
        there = Counter(pod.labels.get(JOB_INDEX, "") if several else "" for _, pod in own)
        if gang.topology and any(count < sum(gang.pods.values()) for count in there.values()):
            return True
    return False


def shares_claims(raw: Object, jobset: JobSet) -> bool:
    """Whether a gang may have ResourceClaims of its own."""
    spec = object_at(raw, "spec")
    if any("scheduling" in part for part in (spec, *objects_at(spec, "replicatedJobs"))):
        return True
    return any(gang.resource_claims for gang in resolve(jobset, ClusterRules()).config.gangs)


def node_fit(
    request: FitRequest,
    nodes: Iterable[NodeShape],
    surroundings: Surroundings,
    neighbours: Neighbours,
    additions: Additions = _NONE,
) -> report.FitReport:
    """Whether the nodes can ever hold each gang of a JobSet, and whether all of its pods fit now.

    Kueue's configuration in ``surroundings`` is ignored. ``additions`` are what Kueue adds to pods that are not there.
    """
    jobset = request.read()
    plain = surroundings.of_pods()
    podsets = admitted(request.jobset, plain, neighbours)
    # Of a new one the API server drops the status.
    left = request.left if request.new else {**left_after_success(podsets, request.jobset), **request.left}
    podsets = unfinished(podsets, left)
    added = {name: one for name, one in additions.items() if name not in neighbours.admitted}
    podsets = [added[podset.name].to(podset) if podset.name in added else podset for podset in podsets]
    shapes = list(nodes)
    counted, requests, devices = asked_of_nodes(podsets, request, shapes, plain, neighbours.devices)
    unknown = list(dict.fromkeys(why for count in counted for why in count.unknown))
    of_labels = [why for podset in podsets if podset.pods for why in limits.of_labels(podset, neighbours)]
    unknown += of_labels
    unknown += as_extended(requests, neighbours.devices, devices.nodes)
    floor = Floor(podsets, requests, devices.nodes, neighbours, jobset=jobset.name)
    # read_jobset leaves out a list that is too long, and podsets_of does not.
    gangs = gangs_of(jobset, left) if len(jobset.replicated_jobs) == len(podsets) else ()
    deciding = [
        *devices.unknown,
        *(why for podset in podsets if podset.pods for why in limits.deciding(jobset, podset, neighbours)),
    ]
    for podset in podsets:
        if podset.pods and podset.name in added and (level := added[podset.name].level):
            deciding += limits.of_kueue(podset, level, repelled=floor.repelled(podset.index))
    refused = [
        f'"{podset.name}": {problem}'
        for podset, count in zip(podsets, counted, strict=True)
        # Pods that exist were not refused.
        if podset.pods and podset.name not in neighbours.admitted
        for problem in count.problems
    ]
    stages = stages_of(request.jobset, podsets)
    case = NodesCase(floor, requests, gangs, stages, list(unknown), deciding, refused, request.fixed_nodes)
    case, (verdict, reason, message) = decided(case)
    if reason in _BEHIND_PODS and (lowest := _preempting(podsets, neighbours)) is not None:
        pods = neighbours.pods or ()
        kept = [pod for pod in pods if pod.priority is None or pod.priority >= lowest]
        if len(kept) < len(pods):
            without = node_fit(request, shapes, surroundings, replace(neighbours, pods=kept), additions)
            what = f"whether kube-scheduler preempts pods of a priority below {lowest}"
            case.unknown += [f"{what}: the nodes may have room without them"] * (without["reason"] not in _BEHIND_PODS)
    sentence = one_line(message[:1].upper() + message[1:] + ".")
    if verdict != "fits" and (flavors := _adding(added.values())):
        sentence += f" Its pods have the nodeLabels and tolerations of {flavors}."
    if verdict in {"not-now", "unknown"}:
        sentence += _what_is_closed(floor, requests)
        sentence += "".join(f" {clause[:1].upper()}{clause[1:]}." for clause in without_plugins(floor))
    general = [limits.ATTACHED] if any(any(volume_claims(podset.pod_spec)) for podset in podsets) else []
    if not all(podset.name in neighbours.admitted for podset in podsets):
        general.append(limits.ADMISSION)
    return {
        **report.report_of(jobset, request.namespace, verdict, reason, sentence),
        "podSets": [
            report.podset_report(podset.name, podset.pods, own) for podset, own in zip(podsets, requests, strict=True)
        ],
        "limits": _limits(floor, requests, stages),
        "domains": _domains(floor, case.gangs, case.now.placed if case.now is not None else ()),
        "unknown": list(dict.fromkeys(case.unknown)),
        "notLookedAt": list(dict.fromkeys([*deciding, *of_labels, *general])),
    }


def _preempting(podsets: Iterable[PodSet], neighbours: Neighbours) -> int | None:
    """The lowest priority of pods that may preempt others; None if some do not, or that is not known."""
    lowest: int | None = None
    for spec in (podset.pod_spec for podset in podsets if podset.pods):
        name = text_at(spec, "priorityClassName")
        priority, policy = neighbours.priority(spec), text_at(spec, "preemptionPolicy") or neighbours.policy_of(name)
        if priority is None or policy != PREEMPTS:
            return None
        lowest = priority if lowest is None else min(lowest, priority)
    return lowest


def asked_of_nodes(
    podsets: Sequence[PodSet], request: FitRequest, nodes: Sequence[NodeShape], pods: Surroundings, devices: Devices
) -> tuple[list[Counted], list[Amounts], Claimed]:
    """What one pod of each podset requests, the same with the devices that it claims, and these with their nodes."""
    counted = [requests_of(_without_devices(podset), pods) for podset in podsets]
    claiming = any(podset.pod_spec.get("resourceClaims") for podset in podsets)
    shared = claiming and shares_claims(request.jobset, request.read())
    own = claimed(podsets, nodes, devices, shared=shared)
    return counted, [{**one.requests, **claims} for one, claims in zip(counted, own.requests, strict=True)], own


def too_large(raw: Object, nodes: Sequence[NodeShape], surroundings: Surroundings, devices: Devices) -> list[str]:
    """The podsets of which a pod requests more than any node has that would take it, with what the largest has."""
    neighbours, plain = Neighbours(None), surroundings.of_pods()
    podsets = admitted(raw, plain, neighbours)
    requests = [requests_of(_without_devices(podset), plain).requests for podset in podsets]
    floor = Floor(podsets, requests, nodes, neighbours)
    taken = frozenset[int]().union(*floor.takers)
    return [
        no_node(floor, podset.index)
        for podset in podsets
        if podset.pods and podset.index in taken and any(floor.lacking(podset.index))
        if not any(as_extended([requests[podset.index]], devices, nodes))
    ]


def _adding(additions: Iterable[Addition]) -> str:
    """The flavors that add something to pods."""
    names = dict.fromkeys(name for one in additions if one.labels or one.tolerations for name in one.flavors)
    return f"{'ResourceFlavor' if len(names) == 1 else 'ResourceFlavors'} {report.quoted(names)}" if names else ""


def admitted(raw: Object, surroundings: Surroundings, neighbours: Neighbours) -> list[PodSet]:
    """Podsets of a JobSet as admission makes their pods: those that are there, or what is known of its changes."""
    return [
        replace(podset, template=_unplaced(neighbours.admitted[podset.name], podset.pod_spec, neighbours.levels))
        if podset.name in neighbours.admitted
        else _as_made(podset, surroundings)
        for podset in podsets_of(raw)
    ]


def _unplaced(pod: Object, template: Object, levels: Collection[str]) -> dict[str, Any]:
    spec = object_at(pod, "spec")
    selector, own = object_at(spec, "nodeSelector"), object_at(template, "nodeSelector")
    if REQUESTS.isdisjoint(object_at(object_at(pod, "metadata"), "annotations")):
        # Kueue has not chosen its node.
        levels = {NAMESPACED_JOB} & {*levels}
    selector = {key: value for key, value in selector.items() if key not in levels or key in own}
    # With a nodeName a pod would count as one that the scheduler does not look at.
    return {**pod, "spec": {**spec, "nodeName": None, "nodeSelector": selector}}


def _without_devices(podset: PodSet) -> PodSet:
    """The podset without claims: devices that Kueue would count take nothing else of a node."""
    return replace(podset, template={**podset.template, "spec": {**podset.pod_spec, "resourceClaims": None}})


def _as_made(podset: PodSet, surroundings: Surroundings) -> PodSet:
    """The podset with its requests, the node selector and tolerations of its RuntimeClass, and JobSet's toleration.

    What JobSet lets the pods of each Job select, no template has: it is another value for each.
    """
    spec = _requesting(podset.pod_spec)
    name = spec.get("runtimeClassName")
    runtime_class = (surroundings.runtime_classes or {}).get(name, {}) if isinstance(name, str) else {}
    scheduling = object_at(runtime_class, "scheduling")
    added = [*objects_at(scheduling, "tolerations"), *([TOLERATION] if podset.selects_nodes else [])]
    more: dict[str, Any] = (
        {}
        if not scheduling and not added
        else {
            # They do not contradict each other: the admission plugin RuntimeClass refuses such a pod.
            "nodeSelector": {**object_at(scheduling, "nodeSelector"), **object_at(spec, "nodeSelector")},
            "tolerations": [*objects_at(spec, "tolerations"), *added],
        }
    )
    return replace(podset, template={**podset.template, "spec": {**spec, **more}})


def _requesting(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The spec of a pod of which each container requests what it is limited to, where it says nothing else.

    The API server does it to a pod before LimitRanger (SetDefaults_Pod): no defaultRequest applies there. Kueue reads
    pod templates, in which a defaultRequest comes first.
    """
    lists = {kind: spec[kind] for kind in ("containers", "initContainers") if isinstance(spec.get(kind), list)}
    return {**spec, **{kind: [_container(one) for one in containers] for kind, containers in lists.items()}}


def _container(container: object) -> object:
    resources = object_at(container, "resources") if isinstance(container, dict) else {}
    limits, requests = resources.get("limits"), resources.get("requests")
    if not isinstance(container, dict) or not isinstance(limits, dict) or not isinstance(requests, dict | None):
        return container
    return {**container, "resources": {**resources, "requests": limits | (requests or {})}}


def _domains(
    floor: Floor, gangs: Sequence[Together], placed: Sequence[tuple[Together, str]]
) -> list[report.DomainReport]:
    """The domains of gangs with a topology, those of their pods first, then those with the most room."""
    reports: list[report.DomainReport] = []
    for gang in gangs:
        for index, pods in sorted(gang.pods.items()) if gang.topology else ():
            assigned = Counter(value for other, value in placed if other is gang)
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


def _closed(floor: Floor) -> Sequence[NodeShape]:
    """Nodes that any of the pods may have, and that take none of them now, whatever is on them."""
    return [
        node
        for node, takers in zip(floor.nodes, floor.takers, strict=True)
        if takers and not any(node.admits(floor.podsets[index], hopeful=True) for index in takers)
    ]


def _what_is_closed(floor: Floor, requests: Sequence[Amounts]) -> str:
    """The nodes that take no pods now, with what they have of what the pods request, as a sentence."""
    closed = _closed(floor)
    states = Counter("cordoned" if node.cordoned else "not ready" if node.unready else "tainted" for node in closed)
    asked = {resource for request in requests for resource, amount in request.items() if amount}
    # What a node is bought for, if the pods ask for that.
    devices = sorted(name for name in asked if "/" in name) or sorted(asked)
    have = [(name, sum(node.capacity.get(name, 0) for node in closed)) for name in devices]
    if not closed:
        return ""
    counts = [f"{count} {'is' if count == 1 else 'are'} {state}" for state, count in sorted(states.items())]
    amounts = [report.show(name, amount) for name, amount in have if amount][:_MOST_CLOSED]
    return f" Of {plural(len(floor.nodes), 'node')} {report.joined(counts)}" + (
        f", with {report.joined(amounts)}." if amounts else "."
    )


def _limits(floor: Floor, requests: Sequence[Amounts], stages: Sequence[Mapping[int, int]]) -> list[report.LimitReport]:
    """Each resource on all nodes that accept any of the pods; free is what those have that accept them now."""
    usable = [number for number, takers in enumerate(floor.takers) if takers]
    nodes = [floor.nodes[number] for number in usable]
    open_now = [floor.nodes[number] for number in usable if floor.takers_now(number)]
    closed = _closed(floor)
    reports = []
    for resource in floor.resources:
        of_one = [1 if resource == PODS else request.get(resource, 0) for request in requests]
        asked = max((sum(pods * of_one[index] for index, pods in stage.items()) for stage in stages), default=0)
        there = sum(node.capacity.get(resource, 0) for node in nodes)
        taken = {node.name: floor.used.get(node.name, {}).get(resource, 0) for node in nodes}
        reports.append(
            report.limit_report(
                "",
                resource,
                asked,
                there,
                plural(len(usable), "node"),
                nominal=there,
                used=sum(taken.values()),
                free=sum(max(0, node.present.get(resource, 0) - taken[node.name]) for node in open_now),
                closed=sum(node.capacity.get(resource, 0) for node in closed),
            )
        )
    return reports
