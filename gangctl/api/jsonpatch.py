"""JSON patches (RFC 6902) for the answers of admission webhooks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

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
