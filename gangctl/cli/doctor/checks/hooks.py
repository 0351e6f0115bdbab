"""Owners of webhook configurations, and differences of gangctl's own from this version's. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from gangctl.api.meta import SKIP_LABEL
from gangctl.api.objects import Object, object_at, objects_at
from gangctl.webhooks.configurations import (
    DEFAULTS,
    GANGPOLICIES_WEBHOOK,
    JOBS_NAME,
    KINDS,
    NAME,
    POLICIES,
    Endpoint,
    WebhookSettings,
    build_configurations,
)
from gangctl.webhooks.registration import contains

MUTATING: Final = KINDS[0]
OURS: Final = frozenset({NAME, JOBS_NAME, DEFAULTS, POLICIES})
NO_SETTINGS: Final = WebhookSettings(Endpoint())
_SETTLED: Final = ("matchConditions", "rules", "objectSelector", "sideEffects", "matchPolicy", "reinvocationPolicy")
"""Fields that no flag of gangctl changes."""


def name_of(configuration: Object) -> str:
    """Its name."""
    return str((configuration.get("metadata") or {}).get("name", ""))


def title(configuration: Object) -> str:
    """Kind and name."""
    return f"{configuration.get('kind')} {name_of(configuration)}"


def webhooks(configuration: Object) -> list[dict[str, Any]]:
    """Its webhooks, of any shape."""
    return objects_at(configuration, "webhooks")


def client_config(webhook: Mapping[str, Any]) -> dict[str, Any]:
    """Where it is called."""
    return object_at(webhook, "clientConfig")


def service_of(webhook: Mapping[str, Any]) -> tuple[str, str] | None:
    """Namespace and name of the Service that it is called through; None where that is a URL."""
    found = client_config(webhook).get("service")
    if not isinstance(found, dict):
        return None
    return str(found.get("namespace", "")), str(found.get("name", ""))


def ours(configurations: Sequence[Object], *, gangs_only: bool = False) -> list[Object]:
    """gangctl's own; ``gangs_only`` excludes those that depend on policies."""
    wanted = {NAME, JOBS_NAME} if gangs_only else OURS
    return [each for each in configurations if name_of(each) in wanted]


def of_kueue(configurations: Sequence[Object]) -> list[Object]:
    """Kueue's, with any release name of its chart."""
    return [each for each in configurations if name_of(each) not in OURS and "kueue" in name_of(each)]


def of_jobset(configurations: Sequence[Object]) -> list[Object]:
    """JobSet's: they are about JobSets, and of no other known owner."""
    others = {name_of(each) for each in of_kueue(configurations)} | OURS
    return [each for each in configurations if name_of(each) not in others and "jobset" in name_of(each)]


def services(configurations: Sequence[Object]) -> set[tuple[str, str]]:
    """Services that these are called through."""
    found = (service_of(webhook) for each in configurations for webhook in webhooks(each))
    return {each for each in found if each is not None}


def webhook_counts(configurations: Sequence[Object]) -> list[str]:
    """The number of webhooks of each, as evidence."""
    return [f"{title(each)}: {len(webhooks(each))} webhooks" for each in configurations]


def endpoint_counts(services: set[tuple[str, str]], ready: Mapping[tuple[str, str], int]) -> list[str]:
    """The number of ready endpoints of each Service, as evidence."""
    return [f"Service {ns}/{name}: {ready.get((ns, name), 0)} ready endpoints" for ns, name in sorted(services)]


def place(webhook: Mapping[str, Any]) -> str:
    """Its address for API servers, as text."""
    service = service_of(webhook)
    return f"Service {service[0]}/{service[1]}" if service else f"URL {_url(webhook)[0]}"


def differences(found: Sequence[Object]) -> Iterator[str]:
    """How gangctl's configurations differ from what this version would register with any flags."""
    live = {title(each): each for each in found}
    for wanted in build_configurations(NO_SETTINGS, b""):
        configuration = live.get(title(wanted))
        if configuration is None:
            yield f"{title(wanted)} is missing"
            continue
        by_name = {str(each.get("name")): each for each in webhooks(configuration)}
        for webhook in wanted["webhooks"]:
            there = by_name.pop(webhook["name"], None)
            if there is None:
                yield f"{title(wanted)}: webhook {webhook['name']} is missing"
                continue
            fields = [field for field in _SETTLED if not _same(there.get(field), webhook.get(field))]
            fields += [] if _path(there) == _path(webhook) else ["clientConfig"]
            fields += [] if _breaks_glass(there) or not is_namespaced(webhook) else ["namespaceSelector"]
            if fields:
                yield f"{title(wanted)}: {', '.join(fields)} of {webhook['name']} are not as this version wants them"
        for name in by_name:
            yield f"{title(wanted)}: this version does not know webhook {name}"


def _same(live: object, wanted: object) -> bool:
    """API servers default unset fields to empty values."""
    return contains(live, wanted) if wanted else not live


def _path(webhook: Mapping[str, Any]) -> str:
    config = client_config(webhook)
    service = config.get("service")
    if isinstance(service, dict):
        return str(service.get("path", ""))
    return _url(webhook)[1]


def _url(webhook: Mapping[str, Any]) -> tuple[str, str]:
    """Where, and the path there."""
    scheme, _, rest = str(client_config(webhook).get("url", "")).partition("://")
    host, _, path = rest.partition("/")
    return f"{scheme}://{host}", f"/{path}"


def is_namespaced(webhook: Mapping[str, Any]) -> bool:
    """Whether one of gangctl's webhooks is for objects in namespaces: it holds up JobSets while gangctl is down."""
    return webhook.get("name") != GANGPOLICIES_WEBHOOK


def _terms(webhook: Mapping[str, Any]) -> list[dict[str, Any]]:
    return objects_at(object_at(webhook, "namespaceSelector"), "matchExpressions")


def _breaks_glass(webhook: Mapping[str, Any]) -> bool:
    return any(term.get("key") == SKIP_LABEL and term.get("operator") == "NotIn" for term in _terms(webhook))


def excluded(webhook: Mapping[str, Any]) -> set[str]:
    """Excluded namespaces, by name."""
    found: set[str] = set()
    for term in _terms(webhook):
        values = term.get("values")
        if term.get("key") == "kubernetes.io/metadata.name" and term.get("operator") == "NotIn":
            found.update(map(str, values if isinstance(values, list) else ()))
    return found
