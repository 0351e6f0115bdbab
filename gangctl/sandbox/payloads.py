"""Paths, parameters and bytes on the wire to data and back: media types, limits, checks of bodies, and responses."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

import orjson
from aiohttp import web
from multidict import CIMultiDict

from gangctl.api.objects import keep
from gangctl.apiserver.metadata import Causes
from gangctl.sandbox import errors, protobuf
from gangctl.sandbox.errors import StatusError
from gangctl.sandbox.kinds import ResourceKind
from gangctl.sandbox.objects import Object
from gangctl.sandbox.reads import ListQuery, ListResult, WatchQuery
from gangctl.sandbox.registry import Registry
from gangctl.sandbox.requests import DeleteOptions, WriteOptions

_COLLECTION: Final[Mapping[str, str]] = {"GET": "list", "POST": "create"}
_OBJECT: Final[Mapping[str, str]] = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_SUBRESOURCE: Final[Mapping[str, Mapping[str, str]]] = {
    "status": {"GET": "get", "PUT": "update", "PATCH": "patch"},
    "finalize": {"PUT": "update"},
    "eviction": {"POST": "create"},
}
# namespaceSubresources of RequestInfoFactory: after a namespace's name these are no resources in it.
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


# FieldManagerMaxLength of apimachinery's validation.
_MANAGER_BYTES: Final = 128
_VALIDATIONS: Final = ("", "Ignore", "Strict", "Warn")
_PROPAGATIONS: Final = ("Foreground", "Background", "Orphan")


def options_kind(kind: str) -> ResourceKind:
    """The kind of options, as an error names it."""
    return ResourceKind("meta.k8s.io", "v1", kind.lower(), kind)


def write_options(query: Query, kind: str, *, forces: bool = True) -> WriteOptions:
    """The options of a create, update or patch; 422 when wrong. ``forces``: whether the request may have ``force``."""
    manager, validation, causes = query.get("fieldManager", ""), query.get("fieldValidation", ""), Causes()
    if not forces and "force" in query:
        causes.forbidden("force", "may not be specified for non-apply patch")
    if len(manager.encode()) > _MANAGER_BYTES:
        causes.too_long("fieldManager", _MANAGER_BYTES)
    for place, letter in enumerate(manager):
        if not letter.isprintable():
            causes.invalid("fieldManager", manager, f"invalid character U+{ord(letter):04X} (at position {place})")
    dry_run = [query["dryRun"]] if query.get("dryRun") else []
    _check_dry_run(dry_run, causes)
    if validation not in _VALIDATIONS:
        causes.unsupported("fieldValidation", validation, _VALIDATIONS)
    if causes:
        raise errors.invalid(options_kind(kind), "", causes)
    return WriteOptions(
        dry_run=bool(dry_run),
        field_manager=manager,
        # Apply decodes strictly by itself; elsewhere the default warns.
        field_validation=validation or "Warn",
        force=flag(query, "force"),
    )


def _check_dry_run(stages: list[str], causes: Causes) -> None:
    if any(stage != "All" for stage in stages):
        causes.unsupported("dryRun", stages, ("All",))


def delete_options(query: Query, body: Object | None) -> DeleteOptions:
    """``DeleteOptions`` from the body, which hides the query, or from the query; 422 when wrong."""
    if body is None:
        body = _from_query(query)
    propagation, orphan, causes = body.get("propagationPolicy"), body.get("orphanDependents"), Causes()
    if orphan is not None and propagation is not None:
        why = "orphanDependents and deletionPropagation cannot be both set"
        causes.invalid("propagationPolicy", propagation, why)
    if propagation not in {None, *_PROPAGATIONS}:
        causes.unsupported("propagationPolicy", propagation, (*_PROPAGATIONS, "nil"))
    _check_dry_run(body.get("dryRun") or [], causes)
    if causes:
        raise errors.invalid(options_kind("DeleteOptions"), "", causes)
    # The field of releases before propagationPolicy, which the API server still reads.
    if orphan is not None:
        propagation = "Orphan" if orphan else "Background"
    preconditions = body.get("preconditions") or {}
    return DeleteOptions(
        propagation=propagation,
        grace_seconds=body.get("gracePeriodSeconds"),
        uid=preconditions.get("uid"),
        resource_version=preconditions.get("resourceVersion"),
        dry_run=bool(body.get("dryRun")),
    )


def _from_query(query: Query) -> Object:
    options: Object = {}
    if query.get("dryRun"):
        options["dryRun"] = [query["dryRun"]]
    if query.get("propagationPolicy"):
        options["propagationPolicy"] = query["propagationPolicy"]
    grace = number(query, "gracePeriodSeconds")
    if grace is not None:
        options["gracePeriodSeconds"] = grace
    return options


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


# unicode.IsControl of Go.
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An HTTP response before it is sent."""

    status: int
    body: bytes
    content_type: str = JSON
    warnings: Sequence[str] = ()

    def response(self) -> web.Response:
        """The response as it is sent."""
        headers = CIMultiDict({"Cache-Control": "no-cache, private", "Content-Type": self.content_type})
        # The API server sends each text once, and none with control characters, which a header cannot carry.
        for text in dict.fromkeys(self.warnings):
            if not text or _CONTROL.search(text):
                continue
            escaped = text.replace("\\", "\\\\").replace('"', '\\"')
            headers.add("Warning", f'299 - "{escaped}"')
        return web.Response(status=self.status, body=self.body, headers=headers)


def of_json(value: Any, status: int = 200, *, warnings: Sequence[str] = ()) -> HttpAnswer:
    """Any JSON."""
    return HttpAnswer(status, orjson.dumps(value), warnings=warnings)


def of_error(error: StatusError, *, warnings: Sequence[str] = ()) -> HttpAnswer:
    """A failure."""
    return HttpAnswer(error.code, orjson.dumps(error.body()), warnings=warnings)


def of_text(text: str, status: int = 200) -> HttpAnswer:
    """Plain text."""
    return HttpAnswer(status, text.encode(), "text/plain; charset=utf-8")


def of_page(kind: ResourceKind, page: ListResult) -> HttpAnswer:
    """A list; items of built-in kinds have no apiVersion and kind."""
    head = orjson.dumps({"kind": f"{kind.kind}List", "apiVersion": kind.api_version, "metadata": list_metadata(page)})
    # An object is encoded once for all lists, so that a list is joined from bytes.
    items = [stored.json if kind.custom else stored.bare_json for stored in page.items]
    return HttpAnswer(200, head[:-1] + b',"items":[' + b",".join(items) + b"]}")


def list_metadata(page: ListResult) -> Object:
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
