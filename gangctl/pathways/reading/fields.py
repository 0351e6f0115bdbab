"""Reading fields of a PathwaysJob beyond :class:`~gangctl.api.objects.Reader`: unknown fields, too."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import islice
from typing import Any, Final

from gangctl.api.objects import Reader, key_path
from gangctl.errors import ErrorKind, FieldError, shown
from gangctl.pathways.problems import MOST_PROBLEMS, listed, near

MOST_ENTRIES: Final = 100
"""Maximum of lists that the API limits far below."""
_MOST_DEPTH: Final = 64
"""Maximum depth of a pod template; the API's own types have less than half of it."""
_MOST_TEXTS: Final = 10_000


def add(reader: Reader, path: str, kind: ErrorKind, detail: str) -> None:
    """Report an error of a field."""
    if len(reader.errors) < MOST_PROBLEMS:
        reader.errors.append(FieldError(path, kind, detail))


def place(reader: Reader, key: str) -> str:
    """The path of a field."""
    return f"{reader.path}.{key}" if reader.path else key


def signed(reader: Reader, key: str, bits: int = 32) -> int | None:
    """The integer under ``key``, None when it is absent or null; its sign is checked later."""
    value = reader.value.get(key)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        add(reader, place(reader, key), ErrorKind.TYPE_INVALID, f"must be an integer, got {shown(value)}")
        return None
    if value.bit_length() >= bits:
        add(reader, place(reader, key), ErrorKind.INVALID, f"must be an integer of {bits} bits")
        return None
    return value


def texts(reader: Reader, key: str) -> tuple[str, ...]:
    """The strings in the list under ``key``; none when it is absent or null."""
    value = reader.value.get(key)
    if value is None:
        return ()
    path = place(reader, key)
    if not isinstance(value, list):
        add(reader, path, ErrorKind.TYPE_INVALID, f"must be a list of strings, got {shown(value)}")
        return ()
    if len(value) > _MOST_TEXTS:
        add(reader, path, ErrorKind.TOO_MANY, f"{len(value)} entries, at most {_MOST_TEXTS} are read")
        return ()
    for index, each in enumerate(value):
        if not isinstance(each, str):
            add(reader, f"{path}[{index}]", ErrorKind.TYPE_INVALID, f"must be a string, got {shown(each)}")
    return tuple(each for each in value if isinstance(each, str))


def refuse_unknown(reader: Reader, known: Collection[str]) -> None:
    """Report fields that the API does not have, with the nearest that it has."""
    unknown = (key for key in reader.value if key not in known)
    for key in islice(unknown, MOST_PROBLEMS):
        named = "" if key_path("", key) else f" {shown(key)}"
        path = place(reader, key) if not named else reader.path
        detail = f"unknown field{named}{near(key, known)}, allowed: {listed(known)}"
        add(reader, path, ErrorKind.FORBIDDEN, detail)


def too_deep(value: Any) -> bool:
    """Whether a value is nested deeper than anything in a pod."""
    level = [value]
    for _ in range(_MOST_DEPTH):
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return False
    return True


def without_nulls(value: Any) -> Any:
    """A deep copy of ``value`` without null fields, which Kubernetes treats as absent."""
    if isinstance(value, Mapping):
        return {key: without_nulls(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [without_nulls(each) for each in value]
    return value
