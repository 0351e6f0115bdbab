"""``jsonpatch.escapeKey``: a key as a part of a JSON pointer (RFC 6901)."""

from __future__ import annotations

from typing import Final

from gangctl.policy.cel.library.overload import Overload, function


def _escape_key(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


OVERLOADS: Final[tuple[Overload, ...]] = (function("jsonpatch.escapeKey", _escape_key, "string"),)
