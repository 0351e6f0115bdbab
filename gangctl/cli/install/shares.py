"""The component of shards for another number of them, object by object, and the Leases that there are. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from gangctl.runtime.shards import lease_names
from gangctl.sandbox.patches import json_patch

Object = dict[str, Any]

_FLAG: Final = "--shards="
_UPDATED_AT_A_TIME: Final = 1


def divided(each: Object, shards: int) -> Object:
    """An object of the manifests as it is for so many shards: with a replica more, and a drain leaves each a leader.

    For one shard it stays as it is.
    """
    if shards == 1:
        return each
    match each["kind"]:
        case "Deployment":
            container = "/spec/template/spec/containers/0"
            arguments = each["spec"]["template"]["spec"]["containers"][0]["args"]
            kept = [f"{_FLAG}{shards}" if text.startswith(_FLAG) else text for text in arguments]
            return _replaced(each, {"/spec/replicas": shards + 1, f"{container}/args": kept})
        case "PodDisruptionBudget":
            return _replaced(each, {"/spec/minAvailable": shards})
        case "Role":
            names = {
                f"/rules/{index}/resourceNames": list(lease_names(rule["resourceNames"][0], shards))
                for index, rule in enumerate(each["rules"])
                if _is_about_leases(rule)
            }
            return _replaced(each, names)
        case _:
            return each


def with_room(each: Object, replicas: int) -> Object:
    """An object of the manifests, a quota with room for so many replicas and the one that an update has beside them."""
    if each["kind"] != "ResourceQuota":
        return each
    least = int(each["spec"]["hard"]["pods"])
    return _replaced(each, {"/spec/hard/pods": str(max(least, replicas + _UPDATED_AT_A_TIME))})


def leases(objects: Iterable[Object]) -> list[str]:
    """Names of the Leases that gangctl may hold by the rights among these objects, the first shard's first."""
    rules = [rule for each in objects if each["kind"] == "Role" for rule in each["rules"] if _is_about_leases(rule)]
    return [str(name) for rule in rules for name in rule["resourceNames"]]


def _is_about_leases(rule: Object) -> bool:
    return rule["resources"] == ["leases"] and "resourceNames" in rule


def _replaced(each: Object, values: dict[str, Any]) -> Object:
    return json_patch(each, [{"op": "replace", "path": path, "value": value} for path, value in values.items()])
