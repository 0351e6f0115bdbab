"""YAML text to values with places, from the events of libyaml.

Events instead of ``compose``: libyaml's composer recurses in C, and a text of a hundred thousand brackets ends the
process.

An editor needs the line and column of the third word of an expression, while the expression is in a block scalar,
folded over lines or in quotes. YAML changes only white space freely, so the characters between are matched in order.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import orjson
import yaml

from gangctl.api.valuetree import (
    MERGE,
    Allowance,
    Built,
    Scalar,
    SourceError,
    SourceText,
    TreeBuilder,
    json_number,
    key_text,
    resolve_plain,
    weight,
)

_SPACE: Final = " \t\r\n\x85\u2028\u2029"
_BLOCK: Final = ("|", ">")
_PROPERTIES: Final = re.compile(r"(?:[&!]\S*\s+)*")
_HEADER: Final = re.compile(r"[^\n\r]*(?:\r\n|\r|\n|\Z)")
_JSON_STRING: Final = r'"(?:[^"\\]|\\.)*+"'
_JSON_KEY: Final = re.compile(rf"{_JSON_STRING}\s*:\s*", re.DOTALL)
_ESCAPED_BREAK: Final = re.compile(r"\\(?:\r\n|[\r\n\x85\u2028\u2029])[ \t]*")
_ESCAPE: Final = re.compile(r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)")
_SURROGATES: Final = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_ESCAPES: Final = dict(
    zip("0abt\tnvfreN_LP", "\0\a\b\t\t\n\v\f\r\x1b\x85\xa0\u2028\u2029", strict=True),
)

Unit = tuple[int, str]
"""A character of the value, or possible white space, and where it was written."""


@dataclass(frozen=True, slots=True)
class _Written:
    """A scalar in its file: from its first character to behind its last, and the sign that begins it, if any."""

    start: int
    end: int
    style: str


def places_in(text: str, at: int, value: str, *, behind_key: bool) -> list[int] | None:
    """Offsets into ``text`` of every character of ``value``, and of its end; None when it is not found there.

    ``at`` is where the scalar begins or, with ``behind_key``, where its key does.
    """
    written = _written(text, at, behind_key=behind_key)
    if written is None:
        return None
    return _align(list(_units(text, written, value)), value, written.start)


def _written(text: str, at: int, *, behind_key: bool) -> _Written | None:
    alone, following = _scalars(text)
    found = (following if behind_key else alone).get(at)
    if found is not None:
        return found
    # JSON that is not YAML, such as a pair of surrogates.
    key = _JSON_KEY.match(text, at) if behind_key else None
    start = key.end() if key is not None else at
    string = re.compile(_JSON_STRING, re.DOTALL).match(text, start)
    return _Written(start, string.end(), '"') if string is not None else None


@lru_cache(maxsize=8)
def _scalars(text: str) -> tuple[dict[int, _Written], dict[int, _Written]]:
    """The scalars of a text by their beginning, and by the beginning of the node before them: their key."""
    alone: dict[int, _Written] = {}
    following: dict[int, _Written] = {}
    anchors: dict[str, _Written] = {}
    before: int | None = None
    parser = yaml.CSafeLoader(text)
    try:
        while parser.check_event():
            event: Any = parser.get_event()
            is_scalar = isinstance(event, yaml.ScalarEvent)
            written = None
            if is_scalar:
                written = alone[event.start_mark.index] = _read_style(text, event)
                anchors[event.anchor or ""] = written
            elif isinstance(event, yaml.AliasEvent):
                written = anchors.get(event.anchor or "")
            if written is not None and before is not None:
                following[before] = written
            before = event.start_mark.index if is_scalar else None
    except yaml.YAMLError:
        # JSON that is not YAML: the scalars so far are still valid.
        return alone, following
    finally:
        parser.dispose()
    return alone, following


def _read_style(text: str, event: Any) -> _Written:
    properties = _PROPERTIES.match(text, event.start_mark.index)
    start = properties.end() if properties is not None else event.start_mark.index
    first = text[start : start + 1]
    quoted = event.style in {"'", '"'} or first in _BLOCK
    return _Written(start, event.end_mark.index, first if quoted else "")


def _units(text: str, written: _Written, value: str) -> Iterator[Unit]:
    start, end = written.start, written.end
    if written.style in _BLOCK:
        header = _HEADER.match(text, start)
        yield from _block(text, header.end() if header is not None else end, end, value)
    elif written.style == '"':
        yield from _double_quoted(text, start + 1, end - 1)
    elif written.style == "'":
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
            first = next((each for each in value.splitlines() if each.strip(_SPACE)), "")
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


# The characters of YAML 1.1 (5.1) that libyaml reads; others it reports by byte and without a line.
_UNREADABLE: Final = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")

_TAG: Final = "tag:yaml.org,2002:"
_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "bool": (bool,),
    "int": (int,),
    "float": (float, int),
    "null": (type(None),),
}

_HINTS: Final = {
    "mapping values are not allowed in this context": "a value that contains ': ' needs quotes",
    "did not find expected key": "check the indentation of this line and of those above it",
}


class YamlReader:
    """Reads one text; ``max_expanded`` bounds how many values aliases may add over all documents."""

    def __init__(self, source: SourceText, max_depth: int, max_values: int, max_expanded: int) -> None:
        """Read nothing yet."""
        self._source = source
        self._max_depth = max_depth
        self._allowance = Allowance(source, max_values)
        self._budget = max_expanded
        self._max_expanded = max_expanded
        self._anchors: dict[str, Built | None] = {}
        self._open: list[str | None] = []

    def read(self) -> Iterator[tuple[Built, int]]:
        """Yield each document's value and its offset; SourceError on the first error."""
        unreadable = _UNREADABLE.search(self._source.text)
        if unreadable is not None:
            character = unreadable[0]
            raise self._source.error(unreadable.start(), f"character U+{ord(character):04X} is not allowed in YAML")
        parser = yaml.CSafeLoader(self._source.text)
        try:
            yield from self._documents(parser)
        except yaml.MarkedYAMLError as error:
            raise self._syntax_error(error) from error
        finally:
            parser.dispose()

    def _documents(self, parser: yaml.CSafeLoader) -> Iterator[tuple[Built, int]]:
        builder = TreeBuilder(self._source, self._max_depth, self._allowance)
        while parser.check_event():
            event = parser.get_event()
            match event:
                case yaml.ScalarEvent():
                    self._scalar(builder, event)
                case yaml.MappingStartEvent():
                    self._start(builder, event, {}, "map")
                case yaml.SequenceStartEvent():
                    self._start(builder, event, [], "seq")
                case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                    built = builder.close()
                    self._name(self._open.pop(), built)
                case yaml.AliasEvent():
                    self._alias(builder, event)
                case yaml.DocumentStartEvent():
                    builder = TreeBuilder(self._source, self._max_depth, self._allowance)
                    self._anchors = {}
                case yaml.DocumentEndEvent() if builder.root is not None:
                    yield builder.root, builder.root_offset

    def _start(self, builder: TreeBuilder, event: Any, empty: dict[str, Any] | list[Any], kind: str) -> None:
        offset = event.start_mark.index
        if builder.wants_key:
            raise self._source.error(offset, "a key must be text, not a mapping or a list")
        if event.tag is not None and event.tag != _TAG + kind:
            raise self._unknown_tag(offset, event.tag)
        builder.open(empty, offset)
        self._open.append(event.anchor)
        self._name(event.anchor, None)

    def _name(self, anchor: str | None, built: Built | None) -> None:
        """Remember the value of ``&anchor``; None while it is still being read."""
        if anchor is not None:
            self._anchors[anchor] = built

    def _scalar(self, builder: TreeBuilder, event: Any) -> None:
        offset = event.start_mark.index
        value = self._value(event)
        self._name(event.anchor, Built(value, None, weight(value), 0))
        if not builder.wants_key:
            builder.scalar(self._json(value, offset), offset)
        elif value == MERGE and (event.implicit[0] or event.tag == _TAG + "merge"):
            builder.merge_key(offset)
        else:
            self._key(builder, value, offset)

    def _key(self, builder: TreeBuilder, value: Scalar, offset: int) -> None:
        key = key_text(value)
        if key is None:
            raise self._source.error(offset, "a key must not be null", hint="quote it if it is meant as text")
        builder.key(key, offset)

    def _value(self, event: Any) -> Scalar:
        text, offset = event.value, event.start_mark.index
        if event.tag is None and not event.implicit[0]:
            return str(text)
        value = resolve_plain(text)
        if event.tag is not None:
            value = self._tagged(event.tag, text, value, offset)
        return value

    def _json(self, value: Scalar, offset: int) -> Scalar:
        if not isinstance(value, float):
            return value
        number = json_number(value)
        if number is None:
            raise self._source.error(offset, f"JSON has no number {value}", hint="quote it if it is meant as text")
        return number

    def _tagged(self, tag: str, text: str, value: Scalar, offset: int) -> Scalar:
        name = tag.removeprefix(_TAG)
        if tag in {"!", _TAG + "str", _TAG + "merge"}:
            return text
        if not tag.startswith(_TAG) or name not in _TYPES:
            raise self._unknown_tag(offset, tag)
        if not isinstance(value, _TYPES[name]) or (isinstance(value, bool) and name != "bool"):
            raise self._source.error(offset, f"{text!r} is not a !!{name}")
        return value

    def _alias(self, builder: TreeBuilder, event: Any) -> None:
        offset, name = event.start_mark.index, event.anchor
        built = self._anchors.get(name)
        if built is None:
            what = "is part of what it stands for" if name in self._anchors else "has no anchor before it"
            raise self._source.error(offset, f"alias *{name} {what}")
        if builder.wants_key:
            if built.parts is not None:
                raise self._source.error(offset, "a key must be text, not a mapping or a list")
            self._key(builder, built.value, offset)
            return
        self._budget -= built.size
        if self._budget < 0:
            raise self._source.error(offset, f"aliases stand for more than {self._max_expanded} values in all")
        if built.parts is None:
            builder.scalar(self._json(built.value, offset), offset)
            return
        # A copy, so that changing one place in the data never changes another.
        builder.add(built._replace(value=copy.deepcopy(built.value)), offset)

    def _unknown_tag(self, offset: int, tag: str) -> SourceError:
        shown = tag.replace(_TAG, "!!", 1)
        return self._source.error(offset, f"tag {shown} has no meaning in a Kubernetes manifest", hint="remove it")

    def _syntax_error(self, error: yaml.MarkedYAMLError) -> SourceError:
        mark = error.problem_mark or error.context_mark
        offset = mark.index if mark is not None else 0
        problem = error.problem or "not YAML"
        if problem == "found character that cannot start any token":
            character = self._source.text[offset : offset + 1]
            if character == "\t":
                return self._source.error(offset, "a tab cannot indent YAML", hint="indent with spaces")
            return self._source.error(offset, f"{character!r} cannot begin a value", hint="quote the value")
        context = ""
        if error.context and error.context_mark is not None:
            context = f" ({error.context} that begins at line {self._source.position(error.context_mark.index)[0]})"
        return self._source.error(offset, f"{problem}{context}", hint=_HINTS.get(problem, ""))
