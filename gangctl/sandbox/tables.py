"""Tables of objects: the cells of each kind, which form a client asks for, and its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from aiohttp import web

from gangctl.sandbox.columns import (
    AGE,
    CREATED_AT,
    JOBSET_COLUMNS,
    NAME,
    NONE,
    UNKNOWN,
    Column,
    Printer,
    age,
    columns,
    duration,
    is_true,
    joined,
    metadata,
    moment_of,
    pairs,
    printer_of,
    since,
    spec,
    status,
)
from gangctl.sandbox.definitions import DEFINITIONS, version_of
from gangctl.sandbox.kinds import JOBSET_GROUP, ResourceKind
from gangctl.sandbox.objects import Object
from gangctl.sandbox.store import EVENTS, ObjectStore, Stored, to_storage


# What kube-apiserver prints: printPod, printJob and the others of pkg/printers/internalversion.
def _pod(obj: Object) -> list[Any]:
    fields, state = spec(obj), status(obj)
    sidecars = {
        init_container["name"]
        for init_container in fields.get("initContainers") or ()
        if init_container.get("restartPolicy") == "Always"
    }
    containers = list(state.get("containerStatuses") or ())
    counted = [
        *containers,
        *(
            init_container_status
            for init_container_status in state.get("initContainerStatuses") or ()
            if init_container_status["name"] in sidecars
        ),
    ]
    ready = sum(
        bool(container_status.get("ready") and _state(container_status, "running")) for container_status in counted
    )
    gates = [readiness_gate["conditionType"] for readiness_gate in fields.get("readinessGates") or ()]
    return [
        f"{ready}/{len(fields.get('containers') or ()) + len(sidecars)}",
        _pod_status(obj, containers),
        str(sum(int(container_status.get("restartCount") or 0) for container_status in counted)),
        age(obj),
        next((pod_ip["ip"] for pod_ip in state.get("podIPs") or ()), NONE),
        fields.get("nodeName") or NONE,
        state.get("nominatedNodeName") or NONE,
        f"{sum(is_true(state.get('conditions'), gate) for gate in gates)}/{len(gates)}" if gates else NONE,
    ]


def _state(container: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return (container.get("state") or {}).get(name) or {}


def _pod_status(pod: Object, containers: list[Mapping[str, Any]]) -> str:
    """The status of a pod whose containers run together and end together, as those of the simulated kubelet do."""
    state = status(pod)
    if metadata(pod).get("deletionTimestamp") and state.get("phase") not in _ENDS:
        return "Terminating"
    if any(condition.get("reason") == "SchedulingGated" for condition in state.get("conditions") or ()):
        return "SchedulingGated"
    reasons = (_state(container, "terminated").get("reason") for container in containers)
    return str(next(filter(None, reasons), None) or state.get("reason") or state.get("phase", ""))


def _job(obj: Object) -> list[Any]:
    fields, state = spec(obj), status(obj)
    template = spec(fields.get("template") or {}).get("containers") or ()
    return [
        _job_status(obj),
        _completions(fields, state.get("succeeded", 0)),
        _job_duration(state),
        age(obj),
        ",".join(container["name"] for container in template),
        ",".join(container.get("image", "") for container in template),
        pairs((fields.get("selector") or {}).get("matchLabels") or {}),
    ]


def _job_status(job: Object) -> str:
    conditions = status(job).get("conditions")
    for kind in ("Complete", "Failed"):
        if is_true(conditions, kind):
            return kind
    if metadata(job).get("deletionTimestamp"):
        return "Terminating"
    states = ("Suspended", "FailureTarget", "SuccessCriteriaMet")
    return next((kind for kind in states if is_true(conditions, kind)), "Running")


def _completions(fields: Mapping[str, Any], succeeded: int) -> str:
    if fields.get("completions") is not None:
        return f"{succeeded}/{fields['completions']}"
    parallelism = fields.get("parallelism") or 0
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _job_duration(state: Mapping[str, Any]) -> str:
    start, end = moment_of(state.get("startTime")), moment_of(state.get("completionTime"))
    if start is None:
        return ""
    return since(state["startTime"]) if end is None else duration((end - start).total_seconds())


def _pod_group(condition: str, workload: Callable[[Mapping[str, Any]], str | None]) -> Printer:
    """``workload`` finds the name of its Workload in its spec."""

    def cells(obj: Object) -> list[Any]:
        policy = "Gang" if (spec(obj).get("schedulingPolicy") or {}).get("gang") is not None else "Basic"
        conditions = {condition["type"]: condition for condition in status(obj).get("conditions") or ()}
        state = "Pending"
        if condition in conditions:
            state = "Scheduled" if conditions[condition]["status"] == "True" else "Unschedulable"
        if "DisruptionTarget" in conditions:
            state = conditions["DisruptionTarget"]["reason"]
        return [policy, workload(spec(obj)) or NONE, state, age(obj)]

    return Printer(columns("Policy", "Workload", "Status", "Age"), cells)


def _workload_of_v1alpha2(fields: Mapping[str, Any]) -> str | None:
    reference = (fields.get("podGroupTemplateRef") or {}).get("workload") or {}
    return reference.get("workloadName")


def _workload_of_v1beta1(fields: Mapping[str, Any]) -> str | None:
    return (fields.get("workloadRef") or {}).get("workloadName")


_RUNNING: Final[Mapping[str, Printer]] = {
    "pods": Printer(
        columns(*("Ready", "Status", "Restarts", "Age"), wide=("IP", "Node", "Nominated Node", "Readiness Gates")), _pod
    ),
    "jobs.batch": Printer(
        columns("Status", "Completions", "Duration", "Age", wide=("Containers", "Images", "Selector")), _job
    ),
    "workloads.scheduling.k8s.io": Printer((AGE,), lambda obj: [age(obj)]),
}
"""By resource."""

POD_GROUPS: Final[Mapping[str, Printer]] = {
    "v1alpha2": _pod_group("PodGroupScheduled", _workload_of_v1alpha2),
    **dict.fromkeys(("v1beta1", "v1"), _pod_group("PodGroupInitiallyScheduled", _workload_of_v1beta1)),
}
"""By version."""

_ENDS: Final = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}


def row_conditions(pod: Object) -> list[Object]:
    """The conditions of a pod's row: that it has ended."""
    phase = status(pod).get("phase")
    if phase not in _ENDS:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": _ENDS[phase]}]


