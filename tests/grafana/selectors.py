"""What a PromQL expression names: selectors with what is around them, and the labels it groups and joins by.

Only for expressions that promtool accepts: this reads names, it does not evaluate grammar.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<text>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`[^`]*`)|(?P<range>\[[^\]]*\])"""
    r"""|(?P<number>\d[\w.]*)|(?P<name>[A-Za-z_:][\w:]*)|(?P<other>=~|!~|!=|==|>=|<=|.))""",
    re.DOTALL,
)
_GROUPING: Final = frozenset({"by", "without", "on", "ignoring", "group_left", "group_right"})
_WORDS: Final = frozenset({"and", "or", "unless", "bool", "offset", "inf", "nan"})


@dataclass(frozen=True)
class Selector:
    """One selector: its metric, matchers, range (``5m``, empty for none), and the functions around it, inner first."""

    metric: str
    matchers: tuple[tuple[str, str, str], ...]
    range: str
    inside: tuple[str, ...]

    @property
    def labels(self) -> set[str]:
        """Labels that it matches by."""
        return {label for label, _, _ in self.matchers}


@dataclass
class Named:
    """All that is named in one expression."""

    selectors: list[Selector] = field(default_factory=list)
    grouped: set[str] = field(default_factory=set)
    """Labels of by, without, on, ignoring, group_left and group_right."""


def named(expression: str) -> Named:
    """What an expression names."""
    return _Reader(expression).read()


class _Reader:
    def __init__(self, expression: str) -> None:
        self._tokens = list(_tokens(expression))
        self._at = 0
        self._found = Named()
        self._inside: list[str] = []

    def read(self) -> Named:
        while self._at < len(self._tokens):
            kind, text = self._next()
            if kind == "name":
                self._name(text)
            elif text == "{":
                self._selector("")
            elif text == "(":
                self._inside.append("")
            elif text == ")":
                self._inside.pop()
        return self._found

    def _name(self, text: str) -> None:
        if text.lower() in _WORDS:
            return
        if text in _GROUPING:
            if self._peek() == "(":
                self._found.grouped |= set(self._labels())
        elif self._peek() == "(":
            self._next()
            self._inside.append(text)
        elif self._peek() in _GROUPING:
            # sum by (label) (...): the labels stand between the name and what it is about.
            self._next()
            self._found.grouped |= set(self._labels())
            self._next()
            self._inside.append(text)
        else:
            if self._peek() == "{":
                self._next()
            else:
                self._put(Selector(text, (), self._range(), self._around()))
                return
            self._selector(text)

    def _selector(self, metric: str) -> None:
        matchers: list[tuple[str, str, str]] = []
        while self._peek() != "}":
            label, operator, value = (self._next()[1] for _ in range(3))
            matchers.append((label, operator, value[1:-1]))
            if self._peek() == ",":
                self._next()
        self._next()
        self._put(Selector(metric, tuple(matchers), self._range(), self._around()))

    def _labels(self) -> Iterator[str]:
        self._next()
        while (text := self._next()[1]) != ")":
            if text != ",":
                yield text

    def _range(self) -> str:
        if self._at < len(self._tokens) and self._tokens[self._at][0] == "range":
            return self._next()[1][1:-1]
        return ""

    def _around(self) -> tuple[str, ...]:
        return tuple(name for name in reversed(self._inside) if name)

    def _put(self, selector: Selector) -> None:
        self._found.selectors.append(selector)

    def _peek(self) -> str:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else ""

    def _next(self) -> tuple[str, str]:
        token = self._tokens[self._at]
        self._at += 1
        return token


def _tokens(expression: str) -> Iterator[tuple[str, str]]:
    for found in _TOKEN.finditer(expression.rstrip()):
        kind = str(found.lastgroup)
        yield kind, found[kind]
