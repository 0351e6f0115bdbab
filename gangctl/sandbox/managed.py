"""``metadata.managedFields``: who last set which field (``FieldsV1`` of server-side apply), and the keys of lists.

A set of fields is a tree of path elements, as it is written: ``f:name`` a field, ``k:{...}`` an item of a list that has
keys, ``v:...`` a member of a set, ``.`` the item itself. Strategic merge and server-side apply read the same table of
keys, that of the types (``apiserver/fields.json``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Literal

import orjson

from gangctl.api.objects import copy, same
from gangctl.apiserver.fields import Fields, FieldType, fields_of
from gangctl.apiserver.minors import MINORS, NEWEST
from gangctl.sandbox.kinds import ResourceKind
from gangctl.sandbox.objects import Object, now
from gangctl.sandbox.requests import Caller, WriteOptions

KEY_DEFAULTS: Final[Mapping[str, str]] = {"protocol": "TCP"}
"""Default of a key that an item does not have."""

_CUSTOM_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "status.conditions": ("type",),
    "status.admissionChecks": ("name",),
}
"""Keys of lists of custom resources, whose definitions are not read for it: conditions, and those of Kueue."""


def merge_key(path: tuple[str, ...]) -> str | None:
    """The merge key of the list at ``path`` (kind first, names only); "" for a set, None when it is replaced."""
    shape = _list(path)
    return None if shape is None else shape.merge_key


def map_keys(path: tuple[str, ...]) -> tuple[str, ...] | None:
    """The keys of items of the list at ``path`` for apply; () for a set, None when it is one value."""
    shape = _list(path)
    if shape is None:
        return _CUSTOM_KEYS.get(".".join(path[1:]))
    return shape.keys or (() if shape.is_set else None)


@lru_cache(maxsize=4096)
def _list(path: tuple[str, ...]) -> FieldType | None:
    """The type of a list; None where no type of this kind, in the newest version that has the field, is a list."""
    kind, *names = path
    roots = _roots(kind)
    # Kinds of definitions are in no table of types, but their metadata has the fields of every object.
    if not roots and names[:1] == ["metadata"]:
        roots, names = ((fields_of(NEWEST), "meta.v1.ObjectMeta"),), names[1:]
    for types, root in roots:
        shape = _field(types, FieldType("struct", root), names)
        if shape is not None:
            return shape if shape.form == "list" else None
    return None


@lru_cache(maxsize=256)
def _roots(kind: str) -> tuple[tuple[Fields, str], ...]:
    """The definitions of a kind on each minor, the newest first; none of a custom resource."""
    every = (fields_of(minor) for minor in reversed(MINORS))
    return tuple(
        (types, root) for types in every for name, root in types.kinds.items() if name.rpartition("/")[2] == kind
    )


def _field(types: Fields, shape: FieldType, names: Sequence[str]) -> FieldType | None:
    """The type at a path below a type."""
    for name in names:
        while shape.form == "list" and shape.item is not None:
            shape = shape.item
        inner = types.of(shape.name).get(name) if shape.form == "struct" else shape.item
        if inner is None:
            return None
        shape = inner
    return shape


Operation = Literal["Apply", "Update"]
Path = tuple[str, ...]
Tree = dict[str, Any]

SELF: Final = "."
_UNTRACKED: Final = frozenset({"apiVersion", "kind"})
# What stripMetaManager of the API server removes, and what a deletion sets.
_UNTRACKED_METADATA: Final = frozenset(
    {
        "name", "namespace", "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp",
        "deletionGracePeriodSeconds", "generation", "selfLink", "managedFields",
    }
)  # fmt: skip
# Maps of names to values; everything else is a struct, which is not a field of its own.
_MAPS: Final = frozenset(
    {
        "labels", "annotations", "data", "stringData", "binaryData", "matchLabels", "limits",
        "requests", "capacity", "allocatable",
    }
)  # fmt: skip


# Structs and maps that are one field (x-kubernetes-map-type: atomic).
ATOMIC: Final = frozenset(
    {
        "nodeSelector", "selector", "labelSelector", "fieldRef", "resourceFieldRef", "secretKeyRef", "configMapKeyRef",
        "regarding", "involvedObject", "related", "roleRef", "topology",
    }
)  # fmt: skip
# Lists that the server never counts as fields of their own.
_BARE_LISTS: Final = frozenset({"containers", "podGroupTemplates", "podGroups", "conditions"})


def manager_of(caller: Caller, options: WriteOptions) -> str:
    """The manager of a write: the one it names, or the name of the client's program."""
    if options.field_manager:
        return options.field_manager
    # As prefixFromUserAgent of the API server.
    return caller.user_agent.partition("/")[0] or caller.name


