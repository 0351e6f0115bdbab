"""The shipped RBAC, bound to a user: what a gangctl that runs outside of a cluster gets, in tests and in a shell.

It reads the files that `kubectl apply -k manifests/out-of-cluster` would apply, so a test that runs as this user
proves the rights that are shipped. No kubectl is needed.
"""

from pathlib import Path
from typing import Any

from tests.manifests.files import MANIFESTS, documents

Object = dict[str, Any]

RBAC = MANIFESTS / "rbac"
NAMESPACE = "gangctl-system"


def rbac_objects(user: str, own_namespace: str) -> list[Object]:
    """Roles, then bindings, for this user, with `own_namespace` in place of gangctl-system.

    The roles have the same content for every user. The bindings of a user other than `gangctl` carry the user's name,
    so that several users can stand beside each other in one cluster.
    """
    found = [*_objects(RBAC), *_objects(RBAC / "registration")]
    bindings = [each for each in found if "roleRef" in each]
    for each in found:
        if "namespace" in each["metadata"]:
            each["metadata"]["namespace"] = own_namespace
    for each in bindings:
        each["subjects"] = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]
        if user != "gangctl":
            each["metadata"]["name"] += f":{user}"
    return [each for each in found if "roleRef" not in each] + bindings


def _objects(directory: Path) -> list[Object]:
    return [document for document in documents(directory) if document["kind"] != "Kustomization"]
