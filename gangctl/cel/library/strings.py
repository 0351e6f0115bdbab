"""Functions of strings, and regular expressions.

The functions are version 2 of CEL's extension, as in Kubernetes. Positions count code points. Regular expressions are
matched by RE2, whose time is proportional to the text for every pattern.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import re2

from gangctl.cel.faults import EvalError, EvalKind
from gangctl.cel.library.string_format import ESCAPES, format_string
from gangctl.cel.library.values import (
    COPIED_SHIFT,
    Implementation,
    Spending,
    bounded,
    function,
    invalid,
    metered,
    method,
    no_such_overload,
)

LONGEST_PATTERN: Final = 512
"""Bytes of a pattern."""
SHORT: Final = 256
"""Characters that are searched in less time than a clock check takes."""
_MEMORY: Final = 1 << 20
"""Bytes of a compiled pattern: ``((a{99}){99}){99}`` is short, too."""
_PATTERNS: Final = 512
"""Compiled patterns that are kept."""


@lru_cache(_PATTERNS)
def compiled(pattern: str | bytes) -> Any:
    """A pattern for re2; EvalError when it is invalid or too large.

    As bytes, it is still UTF-8: re2 is three times as fast where it need not count code points.
    """
    if len(pattern.encode() if isinstance(pattern, str) else pattern) > LONGEST_PATTERN:
        raise EvalError(EvalKind.BUDGET_EXCEEDED, f"a pattern has more than {LONGEST_PATTERN} bytes")
    options = re2.Options()
    # re2 would write each invalid pattern, which an object may have, to standard error.
    options.log_errors = False
    options.max_mem = _MEMORY
    try:
        return re2.compile(pattern, options)
    except re2.error:
        raise invalid("not a regular expression") from None


def _matches(text: str, pattern: str) -> bool:
    return compiled(pattern.encode()).search(text.encode()) is not None


def _find(text: str, pattern: str) -> str:
    match = compiled(pattern.encode()).search(text.encode())
    return "" if match is None else str(match.group(), "utf-8")


def _find_all(spending: Spending, text: str, pattern: str, limit: int = -1) -> list[str]:
    """Matches that do not overlap; an empty one next to the one before it is skipped.

    Each may read all the rest of the text (``a.*z|a``), so the clock is checked before each.
    """
    matches: list[str] = []
    end = -1
    for match in compiled(pattern).finditer(text):
        if 0 <= limit <= len(matches):
            break
        spending.charge(1)
        if len(text) - match.start() > SHORT:
            spending.check_clock()
        start, stop = match.span()
        if start == stop == end:
            continue
        matches.append(match.group())
        end = stop
    bounded(len(matches), "findAll")
    return matches


REGEX_OVERLOADS: Final[tuple[Implementation, ...]] = (
    function("matches", _matches, "string", "string"),
    method("matches", _matches, "string", "string"),
    method("find", _find, "string", "string"),
    metered(method("findAll", _find_all, "string", "string")),
    metered(method("findAll", _find_all, "string", "string", "int")),
)


_SPACE: Final = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
"""Unicode's White_Space, which has neither U+001C nor U+200B."""
# Not str.lower(), which changes other letters than those of ASCII, too.
_LOWER: Final = {ord(c): c.lower() for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
_UPPER: Final = {ord(c): c.upper() for c in "abcdefghijklmnopqrstuvwxyz"}
_ESCAPES: Final = {ord(c): escaped for c, escaped in ESCAPES.items()}
_PIECES_SHIFT: Final = 3
"""Making eight strings is a step."""


def _out_of_range(name: str, index: int) -> EvalError:
    return EvalError(EvalKind.INDEX_OUT_OF_BOUNDS, f"{name}: index out of range: {index}")


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise _out_of_range("charAt", index)
    return text[index : index + 1]


def _index_of(text: str, sought: str, start: int = 0) -> int:
    if start < 0:
        raise _out_of_range("indexOf", start)
    return min(start, len(text)) if not sought else text.find(sought, start)


def _last_index_of(text: str, sought: str) -> int:
    """Like ``str.rfind``, whose time may grow with the product of both lengths, unlike that of ``find``."""
    position = text[::-1].find(sought[::-1])
    return -1 if position < 0 else len(text) - position - len(sought)


def _last_index_of_before(text: str, sought: str, start: int) -> int:
    if start < 0:
        raise _out_of_range("lastIndexOf", start)
    if not sought:
        return min(start, len(text))
    return _last_index_of(text[: start + len(sought)], sought) if start < len(text) else -1


def _replace(spending: Spending, text: str, old: str, new: str, limit: int = -1) -> str:
    count = text.count(old) if limit < 0 else min(limit, text.count(old))
    size = len(text) + count * (len(new) - len(old))
    bounded(size, "replace")
    spending.charge(size >> COPIED_SHIFT)
    return text.replace(old, new, count)


def _split(spending: Spending, text: str, separator: str, limit: int = -1) -> list[str]:
    if not limit:
        return []
    pieces = text.count(separator) + 1
    spending.charge((pieces if limit < 0 else min(pieces, limit)) >> _PIECES_SHIFT)
    if separator:
        return text.split(separator, -1 if limit < 0 else limit - 1)
    if limit < 0 or limit >= len(text):
        return list(text)
    return [*text[: limit - 1], text[limit - 1 :]]


def _substring(text: str, start: int) -> str:
    if not 0 <= start <= len(text):
        raise _out_of_range("substring", start)
    return text[start:]


def _substring_between(text: str, start: int, end: int) -> str:
    for index in (start, end):
        if not 0 <= index <= len(text):
            raise _out_of_range("substring", index)
    if start > end:
        raise _out_of_range("substring", start)
    return text[start:end]


def _join(spending: Spending, values: Sequence[Any], separator: str = "") -> str:
    if not all(isinstance(value, str) for value in values):
        raise no_such_overload("join")
    size = sum(map(len, values)) + len(separator) * len(values)
    bounded(size, "join")
    spending.charge(size >> COPIED_SHIFT)
    return separator.join(values)


def _quote(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'


OVERLOADS: Final[tuple[Implementation, ...]] = (
    method("charAt", _char_at, "string", "int"),
    method("indexOf", _index_of, "string", "string"),
    method("indexOf", _index_of, "string", "string", "int"),
    method("lastIndexOf", _last_index_of, "string", "string"),
    method("lastIndexOf", _last_index_of_before, "string", "string", "int"),
    method("lowerAscii", lambda text: text.translate(_LOWER), "string"),
    method("upperAscii", lambda text: text.translate(_UPPER), "string"),
    metered(method("replace", _replace, "string", "string", "string")),
    metered(method("replace", _replace, "string", "string", "string", "int")),
    metered(method("split", _split, "string", "string")),
    metered(method("split", _split, "string", "string", "int")),
    method("substring", _substring, "string", "int"),
    method("substring", _substring_between, "string", "int", "int"),
    method("trim", lambda text: text.strip(_SPACE), "string"),
    metered(method("join", _join, "list")),
    metered(method("join", _join, "list", "string")),
    metered(method("format", format_string, "string", "list")),
    function("strings.quote", _quote, "string"),
)
