"""The columns of custom resources: ``additionalPrinterColumns`` of their definitions, which are JSONPaths."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

import orjson

from gangctl.sandbox.objects import Object
from gangctl.sandbox.tables.columns import Column, Printer, moment_of, since

Step = Callable[[list[Any]], list[Any]]
"""From the values that a part of a path is applied to, to those that it selects."""

_AGE: Final[Object] = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
JOBSET_COLUMNS: Final[Sequence[Object]] = (
    {"name": "TerminalState", "type": "string", "jsonPath": ".status.terminalState"},
    {"name": "Restarts", "type": "string", "jsonPath": ".status.restarts"},
    {"name": "Completed", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Completed")].status'},
    {"name": "Suspended", "type": "string", "jsonPath": ".spec.suspend"},
    _AGE,
)
"""Those of the CustomResourceDefinition of JobSet 0.12."""

_PART: Final = re.compile(
    r"""\.(?P<field>(?:\\.|[^.\[\]\\])+)"""
    r"""|\['(?P<quoted>[^']+)'\]"""
    r"""|\[(?P<index>\d+|\*)\]"""
    r"""|\[\?\(@(?P<of>(?:\.\w+)+)\s*(?P<operator>==|!=)\s*(?P<mark>["'])(?P<text>.*?)(?P=mark)\)\]"""
)


def printer_of(columns: Sequence[Object] | None) -> Printer:
    """The printer of ``additionalPrinterColumns``, or of the age if there are none."""
    columns = columns or [_AGE]
    shown = tuple(
        Column(each["name"], each["type"], each.get("priority", 0), each.get("format", "")) for each in columns
    )
    cells = [(each["type"], each["jsonPath"]) for each in columns]
    return Printer(shown, lambda obj: [_cell(kind, select(path, obj)) for kind, path in cells])


def select(path: str, obj: Any) -> list[Any]:
    """The values at a JSONPath of fields, indexes, and filters that compare with a text; none at any other path."""
    steps = _steps(path)
    values = [obj] if steps is not None else []
    for step in steps or ():
        values = step(values)
    return values


@lru_cache(maxsize=256)
def _steps(path: str) -> tuple[Step, ...] | None:
    steps: list[Step] = []
    place = 0
    while place < len(path):
        part = _PART.match(path, place)
        if part is None:
            return None
        steps.append(_step(part))
        place = part.end()
    return tuple(steps)


def _step(part: re.Match[str]) -> Step:
    if part["field"] or part["quoted"]:
        name = part["quoted"] or re.sub(r"\\(.)", r"\1", part["field"])
        return lambda values: [each[name] for each in values if isinstance(each, dict) and name in each]
    if part["index"] == "*":
        return lambda values: [item for each in values if isinstance(each, list) for item in each]
    if part["index"]:
        index = int(part["index"])
        return lambda values: [each[index] for each in values if isinstance(each, list) and index < len(each)]
    inner, text, equal = part["of"], part["text"], part["operator"] == "=="
    return lambda values: [
        item
        for each in values
        if isinstance(each, list)
        for item in each
        if ((found := select(inner, item)) and (str(found[0]) == text) is equal)
    ]


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
