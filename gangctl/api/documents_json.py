"""JSON text (RFC 8259), one document or several in a row, to values with places.

Apart from YAML, because JSON is not quite a subset of what libyaml reads: surrogate
pairs, long keys, DEL in strings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import orjson

from gangctl.api.scalars import Scalar, json_number
from gangctl.api.sourcetext import SourceError, SourceText
from gangctl.api.valuetree import Allowance, Built, TreeBuilder

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
