"""Objects as plain JSON data: identities, times.

Stored objects are never changed in place: a change is a new dict that may share
unchanged parts with the one before. Callers copy an object before they edit it.
"""

from __future__ import annotations

import random
import uuid
from datetime import UTC, datetime
from typing import Any

Object = dict[str, Any]

# Without vowels and look-alikes, as generated names are on a real server.
_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH = 5
# maxNameLength of k8s.io/apiserver/pkg/storage/names.
_GENERATED_NAME_LENGTH = 63


def uid() -> str:
    """A new UID."""
    return str(uuid.uuid4())


def now() -> str:
    """The time as ``metav1.Time`` carries it: RFC 3339 in UTC, whole seconds."""
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"


def seconds_since(moment: str) -> float:
    """How long ago a time was that :func:`now` wrote."""
    return (datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds()


def now_micro() -> str:
    """The time as ``metav1.MicroTime`` carries it."""
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"


def generated_name(prefix: str) -> str:
    """A name from ``metadata.generateName``; a long prefix is cut so that the name has at most 63 characters."""
    prefix = prefix[: _GENERATED_NAME_LENGTH - _SUFFIX_LENGTH]
    return prefix + "".join(random.choices(_SUFFIX_LETTERS, k=_SUFFIX_LENGTH))  # noqa: S311 - a name, not a secret


def metadata(obj: Object) -> Object:
    """``metadata``, made where there is none."""
    meta = obj.get("metadata")
    if not isinstance(meta, dict):
        meta = obj["metadata"] = {}
    return meta


def name_of(obj: Object) -> str:
    """``metadata.name``, or ""."""
    return str((obj.get("metadata") or {}).get("name") or "")


def namespace_of(obj: Object) -> str:
    """``metadata.namespace``, or "" for what has none."""
    return str((obj.get("metadata") or {}).get("namespace") or "")


def put_condition(status: Object, new: Object) -> bool:
    """Write a condition (type, status, reason, message) into a status; returns whether it changed."""
    conditions: list[Object] = status.get("conditions") or []
    status["conditions"] = conditions
    for at, old in enumerate(conditions):
        if old["type"] == new["type"]:
            if all(old.get(key) == value for key, value in new.items()):
                return False
            since = old.get("lastTransitionTime") if old["status"] == new["status"] else None
            conditions[at] = {**old, **new, "lastTransitionTime": since or now()}
            return True
    conditions.append({**new, "lastTransitionTime": now()})
    return True
