"""Parts of objects that are not validated: a value of another type than API servers write counts as missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def object_at(raw: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The object in a field, empty where there is none.

    >>> object_at({"spec": {"suspend": True}}, "spec"), object_at({"spec": 3}, "spec")
    ({'suspend': True}, {})
    """
    value = raw.get(key)
    return value if isinstance(value, dict) else {}


def objects_at(raw: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """The objects in a list, without whatever else is in it.

    >>> objects_at({"items": [{"a": 1}, None]}, "items"), objects_at({}, "items")
    ([{'a': 1}], [])
    """
    value = raw.get(key)
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
