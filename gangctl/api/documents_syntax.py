"""The syntax of YAML and JSON: parse events by libyaml, JSON data by the standard library, and where an error is.

JSON (RFC 8259), one document or several in a row, is read apart from YAML, because it is not quite a subset of what
libyaml reads: surrogate pairs, long keys, DEL in strings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import orjson
import yaml

from gangctl.api.documents_reader import Limits, SourceError, SourceText, TooManyValuesError, extent
from gangctl.api.scalars import json_number, resolve_plain

# The characters of YAML 1.1 (5.1) that libyaml reads; others it reports by byte and without a line.
_UNREADABLE: Final = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")

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
_INTEGERS: Final = range(-(2**63), 2**64)
_EXPECTED: Final = {
    "Expecting value": "a value",
    "Expecting ':' delimiter": "':'",
    "Expecting property name enclosed in double quotes": "a key in double quotes",
}


class _OddError(Exception):
    """JSON that only the reader of events can judge."""


def json_data(source: SourceText, limits: Limits) -> list[Any] | None:
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
    return number if number is not None and number in _INTEGERS else _number(text)


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
