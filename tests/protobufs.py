"""Protobuf by hand: messages of numbered fields, in the envelope that Kubernetes puts around an object."""

from __future__ import annotations

from typing import Final

MEDIA_TYPE: Final = "application/vnd.kubernetes.protobuf"

Field = tuple[int, "int | str | bytes"]


def message(*fields: Field) -> bytes:
    """A message; texts and messages are bytes on the wire, numbers are varints."""
    return b"".join(_field(number, value) for number, value in fields)


def envelope(api_version: str, kind: str, body: bytes) -> bytes:
    """An object as a client sends it."""
    return b"k8s\x00" + message((1, message((1, api_version), (2, kind))), (2, body))


def _field(number: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])
