"""Data and places from the parse events of YAML, or of JSON as such events, within limits.

Events instead of ``compose``: libyaml's composer recurses in C, and a text of a hundred thousand brackets ends the
process. Here the depth is limited before anything recurses.
"""

from __future__ import annotations

import copy
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

import orjson
import yaml

from gangctl.api.scalars import MERGE, TAG, Scalar, json_number, key_text, resolve_plain
from gangctl.errors import InputError

_SPACE: Final = " \t\r\n\x85\u2028\u2029"
_BLOCK: Final = ("|", ">")
_PROPERTIES: Final = re.compile(r"(?:[&!]\S*\s+)*")
_HEADER: Final = re.compile(r"[^\n\r]*(?:\r\n|\r|\n|\Z)")
_ESCAPED_BREAK: Final = re.compile(r"\\(?:\r\n|[\r\n\x85\u2028\u2029])[ \t]*")
_ESCAPE: Final = re.compile(r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)")
_SURROGATES: Final = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_ESCAPES: Final = dict(zip("0abt\tnvfreN_LP", "\0\a\b\t\t\n\v\f\r\x1b\x85\xa0\u2028\u2029", strict=True))

Unit = tuple[int, str]
"""A character of the value, or possible white space, and where it was written."""


def places_in(text: str, start: int, end: int, value: str) -> list[int] | None:
    """Offsets into ``text`` of every character of ``value``, and of its end; None when it is not found there.

    The scalar is written from ``start``, with its tag and anchor, to ``end``.
    """
    properties = _PROPERTIES.match(text, start)
    start = properties.end() if properties is not None else start
    return _align(list(_units(text, start, end, value)), value, start)


def _units(text: str, start: int, end: int, value: str) -> Iterator[Unit]:
    sign = text[start : start + 1]
    if sign in _BLOCK:
        header = _HEADER.match(text, start)
        yield from _block(text, header.end() if header is not None else end, end, value)
    elif sign == '"':
        yield from _double_quoted(text, start + 1, end - 1)
    elif sign == "'":
        at = start + 1
        while at < end - 1:
            yield at, text[at]
            at += 2 if text[at] == "'" else 1
    else:
        yield from ((at, text[at]) for at in range(start, end))


def _block(text: str, start: int, end: int, value: str) -> Iterator[Unit]:
    """Characters of a block without its indentation: the surplus of its first line over the value's first."""
    indentation: int | None = None
    at = start
    for line in text[start:end].splitlines(keepends=True):
        blanks = len(line) - len(line.lstrip(" "))
        if indentation is None and line.strip(_SPACE):
            first = next((splitline for splitline in value.splitlines() if splitline.strip(_SPACE)), "")
            indentation = blanks - (len(first) - len(first.lstrip(" ")))
        skipped = min(blanks, indentation or 0)
        yield from ((at + column, line[column]) for column in range(skipped, len(line)))
        at += len(line)


def _double_quoted(text: str, start: int, end: int) -> Iterator[Unit]:
    at = start
    while at < end:
        if text[at] != "\\":
            yield at, text[at]
            at += 1
            continue
        if joined := _ESCAPED_BREAK.match(text, at, end):
            at = joined.end()
        elif pair := _SURROGATES.match(text, at, end):
            yield at, orjson.loads(f'"{pair[0]}"')
            at = pair.end()
        elif escape := _ESCAPE.match(text, at, end):
            yield at, _unescaped(escape[0])
            at = escape.end()
        else:
            return


def _unescaped(escape: str) -> str:
    sign = escape[1]
    is_number = sign in "xuU" and len(escape) > len("\\x")
    return chr(int(escape.lstrip("\\xuU"), base=16)) if is_number else _ESCAPES.get(sign, sign)


def _align(units: list[Unit], value: str, start: int) -> list[int] | None:
    """Assign to every character the place of its unit, skipping white space that was folded away.

    The end is behind the last visible character.
    """
    placed: list[int] = []
    index = 0
    end = start
    for character in value:
        if character in _SPACE:
            written = index < len(units) and units[index][1] in _SPACE
            placed.append(units[index][0] if index < len(units) else end)
            index += written
            continue
        while index < len(units) and units[index][1] in _SPACE:
            index += 1
        if index == len(units) or units[index][1] != character:
            return None
        placed.append(units[index][0])
        end = units[index][0] + 1
        index += 1
    return [*placed, end]


_LINE_BREAK: Final = re.compile(r"\r\n|\r|\n")


class SourceError(InputError):
    """Unreadable text; the message begins with ``source:line:column:``.

    ``offset`` counts code points from 0, ``line`` and ``column`` from 1.
    """

    def __init__(self, source: SourceText, offset: int, message: str, *, hint: str = "") -> None:
        """Describe the error at ``offset`` of ``source``."""
        self.offset = offset
        self.line, self.column = source.position(offset)
        super().__init__(f"{source.name}:{self.line}:{self.column}: {message}", hint=hint)


