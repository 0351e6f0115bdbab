"""What an API server serves: its version, groups, resources and schemas."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from gangctl.client.resources import Resource
from gangctl.client.responses import Response
from gangctl.client.shape import objects
from gangctl.client.transport import Request
from gangctl.errors import NotFoundError

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