def tracked(obj: Object) -> Object:
    """The part of an object whose fields have managers."""
    part = {key: value for key, value in obj.items() if key not in _UNTRACKED}
    metadata = {key: value for key, value in obj.get("metadata", {}).items() if key not in _UNTRACKED_METADATA}
    part.pop("metadata", None)
    if metadata:
        part["metadata"] = metadata
    return part


def item_elements(items: list[Any], keys: tuple[str, ...]) -> dict[str, Any] | None:
    """Items of a keyed list, or members of a set, by path element; None when some have no key."""
    elements: dict[str, Any] = {}
    for item in items:
        if not keys:
            elements["v:" + orjson.dumps(item).decode()] = item
            continue
        if not isinstance(item, dict):
            return None
        # Sorted: a path is compared as text with those that were written before.
        key = {name: item.get(name, KEY_DEFAULTS.get(name)) for name in sorted(keys)}
        key = {name: value for name, value in key.items() if value is not None}
        if not key:
            return None
        elements["k:" + orjson.dumps(key).decode()] = item
    return elements


def fields(value: Any, names: Path, path: Path = (), *, containers: bool = False) -> Iterator[Path]:
    """The paths of every field in ``value``; ``names`` is where it is (kind first), for the table of keyed lists.

    ``containers`` adds maps and lists themselves, as updates do and applies do not.
    """
    if isinstance(value, dict) and names[-1] not in ATOMIC:
        if not value or (containers and path and names[-1] in _MAPS):
            yield (*path, SELF) if value else path
        for key, item in value.items():
            yield from fields(item, (*names, key), (*path, f"f:{key}"), containers=containers)
        return
    keys = map_keys(names) if isinstance(value, list) else None
    elements = item_elements(value, keys) if keys is not None and value else None
    if elements is None:
        yield path
        return
    if containers and names[-1] not in _BARE_LISTS:
        yield (*path, SELF)
    for element, item in elements.items():
        yield (*path, element, SELF) if isinstance(item, dict) else (*path, element)
        if isinstance(item, dict):
            for key, part in item.items():
                yield from fields(part, (*names, key), (*path, element, f"f:{key}"), containers=containers)


def changes(old: Any, new: Any, names: Path, path: Path = ()) -> Iterator[tuple[Path, bool]]:
    """Paths that differ from ``old`` to ``new``, and whether they are there in ``new``."""
    if same(old, new):
        return
    if isinstance(old, dict) and isinstance(new, dict) and old and new and names[-1] not in ATOMIC:
        yield from _part_changes(old, new, names, path, "f:")
        return
    keys = map_keys(names) if isinstance(old, list) and isinstance(new, list) else None
    if keys is not None:
        before, after = item_elements(old, keys), item_elements(new, keys)
        if before and after:
            yield from _part_changes(before, after, names, path, "")
            return
    if _is_tree(old, names):
        for field in fields(old, names, path, containers=True):
            yield field, False
    elif not _is_tree(new, names):
        yield path, True
    if _is_tree(new, names):
        for field in fields(new, names, path, containers=True):
            yield field, True


def _is_tree(value: Any, names: Path) -> bool:
    return (
        bool(value)
        and names[-1] not in ATOMIC
        and (isinstance(value, dict) or (isinstance(value, list) and map_keys(names) is not None))
    )


