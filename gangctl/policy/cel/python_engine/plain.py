"""CEL's values as JSON."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from typing import Any

from gangctl.policy.cel.library.values import Optional, Uint
from gangctl.policy.cel.python_engine.conversions import double_text, to_string


def plain(value: Any) -> Any:
    """JSON where it has the type, as CEL's specification converts the others.

    Keys of maps become strings; bytes Base64; a timestamp, duration or type its text; an optional
    its value or null; doubles that JSON does not have their names.
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
    if cls is Optional:
        return plain(value.value) if value.present else None
    return str(value)
