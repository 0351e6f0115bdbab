"""Columns of ``meta.k8s.io`` Tables, texts that several kinds have in their cells, and the columns of custom resources.

These are the ``additionalPrinterColumns`` of their definitions, which are JSONPaths. Columns have no descriptions,
which kubectl does not print.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

import orjson

from gangctl.api.jsonpath import TemplateError, parse_path
from gangctl.sandbox.objects import Object

Cells = Callable[[Object], list[Any]]
"""The cells of an object after its name: all of them, those of ``kubectl get -o wide`` too."""

NONE: Final = "<none>"
UNKNOWN: Final = "<unknown>"
_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400


@dataclass(frozen=True, slots=True)
class Column:
    """One column; with a ``priority`` only ``kubectl get -o wide`` shows it."""

    name: str
    type: str = "string"
    priority: int = 0
    format: str = ""

    def as_json(self) -> Object:
        """A ``TableColumnDefinition``."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": "",
            "priority": self.priority,
        }


NAME: Final = Column("Name", format="name")
AGE: Final = Column("Age")
CREATED_AT: Final = Column("Created At", "date")


@dataclass(frozen=True, slots=True)
class Printer:
    """How one kind is printed: ``columns`` after the name, and the ``cells`` of an object in them."""

    columns: tuple[Column, ...]
    cells: Cells


def columns(*names: str, wide: Iterable[str] = ()) -> tuple[Column, ...]:
    """Columns of text; ``wide`` are those of ``-o wide``."""
    return (*(Column(name) for name in names), *(Column(name, priority=1) for name in wide))


def metadata(obj: Object) -> Mapping[str, Any]:
    """``metadata``; empty in what has none."""
    return obj.get("metadata") or {}


def spec(obj: Object) -> Mapping[str, Any]:
    """``spec``; empty in what has none."""
    return obj.get("spec") or {}


def status(obj: Object) -> Mapping[str, Any]:
    """``status``; empty in what has none."""
    return obj.get("status") or {}


def age(obj: Object) -> str:
    """The time since the object was created."""
    return since(metadata(obj).get("creationTimestamp"))


def since(time: str | None) -> str:
    """The time since ``time``, which is RFC 3339."""
    moment = moment_of(time)
    return UNKNOWN if moment is None else duration((datetime.now(UTC) - moment).total_seconds())


def moment_of(time: str | None) -> datetime | None:
    """A point in time; None when there is none, or no zone, without which it names no point."""
    try:
        moment = datetime.fromisoformat(time) if time else None
    except ValueError:
        return None
    return None if moment is None or moment.tzinfo is None else moment


def duration(seconds: float) -> str:
    """A duration as people read it: ``HumanDuration`` of ``k8s.io/apimachinery/pkg/util/duration``."""
    whole = int(seconds)
    # As there, clocks of two machines may differ by less than two seconds.
    if whole < -1:
        return "<invalid>"
    whole = max(whole, 0)
    if whole < 2 * _MINUTE:
        return f"{whole}s"
    if whole < 3 * _HOUR:
        return _two(whole, (_MINUTE, "m"), (1, "s"), 10 * _MINUTE)
    if whole < 2 * _DAY:
        return _two(whole, (_HOUR, "h"), (_MINUTE, "m"), 8 * _HOUR)
    if whole < 2 * _YEAR:
        return _two(whole, (_DAY, "d"), (_HOUR, "h"), 8 * _DAY)
    return _two(whole, (_YEAR, "y"), (_DAY, "d"), 8 * _YEAR)


def _two(seconds: int, unit: tuple[int, str], smaller: tuple[int, str], limit: int) -> str:
    """In one unit; below ``limit`` the rest in the smaller one."""
    count, rest = divmod(seconds, unit[0])
    rest //= smaller[0]
    return f"{count}{unit[1]}{rest}{smaller[1]}" if rest and seconds < limit else f"{count}{unit[1]}"


def joined(texts: Iterable[str]) -> str:
    """Texts in one cell, ``<none>`` for none."""
    return ",".join(texts) or NONE


def pairs(labels: Mapping[str, str]) -> str:
    """The labels that a selector asks for, in one cell."""
    return joined(f"{key}={value}" for key, value in sorted(labels.items()))


def is_true(conditions: Iterable[Mapping[str, Any]] | None, kind: str) -> bool:
    """Whether a condition is there and true."""
    return any(condition.get("type") == kind and condition.get("status") == "True" for condition in conditions or ())


_path: Final = lru_cache(maxsize=256)(parse_path)

_AGE: Final[Object] = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
JOBSET_COLUMNS: Final[Sequence[Object]] = (
    {"name": "TerminalState", "type": "string", "jsonPath": ".status.terminalState"},
    {"name": "Restarts", "type": "string", "jsonPath": ".status.restarts"},
    {"name": "Completed", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Completed")].status'},
    {"name": "Suspended", "type": "string", "jsonPath": ".spec.suspend"},
    _AGE,
)
"""Those of the CustomResourceDefinition of JobSet 0.12."""


def printer_of(columns: Sequence[Object] | None) -> Printer:
    """The printer of ``additionalPrinterColumns``, or of the age if there are none."""
    columns = columns or [_AGE]
    shown = tuple(
        Column(column["name"], column["type"], column.get("priority", 0), column.get("format", ""))
        for column in columns
    )
    cells = [(column["type"], column["jsonPath"]) for column in columns]
    return Printer(shown, lambda obj: [_cell(kind, select(path, obj)) for kind, path in cells])


def select(path: str, obj: Any) -> list[Any]:
    """The values at a JSONPath; none at what is no path, or does not match the object."""
    try:
        return _path(path).find(obj)
    except TemplateError:
        return []


def _cell(kind: str, values: list[Any]) -> Any:
    """The first value as a column of this type has it; None if it has none."""
    if not values or values[0] is None:
        return None
    value = values[0]
    match kind:
        case "string":
            return value if isinstance(value, str) else orjson.dumps(value).decode()
        case "date":
            if not isinstance(value, str):
                return None
            return "<invalid>" if moment_of(value) is None else since(value)
        case "boolean":
            return value if isinstance(value, bool) else None
        case "integer" | "number" if isinstance(value, int | float) and not isinstance(value, bool):
            return int(value) if kind == "integer" else value
    return None
