"""Manifests: parses text of YAML or JSON documents to plain data, and finds where each field was written.

Reads what ``kubectl apply -f`` reads and gives the data that the API server would get, but refuses what Kubernetes
resolves silently (duplicate keys), and what could stop the process (deep nesting, aliases that multiply, size). Every
refusal is one :class:`~gangctl.api.documents_reader.SourceError`, ``source:line:column: message``.

The syntax of YAML and JSON: parse events by libyaml, JSON data by the standard library, and where an error is.

JSON (RFC 8259), one document or several in a row, is read apart from YAML, because it is not quite a subset of what
libyaml reads: surrogate pairs, long keys, DEL in strings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
import yaml

from gangctl.api.documents_reader import (
    MIB,
    EventReader,
    Place,
    SourceError,
    SourceText,
    TextLimits,
    TooManyValuesError,
    extent,
    places_in,
)
from gangctl.api.fieldpath import FieldPath, MapKey, Step
from gangctl.api.objects import object_at
from gangctl.api.scalars import INTEGERS, json_number, resolve_plain
from gangctl.errors import shown

# The characters of YAML 1.1 (5.1) that libyaml reads; others it reports by byte and without a line.
_UNREADABLE: Final = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")

_TEMPLATE: Final = re.compile(r"\{\{-?\s*(?:/\*|[.$\w(\"])")
"""An action of a Helm template, which is no flow mapping that a manifest has."""
TEMPLATE_HINT: Final = "this is a template of Helm: render its chart with helm template CHART > FILE"
_SERVER_LOG: Final = re.compile(r"^==== START logs for container ", re.MULTILINE)

_HINTS: Final = {
    "mapping values are not allowed in this context": "a value that contains ': ' needs quotes",
    "did not find expected key": "check the indentation of this line and of those above it",
}


def yaml_events(source: SourceText) -> Iterator[Any]:
    """The events of a text of YAML; SourceError where it is not YAML."""
    unreadable = _UNREADABLE.search(source.text)
    if unreadable is not None:
        raise source.error(unreadable.start(), f"character U+{ord(unreadable[0]):04X} is not allowed in YAML")
    parser = yaml.CSafeLoader(source.text)
    try:
        yield from iter(parser.get_event, None)
    except yaml.MarkedYAMLError as error:
        raise _yaml_error(source, error) from error
    finally:
        parser.dispose()


def _yaml_error(source: SourceText, error: yaml.MarkedYAMLError) -> SourceError:
    mark = error.problem_mark or error.context_mark
    offset = mark.index if mark is not None else 0
    problem = error.problem or "not YAML"
    if problem == "found character that cannot start any token":
        character = source.text[offset : offset + 1]
        if character == "\t":
            return source.error(offset, "a tab cannot indent YAML", hint="indent with spaces")
        return source.error(offset, f"{character!r} cannot begin a value", hint="quote the value")
    context = ""
    if error.context and error.context_mark is not None:
        context = f" ({error.context} that begins at line {source.position(error.context_mark.index)[0]})"
    return source.error(offset, f"{problem}{context}", hint=_HINTS.get(problem, ""))


_SPACE: Final = re.compile(r"[ \t\n\r]*")
# Possessive, so that a missing quote costs one pass and not an exponential number of them.
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*+"|[{}\[\],:]|[^\s{}\[\],:"]+')
_WORD: Final = re.compile(r"[A-Za-z0-9_+.-]*")
_ESCAPED_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_INTEGER_CHARACTERS: Final = 20
_EXPECTED: Final = {
    "Expecting value": "a value",
    "Expecting ':' delimiter": "':'",
    "Expecting property name enclosed in double quotes": "a key in double quotes",
}


class _OddError(Exception):
    """JSON of which only the reader of events finds the error."""


def json_data(source: SourceText, limits: TextLimits) -> list[Any] | None:
    """The data of each document of a text of JSON, by the standard library; SourceError where it is not JSON.

    None when :func:`json_events` have the error: a duplicate key, a number or a text that cannot be held, a limit.
    """
    text, data, count = source.text, [], 0
    decoder = json.JSONDecoder(
        object_pairs_hook=_object, parse_float=_number, parse_int=_integer, parse_constant=_number
    )
    at = _SPACE.match(text).end()  # type: ignore[union-attr]
    try:
        while at < len(text):
            value, end = decoder.raw_decode(text, at)
            values, _, depth = extent(value)
            count += values
            if count > limits.max_values:
                raise TooManyValuesError(source, at, limits.max_values)
            if depth > limits.max_depth:
                return None
            at = _SPACE.match(text, end).end()  # type: ignore[union-attr]
            data.append(value)
    except json.JSONDecodeError as error:
        raise _json_error(source, error) from error
    except (_OddError, RecursionError):
        return None
    # The json module accepts a single surrogate, which the API server does not: json_events finds its place.
    return None if _ESCAPED_SURROGATE.search(text) else data


def _object(entries: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(entries)
    if len(data) != len(entries):
        raise _OddError
    return data


def _number(text: str) -> int | float:
    number = json_number(float(text))
    if number is None:
        raise _OddError
    return number


def _integer(text: str) -> int | float:
    number = int(text) if len(text) <= _INTEGER_CHARACTERS else None
    return number if number is not None and number in INTEGERS else _number(text)


def _json_error(source: SourceText, error: json.JSONDecodeError) -> SourceError:
    text, at = source.text, error.pos
    character = text[at : at + 1]
    # A number such as 01 is read as 0, so that the error stands inside of a word.
    start = max(text.rfind(sign, 0, at) for sign in ' \t\n\r{}[],:"') + 1
    word = _WORD.match(text, start)
    if word is not None and word[0] and (error.msg == "Expecting value" or start < at < word.end()):
        return source.error(start, f"{word[0][:40]!r} is not a JSON value", hint="quote it if it is text")
    if error.msg in _EXPECTED:
        wanted = _EXPECTED[error.msg]
    elif error.msg == "Expecting ',' delimiter":
        opened: list[str] = []
        for token in _TOKEN.finditer(text, 0, at):
            if token[0] in "{[":
                opened.append(token[0])
            elif token[0] in "}]":
                opened.pop()
        wanted = "',' or '}'" if opened[-1] == "{" else "',' or ']'"
    elif error.msg.startswith("Invalid control character"):
        return source.error(at, f"character U+{ord(character):04X} is not allowed in a JSON string")
    else:
        return source.error(at, f"cannot read this JSON: {error.msg}")
    return source.error(at, f"expected {wanted}, found {repr(character) if character else 'the end'}")


class _Mark:
    """The one field of ``yaml.Mark`` that is read."""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index


def json_events(source: SourceText) -> Iterator[Any]:
    """The events of a text of which :func:`json_data` has checked the syntax; SourceError at what cannot be held."""
    for token in _TOKEN.finditer(source.text):
        sign = token[0]
        start: Any = _Mark(token.start())
        end: Any = _Mark(token.end())
        if sign == "{":
            yield yaml.MappingStartEvent(None, None, True, start, end)
        elif sign == "[":
            yield yaml.SequenceStartEvent(None, None, True, start, end)
        elif sign == "}":
            yield yaml.MappingEndEvent(start, end)
        elif sign == "]":
            yield yaml.SequenceEndEvent(start, end)
        elif sign[0] == '"':
            try:
                text = orjson.loads(sign)
            except orjson.JSONDecodeError as error:
                raise source.error(token.start(), f"cannot read this string: {error.msg}") from error
            yield yaml.ScalarEvent(None, None, (False, True), text, start, end)
        elif sign not in ",:":
            if isinstance(resolve_plain(sign), str):
                raise source.error(token.start(), f"{sign[:40]!r} is not a JSON value, or too large to be held")
            yield yaml.ScalarEvent(None, None, (True, False), sign, start, end)


_UTF_16_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")
_BYTE_ORDER_MARK: Final = "\ufeff"
DEFAULT_LIMITS: Final = TextLimits()


class _Text(SourceText):
    """A text that was read: the data of each document, and their places, for JSON computed on first use."""

    def __init__(self, text: str, name: str, limits: TextLimits) -> None:
        """Read it, as JSON if it looks like that, and as YAML if it is not JSON, as kubectl does."""
        super().__init__(text, name)
        self._limits = limits
        self._places: list[Place] | None = None
        try:
            self.data = self._read()
        except SourceError as error:
            raise self._of_another_kind(error) or error from None

    @property
    def places(self) -> list[Place]:
        """The place of each document."""
        if self._places is None:
            self._read_events(json_events(self))
        return self._places or []

    def _of_another_kind(self, error: SourceError) -> SourceError | None:
        """What the text is instead of a manifest, where that is known, and how to make manifests of it."""
        # An action of a template is an error where it stands, or in the line behind it; elsewhere it is in a text.
        for number in (error.line, error.line - 1):
            if match := _TEMPLATE.search(self.line(number)):
                return self.error(self._line_starts[number - 1] + match.start(), TEMPLATE_HINT)
        if match := _SERVER_LOG.search(self.text):
            detail = "are logs of kubectl cluster-info dump: write them into files with --output-directory=DIRECTORY"
            return self.error(match.start(), detail)
        return None

    def _read(self) -> list[Any]:
        if not self.text.lstrip(" \t\r\n").startswith(("{", "[")):
            return self._read_events(yaml_events(self))
        try:
            data = json_data(self, self._limits)
            return self._read_events(json_events(self)) if data is None else data
        except TooManyValuesError:
            raise
        except SourceError as not_json:
            try:
                return self._read_events(yaml_events(self))
            except SourceError as not_yaml:
                # The error of the reader that came further fits the text better.
                raise (not_json if not_json.offset >= not_yaml.offset else not_yaml) from None

    def _read_events(self, events: Iterator[Any]) -> list[Any]:
        documents = list(EventReader(self, self._limits, events).read())
        self._places = [place for _, place in documents]
        return [data for data, _ in documents]


@dataclass(frozen=True, slots=True)
class Document:
    """One object of a text: its plain JSON data, and the name of the source."""

    value: dict[str, Any]
    source: str
    _text: _Text = field(repr=False, compare=False)
    _number: int = field(repr=False, compare=False)
    _steps: tuple[Step, ...] = field(default=(), repr=False, compare=False)

    @property
    def line(self) -> int:
        """The first line, from 1."""
        return self.position("")[0]

    def position(self, path: FieldPath | str) -> tuple[int, int]:
        """Line and column, from 1, where a field is written: its key, or the entry of a list.

        For a missing field, the nearest existing one around it. Fields from an alias or ``<<`` have the place where
        they were written. InputError when the path is text that cannot be read.
        """
        return self._text.position(self._find(path)[0][0])

    def position_in(self, path: FieldPath | str, offset: int) -> tuple[int, int]:
        """Line and column of one character of the text in a field, with any quoting, folding or indentation.

        ``offset`` counts code points of the value, its length is its end. Where the field holds no text, or is missing,
        as :meth:`position`.
        """
        (_, parts), value = self._find(path)
        if isinstance(parts, tuple) and isinstance(value, str):
            places = places_in(self._text.text, *parts, value)
            if places is not None:
                return self._text.position(places[min(max(offset, 0), len(value))])
        return self.position(path)

    def line_at(self, line: int) -> str:
        """The text of a line, from 1, without its end."""
        return self._text.line(line)

    def where(self, path: FieldPath | str = "") -> str:
        """The position of a field as ``source:line:column``, as compilers and editors write it."""
        line, column = self.position(path)
        return f"{self.source}:{line}:{column}"

    def error(self, path: str, message: str) -> SourceError:
        """Make the error for something wrong in a field."""
        return self._text.error(self._find(path)[0][0], message)

    def item(self, index: int, value: dict[str, Any]) -> Document:
        """An entry of a List as a document of its own."""
        return Document(value, self.source, self._text, self._number, (*self._steps, "items", index))

    def _find(self, path: FieldPath | str) -> tuple[Place, Any]:
        """The place of a field and its value, or of the nearest one around it, with the value None."""
        place = self._text.places[self._number]
        value = self._text.data[self._number]
        inner: Place | None
        for step in (*self._steps, *(FieldPath.parse(path) if isinstance(path, str) else path).steps):
            # The notation does not distinguish the key "0" from the index 0, so the data decides.
            if isinstance(parts := place[1], dict):
                key = step.key if isinstance(step, MapKey) else str(step)
                inner, value = parts.get(key), value.get(key)
            elif isinstance(parts, list) and isinstance(step, int) and step < len(parts):
                inner, value = parts[step], value[step]
            else:
                inner = None
            if inner is None:
                return place, None
            place = inner
        return place, value


def parse_documents(text: str | bytes, source: str, *, limits: TextLimits = DEFAULT_LIMITS) -> list[Document]:
    """All objects in a text of YAML or JSON documents, those of a List, or of a typed one such as PodList, one by one.

    ``source`` names the text in messages. Empty documents are skipped, and so is a byte order mark;
    UTF-16 needs one. SourceError, an InputError, on the first error.
    """
    read = _Text(_decode(text, source, limits.max_bytes), source, limits)
    documents = (Document(data, source, read, number) for number, data in enumerate(read.data) if data is not None)
    return [item for document in documents for item in _objects(document, "document")]


def parse_value(text: str, source: str, *, limits: TextLimits = DEFAULT_LIMITS) -> Any:
    """The one value of a text of YAML or JSON, whatever its type; None without one. SourceError on the first error."""
    read = _Text(_decode(text, source, limits.max_bytes), source, limits)
    if len(read.data) > 1:
        raise read.error(read.places[1][0], "is a second document, one is expected")
    return read.data[0] if read.data else None


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


def _objects(document: Document, what: str) -> Iterator[Document]:
    value: Any = document.value
    if not isinstance(value, dict):
        raise document.error("", f"this {what} is {shown(value)}, not an object with fields")
    kind, items = str(value.get("kind")), value.get("items")
    # A custom resource may have a kind that ends in List: it has a name, and a list has none.
    typed = kind.endswith("List") and "items" in value and not object_at(value, "metadata").get("name")
    if kind != "List" and not typed:
        yield document
    elif isinstance(items, list):
        # The API server leaves these out of the items of its own kinds.
        implied = {"apiVersion": value.get("apiVersion"), "kind": kind.removesuffix("List")} if kind != "List" else {}
        for index, item in enumerate(items):
            bare = isinstance(item, dict) and not item.get("kind") and not item.get("apiVersion")
            yield from _objects(document.item(index, {**item, **implied} if bare else item), f"entry of a {kind}")
    elif items is not None:
        raise document.error("items", f"items of a {kind} must be a list")
