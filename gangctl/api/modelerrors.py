"""The errors of pydantic for a document, as field errors with the paths that the API server would write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from gangctl.api.fieldpath import FieldPath
from gangctl.errors import ErrorKind, FieldError, one_line, shown

_MOST_ERRORS: Final = 50
_MAPS: Final = frozenset({"matchLabels", "labels", "annotations"})
"""Fields whose entries have keys, not names."""
_KEY: Final = "[key]"

_KINDS: Final = {
    "missing": ErrorKind.REQUIRED,
    "too_short": ErrorKind.REQUIRED,
    "string_too_short": ErrorKind.REQUIRED,
    "extra_forbidden": ErrorKind.FORBIDDEN,
    "literal_error": ErrorKind.NOT_SUPPORTED,
    "string_too_long": ErrorKind.TOO_LONG,
    "too_long": ErrorKind.TOO_MANY,
}


def field_errors(problem: ValidationError) -> list[FieldError]:
    """One error for each problem, at most fifty; quoted values are cut to a few words."""
    details = problem.errors(include_url=False)[:_MOST_ERRORS]
    # Invalid entries are not counted, so a list of them also appears to be too short.
    inside = {detail["loc"][:length] for detail in details for length in range(1, len(detail["loc"]))}
    details = [detail for detail in details if detail["type"] != "too_short" or detail["loc"] not in inside]
    return [FieldError(_path(detail["loc"]), _kind(detail["type"]), _words(detail)) for detail in details]


def _kind(code: str) -> ErrorKind:
    if code in _KINDS:
        return _KINDS[code]
    return ErrorKind.TYPE_INVALID if code.endswith("_type") else ErrorKind.INVALID


def _path(location: Sequence[str | int]) -> str:
    path = FieldPath()
    inside = ""
    for step in location:
        if step == _KEY:
            continue
        if isinstance(step, int):
            path = path.index(step)
        elif inside in _MAPS:
            path = path.key(step)
        else:
            path = path.child(step)
        inside = str(step)
    return str(path)


def _words(error: ErrorDetails) -> str:
    code = error["type"]
    if code == "missing":
        return "is required"
    if code == "extra_forbidden":
        return "unknown field"
    if code == "literal_error":
        return f"unsupported value {shown(error['input'])}, allowed: {error.get('ctx', {}).get('expected', '')}"
    return one_line(message_of(error))


def message_of(error: Mapping[str, Any]) -> str:
    """The message of one error, without the class that pydantic writes before what a validator raised."""
    return str(error["msg"]).removeprefix("Value error, ")
