"""Label selectors, as text and as ``metav1.LabelSelector``: their syntax, and whether a term matches.

Source: ``k8s.io/apimachinery``, ``pkg/apis/meta/v1/validation`` and ``pkg/labels``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal, cast, get_args

from gangctl.api.names import is_label_value, is_qualified_name, label_value, qualified_name
from gangctl.errors import ErrorKind, FieldError, one_line

Operator = Literal["In", "NotIn", "Exists", "DoesNotExist"]

NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"
"""Label that the API server writes on every Namespace: its name."""

KEY_RULE: Final = (
    "a name of at most 63 letters, digits, '-', '_' and '.' that begins and ends with a letter or digit, "
    "with an optional DNS subdomain and '/' before it"
)
VALUE_RULE: Final = (
    "empty, or at most 63 letters, digits, '-', '_' and '.', beginning and ending with a letter or digit"
)
_SHOWN: Final = 80


def holds(key: str, operator: Operator, values: Sequence[str], labels: Mapping[str, str]) -> bool:
    """Whether a term matches these labels; NotIn matches labels without the key."""
    if operator == "Exists":
        return key in labels
    if operator == "DoesNotExist":
        return key not in labels
    return (labels.get(key) in values) is (operator == "In")


def all_hold(terms: Iterable[Mapping[str, Any]], labels: Mapping[str, str]) -> bool:
    """Whether all ``matchExpressions`` match these labels."""
    return all(holds(term["key"], term["operator"], term.get("values") or (), labels) for term in terms)


def check_labels(labels: Mapping[str, str], path: str) -> Iterator[FieldError]:
    """The errors of ``matchLabels``."""
    for key, value in labels.items():
        yield from check_key(key, path)
        yield from check_value(value, f"{path}[{one_line(key, _SHOWN)}]")


def check_key(key: str, path: str) -> Iterator[FieldError]:
    """The errors of a label key."""
    if not is_qualified_name(key):
        yield FieldError(path, ErrorKind.INVALID, f'"{one_line(key, _SHOWN)}" is no label key: {KEY_RULE}')


def check_value(value: str, path: str) -> Iterator[FieldError]:
    """The errors of a label value."""
    if not is_label_value(value):
        yield FieldError(path, ErrorKind.INVALID, f'"{one_line(value, _SHOWN)}" is no label value: {VALUE_RULE}')


def check_term(key: str, operator: Operator, values: Sequence[str], path: str) -> Iterator[FieldError]:
    """The errors of an entry of ``matchExpressions``."""
    yield from check_key(key, f"{path}.key")
    if operator in {"In", "NotIn"}:
        if not values:
            yield FieldError(f"{path}.values", ErrorKind.REQUIRED, "In and NotIn need at least one value")
    elif values:
        yield FieldError(f"{path}.values", ErrorKind.FORBIDDEN, "Exists and DoesNotExist take no values")
    for index, value in enumerate(values):
        yield from check_value(value, f"{path}.values[{index}]")


class SelectorError(ValueError):
    """A label selector that cannot be read, with the API server's message."""


LabelTest = Callable[[Mapping[str, str]], bool]

_INTEGER: Final = re.compile(r"-?[0-9]+")
_TOKEN: Final = re.compile(r"\s*(==|!=|=|!|<|>|\(|\)|,|[^\s=!<>(),]+)")
_OPERATORS: Final[Mapping[str, Operator | Literal["Gt", "Lt"]]] = {
    "=": "In",
    "==": "In",
    "in": "In",
    "!=": "NotIn",
    "notin": "NotIn",
    ">": "Gt",
    "<": "Lt",
}
_EXPECTED_OPERATOR: Final = "in, notin, =, ==, !=, gt, lt"
_SYMBOLS: Final = frozenset({"=", "==", "!=", "!", "<", ">", "(", ")", ","})


