"""Objects of which parts depend on a condition, as text for Helm's template engine."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

import yaml

Object = dict[str, Any]

_WIDTH: Final = 2**31 - 1


class _Absent(Enum):
    ABSENT = auto()


ABSENT: Final = _Absent.ABSENT
"""What is not there at all."""


@dataclass(frozen=True)
class Choice:
    """A value of a field or an item of a list: ``then`` where the condition holds, else ``otherwise``."""

    condition: str
    then: Any
    otherwise: Any = ABSENT


@dataclass(frozen=True)
class Raw:
    """Text of a template in the place of a scalar."""

    text: str


@dataclass(frozen=True)
class Tree:
    """An expression whose value, of any form, stands in the place of a field's."""

    expression: str


@dataclass(frozen=True)
class Fields:
    """An expression whose value, an object, adds its fields to those of the object that has it; its key is not used."""

    expression: str


@dataclass(frozen=True)
class Items:
    """Lines of a template in the place of items of a list."""

    lines: tuple[str, ...]


def branch(tree: Object, operation: Object, condition: str) -> Object:
    """A copy in which an operation of RFC 6902 is carried out where the condition holds."""
    changed = copy.deepcopy(tree)
    *way, last = [each.replace("~1", "/").replace("~0", "~") for each in operation["path"].split("/")[1:]]
    place: Any = changed
    for segment in way:
        place = place[int(segment)] if isinstance(place, list) else place[segment]
    assert isinstance(place, dict | list), f"{operation['path']} leads into what depends on another component"
    value = operation.get("value")
    if operation["op"] == "test":
        assert place[int(last) if isinstance(place, list) else last] == value
    elif isinstance(place, list):
        assert (operation["op"], last) == ("add", "-"), "an item that is not the last would move others"
        place.append(Choice(condition, value))
    else:
        place[last] = Choice(condition, value, place.get(last, ABSENT))
    return changed


def emit(node: Any, indent: str = "") -> Iterator[str]:
    """Lines of a field's value, a list or an object with something in it."""
    if isinstance(node, dict):
        for key, value in node.items():
            yield from _field(scalar(key), value, indent)
        return
    for item in node:
        yield from _item(item, indent)


def _field(key: str, value: Any, indent: str) -> Iterator[str]:
    match value:
        case Choice():
            yield from _alternatives(value, indent, lambda each: _field(key, each, indent))
        case Fields():
            yield f"{indent}{{{{- with {value.expression} }}}}"
            yield f"{indent}{{{{- toYaml . | nindent {len(indent)} }}}}"
            yield f"{indent}{{{{- end }}}}"
        case Tree():
            yield f"{indent}{key}:"
            yield f"{indent}  {{{{- toYaml {value.expression} | nindent {len(indent) + 2} }}}}"
        case dict() | list() if value:
            yield f"{indent}{key}:"
            yield from emit(value, f"{indent}  ")
        case _:
            yield f"{indent}{key}: {scalar(value)}"


def _item(item: Any, indent: str) -> Iterator[str]:
    match item:
        case Choice():
            yield from _alternatives(item, indent, lambda each: _item(each, indent))
        case Items():
            yield from (f"{indent}{line}" for line in item.lines)
        case dict() if item:
            # An item begins with something that is always there.
            first, *rest = emit(dict(sorted(item.items(), key=lambda each: isinstance(each[1], Choice))), f"{indent}  ")
            yield f"{indent}- {first.lstrip()}"
            yield from rest
        case _:
            yield f"{indent}- {scalar(item)}"


def _alternatives(choice: Choice, indent: str, lines: Any) -> Iterator[str]:
    yield f"{indent}{{{{- if {choice.condition} }}}}"
    yield from lines(choice.then)
    if choice.otherwise is not ABSENT:
        yield f"{indent}{{{{- else }}}}"
        yield from lines(choice.otherwise)
    yield f"{indent}{{{{- end }}}}"


def scalar(value: Any) -> str:
    """What fits on a line, so that the template engine leaves it as it is."""
    if isinstance(value, Raw):
        return value.text
    if isinstance(value, str) and "\n" in value:
        text = json.dumps(value, ensure_ascii=False)
    else:
        dumped = yaml.safe_dump(value, default_flow_style=True, width=_WIDTH, allow_unicode=True)
        text = dumped.removesuffix("\n").removesuffix("\n...")
    return text.replace("{{", '{{ "{{" }}')


def when(condition: str, text: str) -> str:
    """Text where a condition holds."""
    return f"{{{{- if {condition} }}}}\n{text}{{{{- end }}}}\n"


def stream(documents: Iterable[str]) -> str:
    """YAML documents, each of them with a line that begins it."""
    return "".join(f"---\n{each}" for each in documents)
