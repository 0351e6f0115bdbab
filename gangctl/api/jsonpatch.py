"""JSON patches (RFC 6902) between two JSON values, for the answers of admission webhooks.

Only ``add``, ``replace`` and ``remove``, always the same operations in the same order for the same two values, and as
few as an element-wise comparison finds: unchanged fields are not named, so that changes by other webhooks stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Operation = dict[str, Any]


def pointer(segments: Sequence[str | int]) -> str:
    """JSON pointer (RFC 6901) of keys and list indices, ``~`` and ``/`` escaped; "" is the whole document."""
    return "".join("/" + str(segment).replace("~", "~0").replace("/", "~1") for segment in segments)


def diff(old: Any, new: Any) -> list[Operation]:
    """Operations that turn ``old`` into ``new``; an empty list when they are equal.

    Both are plain JSON data. Values in the operations are parts of ``new``, not
    copies. ``1``, ``1.0`` and ``true`` are three different values. Values that are not
    both objects or both lists are replaced at the path "", which a Kubernetes API
    server does not accept: admission compares objects.
    """
    return list(_changes(old, new, ()))


def _changes(old: Any, new: Any, path: tuple[str | int, ...]) -> Iterator[Operation]:
    if isinstance(old, dict) and isinstance(new, dict):
        yield from _object_changes(old, new, path)
    elif isinstance(old, list) and isinstance(new, list):
        yield from _list_changes(old, new, path)
    # True == 1 == 1.0 in Python, but not in JSON.
    elif type(old) is not type(new) or old != new:
        yield {"op": "replace", "path": pointer(path), "value": new}


def _object_changes(old: Mapping[str, Any], new: Mapping[str, Any], path: tuple[str | int, ...]) -> Iterator[Operation]:
    for key in old:
        if key not in new:
            yield {"op": "remove", "path": pointer((*path, key))}
    for key, value in new.items():
        if key in old:
            yield from _changes(old[key], value, (*path, key))
        else:
            yield {"op": "add", "path": pointer((*path, key)), "value": value}


def _list_changes(old: Sequence[Any], new: Sequence[Any], path: tuple[str | int, ...]) -> Iterator[Operation]:
    """Skip the common beginning and end, so that one insertion is one operation, and compare the rest in pairs."""
    shorter = min(len(old), len(new))
    start = 0
    while start < shorter and _same(old[start], new[start]):
        start += 1
    tail = 0
    while tail < shorter - start and _same(old[-1 - tail], new[-1 - tail]):
        tail += 1
    old_end, new_end = len(old) - tail, len(new) - tail
    paired = min(old_end, new_end)
    for index in range(start, paired):
        yield from _changes(old[index], new[index], (*path, index))
    # In reverse order, because a removal moves the entries behind it.
    for index in range(old_end - 1, paired - 1, -1):
        yield {"op": "remove", "path": pointer((*path, index))}
    for index in range(paired, new_end):
        yield {"op": "add", "path": pointer((*path, index)), "value": new[index]}


def _same(old: Any, new: Any) -> bool:
    return next(_changes(old, new, ()), None) is None
