"""What a field of a report is beyond its type: annotations, for readers, for JSON and for its JSON Schema.

A report is a TypedDict, or a frozen dataclass that :func:`as_json` prints.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from functools import cache
from operator import attrgetter
from typing import Annotated, Any, Final, get_args, get_origin, get_type_hints

Writer = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Minimum:
    """Annotation of a number, beside its description: the minimum, where that is not 0."""

    least: int


class AsQuantity:
    """Annotation of an amount, or of amounts by resource: integers to policies, quantities in output."""


QUANTITY: Final = AsQuantity()

SIGNED: Final = Minimum(-(2**31))
"""Minimum of a signed 32-bit number, such as a priority."""


class Time:
    """Annotation of Unix seconds: RFC 3339 in output, empty for 0."""


TIME: Final = Time()


class Internal:
    """Annotation of a field of a dataclass that output does not have."""


INTERNAL: Final = Internal()


@dataclass(frozen=True, slots=True)
class OutputKey:
    """Annotation of a field of a dataclass: its key in output, where that is not its name in camel case."""

    name: str


def printed_fields(kind: Any) -> Mapping[str, tuple[str, Any]]:
    """Name and annotated type of each field of a dataclass that output has, by its key."""
    hints = get_type_hints(kind, include_extras=True)
    printed = {}
    for field in fields(kind):
        hint = hints[field.name]
        notes = hint.__metadata__ if get_origin(hint) is Annotated else ()
        if INTERNAL not in notes:
            head, *rest = field.name.split("_")
            key = next(
                (note.name for note in notes if isinstance(note, OutputKey)), head + "".join(map(str.capitalize, rest))
            )
            printed[key] = (field.name, hint)
    return printed


def as_json(report: Any) -> dict[str, Any]:
    """A dataclass as JSON: keys in the order of its fields, enums as their values, tuples as lists."""
    names, writers = _layout(report.__class__)
    printed = {key: getattr(report, name) for key, name in names}
    for key, write in writers:
        printed[key] = write(printed[key])
    return printed


@cache
def _layout(kind: Any) -> tuple[list[tuple[str, str]], list[tuple[str, Writer]]]:
    """Key and name of each field, and what makes JSON of those that are none yet."""
    printed = printed_fields(kind)
    names = [(key, name) for key, (name, _) in printed.items()]
    return names, [(key, write) for key, (_, hint) in printed.items() if (write := _writer(hint)) is not None]


def _writer(hint: Any) -> Writer | None:
    """What makes JSON of a value of a type; None if the value is JSON."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return rfc3339 if TIME in parts else _writer(parts[0])
    if origin is tuple:
        write = _writer(parts[0])
        return list if write is None else lambda values: [write(value) for value in values]
    if is_dataclass(hint):
        return as_json
    return attrgetter("value") if isinstance(hint, type) and issubclass(hint, Enum) else None


def rfc3339(seconds: int) -> str:
    """Unix seconds as Kubernetes writes times, empty for 0."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if seconds else ""
