"""Namespaces, Nodes, Services, Secrets, Leases and Events: defaults and validation.

Events are one stored type, served as ``v1`` and as ``events.k8s.io/v1``, which asks for more.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Final

from gangctl.sandbox.objects import Object
from gangctl.sandbox.rules import metadata
from gangctl.sandbox.rules.metadata import Causes, validate_metadata
from gangctl.sandbox.rules.pods import default_conditions

_MAX_NAME: Final = 128
_MAX_NOTE: Final = 1024
_TYPES: Final = ("Normal", "Warning")
_FIXED: Final = (
    "eventTime",
    "reportingController",
    "reportingInstance",
    "action",
    "reason",
    "regarding",
    "type",
    "note",
)
# The server checks its internal type, whose names are those of v1.
_INTERNAL: Final = {"regarding": "involvedObject", "note": "message"}
# What Go writes of an event although it is empty.
_CORE_DEFAULTS: Final[Object] = {
    "source": {},
    "firstTimestamp": None,
    "lastTimestamp": None,
    "eventTime": None,
    "reportingComponent": "",
    "reportingInstance": "",
}
_NEW_DEFAULTS: Final[Object] = {
    "deprecatedSource": {},
    "deprecatedFirstTimestamp": None,
    "deprecatedLastTimestamp": None,
}


def default(event: Object) -> None:
    """The empty fields that are written."""
    new = event["apiVersion"] != "v1"
    for field, value in (_NEW_DEFAULTS if new else _CORE_DEFAULTS).items():
        event.setdefault(field, dict(value) if isinstance(value, dict) else value)
    if new:
        event.setdefault("eventTime", None)
        event.setdefault("regarding", {})
    else:
        event.setdefault("involvedObject", {})


def validate(new: Object, old: Object | None) -> Causes:
    """Errors of an event; events of cluster-scoped objects are in ``default``."""
    causes = validate_metadata(new, old)
    about = new.get("involvedObject" if new["apiVersion"] == "v1" else "regarding", {})
    namespace = about.get("namespace", "")
    if namespace != new["metadata"]["namespace"] and not (not namespace and new["metadata"]["namespace"] == "default"):
        causes.invalid("involvedObject.namespace", namespace, "does not match event.namespace")
    if new["apiVersion"] == "v1":
        return causes
    _new_event(new, causes)
    if old is not None:
        for field in _FIXED:
            if new.get(field) != old.get(field):
                causes.invalid(_INTERNAL.get(field, field), new.get(field), "field is immutable")
    return causes


def _new_event(event: Object, causes: Causes) -> None:
    if not event.get("eventTime"):
        causes.required("eventTime")
        if event.get("type") not in _TYPES:
            causes.invalid("type", "", f"has invalid value: {event.get('type', '')}")
        return
    controller = event.get("reportingController", "")
    if not controller:
        causes.required("reportingController")
    else:
        causes.invalid_each("reportingController", controller, metadata.qualified_name(controller))
    for field, required in (("reportingInstance", True), ("action", True), ("reason", True)):
        value = event.get(field, "")
        if required and not value:
            causes.required(field)
        elif len(value) > _MAX_NAME:
            causes.invalid(field, "", f"can have at most {_MAX_NAME} characters")
    if len(event.get("note", "")) > _MAX_NOTE:
        causes.invalid("message", "", f"can have at most {_MAX_NOTE} characters")
    if event.get("type") not in _TYPES:
        causes.invalid("type", "", f"has invalid value: {event.get('type', '')}")


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
        causes.invalid_each("spec.strategy", strategy, metadata.qualified_name(strategy))
    return causes
