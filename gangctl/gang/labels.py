"""Keys of node labels."""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import AfterValidator, StringConstraints
from pydantic_core import PydanticCustomError

_DNS_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
LABEL_KEY: Final = rf"^({_DNS_LABEL}(\.{_DNS_LABEL})*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?$"
_LABEL_PREFIX_LENGTH: Final = 253
_LABEL_KEY_LENGTH: Final = _LABEL_PREFIX_LENGTH + 1 + 63


def is_label_key(text: str) -> bool:
    """Whether a node label can have this key."""
    prefix = text.rpartition("/")[0]
    return len(prefix) <= _LABEL_PREFIX_LENGTH and re.fullmatch(LABEL_KEY, text) is not None


def _with_a_short_prefix(key: str) -> str:
    if not is_label_key(key):
        raise PydanticCustomError("label_prefix", "The prefix of a label key has at most 253 characters")
    return key


LabelKey = Annotated[
    str,
    StringConstraints(pattern=LABEL_KEY, max_length=_LABEL_KEY_LENGTH),
    AfterValidator(_with_a_short_prefix),
]