_ROLE: Final = "node-role.kubernetes.io/"


def _namespace(obj: Object) -> list[Any]:
    return [status(obj).get("phase", ""), age(obj)]


def _node(obj: Object) -> list[Any]:
    ready = [condition for condition in status(obj).get("conditions") or () if condition.get("type") == "Ready"]
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
    addresses = (address["address"] for address in status(node).get("addresses") or () if address.get("type") == kind)
    return next(addresses, NONE)


def _service(obj: Object) -> list[Any]:
    fields = spec(obj)
    ports = [f"{_port(port)}/{port.get('protocol', 'TCP')}" for port in fields.get("ports") or ()]
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
    for subject in obj.get("subjects") or ():
        name = (
            f"{subject.get('namespace', '')}/{subject['name']}"
            if subject["kind"] == "ServiceAccount"
            else subject["name"]
        )
        subjects.setdefault(subject["kind"], []).append(name)
    role = obj.get("roleRef") or {}
    named = [", ".join(subjects.get(kind, ())) for kind in ("User", "Group", "ServiceAccount")]
    return [f"{role.get('kind', '')}/{role.get('name', '')}", age(obj), *named]


def _definition(obj: Object) -> list[Any]:
    fields = spec(obj)
    names = fields.get("names") or {}
    served = [
        f"{version['name']}(storage)" if version.get("storage") else version["name"]
        for version in fields.get("versions") or ()
        if version.get("served")
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
        # printResourceQuota puts all that is no limit into the column of requests.
        shown[name.startswith("limits.")].append(f"{name}: {used.get(name, 0)}/{hard}")
    return [*map(", ".join, shown), age(obj)]


def _policy(obj: Object) -> list[Any]:
    kind = spec(obj).get("paramKind")
    param = f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}" if kind else "<unset>"
    return [len(spec(obj).get("mutations") or ()), param, age(obj)]


_WEBHOOKS: Final = Printer((Column("Webhooks", "integer"), AGE), lambda obj: [len(obj.get("webhooks") or ()), age(obj)])
_BINDINGS: Final = Printer(columns("Role", "Age", wide=("Users", "Groups", "ServiceAccounts")), _binding)

