"""Get and list, at the present or a stored revision, in pages, filtered by label selectors and field selectors.

A selector is parsed once, then it is a test of objects. Grammar and words follow ``k8s.io/apimachinery/pkg/labels`` and
``fields``.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import orjson

from gangctl.api.objects import Key
from gangctl.sandbox import errors
from gangctl.sandbox.errors import StatusError
from gangctl.sandbox.kinds import ResourceKind
from gangctl.sandbox.objects import Object
from gangctl.sandbox.rules.metadata import label_value, qualified_name
from gangctl.sandbox.store import Store, Stored, in_version

LabelTest = Callable[[Mapping[str, str]], bool]

_TOKEN: Final = re.compile(r"\s*(==|!=|=|!|<|>|\(|\)|,|[^\s=!<>(),]+)")
_OPERATORS: Final = {"=": "=", "==": "=", "!=": "!=", "in": "in", "notin": "notin", ">": ">", "<": "<"}
_EXPECTED_OPERATOR: Final = "in, notin, =, ==, !=, gt, lt"
_SYMBOLS: Final = frozenset({"=", "==", "!=", "!", "<", ">", "(", ")", ","})


@dataclass(frozen=True, slots=True)
class Requirement:
    """One term of a label selector; ``operator`` is exists, !, =, !=, in, notin, > or <."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether these labels satisfy it; != and notin are true of what lacks the key."""
        value = labels.get(self.key)
        match self.operator:
            case "exists":
                return value is not None
            case "!":
                return value is None
            case "=" | "in":
                return value in self.values
            case "!=" | "notin":
                return value not in self.values
        if value is None or not value.lstrip("-").isdigit():
            return False
        bound = int(self.values[0])
        return int(value) > bound if self.operator == ">" else int(value) < bound


class _Tokens:
    def __init__(self, text: str) -> None:
        self._tokens = _TOKEN.findall(text)
        self._at = 0

    def peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def next(self) -> str:
        token = self.peek()
        self._at += 1
        return token


@lru_cache(maxsize=256)
def parse_labels(text: str) -> tuple[Requirement, ...]:
    """The terms of a label selector in string form; 400 when it cannot be read."""
    tokens = _Tokens(text)
    found: list[Requirement] = []
    while tokens.peek():
        found.append(_requirement(tokens))
        separator = tokens.next()
        if separator not in {",", ""}:
            raise errors.bad_request(f"found '{separator}', expected: ',' or 'end of string'")
        if separator == "," and not tokens.peek():
            raise errors.bad_request("found '', expected: identifier after ','")
    return tuple(found)


def _label_key(tokens: _Tokens, *, negated: bool) -> str:
    key = tokens.next()
    if not negated and key in _SYMBOLS:
        raise errors.bad_request(f"found '{key}', expected: !, identifier, or 'end of string'")
    if not key or key in _SYMBOLS:
        raise errors.bad_request(f"unable to parse requirement: found '{key}', expected: identifier")
    if wrong := qualified_name(key):
        raise errors.bad_request(f'unable to parse requirement: <nil>: Invalid value: "{key}": {wrong[0]}')
    return key


def _requirement(tokens: _Tokens) -> Requirement:
    negated = tokens.peek() == "!"
    if negated:
        tokens.next()
    key = _label_key(tokens, negated=negated)
    if negated:
        return Requirement(key, "!")
    if tokens.peek() in {"", ","}:
        return Requirement(key, "exists")
    operator = tokens.next()
    if operator not in _OPERATORS:
        raise errors.bad_request(f"unable to parse requirement: found '{operator}', expected: {_EXPECTED_OPERATOR}")
    if operator in {"in", "notin"}:
        return Requirement(key, operator, _values(tokens))
    value = "" if tokens.peek() in _SYMBOLS else tokens.next()
    if wrong := label_value(value):
        message = f'unable to parse requirement: values[0][{key}]: Invalid value: "{value}": {wrong[0]}'
        raise errors.bad_request(message)
    if operator in {">", "<"} and not value.lstrip("-").isdigit():
        raise errors.bad_request(
            f"unable to parse requirement: values[0][{key}]: Invalid value: \"{value}\": for 'Gt', 'Lt' operators, "
            "the value must be an integer"
        )
    return Requirement(key, _OPERATORS[operator], (value,))


