"""Conditions in the status of an object: their difference, and its write."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from gangctl.client.client import Client
from gangctl.client.resources import Resource
from gangctl.errors import ConflictError, NotFoundError
from gangctl.runtime.controller import Action, await_change, requeue

CONFLICT_RETRY_SECONDS: Final = 0.5


def difference(live: Mapping[str, Any], wanted: Mapping[str, Any], now: datetime) -> dict[str, Any] | None:
    """What to merge into the status, None when it is equal; conditions of others stay, and times of unchanged ones."""
    before = [condition for condition in live.get("conditions") or [] if isinstance(condition, dict)]
    (condition,) = wanted["conditions"]
    old = next((other for other in before if other.get("type") == condition["type"]), {})
    # By the API conventions, lastTransitionTime changes with the status alone.
    changed = old.get("status") != condition["status"]
    since = now.isoformat(timespec="seconds").replace("+00:00", "Z") if changed else old.get("lastTransitionTime")
    target = {**wanted, "conditions": [{**condition, "lastTransitionTime": since}]}
    # A merge patch replaces the whole list: conditions of other controllers are sent along.
    target["conditions"] += [other for other in before if other.get("type") != condition["type"]]
    same = all(live.get(key) == value for key, value in target.items() if key != "conditions")
    if same and sorted(before, key=_kind) == sorted(target["conditions"], key=_kind):
        return None
    return target


def _kind(condition: Mapping[str, Any]) -> str:
    return str(condition.get("type"))


async def write_status(
    client: Client, resource: Resource, metadata: Mapping[str, Any], status: Mapping[str, Any]
) -> Action:
    """Merge it into the object with this metadata, as it was observed; a conflict is retried a moment later."""
    # The list of conditions is complete for this version only: a later one is a conflict.
    patch = {"metadata": {"resourceVersion": metadata.get("resourceVersion")}, "status": status}
    try:
        await client.merge_patch(resource, metadata["name"], patch, subresource="status")
    except NotFoundError:
        return await_change()
    except ConflictError:
        # Another client wrote first, and the cache does not show it yet.
        return requeue(CONFLICT_RETRY_SECONDS)
    return await_change()
