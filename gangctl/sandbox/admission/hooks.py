"""Webhook registrations as the server uses them, read once per version of a configuration.

The objects are MutatingWebhookConfiguration and ValidatingWebhookConfiguration of ``admissionregistration.k8s.io/v1``.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import Any, Final

from gangctl.sandbox.admission import Attributes
from gangctl.sandbox.admission.conditions import Conditions
from gangctl.sandbox.objects import Object
from gangctl.sandbox.selectors import LabelTest, selector_object_test
from gangctl.sandbox.store import Store, Stored

MUTATING: Final = "mutatingwebhookconfigurations.admissionregistration.k8s.io"
VALIDATING: Final = "validatingwebhookconfigurations.admissionregistration.k8s.io"
_NO_SIDE_EFFECTS: Final = frozenset({"None", "NoneOnDryRun"})


@dataclass(frozen=True, slots=True)
class Hook:
    """One webhook of a configuration; ``seconds`` is its timeout."""

    name: str
    rules: tuple[Object, ...]
    namespaces: LabelTest
    objects: LabelTest
    conditions: Conditions
    url: str
    authorities: bytes
    seconds: int
    ignores_failure: bool
    reinvoked: bool
    has_side_effects: bool

    def covers(self, attributes: Attributes) -> bool:
        """Whether one of the rules names this request."""
        return any(_covers(rule, attributes) for rule in self.rules)

    def selects(self, attributes: Attributes, obj: Object | None, namespace: Object | None) -> bool:
        """Whether the selectors fit the labels of the namespace, and of the object, new or old."""
        if namespace is not None and not self.namespaces(_labels(namespace)):
            return False
        return any(self.objects(_labels(one)) for one in (obj, attributes.old) if one is not None)


class Hooks:
    """The registered webhooks, in the order in which they are called: by configuration name, then as listed."""

    def __init__(self, store: Store) -> None:
        """Read from ``store`` on each call."""
        self._store = store
        self._read: dict[tuple[str, str], tuple[Stored, tuple[Hook, ...]]] = {}

    def of(self, storage: str) -> list[Hook]:
        """All webhooks of :data:`MUTATING` or :data:`VALIDATING`."""
        found: list[Hook] = []
        for stored in sorted(self._store.items(storage), key=lambda stored: str(stored.obj["metadata"]["name"])):
            key = storage, stored.obj["metadata"]["name"]
            known = self._read.get(key)
            if known is None or known[0] is not stored:
                known = self._read[key] = stored, tuple(_hook(raw) for raw in stored.obj.get("webhooks") or [])
            found += known[1]
        return found


def _hook(raw: Object) -> Hook:
    client = raw.get("clientConfig") or {}
    return Hook(
        name=raw["name"],
        rules=tuple(raw.get("rules") or ()),
        namespaces=selector_object_test(raw.get("namespaceSelector") or {}),
        objects=selector_object_test(raw.get("objectSelector") or {}),
        conditions=Conditions(raw.get("matchConditions") or ()),
        url=_url(client),
        authorities=_decoded(client.get("caBundle") or ""),
        seconds=raw.get("timeoutSeconds") or 10,
        ignores_failure=raw.get("failurePolicy") == "Ignore",
        reinvoked=raw.get("reinvocationPolicy") == "IfNeeded",
        has_side_effects=raw.get("sideEffects") not in _NO_SIDE_EFFECTS,
    )


def _url(client: Object) -> str:
    """The URL of a webhook. Services are not resolved: their names are unreachable, as without a cluster network."""
    if client.get("url"):
        return str(client["url"])
    service = client.get("service") or {}
    host = f"{service.get('name')}.{service.get('namespace')}.svc:{service.get('port') or 443}"
    return f"https://{host}{service.get('path') or ''}"


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return b""


def _covers(rule: Object, attributes: Attributes) -> bool:
    kind = attributes.kind
    return (
        _has(rule.get("operations"), attributes.operation)
        and _has(rule.get("apiGroups"), kind.group)
        and _has(rule.get("apiVersions"), kind.version)
        and rule.get("scope", "*") in {"*", "Namespaced" if kind.namespaced else "Cluster"}
        and any(_names(pattern, kind.plural, attributes.subresource) for pattern in rule.get("resources") or ())
    )


def _has(values: Any, value: str) -> bool:
    return "*" in (values or ()) or value in (values or ())


def _names(pattern: str, plural: str, subresource: str) -> bool:
    """Whether ``pods``, ``pods/status``, ``pods/*``, ``*/status``, ``*`` or ``*/*`` names a resource."""
    wanted, slash, part = pattern.partition("/")
    if wanted not in {"*", plural}:
        return False
    return part in {"*", subresource} if slash else not subresource


def _labels(obj: Object) -> dict[str, str]:
    return obj["metadata"].get("labels") or {}
