"""The scenario: four JobSets of five pods each on eight CPUs, as training jobs that wait for their peers.

First all JobSets are created and none may finish, until nothing changes any more: eight CPUs filled pod by pod hold
pods of JobSets that cannot start. Then complete ones may finish. On existing nodes pods are of such a size that about
eight fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from gangctl.api.meta import GANG_MODE, JOBSET_API_VERSION
from gangctl.api.pods import HOSTNAME, REQUIRED, is_finished
from gangctl.api.quantity import milli, parse_quantity
from gangctl.errors import ClusterUnavailableError
from gangctl.sandbox.simulated.binder import requests_of
from gangctl.sandbox.simulated.controller import is_true

JOBSETS: Final = 4
PODS: Final = 5
"""Pods of each JobSet: a driver, and the workers."""
CPUS: Final = 8
"""Number of pods that fit."""

NAMES: Final = tuple(f"train-{i}" for i in range(JOBSETS))
IMAGE: Final = "registry.k8s.io/pause:3.10"


@dataclass(frozen=True, slots=True)
class PodNeeds:
    """Requests and node selection of each pod."""

    cpu: str = "1"
    node_selector: dict[str, str] = field(default_factory=dict)
    tolerations: tuple[dict[str, str], ...] = ()
    hostnames: tuple[str, ...] = ()


def jobset(name: str, placement: PodNeeds, *, gangs: bool) -> dict[str, Any]:
    """One JobSet; ``gangs`` is the one annotation that makes the difference."""
    metadata: dict[str, Any] = {"name": name}
    if gangs:
        metadata["annotations"] = {GANG_MODE: "Gang"}
    return {
        "apiVersion": JOBSET_API_VERSION,
        "kind": "JobSet",
        "metadata": metadata,
        "spec": {"replicatedJobs": [_job("driver", 1, placement), _job("workers", PODS - 1, placement)]},
    }


def _job(name: str, pods: int, placement: PodNeeds) -> dict[str, Any]:
    pod: dict[str, Any] = {
        "restartPolicy": "Never",
        # API servers delete such pods at once: nodes that are only objects have no kubelet to confirm it.
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": IMAGE, "resources": {"requests": {"cpu": placement.cpu}}}],
        **({"nodeSelector": placement.node_selector} if placement.node_selector else {}),
        **({"tolerations": list(placement.tolerations)} if placement.tolerations else {}),
    }
    if placement.hostnames:
        term = {"key": HOSTNAME, "operator": "In", "values": list(placement.hostnames)}
        required = {"nodeSelectorTerms": [{"matchExpressions": [term]}]}
        pod["affinity"] = {"nodeAffinity": {REQUIRED: required}}
    spec = {"backoffLimit": 0, "parallelism": pods, "completions": pods, "template": {"spec": pod}}
    return {"name": name, "replicas": 1, "template": {"spec": spec}}


_NODES: Final = 2
_SMALLEST: Final = 10
"""Milli-CPUs; smaller sizes are dominated by rounding."""

_WANTED: Final = (CPUS, CPUS - 1, CPUS + 1, CPUS - 2)
"""Places, best first: one JobSet fits, two do not, and one always leaves some free for another's pods."""


@dataclass(frozen=True, slots=True)
class Size:
    """Milli-CPUs of each pod, and the number of pods that fit on each node."""

    cpu: int
    places: Mapping[str, int]
    hostnames: tuple[str, ...]

    @property
    def placement(self) -> PodNeeds:
        """The same, as a quantity for requests."""
        return PodNeeds(f"{self.cpu}m", hostnames=self.hostnames)


def size(nodes: Sequence[Mapping[str, Any]], pods: Iterable[Mapping[str, Any]]) -> Size:
    """The largest pods of which about eight fit on the two emptiest nodes.

    Raises :class:`ClusterUnavailableError` when too little is free.
    """
    used: dict[str, int] = {}
    count: dict[str, int] = {}
    for pod in pods:
        node = pod["spec"].get("nodeName")
        if node and not is_finished(pod):
            asked = requests_of(dict(pod)).get("cpu")
            used[node] = used.get(node, 0) + (milli(asked) if asked else 0)
            count[node] = count.get(node, 0) + 1
    free = {
        node["metadata"]["name"]: _allocatable(node, "cpu") - used.get(node["metadata"]["name"], 0)
        for node in nodes
        if _is_open(node) and _allocatable(node, "pods") // 1000 - count.get(node["metadata"]["name"], 0) >= CPUS + 1
    }
    # Pods may request more than a node has, as static pods do.
    chosen = sorted((name for name in free if free[name] > 0), key=lambda name: (-free[name], name))[:_NODES]
    labels = {node["metadata"]["name"]: node["metadata"]["labels"][HOSTNAME] for node in nodes if _is_open(node)}
    for wanted in _WANTED:
        for cpu in sorted({free[name] // places for name in chosen for places in range(1, wanted + 1)}, reverse=True):
            if cpu >= _SMALLEST and sum(free[name] // cpu for name in chosen) == wanted:
                places = {name: free[name] // cpu for name in chosen}
                return Size(cpu, places, tuple(labels[name] for name in chosen))
    raise ClusterUnavailableError(
        f"no node that takes any pod has {_SMALLEST * (PODS + 1)} milli-CPUs free",
        hint="--nodes adds nodes that only exist as objects, for as long as the demo lasts",
    )


def _allocatable(node: Mapping[str, Any], resource: str) -> int:
    value = ((node.get("status") or {}).get("allocatable") or {}).get(resource)
    return milli(parse_quantity(str(value))) if value is not None else 0


def _is_open(node: Mapping[str, Any]) -> bool:
    spec = node.get("spec") or {}
    taints = [taint for taint in spec.get("taints") or [] if taint.get("effect") != "PreferNoSchedule"]
    labelled = HOSTNAME in (node["metadata"].get("labels") or {})
    return is_true(node, "Ready") and not spec.get("unschedulable") and not taints and labelled
