"""Webhook registrations as the server uses them, read once per version of a configuration, and the API server's CEL.

The objects are MutatingWebhookConfiguration and ValidatingWebhookConfiguration of ``admissionregistration.k8s.io/v1``.
``matchConditions``, and rules of schemas, are evaluated by the evaluator of policies.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from gangctl.sandbox.admission import Attributes
from gangctl.sandbox.objects import Object
from gangctl.sandbox.selectors import LabelTest, selector_object_test
from gangctl.sandbox.store import Store, Stored

_STEPS: Final = 10_000_000
"""Limits of one expression, without a time limit: independent of the machine's speed."""


class ConditionError(Exception):
    """A condition has no result for this request: ``condition`` and the error."""


class Conditions:
    """All conditions of one webhook, compiled when the first request has to be evaluated."""

    def __init__(self, raw: Iterable[Mapping[str, str]]) -> None:
        """Store ``matchConditions`` unchanged."""
        self._raw = [(condition["name"], condition["expression"]) for condition in raw]

    def hold(self, variables: Mapping[str, Any]) -> bool:
        """Whether every condition is true of ``object``, ``oldObject`` and ``request``.

        A false one decides, also if others fail; otherwise :class:`ConditionError`
        for the first that fails.
        """
        failed: ConditionError | None = None
        for name, expression in self._raw:
            try:
                if not _program(expression, rule=False)(variables):
                    return False
            except ConditionError as error:
                failed = failed or ConditionError(f"expression '{expression}' of match condition {name!r}: {error}")
        if failed is not None:
            raise failed
        return True


def check(expression: str) -> str:
    """The error of a condition, "" if it compiles."""
    try:
        _program(expression, rule=False)
    except ConditionError as error:
        return str(error)
    return ""


def holds(rule: str, value: Any, old: Any) -> bool:
    """Whether the rule of a schema holds for ``self`` and, if there is one, ``oldSelf``; :class:`ConditionError`."""
    return _program(rule, rule=True)({"self": value} if old is None else {"self": value, "oldSelf": old})


@lru_cache(maxsize=512)
def _program(expression: str, *, rule: bool) -> Callable[[Mapping[str, Any]], bool]:
    # It takes half a second to load, and many servers never need it.
    from gangctl.cel.check import check as check_expression  # noqa: PLC0415
    from gangctl.cel.environments import Environment, admission  # noqa: PLC0415
    from gangctl.cel.faults import CompileError, EvalError  # noqa: PLC0415
    from gangctl.cel.meter import StepMeter  # noqa: PLC0415
    from gangctl.cel.program import compile_expression  # noqa: PLC0415
    from gangctl.cel.types import BOOL, DYN  # noqa: PLC0415

    # The fields of a schema have types, which are not checked here.
    environment = Environment({"self": DYN, "oldSelf": DYN}) if rule else admission(params=False)
    try:
        program = compile_expression(check_expression(expression, environment, returns=() if rule else (BOOL,)))
    except CompileError as error:
        raise ConditionError(f"compilation failed: {error.message}") from error

    def evaluate(variables: Mapping[str, Any]) -> bool:
        try:
            answer = program.evaluate(variables, {}, StepMeter(_STEPS, 1.0, lambda: 0.0))
        except EvalError as error:
            raise ConditionError(error.message) from error
        if answer is not True and answer is not False:
            raise ConditionError("must evaluate to bool")
        return bool(answer)

    return evaluate


def request_variable(request: Object) -> Object:
    """The variable ``request``: the AdmissionRequest without the objects."""
    return {key: value for key, value in request.items() if key not in {"object", "oldObject"}}


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
