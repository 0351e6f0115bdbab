"""References of container images, as container runtimes read them (distribution/reference)."""

from __future__ import annotations

import re
from typing import Final

_PART: Final = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_DOMAIN_PART: Final = r"[a-zA-Z0-9](?:[-a-zA-Z0-9]*[a-zA-Z0-9])?"
_DOMAIN: Final = rf"(?:{_DOMAIN_PART}(?:\.{_DOMAIN_PART})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_NAME: Final = rf"(?:{_DOMAIN}/)?{_PART}(?:/{_PART})*"
_TAG: Final = r"[A-Za-z0-9_][-A-Za-z0-9_.]{0,127}"
_DIGEST: Final = r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}"

_REFERENCE: Final = re.compile(rf"{_NAME}(?::{_TAG})?(?:@{_DIGEST})?")
_REGISTRY: Final = re.compile(rf"{_DOMAIN}(?:/{_PART})*/?")
_VERSION: Final = re.compile(_TAG)
_LONGEST: Final = 512


def is_image(text: str) -> bool:
    """Whether a text names an image, with or without tag and digest."""
    return len(text) <= _LONGEST and _REFERENCE.fullmatch(text) is not None


def is_registry(text: str) -> bool:
    """Whether a text is what can stand before the name of an image: a host, and perhaps a path."""
    return len(text) <= _LONGEST and _REGISTRY.fullmatch(text) is not None


def is_tag(text: str) -> bool:
    """Whether a text can be an image's tag."""
    return _VERSION.fullmatch(text) is not None
