"""Strings: what CEL's own functions ask of them. Regular expressions are RE2's, and no others."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import re2

from gangctl.policy.cel.library.values import invalid, no_such_overload

LONGEST_PATTERN: Final = 512
"""Bytes of a regular expression."""
PATTERN_MEMORY: Final = 1 << 22
"""Bytes that RE2 may use for one pattern."""
PATTERNS: Final = 64
"""How many compiled patterns are kept."""


@lru_cache(maxsize=PATTERNS)
def pattern(text: str) -> Any:
    """A compiled pattern; EvalError when RE2 does not take it."""
    if len(text.encode()) > LONGEST_PATTERN:
        raise invalid(f"matches: the pattern has more than {LONGEST_PATTERN} bytes")
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = PATTERN_MEMORY
    try:
        return re2.compile(text, options)
    except re2.error as error:
        raise invalid("matches: the pattern is no regular expression") from error


def matches(text: Any, expression: Any) -> bool:
    """``text.matches(expression)``: anywhere in the text."""
    if type(text) is not str or type(expression) is not str:
        raise no_such_overload("matches")
    # Of bytes re2 need not count the characters before the match.
    return pattern(expression).search(text.encode()) is not None


def contains(text: Any, part: Any) -> bool:
    """``text.contains(part)``."""
    _strings(text, part, "contains")
    return part in text


def starts_with(text: Any, part: Any) -> bool:
    """``text.startsWith(part)``."""
    _strings(text, part, "startsWith")
    return bool(text.startswith(part))


def ends_with(text: Any, part: Any) -> bool:
    """``text.endsWith(part)``."""
    _strings(text, part, "endsWith")
    return bool(text.endswith(part))


def _strings(text: Any, part: Any, name: str) -> None:
    if type(text) is not str or type(part) is not str:
        raise no_such_overload(name)


def size(value: Any) -> int:
    """``size(value)``: code points, bytes, elements or entries."""
    if isinstance(value, (str, bytes, list, tuple, dict)):
        return len(value)
    raise no_such_overload("size")
