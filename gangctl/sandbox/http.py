"""The HTTP layer: authentication, routing, watches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from aiohttp import web

from gangctl.sandbox import discovery, errors, parameters, payloads, watches
from gangctl.sandbox.api import Api
from gangctl.sandbox.caller import Caller
from gangctl.sandbox.errors import StatusError
from gangctl.sandbox.objects import Object
from gangctl.sandbox.parameters import Target, find
from gangctl.sandbox.payloads import Answer
from gangctl.sandbox.tables.table import tables_for
from gangctl.sandbox.verbs import Exchange, FindUser, Verbs
from gangctl.sandbox.watches import Stream, StreamOptions, Watch

BOOKMARK_SECONDS: Final = 60.0
_HEALTH: Final = frozenset({"/healthz", "/livez", "/readyz"})
_OK: Final = 200
_GONE: Final = 410
StartStream = Callable[[web.BaseRequest, Watch, StreamOptions], Stream]


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
        found = self._find_user(token.strip()) if scheme.lower() == "bearer" else None
        if found is None:
            return None
        return replace(found, user_agent=request.headers.get("User-Agent", ""))

    async def exchange(self, request: web.BaseRequest, caller: Caller, target: Target) -> web.StreamResponse:
        """Answer a request for a resource; StatusError if that fails before there are warnings."""
        if target.verb == "list" and parameters.flag(request.query, "watch"):
            return await self.watch(request, target)
        exchange = Exchange(request, self._api.backend, target, caller, await request.read())
        try:
            return (await self._verbs.perform(exchange)).response()
        except StatusError as error:
            return payloads.of_error(error, warnings=exchange.warnings).response()

    async def watch(self, request: web.BaseRequest, target: Target, start: StartStream = Stream) -> web.StreamResponse:
        """Answer a watch to its end; ``start`` makes its stream."""
        query = parameters.watch_query(request.query)
        seconds = parameters.number(request.query, "timeoutSeconds")
        try:
            watch = Watch(self._api.store, target.kind, target.namespace, query)
        except StatusError as error:
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

    def _discover(self, request: web.BaseRequest) -> Answer:
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
                return payloads.of_text("404 page not found\n", 404) if known is None else payloads.of_json(known)
            case ["api", version]:
                return self._resources("", version)
            case ["apis", group, version]:
                return self._resources(group, version)
            case ["openapi", *rest]:
                return self._openapi(rest, request.headers.get("Accept", ""))
        return payloads.of_text("404 page not found\n", 404)

    def _openapi(self, path: list[str], accept: str) -> Answer:
        registry, schema_of = self._api.registry, discovery.schemas_in(self._api.store)
        found: Object | None = None
        match path:
            case ["v2"] if discovery.V2_PROTOBUF in accept:
                # The empty document: kubectl asks for it if v3 does not have a kind.
                return Answer(_OK, b"", discovery.V2_PROTOBUF_TYPE)
            case ["v3"]:
                found = discovery.index(registry, schema_of)
            case ["v3", "api", version]:
                found = discovery.document(registry, "", version, schema_of)
            case ["v3", "apis", group, version]:
                found = discovery.document(registry, group, version, schema_of)
        return payloads.of_text("404 page not found\n", 404) if found is None else payloads.of_json(found)

    def _resources(self, group: str, version: str) -> Answer:
        found = discovery.resources(self._api.registry, group, version)
        if found is not None:
            return payloads.of_json(found)
        if group and discovery.group(self._api.registry, group) is None:
            return payloads.of_text("404 page not found\n", 404)
        raise errors.no_resource()
