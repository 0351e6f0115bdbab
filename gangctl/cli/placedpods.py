"""Pods that are on nodes, as far as they take room there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gangctl.api.meta import JOBSET_NAME
from gangctl.api.parts import object_at
from gangctl.gang.requests import as_integers, pod_requests
from gangctl.kueue.objects import PODS, Amounts

_OVER: Final = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class PlacedPod:
    """What a pod requests on its node; ``jobset`` is the name of its JobSet, or empty."""

    namespace: str
    jobset: str
    node: str
    requests: Amounts


def placed(raw: Mapping[str, Any]) -> Iterator[PlacedPod]:
    """The pod, if it takes room on a node. What cannot be read of its requests is nothing."""
    metadata, spec, status = (object_at(raw, key) for key in ("metadata", "spec", "status"))
    node = spec.get("nodeName")
    if isinstance(node, str) and node and str(status.get("phase")) not in _OVER:
        requests = as_integers(pod_requests(spec)[0])
        labels = object_at(metadata, "labels")
        yield PlacedPod(str(metadata.get("namespace") or ""), str(labels.get(JOBSET_NAME) or ""), node, requests)


def in_use(pods: Iterable[PlacedPod], without: Callable[[PlacedPod], bool]) -> dict[str, Amounts]:
    """What is requested on each node, by its name, but for some pods."""
    used: dict[str, Counter[str]] = {}
    for pod in pods:
        if not without(pod):
            used.setdefault(pod.node, Counter()).update({**pod.requests, PODS: 1})
    return dict(used)