def _part_changes(old: Object, new: Object, names: Path, path: Path, prefix: str) -> Iterator[tuple[Path, bool]]:
    for key in old.keys() | new.keys():
        here = (*path, prefix + key)
        inner = (*names, key) if prefix else names
        if key not in new:
            for item_field in _item_fields(old[key], inner, here, item=not prefix):
                yield item_field, False
        elif key not in old:
            for item_field in _item_fields(new[key], inner, here, item=not prefix):
                yield item_field, True
        elif prefix or not isinstance(new[key], dict):
            yield from changes(old[key], new[key], inner, here)
        else:
            yield from _part_changes(old[key], new[key], inner, here, "f:")


def _item_fields(value: Any, names: Path, path: Path, *, item: bool) -> Iterator[Path]:
    if not item or not isinstance(value, dict):
        yield from fields(value, names, path, containers=True)
        return
    yield (*path, SELF)
    for key, part in value.items():
        yield from fields(part, (*names, key), (*path, f"f:{key}"), containers=True)


def insert(tree: Tree, path: Path) -> None:
    """Add a field to a set."""
    for element in path:
        tree = tree.setdefault(element, {})


def discard(tree: Tree, path: Path) -> bool:
    """Remove a field, and branches that get empty by it, from a set; whether it was in it."""
    branch = tree.get(path[0])
    if branch is None:
        return False
    if len(path) == 1:
        del tree[path[0]]
        return True
    present = discard(branch, path[1:])
    if present and not branch:
        del tree[path[0]]
    return present


def contains(tree: Tree, path: Path) -> bool:
    """Whether a field, or something in it, is in a set."""
    for element in path:
        if element not in tree:
            return False
        tree = tree[element]
    return True


def paths(tree: Tree, path: Path = ()) -> Iterator[Path]:
    """The fields of a set."""
    for element, branch in tree.items():
        if branch:
            yield from paths(branch, (*path, element))
        else:
            yield (*path, element)


def entry_of(
    entries: list[Object], manager: str, operation: Operation, version: str, subresource: str
) -> Object | None:
    """The entry of a manager, or None."""
    for entry in entries:
        identity = (entry.get("manager"), entry.get("operation"), entry.get("apiVersion"), entry.get("subresource", ""))
        if identity == (manager, operation, version, subresource):
            return entry
    return None


def new_entry(manager: str, operation: Operation, version: str, subresource: str, tree: Tree) -> Object:
    """An entry of ``managedFields``, set now."""
    entry: Object = {
        "manager": manager,
        "operation": operation,
        "apiVersion": version,
        "time": now(),
        "fieldsType": "FieldsV1",
        "fieldsV1": tree,
    }
    if subresource:
        entry["subresource"] = subresource
    return entry


def track(kind: ResourceKind, old: Object | None, new: Object, manager: str, subresource: str = "") -> None:
    """Record in ``new`` that an update by ``manager`` changed the fields that differ from ``old``.

    Other managers lose these fields.
    """
    # A copy: `old` is the store's, and entries lose fields below.
    entries: list[Object] = copy({"entries": (old or {}).get("metadata", {}).get("managedFields") or []})["entries"]
    changed = list(changes(tracked(old or {}), tracked(new), (kind.kind,)))
    mine = entry_of(entries, manager, "Update", kind.api_version, subresource)
    for entry in entries:
        for path, present in changed:
            # Removed fields have no manager.
            if entry is not mine or not present:
                discard(entry["fieldsV1"], path)
    set_now = [path for path, present in changed if present]
    # Without a changed field the time stays: the update would otherwise be a change, and be written.
    if set_now:
        if mine is None:
            mine = new_entry(manager, "Update", kind.api_version, subresource, {})
            entries.append(mine)
        for path in set_now:
            insert(mine["fieldsV1"], path)
        mine["time"] = now()
    put(new, entries)


def put(obj: Object, entries: list[Object]) -> None:
    """Set ``managedFields``, without entries that hold nothing; applies come first, then by time."""
    entries = [entry for entry in entries if entry.get("fieldsV1")]
    entries.sort(key=lambda entry: (entry.get("operation") != "Apply", entry.get("time", ""), entry.get("manager", "")))
    if entries:
        obj["metadata"]["managedFields"] = entries
    else:
        obj["metadata"].pop("managedFields", None)
