"""Functions of strings. Regular expressions are in the library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gangctl.cel.library.values import no_such_overload


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
    if isinstance(value, (str, bytes, list, tuple, Mapping)):
        return len(value)
    raise no_such_overload("size")
