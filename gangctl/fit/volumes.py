"""Where the volumes of a pod can be used: node affinity and zones of the PersistentVolumes of its claims.

Source: ``pkg/scheduler/framework/plugins/volumebinding`` and ``volumezone`` of Kubernetes 1.37.
"""

from __future__ import annotations

from typing import Any, Final

from gangctl.api.objects import Object, object_at, objects_at, within
from gangctl.api.pods import REQUIRED

_ZONES: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


def as_pod_spec(volume: Object) -> dict[str, Any]:
    """The nodes of a volume, as a pod says that: node affinity."""
    labels = object_at(object_at(volume, "metadata"), "labels")
    zones = [
        {"key": key, "operator": "In", "values": str(labels[key]).split("__")} for key in _ZONES if labels.get(key)
    ]
    terms = objects_at(within(volume, "spec", "nodeAffinity", "required"), "nodeSelectorTerms")
    if not terms and not zones:
        return {}
    terms = [{**term, "matchExpressions": [*objects_at(term, "matchExpressions"), *zones]} for term in terms or [{}]]
    required = {REQUIRED: {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}}
