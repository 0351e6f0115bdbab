"""The random clusters of :mod:`tests.live.nodeworlds` with what pods and nodes rarely have.

Init containers, sidecars, resources of whole pods, huge pages, defaults of a LimitRange, a RuntimeClass; volumes of one
pod and with zones; features of kubelets; other pods that are resized, end, or have ended; other forms of rules.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Final

from gangctl.api.pods import REQUIRED
from tests.controlplane.api import Object
from tests.live.nodeworlds import HOST, WORLD, ZONE, Chances, NodeWorld
from tests.live.nodeworlds import world as node_world

RANK: Final = "example.com/rank"
HUGE: Final = "hugepages-2Mi"
REGION_ZONE: Final = "topology.kubernetes.io/zone"
_FEATURE: Final = "RestartAllContainersOnContainerExits"
_ONE_POD: Final = "ReadWriteOncePod"
PLAYED: Final = (
    *(1003, 1010, 1016, 1017, 1021, 1024, 1025, 1032, 1050, 1058),
    *(1080, 1090, 1095, 1107, 1118, 1145, 1167, 1172, 1175, 1181),
)
"""Seeds of worlds that show what is overlooked: tests/fit/test_detailed_worlds.py overlooks it on purpose."""


@dataclass(frozen=True)
class DetailedWorld(NodeWorld):
    """A world with a LimitRange or a RuntimeClass, which are made before any pod."""

    rules: tuple[Object, ...]

    @property
    def known(self) -> Iterator[Object]:
        """All objects but the JobSet."""
        yield from (*super().known, *self.rules)


def world(seed: int) -> DetailedWorld:
    """The world of a seed."""
    return _Draw(node_world(seed)).world()


class _Draw(Chances):
    def __init__(self, made: NodeWorld) -> None:
        self.made = made
        self.random = Random(f"{made.seed}-details")
        self.nodes = copy.deepcopy([*made.nodes])
        self.others = copy.deepcopy([*made.others])
        self.claims = copy.deepcopy([*made.claims])
        self.jobset = copy.deepcopy(made.jobset)
        self.ranged = self.some(0.35)
        """Whether a LimitRange gives memory to containers that say nothing."""
        self.classed = self.some(0.2)
        """Whether pods of the JobSet have a RuntimeClass."""

    def world(self) -> DetailedWorld:
        made = self.made
        for node in self.nodes:
            self._node(node)
        for other in self.others:
            self._other(other)
        for entry in self.jobset["spec"]["replicatedJobs"]:
            self._entry(entry)
        for claim, volume in self._volumes():
            self._volume(claim, volume)
        base = (made.seed, tuple(self.nodes), tuple(self.others), tuple(self.claims), self.jobset, made.admitted)
        return DetailedWorld(*base, tuple(self._rules()))

    def _node(self, node: Object) -> None:
        status, labels = node["status"], node["metadata"]["labels"]
        if self.some(0.8):
            amounts = {HUGE: self.random.choice(("64Mi", "128Mi"))}
            status |= {kind: {**status[kind], **amounts} for kind in ("capacity", "allocatable")}
        if self.some(0.7):
            labels[RANK] = self.random.choice(("1", "2", "3", "04", "many"))
        if self.some(0.6):
            labels[REGION_ZONE] = self.random.choice("ab")
        if self.some(0.8):
            status["declaredFeatures"] = [_FEATURE]
        if self.some(0.1):
            node["spec"]["taints"].append({"key": "example.com/avoid", "effect": "PreferNoSchedule"})

    def _other(self, other: Object) -> None:
        spec, status = other["spec"], other["status"]
        resources = spec["containers"][0]["resources"]
        # A LimitRange gives it nothing: what it takes of a node is in its file.
        amounts = {"memory": self.random.choice(("1Gi", "4Gi"))}
        resources |= {"requests": {**resources["requests"], **amounts}, "limits": amounts}
        self._ports(spec)
        choice = self.random.random()
        if choice < 0.35:
            self._resize(spec, status)
        elif choice < 0.42:
            status["phase"] = self.random.choice(("Succeeded", "Failed"))
        elif choice < 0.5:
            other["metadata"] |= {"deletionTimestamp": "2100-01-01T00:00:00Z", "deletionGracePeriodSeconds": 3600}
        elif choice < 0.65:
            spec["initContainers"] = [self._container("first", self.random.choice(("2", "4")), sidecar=self.some(0.5))]

    def _ports(self, spec: Object) -> None:
        for port in spec["containers"][0].get("ports", ()):
            port.update({"protocol": "UDP"} if self.some(0.3) else {})

    def _resize(self, spec: Object, status: Object) -> None:
        """The CPUs that the pod wants are not what the node has given to it."""
        requests = spec["containers"][0]["resources"]["requests"]
        given, used = ({**requests, "cpu": self.random.choice("1357")} for _ in range(2))
        reported = {"resources": {"requests": used}} if self.some(0.7) else {}
        status["containerStatuses"] = [
            {
                "name": "main",
                "ready": True,
                "restartCount": 0,
                "image": "none",
                "imageID": "none",
                "allocatedResources": given,
                **reported,
            }
        ]
        kind, reason = self.random.choice(
            (("PodResizePending", "Infeasible"), ("PodResizePending", "Deferred"), ("PodResizeInProgress", ""))
        )
        status["conditions"] = [{"type": kind, "status": "True", **({"reason": reason} if reason else {})}]

    def _container(self, name: str, cpu: str, *, sidecar: bool = False) -> Object:
        # With memory of its own: see the LimitRange.
        amounts = {"cpu": cpu, "memory": "1Gi"}
        resources = {"requests": amounts, "limits": {"memory": "1Gi"}}
        policy = {"restartPolicy": "Always"} if sidecar else {}
        return {"name": name, "image": "none", "resources": resources, **policy}

    def _entry(self, entry: Object) -> None:
        spec = entry["template"]["spec"]["template"]["spec"]
        if self.some(0.7):
            # Of two rules the stricter one decides: the details alone show more.
            spec.pop("affinity", None)
            spec.pop("topologySpreadConstraints", None)
        self._amounts(spec)
        if self.classed and self.some(0.8):
            spec["runtimeClassName"] = self.made.name
        if self.some(0.1):
            rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}
            spec["containers"][0] |= {"restartPolicy": "Never", "restartPolicyRules": [rule]}
        if self.some(0.15) and "nodeAffinity" not in (affinity := spec.setdefault("affinity", {})):
            terms = [self._node_term() for _ in range(self.random.choice((1, 1, 2)))]
            required = {REQUIRED: {"nodeSelectorTerms": terms}}
            affinity["nodeAffinity"] = required
        for part in ("podAffinity", "podAntiAffinity"):
            for term in spec.get("affinity", {}).get(part, {}).get(REQUIRED, ()):
                self._term(term)
        if self.some(0.1):
            constraint = {"maxSkew": 1, "topologyKey": self.random.choice((HOST, ZONE))}
            constraint["whenUnsatisfiable"] = "DoNotSchedule"
            spec["topologySpreadConstraints"] = [constraint | self._selector()]
        if self.some(0.35) and not spec.get("volumes"):
            name = f"more-{entry['name']}"
            spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
            self.claims += self._claim(name)
        self._ports(spec)

    def _amounts(self, spec: Object) -> None:
        """What the containers of a pod request, and the pod as a whole."""
        main = spec["containers"][0]["resources"]
        choice = self.random.random()
        if choice < 0.2:
            sidecar = self.some(0.5)
            spec["initContainers"] = [self._container("first", self.random.choice(("1", "2", "4")), sidecar=sidecar)]
        elif choice < 0.3:
            pair = (self._container("first", "1", sidecar=True), self._container("second", "3"))
            spec["initContainers"] = [*(pair if self.some(0.5) else reversed(pair))]
        elif choice < 0.45:
            least = int(main["requests"]["cpu"])
            kinds = self.random.choice((("requests",), ("limits",), ("requests", "limits")))
            amount = str(least + self.random.choice((0, 1, 2)))
            spec["resources"] = {kind: {"cpu": amount} for kind in kinds}
            if self.some(0.3):
                # What the only container requests is given to the pod alone.
                del main["requests"]["cpu"]
        elif choice < 0.6:
            amount = self.random.choice(("32Mi", "64Mi", "96Mi"))
            main |= {kind: {**main.get(kind, {}), HUGE: amount} for kind in ("requests", "limits")}
        elif choice < 0.8:
            name, amount = self.random.choice((("cpu", "2"), ("cpu", "4"), ("memory", "5Gi"), ("memory", "1Gi")))
            main["limits"] = {**main.get("limits", {}), name: amount}
            if self.some(0.5):
                main["requests"].pop(name, None)
            else:
                main["requests"][name] = "1" if name == "cpu" else "1Gi"

    def _node_term(self) -> Object:
        operator = self.random.choice(("Gt", "Lt", "Exists", "DoesNotExist", "In", "NotIn"))
        values: dict[str, list[str]] = {"Gt": ["1"], "Lt": ["3"], "In": ["1", "2"], "NotIn": ["1", "many"]}
        expression: Object = {"key": RANK, "operator": operator}
        if operator in values:
            expression["values"] = values[operator]
        expressions = [expression]
        if self.some(0.2):
            expressions.append({"key": ZONE, "operator": "Exists"})
        return {"matchExpressions": expressions}

    def _selector(self) -> Object:
        """Of pods of any label, of none, or of the pod's own."""
        return self.random.choice(({"labelSelector": {}}, {}, {"labelSelector": {}, "matchLabelKeys": ["app"]}))

    def _term(self, term: Object) -> None:
        if "matchLabelKeys" in term or "mismatchLabelKeys" in term or not self.some(0.4):
            return
        choice = self.random.random()
        if choice < 0.3:
            term["labelSelector"] = {}
        elif choice < 0.6:
            term["labelSelector"] = {}
            term[self.random.choice(("matchLabelKeys", "mismatchLabelKeys"))] = ["app"]
        elif choice < 0.8:
            term["namespaces"] = [self.random.choice((self.made.name, "elsewhere"))]
            term.pop("namespaceSelector", None)
        else:
            # Of all worlds: their nodes are others, and their zones are not.
            anywhere = {"matchExpressions": [{"key": WORLD, "operator": "Exists"}]}
            term |= {"topologyKey": HOST, "namespaceSelector": anywhere}

    def _claim(self, name: str) -> Iterator[Object]:
        """A claim that is bound to a volume for all nodes."""
        volume, size, modes = f"{self.made.name}-{name}", {"storage": "1Gi"}, ["ReadWriteMany"]
        place = {"storageClassName": "none", "accessModes": modes}
        yield {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": volume},
            "spec": {
                **place,
                "capacity": size,
                "csi": {"driver": "example.com", "volumeHandle": volume},
                "claimRef": {"namespace": self.made.name, "name": name},
            },
            "status": {"phase": "Bound"},
        }
        notes = {"pv.kubernetes.io/bind-completed": "yes"}
        yield {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": self.made.name, "annotations": notes},
            "spec": {**place, "resources": {"requests": size}, "volumeName": volume},
            "status": {"phase": "Bound", "accessModes": modes, "capacity": size},
        }

    def _volumes(self) -> Iterator[tuple[Object, Object]]:
        """Claims that are bound, each with its volume."""
        volumes = {raw["metadata"]["name"]: raw for raw in self.claims if raw["kind"] == "PersistentVolume"}
        for raw in self.claims:
            if (volume := volumes.get(raw["spec"].get("volumeName", ""))) is not None:
                yield raw, volume

    def _volume(self, claim: Object, volume: Object) -> None:
        if self.some(0.5):
            volume["spec"].pop("nodeAffinity", None)
            volume["metadata"]["labels"] = {REGION_ZONE: self.random.choice(("a", "b", "a__b"))}
        if self.some(0.3):
            for part in (volume["spec"], claim["spec"], claim["status"]):
                part["accessModes"] = [_ONE_POD]
            if self.others and self.some(0.3):
                entry = {"name": "data", "persistentVolumeClaim": {"claimName": claim["metadata"]["name"]}}
                self.random.choice(self.others)["spec"]["volumes"] = [entry]

    def _rules(self) -> Iterator[Object]:
        name = self.made.name
        if self.ranged:
            entry: Object = {"type": "Container", "defaultRequest": {"memory": self.random.choice(("3Gi", "6Gi"))}}
            if self.some(0.5):
                entry["default"] = {"memory": "6Gi"}
            metadata = {"name": "defaults", "namespace": name}
            yield {"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": {"limits": [entry]}}
        if self.classed:
            raw = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name}, "handler": "any"}
            if self.some(0.7):
                raw["overhead"] = {"podFixed": {"cpu": self.random.choice(("500m", "1", "2"))}}
            if self.some(0.3):
                raw["scheduling"] = {
                    "nodeSelector": {RANK: self.random.choice("12")},
                    "tolerations": [{"key": "example.com/dedicated", "operator": "Exists"}],
                }
            yield raw
