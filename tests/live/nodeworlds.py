"""Random small clusters with a gang: nodes with taints, other pods, ports, affinity, spread and claims; by seed."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from gangctl.api.emit import to_yaml
from gangctl.api.meta import GANGS, JOB_KEY, JOBSET_NAME
from tests.controlplane.api import Object
from tests.jobsets import MODE, OPTIONS, jobset

ZONE: Final = "example.com/zone"
HOST: Final = "kubernetes.io/hostname"
WORLD: Final = "example.com/world"
GPU: Final = "example.com/gpu"
DEDICATED: Final[Mapping[str, str]] = {"key": "example.com/dedicated", "value": "a", "effect": "NoSchedule"}
LATER: Final[Object] = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "later"},
    "provisioner": "kubernetes.io/no-provisioner",
    "volumeBindingMode": "WaitForFirstConsumer",
}
"""Of claims that no volume is for."""


@dataclass(frozen=True)
class NodeWorld:
    """Everything in one namespace and on its nodes."""

    seed: int
    nodes: tuple[Object, ...]
    others: tuple[Object, ...]
    claims: tuple[Object, ...]
    jobset: Object
    admitted: bool
    """Whether admission adds the toleration of the pods' extended resource, as ExtendedResourceToleration does."""

    @property
    def name(self) -> str:
        """Its namespace, and the value of a label of its nodes."""
        return f"world-{self.seed}"

    @property
    def known(self) -> Iterator[Object]:
        """All objects but the JobSet."""
        metadata = {"name": self.name, "labels": {WORLD: self.name}}
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        yield from (*self.nodes, *self.claims, *self.others)

    def as_admitted(self, spec: Object) -> Object:
        """The spec of a pod as admission makes it."""
        if not self.admitted or GPU not in str(spec["containers"]):
            return spec
        added = {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}
        return {**spec, "tolerations": [*spec.get("tolerations", ()), added]}

    def __str__(self) -> str:
        """As YAML, for ``gangctl fit -f world.yaml --queues world.yaml --fixed-nodes``."""
        return str(to_yaml([*self.known, self.jobset]))


def world(seed: int) -> NodeWorld:
    """The world of a seed, with one gang."""
    return _Draw(seed).world()


def with_gangs(made: NodeWorld) -> NodeWorld:
    """The same with other gangs: of each replicated job or of each replica, or each in one domain of nodes."""
    random, raw = Random(f"{made.seed}-gangs"), copy.deepcopy(made.jobset)
    notes = raw["metadata"]["annotations"]
    if random.random() < 0.6:
        del notes[MODE]
        for entry in raw["spec"]["replicatedJobs"]:
            mode = random.choice(("Gang", "ReplicatedGang"))
            entry["template"]["metadata"] = {"annotations": {MODE: mode}}
    if random.random() < 0.4:
        notes[OPTIONS] = json.dumps({"topologyKey": random.choice((HOST, ZONE, ZONE))})
    return replace(made, jobset=raw)


def with_minimum(made: NodeWorld) -> NodeWorld:
    """The same with gangs that start with fewer than all of their pods: one, or one of each replicated job."""
    random, raw = Random(f"{made.seed}-minimum"), copy.deepcopy(made.jobset)
    notes, entries = raw["metadata"]["annotations"], raw["spec"]["replicatedJobs"]
    del notes[MODE]
    gangs: list[Object] = []
    for names in random.choice(([[entry["name"] for entry in entries]], [[entry["name"]] for entry in entries])):
        members = [entry for entry in entries if entry["name"] in names]
        apart = len(members) == 1 and random.random() < 0.5
        pods = sum(entry["template"]["spec"]["parallelism"] * (1 if apart else entry["replicas"]) for entry in members)
        gangs.append({"name": f"gang-{names[0]}", "replicatedJobs": names, "minCount": random.randint(1, pods)})
        if apart:
            gangs[-1]["perReplica"] = True
    notes[GANGS] = json.dumps(gangs)
    return replace(made, jobset=raw)


