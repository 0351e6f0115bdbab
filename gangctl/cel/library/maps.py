"""Maps whose keys are not all strings, and the lookup of a key in any map."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from gangctl.cel.library.values import INT_MAX, INT_MIN, UINT_MAX, Uint, invalid

MISSING: Final = object()
"""The result of :func:`find` for an absent key: None is a value."""

NUMBERS: Final = frozenset({int, Uint, float})
KEYS: Final = frozenset({str, bool}) | NUMBERS
"""Types of keys that can be looked up."""
_HELD: Final = KEYS | {type(None)}


class KeyedMap(Mapping[Any, Any]):
    """A map as cel-go makes it: ``1``, ``1u``, ``1.0`` and ``true`` are four keys, where a dict has one."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        """Without any entry."""
        self._entries: dict[tuple[type, Any], Any] = {}

    def __getitem__(self, key: Any) -> Any:
        return self._entries[type(key), key]

    def __iter__(self) -> Iterator[Any]:
        return (key for _, key in self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return repr(list(self.items()))

    def enter(self, key: Any, value: Any) -> None:
        """Add an entry, or replace one with the same key; EvalError for an invalid key."""
        if type(key) not in _HELD:
            raise invalid("a value of this type cannot be the key of a map")
        self._entries[type(key), key] = value

    def find(self, key: Any) -> Any:
        """The value or :data:`MISSING`; a whole number also finds the int or uint, but not the double."""
        for cls in (type(key), *_others(key)):
            found = self._entries.get((cls, key), MISSING)
            if found is not MISSING:
                return found
        return MISSING


def _others(key: Any) -> tuple[type, ...]:
    cls = type(key)
    if cls is float:
        return (int, Uint) if key.is_integer() and INT_MIN <= key <= UINT_MAX else ()
    if cls is int:
        return (Uint,)
    return (int,) if cls is Uint and key <= INT_MAX else ()


def find(mapping: Mapping[Any, Any], key: Any) -> Any:
    """The value under a key or :data:`MISSING`."""
    if type(mapping) is KeyedMap:
        return mapping.find(key)
    return mapping.get(key, MISSING) if type(key) is str else MISSING


def entered(made: dict[str, Any] | KeyedMap, key: Any, value: Any) -> dict[str, Any] | KeyedMap:
    """The map with one more entry: a dict as long as all keys are strings."""
    if type(made) is dict:
        if type(key) is str:
            made[key] = value
            return made
        keyed = KeyedMap()
        for before, held in made.items():
            keyed.enter(before, held)
        made = keyed
    assert isinstance(made, KeyedMap)  # noqa: S101 - for the type checker
    made.enter(key, value)
    return made
