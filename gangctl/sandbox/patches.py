"""Patches: merge (RFC 7386), JSON (RFC 6902), Kubernetes' strategic merge, and server-side apply.

All take a frozen object and return a new one that shares nothing with it or with the patch. Server-side apply merges a
manager's fields, removes those that it no longer sets, and rejects conflicts, as ``structured-merge-diff`` does it, for
the lists that have keys by their types.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import orjson

from gangctl.api import jsonpatch
from gangctl.api.objects import copy
from gangctl.apiserver.metadata import FieldCause
from gangctl.sandbox import errors, managed
from gangctl.sandbox.errors import StatusError
from gangctl.sandbox.kinds import ResourceKind
from gangctl.sandbox.managed import merge_key
from gangctl.sandbox.objects import Object, now


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
        # The path of an object without fields is empty.
        if path:
            managed.insert(claimed, path)
    merged: Object = merge_applied(live, wanted, (kind.kind,))
    dropped = [path for path in managed.paths(mine["fieldsV1"]) if not managed.contains(claimed, path)] if mine else []
    others = [entry for entry in entries if entry is not mine]
    _settle_conflicts(kind, live, merged, claimed, others, force=force)
    # The deepest first: a map goes only when nothing is left in it.
    for path in sorted(dropped, key=len, reverse=True):
        if not any(managed.contains(entry["fieldsV1"], path) for entry in others):
            _remove_field(merged, path)
            _prune(merged, path, [claimed, *(entry["fieldsV1"] for entry in others)])
    # Also what others had set in an item that is gone as a whole (Updater.update of structured-merge-diff).
    for path, present in managed.changes(managed.tracked(live), managed.tracked(merged), (kind.kind,)):
        for entry in others if not present else ():
            managed.discard(entry["fieldsV1"], path)
    if mine is None:
        entries.append(managed.new_entry(manager, "Apply", kind.api_version, subresource, claimed))
    # An entry that stays the same keeps its time: an apply that changes nothing is not written.
    elif mine["fieldsV1"] != claimed:
        mine["fieldsV1"], mine["time"] = claimed, now()
    managed.put(merged, entries)
    return merged


def _claimable(kind: ResourceKind, wanted: Object, subresource: str) -> Object:
    """Fields that an apply through this endpoint can own: the status only through its subresource."""
    fields = managed.tracked(wanted)
    if subresource == "status":
        return {key: value for key, value in fields.items() if key in {"status", "metadata"}}
    if kind.has_status:
        fields.pop("status", None)
    return fields


def _settle_conflicts(
    kind: ResourceKind, live: Object, merged: Object, claimed: Object, others: list[Object], *, force: bool
) -> None:
    changed = [
        path
        for path, _ in managed.changes(managed.tracked(live), managed.tracked(merged), (kind.kind,))
        if managed.contains(claimed, path) or path[-1] == managed.SELF
    ]
    conflicts = [
        (entry, path) for entry in others for path in sorted(changed) if managed.contains(entry["fieldsV1"], path)
    ]
    if conflicts and not force:
        raise _conflict(conflicts)
    for entry, path in conflicts:
        managed.discard(entry["fieldsV1"], path)


def _conflict(found: list[tuple[Object, managed.Path]]) -> StatusError:
    causes = [
        FieldCause("FieldManagerConflict", _spelled(path), f"conflict with {_named(entry)}") for entry, path in found
    ]
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


def merge_applied(old: Any, wanted: Any, names: managed.Path) -> Any:
    """``old`` with ``wanted`` laid over it, item by item in lists that have keys; ``names`` lead to it, kind first."""
    if isinstance(old, dict) and isinstance(wanted, dict) and names[-1] not in managed.ATOMIC:
        merged = dict(old)
        for key, value in wanted.items():
            merged[key] = merge_applied(old.get(key), value, (*names, key))
        return merged
    keys = managed.map_keys(names) if isinstance(old, list) and isinstance(wanted, list) else None
    if keys is None:
        return wanted
    before, after = managed.item_elements(old, keys), managed.item_elements(wanted, keys)
    if before is None or after is None:
        return wanted
    merged_items = {
        element: merge_applied(item, after[element], names) if element in after else item
        for element, item in before.items()
    }
    return list(
        {**merged_items, **{element: item for element, item in after.items() if element not in before}}.values()
    )


def _remove_field(value: Any, path: managed.Path) -> None:
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
            _remove_field(item, path[1:])
        return


def _is_item(item: Any, element: str) -> bool:
    wanted = orjson.loads(element[2:])
    if element.startswith("v:"):
        return bool(item == wanted)
    return isinstance(item, dict) and all(
        item.get(key, managed.KEY_DEFAULTS.get(key)) == value for key, value in wanted.items()
    )


PatchType = Literal["merge", "json", "strategic", "apply"]

MEDIA_TYPES: Final[Mapping[str, PatchType]] = {
    "application/merge-patch+json": "merge",
    "application/json-patch+json": "json",
    "application/strategic-merge-patch+json": "strategic",
    "application/apply-patch+yaml": "apply",
}

_DIRECTIVE: Final = "$patch"
_DELETE_FROM: Final = "$deleteFromPrimitiveList/"
_UNREADABLE: Final = "json: cannot unmarshal array into Go value of type"
_ORDER: Final = "$setElementOrder/"
_RETAIN: Final = "$retainKeys"


def merge(obj: Object, patch: Any) -> Object:
    """Apply a merge patch; 400 when it is no object."""
    if not isinstance(patch, dict):
        raise errors.bad_request(f"error decoding patch: {_UNREADABLE} map[string]interface {{}}")
    merged: Object = _merge(copy(obj), copy(patch))
    return merged


def _merge(value: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    if not isinstance(value, dict):
        value = {}
    for key, change in patch.items():
        if change is None:
            value.pop(key, None)
        else:
            value[key] = _merge(value.get(key), change)
    return value


def json_patch(obj: Object, patch: Any) -> Object:
    """Apply a JSON patch; 400 when it is none, 422 when an operation does not fit the object."""
    if not isinstance(patch, list) or not all(isinstance(operation, dict) for operation in patch):
        raise errors.bad_request(
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"
        )
    try:
        return jsonpatch.apply(obj, patch)
    except jsonpatch.PatchError as error:
        raise errors.patch_rejected() from error


def strategic(obj: Object, patch: Any, kind: str) -> Object:
    """Apply a strategic merge patch to a built-in ``kind``: lists with a merge key are merged by it."""
    if not isinstance(patch, dict):
        raise errors.bad_request(f"error decoding patch: {_UNREADABLE} map[string]interface {{}}")
    # The patch is copied because its directives are taken out; a retry needs them again.
    merged: Object = _strategic(copy(obj), copy(patch), (kind,))
    return merged


def _strategic(value: dict[str, Any], patch: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    directive = patch.pop(_DIRECTIVE, None)
    # handleDirectiveInMergeMap of strategicpatch: the map is emptied, its key stays.
    if directive == "delete":
        return {}
    if directive == "replace":
        return _cleaned(patch)
    retained = patch.pop(_RETAIN, None)
    if retained is not None:
        value = {key: item for key, item in value.items() if key in retained}
    orders = {key.removeprefix(_ORDER): patch.pop(key) for key in list(patch) if key.startswith(_ORDER)}
    for key in [key for key in patch if key.startswith(_DELETE_FROM)]:
        name, unwanted = key.removeprefix(_DELETE_FROM), patch.pop(key)
        value[name] = [item for item in value.get(name) or [] if item not in unwanted]
    for key, change in patch.items():
        current = value.get(key)
        if change is None:
            value.pop(key, None)
        elif isinstance(change, dict):
            value[key] = _strategic(current if isinstance(current, dict) else {}, change, (*path, key))
        elif isinstance(change, list):
            value[key] = _strategic_list(current if isinstance(current, list) else [], change, (*path, key))
        else:
            value[key] = change
    # Last, when the lists have all their items.
    for name, order in orders.items():
        _reorder(value, name, order, merge_key((*path, name)))
    return value


def _strategic_list(value: list[Any], patch: list[Any], path: tuple[str, ...]) -> list[Any]:
    key = merge_key(path)
    if key is None:
        return [_cleaned(item) if isinstance(item, dict) else item for item in patch]
    if key == "":
        return value + [item for item in patch if item not in value]
    if any(isinstance(item, dict) and item.get(_DIRECTIVE) == "replace" for item in patch):
        return [_cleaned(item) for item in patch if item.get(_DIRECTIVE) != "replace"]
    merged = list(value)
    for item in patch:
        if not isinstance(item, dict) or key not in item:
            # The API server makes no Status of this error, so that it has no reason.
            raise StatusError(500, "", f"map: {item} does not contain declared merge key: {key}")
        places = [at for at, other in enumerate(merged) if isinstance(other, dict) and other.get(key) == item[key]]
        if item.get(_DIRECTIVE) == "delete":
            merged = [other for at, other in enumerate(merged) if at not in places]
        elif places:
            merged[places[0]] = _strategic(merged[places[0]], item, path)
        else:
            merged.append(_strategic({}, item, path))
    return merged


def _reorder(value: dict[str, Any], name: str, order: list[Any], key: str | None) -> None:
    items = value.get(name)
    if not isinstance(items, list) or key is None:
        return
    wanted = [domain.get(key) if key and isinstance(domain, dict) else domain for domain in order]
    rank = {str(identity): at for at, identity in enumerate(wanted)}
    # What the patch does not name keeps its place behind what it does.
    items.sort(key=lambda item: rank.get(str(item.get(key) if key else item), len(rank)))


def _cleaned(patch: dict[str, Any]) -> dict[str, Any]:
    """A patch that replaces: without directives and without nulls."""
    replacement: dict[str, Any] = {}
    for key, item in patch.items():
        if item is None or key.startswith("$"):
            continue
        if isinstance(item, dict):
            replacement[key] = _cleaned(item)
        elif isinstance(item, list):
            replacement[key] = [_cleaned(inner) if isinstance(inner, dict) else inner for inner in item]
        else:
            replacement[key] = item
    return replacement