class Chances:
    """What a seed decides."""

    random: Random

    def some(self, chance: float) -> bool:
        return self.random.random() < chance


class _Draw(Chances):
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.name = f"world-{seed}"
        self.accelerated = self.some(0.35)

    def world(self) -> NodeWorld:
        nodes = tuple(self._node(number) for number in range(self.random.randint(2, 6)))
        others = tuple(self._other(number, nodes) for number in range(self.random.randint(0, 6)))
        claims: list[Object] = []
        entries = [self._entry(name, claims) for name in ("w", "v")[: self.random.choice((1, 1, 2))]]
        raw = jobset("js", *entries, mode="Gang")
        raw["metadata"]["namespace"] = self.name
        return NodeWorld(self.seed, nodes, others, tuple(claims), raw, self.some(0.5))

    def _node(self, number: int) -> Object:
        name = f"{self.name}-n{number}"
        cpu, gpus = self.random.choice((4, 8, 8, 16)), self.random.choice((0, 4) if self.accelerated else (0,))
        amounts = {"cpu": str(cpu), "memory": "16Gi", "pods": str(self.random.choice((9, 110)))}
        taints: list[Mapping[str, str]] = []
        if gpus:
            amounts[GPU] = str(gpus)
            taints += [{"key": GPU, "value": "present", "effect": "NoSchedule"}] * self.some(0.5)
        taints += [DEDICATED] * self.some(0.15)
        labels = {HOST: name, WORLD: self.name}
        if self.some(0.9):
            labels[ZONE] = self.random.choice("ab")
        spec: Object = {"taints": taints}
        if self.some(0.06):
            spec["unschedulable"] = True
            taints.append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
        elif self.some(0.06):
            taints.append({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"})
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "played by a test"}
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": spec,
            "status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]},
        }

    def _other(self, number: int, nodes: tuple[Object, ...]) -> Object:
        node = self.random.choice(nodes)["metadata"]["name"]
        spec = {**self._containers(str(self.random.choice((1, 1, 2)))), "nodeName": node}
        if self.some(0.2):
            spec["containers"][0]["ports"] = [self._port()]
        if self.some(0.25):
            spec["affinity"] = {"podAntiAffinity": self._required(self._term())}
        labels = {"app": self.random.choice("abc")}
        metadata = {"name": f"other-{number}", "namespace": self.name, "labels": labels}
        status = {"phase": "Running"}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}

    def _containers(self, cpu: str) -> Object:
        requests = {"cpu": cpu}
        return {"containers": [{"name": "main", "image": "none", "resources": {"requests": requests}}]}

    def _port(self) -> Object:
        port = self.random.choice((7000, 7001))
        address = {"hostIP": self.random.choice(("10.0.0.1", "10.0.0.2"))} if self.some(0.3) else {}
        return {"containerPort": port, "hostPort": port, **address}

    def _required(self, *terms: Object) -> Object:
        return {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}

    def _term(self) -> Object:
        key = self.random.choice((HOST, HOST, ZONE))
        operator = self.random.choice(("In", "In", "NotIn"))
        expression = {"key": "app", "operator": operator, "values": [self.random.choice("abc")]}
        term: Object = {"topologyKey": key, "labelSelector": {"matchExpressions": [expression]}}
        if self.some(0.15):
            term["namespaceSelector"] = {"matchLabels": {WORLD: self.random.choice((self.name, "none"))}}
        return term

    def _entry(self, name: str, claims: list[Object]) -> Object:
        count, replicas = self.random.randint(1, 5), 1
        if count < 4 and self.some(0.25):
            replicas = 2
        app = self.random.choice("ab")
        spec = {"restartPolicy": "Never", **self._containers(str(self.random.choice((1, 1, 2, 3))))}
        self._needs(spec)
        spec["nodeSelector"] = {WORLD: self.name}
        if self.some(0.1):
            spec["nodeSelector"][ZONE] = self.random.choice("ab")
        if self.some(0.4):
            toleration = {"key": DEDICATED["key"], "operator": "Exists"}
            spec["tolerations"] = [self.random.choice((toleration, toleration, {"operator": "Exists"}))]
        if affinity := self._affinity():
            spec["affinity"] = affinity
        if self.some(0.2):
            spec["topologySpreadConstraints"] = [self._spread(app)]
        if self.some(0.1):
            spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": f"data-{name}"}}]
            claims += self._claim(f"data-{name}")
        template = {"metadata": {"labels": {"app": app}}, "spec": spec}
        job = {"parallelism": count, "completions": count, "template": template}
        return {"name": name, "replicas": replicas, "template": {"spec": job}}

    def _needs(self, spec: Object) -> None:
        """Devices and ports."""
        resources = spec["containers"][0]["resources"]
        if self.accelerated and self.some(0.6):
            amount = str(self.random.choice((1, 1, 2, 4)))
            resources["requests"][GPU] = amount
            resources["limits"] = {GPU: amount}
        if self.some(0.15):
            port = self._port()
            if self.some(0.3):
                spec["hostNetwork"] = True
                del port["hostPort"]
            spec["containers"][0]["ports"] = [port]

    def _affinity(self) -> Object:
        affinity: Object = {}
        if self.some(0.1):
            operator = self.random.choice(("In", "NotIn"))
            zone = {"key": ZONE, "operator": operator, "values": [self.random.choice("ab")]}
            terms = {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}
            affinity["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
        if self.some(0.2):
            affinity["podAntiAffinity"] = self._required(self._term())
        if self.some(0.15):
            affinity["podAffinity"] = self._required(self._term())
        if self.some(0.08):
            # As convert --replace-exclusive-topology writes it.
            jobs: Object = {"labelSelector": {"matchExpressions": [{"key": JOBSET_NAME, "operator": "Exists"}]}}
            jobs["topologyKey"] = self.random.choice((HOST, ZONE))
            affinity["podAffinity"] = self._required({**jobs, "matchLabelKeys": [JOB_KEY]})
            affinity["podAntiAffinity"] = self._required({**jobs, "mismatchLabelKeys": [JOB_KEY]})
        return affinity

    def _spread(self, app: str) -> Object:
        constraint: Object = {
            "maxSkew": self.random.choice((1, 1, 2)),
            "topologyKey": self.random.choice((HOST, ZONE)),
            "whenUnsatisfiable": self.random.choice(("DoNotSchedule", "DoNotSchedule", "ScheduleAnyway")),
            "labelSelector": {"matchLabels": {"app": app}},
        }
        if self.some(0.2) and constraint["whenUnsatisfiable"] == "DoNotSchedule":
            constraint["minDomains"] = self.random.choice((1, 2, 3))
        if self.some(0.3):
            constraint["nodeTaintsPolicy"] = "Honor"
        return constraint

    def _claim(self, name: str) -> Iterator[Object]:
        """A claim that is bound to a volume of one zone, or to none."""
        volume, size = f"{self.name}-{name}", {"storage": "1Gi"}
        bound = self.some(0.9)
        claim: Object = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": self.name},
            "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": size}},
        }
        if not bound:
            claim["spec"]["storageClassName"] = "later"
            yield claim
            return
        zone = {"key": ZONE, "operator": "In", "values": [self.random.choice("ab")]}
        yield {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": volume},
            "spec": {
                "capacity": size,
                "accessModes": ["ReadWriteMany"],
                "storageClassName": "none",
                "csi": {"driver": "example.com", "volumeHandle": volume},
                "claimRef": {"namespace": self.name, "name": name},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}},
            },
            "status": {"phase": "Bound"},
        }
        claim["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
        claim["spec"] |= {"storageClassName": "none", "volumeName": volume}
        claim["status"] = {"phase": "Bound", "accessModes": ["ReadWriteMany"], "capacity": size}
        yield claim
