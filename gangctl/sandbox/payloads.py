"""Bytes on the wire to JSON data: media types, limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import orjson
from aiohttp import web

from gangctl.sandbox import errors, protobuf
from gangctl.sandbox.kinds import ResourceKind

LIMIT: Final = 3 * 2**20
JSON: Final = "application/json"
_SHOWN: Final = 1024


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a body has to be: its type, and the minor whose fields it has. ``custom`` types have no protobuf."""

    api_version: str
    kind: str
    minor: str
    custom: bool = False


async def read(request: web.BaseRequest) -> bytes:
    """The body; 413 when it is larger than the server takes."""
    if request.content_length is not None and request.content_length > LIMIT:
        raise errors.too_large_body(LIMIT)
    if not request.can_read_body:
        return b""
    chunks, size = [], 0
    async for chunk in request.content.iter_any():
        size += len(chunk)
        if size > LIMIT:
            raise errors.too_large_body(LIMIT)
        chunks.append(chunk)
    return b"".join(chunks)


def media_type(request: web.BaseRequest) -> str:
    """``Content-Type`` without parameters; JSON when there is none."""
    return request.headers.get("Content-Type", JSON).partition(";")[0].strip().lower() or JSON


def decode(body: bytes, given: str, wanted: Wanted) -> dict[str, Any]:
    """An object of a create or update; 400 when it is none, 415 for a format that is not read.

    ``given`` is the media type.
    """
    if given == protobuf.MEDIA_TYPE and not wanted.custom:
        return _decode_protobuf(body, wanted)
    if given != JSON:
        raise errors.unsupported_media_type((JSON,) if wanted.custom else (JSON, protobuf.MEDIA_TYPE))
    subject = f"the object provided is unrecognized (must be of type {wanted.kind}): couldn't get version/kind; "
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise errors.bad_request(f"{subject}json parse error: {error}") from error
    if not isinstance(value, dict):
        raise errors.bad_request(f"{subject}it is no object")
    return value


def _decode_protobuf(body: bytes, wanted: Wanted) -> dict[str, Any]:
    try:
        return protobuf.decode(body, wanted.minor, (wanted.api_version, wanted.kind))
    except protobuf.UnknownMessage as error:
        raise errors.unsupported_media_type((JSON,)) from error
    except protobuf.Malformed as error:
        if error.of is None:
            shown = body[:_SHOWN].hex() or "<empty>"
            subject = f"the object provided is unrecognized (must be of type {wanted.kind})"
            raise errors.bad_request(f"{subject}: {error} ({shown})") from error
        version, kind = error.of[0].rpartition("/")[2], error.of[1]
        subject = f'{kind} in version "{version}" cannot be handled as a {wanted.kind}'
        raise errors.bad_request(f"{subject}: {error}") from error


def check_typed(kind: ResourceKind, value: dict[str, Any]) -> None:
    """Built-in kinds may leave out what they are, custom resources may not: 400."""
    if not kind.custom:
        return
    for field, name in (("kind", "Kind"), ("apiVersion", "apiVersion")):
        if not value.get(field):
            subject = f"the object provided is unrecognized (must be of type {kind.kind}): "
            raise errors.bad_request(f"{subject}Object '{name}' is missing in '{orjson.dumps(value).decode()}'")


def decode_patch(body: bytes) -> Any:
    """The JSON of a patch; 400 when it cannot be read."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise errors.bad_request("invalid JSON patch") from error
