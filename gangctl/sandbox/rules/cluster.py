"""Namespaces, Nodes, Services, Secrets, Leases, Events, webhook configurations and policies: defaults and validation.

Events are one stored type, served as ``v1`` and as ``events.k8s.io/v1``, which asks for more.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from gangctl.api import names
from gangctl.api.labelselector import NAMESPACE_NAME
from gangctl.apiserver.expressions import check
from gangctl.apiserver.metadata import Causes, selector_causes, validate_metadata
from gangctl.apiserver.pods import default_conditions
from gangctl.sandbox.admission.policies import problems
from gangctl.sandbox.objects import Object

# ReportingInstanceLengthLimit, those of action and reason, and NoteLengthLimit of pkg/apis/core/validation.
_MAX_NAME: Final = 128
_MAX_NOTE: Final = 1024
_TYPES: Final = ("Normal", "Warning")
_FIXED: Final = (
    "eventTime", "reportingController", "reportingInstance", "action", "reason", "regarding", "type", "note",
)  # fmt: skip
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


def default_event(event: Object) -> None:
    """The empty fields that are written."""
    new = event["apiVersion"] != "v1"
    for field, value in (_NEW_DEFAULTS if new else _CORE_DEFAULTS).items():
        event.setdefault(field, dict(value) if isinstance(value, dict) else value)
    if new:
        event.setdefault("eventTime", None)
        event.setdefault("regarding", {})
    else:
        event.setdefault("involvedObject", {})


def validate_event(new: Object, old: Object | None) -> Causes:
    """Errors of an event, in either group: those with an ``eventTime`` are of the newer form."""
    causes = validate_metadata(new, old)
    strict = new["apiVersion"] != "v1"
    # legacyValidateEvent of pkg/apis/core/validation.
    about = new.get("regarding" if strict else "involvedObject", {}).get("namespace", "")
    place, timed = new["metadata"]["namespace"], bool(new.get("eventTime"))
    # Those of cluster-scoped objects are in few namespaces; one with a time about another may be in any.
    places = {about or "default"} if not timed else {place} if about else {"default", "kube-system"}
    if place not in places:
        causes.invalid("involvedObject.namespace", about, "does not match event.namespace")
    if timed:
        _timed_event(new, causes)
    # ValidateEventCreate checks v1 no further, for compatibility.
    if not strict:
        return causes
    if old is None:
        if not timed:
            causes.required("eventTime")
        if new.get("type") not in _TYPES:
            causes.invalid("type", "", f"has invalid value: {new.get('type', '')}")
        return causes
    for field in _FIXED:
        if new.get(field) != old.get(field):
            causes.invalid(_INTERNAL.get(field, field), new.get(field), "field is immutable")
    return causes


def _timed_event(event: Object, causes: Causes) -> None:
    controller = event.get("reportingController") or event.get("reportingComponent") or ""
    if not controller:
        causes.required("reportingController")
    else:
        causes.invalid_each("reportingController", controller, names.qualified_name(controller))
    for field in ("reportingInstance", "action", "reason"):
        value = event.get(field, "")
        if not value:
            causes.required(field)
        # Go's len() counts bytes, whatever the message says.
        elif len(value.encode()) > _MAX_NAME:
            causes.invalid(field, "", f"can have at most {_MAX_NAME} characters")
    if len((event.get("note") or event.get("message") or "").encode()) > _MAX_NOTE:
        causes.invalid("message", "", f"can have at most {_MAX_NOTE} characters")


def default_namespace(namespace: Object) -> None:
    """The label by which selectors find a namespace."""
    metadata = namespace["metadata"]
    if metadata.get("name"):
        metadata["labels"] = {**metadata.get("labels", {}), NAMESPACE_NAME: metadata["name"]}
    namespace.setdefault("spec", {})
    namespace.setdefault("status", {}).setdefault("phase", "Active")


def prepare_namespace(namespace: Object) -> None:
    """A new namespace is active, and its end waits until it is empty."""
    # Again: a name that is made from generateName comes after the defaults.
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


_MUTATING: Final = "MutatingWebhookConfiguration"
_MAX_SECONDS: Final = 30
# Not DELETE, which has no object to change.
_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "UPDATE")
_PATCHES: Final = {"ApplyConfiguration": "applyConfiguration", "JSONPatch": "jsonPatch"}


def default_registration(configuration: Object) -> None:
    """Fill in the webhooks of a configuration, in place."""
    for webhook in configuration.get("webhooks", ()):
        webhook.setdefault("clientConfig", {})
        webhook.setdefault("failurePolicy", "Fail")
        webhook.setdefault("matchPolicy", "Equivalent")
        webhook.setdefault("namespaceSelector", {})
        webhook.setdefault("objectSelector", {})
        webhook.setdefault("timeoutSeconds", 10)
        if configuration["kind"] == _MUTATING:
            webhook.setdefault("reinvocationPolicy", "Never")
        for rule in webhook.get("rules", ()):
            rule.setdefault("scope", "*")
        service = webhook["clientConfig"].get("service")
        if service is not None:
            service.setdefault("port", 443)


def validate_registration(new: Object, old: Object | None) -> Causes:
    """Errors of a configuration, as far as gangctl's settings decide it; its constants are taken as they come."""
    causes = validate_metadata(new, old, namespaced=False)
    seen: set[str] = set()
    for index, webhook in enumerate(new.get("webhooks", ())):
        path, name = f"webhooks[{index}]", webhook.get("name", "")
        if not name:
            causes.required(f"{path}.name")
        elif name in seen:
            causes.duplicate(f"{path}.name", name)
        seen.add(name)
        if not 1 <= webhook["timeoutSeconds"] <= _MAX_SECONDS:
            message = f"the timeout value must be between 1 and {_MAX_SECONDS} seconds"
            causes.invalid(f"{path}.timeoutSeconds", webhook["timeoutSeconds"], message)
        _selectors(webhook, path, causes)
        _client(webhook["clientConfig"], f"{path}.clientConfig", causes)
        for number, condition in enumerate(webhook.get("matchConditions", ())):
            problem = check(condition.get("expression", ""))
            if problem:
                where = f"{path}.matchConditions[{number}].expression"
                causes.invalid(where, condition.get("expression", ""), problem)
    return causes


