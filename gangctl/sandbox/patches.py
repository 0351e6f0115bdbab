"""Patches: merge (RFC 7386), JSON (RFC 6902) and Kubernetes' strategic merge.

All take a frozen object and return a new one that shares nothing with it or with the patch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from gangctl.sandbox import errors
from gangctl.sandbox.errors import StatusError
from gangctl.sandbox.managed import merge_key
from gangctl.sandbox.objects import Object, copy

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


class FailedTestError(StatusError):
    """The operation ``test`` of a JSON patch found another value."""

    def __init__(self) -> None:
        """As any JSON patch that does not fit."""
        error = errors.patch_rejected()
        super().__init__(error.code, error.reason, error.message, error.details)


def json_patch(obj: Object, patch: Any) -> Object:
    """Apply a JSON patch; 400 when it is none, 422 when an operation does not fit the object."""
    if not isinstance(patch, list) or not all(isinstance(operation, dict) for operation in patch):
        raise errors.bad_request(
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"
        )
    document: Any = copy(obj)
    for operation in copy({"patch": patch})["patch"]:
        document = _operate(document, operation)
    if not isinstance(document, dict):
        raise errors.patch_rejected()
    return document


def _operate(document: Any, operation: Mapping[str, Any]) -> Any:
    name, path = operation.get("op"), operation.get("path")
    if not isinstance(path, str):
        raise errors.patch_rejected()
    segments = _segments(path)
    match name:
        case "add":
            return _add(document, segments, operation.get("value"))
        case "remove":
            return _remove(document, segments)
        case "replace":
            return _put(document, segments, operation.get("value"))
        case "test":
            if not _same(_find(document, segments), operation.get("value")):
                raise FailedTestError
            return document
        case "copy" | "move":
            source = str(operation.get("from", ""))
            value = _find(document, _segments(source))
            if name == "move":
                document = _remove(document, _segments(source))
            return _add(document, segments, copy({"value": value})["value"])
    raise errors.patch_rejected()


def _segments(path: str) -> list[str]:
    if not path:
        return []
    if not path.startswith("/"):
        raise errors.patch_rejected()
    return [segment.replace("~1", "/").replace("~0", "~") for segment in path.removeprefix("/").split("/")]


def _index(container: list[Any], segment: str, *, adding: bool = False) -> int:
    if adding and segment == "-":
        return len(container)
    limit = len(container) + (1 if adding else 0)
    if not segment.isdigit() or int(segment) >= limit:
        raise errors.patch_rejected()
    return int(segment)


def _find(document: Any, segments: list[str]) -> Any:
    value = document
    for segment in segments:
        if isinstance(value, dict) and segment in value:
            value = value[segment]
        elif isinstance(value, list):
            value = value[_index(value, segment)]
        else:
            raise errors.patch_rejected()
    return value


def _add(document: Any, segments: list[str], value: Any) -> Any:
    if not segments:
        return value
    container = _find(document, segments[:-1])
    if isinstance(container, list):
        container.insert(_index(container, segments[-1], adding=True), value)
    elif isinstance(container, dict):
        container[segments[-1]] = value
    else:
        raise errors.patch_rejected()
    return document


def _put(document: Any, segments: list[str], value: Any) -> Any:
    if not segments:
        return value
    container = _find(document, segments[:-1])
    if isinstance(container, list):
        container[_index(container, segments[-1])] = value
    elif isinstance(container, dict):
        # The server's library replaces what is not there, too.
        container[segments[-1]] = value
    else:
        raise errors.patch_rejected()
    return document


def _remove(document: Any, segments: list[str]) -> Any:
    _find(document, segments)
    if not segments:
        return None
    container = _find(document, segments[:-1])
    if isinstance(container, list):
        del container[_index(container, segments[-1])]
    else:
        del container[segments[-1]]
    return document


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, bool) != isinstance(right, bool):
        return False
    return bool(left == right)


def strategic(obj: Object, patch: Any, kind: str) -> Object:
    """Apply a strategic merge patch to a built-in ``kind``: lists with a merge key are merged by it."""
    if not isinstance(patch, dict):
        raise errors.bad_request(f"error decoding patch: {_UNREADABLE} map[string]interface {{}}")
    merged: Object = _strategic(copy(obj), copy(patch), (kind,))
    return merged


def _strategic(value: dict[str, Any], patch: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    directive = patch.pop(_DIRECTIVE, None)
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
    wanted = [each.get(key) if key and isinstance(each, dict) else each for each in order]
    rank = {str(each): at for at, each in enumerate(wanted)}
    # What the patch does not name keeps its place behind what it does.
    items.sort(key=lambda item: rank.get(str(item.get(key) if key else item), len(rank)))


def _cleaned(patch: dict[str, Any]) -> dict[str, Any]:
    """A patch that replaces: without directives and without nulls."""
    found: dict[str, Any] = {}
    for key, item in patch.items():
        if item is None or key.startswith("$"):
            continue
        if isinstance(item, dict):
            found[key] = _cleaned(item)
        elif isinstance(item, list):
            found[key] = [_cleaned(each) if isinstance(each, dict) else each for each in item]
        else:
            found[key] = item
    return found
