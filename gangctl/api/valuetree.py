"""Builds plain JSON data from a stream of parse events, and remembers where each field was written.

Both readers of documents feed it, so that YAML and JSON give the same data, the same positions and the same refusals.
It keeps a stack of its own instead of recursing, because the text decides the depth.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from gangctl.api.scalars import Scalar
from gangctl.api.sourcetext import SourceError, SourceText

# Where a value is: the offset of its key (or of itself in a list), with the same for its parts when it has any.
Place = int | tuple[int, "Parts"]
Parts = dict[str, "Place"] | list["Place"]

MERGE: Final = "<<"
_WEIGHT: Final = 100
"""Characters that count as one value: aliases repeat long texts as well as many values."""


class Built(NamedTuple):
    """A finished value: data, places of its parts, its weight in values, its depth."""

    value: Any
    parts: Parts | None
    size: int
    depth: int


def weight(value: object) -> int:
    """The weight of a scalar or a key: one value, and more when it is long text."""
    return 1 + len(value) // _WEIGHT if isinstance(value, str) else 1


class TooManyValuesError(SourceError):
    """More values than allowed: the other reader would not find fewer."""


class Allowance:
    """How many more values a whole text may have: each costs time and memory beyond its few characters."""

    def __init__(self, source: SourceText, most: int) -> None:
        """Allow ``most`` over all documents of ``source``."""
        self._source = source
        self._most = most
        self._left = most

    def spend(self, offset: int) -> None:
        """Count one value; SourceError at ``offset`` when there is none left."""
        self._left -= 1
        if self._left < 0:
            raise TooManyValuesError(self._source, offset, f"more than {self._most} values", hint="split it into files")


@dataclass(slots=True)
class _Container:
    value: dict[str, Any] | list[Any]
    parts: Parts
    offset: int
    explicit: dict[str, int] = field(default_factory=dict)
    key: str | None = None
    merging: bool = False
    key_offset: int = 0
    size: int = 1
    depth: int = 0


class TreeBuilder:
    """Receives one document as calls in document order; the result is :attr:`root`.

    SourceError on duplicate keys, on a merge that would not be a mapping, and on
    nesting deeper than ``max_depth``.
    """

    def __init__(self, source: SourceText, max_depth: int, allowance: Allowance) -> None:
        """Start an empty document."""
        self._source = source
        self._allowance = allowance
        self._max_depth = max_depth
        self._stack: list[_Container] = []
        self.root: Built | None = None
        self.root_offset = 0

    @property
    def wants_key(self) -> bool:
        """Whether the next call must be :meth:`key`, :meth:`merge_key` or :meth:`close`."""
        if not self._stack:
            return False
        top = self._stack[-1]
        return isinstance(top.value, dict) and top.key is None and not top.merging

    def open(self, value: dict[str, Any] | list[Any], offset: int) -> None:
        """Begin an object or a list, given as the empty container."""
        if len(self._stack) >= self._max_depth:
            raise self._too_deep(offset)
        self._allowance.spend(offset)
        self._stack.append(_Container(value, {} if isinstance(value, dict) else [], offset))

    def close(self) -> Built:
        """End the innermost container and add it to the one around it."""
        done = self._stack.pop()
        built = Built(done.value, done.parts, done.size, done.depth + 1)
        self.add(built, done.offset)
        return built

    def key(self, key: str, offset: int) -> None:
        """Set the key of the next value of the innermost object."""
        top = self._stack[-1]
        first = top.explicit.setdefault(key, offset)
        if first != offset:
            line, column = self._source.position(first)
            raise self._source.error(
                offset,
                f"duplicate key {key!r}, first at line {line}, column {column}",
                hint="Kubernetes would silently keep one of the two; remove the other",
            )
        top.key, top.key_offset = key, offset
        top.size += weight(key) - 1

    def merge_key(self, offset: int) -> None:
        """Merge the next value's entries into the innermost object."""
        top = self._stack[-1]
        top.merging, top.key_offset = True, offset

    def scalar(self, value: Scalar, offset: int) -> None:
        """Add a value without parts."""
        self._allowance.spend(offset)
        self.add(Built(value, None, weight(value), 0), offset)

    def add(self, built: Built, offset: int) -> None:
        """Add a finished value: to the list, under the current key, or as the document itself."""
        if len(self._stack) + built.depth > self._max_depth:
            raise self._too_deep(offset)
        if not self._stack:
            self.root, self.root_offset = built, offset
            return
        top = self._stack[-1]
        top.size += built.size
        top.depth = max(top.depth, built.depth)
        if isinstance(top.value, list) and isinstance(top.parts, list):
            top.value.append(built.value)
            top.parts.append(offset if built.parts is None else (offset, built.parts))
        elif top.merging:
            self._merge(top, built, offset)
            top.merging = False
        elif isinstance(top.value, dict) and isinstance(top.parts, dict) and top.key is not None:
            top.value[top.key] = built.value
            top.parts[top.key] = top.key_offset if built.parts is None else (top.key_offset, built.parts)
            top.key = None

    def _merge(self, top: _Container, built: Built, offset: int) -> None:
        """``<<``: the entries of a mapping, or of a list of them in which the first one with a key wins."""
        if isinstance(built.value, list) and isinstance(built.parts, list):
            sources = list(zip(built.value, [_inner(part) for part in built.parts], strict=True))
        else:
            sources = [(built.value, built.parts)]
        for value, parts in reversed(sources):
            if not isinstance(value, dict) or not isinstance(parts, dict):
                raise self._source.error(offset, "<< takes a mapping or a list of mappings")
            for key in value:
                if key in top.explicit:
                    # In YAML a written key wins, in go-yaml v2 the last one does.
                    raise self._source.error(
                        top.explicit[key],
                        f"key {key!r} is also merged by the << below it, and Kubernetes would use that one",
                        hint="write << before the keys that override it",
                    )
            top.value.update(value)  # type: ignore[union-attr]
            top.parts.update(parts)  # type: ignore[union-attr]

    def _too_deep(self, offset: int) -> Exception:
        return self._source.error(offset, f"nested more than {self._max_depth} levels deep")


def _inner(place: Place) -> Parts | None:
    return None if isinstance(place, int) else place[1]
