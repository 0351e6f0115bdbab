"""Bytes on the wire to JSON data and back: media types, limits, checks of bodies, and responses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson
from aiohttp import web
from multidict import CIMultiDict

from gangctl.sandbox import errors, protobuf
from gangctl.sandbox.errors import StatusError
from gangctl.sandbox.kinds import ResourceKind
from gangctl.sandbox.objects import Object, keep
from gangctl.sandbox.reads import Page

JSON: Final = "application/json"


def media_type(request: web.BaseRequest) -> str:
    """``Content-Type`` without parameters; JSON when there is none."""
    return request.headers.get("Content-Type", JSON).partition(";")[0].strip().lower() or JSON


def decode(body: bytes, given: str, wanted: ResourceKind, minor: str) -> dict[str, Any]:
    """An object of a create or update; 400 when it is none, 415 for a format that is not read.

    ``given`` is the media type. Custom resources have no protobuf.
    """
    if given == protobuf.MEDIA_TYPE and not wanted.custom:
        try:
            return protobuf.decode(body, minor, (wanted.api_version, wanted.kind))
        except ValueError as error:
            message = f"the object provided is unrecognized (must be of type {wanted.kind}): {error}"
            raise errors.bad_request(message) from error
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


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP response before it is sent."""

    status: int
    body: bytes
    content_type: str = JSON
    warnings: Sequence[str] = ()

    def response(self) -> web.Response:
        """The response as it is sent."""
        headers = CIMultiDict({"Cache-Control": "no-cache, private", "Content-Type": self.content_type})
        for text in dict.fromkeys(self.warnings):
            escaped = text.replace("\\", "\\\\").replace('"', '\\"')
            headers.add("Warning", f'299 - "{escaped}"')
        return web.Response(status=self.status, body=self.body, headers=headers)


def of_json(value: Any, status: int = 200, *, warnings: Sequence[str] = ()) -> Answer:
    """Any JSON."""
    return Answer(status, orjson.dumps(value), warnings=warnings)


def of_error(error: StatusError, *, warnings: Sequence[str] = ()) -> Answer:
    """A failure."""
    return Answer(error.code, orjson.dumps(error.body()), warnings=warnings)


def of_text(text: str, status: int = 200) -> Answer:
    """Plain text."""
    return Answer(status, text.encode(), "text/plain; charset=utf-8")


def of_page(kind: ResourceKind, page: Page) -> Answer:
    """A list; items of built-in kinds have no apiVersion and kind."""
    head = orjson.dumps({"kind": f"{kind.kind}List", "apiVersion": kind.api_version, "metadata": list_metadata(page)})
    items = [stored.json if kind.custom else stored.bare_json for stored in page.items]
    return Answer(200, head[:-1] + b',"items":[' + b",".join(items) + b"]}")


def list_metadata(page: Page) -> Object:
    """``metav1.ListMeta``."""
    metadata: Object = {"resourceVersion": str(page.revision)}
    if page.token:
        metadata["continue"] = page.token
    if page.remaining is not None:
        metadata["remainingItemCount"] = page.remaining
    return metadata


def of_success(status: int) -> Object:
    """The Status of a successful request without another result."""
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": status}


_OWNED_BY_SERVER: Final = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink")


def settle_type(kind: ResourceKind, body: Object) -> None:
    """Fill in ``apiVersion`` and ``kind`` where they are missing; 400 when they are of something else."""
    api_version = body.get("apiVersion") or kind.api_version
    name = body.get("kind") or kind.kind
    if not isinstance(api_version, str) or not isinstance(name, str):
        raise errors.bad_request(f"the object provided is unrecognized (must be of type {kind.kind})")
    if (api_version, name) != (kind.api_version, kind.kind):
        version = api_version.rpartition("/")[2]
        raise errors.bad_request(f'{name} in version "{version}" cannot be handled as a {kind.kind}')
    body["apiVersion"], body["kind"] = api_version, name
    metadata = body.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise errors.bad_request(
            f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: metadata is no object'
        )
    # Go leaves empty values out; the types of others are checked when the fields are.
    body["metadata"] = {field: value for field, value in metadata.items() if value}


def settle_place(kind: ResourceKind, namespace: str, body: Object, name: str | None = None) -> None:
    """Fill in the namespace of the URL, and check it and, for an update, the name; 400 when they differ."""
    metadata = body["metadata"]
    if not kind.namespaced:
        if metadata.pop("namespace", ""):
            raise errors.bad_request(_OTHER_NAMESPACE)
    elif metadata.setdefault("namespace", namespace) != namespace:
        if metadata["namespace"]:
            raise errors.bad_request(_OTHER_NAMESPACE)
        metadata["namespace"] = namespace
    if name is None:
        return
    given = metadata.get("name", "")
    if not given:
        raise errors.bad_request(
            f"the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )
    if given != name:
        raise errors.bad_request(f"the name of the object ({given}) does not match the name on the URL ({name})")


_OTHER_NAMESPACE: Final = "the namespace of the provided object does not match the namespace sent on the request"


def wipe_system_fields(metadata: Object) -> None:
    """Remove fields that a client cannot set on create."""
    for field in (*_OWNED_BY_SERVER, "generation"):
        metadata.pop(field, None)


def keep_system_fields(metadata: Object, old: Object) -> None:
    """Copy fields from the stored object that an update cannot change."""
    for field in (*_OWNED_BY_SERVER, "generation", "resourceVersion"):
        keep(metadata, old, field)
