"""Policies and what belongs to them, for tests of ``gangctl policy``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gangctl.api.emit import to_yaml

Object = dict[str, Any]

QUEUE = "kueue.x-k8s.io/queue-name"
FEW: Object = {
    "name": "few-pods",
    "expression": "gang.totalPods <= 4",
    "messageExpression": "'has ' + string(gang.totalPods) + ' pods, at most 4 are allowed'",
}
QUEUED: Object = {
    "name": "queued",
    "expression": f"has(object.metadata.labels) && '{QUEUE}' in object.metadata.labels",
    "message": "needs a queue",
}


def policy(name: str, *rules: Object, **spec: Any) -> Object:
    return {
        "apiVersion": "gangctl.dev/v1alpha1",
        "kind": "GangPolicy",
        "metadata": {"name": name},
        "spec": {**spec, "validations": list(rules)},
    }


def rule(expression: str, name: str = "r", message: str = "broken") -> Object:
    return {"name": name, "expression": expression, "message": message}


def exception(name: str, policy_name: str, *rules: str, expires: str = "2999-01-01T00:00:00Z", **match: Any) -> Object:
    spec = {
        "policies": [{"name": policy_name, "rules": list(rules)}],
        "match": match,
        "owner": "team-a",
        "reason": "a test",
        "expiresAt": expires,
    }
    metadata = {"name": name}
    return {"apiVersion": "gangctl.dev/v1alpha1", "kind": "GangPolicyException", "metadata": metadata, "spec": spec}


def native(name: str, *rules: Object, **spec: Any) -> Object:
    resources = {
        "apiGroups": ["jobset.x-k8s.io"],
        "apiVersions": ["v1alpha2"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["jobsets"],
    }
    validations = [{key: value for key, value in each.items() if key != "name"} for each in rules]
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {"matchConstraints": {"resourceRules": [resources]}, "validations": validations, **spec},
    }


def binding(name: str, policy_name: str, *actions: str, **spec: Any) -> Object:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": policy_name, "validationActions": list(actions) or ["Deny"], **spec},
    }


def config_map(name: str, namespace: str, **data: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": data}


def namespace(name: str, **labels: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def files(directory: Path, **objects: list[Object]) -> dict[str, str]:
    """A file for each keyword, and their paths."""
    paths = {}
    for name, documents in objects.items():
        path = directory / f"{name}.yaml"
        path.write_text(to_yaml(documents))
        paths[name] = str(path)
    return paths
