"""Namespaces, Nodes, Services and ServiceAccounts, as far as jobs need them."""

from __future__ import annotations

import hashlib
from typing import Final

from gangctl.sandbox.kinds import ResourceKind
from gangctl.sandbox.objects import Object
from gangctl.sandbox.rules import names
from gangctl.sandbox.rules.causes import Causes
from gangctl.sandbox.rules.metadata import validate_metadata, validate_metadata_update
from gangctl.sandbox.rules.pod_defaults import default_conditions

_NAME_LABEL: Final = "kubernetes.io/metadata.name"
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_NODE_INFO: Final = (
    *("machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion", "kubeletVersion"),
    *("kubeProxyVersion", "operatingSystem", "architecture"),
)


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
    """What Go writes of a node although it is empty, and allocatable where only capacity is given."""
    spec, status = node.setdefault("spec", {}), node.setdefault("status", {})
    if spec.get("podCIDR"):
        spec.setdefault("podCIDRs", [spec["podCIDR"]])
    if "capacity" in status:
        status.setdefault("allocatable", dict(status["capacity"]))
    default_conditions(node, "lastHeartbeatTime", "lastTransitionTime")
    status.setdefault("daemonEndpoints", {"kubeletEndpoint": {"Port": 0}})
    info = status.setdefault("nodeInfo", {})
    for field in _NODE_INFO:
        info.setdefault(field, "")


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


def update_service(new: Object, old: Object) -> None:
    """The address stays, if a client leaves it out."""
    for field in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if field in old["spec"]:
            new["spec"].setdefault(field, old["spec"][field])


def validate(kind: ResourceKind, new: Object, old: Object | None) -> Causes:
    """What is wrong with one of these."""
    check = {"namespaces": names.dns_label, "services": service_name}.get(kind.plural, names.dns_subdomain)
    if old is not None:
        causes = validate_metadata_update(new, old)
    else:
        causes = validate_metadata(new, check, namespaced=kind.namespaced)
    if kind.plural == "nodes":
        _taints(new["spec"].get("taints", []), causes)
    if kind.plural == "services":
        _service(new["spec"], old, causes)
    return causes


def service_name(text: str) -> list[str]:
    """What a Service may be called."""
    return names.dns_label(text)


def _taints(taints: list[Object], causes: Causes) -> None:
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        key, effect = taint.get("key", ""), taint.get("effect", "")
        # Not spec.taints: the server says it so.
        path = f"metadata.taints[{index}]"
        causes.invalid_each(f"{path}.key", key, names.qualified_name(key))
        if taint.get("value"):
            causes.invalid_each(f"{path}.value", taint["value"], names.label_value(taint["value"]))
        if effect not in _EFFECTS:
            causes.unsupported(f"{path}.effect", effect, _EFFECTS)
        if (key, effect) in seen:
            causes.duplicate(path, taint)
        seen.add((key, effect))


def _service(spec: Object, old: Object | None, causes: Causes) -> None:
    headless = spec.get("clusterIP") == "None"
    if not spec.get("ports") and not headless and spec["type"] != "ExternalName":
        causes.required("spec.ports")
    if old is not None and old["spec"].get("clusterIP") not in {None, spec.get("clusterIP")}:
        causes.invalid("spec.clusterIPs[0]", spec.get("clusterIP", ""), "may not change once set")