class SourceText:
    """``text`` and its ``name`` for users: a file's path, ``-`` for standard input."""

    def __init__(self, text: str, name: str) -> None:
        """Keep the text; line starts are computed on first use."""
        self.text = text
        self.name = name

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(match.end() for match in _LINE_BREAK.finditer(self.text))]

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column, both from 1, of the code point at ``offset``."""
        line = bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def line(self, number: int) -> str:
        """The text of a line, from 1, without its end; empty when there is no such line."""
        starts = self._line_starts
        if not 0 < number <= len(starts):
            return ""
        end = starts[number] if number < len(starts) else len(self.text)
        return self.text[starts[number - 1] : end].rstrip("\r\n")

    def error(self, offset: int, message: str, *, hint: str = "") -> SourceError:
        """Make the error for something wrong at ``offset``."""
        return SourceError(self, offset, message, hint=hint)


class TooManyValuesError(SourceError):
    """More values than allowed: the other reader would not find fewer."""

    def __init__(self, source: SourceText, offset: int, most: int) -> None:
        """Describe it at ``offset``, where they are too many, or where their document begins."""
        super().__init__(source, offset, f"more than {most} values", hint="split it into files")


MIB: Final = 2**20


@dataclass(frozen=True, slots=True)
class TextLimits:
    """Limits of a text: UTF-8 bytes, nesting of values, number of values, and of those from aliases.

    A hundred characters that an alias repeats count as one value more.
    """

    max_bytes: int = 8 * MIB
    max_depth: int = 200
    max_values: int = 1_000_000
    max_expanded: int = 100_000


Place = tuple[int, "Parts"]
"""Where a value is: the offset of its key, or of itself in a list, and its parts."""
Parts = dict[str, Place] | list[Place] | tuple[int, int]
"""The places of what a map or a list holds; where a scalar begins, with its tag and anchor, and ends."""


class Value(NamedTuple):
    """A value that was read, and the places of its parts."""

    data: Any
    parts: Parts


_WEIGHT: Final = 100
"""Characters that count as one value: aliases repeat long texts as well as many values."""


def extent(value: Any) -> tuple[int, int, int]:
    """Of plain data: the number of values, how many more its long texts count as, and how deep containers nest."""
    # Without recursion: how deep the data nests is not known before.
    count = longer = depth = 0
    level = [value]
    while level:
        count += len(level)
        longer += sum(len(part) // _WEIGHT for part in level if type(part) is str)
        maps = [part for part in level if type(part) is dict]
        lists = [part for part in level if type(part) is list]
        longer += sum(len(key) // _WEIGHT for part in maps for key in part)
        depth += bool(maps or lists)
        level = [inner for part in maps for inner in part.values()]
        level += [inner for part in lists for inner in part]
    return count, longer, depth


_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "bool": (bool,),
    "int": (int,),
    "float": (float, int),
    "null": (type(None),),
}


class EventReader:
    """Reads the events of one text.

    SourceError on the first error: a limit, a duplicate key, a merge of what is not a mapping, a tag, an alias or a
    number without a meaning in JSON.
    """

    def __init__(self, source: SourceText, limits: TextLimits, events: Iterator[Any]) -> None:
        """Read nothing yet."""
        self._source = source
        self._limits = limits
        self._events = events
        self._left = limits.max_values
        self._expandable = limits.max_expanded
        self._anchors: dict[str, Value | None] = {}
        self._extents: dict[str, tuple[int, int, int]] = {}

    def read(self) -> Iterator[tuple[Any, Place]]:
        """Yield each document's data and its place."""
        for event in self._events:
            if type(event) is yaml.DocumentStartEvent:
                self._anchors.clear()
            elif hasattr(event, "anchor"):
                value = self._node(event, 0)
                yield value.data, (event.start_mark.index, value.parts)

    def _node(self, event: Any, depth: int) -> Value:
        offset = event.start_mark.index
        self._left -= 1
        if self._left < 0:
            raise TooManyValuesError(self._source, offset, self._limits.max_values)
        kind = type(event)
        if kind is yaml.ScalarEvent:
            return Value(self._json(self._scalar(event), offset), (offset, event.end_mark.index))
        if kind is yaml.AliasEvent:
            return self._alias(event, depth)
        is_map = kind is yaml.MappingStartEvent
        if event.tag is not None and event.tag != TAG + ("map" if is_map else "seq"):
            raise self._unknown_tag(offset, event.tag)
        self._check_depth(depth + 1, offset)
        self._name(event.anchor, None)
        value = self._mapping(depth + 1) if is_map else self._sequence(depth + 1)
        self._name(event.anchor, value)
        return value

    def _sequence(self, depth: int) -> Value:
        data: list[Any] = []
        parts: list[Place] = []
        for event in self._events:
            if type(event) is yaml.SequenceEndEvent:
                break
            value = self._node(event, depth)
            data.append(value.data)
            parts.append((event.start_mark.index, value.parts))
        return Value(data, parts)

    def _mapping(self, depth: int) -> Value:
        data: dict[str, Any] = {}
        parts: dict[str, Place] = {}
        merged: set[str] = set()
        for event in self._events:
            if type(event) is yaml.MappingEndEvent:
                break
            offset = event.start_mark.index
            key = self._key(event)
            if key is None:
                source = next(self._events)
                self._merge(self._node(source, depth), source.start_mark.index, data, parts, merged)
                continue
            if key in merged:
                merged.remove(key)
            elif key in parts:
                line, column = self._source.position(parts[key][0])
                raise self._source.error(
                    offset,
                    f"duplicate key {key!r}, first at line {line}, column {column}",
                    hint="Kubernetes would silently keep one of the two; remove the other",
                )
            data[key], inner = self._node(next(self._events), depth)
            parts[key] = (offset, inner)
        return Value(data, parts)

    def _merge(
        self, value: Value, offset: int, into: dict[str, Any], places: dict[str, Place], merged: set[str]
    ) -> None:
        """``<<``: the entries of a mapping, or of a list of them in which the first one with a key wins."""
        sources: list[tuple[Any, Parts]] = [value]
        if isinstance(value.parts, list):
            sources = list(zip(value.data, (inner for _, inner in value.parts), strict=True))
        for data, parts in reversed(sources):
            if not isinstance(parts, dict):
                raise self._source.error(offset, "<< takes a mapping or a list of mappings")
            for key in data:
                if key in places and key not in merged:
                    # In YAML a written key wins, in go-yaml v2 the last one does.
                    raise self._source.error(
                        places[key][0],
                        f"key {key!r} is also merged by the << below it, and Kubernetes would use that one",
                        hint="write << before the keys that override it",
                    )
            merged.update(data)
            into.update(data)
            places.update(parts)

    def _key(self, event: Any) -> str | None:
        """The JSON key of a YAML key; None for ``<<``."""
        offset = event.start_mark.index
        if type(event) is yaml.ScalarEvent:
            value = self._scalar(event)
            if value == MERGE and (event.implicit[0] or event.tag == TAG + "merge"):
                return None
        elif type(event) is yaml.AliasEvent and isinstance((named := self._named(event)).parts, tuple):
            value = named.data
        else:
            raise self._source.error(offset, "a key must be text, not a mapping or a list")
        key = key_text(value)
        if key is None:
            raise self._source.error(offset, "a key must not be null", hint="quote it if it is meant as text")
        return key

    def _scalar(self, event: Any) -> Scalar:
        """The value before JSON: a key may be a number that JSON does not have."""
        text, offset = event.value, event.start_mark.index
        if event.tag is None:
            value = resolve_plain(text) if event.implicit[0] else text
        elif event.tag in {"!", TAG + "str", TAG + "merge"}:
            value = text
        else:
            value, name = resolve_plain(text), event.tag.removeprefix(TAG)
            if not event.tag.startswith(TAG) or name not in _TYPES:
                raise self._unknown_tag(offset, event.tag)
            if not isinstance(value, _TYPES[name]) or (isinstance(value, bool) and name != "bool"):
                raise self._source.error(offset, f"{text!r} is not a !!{name}")
        if event.anchor is not None:
            self._name(event.anchor, Value(value, (offset, event.end_mark.index)))
        return value

    def _json(self, value: Any, offset: int) -> Any:
        if type(value) is not float:
            return value
        number = json_number(value)
        if number is None:
            raise self._source.error(offset, f"JSON has no number {value}", hint="quote it if it is meant as text")
        return number

    def _name(self, anchor: str | None, value: Value | None) -> None:
        """Remember the value of ``&anchor``; None while it is still being read."""
        if anchor is not None:
            self._anchors[anchor] = value
            self._extents.pop(anchor, None)

    def _named(self, event: Any) -> Value:
        name = event.anchor
        value = self._anchors.get(name)
        if value is None:
            what = "is part of what it stands for" if name in self._anchors else "has no anchor before it"
            raise self._source.error(event.start_mark.index, f"alias *{name} {what}")
        return value

    def _alias(self, event: Any, depth: int) -> Value:
        offset, value = event.start_mark.index, self._named(event)
        if event.anchor not in self._extents:
            self._extents[event.anchor] = extent(value.data)
        count, longer, levels = self._extents[event.anchor]
        # Before the copy: aliases of aliases multiply, and a copy of all of them could fill the memory.
        self._expandable -= count + longer
        if self._expandable < 0:
            most = self._limits.max_expanded
            raise self._source.error(offset, f"aliases stand for more than {most} values in all")
        self._check_depth(depth + levels, offset)
        # A copy, so that changing one place in the data never changes another.
        return Value(copy.deepcopy(self._json(value.data, offset)), value.parts)

    def _check_depth(self, depth: int, offset: int) -> None:
        if depth > self._limits.max_depth:
            raise self._source.error(offset, f"nested more than {self._limits.max_depth} levels deep")

    def _unknown_tag(self, offset: int, tag: str) -> SourceError:
        shown = tag.replace(TAG, "!!", 1)
        return self._source.error(offset, f"tag {shown} has no meaning in a Kubernetes manifest", hint="remove it")