@dataclass(frozen=True, slots=True)
class Requirement:
    """One term of a label selector."""

    key: str
    operator: Operator | Literal["Gt", "Lt"]
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether these labels satisfy it."""
        if self.operator not in {"Gt", "Lt"}:
            return holds(self.key, cast("Operator", self.operator), self.values, labels)
        value = labels.get(self.key)
        # As in pkg/labels, a value that is no number is no error, and does not match.
        if value is None or _INTEGER.fullmatch(value) is None:
            return False
        bound = int(self.values[0])
        return int(value) > bound if self.operator == "Gt" else int(value) < bound


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
    """The terms of a label selector in string form; SelectorError when it cannot be read."""
    tokens = _Tokens(text)
    requirements: list[Requirement] = []
    while tokens.peek():
        requirements.append(_requirement(tokens))
        separator = tokens.next()
        if separator not in {",", ""}:
            raise SelectorError(f"found '{separator}', expected: ',' or 'end of string'")
        if separator == "," and not tokens.peek():
            raise SelectorError("found '', expected: identifier after ','")
    return tuple(requirements)


def _label_key(tokens: _Tokens, *, negated: bool) -> str:
    key = tokens.next()
    if not negated and key in _SYMBOLS:
        raise SelectorError(f"found '{key}', expected: !, identifier, or 'end of string'")
    if not key or key in _SYMBOLS:
        raise SelectorError(f"unable to parse requirement: found '{key}', expected: identifier")
    if wrong := qualified_name(key):
        raise SelectorError(f'unable to parse requirement: <nil>: Invalid value: "{key}": {wrong[0]}')
    return key


def _requirement(tokens: _Tokens) -> Requirement:
    negated = tokens.peek() == "!"
    if negated:
        tokens.next()
    key = _label_key(tokens, negated=negated)
    if negated:
        return Requirement(key, "DoesNotExist")
    if tokens.peek() in {"", ","}:
        return Requirement(key, "Exists")
    operator = tokens.next()
    if operator not in _OPERATORS:
        raise SelectorError(f"unable to parse requirement: found '{operator}', expected: {_EXPECTED_OPERATOR}")
    single = operator not in {"in", "notin"}
    values = ("" if tokens.peek() in _SYMBOLS else tokens.next(),) if single else _values(tokens)
    for index, value in enumerate(values):
        if wrong := label_value(value):
            message = f'unable to parse requirement: values[{index}][{key}]: Invalid value: "{value}": {wrong[0]}'
            raise SelectorError(message)
    if operator in {">", "<"} and _INTEGER.fullmatch(values[0]) is None:
        raise SelectorError(
            f"unable to parse requirement: values[0][{key}]: Invalid value: \"{values[0]}\": for 'Gt', 'Lt' operators, "
            "the value must be an integer"
        )
    return Requirement(key, _OPERATORS[operator], values)


def _values(tokens: _Tokens) -> tuple[str, ...]:
    """The values between parentheses; beside a comma without one there is an empty value, and so in ``()``."""
    opening = tokens.next()
    if opening != "(":
        raise SelectorError(f"unable to parse requirement: found '{opening}' expected: '('")
    values = {""} if tokens.peek() == "," else set[str]()
    expected = "',', ')' or identifier"
    while (word := tokens.next()) != ")":
        after = tokens.peek()
        if word == ",":
            if after in {",", ")"}:
                values.add("")
        elif not word or word in _SYMBOLS:
            raise SelectorError(f"unable to parse requirement: found '{word}', expected: {expected}")
        elif after in {",", ")"}:
            values.add(word)
        else:
            raise SelectorError(f"unable to parse requirement: found '{after}', expected: ',' or ')'")
        expected = "',', or identifier"
    return tuple(sorted(values)) or ("",)


def label_test(text: str) -> LabelTest | None:
    """The test of a selector in string form; None when everything matches."""
    requirements = parse_labels(text)
    if not requirements:
        return None
    return lambda labels: all(requirement.matches(labels) for requirement in requirements)


def selector_object_test(selector: Mapping[str, Any] | None) -> LabelTest:
    """The test of a ``metav1.LabelSelector``: None matches nothing, an empty one everything."""
    if selector is None:
        return lambda labels: False  # noqa: ARG005 - the signature of every test
    requirements = [Requirement(key, "In", (str(value),)) for key, value in (selector.get("matchLabels") or {}).items()]
    for term in selector.get("matchExpressions") or []:
        operator = term.get("operator")
        if operator not in get_args(Operator):
            raise SelectorError(f"{operator!r} is not a valid label selector operator")
        requirements.append(Requirement(str(term.get("key")), operator, tuple(map(str, term.get("values") or ()))))
    return lambda labels: all(requirement.matches(labels) for requirement in requirements)
