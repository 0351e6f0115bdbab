"""Conditions as controllers keep them: one entry for each type, and the time of its last change of status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gangctl.sandbox.objects import Object, now


def find(obj: Mapping[str, Any], kind: str) -> Object | None:
    """The condition of that type in an object's status."""
    for condition in (obj.get("status") or {}).get("conditions") or []:
        if condition["type"] == kind:
            found: Object = condition
            return found
    return None


def is_true(obj: Mapping[str, Any], kind: str) -> bool:
    """Whether the object has the condition with status True."""
    found = find(obj, kind)
    return found is not None and found["status"] == "True"


def put(status: Object, new: Object) -> bool:
    """Write a condition (type, status, reason, message) into a status; returns whether it changed."""
    conditions: list[Object] = status.setdefault("conditions", [])
    for at, old in enumerate(conditions):
        if old["type"] == new["type"]:
            if all(old.get(key) == value for key, value in new.items()):
                return False
            since = old.get("lastTransitionTime") if old["status"] == new["status"] else None
            conditions[at] = {**old, **new, "lastTransitionTime": since or now()}
            return True
    conditions.append({**new, "lastTransitionTime": now()})
    return True
