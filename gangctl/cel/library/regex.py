"""Regular expressions by RE2, whose time is proportional to the text for every pattern."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import re2

from gangctl.cel.faults import EvalError, EvalKind
from gangctl.cel.library.overload import Overload, Spending, function, metered, method
from gangctl.cel.library.values import bounded, invalid

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
    found: list[str] = []
    end = -1
    for match in compiled(pattern).finditer(text):
        if 0 <= limit <= len(found):
            break
        spending.charge(1)
        if len(text) - match.start() > SHORT:
            spending.check_clock()
        start, stop = match.span()
        if start == stop == end:
            continue
        found.append(match.group())
        end = stop
    bounded(len(found), "findAll")
    return found


OVERLOADS: Final[tuple[Overload, ...]] = (
    function("matches", _matches, "string", "string"),
    method("matches", _matches, "string", "string"),
    method("find", _find, "string", "string"),
    metered(method("findAll", _find_all, "string", "string")),
    metered(method("findAll", _find_all, "string", "string", "int")),
)
