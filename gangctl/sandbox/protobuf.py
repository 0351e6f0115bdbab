"""Bodies in protobuf, as kubectl's ``create`` and other typed clients send built-in kinds, to JSON data.

Answers are JSON, which these clients take as well. The numbers of fields stand in ``rules/messages.json``, written by
``python -m tests.sandbox.messagetable``; their types are those of ``apiserver/fields.json``. What the table does not
know is dropped, as a server drops the fields of a later release. A field that Go writes although it is empty (one that
is no pointer) is left out, as in JSON.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from importlib import resources
from typing import Any, Final

import orjson

from gangctl.apiserver.fields import Fields, FieldType, fields_of
from gangctl.sandbox.objects import Object

MEDIA_TYPE: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\x00"
_DELETE_OPTIONS: Final = "DeleteOptions"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_SIZES: Final = {_FIXED64: 8, _FIXED32: 4}
# 64 bits, seven in each byte.
_LONGEST_VARINT: Final = 10
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_WIRE_TYPES: Final = {"int32": _VARINT, "int64": _VARINT, "bool": _VARINT, "number": _FIXED64}

Value = int | bytes


def decode(body: bytes, minor: str, default: tuple[str, str]) -> Object:
    """The object in an envelope; ``default`` is its apiVersion and kind where the envelope names none.

    ValueError if it cannot be read, or is of a kind that has no message in the table.
    """
    if not body.startswith(_MAGIC):
        raise ValueError("provided data does not appear to be a protobuf message")
    # Of a field that comes twice the last value counts, as protobuf has it.
    envelope = dict(_fields(body[len(_MAGIC) :]))
    named = dict(_fields(_bytes(envelope.get(1, b""))))
    api_version, kind = (_text(named.get(number, b"")) for number in (1, 2))
    api_version, kind = api_version or default[0], kind or default[1]
    fields = fields_of(minor)
    # DeleteOptions are registered in every group version, so that the envelope may name any.
    root = "meta.v1.DeleteOptions" if kind == _DELETE_OPTIONS else fields.root(api_version, kind)
    if root is None or root not in _messages():
        raise ValueError(f"{api_version}, Kind={kind} has no message")
    content = _Decoder(fields).message(_bytes(envelope.get(2, b"")), root, root)
    return {"apiVersion": api_version, "kind": kind, **content}


@lru_cache(maxsize=1)
def _messages() -> Mapping[str, Mapping[int, str]]:
    text = resources.files("gangctl.sandbox.rules").joinpath("messages.json").read_text(encoding="utf-8")
    table: dict[str, dict[str, str]] = json.loads(text)["messages"]
    return {name: {int(number): entry for number, entry in fields.items()} for name, fields in table.items()}


class _Decoder:
    """Decodes messages of one minor's types."""

    def __init__(self, fields: Fields) -> None:
        self._types = fields

    def message(self, data: bytes, message: str, definition: str) -> Object:
        """The fields of a ``message``, with the types of ``definition``, into which it may be inlined."""
        shapes, numbers = self._types.of(definition), _messages().get(message, {})
        content: Object = {}
        for number, value in _fields(data):
            entry = numbers.get(number, "")
            # ``<`` is in front of an embedded type, whose message stands in the place of a field.
            if entry.startswith("<"):
                content |= self.message(_bytes(value), entry[1:], definition)
                continue
            name = entry.removeprefix("*")
            shape = shapes.get(name)
            if shape is not None:
                # ``*`` is in front of a pointer, which Go writes although its value is empty.
                self._put(content, name, shape, value, keeps_empty=entry.startswith("*"))
        return content

    def _put(self, found: Object, name: str, shape: FieldType, value: Value, *, keeps_empty: bool) -> None:
        if shape.form == "list" and shape.item is not None:
            found.setdefault(name, []).append(self._value(shape.item, value))
        elif shape.form == "map" and shape.item is not None:
            pair = dict(_fields(_bytes(value)))
            number = shape.item.form == "scalar" and _WIRE_TYPES.get(shape.item.name) == _VARINT
            # An entry of a map leaves out a key or a value that is the default of its type.
            item = pair.get(2, 0 if number else b"")
            found.setdefault(name, {})[_text(pair.get(1, b""))] = self._value(shape.item, item)
        else:
            decoded = self._value(shape, value)
            if keeps_empty or (decoded not in ("", 0, None)):
                found[name] = decoded

    def _value(self, shape: FieldType, value: Value) -> Any:
        if shape.form == "struct":
            return self.message(_bytes(value), shape.name, shape.name)
        if shape.form == "list" and shape.item is not None:
            # A list inside a map is a message of its own.
            return [self._value(shape.item, item) for number, item in _fields(_bytes(value)) if number == 1]
        return _scalar(shape.name, value)


def _scalar(name: str, value: Value) -> Any:
    match name:
        case "string":
            return _text(value)
        case "bytes":
            return base64.b64encode(_bytes(value)).decode()
        case "bool":
            return bool(_number(value))
        case "int32" | "int64":
            return _number(value)
        case "number":
            if len(_bytes(value)) != _SIZES[_FIXED64]:
                raise ValueError("unexpected EOF")
            return struct.unpack("<d", _bytes(value))[0]
        case "time" | "microTime":
            return _time(dict(_fields(_bytes(value))), fraction=name == "microTime")
    inner = dict(_fields(_bytes(value)))
    if name == "quantity":
        return _text(inner.get(1, b""))
    if name == "intOrString":
        return _text(inner.get(3, b"")) if inner.get(1) else _number(inner.get(2, 0))
    return orjson.loads(_bytes(inner.get(1, b"")) or b"null")


def _time(parts: Mapping[int, Value], *, fraction: bool) -> str | None:
    """RFC 3339; None for Go's zero time, which is an empty message."""
    if not parts:
        return None
    try:
        moment = _EPOCH + timedelta(seconds=_number(parts.get(1, 0)))
    except OverflowError as error:
        raise ValueError("Time.MarshalJSON: year outside of range [0,9999]") from error
    micros = f".{_number(parts.get(2, 0)) // 1000:06}" if fraction else ""
    return f"{moment:%Y-%m-%dT%H:%M:%S}{micros}Z"


def _bytes(value: Value) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError("proto: wrong wireType = 0")  # noqa: TRY004 -- as any other fault of a body
    return value


def _number(value: Value) -> int:
    if not isinstance(value, int):
        raise ValueError("proto: wrong wireType = 2")  # noqa: TRY004 -- as above
    # A negative number is a varint in two's complement of 64 bits.
    return value - 2**64 if value >= 2**63 else value


def _text(value: Value) -> str:
    return _bytes(value).decode(errors="replace")


def _fields(data: bytes) -> Iterator[tuple[int, Value]]:
    """The numbers and values of a message, in their order."""
    place = 0
    while place < len(data):
        key, place = _varint(data, place)
        wire = key & 7
        if wire == _VARINT:
            value, place = _varint(data, place)
            yield key >> 3, value
            continue
        if wire == _BYTES:
            size, place = _varint(data, place)
        elif wire in _SIZES:
            size = _SIZES[wire]
        else:
            raise ValueError(f"proto: illegal wireType {wire}")
        if place + size > len(data):
            raise ValueError("unexpected EOF")
        yield key >> 3, data[place : place + size]
        place += size


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = 0
    for index in range(_LONGEST_VARINT):
        if place + index >= len(data):
            raise ValueError("unexpected EOF")
        byte = data[place + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:  # noqa: PLR2004 -- the last one
            return value & (2**64 - 1), place + index + 1
    raise ValueError("proto: integer overflow")
