"""Get and list: at the present or a stored revision, filtered, in pages."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import Final

import orjson

from gangctl.api.objects import Key
from gangctl.sandbox import errors
from gangctl.sandbox.errors import StatusError
from gangctl.sandbox.kinds import ResourceKind
from gangctl.sandbox.objects import Object
from gangctl.sandbox.selectors import Selection, selection
from gangctl.sandbox.store import Store, Stored, in_version

_TOKEN_VERSION: Final = "meta.k8s.io/v1"  # noqa: S105 - a format's name


@dataclass(frozen=True, slots=True)
class ListQuery:
    """``metav1.ListOptions`` of a list, without the resourceVersionMatch."""

    labels: str = ""
    fields: str = ""
    limit: int = 0
    token: str = ""
    resource_version: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """Result of a list: frozen objects, its revision, and the continue token."""

    items: list[Stored]
    revision: int
    token: str = ""
    remaining: int | None = None


@dataclass(frozen=True, slots=True)
class ObjectList:
    """A list as callers of :class:`Api` get it: copies, and its ``resource_version``."""

    items: list[Object]
    resource_version: str


def parse_revision(text: str) -> int:
    """A resourceVersion; "" is 0. ValueError, with the server's words, when it is none."""
    if not text:
        return 0
    if not text.isascii() or not text.isdigit():
        raise ValueError(f'strconv.ParseUint: parsing "{text}": invalid syntax')
    return int(text)


def get(store: Store, kind: ResourceKind, namespace: str, name: str) -> Stored:
    """One object; 404 without it."""
    stored = store.get(kind.storage, (namespace, name))
    if stored is None:
        raise errors.not_found(kind, name)
    return in_version(kind, stored)


def page(store: Store, kind: ResourceKind, namespace: str | None, query: ListQuery) -> Page:
    """A page of a list, at the present revision unless the token has another.

    400 for invalid selectors and tokens, 410 if the revision of the token has expired.
    """
    chosen = selection(kind, query.labels, query.fields)
    if query.token:
        return _next_page(store, kind, namespace, query, chosen)
    # "Whatever you have" comes from a cache that does not cut.
    limit = 0 if query.resource_version == "0" else query.limit
    return _cut(store.items(kind.storage, namespace), store.revision, kind, limit, chosen)


def _next_page(store: Store, kind: ResourceKind, namespace: str | None, query: ListQuery, chosen: Selection) -> Page:
    revision, start = _read_token(query.token)
    try:
        items = store.items(kind.storage, namespace, revision)
    except StatusError as error:
        raise errors.expired(errors.CONTINUE_EXPIRED_MESSAGE) from error
    rest = [stored for stored in items if _key(stored) >= start]
    return _cut(rest, revision, kind, query.limit, chosen)


def _cut(items: list[Stored], revision: int, kind: ResourceKind, limit: int, chosen: Selection) -> Page:
    items = [in_version(kind, stored) for stored in items]
    if not chosen.everything:
        items = [stored for stored in items if chosen.matches(stored.obj)]
    if limit <= 0 or len(items) <= limit:
        return Page(items, revision)
    last = _key(items[limit - 1])
    # Nothing sorts between a name and the same name with a zero byte.
    value = {"v": _TOKEN_VERSION, "rv": revision, "start": "/".join(filter(None, last)) + "\x00"}
    token = base64.urlsafe_b64encode(orjson.dumps(value)).rstrip(b"=").decode()
    # The number of remaining items is known only if the store need not read them.
    remaining = len(items) - limit if chosen.everything else None
    return Page(items[:limit], revision, token, remaining)


def _key(stored: Stored) -> Key:
    metadata = stored.obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def _read_token(token: str) -> tuple[int, Key]:
    try:
        value = orjson.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        revision, start = int(value["rv"]), str(value["start"])
    except (binascii.Error, ValueError, KeyError, TypeError) as error:
        message = (
            "invalid continue token: continue key is not valid: invalid character 'i' looking for beginning of value"
        )
        raise errors.bad_request(message) from error
    namespace, _, name = start.rpartition("/")
    return revision, (namespace, name)
