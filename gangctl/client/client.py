"""The verbs of the Kubernetes API on raw JSON objects, and what a server serves: version, groups, schemas.

Objects are the dictionaries the server sent: nothing is modelled here, nothing is dropped. Every method raises an
:class:`~gangctl.errors.ApiError` whose class says what the server answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any, Literal

from gangctl.api.objects import objects
from gangctl.client.pacing import Clock
from gangctl.client.resources import PODS, Resource
from gangctl.client.responses import Response, error_from_status
from gangctl.client.transport import Request, Transport
from gangctl.client.watch import WatchEvent, WatchOptions, watch
from gangctl.errors import GoneError, NotFoundError, ServerError

Send = Callable[[Request], Awaitable[Response]]


class Discovery:
    """Questions about the server itself; nothing is cached, because an upgrade changes the answers."""

    def __init__(self, send: Send) -> None:
        """Ask through ``send``."""
        self._send = send

    async def version(self) -> dict[str, Any]:
        """Return ``/version``: ``gitVersion``, ``major``, ``minor`` and more."""
        return await self._get("/version")

    async def group_versions(self, group: str) -> list[str]:
        """Return the versions of ``group`` it serves, the preferred one first; empty without such a group."""
        if not group:
            versions = (await self._get("/api")).get("versions")
            return [str(version) for version in versions] if isinstance(versions, list) else []
        try:
            body = await self._get(f"/apis/{group}")
        except NotFoundError:
            return []
        return [entry["version"] for entry in objects(body.get("versions")) if isinstance(entry.get("version"), str)]

    async def resources(self, group: str, version: str) -> list[dict[str, Any]]:
        """Return the ``APIResource`` objects of one version, subresources included; empty if it is not served."""
        try:
            body = await self._get(f"/apis/{group}/{version}" if group else f"/api/{version}")
        except NotFoundError:
            return []
        return objects(body.get("resources"))

    async def serves(self, resource: Resource) -> bool:
        """Whether the server serves ``resource`` in this very version."""
        served = await self.resources(resource.group, resource.version)
        return any(entry.get("name") == resource.plural for entry in served)

    async def openapi_v3(self, path: str = "") -> dict[str, Any]:
        """Return an OpenAPI v3 document, such as that of ``apis/batch/v1``; without ``path`` the index of documents."""
        return await self._get("/openapi/v3" + (f"/{path.strip('/')}" if path else ""))

    async def _get(self, path: str) -> dict[str, Any]:
        return (await self._send(Request("GET", path, "get", "discovery", idempotent=True))).json()


Object = dict[str, Any]
JsonPatch = list[dict[str, Any]]
Propagation = Literal["Foreground", "Background", "Orphan"]

# Called before every request that would change something; raises to stop it.
WriteGuard = Callable[[], None]

MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"  # JSON is YAML
# As client-go's pager.
PAGE_SIZE = 500


@dataclass(frozen=True, slots=True)
class Page:
    """A part, or the whole, of a collection at one ``resource_version``; ``items`` lack apiVersion and kind."""

    items: list[Object]
    resource_version: str
    remaining: int = 0


@dataclass(frozen=True, slots=True)
class Selection:
    """Which objects of a collection: selectors as the API writes them, None for all."""

    label_selector: str | None = None
    field_selector: str | None = None

    def query(self) -> dict[str, str]:
        """Return them as query parameters."""
        pairs = {"labelSelector": self.label_selector, "fieldSelector": self.field_selector}
        return {name: value for name, value in pairs.items() if value}


EVERYTHING = Selection()


@dataclass(frozen=True, slots=True)
class Settings:
    """Options of a client; one transport serves clients with different settings.

    ``throttled=False`` is for the few calls that must not wait behind others, such as renewing a Lease.
    """

    field_manager: str = "gangctl"
    throttled: bool = True
    guard: WriteGuard | None = None


class ServerClock(Clock):
    """The clock of the API server, for ages of its objects: this machine's may be ahead of it, or behind.

    Durations are by the event loop's clock.
    """

    def __init__(self, client: Client) -> None:
        """Ask ``client``, which has what the last answer said."""
        self._client = client

    def wall(self) -> datetime:
        """Time of day of the API server, in UTC; from one answer to the next it may be a second less."""
        return self._client.server_time()


class Client:
    """Verbs over a :class:`Transport`, which the caller opens and closes.

    Where a method takes ``namespace``, a namespaced resource needs it for single
    objects; collections without it span all namespaces. ``timeout_seconds`` bounds
    a call from its turn at the rate limit on, retries included.
    """

    def __init__(self, transport: Transport, settings: Settings | None = None) -> None:
        """Share ``transport`` with any number of clients."""
        self._transport = transport
        self._settings = settings or Settings()

    @cached_property
    def discovery(self) -> Discovery:
        """What the server serves."""
        return Discovery(self.send)

    def server_time(self) -> datetime:
        """The time of the API server's clock: this machine's may be another one."""
        return self._transport.server_time()

    async def send(self, request: Request) -> Response:
        """Send any request. Writes go through the guard."""
        settings = self._settings
        # A dry run changes nothing, so that a replica that does not lead may ask, too.
        writes = request.method != "GET" and "dryRun" not in request.query
        guard = settings.guard if writes else None
        return await self._transport.send(request, throttled=settings.throttled, guard=guard)

    async def get(
        self, resource: Resource, name: str, namespace: str | None = None, *, timeout_seconds: float | None = None
    ) -> Object:
        """Read one object."""
        path = resource.path(namespace, name)
        request = Request("GET", path, "get", resource.qualified_name, idempotent=True, timeout_seconds=timeout_seconds)
        return (await self.send(request)).json()

    async def pages(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        selection: Selection = EVERYTHING,
        limit: int = PAGE_SIZE,
        ahead: bool = False,
        consistent: bool = True,
    ) -> AsyncGenerator[Page, None]:
        """Yield a collection, ``limit`` objects at a time, all as of one resourceVersion.

        A collection that takes longer to read than the server keeps history (five minutes) ends with
        :class:`~gangctl.errors.GoneError`: begin again. If it need not be ``consistent``, the rest is read as it is
        then. With ``ahead`` the next page is requested while the caller processes this one, so that neither waits for
        the other.
        """
        # No resourceVersion: the newest state. With 0, API servers may give an older one, and ignore the limit.
        query = {**selection.query(), "limit": str(limit)}
        path = resource.path(namespace)

        def asked() -> Request:
            return Request("GET", path, "list", resource.qualified_name, dict(query), idempotent=True)

        coming: asyncio.Task[Response] | None = None
        try:
            while True:
                try:
                    body = (await (coming or self.send(asked()))).json()
                except GoneError as gone:
                    if consistent or gone.following in {"", query.get("continue")}:
                        raise
                    query["continue"], coming = gone.following, None
                    continue
                metadata = body.get("metadata") or {}
                following = metadata.get("continue") or ""
                # A server that repeats a continue token would be read without end.
                again = following == query.get("continue")
                query["continue"] = following
                coming = asyncio.create_task(self.send(asked())) if ahead and following and not again else None
                remaining = metadata.get("remainingItemCount")
                remaining = remaining if isinstance(remaining, int) else 0
                yield Page(objects(body.get("items")), str(metadata.get("resourceVersion", "")), remaining)
                if not following:
                    return
                if again:
                    raise ServerError(0, "UnreadableBody", f"list {resource.qualified_name}: the same page again")
        finally:
            if coming is not None:
                coming.cancel()
                await asyncio.gather(coming, return_exceptions=True)

    async def list(
        self, resource: Resource, namespace: str | None = None, *, selection: Selection = EVERYTHING
    ) -> Page:
        """Read a whole collection, page by page, into one :class:`Page`."""
        items: list[Object] = []
        version = ""
        async with aclosing(self.pages(resource, namespace, selection=selection)) as pages:
            async for page in pages:
                items += page.items
                version = page.resource_version
        return Page(items, version)

    def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        resource_version: str,
        selection: Selection = EVERYTHING,
        options: WatchOptions | None = None,
        on_contact: Callable[[], None] | None = None,
    ) -> AsyncGenerator[WatchEvent, None]:
        """Watch a collection over one connection, see :mod:`gangctl.client.watch`; close it with ``aclosing``."""
        return watch(
            self._transport,
            resource,
            resource.path(namespace),
            resource_version=resource_version,
            query=selection.query(),
            options=options,
            throttled=self._settings.throttled,
            on_contact=on_contact,
        )

    async def create(
        self,
        resource: Resource,
        body: Mapping[str, Any],
        namespace: str | None = None,
        *,
        dry_run: bool = False,
        timeout_seconds: float | None = None,
    ) -> Object:
        """Create an object."""
        path = resource.path(namespace or _namespace_of(resource, body))
        query = {"dryRun": "All"} if dry_run else {}
        request = Request("POST", path, "create", resource.qualified_name, query, body, timeout_seconds=timeout_seconds)
        return await self._write(request)

    async def try_create(
        self, resource: Resource, body: Mapping[str, Any], namespace: str | None = None
    ) -> tuple[Object, tuple[str, ...]]:
        """What a create would store, and its warnings, by a dry run."""
        path = resource.path(namespace or _namespace_of(resource, body))
        request = Request("POST", path, "create", resource.qualified_name, {"dryRun": "All"}, body)
        response = await self.send(request)
        return response.json(), response.warnings

    async def update(
        self,
        resource: Resource,
        body: Mapping[str, Any],
        namespace: str | None = None,
        *,
        subresource: str | None = None,
        timeout_seconds: float | None = None,
    ) -> Object:
        """Replace an object; with ``metadata.resourceVersion`` only if it is unchanged since."""
        namespace = namespace or _namespace_of(resource, body)
        path = resource.path(namespace, _name_of(body), subresource)
        request = Request("PUT", path, "update", resource.qualified_name, body=body, timeout_seconds=timeout_seconds)
        return await self._write(request)

    async def merge_patch(
        self,
        resource: Resource,
        name: str,
        patch: Mapping[str, Any],
        namespace: str | None = None,
        *,
        subresource: str | None = None,
    ) -> Object:
        """Patch as RFC 7396: null deletes, lists are replaced; a resourceVersion inside is a precondition."""
        path = resource.path(namespace, name, subresource)
        return await self._patch(resource, path, patch, MERGE_PATCH)

    async def json_patch(self, resource: Resource, name: str, patch: JsonPatch, namespace: str | None = None) -> Object:
        """Patch as RFC 6902; a failing ``test`` operation is an :class:`~gangctl.errors.InvalidError`."""
        return await self._patch(resource, resource.path(namespace, name), patch, JSON_PATCH)

    async def apply(
        self,
        resource: Resource,
        body: Mapping[str, Any],
        namespace: str | None = None,
        *,
        force: bool = False,
        subresource: str | None = None,
        field_manager: str | None = None,
    ) -> Object:
        """Server-side apply; a field another manager owns is a Conflict unless ``force`` takes it.

        ``field_manager`` is that of the settings by default.
        """
        namespace = namespace or _namespace_of(resource, body)
        path = resource.path(namespace, _name_of(body), subresource)
        # An apply needs both, and items of a list have neither.
        body = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
        request = Request(
            "PATCH",
            path,
            "apply",
            resource.qualified_name,
            {"force": "true" if force else "false"} | ({"fieldManager": field_manager} if field_manager else {}),
            body,
            APPLY_PATCH,
            # Applied twice, it has the same result.
            idempotent=True,
        )
        return await self._write(request)

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        propagation: Propagation | None = None,
        grace_period_seconds: int | None = None,
    ) -> Object:
        """Delete an object, only if it still has ``uid`` where given (else a Conflict)."""
        options: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        if propagation is not None:
            options["propagationPolicy"] = propagation
        if grace_period_seconds is not None:
            options["gracePeriodSeconds"] = grace_period_seconds
        path = resource.path(namespace, name)
        return (await self.send(Request("DELETE", path, "delete", resource.qualified_name, body=options))).json()

    async def evict(self, namespace: str, pod: str, *, uid: str) -> None:
        """Evict a pod, only if it still has this UID.

        Raises ConflictError for another pod of that name, and TooManyRequestsError while a PodDisruptionBudget does
        not allow it.
        """
        body: Object = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": uid}},
        }
        request = Request("POST", PODS.path(namespace, pod, "eviction"), "create", "pods/eviction", body=body)
        answer = (await self.send(request)).json()
        # With the HTTP status 201 where several PodDisruptionBudgets select the pod.
        if answer.get("status") == "Failure":
            raise error_from_status(answer)

    async def _patch(self, resource: Resource, path: str, body: Any, content_type: str) -> Object:
        name = resource.qualified_name
        return await self._write(Request("PATCH", path, "patch", name, body=body, content_type=content_type))

    async def _write(self, request: Request) -> Object:
        query = {"fieldManager": self._settings.field_manager, **request.query}
        return (await self.send(replace(request, query=query))).json()


def _name_of(body: Mapping[str, Any]) -> str:
    return str((body.get("metadata") or {}).get("name") or "")


def _namespace_of(resource: Resource, body: Mapping[str, Any]) -> str | None:
    if not resource.namespaced:
        return None
    return (body.get("metadata") or {}).get("namespace") or None
