"""Manifests: parses text of YAML or JSON documents to plain data, and records where each field was written.

Reads what ``kubectl apply -f`` reads and gives the data that the API server would get, but refuses what Kubernetes
resolves silently (duplicate keys), and what could stop the process (deep nesting, aliases that multiply, size). Every
refusal is one :class:`~gangctl.api.valuetree.SourceError`, ``source:line:column: message``.

JSON (RFC 8259), one document or several in a row, is read apart from YAML, because it is not quite a subset of what
libyaml reads: surrogate pairs, long keys, DEL in strings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from gangctl.api.documents_yaml import YamlReader, places_in
from gangctl.api.fieldpath import FieldPath, Key, Step
from gangctl.api.valuetree import (
    Allowance,
    Built,
    Parts,
    Place,
    Scalar,
    SourceError,
    SourceText,
    TooManyValuesError,
    TreeBuilder,
    json_number,
)
from gangctl.errors import shown

_SPACE: Final = re.compile(r"[ \t\n\r]*")
# Possessive, so that a missing quote costs one pass and not an exponential number of them.
_STRING: Final = re.compile(r'"([^"\\\x00-\x1f]*+(?:\\[^\x00-\x1f][^"\\\x00-\x1f]*+)*+)"')
_NUMBER: Final = re.compile(r"(-?(?:0|[1-9][0-9]*))((?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)")
_WORD: Final = re.compile(r"[A-Za-z0-9_+.-]+")
_LITERALS: Final = {"true": True, "false": False, "null": None}
_INTEGER_CHARACTERS: Final = 20
_INTEGERS: Final = range(-(2**63), 2**64)


class JsonReader:
    """Reads one text."""

    def __init__(self, source: SourceText, max_depth: int, max_values: int) -> None:
        """Read nothing yet."""
        self._source = source
        self._text = source.text
        self._max_depth = max_depth
        self._allowance = Allowance(source, max_values)
        self._at = 0

    def read(self) -> Iterator[tuple[Built, int]]:
        """Yield each document's value and its offset; SourceError on the first error."""
        self._skip_space()
        while self._at < len(self._text):
            builder = TreeBuilder(self._source, self._max_depth, self._allowance)
            closers: list[str] = []
            self._value(builder, closers)
            while closers:
                self._after_value(builder, closers)
            if builder.root is not None:
                yield builder.root, builder.root_offset
            self._skip_space()

    def _skip_space(self) -> None:
        match = _SPACE.match(self._text, self._at)
        if match is not None:
            self._at = match.end()

    def _peek(self) -> str:
        self._skip_space()
        return self._text[self._at : self._at + 1]

    def _value(self, builder: TreeBuilder, closers: list[str]) -> None:
        """Read a scalar, or the beginning of a container up to its first value; an empty one is read whole."""
        while True:
            character = self._peek()
            offset = self._at
            if character not in {"{", "["}:
                builder.scalar(self._string() if character == '"' else self._plain(), offset)
                return
            empty: dict[str, Any] | list[Any] = {} if character == "{" else []
            builder.open(empty, offset)
            closer = "}" if character == "{" else "]"
            closers.append(closer)
            self._at += 1
            if self._peek() == closer:
                return
            if closer == "}":
                self._key(builder)

    def _after_value(self, builder: TreeBuilder, closers: list[str]) -> None:
        """Read the separators after a value, and the next value if there is one."""
        character = self._peek()
        if character == closers[-1]:
            self._at += 1
            closers.pop()
            builder.close()
            return
        if character != ",":
            raise self._unexpected(f"',' or '{closers[-1]}'")
        self._at += 1
        self._skip_space()
        if closers[-1] == "}":
            self._key(builder)
        self._value(builder, closers)

    def _key(self, builder: TreeBuilder) -> None:
        offset = self._at
        if self._peek() != '"':
            raise self._unexpected("a key in double quotes")
        builder.key(self._string(), offset)
        if self._peek() != ":":
            raise self._unexpected("':'")
        self._at += 1

    def _string(self) -> str:
        match = _STRING.match(self._text, self._at)
        if match is None:
            raise self._source.error(self._at, "this string has no end, or a control character in it")
        text = match[1]
        if "\\" in text:
            try:
                text = orjson.loads(match[0])
            except orjson.JSONDecodeError as error:
                raise self._source.error(self._at, f"cannot read this string: {error.msg}") from error
        self._at = match.end()
        return text

    def _plain(self) -> Scalar:
        word = _WORD.match(self._text, self._at)
        if word is None:
            raise self._unexpected("a value")
        offset, text = self._at, word[0]
        self._at = word.end()
        if text in _LITERALS:
            return _LITERALS[text]
        number = _NUMBER.fullmatch(text)
        if number is None:
            raise self._source.error(offset, f"{text[:40]!r} is not a JSON value", hint="quote it if it is text")
        if not number[2] and len(text) <= _INTEGER_CHARACTERS and int(text) in _INTEGERS:
            return int(text)
        value = json_number(float(text))
        if value is None:
            raise self._source.error(offset, f"{text[:40]} is larger than any number that can be held")
        return value

    def _unexpected(self, wanted: str) -> SourceError:
        found = self._text[self._at : self._at + 1]
        return self._source.error(self._at, f"expected {wanted}, found {repr(found) if found else 'the end'}")


