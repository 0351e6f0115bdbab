"""The shipped RBAC, bound to a user: what a gangctl that runs outside of a cluster gets, in tests and in a shell.

It reads the files that `kubectl apply -k manifests/out-of-cluster` would apply, so a test that runs as this user
proves the rights that are shipped. No kubectl is needed.
"""

from pathlib import Path
from typing import Any

from tests.manifests.files import MANIFESTS, documents

Object = dict[str, Any]


RBAC = MANIFESTS / "rbac"


def rbac_objects(user: str, own_namespace: str, manifests: Path = MANIFESTS) -> list[Object]:
    """Roles, then bindings, for this user, with `own_namespace` in place of gangctl-system.

    `manifests` may be those of another version.

    For a user other than `gangctl` every name ends in the user's, so that several can stand beside each other in one
    cluster, and a rule taken from one is not taken from the rest.
    """
    suffix = "" if user == "gangctl" else f":{user}"
    found = [*_objects(manifests / "rbac"), *_objects(manifests / "rbac" / "registration")]
    for each in found:
        # Only the names of roles may have a colon.
        each["metadata"]["name"] += suffix if each["apiVersion"].startswith("rbac.") else suffix.replace(":", "-")
        if "namespace" in each["metadata"]:
            each["metadata"]["namespace"] = own_namespace
        for condition in each.get("spec", {}).get("matchConditions", ()):
            condition["expression"] = f"request.userInfo.username == '{user}'"
        if "policyName" in each.get("spec", {}):
            each["spec"]["policyName"] = each["metadata"]["name"]
        if "roleRef" in each:
            each["roleRef"]["name"] += suffix
            each["subjects"] = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]
    return sorted(found, key=lambda each: "roleRef" in each)


def _objects(directory: Path) -> list[Object]:
    return [document for document in documents(directory) if document["kind"] != "Kustomization"]
