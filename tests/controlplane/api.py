"""
A small client of the Kubernetes API for tests: paths and JSON in, JSON out.

It is not gangctl's own client on purpose. A test that read the cluster through the code under test could not see that
code drop a field; here nothing is typed and nothing is lost.
"""

import asyncio
import io
import json
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from weakref import WeakKeyDictionary

import aiohttp
from aiohttp.connector import NEEDS_CLEANUP_CLOSED
from multidict import CIMultiDict

from tests.controlplane.pki import KeyPair

Object = dict[str, Any]
Objects = list[Object]
Parameter = str | int | bool
PatchKind = Literal["merge", "json", "strategic", "apply"]

_PATCH_TYPES: Mapping[str, str] = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
_REQUEST_SECONDS = 300
_CONNECTIONS = 128
_ABSENT = 404

# What a request raises while the API server is away: no connection, a lost one, or no answer in time.
UNREACHABLE = (aiohttp.ClientError, OSError, TimeoutError)


class ApiFailure(Exception):  # noqa: N818 - the name the tests read by
    """An answer other than success; `body` is the Status object the server sent."""

    def __init__(self, status: int, body: Object) -> None:
        super().__init__(status, body)
        self.status = status
        self.body = body

    @property
    def reason(self) -> str:
        return str(self.body.get("reason", ""))

    @property
    def message(self) -> str:
        return str(self.body.get("message", ""))

    def __str__(self) -> str:
        return f"{self.status} {self.reason}: {self.message}"


@dataclass(frozen=True)
class Answer:
    """What came back over HTTP, success or not: for tests of the server itself."""

    status: int
    headers: CIMultiDict[str]
    text: str

    @property
    def body(self) -> Object:
        return _object(self.text)


@dataclass(frozen=True)
class WatchEvent:
    """One line of a watch: ADDED, MODIFIED, DELETED or BOOKMARK, and the object."""

    type: str
    object: Object


def path_of(api_version: str, resource: str, *, namespace: str | None = None, name: str | None = None) -> str:
    """The path of a resource: `path_of("batch/v1", "jobs", namespace="x")` is /apis/batch/v1/namespaces/x/jobs."""
    root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    middle = f"/namespaces/{namespace}" if namespace else ""
    return f"{root}{middle}/{resource}" + (f"/{name}" if name else "")


