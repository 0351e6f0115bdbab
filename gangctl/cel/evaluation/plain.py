"""CEL's values as JSON."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from typing import Any, Final

from gangctl.cel.evaluation.conversions import to_string
from gangctl.cel.faults import EvalError
from gangctl.cel.library import registry
from gangctl.cel.library.string_format import double_text
from gangctl.cel.library.values import Optional, TypeValue, Uint, kind
from gangctl.cel.times import Duration, Timestamp

_STRING: Final = registry.FUNCTIONS["string"]


def plain(value: Any) -> Any:
    """JSON where it has the type, as CEL's specification converts the others.

    Keys of maps become strings; bytes Base64; a timestamp, duration or type its text; an optional its value or null;
    doubles that JSON does not have their names. A value without text in CEL, such as a quantity, is the name of its
    type.
    """
    cls = type(value)
    if value is None or cls is bool or cls is str or cls is int:
        return value
    if cls is Uint:
        return int(value)
    if cls is float:
        return value if math.isfinite(value) else double_text(value)
    if cls is bytes:
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, (list, tuple)):
        return [plain(element) for element in value]
    if isinstance(value, Mapping):
        return {key if type(key) is str else to_string(key): plain(entry) for key, entry in value.items()}
    if cls is Timestamp or cls is Duration:
        return str(value)
    if cls is Optional:
        return plain(value.value) if value.present else None
    return value.name if cls is TypeValue else _text(value)


def _text(value: Any) -> str:
    """``string(value)``, or the name of a type that has no text in CEL."""
    try:
        return str(_STRING(value))
    except EvalError:
        return kind(value)
