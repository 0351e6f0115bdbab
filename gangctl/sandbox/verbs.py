"""The verbs over HTTP, except watch: from an :class:`Exchange`, which is one request, to an :class:`Answer`.

Access and token reviews are not stored; every user may do everything here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from aiohttp import web

from gangctl.sandbox import deletion, parameters, payloads, reads, writes
from gangctl.sandbox.api import Api
from gangctl.sandbox.caller import Caller, DeleteOptions, WriteOptions
from gangctl.sandbox.deletion import Deletion
from gangctl.sandbox.errors import StatusError
from gangctl.sandbox.kinds import CREATE_ONLY, ResourceKind
from gangctl.sandbox.objects import Object, metadata, now
from gangctl.sandbox.parameters import Target
from gangctl.sandbox.patches import MEDIA_TYPES
from gangctl.sandbox.payloads import Answer
from gangctl.sandbox.registry import Backend
from gangctl.sandbox.store import Stored
from gangctl.sandbox.tables.table import Tables, tables_for
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
            token = str((body.get("spec") or {}).get("token") or "")
            found = find_user(token)
            body["status"] = (
                {"user": {}, "error": "invalid bearer token"}
                if found is None
                else {"authenticated": True, "user": user_info(found)}
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
        return payloads.decode(self.body, payloads.media_type(self.request), kind, self.backend.registry.minor)

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
        return Deletion(self.backend, target.kind, self.namespace, target.name, self.caller, options, self.warnings)


class Verbs:
    """Handlers of the verbs."""

    def __init__(self, api: Api, find_user: FindUser) -> None:
        """``find_user`` returns the user of a token."""
        self._api = api
        self._find_user = find_user
        self._verbs: Mapping[str, Callable[[Exchange], Awaitable[Answer]]] = {
            "get": self._get,
            "list": self._list,
            "create": self._create,
            "update": self._update,
            "patch": self._patch,
            "delete": self._delete,
        }

    async def perform(self, exchange: Exchange) -> Answer:
        """Execute the request; StatusError if that fails."""
        return await self._verbs[exchange.target.verb](exchange)

    def _tables(self, exchange: Exchange) -> Tables | None:
        return tables_for(self._api.store, self._api.registry.minor, exchange.target.kind, exchange.request)

    def _object(self, exchange: Exchange, stored: Stored, status: int = _OK) -> Answer:
        tables = self._tables(exchange)
        if tables is not None:
            return payloads.of_json(tables.of_one(stored), status, warnings=exchange.warnings)
        return Answer(status, stored.json, warnings=exchange.warnings)

    async def _get(self, exchange: Exchange) -> Answer:
        target, store = exchange.target, self._api.store
        return self._object(exchange, reads.get(store, target.kind, exchange.namespace, target.name))

    async def _list(self, exchange: Exchange) -> Answer:
        target, store = exchange.target, self._api.store
        query = parameters.list_query(exchange.query)
        found = reads.page(store, target.kind, target.namespace, query)
        tables = self._tables(exchange)
        if tables is not None:
            return payloads.of_json(tables.of(found.items, payloads.list_metadata(found)))
        return payloads.of_page(target.kind, found)

    async def _create(self, exchange: Exchange) -> Answer:
        target, query = exchange.target, exchange.query
        options = parameters.write_options(query)
        body = exchange.decode(_EVICTION if target.subresource else target.kind)
        payloads.check_typed(target.kind, body)
        if target.kind.verbs == CREATE_ONLY:
            reviewed = answer(target.kind, body, exchange.caller, self._find_user)
            return payloads.of_json(reviewed, _CREATED)
        if target.subresource == "eviction":
            given = body.get("deleteOptions")
            evicted = exchange.deletion(parameters.delete_options(query, given))
            await deletion.delete(evicted)
            return payloads.of_json(payloads.of_success(_CREATED), _CREATED)
        stored = await writes.create(exchange.write(options), body)
        return self._object(exchange, stored, _CREATED)

    async def _update(self, exchange: Exchange) -> Answer:
        options = parameters.write_options(exchange.query)
        body = exchange.decode(exchange.target.kind)
        payloads.check_typed(exchange.target.kind, body)
        stored, created = await writes.update(exchange.write(options), body)
        return self._object(exchange, stored, _CREATED if created else _OK)

    async def _patch(self, exchange: Exchange) -> Answer:
        patch_type = MEDIA_TYPES.get(payloads.media_type(exchange.request))
        if patch_type is None:
            raise StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
        options = parameters.write_options(exchange.query)
        patch = payloads.decode_patch(exchange.body)
        stored, created = await self._api.patch_stored(exchange.write(options), patch, patch_type)
        return self._object(exchange, stored, _CREATED if created else _OK)

    async def _delete(self, exchange: Exchange) -> Answer:
        deleted = await deletion.delete(exchange.deletion(_delete_options(exchange)))
        return payloads.of_json(deletion.answer(exchange.target.kind, deleted), warnings=exchange.warnings)


def _delete_options(exchange: Exchange) -> DeleteOptions:
    body = None
    if exchange.body.strip():
        body = exchange.decode(_DELETE_OPTIONS)
    return parameters.delete_options(exchange.query, body)
