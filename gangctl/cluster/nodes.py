"""What is in use on nodes: pods of a listing or of files that are placed there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gangctl.api.meta import JOBSET_NAME
from gangctl.api.objects import object_at
from gangctl.gang.requests import as_integers, pod_requests
from gangctl.kueue.names import (
    SLICE_CONSTRAINTS,
    SLICE_TOPOLOGY,
    TOPOLOGY_PREFERRED,
    TOPOLOGY_REQUIRED,
    TOPOLOGY_UNCONSTRAINED,
)
from gangctl.kueue.objects import PODS, Amounts
from gangctl.readiness.membership import FINISHED

_TOPOLOGY_NOTES: Final = frozenset(
    {TOPOLOGY_REQUIRED, TOPOLOGY_PREFERRED, TOPOLOGY_UNCONSTRAINED, SLICE_TOPOLOGY, SLICE_CONSTRAINTS}
)
"""By these annotations Kueue takes a pod for one that it placed (``pkg/util/tas``)."""


@dataclass(frozen=True, slots=True)
class PlacedPod:
    """Requests of a pod on its node; ``jobset`` is the name of its JobSet, or empty.

    ``in_topology`` is a pod that Kueue placed: its usage is also in its Workload.
    """

    namespace: str
    jobset: str
    node: str
    requests: Amounts
    in_topology: bool


def placed_pods(raw: Mapping[str, Any]) -> Iterator[PlacedPod]:
    """The pod, if it uses capacity of a node. Invalid requests count as 0."""
    metadata, spec, status = (object_at(raw, key) for key in ("metadata", "spec", "status"))
    node = spec.get("nodeName")
    if isinstance(node, str) and node and str(status.get("phase")) not in FINISHED:
        requests = as_integers(pod_requests(spec)[0])
        labels = object_at(metadata, "labels")
        yield PlacedPod(
            str(metadata.get("namespace") or ""),
            str(labels.get(JOBSET_NAME) or ""),
            node,
            requests,
            not _TOPOLOGY_NOTES.isdisjoint(object_at(metadata, "annotations")),
        )


def in_use(pods: Iterable[PlacedPod], without: Callable[[PlacedPod], bool]) -> dict[str, Amounts]:
    """Requests on each node, by its name, except some pods."""
    used: dict[str, Counter[str]] = {}
    for pod in pods:
        if not without(pod):
            used.setdefault(pod.node, Counter()).update({**pod.requests, PODS: 1})
    return dict(used)
