"""The HTTP layer: authentication, routing, faults, and audit records."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

from aiohttp import web

from gangctl.sandbox import discovery, errors, faults, parameters, payloads, watches
from gangctl.sandbox.api import Api
from gangctl.sandbox.caller import Caller
from gangctl.sandbox.errors import StatusError
from gangctl.sandbox.faults import Audit, Faults, Record
from gangctl.sandbox.objects import Object
from gangctl.sandbox.parameters import Target, find
from gangctl.sandbox.payloads import Answer
from gangctl.sandbox.tables.table import tables_for
from gangctl.sandbox.verbs import Exchange, FindUser, Verbs
from gangctl.sandbox.watches import Watch

BOOKMARK_SECONDS: Final = 60.0
_HEALTH: Final = frozenset({"/healthz", "/livez", "/readyz"})
_OK: Final = 200
_GONE: Final = 410
_BROKEN_WATCH: Final = (faults.CutAfter, faults.EndWatch, faults.ExpireWatch, faults.Silence)


class Front:
    """Answers requests for an :class:`Api`; :meth:`handle` is the handler of every path."""

    def __init__(self, api: Api, find_user: FindUser, *, faults_: Faults, audit: Audit) -> None:
        """``find_user`` returns the user of a token."""
        self._api = api
        self._find_user = find_user
        self._faults = faults_
        self._audit = audit
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
                raise errors.unauthorized()
            target = find(self._api.registry, request.method, request.path)
            if target is None:
                return self._discover(request).response()
            return await self._exchange(request, caller, target)
        except StatusError as error:
            return payloads.of_error(error).response()

    def _caller(self, request: web.BaseRequest) -> Caller | None:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        found = self._find_user(token.strip()) if scheme.lower() == "bearer" else None
        if found is None:
            return None
        return replace(found, user_agent=request.headers.get("User-Agent", ""))

    async def _exchange(self, request: web.BaseRequest, caller: Caller, target: Target) -> web.StreamResponse:
        watching = target.verb == "list" and parameters.flag(request.query, "watch")
        record = Record(
            user=caller.name,
            verb="watch" if watching else target.verb,
            resource=target.kind.qualified_name,
            subresource=target.subresource,
            namespace=target.namespace or "",
            name=target.name,
            dry_run="dryRun" in request.query,
            code=0,
            user_agent=caller.user_agent,
        )
        # Requests are counted in the order in which they arrive, before anything is awaited.
        fault = self._faults.meet(record)
        try:
            answered = await self._answered(request, caller, target, record, fault)
        except StatusError as error:
            answered = payloads.of_error(error).response()
        if record.verb != "watch" or answered.status != _OK:
            self._audit.add(replace(record, code=answered.status))
        return answered

    async def _answered(
        self, request: web.BaseRequest, caller: Caller, target: Target, record: Record, fault: faults.Action | None
    ) -> web.StreamResponse:
        match fault:
            case faults.CutBefore() | faults.Silence() if record.verb != "watch" or isinstance(fault, faults.CutBefore):
                await self._never(request, record, cut=isinstance(fault, faults.CutBefore))
            case faults.Delay(seconds=seconds):
                await asyncio.sleep(seconds)
            case faults.Refuse(error=error):
                return payloads.of_error(error).response()
            case faults.ExpireWatch() if record.verb != "watch":
                raise errors.expired(errors.CONTINUE_EXPIRED_MESSAGE)
        if record.verb == "watch":
            return await self._watch(request, target, record, fault)
        body = await request.read()
        exchange = Exchange(request, self._api.backend, target, caller, record, body, fault)
        try:
            answer = await self._verbs.perform(exchange)
        except StatusError as error:
            answer = payloads.of_error(error, warnings=exchange.warnings)
        if isinstance(fault, faults.CutAfter):
            await self._never(request, record, cut=True)
        return answer.response()

    async def _never(self, request: web.BaseRequest, record: Record, *, cut: bool) -> None:
        """Send no response; ends by cancellation when the connection is closed."""
        self._audit.add(record)
        if cut:
            _cut(request)
        await asyncio.get_running_loop().create_future()

    async def _watch(
        self, request: web.BaseRequest, target: Target, record: Record, fault: faults.Action | None
    ) -> web.StreamResponse:
        query = parameters.watch_query(request.query)
        seconds = parameters.number(request.query, "timeoutSeconds")
        try:
            watch = Watch(self._api.store, target.kind, target.namespace, query)
        except StatusError as error:
            if error.code != _GONE:
                raise
            self._audit.add(replace(record, code=_OK))
            return await watches.refuse(request, error)
        options = watches.StreamOptions(
            seconds=float(seconds) if seconds else None,
            bookmark_seconds=self.bookmark_seconds if query.bookmarks else None,
            fault=fault if isinstance(fault, _BROKEN_WATCH) else None,
            tables=tables_for(self._api.store, self._api.registry.minor, target.kind, request),
        )
        self._watches.add(watch)
        # A watch is recorded at its start: it may never end.
        self._audit.add(replace(record, code=_OK))
        try:
            return await watches.Stream(request, watch, options, lambda: _cut(request)).run()
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


def _cut(request: web.BaseRequest) -> None:
    """Close the connection in the middle of a response."""
    if request.transport is not None:
        request.transport.close()