class ApiClient:
    """
    Requests as one user, who is known by a client certificate, by a bearer token, or not at all.

    It works under whatever event loop is running: planes outlive the loops of single tests. Each loop has its own
    connections, closed when that loop is.
    """

    def __init__(
        self,
        url: str,
        *,
        ca: Path | str,
        user: KeyPair | None = None,
        token: str = "",
        user_agent: str = "controlplane-test",
    ) -> None:
        """`ca` is a PEM file, or PEM text."""
        self.url = url
        self._headers = {"User-Agent": user_agent, "Accept": "application/json"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._ssl = ssl.create_default_context(cadata=ca if isinstance(ca, str) else ca.read_text())
        if user is not None:
            self._ssl.load_cert_chain(user.certificate, user.key)
        self._sessions: WeakKeyDictionary[asyncio.AbstractEventLoop, _OpenSession] = WeakKeyDictionary()

    async def get(self, path: str, **parameters: Parameter) -> Object:
        return _object(await self.request("GET", path, parameters=parameters))

    async def found(self, path: str) -> Object | None:
        """An object that may not be there."""
        try:
            return await self.get(path)
        except ApiFailure as failure:
            if failure.status != _ABSENT:
                raise
            return None

    async def list(self, path: str, **parameters: Parameter) -> Objects:
        """The items of a collection."""
        answer = await self.get(path, **parameters)
        return list_items(answer)

    async def create(self, path: str, body: Object, **parameters: Parameter) -> Object:
        return _object(await self.request("POST", path, body=body, parameters=parameters))

    async def update(self, path: str, body: Object, **parameters: Parameter) -> Object:
        return _object(await self.request("PUT", path, body=body, parameters=parameters))

    async def patch(
        self, path: str, body: Object | Objects, kind: PatchKind = "merge", **parameters: Parameter
    ) -> Object:
        """A patch; kind "apply" needs the parameter fieldManager."""
        answer = await self.request("PATCH", path, body=body, parameters=parameters, content_type=_PATCH_TYPES[kind])
        return _object(answer)

    async def delete(
        self, path: str, *, propagation: str | None = None, grace: int | None = None, **parameters: Parameter
    ) -> Object:
        """Delete an object, or every object of a collection."""
        options: Object = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if propagation is not None:
            options["propagationPolicy"] = propagation
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        return _object(await self.request("DELETE", path, body=options, parameters=parameters))

    async def remove(self, path: str, *, propagation: str | None = None) -> None:
        """Delete an object that may not be there."""
        try:
            await self.delete(path, propagation=propagation)
        except ApiFailure as failure:
            if failure.status != _ABSENT:
                raise

    async def watch(self, path: str, **parameters: Parameter) -> AsyncIterator[WatchEvent]:
        """
        The events of a watch until the server ends it.

        An ERROR event (an expired resourceVersion, for one) is raised as ApiFailure.
        """
        session = await self._session()
        query = {"watch": "true", **_query(parameters)}
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_REQUEST_SECONDS)
        async with session.get(self.url + path, params=query, timeout=timeout) as response:
            if response.status >= 400:
                raise ApiFailure(response.status, _status(await response.text()))
            try:
                async for line in _lines(response.content):
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        raise ApiFailure(int(event["object"].get("code", 500)), event["object"])
                    yield WatchEvent(event["type"], event["object"])
            finally:
                # Whoever stops in the middle may end the loop next, with no time left for TLS to say goodbye.
                if response.connection is not None and response.connection.transport is not None:
                    response.connection.transport.abort()

    async def text(self, path: str, **parameters: Parameter) -> str:
        """An answer that is not JSON: /metrics, /readyz."""
        return await self.request("GET", path, parameters=parameters)

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Object | Objects | None = None,
        parameters: Mapping[str, Parameter] | None = None,
        content_type: str = "application/json",
    ) -> str:
        """One request; the answer's text, or ApiFailure."""
        answer = await self.exchange(
            method,
            path,
            data=None if body is None else json.dumps(body),
            parameters=parameters,
            headers={} if body is None else {"Content-Type": content_type},
        )
        if answer.status >= 400:
            raise ApiFailure(answer.status, _status(answer.text))
        return answer.text

    async def exchange(
        self,
        method: str,
        path: str,
        *,
        data: str | None = None,
        parameters: Mapping[str, Parameter] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """One request with whatever body and headers, and whatever came back."""
        session = await self._session()
        query = _query(parameters or {})
        body = None if data is None else io.BytesIO(data.encode())
        async with session.request(method, self.url + path, params=query, data=body, headers=headers) as response:
            return Answer(response.status, response.headers.copy(), await response.text())

    async def close(self) -> None:
        """Close this loop's connections; the next request opens new ones."""
        opened = self._sessions.pop(asyncio.get_running_loop(), None)
        if opened is not None:
            await opened.scope.aclose()

    async def _session(self) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        opened = self._sessions.get(loop)
        if opened is None:
            scope = self._open()
            opened = self._sessions[loop] = _OpenSession(await anext(scope), scope)
        return opened.session

    async def _open(self) -> AsyncGenerator[aiohttp.ClientSession, None]:
        """
        A session for the running loop.

        It is a generator because a loop closes the generators that were begun under it (shutdown_asyncgens): so a test
        need not close a client that it did not open.
        """
        async with aiohttp.ClientSession(
            # Enough for every watch of a test; a burst of a thousand writes queues instead of shaking a thousand hands.
            connector=aiohttp.TCPConnector(
                ssl=self._ssl, limit=_CONNECTIONS, enable_cleanup_closed=NEEDS_CLEANUP_CLOSED
            ),
            timeout=aiohttp.ClientTimeout(total=_REQUEST_SECONDS),
            headers=self._headers,
            # An environment's proxy or certificate settings must not reach loopback.
            trust_env=False,
        ) as session:
            yield session


@dataclass(frozen=True)
class _OpenSession:
    session: aiohttp.ClientSession
    scope: AsyncGenerator[aiohttp.ClientSession, None]


def list_items(answer: Object) -> Objects:
    items: Objects = answer.get("items") or []
    return items


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Split by hand: the stream's own line reader refuses lines longer than its buffer, and objects are."""
    rest = b""
    async for chunk in content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line:
                yield line


def _query(parameters: Mapping[str, Parameter]) -> dict[str, str]:
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in parameters.items()}


def _object(text: str) -> Object:
    answer = json.loads(text)
    if not isinstance(answer, dict):
        raise TypeError(f"expected a JSON object, got {text[:200]}")
    return answer


def _status(text: str) -> Object:
    """The Status object; a server that is going down answers in plain text instead."""
    try:
        answer = json.loads(text)
    except json.JSONDecodeError:
        return {"kind": "Status", "message": text.strip()}
    return answer if isinstance(answer, dict) else {"kind": "Status", "message": text.strip()}
