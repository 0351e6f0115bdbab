"""Where the volumes of a pod can be used: node affinity and zones of the PersistentVolumes of its claims.

Source: ``pkg/scheduler/framework/plugins`` of Kubernetes 1.37: volumebinding, volumezone, volumerestrictions.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, product
from typing import Any, Final

from gangctl.api.objects import Object, object_at, objects_at, within
from gangctl.api.pods import REQUIRED

_ZONES: Final = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone": "",
    "topology.kubernetes.io/region": "",
}
"""Labels of volumes and nodes, each with the one that a node without it has instead."""
Expressions = list[dict[str, Any]]

_NO_ZONE: Final[Expressions] = [{"key": key, "operator": "DoesNotExist"} for key in _ZONES]


def is_of_one_pod(volume: Object) -> bool:
    """Whether one pod at a time may use a volume or claim: this access mode is not combined with another one."""
    modes = object_at(volume, "spec").get("accessModes")
    return isinstance(modes, list) and "ReadWriteOncePod" in modes


def as_pod_spec(volume: Object) -> dict[str, Any]:
    """The nodes of a volume, as a pod says that: node affinity."""
    terms = objects_at(within(volume, "spec", "nodeAffinity", "required"), "nodeSelectorTerms")
    zones = list(_zones(object_at(object_at(volume, "metadata"), "labels")))
    if not terms and not zones:
        return {}
    # The zones of a volume do not matter to a node that has no label of any.
    placements: list[Expressions] = [_NO_ZONE, *([*chain(*choice)] for choice in product(*zones))] if zones else [[]]
    terms = [
        {**term, "matchExpressions": [*objects_at(term, "matchExpressions"), *placement]}
        for term in terms or [{}]
        for placement in placements
    ]
    required = {REQUIRED: {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}}


def _zones(labels: Object) -> Iterator[list[Expressions]]:
    """For each label of a zone, the ways in which a node fulfils it."""
    for key, newer in _ZONES.items():
        values = [value.strip() for value in str(labels.get(key, "")).split("__")]
        # A list with an empty zone is ignored (LabelZonesToSet).
        if all(values):
            one_of: dict[str, Any] = {"operator": "In", "values": values}
            ways: list[Expressions] = [[{"key": key, **one_of}]]
            if newer:
                ways.append([{"key": key, "operator": "DoesNotExist"}, {"key": newer, **one_of}])
            yield ways