DEFAULT_COLUMNS: Final = Printer((CREATED_AT,), lambda obj: [metadata(obj).get("creationTimestamp")])
"""What has no columns of its own."""

DEFINITION_COLUMNS: Final = Printer(
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
        columns("PolicyName", "ParamRef", "Age"), lambda obj: [spec(obj).get("policyName", ""), "<unset>", age(obj)]
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

EVENT_COLUMNS: Final = Printer(
    (
        *columns("Last Seen", "Type", "Reason", "Object", wide=("Subobject", "Source")),
        Column("Message"),
        *columns(wide=("First Seen", "Count")),
        Column("Name", priority=1, format="name"),
    ),
    _event,
)
"""Events of both groups, as they are stored; their name is the last column."""


_GROUP: Final = "meta.k8s.io"
_DEFINITIONS_HAVE_NO_COLUMNS: Final = frozenset({"1.35", "1.36"})


class Tables:
    """Makes the tables of one request."""

    def __init__(self, store: ObjectStore, minor: str, kind: ResourceKind, *, whole: bool) -> None:
        """``store`` has the definitions of custom resources, which name their columns; ``whole`` rows have objects."""
        self._kind = kind
        self._whole = whole
        self._printer = _printer(store, minor, kind)

    def of(self, items: Iterable[Stored], metadata: Object, *, headers: bool = True) -> Object:
        """A table with the ``metadata`` of a list or an object; later tables of a watch have no ``headers``."""
        named = self._kind.storage != EVENTS
        columns = (NAME, *self._printer.columns) if named else self._printer.columns
        return {
            "kind": "Table",
            "apiVersion": f"{_GROUP}/v1",
            "metadata": metadata,
            "columnDefinitions": [column.as_json() for column in columns] if headers else None,
            "rows": [self._row(stored.obj, named=named) for stored in items],
        }

    def of_one(self, stored: Stored, *, headers: bool = True) -> Object:
        """The table of one object."""
        revision = (stored.obj.get("metadata") or {}).get("resourceVersion", "")
        return self.of([stored], {"resourceVersion": revision}, headers=headers)

    def _row(self, obj: Object, *, named: bool) -> Object:
        cells = self._printer.cells(obj if named else to_storage(self._kind, obj))
        partial = {"kind": "PartialObjectMetadata", "apiVersion": f"{_GROUP}/v1", "metadata": obj.get("metadata")}
        row: Object = {
            "cells": [(obj.get("metadata") or {}).get("name", ""), *cells] if named else cells,
            "object": obj if self._whole else partial,
        }
        if self._kind.storage == "pods" and (conditions := row_conditions(obj)):
            row["conditions"] = conditions
        return row


def tables_for(store: ObjectStore, minor: str, kind: ResourceKind, request: web.BaseRequest) -> Tables | None:
    """What makes the tables of ``request``; None where its client prefers objects."""
    # kubectl lists what it takes by preference: a Table of v1, one of v1beta1, objects.
    for clause in request.headers.get("Accept", "").split(","):
        media_type, *rest = (part.strip() for part in clause.split(";"))
        given = dict(part.partition("=")[::2] for part in rest)
        if media_type != "application/json":
            continue
        if "as" not in given:
            return None
        if (given["as"], given.get("g"), given.get("v")) == ("Table", _GROUP, "v1"):
            return Tables(store, minor, kind, whole=request.query.get("includeObject") == "Object")
    return None


def _printer(store: ObjectStore, minor: str, kind: ResourceKind) -> Printer:
    if kind.custom:
        return printer_of(_columns(store, kind))
    if kind.storage == EVENTS:
        return EVENT_COLUMNS
    if kind.storage == "podgroups.scheduling.k8s.io":
        return POD_GROUPS[kind.version]
    if kind.storage == DEFINITIONS:
        return DEFAULT_COLUMNS if minor in _DEFINITIONS_HAVE_NO_COLUMNS else DEFINITION_COLUMNS
    return PRINTERS.get(kind.storage) or _RUNNING.get(kind.storage) or DEFAULT_COLUMNS


def _columns(store: ObjectStore, kind: ResourceKind) -> Sequence[Object] | None:
    version = version_of(store, kind)
    if version is None:
        return JOBSET_COLUMNS if kind.group == JOBSET_GROUP else None
    return version.get("additionalPrinterColumns")
