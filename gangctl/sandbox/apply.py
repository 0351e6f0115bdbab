"""Server-side apply: merge a manager's fields, remove those that it no longer sets, reject conflicts.

As ``structured-merge-diff`` does it, for the lists that :mod:`mergekeys` knows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from gangctl.sandbox import errors, managed
from gangctl.sandbox.errors import Cause, StatusError
from gangctl.sandbox.kinds import ResourceKind
from gangctl.sandbox.objects import Object, copy, now


def apply(
    kind: ResourceKind, old: Object | None, wanted: Object, manager: str, *, force: bool, subresource: str = ""
) -> Object:
    """``old`` with everything in ``wanted``, owned by ``manager``; shares nothing with either.

    StatusError: 409 with one cause for each field that another manager set to something else, unless ``force``.
    """
    wanted = copy(wanted)
    live: Object = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {}}
    if old is not None:
        live = copy(old)
    entries: list[Object] = live["metadata"].pop("managedFields", None) or []
    mine = managed.entry_of(entries, manager, "Apply", kind.api_version, subresource)
    claimed: Object = {}
    for path in managed.fields(_claimable(kind, wanted, subresource), (kind.kind,)):
        if path:
            managed.insert(claimed, path)
    merged: Object = merge(live, wanted, (kind.kind,))
    dropped = [path for path in managed.paths(mine["fieldsV1"]) if not managed.contains(claimed, path)] if mine else []
    others = [entry for entry in entries if entry is not mine]
    _settle_conflicts(kind, live, merged, claimed, others, force=force)
    for path in sorted(dropped, key=len, reverse=True):
        if not any(managed.contains(entry["fieldsV1"], path) for entry in others):
            _remove(merged, path)
            _prune(merged, path, [claimed, *(entry["fieldsV1"] for entry in others)])
    if mine is None:
        entries.append(managed.new_entry(manager, "Apply", kind.api_version, subresource, claimed))
    elif mine["fieldsV1"] != claimed:
        mine["fieldsV1"], mine["time"] = claimed, now()
    managed.put(merged, entries)
    return merged


def _claimable(kind: ResourceKind, wanted: Object, subresource: str) -> Object:
    """Fields that an apply through this endpoint can own: the status only through its subresource."""
    found = managed.tracked(wanted)
    if subresource == "status":
        return {key: value for key, value in found.items() if key in {"status", "metadata"}}
    if kind.has_status:
        found.pop("status", None)
    return found


def _settle_conflicts(
    kind: ResourceKind, live: Object, merged: Object, claimed: Object, others: list[Object], *, force: bool
) -> None:
    changed = [
        path
        for path, _ in managed.changes(managed.tracked(live), managed.tracked(merged), (kind.kind,))
        if managed.contains(claimed, path) or path[-1] == managed.SELF
    ]
    found = [(entry, path) for entry in others for path in sorted(changed) if managed.contains(entry["fieldsV1"], path)]
    if found and not force:
        raise _conflict(found)
    for entry, path in found:
        managed.discard(entry["fieldsV1"], path)


def _conflict(found: list[tuple[Object, managed.Path]]) -> StatusError:
    causes = [Cause("FieldManagerConflict", _spelled(path), f"conflict with {_named(entry)}") for entry, path in found]
    if len(found) == 1:
        message = f"Apply failed with 1 conflict: {causes[0].message}: {causes[0].field}"
        return errors.apply_conflict(causes, message)
    lines: list[str] = []
    by_manager: dict[str, list[str]] = {}
    for entry, path in found:
        by_manager.setdefault(_named(entry), []).append(_spelled(path))
    for name in sorted(by_manager):
        lines += [f"conflicts with {name}:", *(f"- {path}" for path in by_manager[name])]
    text = "\n".join(lines)
    return errors.apply_conflict(causes, f"Apply failed with {len(found)} conflicts: {text}")


def _named(entry: Mapping[str, Any]) -> str:
    name = f'"{entry.get("manager", "")}"'
    if entry.get("subresource"):
        name += f' with subresource "{entry["subresource"]}"'
    if entry.get("operation") == "Update":
        name += f" using {entry.get('apiVersion')}"
    return name


def _spelled(path: managed.Path) -> str:
    """A path as text: ``.spec.containers[name="a"].image``."""
    message = ""
    for element in path:
        match element[:2]:
            case "f:":
                message += f".{element[2:]}"
            case "k:":
                key = orjson.loads(element[2:])
                message += "[" + ",".join(f"{name}={orjson.dumps(value).decode()}" for name, value in key.items()) + "]"
            case "v:":
                message += f"[={element[2:]}]"
    return message


def merge(old: Any, wanted: Any, names: managed.Path) -> Any:
    """``old`` with ``wanted`` laid over it, item by item in lists that have keys; ``names`` lead to it, kind first."""
    if isinstance(old, dict) and isinstance(wanted, dict) and names[-1] not in managed.ATOMIC:
        merged = dict(old)
        for key, value in wanted.items():
            merged[key] = merge(old.get(key), value, (*names, key))
        return merged
    keys = managed.map_keys(names) if isinstance(old, list) and isinstance(wanted, list) else None
    if keys is None:
        return wanted
    before, after = managed.item_elements(old, keys), managed.item_elements(wanted, keys)
    if before is None or after is None:
        return wanted
    merged_items = {
        element: merge(item, after[element], names) if element in after else item for element, item in before.items()
    }
    return list(
        {**merged_items, **{element: item for element, item in after.items() if element not in before}}.values()
    )


def _remove(value: Any, path: managed.Path) -> None:
    """Remove a field from an object; with an item's own mark, remove the item."""
    for at, element in enumerate(path):
        last = at == len(path) - 1
        if element.startswith("f:"):
            name = element[2:]
            if not isinstance(value, dict) or name not in value:
                return
            following = path[at + 1] if not last else ""
            if last or (following == managed.SELF and not value[name]):
                del value[name]
                return
            if following[:2] in {"k:", "v:"}:
                _remove_item(value, name, path[at + 1 :])
                return
            value = value[name]


def _prune(obj: Object, path: managed.Path, owned: Sequence[Object]) -> None:
    """Remove values that became empty, unless a manager owns the empty value."""
    names = [element[2:] for element in path if element.startswith("f:")]
    if len(names) != len(path):
        return
    for end in range(len(path) - 1, 0, -1):
        holder: Any = obj
        for name in names[: end - 1]:
            holder = holder.get(name) if isinstance(holder, dict) else None
        last = names[end - 1]
        if (
            not isinstance(holder, dict)
            or holder.get(last) != {}
            or any(managed.contains(tree, path[:end]) for tree in owned)
        ):
            return
        del holder[last]


def _remove_item(holder: Object, name: str, path: managed.Path) -> None:
    items = holder[name]
    if not isinstance(items, list):
        return
    for at, item in enumerate(items):
        if not _is_item(item, path[0]):
            continue
        if len(path) == 1 or path[1] == managed.SELF:
            del items[at]
            if not items:
                del holder[name]
        else:
            _remove(item, path[1:])
        return


def _is_item(item: Any, element: str) -> bool:
    wanted = orjson.loads(element[2:])
    if element.startswith("v:"):
        return bool(item == wanted)
    return isinstance(item, dict) and all(
        item.get(key, managed.KEY_DEFAULTS.get(key)) == value for key, value in wanted.items()
    )
