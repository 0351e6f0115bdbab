"""Semantic versions (semver.org 2.0.0): ``semver('1.2.3-rc.1')``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import total_ordering
from typing import ClassVar, Final

from gangctl.cel.library.values import INT_MAX, UINT_MAX, Extension, Implementation, function, method, readable, reading

LONGEST: Final = 1024
"""Characters of a version."""

_NUMBER: Final = re.compile(r"0|[1-9][0-9]*", re.ASCII)
_IDENTIFIER: Final = re.compile(r"[0-9A-Za-z-]+", re.ASCII)
_PARTS: Final = 3


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Semver(Extension):
    """A version; ordered by precedence, which ignores ``build``."""

    KIND: ClassVar[str] = "kubernetes.Semver"
    major: int
    minor: int
    patch: int
    pre: tuple[int | str, ...] = ()
    build: tuple[str, ...] = ()

    def precedence(self) -> tuple[object, ...]:
        """The sort key of versions: numbers before words, a pre-release before its release."""
        words = tuple((isinstance(part, str), part) for part in self.pre)
        return (self.major, self.minor, self.patch, not self.pre, words)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Semver) and self.precedence() == other.precedence()

    def __lt__(self, other: Semver) -> bool:
        return self.precedence() < other.precedence()

    def __hash__(self) -> int:
        return hash(self.precedence())


def parse(text: str) -> Semver:
    """Parse a version; ValueError when ``text`` is none."""
    if len(text) > LONGEST:
        raise ValueError("too long")
    parts = text.split(".", _PARTS - 1)
    if len(parts) != _PARTS:
        raise ValueError("major, minor and patch are needed")
    rest, plus, build = parts[2].partition("+")
    patch, dash, pre = rest.partition("-")
    return Semver(
        _number(parts[0]),
        _number(parts[1]),
        _number(patch),
        tuple(_number(part) if part.isascii() and part.isdigit() else _identifier(part) for part in pre.split("."))
        if dash
        else (),
        tuple(_identifier(part) for part in build.split(".")) if plus else (),
    )


def _number(text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise ValueError("a number is needed, without zeros before it")
    value = int(text)
    if value > UINT_MAX:
        raise ValueError("a number is too large")
    return value


def _identifier(text: str) -> str:
    if not _IDENTIFIER.fullmatch(text):
        raise ValueError("only letters, digits and '-' may follow '-' and '+'")
    return text


# normalizeAndParse of k8s.io/apiserver, pkg/cel/library.
def _normalized(text: str) -> str:
    """``v1.2`` as ``1.2.0``, and ``01.2.3`` as ``1.2.3``."""
    parts = [_without_zeros(part) for part in text.removeprefix("v").split(".", _PARTS - 1)]
    if len(parts) < _PARTS and any(mark in parts[-1] for mark in "+-"):
        raise ValueError("a short version cannot have a pre-release or build")
    return ".".join([*parts, *["0"] * (_PARTS - len(parts))])


def _without_zeros(part: str) -> str:
    if len(part) <= 1:
        return part
    stripped = part.lstrip("0")
    return stripped if stripped[:1] in set("0123456789") else f"0{stripped}"


def _semver(text: str, normalize: bool = False) -> Semver:
    return parse(_normalized(text) if normalize else text)


def _compare(left: Semver, right: Semver) -> int:
    return int(left > right) - int(left < right)


def _int64(value: int) -> int:
    """Numbers are unsigned; Go's conversion to int64 wraps."""
    return value if value <= INT_MAX else value - UINT_MAX - 1


_KIND: Final = Semver.KIND
OVERLOADS: Final[tuple[Implementation, ...]] = (
    function("semver", reading("semver", _semver), "string"),
    function("semver", reading("semver", _semver), "string", "bool"),
    function("isSemver", readable(_semver), "string"),
    function("isSemver", readable(_semver), "string", "bool"),
    method("isGreaterThan", lambda left, right: left > right, _KIND, _KIND),
    method("isLessThan", lambda left, right: left < right, _KIND, _KIND),
    method("compareTo", _compare, _KIND, _KIND),
    method("major", lambda version: _int64(version.major), _KIND),
    method("minor", lambda version: _int64(version.minor), _KIND),
    method("patch", lambda version: _int64(version.patch), _KIND),
)
