"""The HTTP layer: authentication, routing, and the verbs, from an :class:`Exchange` to an :class:`HttpAnswer`.

Access and token reviews are not stored; every user may do everything here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from aiohttp import web

from gangctl.api.objects import object_at, text_at
from gangctl.apiserver.fields import DecodeError, Decoder, fields_of
from gangctl.sandbox import deletion, discovery, errors, payloads, reads, watches, writes
from gangctl.sandbox.api import Api
from gangctl.sandbox.deletion import Deletion
from gangctl.sandbox.errors import StatusError
from gangctl.sandbox.kinds import CREATE_ONLY, ResourceKind
from gangctl.sandbox.objects import Object, metadata, now
from gangctl.sandbox.patches import MEDIA_TYPES
from gangctl.sandbox.payloads import HttpAnswer, Target, find
from gangctl.sandbox.registry import Backend
from gangctl.sandbox.requests import Caller, DeleteOptions, WriteOptions
from gangctl.sandbox.store import Stored
from gangctl.sandbox.tables import Tables, tables_for
from gangctl.sandbox.watches import StreamOptions, Watch, WatchStream
from gangctl.sandbox.writes import Write

AUTHENTICATED = "system:authenticated"


def answer(kind: ResourceKind, body: Object, caller: Caller, find_user: Callable[[str], Caller | None]) -> Object:
    """``body`` with a status; ``find_user`` returns the user of a token."""
    body["apiVersion"], body["kind"] = kind.api_version, kind.kind
    metadata(body)
    match kind.kind:
        case "SelfSubjectReview":
            body["metadata"]["creationTimestamp"] = now()
            body["status"] = {"userInfo": user_info(caller)}
        case "TokenReview":
            token = text_at(object_at(body, "spec"), "token")
            user = find_user(token)
            body["status"] = (
                {"user": {}, "error": "invalid bearer token"}
                if user is None
                else {"authenticated": True, "user": user_info(user)}
            )
        case _:
            body["status"] = {"allowed": True}
    return body


def user_info(caller: Caller) -> Object:
    """``authentication.k8s.io/v1`` UserInfo."""
    return {"username": caller.name, "groups": [*caller.groups, AUTHENTICATED]}


FindUser = Callable[[str], Caller | None]
_EVICTION: Final = ResourceKind("policy", "v1", "evictions", "Eviction")
_DELETE_OPTIONS: Final = ResourceKind("", "v1", "deleteoptions", "DeleteOptions")
_UNSTORED: Final = {_EVICTION: "policy.v1.Eviction", _DELETE_OPTIONS: "meta.v1.DeleteOptions"}
"""The definitions of kinds that are only read."""
_OK: Final = 200
_CREATED: Final = 201


@dataclass(slots=True)
class Exchange:
    """One request for a resource; ``body`` is read already, ``warnings`` are sent with the answer."""

    request: web.BaseRequest
    backend: Backend
    target: Target
    caller: Caller
    body: bytes
    warnings: list[str] = field(default_factory=list)

    @property
    def query(self) -> Mapping[str, str]:
        """Its query parameters."""
        return self.request.query

    @property
    def namespace(self) -> str:
        """Where the object is; "" for what has no namespace."""
        return self.target.namespace or ""

    def decode(self, kind: ResourceKind) -> Object:
        """The body, as an object of this kind."""
        minor = self.backend.registry.minor
        body = payloads.decode(self.body, payloads.media_type(self.request), kind, minor)
        # Kinds that are stored are decoded by their rules when they are written; these never are.
        if (definition := _UNSTORED.get(kind)) is not None:
            try:
                Decoder(fields_of(minor), kind.kind, kind.version, definition).decode(body)
            except DecodeError as error:
                raise errors.bad_request(str(error)) from error
        return body

    def write(self, options: WriteOptions) -> Write:
        """The requested write."""
        target = self.target
        return Write(
            self.backend,
            target.kind,
            self.namespace,
            self.caller,
            options,
            self.warnings,
            target.name,
            target.subresource,
        )

    def deletion(self, options: DeleteOptions) -> Deletion:
        """The requested deletion."""
        target = self.target
        return Deletion(self.backend, target.kind, self.namespace, self.caller, options, self.warnings, target.name)


class Verbs:
    """Handlers of the verbs."""

    def __init__(self, api: Api, find_user: FindUser) -> None:
        """``find_user`` returns the user of a token."""
        self._api = api
        self._find_user = find_user
        self._verbs: Mapping[str, Callable[[Exchange], Awaitable[HttpAnswer]]] = {
            "get": self._get,
            "list": self._list,
            "create": self._create,
            "update": self._update,
            "patch": self._patch,
            "delete": self._delete,
        }

    async def perform(self, exchange: Exchange) -> HttpAnswer:
        """Execute the request; StatusError if that fails."""
        return await self._verbs[exchange.target.verb](exchange)

    def _tables(self, exchange: Exchange) -> Tables | None:
        return tables_for(self._api.store, self._api.registry.minor, exchange.target.kind, exchange.request)

    def _object(self, exchange: Exchange, stored: Stored, status: int = _OK) -> HttpAnswer:
        tables = self._tables(exchange)
        if tables is not None:
            return payloads.of_json(tables.of_one(stored), status, warnings=exchange.warnings)
        return HttpAnswer(status, stored.json, warnings=exchange.warnings)

    async def _get(self, exchange: Exchange) -> HttpAnswer:
        target, store = exchange.target, self._api.store
        return self._object(exchange, reads.get(store, target.kind, exchange.namespace, target.name))

    async def _list(self, exchange: Exchange) -> HttpAnswer:
        target, store = exchange.target, self._api.store
        query = payloads.list_query(exchange.query)
        page = reads.page(store, target.kind, target.namespace, query)
        tables = self._tables(exchange)
        if tables is not None:
            return payloads.of_json(tables.of(page.items, payloads.list_metadata(page)))
        return payloads.of_page(target.kind, page)

    async def _create(self, exchange: Exchange) -> HttpAnswer:
        target, query = exchange.target, exchange.query
        options = payloads.write_options(query, "CreateOptions")
        body = exchange.decode(_EVICTION if target.subresource else target.kind)
        payloads.check_typed(target.kind, body)
        if target.kind.verbs == CREATE_ONLY:
            reviewed = answer(target.kind, body, exchange.caller, self._find_user)
            return payloads.of_json(reviewed, _CREATED)
        if target.subresource == "eviction":
            if object_at(body, "metadata").get("name") != target.name:
                raise errors.bad_request("name in URL does not match name in Eviction object")
            deletes = payloads.delete_options(query, body.get("deleteOptions") or {})
            # propagateDryRun of the API server: the request's dryRun is the deletion's, too.
            dry_run = deletes.dry_run or options.dry_run
            await deletion.evict(exchange.deletion(replace(deletes, dry_run=dry_run)))
            return payloads.of_json(payloads.of_success(_CREATED), _CREATED)
        stored = await writes.create(exchange.write(options), body)
        return self._object(exchange, stored, _CREATED)

    async def _update(self, exchange: Exchange) -> HttpAnswer:
        options = payloads.write_options(exchange.query, "UpdateOptions")
        body = exchange.decode(exchange.target.kind)
        payloads.check_typed(exchange.target.kind, body)
        stored, created = await writes.update(exchange.write(options), body)
        return self._object(exchange, stored, _CREATED if created else _OK)

    async def _patch(self, exchange: Exchange) -> HttpAnswer:
        patch_type = MEDIA_TYPES.get(payloads.media_type(exchange.request))
        if patch_type is None:
            raise StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
        options = payloads.write_options(exchange.query, "PatchOptions", forces=patch_type == "apply")
        patch = payloads.decode_patch(exchange.body)
        stored, created = await self._api.patch_stored(exchange.write(options), patch, patch_type)
        return self._object(exchange, stored, _CREATED if created else _OK)

    async def _delete(self, exchange: Exchange) -> HttpAnswer:
        body = exchange.decode(_DELETE_OPTIONS) if exchange.body.strip() else None
        deleted = await deletion.delete(exchange.deletion(payloads.delete_options(exchange.query, body)))
        return payloads.of_json(deletion.answer(exchange.target.kind, deleted), warnings=exchange.warnings)


# defaultBookmarkFrequency of the API server's watch cache.
BOOKMARK_SECONDS: Final = 60.0
_HEALTH: Final = frozenset({"/healthz", "/livez", "/readyz"})
_GONE: Final = 410
StartStream = Callable[[web.BaseRequest, Watch, StreamOptions], WatchStream]


class Front:
    """Answers requests for an :class:`Api`; :meth:`handle` is the handler of every path."""

    def __init__(self, api: Api, find_user: FindUser) -> None:
        """``find_user`` returns the user of a token."""
        self._api = api
        self._find_user = find_user
        self._verbs = Verbs(api, find_user)
        self._watches: set[Watch] = set()
        self.bookmark_seconds = BOOKMARK_SECONDS

    def end_watches(self) -> None:
        """End every watch, as at a shutdown."""
        for watch in tuple(self._watches):
            watch.end()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        caller = self._caller(request)
        try:
            # These paths and the version need no token (ClusterRole system:public-info-viewer).
            if request.path in _HEALTH:
                return payloads.of_text("ok").response()
            if request.path == "/version" and request.method == "GET":
                return payloads.of_json(discovery.version(self._api.registry.minor)).response()
            if caller is None:
                return payloads.of_error(StatusError(401, "Unauthorized", "Unauthorized")).response()
            target = find(self._api.registry, request.method, request.path)
            if target is None:
                return self._discover(request).response()
            return await self.exchange(request, caller, target)
        except StatusError as error:
            return payloads.of_error(error).response()

    def _caller(self, request: web.BaseRequest) -> Caller | None:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        caller = self._find_user(token.strip()) if scheme.lower() == "bearer" else None
        if caller is None:
            return None
        # Its first part is the field manager of writes that name none.
        return replace(caller, user_agent=request.headers.get("User-Agent", ""))

    async def exchange(self, request: web.BaseRequest, caller: Caller, target: Target) -> web.StreamResponse:
        """Answer a request for a resource; StatusError if that fails before there are warnings."""
        if target.verb == "list" and payloads.flag(request.query, "watch"):
            return await self.watch(request, target)
        exchange = Exchange(request, self._api.backend, target, caller, await request.read())
        try:
            return (await self._verbs.perform(exchange)).response()
        # Here and not in handle(): the API server sends warnings with a refusal, too.
        except StatusError as error:
            return payloads.of_error(error, warnings=exchange.warnings).response()

    async def watch(
        self, request: web.BaseRequest, target: Target, start: StartStream = WatchStream
    ) -> web.StreamResponse:
        """Answer a watch to its end; ``start`` makes its stream."""
        query = payloads.watch_query(request.query)
        seconds = payloads.number(request.query, "timeoutSeconds")
        try:
            watch = Watch(self._api.store, target.kind, target.namespace, query)
        except StatusError as error:
            # The API server answers 200 to a watch from an expired revision, and sends the 410 as an event.
            if error.code != _GONE:
                raise
            return await watches.refuse(request, error)
        options = watches.StreamOptions(
            seconds=float(seconds) if seconds else None,
            bookmark_seconds=self.bookmark_seconds if query.bookmarks else None,
            tables=tables_for(self._api.store, self._api.registry.minor, target.kind, request),
        )
        self._watches.add(watch)
        try:
            return await start(request, watch, options).run()
        finally:
            self._watches.discard(watch)

    def _discover(self, request: web.BaseRequest) -> HttpAnswer:
        if request.method != "GET":
            raise errors.method_not_allowed()
        registry, path = self._api.registry, request.path.rstrip("/")
        segments = path.strip("/").split("/")
        match segments:
            case ["api"]:
                return payloads.of_json({"kind": "APIVersions", "versions": ["v1"]})
            case ["apis"]:
                return payloads.of_json(discovery.groups(registry))
            case ["apis", group]:
                known = discovery.group(registry, group)
                # The text of NotFound in Go's net/http.
                return payloads.of_text("404 page not found\n", 404) if known is None else payloads.of_json(known)
            case ["api", version]:
                return self._resources("", version)
            case ["apis", group, version]:
                return self._resources(group, version)
            case ["openapi", *rest]:
                return self._openapi(rest, request.headers.get("Accept", ""))
        return payloads.of_text("404 page not found\n", 404)

    def _openapi(self, path: list[str], accept: str) -> HttpAnswer:
        registry, schema_of = self._api.registry, discovery.schemas_in(self._api.store)
        document: Object | None = None
        match path:
            case ["v2"] if discovery.V2_PROTOBUF in accept:
                # The empty document: kubectl asks for it if v3 does not have a kind.
                return HttpAnswer(_OK, b"", discovery.V2_PROTOBUF_TYPE)
            case ["v3"]:
                document = discovery.index(registry, schema_of)
            case ["v3", "api", version]:
                document = discovery.document(registry, "", version, schema_of)
            case ["v3", "apis", group, version]:
                document = discovery.document(registry, group, version, schema_of)
        return payloads.of_text("404 page not found\n", 404) if document is None else payloads.of_json(document)

    def _resources(self, group: str, version: str) -> HttpAnswer:
        resources = discovery.resources(self._api.registry, group, version)
        if resources is not None:
            return payloads.of_json(resources)
        if group and discovery.group(self._api.registry, group) is None:
            return payloads.of_text("404 page not found\n", 404)
        raise errors.no_resource()