def _selectors(match: Object, path: str, causes: Causes) -> None:
    """What cannot be read would be an error of every later request."""
    for field in ("namespaceSelector", "objectSelector"):
        causes += selector_causes(match.get(field, {}), f"{path}.{field}")


def _client(client: Object, path: str, causes: Causes) -> None:
    url = client.get("url")
    if (url is None) == (client.get("service") is None):
        causes.required(path, "exactly one of url or service is required")
    elif url is not None and urlsplit(url).scheme != "https":
        message = "'https' is the only allowed URL scheme; desired format: https://host[/path]"
        causes.invalid(f"{path}.url", urlsplit(url).scheme, message)


def default_policy(policy: Object) -> None:
    """Fill in a MutatingAdmissionPolicy or a binding, in place."""
    spec = policy.setdefault("spec", {})
    if policy["kind"] == "MutatingAdmissionPolicy":
        spec.setdefault("failurePolicy", "Fail")
    for field in ("matchConstraints", "matchResources"):
        if field in spec:
            spec[field].setdefault("matchPolicy", "Equivalent")
            spec[field].setdefault("namespaceSelector", {})
            spec[field].setdefault("objectSelector", {})
            for rule in (*spec[field].get("resourceRules", ()), *spec[field].get("excludeResourceRules", ())):
                rule.setdefault("scope", "*")


def validate_policy(new: Object, old: Object | None) -> Causes:
    """Errors of a policy: what it needs to be evaluated, and its expressions."""
    causes = validate_metadata(new, old, namespaced=False)
    spec = new["spec"]
    _constraints(spec, causes)
    for index, variable in enumerate(spec.get("variables", ())):
        if not variable.get("name"):
            causes.required(f"spec.variables[{index}].name", "name is not specified")
    _mutations(spec.get("mutations", ()), causes)
    if "reinvocationPolicy" not in spec:
        causes.required("spec.reinvocationPolicy")
    # Only then: what compiles the expressions reads the required fields.
    if not causes:
        for path, expression, problem in problems(spec):
            causes.invalid(f"spec.{path}", expression, problem)
    return causes


def _constraints(spec: Object, causes: Causes) -> None:
    if "matchConstraints" not in spec:
        causes.required("spec.matchConstraints")
    elif not spec["matchConstraints"].get("resourceRules"):
        causes.required("spec.matchConstraints.resourceRules")
    _selectors(spec.get("matchConstraints", {}), "spec.matchConstraints", causes)
    for rule in spec.get("matchConstraints", {}).get("resourceRules", ()):
        for operation in rule.get("operations", ()):
            if operation not in _OPERATIONS:
                path = "spec.matchConstraints.resourceRules.operations"
                causes.unsupported(path, operation, _OPERATIONS)


def _mutations(mutations: Sequence[Object], causes: Causes) -> None:
    if not mutations:
        causes.required("spec.mutations", "mutations must contain at least one item")
    for index, mutation in enumerate(mutations):
        path, kind = f"spec.mutations[{index}]", mutation.get("patchType", "")
        if not kind:
            causes.required(f"{path}.patchType")
        elif kind not in _PATCHES:
            causes.unsupported(f"{path}.patchType", kind, sorted(_PATCHES))
        elif _PATCHES[kind] not in mutation:
            causes.required(f"{path}.{_PATCHES[kind]}", f"must be specified when patchType is {kind}")


def validate_binding(new: Object, old: Object | None) -> Causes:
    """Errors of a binding, as far as its policy needs it."""
    causes = validate_metadata(new, old, namespaced=False)
    if not new["spec"].get("policyName"):
        causes.required("spec.policyName")
    _selectors(new["spec"].get("matchResources", {}), "spec.matchResources", causes)
    return causes
