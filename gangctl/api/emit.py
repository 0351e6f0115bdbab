"""Objects to text: the same text for the same objects, which parses to the same data."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import orjson
import yaml

from gangctl.api.fieldpath import FieldPath
from gangctl.api.scalars import INTEGERS, MERGE, TAG, json_number, resolve_plain

_FIRST: Final = ("apiVersion", "kind", "metadata", "spec")
_STR: Final = TAG + "str"
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_UNLIMITED: Final = 2**31 - 1


def to_json(objects: Iterable[Mapping[str, Any]]) -> str:
    """One JSON document with a newline at its end: the object, or a ``v1`` ``List`` of none or several.

    ValueError when a value is not JSON data: a key that is not a string, a number outside of 64 bits or JSON, a lone
    surrogate, any other type.
    """
    plain = [_ordered(item) for item in objects]
    document = plain[0] if len(plain) == 1 else {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": plain}
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode()


def to_yaml(objects: Iterable[Mapping[str, Any]]) -> str:
    """A stream of YAML documents with ``---`` between them; no objects are the empty text.

    Strings are quoted where a plain one would read as something else, to Kubernetes or
    to an ordinary YAML reader, and texts of several lines are written as blocks.
    ValueError as :func:`to_json`.
    """
    return "---\n".join(
        yaml.dump(
            _ordered(item),
            Dumper=_Dumper,
            sort_keys=False,
            default_flow_style=False,
            allow_unicode=True,
            width=_UNLIMITED,
        )
        for item in objects
    )


def _ordered(value: Mapping[str, Any]) -> dict[str, Any]:
    """The identifying fields of an object come first; the others, and everything deeper, keep their order."""
    first = {name: value[name] for name in _FIRST if name in value}
    return {name: _plain(field, FieldPath().child(name)) for name, field in {**first, **value}.items() if _is_key(name)}


def _plain(value: Any, path: FieldPath) -> Any:
    """The same JSON data with numbers as Kubernetes reads them back; ValueError names the field of an invalid one."""
    match value:
        case None | bool():
            return value
        case str() if value.isascii() or not _SURROGATE.search(value):
            return value
        case int() if value in INTEGERS:
            return value
        case float() if (number := json_number(value)) is not None:
            return number
        case dict():
            return {key: _plain(entry, path.child(key)) for key, entry in value.items() if _is_key(key)}
        case list() | tuple():
            return [_plain(entry, path.index(index)) for index, entry in enumerate(value)]
    raise ValueError(f"{path}: {type(value).__name__} {str(value)[:40]!r} is not JSON data")


def _is_key(key: object) -> bool:
    if isinstance(key, str) and not _SURROGATE.search(key):
        return True
    raise ValueError(f"{key!r} is not a JSON key")


_UNQUOTED: Final[dict[type, str]] = {
    bool: TAG + "bool",
    int: TAG + "int",
    float: TAG + "float",
    type(None): TAG + "null",
}


class _Dumper(yaml.CSafeDumper):
    """libyaml's emitter, with Kubernetes' meaning of plain scalars."""

    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> str:
        """Return the tag of a plain scalar; libyaml quotes a string for which it is not ``!!str``."""
        usual = str(super().resolve(kind, value, implicit))  # type: ignore[no-untyped-call]
        if kind is not yaml.ScalarNode or not implicit[0]:
            return usual
        meaning = resolve_plain(value)
        if not isinstance(meaning, str):
            return _UNQUOTED[type(meaning)]
        # A date is text to Kubernetes, but not to most other readers.
        return TAG + "merge" if value == MERGE else usual

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - part of the protocol
        """Write everything out: no anchors in output for users."""
        return True


def _string(dumper: _Dumper, value: str) -> yaml.Node:
    # libyaml uses quotes by itself when a block cannot represent the text.
    return dumper.represent_scalar(_STR, value, style="|" if "\n" in value else None)


def _float(dumper: _Dumper, value: float) -> yaml.Node:
    return dumper.represent_scalar(_UNQUOTED[float], str(value))


_Dumper.add_representer(str, _string)
_Dumper.add_representer(float, _float)
