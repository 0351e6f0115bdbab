"""Webhook registrations as the server uses them, read once per version of a configuration, and the API server's CEL.

The objects are MutatingWebhookConfiguration and ValidatingWebhookConfiguration of ``admissionregistration.k8s.io/v1``.
``matchConditions``, and rules of schemas, are evaluated by the evaluator of policies.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Final

from gangctl.api.labelselector import LabelTest, selector_object_test
from gangctl.api.objects import same
from gangctl.apiserver.expressions import MatchConditions
from gangctl.sandbox.objects import Object
from gangctl.sandbox.requests import Attributes
from gangctl.sandbox.store import ObjectStore, Stored

MUTATING: Final = "mutatingwebhookconfigurations.admissionregistration.k8s.io"
VALIDATING: Final = "validatingwebhookconfigurations.admissionregistration.k8s.io"
_NAMESPACES: Final = "namespaces"
_NO_SIDE_EFFECTS: Final = frozenset({"None", "NoneOnDryRun"})


POLICIES: Final = "mutatingadmissionpolicies.admissionregistration.k8s.io"
BINDINGS: Final = "mutatingadmissionpolicybindings.admissionregistration.k8s.io"
# A webhook that refused these could not be removed any more.
NEVER_SENT: Final = frozenset({MUTATING, VALIDATING, POLICIES, BINDINGS})
"""What no webhook and no policy gets."""


@dataclass(frozen=True, slots=True)
class Match:
    """The requests that a webhook, a policy or its binding is for."""

    rules: tuple[Object, ...]
    excluded: tuple[Object, ...]
    namespaces: LabelTest
    objects: LabelTest

    @classmethod
    def of(cls, raw: Object, rules: str = "resourceRules") -> Match:
        """Read a webhook, ``matchConstraints`` or ``matchResources``."""
        return cls(
            rules=tuple(raw.get(rules) or ()),
            excluded=tuple(raw.get("excludeResourceRules") or ()),
            namespaces=selector_object_test(raw.get("namespaceSelector") or {}),
            objects=selector_object_test(raw.get("objectSelector") or {}),
        )

    def includes(self, attributes: Attributes, obj: Object | None, namespace: Object | None) -> bool:
        """Whether a rule names this request, and the selectors fit the labels of the namespace and of the object.

        Of an update those of the old object do as well.
        """
        if not any(_covers(rule, attributes) for rule in self.rules):
            return False
        if any(_covers(rule, attributes) for rule in self.excluded):
            return False
        # GetNamespaceLabels of the API server: of a Namespace those that it is to have.
        if attributes.kind.storage == _NAMESPACES and not attributes.subresource and obj is not None:
            namespace = obj
        if namespace is not None and not self.namespaces(_labels(namespace)):
            return False
        return any(self.objects(_labels(one)) for one in (obj, attributes.old) if one is not None)


def namespace_of(attributes: Attributes, store: ObjectStore) -> Object | None:
    """The namespace of a request; None for cluster-scoped objects, which every namespaceSelector matches."""
    if not attributes.namespace:
        return None
    stored = store.get(_NAMESPACES, ("", attributes.namespace))
    return {"metadata": {}} if stored is None else stored.obj


@dataclass(frozen=True, slots=True)
class Hook:
    """One webhook of a configuration; ``seconds`` is its timeout."""

    name: str
    match: Match
    conditions: MatchConditions
    url: str
    authorities: bytes
    seconds: int
    ignores_failure: bool
    has_side_effects: bool
    again_if_needed: bool


class Hooks:
    """The registered webhooks, in the order in which they are called: by configuration name, then as listed."""

    def __init__(self, store: ObjectStore) -> None:
        """Read from ``store`` on each call."""
        self._store = store
        self._read: dict[tuple[str, str], tuple[Stored, tuple[Hook, ...]]] = {}

    def of(self, storage: str) -> list[Hook]:
        """All webhooks of :data:`MUTATING` or :data:`VALIDATING`."""
        webhooks: list[Hook] = []
        for stored in sorted(self._store.items(storage), key=lambda stored: str(stored.obj["metadata"]["name"])):
            key = storage, stored.obj["metadata"]["name"]
            known = self._read.get(key)
            # What is stored is frozen, so that another state is another object.
            if known is None or known[0] is not stored:
                known = self._read[key] = stored, tuple(_hook(raw) for raw in stored.obj.get("webhooks") or [])
            webhooks += known[1]
        return webhooks


def _hook(raw: Object) -> Hook:
    client = raw.get("clientConfig") or {}
    return Hook(
        name=raw["name"],
        match=Match.of(raw, "rules"),
        conditions=MatchConditions(raw.get("matchConditions") or ()),
        url=_url(client),
        authorities=_decoded(client.get("caBundle") or ""),
        seconds=raw.get("timeoutSeconds") or 10,
        ignores_failure=raw.get("failurePolicy") == "Ignore",
        has_side_effects=raw.get("sideEffects") not in _NO_SIDE_EFFECTS,
        again_if_needed=raw.get("reinvocationPolicy") == "IfNeeded",
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
        and (not rule.get("resourceNames") or attributes.name in rule["resourceNames"])
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


class Invocations:
    """Which webhooks, or which policies, are called twice in one request: see KEP-3962, and ``reinvocationPolicy``."""

    def __init__(self) -> None:
        """Begin the first pass."""
        self._called: set[Hashable] = set()
        self._due: set[Hashable] = set()
        self._output: Object | None = None
        self._again = False

    def begin_again(self, obj: Object) -> None:
        """Begin the second pass with what others have made of the result of the first."""
        self._again = True
        if not same(obj, self._output):
            self.changed()

    def end(self, obj: Object) -> None:
        """End a pass with a result."""
        self._output = obj

    def includes(self, key: Hashable) -> bool:
        """Whether one is called in this pass."""
        return not self._again or key in self._due

    def changed(self) -> None:
        """The object has changed: those that were called before are called again."""
        self._due |= self._called
        self._called.clear()

    def called(self, key: Hashable) -> None:
        """One that asks for it was called."""
        self._called.add(key)
