"""The target of a request, its query parameters and option bodies: ``ListOptions``, ``CreateOptions`` and so on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from gangctl.sandbox import errors
from gangctl.sandbox.caller import DeleteOptions, WriteOptions
from gangctl.sandbox.kinds import ResourceKind
from gangctl.sandbox.objects import Object
from gangctl.sandbox.reads import ListQuery
from gangctl.sandbox.registry import Registry
from gangctl.sandbox.watches import WatchQuery

_COLLECTION: Final[Mapping[str, str]] = {"GET": "list", "POST": "create"}
_OBJECT: Final[Mapping[str, str]] = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_SUBRESOURCE: Final[Mapping[str, Mapping[str, str]]] = {
    "status": {"GET": "get", "PUT": "update", "PATCH": "patch"},
    "finalize": {"PUT": "update"},
    "eviction": {"POST": "create"},
}
_NAMESPACE_SUBRESOURCES: Final = frozenset({"status", "finalize"})


@dataclass(frozen=True, slots=True)
class Target:
    """A resource request; ``namespace`` is None for all of them."""

    kind: ResourceKind
    verb: str
    namespace: str | None
    name: str = ""
    subresource: str = ""


def find(registry: Registry, method: str, path: str) -> Target | None:
    """The target of a path under ``/api`` or ``/apis``; None if it is no resource path.

    StatusError 404 for what a known version does not serve, 405 for a verb that the resource does not have.
    """
    segments = [unquote(segment) for segment in path.strip("/").split("/")]
    if segments[0] == "api" and len(segments) > 2:  # noqa: PLR2004 -- api, version, resource
        return _resource(registry, method, "", segments[1], segments[2:])
    if segments[0] == "apis" and len(segments) > 3:  # noqa: PLR2004 -- apis, group, version, resource
        return _resource(registry, method, segments[1], segments[2], segments[3:])
    return None


def _resource(registry: Registry, method: str, group: str, version: str, rest: list[str]) -> Target:
    namespace: str | None = None
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in _NAMESPACE_SUBRESOURCES:  # noqa: PLR2004
        namespace, rest = rest[1], rest[2:]
    kind = registry.find(group, version, rest[0])
    if kind is None or len(rest) > 3 or "" in rest:  # noqa: PLR2004 -- resource, name, subresource
        raise errors.no_resource()
    if not kind.namespaced and namespace is not None:
        raise errors.no_resource()
    name, subresource = (*rest[1:], "", "")[:2]
    if kind.namespaced and namespace is None and name:
        raise errors.no_resource()
    if subresource and subresource not in kind.subresources:
        raise errors.no_resource()
    verb = _verb(kind, method, name, subresource)
    if kind.namespaced and namespace is None and verb != "list":
        raise errors.method_not_allowed()
    if not kind.namespaced:
        namespace = ""
    return Target(kind, verb, namespace, name, subresource)


def _verb(kind: ResourceKind, method: str, name: str, subresource: str) -> str:
    if subresource:
        verb = _SUBRESOURCE.get(subresource, {}).get(method)
    else:
        verb = (_OBJECT if name else _COLLECTION).get(method)
        if verb is not None and verb not in kind.verbs:
            verb = None
    if verb is None:
        raise errors.method_not_allowed()
    return verb


Query = Mapping[str, str]


def flag(query: Query, name: str) -> bool:
    """A boolean as Go's conversion reads it: there, and not 0 or false."""
    value = query.get(name)
    return value is not None and value != "0" and value.lower() != "false"


def number(query: Query, name: str) -> int | None:
    """An integer; 400 when it is none."""
    value = query.get(name)
    if value is None or value == "":
        return None
    try:
        return int(value)
    except ValueError:
        raise errors.bad_request(f'strconv.ParseInt: parsing "{value}": invalid syntax') from None


def list_query(query: Query) -> ListQuery:
    """The options of a list."""
    return ListQuery(
        labels=query.get("labelSelector", ""),
        fields=query.get("fieldSelector", ""),
        limit=number(query, "limit") or 0,
        token=query.get("continue", ""),
        resource_version=query.get("resourceVersion", ""),
    )


def watch_query(query: Query) -> WatchQuery:
    """The options of a watch."""
    return WatchQuery(
        labels=query.get("labelSelector", ""),
        fields=query.get("fieldSelector", ""),
        resource_version=query.get("resourceVersion", ""),
        bookmarks=flag(query, "allowWatchBookmarks"),
        initial_events=flag(query, "sendInitialEvents"),
    )


def write_options(query: Query) -> WriteOptions:
    """The options of a create, update or patch."""
    return WriteOptions(
        dry_run=bool(query.get("dryRun")),
        field_manager=query.get("fieldManager", ""),
        # Apply decodes strictly by itself; elsewhere the default warns.
        field_validation=query.get("fieldValidation") or "Warn",
        force=flag(query, "force"),
    )


def delete_options(query: Query, body: Object | None) -> DeleteOptions:
    """``DeleteOptions`` from the body, which hides the query, or from the query; 400 when wrong."""
    if body is None:
        body = _from_query(query)
    preconditions = body.get("preconditions") or {}
    return DeleteOptions(
        propagation=body.get("propagationPolicy"),
        grace_seconds=body.get("gracePeriodSeconds"),
        uid=preconditions.get("uid"),
        resource_version=preconditions.get("resourceVersion"),
        dry_run=bool(body.get("dryRun")),
    )


def _from_query(query: Query) -> Object:
    found: Object = {}
    if query.get("dryRun"):
        found["dryRun"] = [query["dryRun"]]
    if query.get("propagationPolicy"):
        found["propagationPolicy"] = query["propagationPolicy"]
    grace = number(query, "gracePeriodSeconds")
    if grace is not None:
        found["gracePeriodSeconds"] = grace
    return found
