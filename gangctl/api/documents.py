"""Manifests: parses text of YAML or JSON documents to plain data, and finds where each field was written.

Reads what ``kubectl apply -f`` reads and gives the data that the API server would get, but refuses what Kubernetes
resolves silently (duplicate keys), and what could stop the process (deep nesting, aliases that multiply, size). Every
refusal is one :class:`~gangctl.api.documents_reader.SourceError`, ``source:line:column: message``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from gangctl.api.documents_places import places_in
from gangctl.api.documents_reader import MIB, Limits, Place, Reader, SourceError, SourceText, TooManyValuesError
from gangctl.api.documents_syntax import json_data, json_events, yaml_events
from gangctl.api.fieldpath import FieldPath, Key, Step
from gangctl.errors import shown

_UTF_16_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")
_BYTE_ORDER_MARK: Final = "\ufeff"
DEFAULT_LIMITS: Final = Limits()


class _Text(SourceText):
    """A text that was read: the data of each document, and their places, for JSON computed on first use."""

    def __init__(self, text: str, name: str, limits: Limits) -> None:
        """Read it, as JSON if it looks like that, and as YAML if it is not JSON, as kubectl does."""
        super().__init__(text, name)
        self._limits = limits
        self._places: list[Place] | None = None
        self.data = self._read()

    @property
    def places(self) -> list[Place]:
        """The place of each document."""
        if self._places is None:
            self._read_events(json_events(self))
        return self._places or []

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
        documents = list(Reader(self, self._limits, events).read())
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
                key = step.key if isinstance(step, Key) else str(step)
                inner, value = parts.get(key), value.get(key)
            elif isinstance(parts, list) and isinstance(step, int) and step < len(parts):
                inner, value = parts[step], value[step]
            else:
                inner = None
            if inner is None:
                return place, None
            place = inner
        return place, value


def parse_documents(text: str | bytes, source: str, *, limits: Limits = DEFAULT_LIMITS) -> list[Document]:
    """All objects in a text of YAML or JSON documents, those of a ``kind: List`` one by one.

    ``source`` names the text in messages. Empty documents are skipped, and so is a byte order mark;
    UTF-16 needs one. SourceError, an InputError, on the first error.
    """
    read = _Text(_decode(text, source, limits.max_bytes), source, limits)
    documents = (Document(data, source, read, number) for number, data in enumerate(read.data) if data is not None)
    return [item for document in documents for item in _objects(document, "document")]


def parse_value(text: str, source: str, *, limits: Limits = DEFAULT_LIMITS) -> Any:
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
    items = value.get("items")
    if value.get("kind") != "List":
        yield document
    elif isinstance(items, list):
        for index, item in enumerate(items):
            yield from _objects(document.item(index, item), "entry of a List")
    elif items is not None:
        raise document.error("items", "items of a List must be a list")
