"""Get and list, at the present or a stored revision, in pages, filtered by label selectors and field selectors.

A selector is parsed once, then it is a test of objects. The grammar of field selectors follows
``k8s.io/apimachinery/pkg/fields``.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import orjson

from gangctl.api.labelselector import LabelTest, SelectorError, label_test
from gangctl.api.objects import Key, object_at
from gangctl.sandbox import errors
from gangctl.sandbox.errors import StatusError
from gangctl.sandbox.kinds import ResourceKind
from gangctl.sandbox.objects import Object
from gangctl.sandbox.store import ObjectStore, Stored, etcd_order, in_version


@dataclass(frozen=True, slots=True)
class FieldTerm:
    """One term of a field selector."""

    path: str
    value: str
    equal: bool


@lru_cache(maxsize=256)
def parse_fields(text: str) -> tuple[FieldTerm, ...]:
    """The terms of a field selector; 400 when it cannot be read."""
    # Commas after a backslash do not separate.
    return tuple(_field_term(term, text) for term in re.split(r"(?<!\\),", text) if term)


def _field_term(term: str, whole: str) -> FieldTerm:
    match = re.match(r"(.*?)(!=|==|=)(.*)", term)
    if match is None:
        raise errors.bad_request(f"invalid selector: '{whole}'; can't understand '{term}'")
    value = re.sub(r"\\([\\,=])", r"\1", match[3])
    return FieldTerm(match[1], value, match[2] != "!=")


def _check_label(kind: ResourceKind, path: str) -> None:
    if path in {"metadata.name", "metadata.namespace"} or path in kind.field_labels:
        return
    if kind.qualified_name == "jobs.batch":
        raise errors.bad_request(f'field label "{path}" not supported for Job')
    if kind.custom or kind.field_labels:
        raise errors.bad_request(f"field label not supported: {path}")
    raise errors.bad_request(f'"{path}" is not a known field selector: only "metadata.name", "metadata.namespace"')


def field_value(obj: Object, path: str) -> str:
    """The value a field selector compares, "" for what is missing."""
    if path == "source":
        # ToSelectableFields of pkg/registry/core/event: new events have a controller instead.
        return str(object_at(obj, "source").get("component") or obj.get("reportingComponent") or "")
    value: Any = obj
    for segment in _PLACES.get(path, path).split("."):
        value = value.get(segment) if isinstance(value, dict) else None
    if value is None:
        return _MISSING.get(path, "")
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


# What the Go type says when the field is not written.
_MISSING: Final = {"spec.hostNetwork": "false", "spec.unschedulable": "false", "status.successful": "0"}
_PLACES: Final = {"status.successful": "status.succeeded"}
"""Fields that have another name in a selector."""


@dataclass(frozen=True, slots=True)
class Narrowing:
    """What a list or watch is narrowed to; ``everything`` skips the tests."""

    labels: LabelTest | None = None
    fields: tuple[FieldTerm, ...] = ()

    @property
    def everything(self) -> bool:
        """Whether nothing is left out."""
        return self.labels is None and not self.fields

    def matches(self, obj: Object) -> bool:
        """Whether ``obj``, in the version it was asked in, is selected."""
        if self.labels is not None and not self.labels(obj["metadata"].get("labels") or {}):
            return False
        return all((field_value(obj, term.path) == term.value) == term.equal for term in self.fields)


EVERYTHING: Final = Narrowing()


def selection(kind: ResourceKind, labels: str = "", fields: str = "") -> Narrowing:
    """The selection of ``labelSelector`` and ``fieldSelector``; 400 when one cannot be read or is not supported."""
    if not labels and not fields:
        return EVERYTHING
    terms = parse_fields(fields)
    for term in terms:
        _check_label(kind, term.path)
    try:
        return Narrowing(label_test(labels), terms)
    except SelectorError as error:
        raise errors.bad_request(str(error)) from error


_TOKEN_VERSION: Final = "meta.k8s.io/v1"  # noqa: S105 - a format's name
_NOW: Final = -1
"""In a continue token: the present revision, for the rest of a list whose own has expired."""


@dataclass(frozen=True, slots=True)
class ListQuery:
    """``metav1.ListOptions`` of a list, without the resourceVersionMatch."""

    labels: str = ""
    fields: str = ""
    limit: int = 0
    token: str = ""
    resource_version: str = ""


@dataclass(frozen=True, slots=True)
class WatchQuery:
    """``metav1.ListOptions`` of a watch."""

    labels: str = ""
    fields: str = ""
    resource_version: str = ""
    bookmarks: bool = False
    initial_events: bool = False


@dataclass(frozen=True, slots=True)
class ListResult:
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
    # isdigit() alone is true of digits of other scripts.
    if not text.isascii() or not text.isdigit():
        raise ValueError(f'strconv.ParseUint: parsing "{text}": invalid syntax')
    return int(text)


def get(store: ObjectStore, kind: ResourceKind, namespace: str, name: str) -> Stored:
    """One object; 404 without it."""
    stored = store.get(kind.storage, (namespace, name))
    if stored is None:
        raise errors.not_found(kind, name)
    return in_version(kind, stored)


def page(store: ObjectStore, kind: ResourceKind, namespace: str | None, query: ListQuery) -> ListResult:
    """A page of a list, at the present revision unless the token has another.

    400 for invalid selectors and tokens, 410 if the revision of the token has expired.
    """
    chosen = selection(kind, query.labels, query.fields)
    if query.token:
        revision, start = _read_token(query.token)
        revision = store.revision if revision == _NOW else revision
        try:
            items = store.items(kind.storage, namespace, revision)
        except StatusError as error:
            expired = errors.expired(errors.CONTINUE_EXPIRED_MESSAGE)
            expired.following = _token(_NOW, "/".join(filter(None, start)))
            raise expired from error
        rest = [stored for stored in items if etcd_order(_key(stored)) >= etcd_order(start)]
        return _cut(rest, revision, kind, query.limit, chosen)
    # "Whatever you have" comes from a cache that does not cut.
    limit = 0 if query.resource_version == "0" else query.limit
    return _cut(store.items(kind.storage, namespace), store.revision, kind, limit, chosen)


def _cut(items: list[Stored], revision: int, kind: ResourceKind, limit: int, chosen: Narrowing) -> ListResult:
    items = [in_version(kind, stored) for stored in items]
    if not chosen.everything:
        items = [stored for stored in items if chosen.matches(stored.obj)]
    if limit <= 0 or len(items) <= limit:
        return ListResult(items, revision)
    last = _key(items[limit - 1])
    # Nothing sorts between a name and the same name with a zero byte.
    token = _token(revision, "/".join(filter(None, last)) + "\x00")
    # The number of remaining items is known only if the store need not read them.
    remaining = len(items) - limit if chosen.everything else None
    return ListResult(items[:limit], revision, token, remaining)


def _key(stored: Stored) -> Key:
    metadata = stored.obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def _token(revision: int, start: str) -> str:
    value = {"v": _TOKEN_VERSION, "rv": revision, "start": start}
    return base64.urlsafe_b64encode(orjson.dumps(value)).rstrip(b"=").decode()


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