MIB: Final = 2**20
_UTF_16_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")
_BYTE_ORDER_MARK: Final = "\ufeff"


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a text: UTF-8 bytes, nesting of values, number of values, and of those from aliases.

    A hundred characters that an alias repeats count as one value more.
    """

    max_bytes: int = 8 * MIB
    max_depth: int = 200
    max_values: int = 1_000_000
    max_expanded: int = 100_000


DEFAULT_LIMITS: Final = Limits()


@dataclass(frozen=True, slots=True)
class Document:
    """One object of a text: its plain JSON data, the name of the source, and its first line (from 1)."""

    value: dict[str, Any]
    source: str
    line: int
    _origin: SourceText = field(repr=False, compare=False)
    _place: Place = field(repr=False, compare=False)

    def position(self, path: FieldPath | str) -> tuple[int, int]:
        """Line and column, from 1, where a field is written: its key, or the entry of a list.

        For a missing field, the nearest existing one around it. Fields from an alias or ``<<`` have the place where
        they were written. InputError when the path is text that cannot be read.
        """
        place, _ = self._find((FieldPath.parse(path) if isinstance(path, str) else path).steps)
        return self._origin.position(place if isinstance(place, int) else place[0])

    def position_in(self, path: FieldPath | str, offset: int) -> tuple[int, int]:
        """Line and column of one character of the text in a field, with any quoting, folding or indentation.

        ``offset`` counts code points of the value, its length is its end. Where the field holds no text, or is missing,
        as :meth:`position`.
        """
        steps = (FieldPath.parse(path) if isinstance(path, str) else path).steps
        place, value = self._find(steps)
        if isinstance(place, int) and isinstance(value, str) and steps:
            behind_key = not isinstance(steps[-1], int) or self._is_key(steps)
            places = places_in(self._origin.text, place, value, behind_key=behind_key)
            if places is not None:
                return self._origin.position(places[min(max(offset, 0), len(value))])
        return self.position(path)

    def line_at(self, line: int) -> str:
        """The text of a line, from 1, without its end."""
        return self._origin.line(line)

    def _find(self, steps: Sequence[Step]) -> tuple[Place, Any]:
        """The place of a field and its value, or of the nearest one around it, with the value None."""
        place: Place = self._place
        value: Any = self.value
        for step in steps:
            inner = None if isinstance(place, int) else _part(place[1], step)
            if inner is None:
                return place, None
            value = _inner_value(value, step)
            place = inner
        return place, value

    def _is_key(self, steps: Sequence[Step]) -> bool:
        """Whether the last step goes into a map: a map may have a key that reads as an index."""
        place, _ = self._find(steps[:-1])
        return not isinstance(place, int) and isinstance(place[1], dict)

    def where(self, path: FieldPath | str = "") -> str:
        """The position of a field as ``source:line:column``, as compilers and editors write it."""
        line, column = self.position(path)
        return f"{self.source}:{line}:{column}"


def _key(step: Step) -> str:
    """The map key of a step."""
    return step.key if isinstance(step, Key) else str(step)


def _inner_value(value: Any, step: Step) -> Any:
    return value[_key(step)] if isinstance(value, dict) else value[step] if isinstance(step, int) else None


def _part(parts: Parts, step: Step) -> Place | None:
    """The place one step further.

    The notation does not distinguish the key "0" from the index 0, so the data decides.
    """
    if isinstance(parts, dict):
        return parts.get(_key(step))
    if isinstance(step, int) and step < len(parts):
        return parts[step]
    return None


def parse_documents(text: str | bytes, source: str, *, limits: Limits = DEFAULT_LIMITS) -> list[Document]:
    """All objects in a text of YAML or JSON documents, those of a ``kind: List`` one by one.

    ``source`` names the text in messages. Empty documents are skipped, and so is a byte order mark;
    UTF-16 needs one. SourceError, an InputError, on the first error.
    """
    origin = SourceText(_decode(text, source, limits.max_bytes), source)
    return [document for built, offset in _read(origin, limits) for document in _objects(origin, built, offset)]


def parse_value(text: str, source: str, *, limits: Limits = DEFAULT_LIMITS) -> Any:
    """The one value of a text of YAML or JSON, whatever its type; None without one. SourceError on the first error."""
    origin = SourceText(_decode(text, source, limits.max_bytes), source)
    found = _read(origin, limits)
    if len(found) > 1:
        raise origin.error(found[1][1], "is a second document, one is expected")
    return found[0][0].value if found else None


def _decode(text: str | bytes, source: str, max_bytes: int) -> str:
    nothing = SourceText("", source)
    if isinstance(text, bytes):
        _check_size(nothing, len(text), max_bytes)
        if text.startswith(_UTF_16_MARKS):
            try:
                return text.decode("utf-16")
            except UnicodeDecodeError as error:
                raise nothing.error(0, "begins as UTF-16, and is not", hint="save it as UTF-8") from error
        try:
            return text.decode().removeprefix(_BYTE_ORDER_MARK)
        except UnicodeDecodeError as error:
            before = SourceText(text[: error.start].decode(), source)
            raise before.error(
                len(before.text), f"byte 0x{text[error.start]:02x} is not UTF-8", hint="save it as UTF-8"
            ) from error
    try:
        _check_size(nothing, len(text.encode()), max_bytes)
    except UnicodeEncodeError as error:
        raise SourceText(text, source).error(
            error.start, f"U+{ord(text[error.start]):04X} is half a character (a lone surrogate)"
        ) from error
    return text.removeprefix(_BYTE_ORDER_MARK)


def _check_size(nothing: SourceText, size: int, max_bytes: int) -> None:
    if size > max_bytes:
        raise nothing.error(
            0, f"{size / MIB:.1f} MiB is more than the limit of {max_bytes / MIB:.1f} MiB", hint="split it into files"
        )


def _read(origin: SourceText, limits: Limits) -> list[tuple[Built, int]]:
    """Read as JSON what looks like it, and as YAML what turns out not to be JSON, as kubectl does."""
    looks_like_json = origin.text.lstrip(" \t\r\n").startswith(("{", "["))
    yaml = YamlReader(origin, limits.max_depth, limits.max_values, limits.max_expanded)
    if not looks_like_json:
        return list(yaml.read())
    try:
        return list(JsonReader(origin, limits.max_depth, limits.max_values).read())
    except TooManyValuesError:
        raise
    except SourceError as not_json:
        try:
            return list(yaml.read())
        except SourceError as not_yaml:
            # The error of the reader that came further fits the text better.
            raise (not_json if not_json.offset >= not_yaml.offset else not_yaml) from None


def _objects(origin: SourceText, built: Built, offset: int) -> Iterator[Document]:
    if built.value is None:
        return
    yield from _flatten(origin, built.value, offset if built.parts is None else (offset, built.parts), "document")


def _flatten(origin: SourceText, value: Any, place: Place, what: str) -> Iterator[Document]:
    offset = place if isinstance(place, int) else place[0]
    if not isinstance(value, dict) or isinstance(place, int) or not isinstance(place[1], dict):
        raise origin.error(offset, f"this {what} is {shown(value)}, not an object with fields")
    if value.get("kind") != "List":
        yield Document(value, origin.name, origin.position(offset)[0], origin, place)
        return
    items = value.get("items")
    places = place[1].get("items", offset)
    if items is None:
        return
    if not isinstance(items, list) or isinstance(places, int) or not isinstance(places[1], list):
        raise origin.error(places if isinstance(places, int) else places[0], "items of a List must be a list")
    for item, item_place in zip(items, places[1], strict=True):
        yield from _flatten(origin, item, item_place, "entry of a List")
