"""Signatures of functions, parsed from the tables of this package."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from gangctl.cel import types
from gangctl.cel.types import Type

_ALIASES: Final = {
    "Duration": types.DURATION,
    "Timestamp": types.TIMESTAMP,
    "Quantity": types.QUANTITY,
    "URL": types.URL,
    "IP": types.IP,
    "CIDR": types.CIDR,
    "Semver": types.SEMVER,
    "Format": types.FORMAT,
    "Authorizer": Type("kubernetes.authorization.Authorizer"),
    "PathCheck": Type("kubernetes.authorization.PathCheck"),
    "GroupCheck": Type("kubernetes.authorization.GroupCheck"),
    "ResourceCheck": Type("kubernetes.authorization.ResourceCheck"),
    "Decision": Type("kubernetes.authorization.Decision"),
}
_CONTAINERS: Final = {"list": "list", "map": "map", "optional": "optional_type", "type": "type"}
_WORD: Final = re.compile(r"\s*([A-Za-z]+|[(),])")
_SIGNATURE: Final = re.compile(
    r"(?:(?P<target>[A-Za-z]+(?:\(.*?\))?)::)?(?P<name>[^(\s]+)\((?P<parameters>.*)\) -> (?P<result>.+)"
)


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature of a function; of a ``method`` the first parameter is the target.

    ``scans`` means that its time grows with its input, ``generic`` that it has type parameters.
    """

    name: str
    parameters: tuple[Type, ...]
    result: Type
    method: bool
    scans: bool
    generic: bool

    def __str__(self) -> str:
        parameters = [str(parameter) for parameter in self.parameters]
        if self.method:
            return f"{parameters[0]}.{self.name}({', '.join(parameters[1:])})"
        return f"{self.name}({', '.join(parameters)})"


def is_parameter(type_: Type) -> bool:
    """Whether a type is a type parameter (``A``)."""
    return len(type_.name) == 1 and type_.name.isupper()


def _has_parameter(type_: Type) -> bool:
    return is_parameter(type_) or any(map(_has_parameter, type_.parameters))


def overloads(lines: str | Iterable[str], *, scans: bool = False) -> tuple[Overload, ...]:
    """Overloads from lines such as ``string::find(string) -> string`` and ``ip(string) -> IP``."""
    if isinstance(lines, str):
        lines = [line for line in map(str.strip, lines.splitlines()) if line]
    return tuple(_overload(line, scans=scans) for line in lines)


def _overload(line: str, *, scans: bool) -> Overload:
    match = _SIGNATURE.fullmatch(line)
    if match is None:
        raise ValueError(f"{line!r} is no signature")
    target = match["target"]
    parameters = _types(f"{target},{match['parameters']}".rstrip(", ") if target else match["parameters"])
    (result,) = _types(match["result"])
    generic = any(map(_has_parameter, (*parameters, result)))
    return Overload(match["name"], parameters, result, target is not None, scans, generic)


def _types(text: str) -> tuple[Type, ...]:
    words: Iterator[str] = iter(_WORD.findall(text))
    sequence, _ = _sequence(words)
    return tuple(sequence)


def _sequence(words: Iterator[str]) -> tuple[list[Type], str]:
    """Types up to a closing bracket or the end."""
    sequence: list[Type] = []
    for word in words:
        if word == ")":
            return sequence, word
        if word == "(":
            inner, _ = _sequence(words)
            sequence[-1] = Type(_CONTAINERS[sequence[-1].name], tuple(inner))
        elif word != ",":
            sequence.append(_ALIASES.get(word, Type(word)))
    return sequence, ""
