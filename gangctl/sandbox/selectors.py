"""Label selectors and field selectors: parsed once, then a test of objects.

Grammar and words follow ``k8s.io/apimachinery/pkg/labels`` and ``fields``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from gangctl.sandbox import errors
from gangctl.sandbox.kinds import ResourceKind
from gangctl.sandbox.objects import Object
from gangctl.sandbox.rules.metadata import label_value, qualified_name

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


def _key(tokens: _Tokens, *, negated: bool) -> str:
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
    key = _key(tokens, negated=negated)
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
_MISSING: Final = {
    "spec.hostNetwork": "false",
    "spec.unschedulable": "false",
}


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
