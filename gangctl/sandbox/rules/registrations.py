"""Webhook configurations, MutatingAdmissionPolicies and their bindings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from gangctl.sandbox.admission.hooks import check
from gangctl.sandbox.admission.policies import problems
from gangctl.sandbox.objects import Object
from gangctl.sandbox.rules.metadata import Causes, validate_metadata

_MUTATING: Final = "MutatingWebhookConfiguration"
_MAX_SECONDS: Final = 30
_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "UPDATE")
_PATCHES: Final = {"ApplyConfiguration": "applyConfiguration", "JSONPatch": "jsonPatch"}


def default(configuration: Object) -> None:
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


def validate(new: Object, old: Object | None) -> Causes:
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
        _client(webhook["clientConfig"], f"{path}.clientConfig", causes)
        for number, condition in enumerate(webhook.get("matchConditions", ())):
            problem = check(condition.get("expression", ""))
            if problem:
                where = f"{path}.matchConditions[{number}].expression"
                causes.invalid(where, condition.get("expression", ""), problem)
    return causes


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
    if "matchConstraints" not in spec:
        causes.required("spec.matchConstraints")
    elif not spec["matchConstraints"].get("resourceRules"):
        causes.required("spec.matchConstraints.resourceRules")
    for rule in spec.get("matchConstraints", {}).get("resourceRules", ()):
        for operation in rule.get("operations", ()):
            if operation not in _OPERATIONS:
                path = "spec.matchConstraints.resourceRules.operations"
                causes.unsupported(path, operation, _OPERATIONS)
    _mutations(spec.get("mutations", ()), causes)
    if "reinvocationPolicy" not in spec:
        causes.required("spec.reinvocationPolicy")
    if not causes:
        for path, expression, problem in problems(spec):
            causes.invalid(f"spec.{path}", expression, problem)
    return causes


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
    return causes
