"""MutatingWebhookConfigurations and ValidatingWebhookConfigurations."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from gangctl.sandbox.admission.hooks import check
from gangctl.sandbox.objects import Object
from gangctl.sandbox.rules.metadata import Causes, validate_metadata

_MUTATING: Final = "MutatingWebhookConfiguration"
_MAX_SECONDS: Final = 30


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
