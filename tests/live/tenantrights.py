"""Users who have rights in one namespace and nowhere else."""

from __future__ import annotations

from typing import Final

from tests.controlplane.api import Object
from tests.live.cluster import Cluster

_RBAC: Final = "rbac.authorization.k8s.io/v1"
_READ: Final = ["get", "list", "watch"]

_READING: Final = [
    {"apiGroups": ["jobset.x-k8s.io"], "resources": ["jobsets"], "verbs": _READ},
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": _READ},
    {"apiGroups": [""], "resources": ["pods"], "verbs": _READ},
    {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": _READ},
    {"apiGroups": ["scheduling.k8s.io"], "resources": ["workloads", "podgroups"], "verbs": _READ},
]
"""What tenants have: reading their own gangs, and nothing of nodes."""


async def grant_reading(cluster: Cluster, user: str) -> None:
    """Give a user these rights in the namespace; they are in force a moment later."""
    role: Object = {"apiVersion": _RBAC, "kind": "Role", "metadata": {"name": user}, "rules": _READING}
    binding: Object = {
        "apiVersion": _RBAC,
        "kind": "RoleBinding",
        "metadata": {"name": user},
        "subjects": [{"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}],
        "roleRef": {"kind": "Role", "name": user, "apiGroup": "rbac.authorization.k8s.io"},
    }
    await cluster.api.create(cluster.path(_RBAC, "roles"), role)
    await cluster.api.create(cluster.path(_RBAC, "rolebindings"), binding)
