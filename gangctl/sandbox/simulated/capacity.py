"""Free capacity of nodes, and eligible pods: resources, node selectors, taints.

Affinity, volumes, ports and topology spread are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any, Final

from gangctl.api.quantity import parse_quantity
from gangctl.sandbox.objects import Object, name_of
from gangctl.sandbox.simulated import controller

Resources = dict[str, Fraction]

_PODS: Final = "pods"
_NOTHING: Final = Fraction(0)
_KEEPS_AWAY: Final = frozenset({"NoSchedule", "NoExecute"})


def requests_of(pod: Object) -> Resources:
    """Requests of a pod: its containers together, or one init container if that is more, the overhead, one pod.

    Limits replace missing requests, as in the API server's defaulting.
    """
    spec = pod["spec"]
    total = _sum(_requests(container) for container in spec["containers"])
    sidecars: Resources = {}
    most: Resources = {}
    for container in spec.get("initContainers") or []:
        own = _requests(container)
        if container.get("restartPolicy") == "Always":
            sidecars = _sum([sidecars, own])
        else:
            most = _most(most, _sum([sidecars, own]))
    total = _most(_sum([total, sidecars]), most)
    overhead = {name: parse_quantity(str(value)) for name, value in (spec.get("overhead") or {}).items()}
    return {**_sum([total, overhead]), _PODS: Fraction(1)}


def _requests(container: Mapping[str, Any]) -> Resources:
    resources = container.get("resources") or {}
    asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {name: parse_quantity(str(value)) for name, value in asked.items()}


def _sum(parts: Iterable[Mapping[str, Fraction]]) -> Resources:
    total: Resources = {}
    for part in parts:
        for name, value in part.items():
            total[name] = total.get(name, _NOTHING) + value
    return total


def _most(one: Resources, other: Resources) -> Resources:
    return {name: max(one.get(name, _NOTHING), other.get(name, _NOTHING)) for name in {**one, **other}}


class FreeCapacity:
    """Free capacity of all nodes, while pods are being placed; a copy is for a trial."""

    def __init__(self, nodes: Iterable[Object]) -> None:
        """Nodes that are not ready, or cordoned, accept no pods."""
        self._nodes = {name_of(node): node for node in nodes if _is_open(node)}
        self._total = {name: _allocatable(node) for name, node in self._nodes.items()}
        self._left = {name: dict(resources) for name, resources in self._total.items()}

    def __len__(self) -> int:
        return len(self._nodes)

    def draft(self) -> FreeCapacity:
        """A copy for a trial."""
        other = FreeCapacity(())
        other._nodes, other._total = self._nodes, self._total
        other._left = {name: dict(left) for name, left in self._left.items()}
        return other

    def take(self, node: str, requests: Resources) -> None:
        """Reserve the requests of a pod, even beyond the capacity."""
        left = self._left.get(node)
        if left is not None:
            for name, value in requests.items():
                left[name] = left.get(name, _NOTHING) - value

    def place(self, pod: Object, requests: Resources) -> str | None:
        """Reserve the pod's requests on the emptiest eligible node: its name, or None."""
        fitting = [name for name, node in self._nodes.items() if not _refusals(node, pod) and self._has(name, requests)]
        if not fitting:
            return None
        chosen = max(sorted(fitting), key=self._free_share)
        self.take(chosen, requests)
        return chosen

    def why_not(self, pod: Object, requests: Resources) -> str:
        """Why no node accepts a pod, as in kube-scheduler's message."""
        reasons: dict[str, int] = {}
        for name, node in self._nodes.items():
            for reason in _refusals(node, pod) or self._shortages(name, requests):
                reasons[reason] = reasons.get(reason, 0) + 1
        listed = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
        return (
            f"0/{len(self._nodes)} nodes are available: {listed}." if listed else "no nodes available to schedule pods"
        )

    def _has(self, node: str, requests: Resources) -> bool:
        return not self._shortages(node, requests)

    def _shortages(self, node: str, requests: Resources) -> list[str]:
        left = self._left[node]
        short = [name for name, value in requests.items() if value and left.get(name, _NOTHING) < value]
        return ["Too many pods" if name == _PODS else f"Insufficient {name}" for name in short]

    def _free_share(self, node: str) -> float:
        """The mean share of CPU and memory that is free."""
        left, total = self._left[node], self._total[node]
        names = [name for name in ("cpu", "memory") if total.get(name)]
        return sum(float(left[name]) / float(total[name]) for name in names) / max(1, len(names))


def _is_open(node: Object) -> bool:
    return controller.is_true(node, "Ready") and not (node.get("spec") or {}).get("unschedulable")


def _allocatable(node: Object) -> Resources:
    status = node.get("status") or {}
    resources = status.get("allocatable") or status.get("capacity") or {}
    return {name: parse_quantity(str(value)) for name, value in resources.items()}


def _refusals(node: Object, pod: Object) -> list[str]:
    labels = node["metadata"].get("labels") or {}
    selector = pod["spec"].get("nodeSelector") or {}
    if any(labels.get(key) != value for key, value in selector.items()):
        return ["node(s) didn't match Pod's node affinity/selector"]
    for taint in (node.get("spec") or {}).get("taints") or []:
        tolerations = pod["spec"].get("tolerations") or []
        if taint["effect"] in _KEEPS_AWAY and not any(_tolerates(each, taint) for each in tolerations):
            return [f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value', '')}}}"]
    return []


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    if toleration.get("effect") not in {None, "", taint["effect"]}:
        return False
    if not toleration.get("key"):
        return toleration.get("operator") == "Exists"
    if toleration["key"] != taint["key"]:
        return False
    return toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.get("value", "")
