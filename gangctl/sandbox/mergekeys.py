"""Which lists of the built-in types are maps or sets: and the keys of their items.

Strategic merge and server-side apply read the same table. It holds the types that the
sandbox serves; a list that is not in it is replaced as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# Lists by their name and, where that is not enough, the name above: first match wins. "" is a set of scalars.
_PATCH_KEYS: Final[Mapping[str, str]] = {
    "metadata.ownerReferences": "uid",
    "metadata.finalizers": "",
    "spec.containers": "name",
    "spec.initContainers": "name",
    "spec.ephemeralContainers": "name",
    "spec.volumes": "name",
    "spec.imagePullSecrets": "name",
    "spec.hostAliases": "ip",
    "spec.topologySpreadConstraints": "topologyKey",
    "spec.schedulingGates": "name",
    "spec.resourceClaims": "name",
    "Service.spec.ports": "port",
    "containers.ports": "containerPort",
    "initContainers.ports": "containerPort",
    "containers.env": "name",
    "initContainers.env": "name",
    "containers.volumeMounts": "mountPath",
    "initContainers.volumeMounts": "mountPath",
    "containers.volumeDevices": "devicePath",
    "initContainers.volumeDevices": "devicePath",
    "status.conditions": "type",
    "status.podIPs": "ip",
    "status.hostIPs": "ip",
    "status.addresses": "type",
    "Node.spec.podCIDRs": "",
    "ServiceAccount.secrets": "name",
    "ServiceAccount.imagePullSecrets": "name",
    "MutatingWebhookConfiguration.webhooks": "name",
    "ValidatingWebhookConfiguration.webhooks": "name",
}
KEY_DEFAULTS: Final[Mapping[str, str]] = {"protocol": "TCP"}
"""Default of a key that an item does not have."""

# Lists with other keys for apply (x-kubernetes-list-map-keys).
_APPLY_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "Service.spec.ports": ("port", "protocol"),
    "containers.ports": ("containerPort", "protocol"),
    "initContainers.ports": ("containerPort", "protocol"),
    "spec.topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "Workload.spec.podGroups": ("name",),
    "spec.podGroupTemplates": ("name",),
    "spec.compositePodGroupTemplates": ("name",),
    "JobSet.spec.replicatedJobs": ("name",),
    "JobSet.status.replicatedJobsStatus": ("name",),
    "Workload.status.admissionChecks": ("name",),
}
_NO_MAP_FOR_APPLY: Final = frozenset({"Node.spec.podCIDRs"})


def merge_key(path: tuple[str, ...]) -> str | None:
    """The merge key of the list at ``path`` (kind first, names only); "" for a set, None when it is replaced."""
    for candidate in _candidates(path):
        if candidate in _PATCH_KEYS:
            return _PATCH_KEYS[candidate]
    return None


def map_keys(path: tuple[str, ...]) -> tuple[str, ...] | None:
    """The keys of items of the list at ``path`` for apply; () for a set, None when it is one value."""
    for candidate in _candidates(path):
        if candidate in _APPLY_KEYS:
            return _APPLY_KEYS[candidate]
        if candidate in _PATCH_KEYS and candidate not in _NO_MAP_FOR_APPLY:
            key = _PATCH_KEYS[candidate]
            return (key,) if key else ()
    return None


def _candidates(path: tuple[str, ...]) -> tuple[str, str]:
    return ".".join(path), ".".join(path[-2:])
