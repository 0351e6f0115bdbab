"""Random namespaces with what keeps the API server from creating pods, and a JobSet with room on the nodes; by seed.

LimitRanges, ResourceQuotas with scopes, PriorityClasses and RuntimeClasses, which may be missing; templates of claims;
and pods of others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Final

from gangctl.api.emit import to_yaml
from tests.controlplane.api import Object
from tests.jobsets import jobset
from tests.live.deviceworlds import API_VERSION, CLASS, DRIVER
from tests.live.nodeworlds import GPU, HOST, Chances

PLAYED: Final = (*range(2030, 2090), 2098, 2123, 2130, 2141, 2175, 2253, 2409, 2621, 2935)
"""Seeds of worlds that show what is overlooked: tests/fit/test_creation_worlds.py overlooks it on purpose."""
DISK: Final = "ephemeral-storage"
NODE: Final[Object] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "wide", "labels": {HOST: "wide"}},
    "spec": {},
    "status": {
        "allocatable": {"cpu": "1k", "memory": "1Ti", DISK: "1Ti", GPU: "1k", "pods": "1k"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}
"""It has room for all: nodes decide nothing here."""
SLICE: Final[Object] = {
    "apiVersion": API_VERSION,
    "kind": "ResourceSlice",
    "metadata": {"name": "wide"},
    "spec": {
        "driver": DRIVER,
        "nodeName": "wide",
        "pool": {"name": "wide", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": f"d{number}"} for number in range(128)],
    },
}
SHARED: Final = (NODE, CLASS, SLICE)
"""What is known of every world; the API server does not need it."""
_UNITS: Final = {"cpu": "", "memory": "Gi", DISK: "Gi"}
_RANGED: Final = ("cpu", "memory")


@dataclass(frozen=True)
class CreationWorld:
    """What is in one namespace; ``pods`` are of others."""

    seed: int
    classes: tuple[Object, ...]
    rules: tuple[Object, ...]
    templates: tuple[Object, ...]
    """Of claims."""
    pods: tuple[Object, ...]
    jobset: Object

    @property
    def name(self) -> str:
        """Its namespace."""
        return f"created-{self.seed}"

    def __str__(self) -> str:
        """As YAML, for ``gangctl fit -f world.yaml --queues world.yaml --fixed-nodes``."""
        return str(to_yaml([*SHARED, *self.classes, *self.rules, *self.templates, *self.pods, self.jobset]))


def world(seed: int) -> CreationWorld:
    """The world of a seed."""
    return _Draw(seed).world()


class _Draw(Chances):
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random, self.claims = Random(f"{seed}-creation"), Random(f"{seed}-claims")
        self.levels = Random(f"{seed}-levels")
        self.name = f"created-{seed}"
        self.devices = self.some(0.3)
        self.classes = [f"{self.name}-{kind}" if self.some(0.25) else "" for kind in ("priority", "runtime")]

    def world(self) -> CreationWorld:
        entries = [self._entry(name) for name in ("w", "v")[: self.random.choice((1, 1, 2))]]
        raw = jobset("js", *entries, mode="Gang")
        raw["metadata"]["namespace"] = self.name
        ranges = [self._range(number) for number in range(self.random.choice((0, 0, 1, 1, 2)))]
        quotas = [self._quota(number) for number in range(self.random.choice((0, 1, 1, 2)))]
        others = [self._other(number) for number in range(self.random.randint(0, 4))]
        classes, templates = tuple(self._existing()), []
        if self.claims.random() < 0.2:
            quotas.append(self._quota_of_claims())
            templates = [self._template(entry) for entry in entries if self.claims.random() < 0.8]
        return CreationWorld(self.seed, classes, (*ranges, *quotas), tuple(templates), tuple(others), raw)

    def _template(self, entry: Object) -> Object:
        """What each pod of a replicated job claims, which it names from now on."""
        name = f"t-{entry['name']}"
        entry["template"]["spec"]["template"]["spec"]["resourceClaims"] = [
            {"name": "devices", "resourceClaimTemplateName": name}
        ]
        requests: list[Object] = [{"name": f"r{number}"} for number in range(self.claims.choice((1, 1, 2)))]
        for request in requests:
            options = [{"deviceClassName": "gpu", "count": self.claims.choice((1, 1, 2, 4))} for _ in range(2)]
            match self.claims.choice(("count", "count", "count", "all", "first")):
                case "count":
                    request["exactly"] = options[0]
                case "all":
                    request["exactly"] = {"deviceClassName": "gpu", "allocationMode": "All"}
                case "first":
                    request["firstAvailable"] = [{"name": f"o{at}", **one} for at, one in enumerate(options)]
        return {
            "apiVersion": API_VERSION,
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": name, "namespace": self.name},
            "spec": {"spec": {"devices": {"requests": requests}}},
        }

    def _quota_of_claims(self) -> Object:
        names = {
            "gpu.deviceclass.resource.k8s.io/devices": (4, 8, 16, 32),
            "count/resourceclaims.resource.k8s.io": (2, 4, 8),
        }
        chosen = self.claims.sample(sorted(names), self.claims.choice((1, 1, 2)))
        return {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "quota-claims", "namespace": self.name},
            "spec": {"hard": {name: str(self.claims.choice(names[name])) for name in sorted(chosen)}},
        }

    def _existing(self) -> Iterator[Object]:
        """The classes, if they are not forgotten."""
        priority, runtime = self.classes
        if priority and self.some(0.75):
            yield {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": priority},
                "value": 10,
            }
        if runtime and self.some(0.75):
            made: Object = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": runtime}}
            made["handler"] = "none"
            if self.some(0.6):
                made["overhead"] = {"podFixed": {"cpu": self.random.choice(("500m", "1")), "memory": "1Gi"}}
            yield made

    def _spec(self) -> Object:
        spec: Object = {"containers": [self._container(f"c{index}") for index in range(self.random.choice((1, 1, 2)))]}
        if self.some(0.25):
            spec["initContainers"] = [self._container("init")]
            if self.some(0.5):
                spec["initContainers"][0]["restartPolicy"] = "Always"
        if self.some(0.12):
            # More than all containers may have, as validation demands.
            spec["resources"] = {"requests": {"cpu": "16"}, "limits": {"cpu": "20", "memory": "40Gi"}}
            if self.some(0.5):
                del spec["resources"]["requests"]
            match self.levels.choice(("wide", "narrow", "request")):
                case "narrow":
                    # No more than LimitRanges allow: with their defaults of containers it may be too little.
                    spec["resources"] = {"limits": {"cpu": "4", "memory": "4Gi"}}
                    for one in spec["containers"]:
                        one.pop("resources", None)
                case "request":
                    spec["resources"] = {"requests": {"cpu": "16"}}
        if self.some(0.2):
            spec["activeDeadlineSeconds"] = 600
        return spec

    def _container(self, name: str) -> Object:
        requests, limits = {}, {}
        for resource, chance in (("cpu", 0.75), ("memory", 0.5), (DISK, 0.1)):
            if not self.some(chance):
                continue
            low, high = sorted(self.random.choices((1, 1, 2, 3, 4), k=2))
            how = self.random.choice(("request", "request", "limit", "both", "same"))
            if how != "limit":
                requests[resource] = f"{low}{_UNITS[resource]}"
            if how != "request":
                limits[resource] = f"{low if how == 'same' else high}{_UNITS[resource]}"
        if self.devices and self.some(0.6):
            limits[GPU] = str(self.random.choice((1, 1, 2)))
        made: Object = {"name": name, "image": "none"}
        resources = {key: value for key, value in (("requests", requests), ("limits", limits)) if value}
        return {**made, "resources": resources} if resources else made

    def _entry(self, name: str) -> Object:
        count, replicas = self.random.randint(1, 4), self.random.choice((1, 1, 1, 2))
        spec = {"restartPolicy": "Never", **self._spec()}
        named = zip(("priorityClassName", "runtimeClassName"), self.classes, strict=True)
        spec |= {key: value for key, value in named if value and self.some(0.8)}
        job = {"parallelism": count, "completions": count, "template": {"spec": spec}}
        return {"name": name, "replicas": replicas, "template": {"spec": job}}

    def _other(self, number: int) -> Object:
        metadata = {"name": f"other-{number}", "namespace": self.name}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": self._spec()}

    def _range(self, number: int) -> Object:
        kinds = self.random.choice((["Container"], ["Container"], ["Pod"], ["Container", "Pod"]))
        return {
            "apiVersion": "v1",
            "kind": "LimitRange",
            "metadata": {"name": f"range-{number}", "namespace": self.name},
            "spec": {"limits": [self._limits(kind) for kind in kinds]},
        }

    def _limits(self, kind: str) -> Object:
        """One entry, in which min <= defaultRequest <= default <= max, as validation demands."""
        entry: Object = {"type": kind}
        for resource in self.random.sample(_RANGED, self.random.choice((1, 1, 2))):
            steps = sorted(self.random.choices((1, 2, 3, 4), k=4))
            wide = 3 if kind == "Pod" else 1
            for key, step, chance in zip(
                ("min", "defaultRequest", "default", "max"), steps, (0.25, 0.5, 0.5, 0.4), strict=True
            ):
                if self.some(chance) and (kind == "Container" or not key.startswith("default")):
                    amount = step * wide if key == "max" else step
                    entry.setdefault(key, {})[resource] = f"{amount}{_UNITS[resource]}"
            if self.some(0.1) and resource not in entry.get("min", {}):
                entry.setdefault("maxLimitRequestRatio", {})[resource] = self.random.choice(("1", "2"))
        return entry

    def _quota(self, number: int) -> Object:
        spec: Object = {}
        best_effort = False
        match self.random.choice((*("none",) * 5, "scope", "scope", "class")):
            case "scope":
                scope = self.random.choice(("Terminating", "NotTerminating", "BestEffort", "NotBestEffort"))
                best_effort = scope == "BestEffort"
                spec["scopes"] = [scope]
            case "class":
                operator = self.random.choice(("In", "NotIn", "Exists", "DoesNotExist"))
                term: Object = {"scopeName": "PriorityClass", "operator": operator}
                if operator.endswith("In"):
                    term["values"] = [f"{self.name}-priority"]
                spec["scopeSelector"] = {"matchExpressions": [term]}
        names = ["pods", "pods", "requests.cpu", "cpu", "limits.cpu", "requests.memory", "memory", "limits.memory"]
        if not spec:
            # Validation takes only those above with a scope.
            names += [f"requests.{GPU}", f"requests.{DISK}", f"limits.{DISK}", "count/pods", "count/jobs.batch"]
        chosen = ["pods"] if best_effort else self.random.sample(names, self.random.choice((1, 2, 3)))
        spec["hard"] = {name: self._hard(name) for name in sorted(set(chosen))}
        return {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": f"quota-{number}", "namespace": self.name},
            "spec": spec,
        }

    def _hard(self, name: str) -> str:
        if name == "count/jobs.batch":
            return str(self.random.choice((1, 2, 4)))
        if "pods" in name:
            return str(self.random.choice((2, 4, 6, 8, 12)))
        unit = next((unit for resource, unit in _UNITS.items() if name.endswith(resource)), "")
        return f"{self.random.choice((2, 4, 8, 16, 32, 64))}{unit}"
