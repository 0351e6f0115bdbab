"""MutatingWebhookConfigurations and ValidatingWebhookConfigurations."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlsplit

from gangctl.sandbox.admission.hooks import check
from gangctl.sandbox.objects import Object
from gangctl.sandbox.rules import metadata
from gangctl.sandbox.rules.metadata import Causes, validate_metadata

_MUTATING: Final = "MutatingWebhookConfiguration"
_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES: Final = ("*", "Cluster", "Namespaced")
_SIDE_EFFECTS: Final = ("None", "NoneOnDryRun")
_SEGMENTS: Final = 3
_MAX_SECONDS: Final = 30
_MAX_CONDITIONS: Final = 64
_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")


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
    """Errors of a configuration."""
    causes = validate_metadata(new, old, namespaced=False)
    seen: set[str] = set()
    for index, webhook in enumerate(new.get("webhooks", ())):
        path, name = f"webhooks[{index}]", webhook.get("name", "")
        _webhook(webhook, path, causes, mutating=new["kind"] == _MUTATING)
        if name and name in seen:
            causes.duplicate(f"{path}.name", name)
        seen.add(name)
    return causes


def _webhook(webhook: Object, path: str, causes: Causes, *, mutating: bool) -> None:
    _name(webhook.get("name", ""), f"{path}.name", causes)
    for index, rule in enumerate(webhook.get("rules", ())):
        _rule(rule, f"{path}.rules[{index}]", causes)
    _one_of(webhook, "failurePolicy", ("Fail", "Ignore"), path, causes)
    _one_of(webhook, "matchPolicy", ("Equivalent", "Exact"), path, causes)
    effects = webhook.get("sideEffects")
    if effects is None:
        causes.required(f"{path}.sideEffects", "must specify one of None, NoneOnDryRun")
    else:
        _one_of(webhook, "sideEffects", _SIDE_EFFECTS, path, causes)
    if not 1 <= webhook["timeoutSeconds"] <= _MAX_SECONDS:
        message = f"the timeout value must be between 1 and {_MAX_SECONDS} seconds"
        causes.invalid(f"{path}.timeoutSeconds", webhook["timeoutSeconds"], message)
    for field in ("namespaceSelector", "objectSelector"):
        _selector(webhook[field], f"{path}.{field}", causes)
    _client(webhook["clientConfig"], f"{path}.clientConfig", causes)
    if mutating:
        _one_of(webhook, "reinvocationPolicy", ("IfNeeded", "Never"), path, causes)
    _conditions(webhook.get("matchConditions", ()), f"{path}.matchConditions", causes)
    versions = webhook.get("admissionReviewVersions", [])
    if not versions:
        causes.required(f"{path}.admissionReviewVersions", "must specify one of v1, v1beta1")
    elif not {"v1", "v1beta1"} & set(versions):
        causes.invalid(f"{path}.admissionReviewVersions", versions, "must include at least one of v1, v1beta1")


def _one_of(webhook: Object, field: str, values: tuple[str, ...], path: str, causes: Causes) -> None:
    if webhook[field] not in values:
        causes.unsupported(f"{path}.{field}", webhook[field], values)


def _name(name: str, path: str, causes: Causes) -> None:
    if not name:
        causes.required(path)
        return
    causes.invalid_each(path, name, metadata.dns_subdomain(name))
    if len(name.split(".")) < _SEGMENTS:
        causes.invalid(path, name, "should be a domain with at least three segments separated by dots")


def _rule(rule: Object, path: str, causes: Causes) -> None:
    operations = rule.get("operations", [])
    if not operations:
        causes.required(f"{path}.operations")
    if len(operations) > 1 and "*" in operations:
        causes.invalid(f"{path}.operations", operations, "if '*' is present, must not specify other operations")
    for index, operation in enumerate(operations):
        if operation not in _OPERATIONS:
            causes.unsupported(f"{path}.operations[{index}]", operation, _OPERATIONS)
    for field, title in (("apiGroups", "API groups"), ("apiVersions", "API versions")):
        values = rule.get(field, [])
        if not values:
            causes.required(f"{path}.{field}")
        elif len(values) > 1 and "*" in values:
            causes.invalid(f"{path}.{field}", values, f"if '*' is present, must not specify other {title}")
    _resources(rule.get("resources", []), f"{path}.resources", causes)
    if rule["scope"] not in _SCOPES:
        causes.unsupported(f"{path}.scope", rule["scope"], _SCOPES)


def _resources(resources: list[str], path: str, causes: Causes) -> None:
    if not resources:
        causes.required(path)
    elif len(resources) > 1 and "*/*" in resources:
        causes.invalid(path, resources, "if '*/*' is present, must not specify other resources")
    elif len(resources) > 1 and "*" in resources and any("/" not in each for each in resources if each != "*"):
        causes.invalid(path, resources, "if '*' is present, must not specify other resources without subresources")


def _selector(selector: Object, path: str, causes: Causes) -> None:
    for index, expression in enumerate(selector.get("matchExpressions", ())):
        where = f"{path}.matchExpressions[{index}]"
        operator, values = expression.get("operator", ""), expression.get("values", [])
        if operator in {"In", "NotIn"} and not values:
            causes.required(f"{where}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        elif operator in {"Exists", "DoesNotExist"} and values:
            causes.forbidden(f"{where}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
        elif operator not in _OPERATORS:
            causes.invalid(f"{where}.operator", operator, "not a valid selector operator")
        causes.invalid_each(
            f"{where}.key", expression.get("key", ""), metadata.qualified_name(expression.get("key", ""))
        )
    for key in selector.get("matchLabels", {}):
        causes.invalid_each(f"{path}.matchLabels", key, metadata.qualified_name(key))


def _client(client: Object, path: str, causes: Causes) -> None:
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        causes.required(path, "exactly one of url or service is required")
    elif service is None:
        _url(str(url), f"{path}.url", causes)
    else:
        for field in ("name", "namespace"):
            if not service.get(field):
                causes.required(f"{path}.service.{field}")
                return
        if not 1 <= service["port"] <= 65535:  # noqa: PLR2004 - ports
            causes.invalid(f"{path}.service.port", service["port"], "must be between 1 and 65535, inclusive")


def _url(url: str, path: str, causes: Causes) -> None:
    form = "; desired format: https://host[/path]"
    parts = urlsplit(url)
    if parts.scheme != "https":
        causes.invalid(path, parts.scheme, f"'https' is the only allowed URL scheme{form}")
    if not parts.netloc:
        causes.invalid(path, parts.netloc, f"host must be specified{form}")
    if "@" in parts.netloc:
        causes.invalid(path, parts.username, "user information is not permitted in the URL")
    if parts.fragment:
        causes.invalid(path, parts.fragment, "fragments are not permitted in the URL")
    if parts.query:
        causes.invalid(path, parts.query, "query parameters are not permitted in the URL")


def _conditions(conditions: Any, path: str, causes: Causes) -> None:
    if len(conditions) > _MAX_CONDITIONS:
        causes.too_many(path, len(conditions), _MAX_CONDITIONS)
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        where, expression = f"{path}[{index}]", condition.get("expression", "")
        if not expression.strip():
            causes.required(f"{where}.expression")
        else:
            problem = check(expression)
            if problem:
                causes.invalid(f"{where}.expression", expression, problem)
        name = condition.get("name", "")
        if not name:
            causes.required(f"{where}.name")
        else:
            causes.invalid_each(f"{where}.name", name, metadata.qualified_name(name))
            if name in seen:
                causes.duplicate(f"{where}.name", name)
        seen.add(name)
