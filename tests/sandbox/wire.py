"""A user's plain HTTP requests to a sandbox."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from types import TracebackType
from typing import Any, Self

import aiohttp
import orjson

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
MERGE = "application/merge-patch+json"
Object = dict[str, Any]


@dataclass(frozen=True)
class Told:
    """An answer."""

    status: int
    headers: Mapping[str, str]
    text: str
    warnings: tuple[str, ...]

    @property
    def json(self) -> Object:
        value: Object = orjson.loads(self.text)
        return value

    @property
    def message(self) -> str:
        return str(self.json["message"])

    @property
    def events(self) -> list[Object]:
        """The lines of a watch that ended."""
        return [orjson.loads(line) for line in self.text.splitlines()]


class Wire:
    """A session of one user; with `token` "" it is unauthenticated."""

    def __init__(self, url: str, token: str) -> None:
        self._url = url
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.session: aiohttp.ClientSession

    async def __aenter__(self) -> Self:
        self.session = aiohttp.ClientSession(headers=self._headers, connector=aiohttp.TCPConnector(force_close=True))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.session.close()

    async def send(self, method: str, path: str, body: Any = None, *, content_type: str = "application/json") -> Told:
        headers: dict[str, str] = {}
        data: BytesIO | None = None
        if body is not None:
            headers["Content-Type"] = content_type
            data = BytesIO(body if isinstance(body, bytes) else orjson.dumps(body))
        async with self.session.request(method, self._url + path, data=data, headers=headers) as response:
            text = (await response.read()).decode()
            warnings = tuple(response.headers.getall("Warning", []))
            return Told(response.status, dict(response.headers), text, warnings)

    async def get(self, path: str) -> Told:
        return await self.send("GET", path)

    async def configmap(self, name: str, labels: Mapping[str, str] | None = None) -> Object:
        metadata: Object = {"name": name}
        if labels:
            metadata["labels"] = dict(labels)
        answer = await self.send("POST", CONFIGMAPS, {"metadata": metadata})
        assert answer.status == 201, answer.text
        return answer.json
