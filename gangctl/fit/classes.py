"""RuntimeClasses and PriorityClasses for which the API server refuses pods: missing ones, and those contradicted.

Source: ``plugin/pkg/admission`` (``priority``, ``runtimeclass``) of Kubernetes 1.37.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from gangctl.api.objects import object_at, text_at
from gangctl.errors import one_line
from gangctl.fit.clusterstate import ClusterSnapshot
from gangctl.fit.report import quoted
from gangctl.fit.requests import PodSet
from gangctl.kueue.amounts import read_amounts

_SHOWN: Final = 80


def refused_by_classes(podsets: Iterable[PodSet], cluster: ClusterSnapshot, namespace: str) -> Iterator[str]:
    """Why the API server refuses pods, as far as the classes are known."""
    known = cluster.surroundings(namespace).runtime_classes
    for podset in podsets:
        runtime_class, priority_class = (
            text_at(podset.pod_spec, key) for key in ("runtimeClassName", "priorityClassName")
        )
        kinds = {
            "RuntimeClass": (runtime_class, cluster.has_runtime_class(runtime_class)),
            "PriorityClass": (priority_class, cluster.has_pod_class(priority_class)),
        }
        for kind, (name, exists) in kinds.items():
            if name and exists is False:
                yield (
                    f'{kind} "{one_line(name, _SHOWN)}" does not exist, and the API server refuses the pods of '
                    f"{quoted([podset.name])} without it; create it, or name another one"
                )
        differing = list(_priority(podset, cluster, priority_class))
        if known is not None and (runtime_class in known or not runtime_class):
            differing += _runtime(podset, known.get(runtime_class, {}) if runtime_class else {})
        for field, written, right in differing:
            yield (
                f"{field} of {quoted([podset.name])} is {one_line(str(written), _SHOWN)}, and its class gives "
                f"{one_line(str(right), _SHOWN)}: the API server refuses such pods; leave the field out"
            )


_Difference = tuple[str, object, object]
"""A field of the pod, its value, and that of the class."""


def _runtime(podset: PodSet, raw: Mapping[str, Any]) -> Iterator[_Difference]:
    overhead, spec = object_at(object_at(raw, "overhead"), "podFixed"), podset.pod_spec
    if object_at(spec, "overhead") and read_amounts(spec["overhead"]) != read_amounts(overhead):
        yield "overhead", _listed(spec["overhead"]), _listed(overhead)
    own = object_at(spec, "nodeSelector")
    for key, value in object_at(object_at(raw, "scheduling"), "nodeSelector").items():
        if own.get(key, value) != value:
            yield f"nodeSelector[{one_line(key, _SHOWN)}]", own[key], value


def _listed(amounts: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {quantity}" for name, quantity in amounts.items()) or "none"


def _priority(podset: PodSet, cluster: ClusterSnapshot, name: str) -> Iterator[_Difference]:
    for field, right in (
        ("priority", cluster.pod_priority(name)),
        ("preemptionPolicy", cluster.preemption_policy(name)),
    ):
        written = podset.pod_spec.get(field)
        if written is not None and right is not None and written != right:
            yield field, written, right
