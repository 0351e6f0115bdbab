"""Places: where each character of a text in a document was written.

An editor needs the line and column of the third word of an expression, while the expression is in a block scalar,
folded over lines or in quotes. YAML changes only white space freely, so the characters between are matched in order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import orjson

_SPACE: Final = " \t\r\n\x85\u2028\u2029"
_BLOCK: Final = ("|", ">")
_PROPERTIES: Final = re.compile(r"(?:[&!]\S*\s+)*")
_HEADER: Final = re.compile(r"[^\n\r]*(?:\r\n|\r|\n|\Z)")
_ESCAPED_BREAK: Final = re.compile(r"\\(?:\r\n|[\r\n\x85\u2028\u2029])[ \t]*")
_ESCAPE: Final = re.compile(r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)")
_SURROGATES: Final = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_ESCAPES: Final = dict(
    zip("0abt\tnvfreN_LP", "\0\a\b\t\t\n\v\f\r\x1b\x85\xa0\u2028\u2029", strict=True),
)

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
