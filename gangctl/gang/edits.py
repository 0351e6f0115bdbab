"""Raw objects with one field changed: copies, because aliases of a YAML file may make two fields one object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

Object = dict[str, Any]


def with_key(values: Mapping[str, Any], key: str, value: object, *, after: str | None = None) -> Object:
    """A copy with ``key`` set, removed when ``value`` is None; a new key is inserted after ``after``, else first."""
    if value is None:
        return {name: item for name, item in values.items() if name != key}
    if key in values:
        return {**values, key: value}
    if after not in values:
        return {key: value, **values}
    copy: Object = {}
    for name, item in values.items():
        copy[name] = item
        if name == after:
            copy[key] = value
    return copy


def with_metadata(
    holder: Mapping[str, Any], field: Literal["annotations", "labels"], changes: Mapping[str, str | None]
) -> Object:
    """A copy of an object with annotations or labels set, or removed where the value is None.

    A map that becomes empty is removed; one that was empty before stays.
    """
    meta = holder.get("metadata") or {}
    before = meta.get(field) or {}
    values = {key: value for key, value in before.items() if changes.get(key, value) is not None}
    values |= {key: value for key, value in changes.items() if value is not None}
    if values == before:
        return dict(holder)
    above = ("labels", "namespace") if field == "annotations" else ("namespace",)
    after = next((key for key in above if key in meta), "name")
    meta = with_key(meta, field, values or None, after=after)
    return with_key(holder, "metadata", meta or None)
