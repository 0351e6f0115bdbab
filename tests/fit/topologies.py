"""Random topologies, nodes, what runs on them and gangs, as raw objects that Kueue's webhooks accept."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from tests.fit.trees import QUEUE, kueue
from tests.jobsets import jobset, rj

Object = dict[str, Any]

HOST: Final = "kubernetes.io/hostname"
BLOCK, RACK = "example.com/block", "example.com/rack"
PREFIX: Final = "kueue.x-k8s.io/podset-"
LEVELS: Final = (
    *((BLOCK, RACK, HOST),) * 4,
    *((RACK, HOST),) * 4,
    (HOST,),
    (BLOCK, RACK),
    (RACK,),
)
PRIORITY: Final = "kueue.x-k8s.io/priority-class"
PRIORITIES: Final = {"low": -1, "high": 1}
"""Of the gang; the others have 0."""
_TAINT: Final = {"key": "dedicated", "value": "batch", "effect": "NoSchedule"}
_TOLERATION: Final = {"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}


@dataclass
class Site:
    """Objects whose names begin with ``name``: a queue with nodes of its own, two JobSets that may run, and a gang."""

    name: str
    levels: tuple[str, ...]
    flavors: list[Object] = field(default_factory=list)
    queue: Object = field(default_factory=dict)
    topology: Object = field(default_factory=dict)
    nodes: list[Object] = field(default_factory=list)
    pods: list[Object] = field(default_factory=list)
    holders: list[Object] = field(default_factory=list)
    gang: Object = field(default_factory=dict)


def site(seed: int, *, check: str) -> Site:
    """One site; ``check`` is an AdmissionCheck of its queue, which holds back what has quota."""
    random = Random(seed)
    made = Site(f"s{seed}", random.choice(LEVELS))
    made.topology = kueue("Topology", made.name, {"levels": [{"nodeLabel": level} for level in made.levels]})
    names = [f"{made.name}-f{index}" for index in range(random.choice((1, 1, 1, 2)))]
    made.flavors = [_flavor(random, made.name, name, apart=len(names) > 1) for name in names]
    made.queue = _queue(random, made.name, names, check)
    made.nodes = [_node(random, f"{made.name}-n{index}", made.name, names) for index in range(random.randint(2, 9))]
    for index in range(random.choice((0, 0, 1, 1, 2))):
        made.pods.append(_pod(f"{made.name}-p{index}", random.choice(made.nodes)["metadata"]["name"]))
    for index in range(random.choice((0, 1, 1, 2))):
        made.holders.append(_gang(random, f"{made.name}-h{index}", made, most=4))
    made.gang = _gang(random, made.name, made, most=8)
    made.gang["metadata"]["labels"][PRIORITY] = random.choice([*PRIORITIES])
    return made


def canary(check: str) -> Site:
    """A site with one node, and a gang that needs it."""
    made = Site("canary", (HOST,))
    made.topology = kueue("Topology", made.name, {"levels": [{"nodeLabel": HOST}]})
    made.flavors = [kueue("ResourceFlavor", made.name, {"nodeLabels": {"site": made.name}, "topologyName": made.name})]
    made.queue = _queue(Random(0), made.name, [made.name], check)
    amounts = {"cpu": "1", "memory": "1Gi", "pods": "9"}
    made.nodes = [_played(made.name, {HOST: made.name, "site": made.name}, amounts)]
    made.gang = _jobset(made.name, made.name, rj("w", 1, 1, 1))
    return made


def _flavor(random: Random, site: str, name: str, *, apart: bool) -> Object:
    """With several flavors, each may have nodes of its own, or all have the same."""
    labels = {"site": site, **({"flavor": name} if apart and random.random() < 0.7 else {})}
    tolerations = [_TOLERATION] if random.random() < 0.2 else []
    return kueue("ResourceFlavor", name, {"nodeLabels": labels, "tolerations": tolerations, "topologyName": site})


def _queue(random: Random, name: str, flavors: Sequence[str], check: str) -> Object:
    amounts = {"cpu": str(random.choice((6, 30, 30, 30))), "memory": "500Gi"}
    groups: dict[tuple[str, ...], Sequence[str]] = {("cpu", "memory"): flavors}
    if len(flavors) > 1 and random.random() < 0.15:
        groups = {("cpu",): flavors[:1], ("memory",): flavors[1:]}
    spec = {
        "namespaceSelector": {},
        "queueingStrategy": "BestEffortFIFO",
        "preemption": {"withinClusterQueue": random.choice(("Never", "Never", "LowerPriority"))},
        "resourceGroups": [
            {
                "coveredResources": [*covered],
                "flavors": [
                    {
                        "name": flavor,
                        "resources": [{"name": each, "nominalQuota": amounts[each]} for each in covered],
                    }
                    for flavor in names
                ],
            }
            for covered, names in groups.items()
        ],
        "admissionChecksStrategy": {"admissionChecks": [{"name": check}]},
    }
    return kueue("ClusterQueue", name, spec)


def _node(random: Random, name: str, site: str, flavors: Sequence[str]) -> Object:
    labels = {
        HOST: name,
        BLOCK: random.choice("ab"),
        RACK: random.choice("pq"),
        "site": site,
        "flavor": random.choice(flavors),
        "disk": random.choice(("fast", "fast", "slow")),
    }
    if random.random() < 0.07:
        del labels[random.choice((BLOCK, RACK))]
    spec: Object = {}
    if random.random() < 0.1:
        spec["taints"] = [{**_TAINT, "effect": random.choice(["NoSchedule", "PreferNoSchedule"])}]
    if random.random() < 0.05:
        spec["unschedulable"] = True
    amounts = {
        "cpu": random.choice(("1", "2", "2", "3", "4")),
        "memory": random.choice(("2Gi", "8Gi")),
        "pods": random.choice(("2", "20", "20")),
    }
    return {**_played(name, labels, amounts, ready=random.random() >= 0.05), "spec": spec}


def _played(name: str, labels: dict[str, str], amounts: dict[str, str], *, ready: bool = True) -> Object:
    status = {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": str(ready)}]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}


def _pod(name: str, node: str) -> Object:
    """A pod that Kueue does not know, on a node."""
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "500m"}}}
    spec = {"nodeName": node, "terminationGracePeriodSeconds": 0, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def _gang(random: Random, name: str, made: Site, *, most: int) -> Object:
    entries = []
    if random.random() < 0.2:
        level = random.choice(made.levels)
        mode = random.choice(("required", "preferred"))
        notes = {f"{PREFIX}{mode}-topology": level, f"{PREFIX}group-name": "group"}
        entries += [_entry(random, "leader", 1, notes), _entry(random, "w", random.randint(1, most), notes)]
    for index in range(random.choice((0, 1, 1, 2)) if entries else random.choice((1, 1, 1, 2, 3))):
        pods = random.randint(1, most)
        entries.append(_entry(random, f"w{index}", pods, _notes(random, made.levels, pods)))
    return _jobset(name, made.name, *entries)


def _jobset(name: str, queue: str, *entries: Object) -> Object:
    raw = jobset(name, *entries)
    del raw["metadata"]["namespace"]
    raw["metadata"]["labels"] = {QUEUE: queue}
    return raw


def _entry(random: Random, name: str, pods: int, notes: dict[str, str]) -> Object:
    requests = {"cpu": random.choice(("500m", "1", "1", "1500m", "2"))}
    if random.random() < 0.2:
        requests["memory"] = random.choice(("1Gi", "2Gi"))
    pod: Object = {"containers": [{"name": "main", "image": "none", "resources": {"requests": requests}}]}
    if random.random() < 0.15:
        pod["nodeSelector"] = {"disk": random.choice(("fast", "slow"))}
    elif random.random() < 0.1:
        need = {"key": "disk", "operator": random.choice(("In", "NotIn")), "values": ["slow"]}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [need]}]}
        pod["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    if random.random() < 0.3:
        pod["tolerations"] = [_TOLERATION]
    made = rj(name, 1, pods, pods, pod=pod)
    if notes:
        made["template"]["spec"]["template"]["metadata"] = {"annotations": notes}
    return made


def _notes(random: Random, levels: Sequence[str], pods: int) -> dict[str, str]:
    """A request for a topology; now and then for a level that is not there."""
    known = [*levels] if random.random() < 0.93 else ["example.com/zone"]
    match random.choice(("required", "required", "preferred", "unconstrained", "slices", "layers", "none")):
        case "required" | "preferred" as mode:
            return {f"{PREFIX}{mode}-topology": random.choice(known)} | (
                _slices(random, levels, pods) if random.random() < 0.2 else {}
            )
        case "unconstrained":
            return {f"{PREFIX}unconstrained-topology": "true"}
        case "slices":
            return _slices(random, known, pods)
        case "layers":
            return _layers(random, levels, pods)
    return {}


def _slices(random: Random, levels: Sequence[str], pods: int) -> dict[str, str]:
    whole = random.random() < 0.9
    size = random.choice([each for each in range(1, pods + 1) if pods % each == 0 or not whole])
    return {f"{PREFIX}slice-required-topology": random.choice(levels), f"{PREFIX}slice-size": str(size)}


def _layers(random: Random, levels: Sequence[str], pods: int) -> dict[str, str]:
    """Slices of slices, from wide to narrow levels; now and then the other way round, which no topology has."""
    chosen = random.sample(levels, random.randint(1, min(3, len(levels))))
    if random.random() < 0.9:
        chosen.sort(key=list(levels).index)
    entries, size = [], pods
    for level in chosen:
        size = random.choice([each for each in range(1, size + 1) if size % each == 0])
        entries.append({"topology": level, "size": size})
    return {f"{PREFIX}slice-required-topology-constraints": json.dumps(entries)}
