"""Versions of one resource that are stored as one: Events of ``v1`` and of ``events.k8s.io/v1``."""

from __future__ import annotations

from typing import Final

from gangctl.sandbox.kinds import ResourceKind
from gangctl.sandbox.objects import Object
from gangctl.sandbox.store import Stored

EVENTS: Final = "events"

# events.k8s.io/v1 on the left, v1, which is stored, on the right.
_EVENT_NAMES: Final = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
# v1 writes these although they are empty.
_LEFT_OUT: Final = frozenset({"reportingComponent", "reportingInstance"})
_STORED_NAMES: Final = {stored: name for name, stored in _EVENT_NAMES.items()}


def to_storage(kind: ResourceKind, obj: Object) -> Object:
    """``obj`` as it is stored; the same dict when nothing differs."""
    if kind.storage == EVENTS and kind.group:
        renamed = {_EVENT_NAMES.get(key, key): value for key, value in obj.items()}
        return {**renamed, "apiVersion": "v1"}
    return obj


def from_storage(kind: ResourceKind, obj: Object) -> Object:
    """A stored object in the version of ``kind``; shares its parts, and is the same dict when nothing differs."""
    if obj["apiVersion"] == kind.api_version:
        return obj
    if kind.storage == EVENTS:
        obj = {_STORED_NAMES.get(key, key): value for key, value in obj.items() if value or key not in _LEFT_OUT}
    return {**obj, "apiVersion": kind.api_version}


def in_version(kind: ResourceKind, stored: Stored) -> Stored:
    """The same for what keeps its JSON."""
    obj = from_storage(kind, stored.obj)
    return stored if obj is stored.obj else Stored(obj, stored.revision)