def _values(tokens: _Tokens) -> tuple[str, ...]:
    opening = tokens.next()
    if opening != "(":
        raise errors.bad_request(f"unable to parse requirement: found '{opening}' expected: '('")
    values: list[str] = []
    while True:
        word = tokens.next()
        if word == ")":
            return tuple(values) or ("",)
        if not word:
            expected = "',' or ')'" if values else "',', ')' or identifier"
            raise errors.bad_request(f"unable to parse requirement: found '', expected: {expected}")
        if word != ",":
            values.append(word)


def label_test(text: str) -> LabelTest | None:
    """The test of a selector in string form; None when everything matches."""
    requirements = parse_labels(text)
    if not requirements:
        return None
    return lambda labels: all(requirement.matches(labels) for requirement in requirements)


_OBJECT_OPERATORS: Final = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}


def selector_object_test(selector: Mapping[str, Any] | None) -> LabelTest:
    """The test of a ``metav1.LabelSelector``: None matches nothing, an empty one everything."""
    if selector is None:
        return lambda labels: False  # noqa: ARG005 - the signature of every test
    requirements = [Requirement(key, "=", (str(value),)) for key, value in (selector.get("matchLabels") or {}).items()]
    for term in selector.get("matchExpressions") or []:
        operator = _OBJECT_OPERATORS.get(str(term.get("operator")))
        if operator is None:
            raise errors.bad_request(f"{term.get('operator')!r} is not a valid label selector operator")
        requirements.append(Requirement(str(term.get("key")), operator, tuple(map(str, term.get("values") or ()))))
    return lambda labels: all(requirement.matches(labels) for requirement in requirements)


@dataclass(frozen=True, slots=True)
class FieldTerm:
    """One term of a field selector."""

    path: str
    value: str
    equal: bool


@lru_cache(maxsize=256)
def parse_fields(text: str) -> tuple[FieldTerm, ...]:
    """The terms of a field selector; 400 when it cannot be read."""
    # Commas after a backslash do not separate.
    return tuple(_field_term(term, text) for term in re.split(r"(?<!\\),", text) if term)


def _field_term(term: str, whole: str) -> FieldTerm:
    found = re.match(r"(.*?)(!=|==|=)(.*)", term)
    if found is None:
        raise errors.bad_request(f"invalid selector: '{whole}'; can't understand '{term}'")
    value = re.sub(r"\\([\\,=])", r"\1", found[3])
    return FieldTerm(found[1], value, found[2] != "!=")


def _check_label(kind: ResourceKind, path: str) -> None:
    if path in {"metadata.name", "metadata.namespace"} or path in kind.field_labels:
        return
    if kind.custom or kind.field_labels:
        raise errors.bad_request(f"field label not supported: {path}")
    raise errors.bad_request(f'"{path}" is not a known field selector: only "metadata.name", "metadata.namespace"')


def field_value(obj: Object, path: str) -> str:
    """The value a field selector compares, "" for what is missing."""
    value: Any = obj
    for segment in path.split("."):
        value = value.get(segment) if isinstance(value, dict) else None
    if value is None:
        return _MISSING.get(path, "")
    if isinstance(value, bool):
        return "true" if value else "false"
    if path == "source":
        return str(value.get("component") or "")
    return str(value)


# What the Go type says when the field is not written.
_MISSING: Final = {"spec.hostNetwork": "false", "spec.unschedulable": "false"}


@dataclass(frozen=True, slots=True)
class Selection:
    """What a list or watch is narrowed to; ``everything`` skips the tests."""

    labels: LabelTest | None = None
    fields: tuple[FieldTerm, ...] = ()

    @property
    def everything(self) -> bool:
        """Whether nothing is left out."""
        return self.labels is None and not self.fields

    def matches(self, obj: Object) -> bool:
        """Whether ``obj``, in the version it was asked in, is selected."""
        if self.labels is not None and not self.labels(obj["metadata"].get("labels") or {}):
            return False
        return all((field_value(obj, term.path) == term.value) == term.equal for term in self.fields)


