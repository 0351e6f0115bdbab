"""Responses as bytes: objects, lists, Status."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web
from multidict import CIMultiDict

from gangctl.sandbox import payloads
from gangctl.sandbox.errors import StatusError
from gangctl.sandbox.kinds import ResourceKind
from gangctl.sandbox.objects import Object
from gangctl.sandbox.reads import Page
from gangctl.sandbox.store import Stored


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP response before it is sent."""

    status: int
    body: bytes
    content_type: str = payloads.JSON
    warnings: Sequence[str] = ()
    headers: dict[str, str] = field(default_factory=dict)

    def response(self) -> web.Response:
        """The response as it is sent."""
        headers: CIMultiDict[str] = CIMultiDict(self.headers)
        headers["Cache-Control"] = "no-cache, private"
        for text in dict.fromkeys(self.warnings):
            escaped = text.replace("\\", "\\\\").replace('"', '\\"')
            headers.add("Warning", f'299 - "{escaped}"')
        headers["Content-Type"] = self.content_type
        return web.Response(status=self.status, body=self.body, headers=headers)


def of_json(value: Any, status: int = 200, *, warnings: Sequence[str] = ()) -> Answer:
    """Any JSON."""
    return Answer(status, orjson.dumps(value), warnings=warnings)


def of_stored(stored: Stored, status: int = 200, *, warnings: Sequence[str] = ()) -> Answer:
    """An object."""
    return Answer(status, stored.json, warnings=warnings)


def of_error(error: StatusError, *, warnings: Sequence[str] = ()) -> Answer:
    """A failure."""
    headers = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
    return Answer(error.code, orjson.dumps(error.body()), warnings=warnings, headers=headers)


def of_text(text: str, status: int = 200) -> Answer:
    """Plain text."""
    return Answer(status, text.encode(), "text/plain; charset=utf-8")


def of_page(kind: ResourceKind, page: Page, *, warnings: Sequence[str] = ()) -> Answer:
    """A list; items of built-in kinds have no apiVersion and kind."""
    head = orjson.dumps({"kind": kind.list_kind, "apiVersion": kind.api_version, "metadata": list_metadata(page)})
    items = [stored.json if kind.custom else stored.bare_json for stored in page.items]
    return Answer(200, head[:-1] + b',"items":[' + b",".join(items) + b"]}", warnings=warnings)


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
