"""Namespaces, Nodes, Services, Secrets and Leases: defaults, and validation of Leases."""

from __future__ import annotations

import base64
import hashlib
from typing import Final

from gangctl.sandbox.objects import Object
from gangctl.sandbox.rules import names
from gangctl.sandbox.rules.causes import Causes
from gangctl.sandbox.rules.metadata import validate_metadata
from gangctl.sandbox.rules.pod_defaults import default_conditions

_NAME_LABEL: Final = "kubernetes.io/metadata.name"


def default_namespace(namespace: Object) -> None:
    """The label by which selectors find a namespace."""
    metadata = namespace["metadata"]
    if metadata.get("name"):
        metadata["labels"] = {**metadata.get("labels", {}), _NAME_LABEL: metadata["name"]}
    namespace.setdefault("spec", {})
    namespace.setdefault("status", {}).setdefault("phase", "Active")


def prepare_namespace(namespace: Object) -> None:
    """A new namespace is active, and its end waits until it is empty."""
    default_namespace(namespace)
    namespace["status"] = {"phase": "Active"}
    finalizers = namespace["spec"].get("finalizers", [])
    namespace["spec"]["finalizers"] = finalizers if "kubernetes" in finalizers else [*finalizers, "kubernetes"]


def default_node(node: Object) -> None:
    """Allocatable where only capacity is given."""
    node.setdefault("spec", {})
    status = node.setdefault("status", {})
    if "capacity" in status:
        status.setdefault("allocatable", dict(status["capacity"]))
    default_conditions(node, "lastHeartbeatTime", "lastTransitionTime")


def default_service(service: Object) -> None:
    """Type, session affinity and ports of a Service."""
    spec = service.setdefault("spec", {})
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    for port in spec.get("ports", ()):
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port.get("port"))
    if spec["type"] != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
    service.setdefault("status", {}).setdefault("loadBalancer", {})


def prepare_service(service: Object) -> None:
    """An address for a Service that asks for none; nothing listens there."""
    spec = service["spec"]
    service["status"] = {"loadBalancer": {}}
    if spec["type"] == "ExternalName":
        return
    if not spec.get("clusterIP"):
        digest = hashlib.sha256(service["metadata"]["uid"].encode()).digest()
        spec["clusterIP"] = f"10.{digest[0]}.{digest[1]}.{1 + digest[2] % 254}"
    spec.setdefault("clusterIPs", [spec["clusterIP"]])
    spec.setdefault("ipFamilies", ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")


def default_secret(secret: Object) -> None:
    """Merge ``stringData`` into ``data``, and set the type."""
    for key, value in secret.pop("stringData", {}).items():
        secret.setdefault("data", {})[key] = base64.b64encode(value.encode()).decode()
    secret.setdefault("type", "Opaque")


def default_lease(lease: Object) -> None:
    """A spec is always written."""
    lease.setdefault("spec", {})


def validate_lease(new: Object, old: Object | None) -> Causes:
    """Errors of a Lease."""
    causes = validate_metadata(new, old)
    spec = new["spec"]
    if spec.get("leaseDurationSeconds", 1) <= 0:
        causes.invalid("spec.leaseDurationSeconds", spec["leaseDurationSeconds"], "must be greater than 0")
    if spec.get("leaseTransitions", 0) < 0:
        causes.invalid("spec.leaseTransitions", spec["leaseTransitions"], "must be greater than or equal to 0")
    strategy = spec.get("strategy")
    if strategy is not None:
        causes.invalid_each("spec.strategy", strategy, names.qualified_name(strategy))
    return causes
