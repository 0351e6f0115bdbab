"""Bytes on the wire to JSON data and back: media types, limits, YAML."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson
import yaml
from aiohttp import web

from gangctl.sandbox import errors
from gangctl.sandbox.kinds import ResourceKind

LIMIT: Final = 3 * 2**20
JSON: Final = "application/json"
YAML: Final = "application/yaml"
_MEDIA_TYPES: Final = (JSON, YAML, "application/vnd.kubernetes.protobuf")
_ANY: Final = frozenset({JSON, "application/*", "*/*"})
_TYPE_STRUCT: Final = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)


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


def decode(body: bytes, given: str, wanted: str) -> dict[str, Any]:
    """An object of a create or update; 400 when it is none, 415 for a format that is not read.

    ``given`` is the media type, ``wanted`` the kind that messages name.
    """
    subject = f"the object provided is unrecognized (must be of type {wanted}): "
    if given == YAML:
        try:
            value = yaml.load(body, _Loader)  # noqa: S506 -- a safe loader, without timestamps
        except yaml.YAMLError as error:
            raise errors.bad_request(f"{subject}{yaml_problem(error)} ({_shown(body)})") from error
    elif given == JSON:
        try:
            value = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            told = f"couldn't get version/kind; json parse error: {_json_problem(body)} ({_shown(body, text=True)})"
            raise errors.bad_request(subject + told) from error
    else:
        raise errors.unsupported_media_type(_MEDIA_TYPES)
    if not isinstance(value, dict):
        problem = f"json: cannot unmarshal {_go_name(value)} into Go value of type {_TYPE_STRUCT}"
        raise errors.bad_request(f"{subject}couldn't get version/kind; json parse error: {problem} ({_shown(body)})")
    return value


def check_typed(kind: ResourceKind, value: dict[str, Any], body: bytes) -> None:
    """Built-in kinds may leave out what they are, custom resources may not: 400."""
    if not kind.custom:
        return
    for field, name in (("kind", "Kind"), ("apiVersion", "apiVersion")):
        if not value.get(field):
            shown = body[:1024].decode("utf-8", "replace")
            subject = f"the object provided is unrecognized (must be of type {kind.kind}): "
            raise errors.bad_request(f"{subject}Object '{name}' is missing in '{shown}' ({_shown(body)})")


class _Pairs(dict[str, Any]):
    """A JSON object that remembers which keys came twice."""

    twice: tuple[str, ...] = ()


def duplicates(body: bytes) -> list[str]:
    """Paths of the fields that a JSON body, which can be read, has twice: the last one counts, the client is told."""
    found = False

    def pairs(items: list[tuple[str, Any]]) -> _Pairs:
        nonlocal found
        result = _Pairs(items)
        if len(result) < len(items):
            found = True
            keys = [key for key, _ in items]
            result.twice = tuple(key for at, key in enumerate(keys) if key in keys[:at])
        return result

    value = json.loads(body, object_pairs_hook=pairs)
    return list(_twice(value, "")) if found else []


def _twice(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, _Pairs):
        for key in value.twice:
            yield f"{path}{key}"
        for key, item in value.items():
            yield from _twice(item, f"{path}{key}.")
    elif isinstance(value, list):
        for at, item in enumerate(value):
            yield from _twice(item, f"{path.removesuffix('.')}[{at}].")


def decode_patch(body: bytes, *, applying: bool) -> Any:
    """The JSON of a patch, or the YAML of an apply; 400 when it cannot be read."""
    if not applying:
        try:
            return orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise errors.bad_request("invalid JSON patch") from error
    try:
        return yaml.load(body, _Loader)  # noqa: S506 -- a safe loader, without timestamps
    except yaml.YAMLError as error:
        raise errors.bad_request(f"error encoding patch: {yaml_problem(error)}") from error


class _Loader(yaml.CSafeLoader):
    """YAML as JSON: a date stays the text that it was."""


_Loader.yaml_implicit_resolvers = {
    letter: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for letter, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def yaml_problem(error: yaml.YAMLError) -> str:
    """What is wrong and where, in one line."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return "yaml: cannot be read"
    # Go's library counts from zero, except in what its scanner says.
    line = error.problem_mark.line + (1 if isinstance(error, yaml.scanner.ScannerError) else 0)
    return f"yaml: line {line}: {error.problem}" if line else f"yaml: {error.problem}"


def _json_problem(body: bytes) -> str:
    if not body.strip():
        return "unexpected end of JSON input"
    try:
        orjson.loads(body)
    except orjson.JSONDecodeError as error:
        if error.pos >= len(error.doc.rstrip()) or "end of data" in error.msg:
            return "unexpected end of JSON input"
        return f"invalid character {error.doc[error.pos]!r} in JSON input"
    return ""


def _shown(body: bytes, *, text: bool = False) -> str:
    if not body:
        return "<empty>"
    return body[:1024].decode("utf-8", "replace") if text else body[:1024].hex()


def _go_name(value: Any) -> str:
    names: Mapping[type, str] = {list: "array", str: "string", bool: "bool", int: "number", float: "number"}
    return names.get(type(value), "null")


def accepted(request: web.BaseRequest) -> str:
    """The media type to answer in, JSON or YAML; 406 when the client takes neither."""
    given = [part.partition(";")[0].strip() for part in request.headers.get("Accept", "*/*").split(",")]
    if not _ANY.isdisjoint(given) or given == [""]:
        return JSON
    if YAML in given:
        return YAML
    raise errors.not_acceptable(_MEDIA_TYPES)


def metadata_only(request: web.BaseRequest) -> bool:
    """Whether the client asks for ``PartialObjectMetadata`` in the first place."""
    return "as=PartialObjectMetadata" in request.headers.get("Accept", "").partition(",")[0]


def as_yaml(body: bytes) -> bytes:
    """JSON as YAML."""
    return yaml.safe_dump(orjson.loads(body), sort_keys=True).encode()
