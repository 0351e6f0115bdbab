"""Whether the nodes of a cluster can hold a gang, regardless of its queue.

The filters of kube-scheduler's default profile are looked at; what is not is named in the report, and makes ``fits``
unknown. Nodes may be added, so the verdict is ``never`` only if the user declares the nodes fixed; otherwise the gang
waits for other nodes. Nodes that are drained or not ready now count for it, and pods that are there now do not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from gangctl.api.jobset import JobSet, volume_claims
from gangctl.api.objects import Object, object_at, objects_at
from gangctl.errors import one_line, plural
from gangctl.fit import limits, report
from gangctl.fit.clusterstate import FitRequest
from gangctl.fit.devices import as_extended, claimed
from gangctl.fit.floor import NodeShape, features_of
from gangctl.fit.packing import Excess
from gangctl.fit.requests import PodSet, Surroundings, podsets_of, requests_of, stages_of
from gangctl.fit.room import RoomOutcome, room_of_stages
from gangctl.fit.scheduling import Floor, Neighbours, Together
from gangctl.fit.started import Addition, Additions
from gangctl.gang.naming import Scope
from gangctl.gang.plan import job_pods, stored_stamps
from gangctl.gang.resolve import ClusterRules, resolve
from gangctl.kueue.objects import PODS, Amounts

_MOST_ROWS: Final = 20
_NONE: Final[Additions] = {}
_MOST_RESOURCES: Final = 4


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


def _shares_claims(raw: Object, jobset: JobSet) -> bool:
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
    added = {name: one for name, one in additions.items() if name not in neighbours.admitted}
    podsets = [added[podset.name].to(podset) if podset.name in added else podset for podset in podsets]
    counted = [requests_of(_without_devices(podset), plain) for podset in podsets]
    shapes = list(nodes)
    claiming = any(podset.pod_spec.get("resourceClaims") for podset in podsets)
    shared = claiming and _shares_claims(request.jobset, jobset)
    devices = claimed(podsets, shapes, neighbours.devices, shared=shared)
    requests = [{**count.requests, **own} for count, own in zip(counted, devices.requests, strict=True)]
    unknown = list(dict.fromkeys(why for count in counted for why in count.unknown))
    of_labels = [why for podset in podsets if podset.pods for why in limits.of_labels(podset)]
    unknown += of_labels
    unknown += as_extended(requests, neighbours.devices)
    floor = Floor(podsets, requests, devices.nodes, neighbours, jobset=jobset.name)
    gangs = gangs_of(jobset) if len(jobset.replicated_jobs) == len(podsets) else ()
    deciding = [
        *devices.unknown,
        *(why for podset in podsets if podset.pods for why in limits.deciding(jobset, podset, neighbours)),
    ]
    for podset in podsets:
        if podset.pods and podset.name in added and (level := added[podset.name].level):
            deciding += limits.of_kueue(podset, level, repelled=floor.repelled(podset.index))
    # Kueue's check of LimitRanges is a part of the API server's, but for the overhead of a RuntimeClass.
    refused = [
        f'"{podset.name}": {problem}'
        for podset, count in zip(podsets, counted, strict=True)
        if podset.pods and podset.name not in neighbours.admitted and not podset.pod_spec.get("runtimeClassName")
        for problem in count.problems
    ]
    stages = stages_of(request.jobset, podsets)
    case = _NodesCase(floor, requests, gangs, stages, list(unknown), deciding, refused, request.fixed_nodes)
    verdict, reason, message = case.evaluate()
    sentence = one_line(message[:1].upper() + message[1:] + ".")
    if verdict != "fits" and (flavors := _adding(added.values())):
        sentence += f" Its pods have the nodeLabels and tolerations of {flavors}."
    general = [limits.ATTACHED] if any(any(volume_claims(podset.pod_spec)) for podset in podsets) else []
    if not all(podset.name in neighbours.admitted for podset in podsets):
        general.append(limits.ADMISSION)
    return {
        **report.report_of(jobset, request.namespace, verdict, reason, sentence),
        "podSets": [
            report.podset_report(podset.name, podset.pods, own) for podset, own in zip(podsets, requests, strict=True)
        ],
        "limits": _limits(floor, requests, stages),
        "domains": _domains(floor, gangs, case.now.placed if case.now is not None else ()),
        "unknown": list(dict.fromkeys(case.unknown)),
        "notLookedAt": list(dict.fromkeys([*deciding, *of_labels, *general])),
    }


def _adding(additions: Iterable[Addition]) -> str:
    """The flavors that add something to pods."""
    names = dict.fromkeys(name for one in additions if one.labels or one.tolerations for name in one.flavors)
    return f"{'ResourceFlavor' if len(names) == 1 else 'ResourceFlavors'} {report.quoted(names)}" if names else ""


def admitted(raw: Object, surroundings: Surroundings, neighbours: Neighbours) -> list[PodSet]:
    """Podsets of a JobSet as admission makes their pods: those that are there, or what is known of its changes."""
    return [
        replace(podset, template=_unplaced(neighbours.admitted[podset.name]))
        if podset.name in neighbours.admitted
        else _as_made(podset, surroundings)
        for podset in podsets_of(raw)
    ]


def _unplaced(pod: Object) -> dict[str, Any]:
    # With a nodeName a pod would count as one that the scheduler does not look at.
    return {**pod, "spec": {**object_at(pod, "spec"), "nodeName": None}}


def _without_devices(podset: PodSet) -> PodSet:
    """The podset without claims: devices that Kueue would count take nothing else of a node."""
    return replace(podset, template={**podset.template, "spec": {**podset.pod_spec, "resourceClaims": None}})


def _as_made(podset: PodSet, surroundings: Surroundings) -> PodSet:
    """The podset with its requests, and with the node selector and the tolerations of its RuntimeClass."""
    spec = _requesting(podset.pod_spec)
    name = spec.get("runtimeClassName")
    runtime_class = (surroundings.runtime_classes or {}).get(name, {}) if isinstance(name, str) else {}
    scheduling = object_at(runtime_class, "scheduling")
    more: dict[str, Any] = (
        {}
        if not scheduling
        else {
            "nodeSelector": {**object_at(scheduling, "nodeSelector"), **object_at(spec, "nodeSelector")},
            "tolerations": [*objects_at(spec, "tolerations"), *objects_at(scheduling, "tolerations")],
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


@dataclass(slots=True)
class _NodesCase:
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

    def evaluate(self) -> tuple[report.Verdict, str, str]:
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
            if not self.fixed_nodes:
                return "not-now", "NeedsNodes", f"it waits until there are other nodes: {message}"
            return "never", reason, f"the nodes can never hold it: {message}"
        if self.floor.neighbours.pods is None:
            self.unknown.append("what is in use on the nodes")
            return self._unknown("the nodes hold it with nothing else on them, but " if ever else _NOTHING_SHOWS)
        self.now = room_of_stages(self.floor, self.gangs, self.stages)
        return self._at_present(self.now)

    def _at_present(self, now: RoomOutcome) -> tuple[report.Verdict, str, str]:
        without_hope = self.floor.wary(self.requests) if self.floor.assumes else self.floor
        wary = room_of_stages(without_hope, self.gangs, self.stages) if self.floor.assumes else now
        certain = now.answer.certain and wary.answer.certain
        if certain and not self.deciding and not self.unknown:
            self.now = wary
            where = _where(self.floor, wary.placed)
            stages = ", one stage after the other (dependsOn)" if len(self.stages) > 1 else ""
            return "fits", "Fits", f"the nodes have room for all of its pods now{stages}{where}"
        if now.answer.possible is False and wary.answer.possible is False and not self.unknown:
            without_topology = [replace(gang, topology="") for gang in self.gangs]
            anywhere = room_of_stages(self.floor, without_topology, self.stages).answer.possible
            if anywhere and any(gang.topology for gang in self.gangs):
                keys = report.quoted(gang.topology for gang in self.gangs if gang.topology)
                why = f"the nodes have room for all of it now, but not in one domain of {keys}"
                return "not-now", "WaitsForTopology", why
            contested = (self.floor.contested(stage, now=True) for stage in self.stages)
            no_room = "the nodes hold it with nothing else on them, but have no room for all of it now"
            return "not-now", "WaitsForNodes", next(filter(None, contested), no_room)
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
        return self._unknown(_NOTHING_SHOWS)

    def _ruling(self) -> list[str]:
        """The fields by which one pod decides where another one can be."""
        fields = []
        for podset in self.floor.podsets:
            path = f"spec.replicatedJobs[{podset.index}].template.spec.template.spec"
            affinity = object_at(podset.pod_spec, "affinity")
            fields += [f"{path}.affinity.{part}" for part in ("podAffinity", "podAntiAffinity") if affinity.get(part)]
            if podset.pod_spec.get("topologySpreadConstraints"):
                fields.append(f"{path}.topologySpreadConstraints")
        return fields or ["spec.replicatedJobs"]

    def _unknown(self, words: str) -> tuple[report.Verdict, str, str]:
        return "unknown", "Unknown", f"{words}not known: {'; '.join(dict.fromkeys(self.unknown))}"


_NOTHING_SHOWS: Final = "nothing shows that the nodes cannot hold it, but "


def _assumed(floor: Floor, wary: Floor) -> list[str]:
    """What the one assumes and the other does not, where they differ."""
    assumptions = []
    for number, node in enumerate(floor.nodes):
        for index in sorted(floor.takers[number] - wary.takers[number]):
            path = f"spec.replicatedJobs[{index}].template.spec.template.spec.tolerations"
            keys = [str(taint.get("key")) for taint in node.taints if "/" in str(taint.get("key"))]
            assumptions.append(
                f"{path}: whether admission adds a toleration of the taint {keys[0] if keys else ''} "
                "(kube-apiserver --enable-admission-plugins=ExtendedResourceToleration)"
            )
        if (node.unready or node.passing) and floor.takers_now(number) - wary.takers_now(number):
            assumptions.append(f'whether node "{node.name}" becomes ready')
    return list(dict.fromkeys(assumptions)) or [
        "which namespaces a namespaceSelector selects (give the Namespaces with their labels with --queues)"
    ]


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
        f"{report.show(resource, asked)} of at most {report.figure(resource, largest)}"
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
        return (
            f"a gang has {plural(proof.wanted, 'pod')} of {names} at once, and the nodes hold "
            f"{proof.there} of that size at most{why}{where}; ask for fewer pods, smaller ones, or more nodes"
        )
    resource = floor.name_of(proof.resource)
    return (
        f"{names} of one gang ask for {report.show(resource, proof.wanted)} at once, and the nodes have "
        f"{report.show(resource, proof.there)}{where}; ask for fewer pods, smaller ones, or more nodes"
    )


def _limits(floor: Floor, requests: Sequence[Amounts], stages: Sequence[Mapping[int, int]]) -> list[report.LimitReport]:
    """Each resource on all nodes that accept any of the pods."""
    usable = [node for node, takers in zip(floor.nodes, floor.takers, strict=True) if takers]
    reports = []
    for resource in floor.resources:
        of_one = [1 if resource == PODS else request.get(resource, 0) for request in requests]
        asked = max((sum(pods * of_one[index] for index, pods in stage.items()) for stage in stages), default=0)
        there = sum(node.capacity.get(resource, 0) for node in usable)
        taken = sum(floor.used.get(node.name, {}).get(resource, 0) for node in usable)
        reports.append(
            report.limit_report(
                "", resource, asked, there, plural(len(usable), "node"), nominal=there, used=taken, free=there - taken
            )
        )
    return reports
