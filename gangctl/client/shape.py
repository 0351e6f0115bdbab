"""The required parts of an object: a server that answers with others is not an API server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_TEXTS: Final = (
    *("name", "namespace", "uid", "resourceVersion", "generateName"),
    *("creationTimestamp", "deletionTimestamp", "continue"),
)
_OWNER_TEXTS: Final = ("apiVersion", "kind", "name", "uid")
_TEXT: Final = (str, type(None))
_TEXT_ONLY: Final = frozenset({str})


def misshapen(raw: Mapping[str, Any]) -> str:
    """Path of the first field of a wrong type, empty without one: checks metadata, and that the rest are objects."""
    metadata = raw.get("metadata")
    if not isinstance(metadata, dict | None):
        return "metadata"
    if wrong := _first_wrong(metadata or {}):
        return f"metadata.{wrong}"
    if raw.get("kind") != "Status":
        for key in ("spec", "status", "data"):
            if not isinstance(raw.get(key), dict | None):
                return key
    return ""


def objects(value: object) -> list[dict[str, Any]]:
    """The objects in a list, without entries of other types."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _first_wrong(metadata: Mapping[str, Any]) -> str:
    for key in _TEXTS:
        if not isinstance(metadata.get(key), _TEXT):
            return key
    for key in ("labels", "annotations"):
        values = metadata.get(key)
        if values is not None and not (isinstance(values, dict) and _all_texts(values)):
            return key
    owners = metadata.get("ownerReferences") or []
    if not isinstance(owners, list) or len(objects(owners)) != len(owners):
        return "ownerReferences"
    right = all(isinstance(owner.get(key), _TEXT) for owner in owners for key in _OWNER_TEXTS)
    return "" if right else "ownerReferences"


def _all_texts(values: Mapping[str, Any]) -> bool:
    # In one pass, as a decoder makes them: there are two dozen in each of 100,000 pods.
    return _TEXT_ONLY.issuperset(map(type, values.values())) or all(isinstance(text, str) for text in values.values())
