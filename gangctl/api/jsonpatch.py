"""JSON patches (RFC 6902): applying one as the API server does, and those of the answers of admission webhooks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gangctl.api.objects import copy, same

Operation = dict[str, Any]


def pointer(segments: Sequence[str | int]) -> str:
    """JSON pointer (RFC 6901) of keys and list indices, ``~`` and ``/`` escaped; "" is the whole document."""
    return "".join("/" + str(segment).replace("~", "~0").replace("/", "~1") for segment in segments)


def additions(old: Any, new: Any, path: tuple[str | int, ...] = ()) -> Iterator[Operation]:
    """Operations that turn ``old`` into ``new``, which has everything that ``old`` has, or a value in place of null.

    Both are JSON data, and lists have one length. What stayed is not named, so that changes of other webhooks stay.
    """
    if isinstance(old, dict):
        for key, value in new.items():
            if key in old:
                yield from additions(old[key], value, (*path, key))
            else:
                yield {"op": "add", "path": pointer((*path, key)), "value": value}
    elif isinstance(old, list):
        for index, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from additions(before, after, (*path, index))
    elif old != new:
        yield {"op": "replace", "path": pointer(path), "value": new}


class PatchError(ValueError):
    """A patch that does not fit the object."""

    def __init__(self) -> None:
        """With the API server's message, which gives no details."""
        super().__init__("the server rejected our request due to an error in our request")


class FailedTestError(PatchError):
    """The operation ``test`` found another value."""


def apply(obj: Mapping[str, Any], operations: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The object after these operations; shares nothing with it or with them. PatchError if one does not fit it."""
    document: Any = copy(obj)
    for operation in copy({"operations": list(operations)})["operations"]:
        document = _operate(document, operation)
    if not isinstance(document, dict):
        raise PatchError
    return document


def _operate(document: Any, operation: Mapping[str, Any]) -> Any:
    name, path = operation.get("op"), operation.get("path")
    if not isinstance(path, str):
        raise PatchError
    segments = _segments(path)
    match name:
        case "add":
            return _put(document, segments, operation.get("value"), adding=True)
        case "remove":
            return _remove(document, segments)
        case "replace":
            return _put(document, segments, operation.get("value"), adding=False)
        case "test":
            if not same(_find(document, segments), operation.get("value")):
                raise FailedTestError
            return document
        case "copy" | "move":
            source = str(operation.get("from", ""))
            value = _find(document, _segments(source))
            if name == "move":
                document = _remove(document, _segments(source))
            return _put(document, segments, copy({"value": value})["value"], adding=True)
    raise PatchError


def _segments(path: str) -> list[str]:
    if not path:
        return []
    if not path.startswith("/"):
        raise PatchError
    return [segment.replace("~1", "/").replace("~0", "~") for segment in path.removeprefix("/").split("/")]


def _index(container: list[Any], segment: str, *, adding: bool = False) -> int:
    if adding and segment == "-":
        return len(container)
    limit = len(container) + (1 if adding else 0)
    # ``int`` reads the digits of other scripts, too.
    if not (segment.isascii() and segment.isdigit()) or int(segment) >= limit:
        raise PatchError
    return int(segment)


def _find(document: Any, segments: list[str]) -> Any:
    value = document
    for segment in segments:
        if isinstance(value, dict) and segment in value:
            value = value[segment]
        elif isinstance(value, list):
            value = value[_index(value, segment)]
        else:
            raise PatchError
    return value


def _put(document: Any, segments: list[str], value: Any, *, adding: bool) -> Any:
    if not segments:
        return value
    container = _find(document, segments[:-1])
    if isinstance(container, list):
        place = _index(container, segments[-1], adding=adding)
        container[place : place if adding else place + 1] = [value]
    elif isinstance(container, dict):
        # The API server's library replaces what is not there, too.
        container[segments[-1]] = value
    else:
        raise PatchError
    return document


def _remove(document: Any, segments: list[str]) -> Any:
    # RFC 6902: what is removed has to exist.
    _find(document, segments)
    if not segments:
        return None
    container = _find(document, segments[:-1])
    if isinstance(container, list):
        del container[_index(container, segments[-1])]
    else:
        del container[segments[-1]]
    return document
