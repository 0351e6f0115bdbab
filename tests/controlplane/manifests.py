"""
Reads a component's own manifests and makes them fit processes on loopback.

Upstream's webhook configurations point at a Service, and there is no Service network here; so each entry is pointed
at the process itself. The names are those of an upstream installation, because the API server calls webhooks in the
order of the configurations' names.
"""

import base64
from collections.abc import Collection
from pathlib import Path

import yaml

from tests.controlplane.api import Object, Objects


def documents(directory: Path, kind: str) -> Objects:
    """Every document of this kind in the YAML files of a directory."""
    found: Objects = []
    for path in sorted(directory.glob("*.yaml")):
        loaded = yaml.load_all(path.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        found += [document for document in loaded if isinstance(document, dict) and document.get("kind") == kind]
    return found


def crds(directory: Path) -> Objects:
    return documents(directory, "CustomResourceDefinition")


def webhooks(directory: Path, *, prefix: str, address: str, ca: Path, keep: Collection[str] | None = None) -> Objects:
    """
    The admission webhook configurations, pointed at this address.

    `keep` names the resources whose entries are wanted; the rest would be sent to handlers that are not switched on.
    """
    bundle = base64.b64encode(ca.read_bytes()).decode()
    configurations = documents(directory, "MutatingWebhookConfiguration")
    configurations += documents(directory, "ValidatingWebhookConfiguration")
    for configuration in configurations:
        configuration["metadata"]["name"] = prefix + configuration["metadata"]["name"]
        configuration["webhooks"] = [
            _pointed(entry, address, bundle)
            for entry in configuration["webhooks"]
            if keep is None or any(resource in keep for rule in entry["rules"] for resource in rule["resources"])
        ]
    return configurations


def limit_to_pods_with(label: str, configurations: Objects) -> None:
    """Send Pods only with this label, as the kustomize patches of several projects do."""
    for configuration in configurations:
        for entry in configuration["webhooks"]:
            if entry["rules"][0]["resources"] == ["pods"]:
                entry["objectSelector"] = {"matchExpressions": [{"key": label, "operator": "Exists"}]}


def _pointed(entry: Object, address: str, bundle: str) -> Object:
    path = entry["clientConfig"]["service"]["path"]
    # The longest that there is: a machine that stands still for a while refuses nothing.
    return {**entry, "timeoutSeconds": 30, "clientConfig": {"url": f"{address}{path}", "caBundle": bundle}}
