"""The cells of built-in kinds but for those that run: ``pkg/printers/internalversion`` of kube-apiserver."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gangctl.sandbox.objects import Object
from gangctl.sandbox.tables.columns import (
    AGE,
    CREATED_AT,
    NONE,
    UNKNOWN,
    Column,
    Printer,
    age,
    columns,
    is_true,
    joined,
    metadata,
    pairs,
    since,
    spec,
    status,
)

_ROLE: Final = "node-role.kubernetes.io/"


def _namespace(obj: Object) -> list[Any]:
    return [status(obj).get("phase", ""), age(obj)]


def _node(obj: Object) -> list[Any]:
    ready = [each for each in status(obj).get("conditions") or () if each.get("type") == "Ready"]
    state = ["Ready" if is_true(ready, "Ready") else "NotReady"] if ready else ["Unknown"]
    if spec(obj).get("unschedulable"):
        state.append("SchedulingDisabled")
    labels = metadata(obj).get("labels") or {}
    roles = {key.removeprefix(_ROLE) for key in labels if key.startswith(_ROLE)} | {labels.get("kubernetes.io/role")}
    info = status(obj).get("nodeInfo") or {}
    kernel = info.get("kernelVersion") or UNKNOWN
    if info.get("architecture"):
        kernel += f" ({info['architecture']})"
    return [
        ",".join(state),
        joined(sorted(role for role in roles if role)),
        age(obj),
        info.get("kubeletVersion", ""),
        _address(obj, "InternalIP"),
        _address(obj, "ExternalIP"),
        info.get("osImage") or UNKNOWN,
        kernel,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _address(node: Object, kind: str) -> str:
    found = (each["address"] for each in status(node).get("addresses") or () if each.get("type") == kind)
    return next(found, NONE)


def _service(obj: Object) -> list[Any]:
    fields = spec(obj)
    ports = [f"{_port(each)}/{each.get('protocol', 'TCP')}" for each in fields.get("ports") or ()]
    # Nothing balances loads here: no Service of this type gets an address.
    pending = ["<pending>"] if fields.get("type") == "LoadBalancer" else []
    external = [fields["externalName"]] if "externalName" in fields else fields.get("externalIPs") or pending
    return [
        fields.get("type", ""),
        next(iter(fields.get("clusterIPs") or ()), NONE),
        joined(external),
        joined(ports),
        age(obj),
        pairs(fields.get("selector") or {}),
    ]


def _port(port: Mapping[str, Any]) -> str:
    return f"{port['port']}:{port['nodePort']}" if port.get("nodePort") else str(port["port"])


def _event(obj: Object) -> list[Any]:
    first = since(obj.get("firstTimestamp") or obj.get("eventTime"))
    last = since(obj["lastTimestamp"]) if obj.get("lastTimestamp") else first
    count = obj.get("count") or 1
    if obj.get("series"):
        last, count = since(obj["series"].get("lastObservedTime")), obj["series"].get("count")
    regarding, source = obj.get("involvedObject") or {}, obj.get("source") or {}
    target = str(regarding.get("kind", "")).lower()
    component = source.get("component") or obj.get("reportingComponent") or ""
    instance = source.get("host") or obj.get("reportingInstance") or ""
    return [
        last,
        obj.get("type", ""),
        obj.get("reason", ""),
        f"{target}/{regarding['name']}" if regarding.get("name") else target,
        regarding.get("fieldPath", ""),
        f"{component}, {instance}" if instance else component,
        str(obj.get("message", "")).strip(),
        first,
        count,
        metadata(obj).get("name", ""),
    ]


def _binding(obj: Object) -> list[Any]:
    subjects: dict[str, list[str]] = {}
    for each in obj.get("subjects") or ():
        name = f"{each.get('namespace', '')}/{each['name']}" if each["kind"] == "ServiceAccount" else each["name"]
        subjects.setdefault(each["kind"], []).append(name)
    role = obj.get("roleRef") or {}
    named = [", ".join(subjects.get(kind, ())) for kind in ("User", "Group", "ServiceAccount")]
    return [f"{role.get('kind', '')}/{role.get('name', '')}", age(obj), *named]


def _definition(obj: Object) -> list[Any]:
    fields = spec(obj)
    names = fields.get("names") or {}
    served = [
        f"{each['name']}(storage)" if each.get("storage") else each["name"]
        for each in fields.get("versions") or ()
        if each.get("served")
    ]
    return [
        fields.get("scope", ""),
        ",".join(sorted(served)),
        metadata(obj).get("creationTimestamp"),
        fields.get("group", ""),
        names.get("kind", ""),
        ",".join(names.get("shortNames") or ()),
        is_true(status(obj).get("conditions"), "Established"),
    ]


def _quota(obj: Object) -> list[Any]:
    shown: tuple[list[str], list[str]] = [], []
    used = status(obj).get("used") or {}
    for name, hard in sorted((status(obj).get("hard") or {}).items()):
        shown[name.startswith("limits.")].append(f"{name}: {used.get(name, 0)}/{hard}")
    return [*map(", ".join, shown), age(obj)]


def _policy(obj: Object) -> list[Any]:
    kind = spec(obj).get("paramKind")
    param = f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}" if kind else "<unset>"
    return [len(spec(obj).get("mutations") or ()), param, age(obj)]


_WEBHOOKS: Final = Printer((Column("Webhooks", "integer"), AGE), lambda obj: [len(obj.get("webhooks") or ()), age(obj)])
_BINDINGS: Final = Printer(columns("Role", "Age", wide=("Users", "Groups", "ServiceAccounts")), _binding)

DEFAULT: Final = Printer((CREATED_AT,), lambda obj: [metadata(obj).get("creationTimestamp")])
"""What has no columns of its own."""

DEFINITIONS: Final = Printer(
    (
        *columns("Scope", "Versions"),
        CREATED_AT,
        *columns(wide=("Group", "Kind", "ShortNames")),
        Column("Established", "boolean", priority=1),
    ),
    _definition,
)
"""CustomResourceDefinitions, since Kubernetes 1.37."""

PRINTERS: Final[Mapping[str, Printer]] = {
    "namespaces": Printer(columns("Status", "Age"), _namespace),
    "nodes": Printer(
        columns(
            *("Status", "Roles", "Age", "Version"),
            wide=("Internal-IP", "External-IP", "OS-Image", "Kernel-Version", "Container-Runtime"),
        ),
        _node,
    ),
    "configmaps": Printer(
        columns("Data", "Age"), lambda obj: [len(obj.get("data") or {}) + len(obj.get("binaryData") or {}), age(obj)]
    ),
    "secrets": Printer(
        columns("Type", "Data", "Age"), lambda obj: [obj.get("type", ""), len(obj.get("data") or {}), age(obj)]
    ),
    "serviceaccounts": Printer((AGE,), lambda obj: [age(obj)]),
    "services": Printer(columns("Type", "Cluster-IP", "External-IP", "Port(s)", "Age", wide=("Selector",)), _service),
    "resourcequotas": Printer(columns("Request", "Limit", "Age"), _quota),
    "mutatingadmissionpolicies.admissionregistration.k8s.io": Printer(
        (Column("Mutations", "integer"), *columns("ParamKind", "Age")), _policy
    ),
    "mutatingadmissionpolicybindings.admissionregistration.k8s.io": Printer(
        columns("PolicyName", "ParamRef", "Age"),
        lambda obj: [spec(obj).get("policyName", ""), "<unset>", age(obj)],
    ),
    "leases.coordination.k8s.io": Printer(
        columns("Holder", "Age"), lambda obj: [spec(obj).get("holderIdentity", ""), age(obj)]
    ),
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": _WEBHOOKS,
    "validatingwebhookconfigurations.admissionregistration.k8s.io": _WEBHOOKS,
    "priorityclasses.scheduling.k8s.io": Printer(
        (Column("Value", "integer"), Column("Global-Default", "boolean"), AGE, Column("PreemptionPolicy")),
        lambda obj: [obj.get("value", 0), obj.get("globalDefault", False), age(obj), obj.get("preemptionPolicy", "")],
    ),
    "rolebindings.rbac.authorization.k8s.io": _BINDINGS,
    "clusterrolebindings.rbac.authorization.k8s.io": _BINDINGS,
}
"""By resource."""

EVENTS: Final = Printer(
    (
        *columns("Last Seen", "Type", "Reason", "Object", wide=("Subobject", "Source")),
        Column("Message"),
        *columns(wide=("First Seen", "Count")),
        Column("Name", priority=1, format="name"),
    ),
    _event,
)
"""Events of both groups, as they are stored; their name is the last column."""