EVERYTHING: Final = Selection()


def selection(kind: ResourceKind, labels: str = "", fields: str = "") -> Selection:
    """The selection of ``labelSelector`` and ``fieldSelector``; 400 when one cannot be read or is not supported."""
    if not labels and not fields:
        return EVERYTHING
    terms = parse_fields(fields)
    for term in terms:
        _check_label(kind, term.path)
    return Selection(label_test(labels), terms)


_TOKEN_VERSION: Final = "meta.k8s.io/v1"  # noqa: S105 - a format's name


@dataclass(frozen=True, slots=True)
class ListQuery:
    """``metav1.ListOptions`` of a list, without the resourceVersionMatch."""

    labels: str = ""
    fields: str = ""
    limit: int = 0
    token: str = ""
    resource_version: str = ""


@dataclass(frozen=True, slots=True)
class WatchQuery:
    """``metav1.ListOptions`` of a watch."""

    labels: str = ""
    fields: str = ""
    resource_version: str = ""
    bookmarks: bool = False
    initial_events: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """Result of a list: frozen objects, its revision, and the continue token."""

    items: list[Stored]
    revision: int
    token: str = ""
    remaining: int | None = None


@dataclass(frozen=True, slots=True)
class ObjectList:
    """A list as callers of :class:`Api` get it: copies, and its ``resource_version``."""

    items: list[Object]
    resource_version: str


def parse_revision(text: str) -> int:
    """A resourceVersion; "" is 0. ValueError, with the server's words, when it is none."""
    if not text:
        return 0
    if not text.isascii() or not text.isdigit():
        raise ValueError(f'strconv.ParseUint: parsing "{text}": invalid syntax')
    return int(text)


def get(store: Store, kind: ResourceKind, namespace: str, name: str) -> Stored:
    """One object; 404 without it."""
    stored = store.get(kind.storage, (namespace, name))
    if stored is None:
        raise errors.not_found(kind, name)
    return in_version(kind, stored)


def page(store: Store, kind: ResourceKind, namespace: str | None, query: ListQuery) -> Page:
    """A page of a list, at the present revision unless the token has another.

    400 for invalid selectors and tokens, 410 if the revision of the token has expired.
    """
    chosen = selection(kind, query.labels, query.fields)
    if query.token:
        revision, start = _read_token(query.token)
        try:
            items = store.items(kind.storage, namespace, revision)
        except StatusError as error:
            raise errors.expired(errors.CONTINUE_EXPIRED_MESSAGE) from error
        rest = [stored for stored in items if _key(stored) >= start]
        return _cut(rest, revision, kind, query.limit, chosen)
    # "Whatever you have" comes from a cache that does not cut.
    limit = 0 if query.resource_version == "0" else query.limit
    return _cut(store.items(kind.storage, namespace), store.revision, kind, limit, chosen)


def _cut(items: list[Stored], revision: int, kind: ResourceKind, limit: int, chosen: Selection) -> Page:
    items = [in_version(kind, stored) for stored in items]
    if not chosen.everything:
        items = [stored for stored in items if chosen.matches(stored.obj)]
    if limit <= 0 or len(items) <= limit:
        return Page(items, revision)
    last = _key(items[limit - 1])
    # Nothing sorts between a name and the same name with a zero byte.
    value = {"v": _TOKEN_VERSION, "rv": revision, "start": "/".join(filter(None, last)) + "\x00"}
    token = base64.urlsafe_b64encode(orjson.dumps(value)).rstrip(b"=").decode()
    # The number of remaining items is known only if the store need not read them.
    remaining = len(items) - limit if chosen.everything else None
    return Page(items[:limit], revision, token, remaining)


def _key(stored: Stored) -> Key:
    metadata = stored.obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def _read_token(token: str) -> tuple[int, Key]:
    try:
        value = orjson.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        revision, start = int(value["rv"]), str(value["start"])
    except (binascii.Error, ValueError, KeyError, TypeError) as error:
        message = (
            "invalid continue token: continue key is not valid: invalid character 'i' looking for beginning of value"
        )
        raise errors.bad_request(message) from error
    namespace, _, name = start.rpartition("/")
    return revision, (namespace, name)
