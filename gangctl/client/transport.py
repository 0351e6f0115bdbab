"""HTTP to one API server: deadlines, status checks, typed errors, retries, renewed credentials, rate limit.

A request is a value (:class:`Request`); the transport alone decides when and how often it is sent. The meaning of verbs
is in :mod:`gangctl.client.client`.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Self
from urllib.parse import urlencode

import aiohttp
import orjson
from aiohttp.connector import NEEDS_CLEANUP_CLOSED
from multidict import CIMultiDict
from yarl import URL

from gangctl import __version__
from gangctl.client.credentials import Access, Credentials
from gangctl.client.pacing import Backoff, Clock, TokenBucket
from gangctl.client.responses import Response, date_of, error_from_body, warnings_of
from gangctl.errors import (
    ApiError,
    ConfigError,
    InputError,
    ServerError,
    TooManyRequestsError,
    UnauthorizedError,
    UnavailableError,
)

JSON = "application/json"
USER_AGENT = f"gangctl/{__version__}"

# Called after every request with verb, resource, HTTP status (0: no answer) and seconds until the answer began.
RequestHook = Callable[[str, str, int, float], None]

_ERROR_BODY_BYTES = 2**20
_SERVICE_UNAVAILABLE = 503
_DATE_PRECISION = timedelta(seconds=2)
_TLS_OBJECT = re.compile(r" ssl:(?:<[^>]*>|\w+)")


@dataclass(frozen=True, slots=True)
class Request:
    """One call of the API, as a value.

    ``verb`` and ``resource`` are the labels of metrics (``list``, ``jobs.batch``). ``body`` is any JSON value. An
    ``idempotent`` request may be sent again when it is unknown whether the server acted on it. ``timeout_seconds``
    bounds the call, as in :class:`TransportOptions`; None is the transport's default.
    """

    method: str
    path: str
    verb: str
    resource: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    content_type: str = JSON
    idempotent: bool = False
    timeout_seconds: float | None = None

    def url(self, server: str) -> URL:
        """Return the full URL; its parts are quoted already, and quoting twice would change names."""
        query = "?" + urlencode(self.query) if self.query else ""
        return URL(server + self.path + query, encoded=True)

    def payload(self) -> bytes | None:
        """Encode the body."""
        if self.body is None:
            return None
        try:
            return orjson.dumps(self.body)
        except TypeError as error:
            raise InputError(f"{self.verb} {self.resource}: the object cannot be sent as JSON: {error}") from error


@dataclass(frozen=True, slots=True)
class TransportOptions:
    """Limits of a transport.

    ``timeout_seconds`` bounds a call from its turn at the rate limit on, retries included,
    ``connect_timeout_seconds`` its connection; ``qps`` and ``burst`` bound the rate of calls,
    ``attempts`` how often one is sent, ``max_response_bytes`` what is read of one answer.
    """

    timeout_seconds: float = 30.0
    connect_timeout_seconds: float = 5.0
    qps: float = 200.0
    burst: int = 400
    attempts: int = 4
    max_response_bytes: int = 256 * 2**20


class Stream:
    """A long answer, read while it arrives."""

    def __init__(self, response: aiohttp.ClientResponse, request: Request, clock: Clock) -> None:
        """Read nothing yet."""
        self._response = response
        self._request = request
        self._clock = clock

    async def read(self) -> bytes:
        """What has arrived, at least a byte; empty at the end and after a silence. Raises :class:`UnavailableError`."""
        with network_errors(self._request):
            try:
                return await self._response.content.readany()
            except TimeoutError:
                return b""

    async def gather(self, seconds: float) -> None:
        """Let data arrive unread for a while: decrypting and reading it at once costs half the CPU."""
        connection = self._response.connection
        transport = connection.transport if connection is not None else None
        if not isinstance(transport, asyncio.ReadTransport):
            return
        # A TLS transport that is paused goes on to read its socket; without room for what it would read, it does not.
        limit = getattr(transport, "set_read_buffer_limits", lambda *_: None)
        transport.pause_reading()
        limit(0)
        try:
            await self._clock.sleep(seconds)
        finally:
            # A TLS transport that was closed meanwhile raises where its limits are set.
            if not transport.is_closing():
                limit()
            transport.resume_reading()


class Transport:
    """One aiohttp session to one API server; an async context manager."""

    def __init__(
        self,
        credentials: Credentials,
        options: TransportOptions | None = None,
        *,
        on_request: RequestHook | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Open nothing yet; ``on_request`` is called for every request sent."""
        self._credentials = credentials
        self._options = options or TransportOptions()
        self._on_request = on_request
        self._clock = clock or Clock()
        self._bucket = TokenBucket(self._options.qps, self._options.burst, self._clock)
        self._session: aiohttp.ClientSession | None = None
        self._dated: tuple[datetime, str | None] | None = None
        """When the last answer came, and its Date."""

    def server_time(self) -> datetime:
        """The time of the API server's clock, as its last answer has it; that of this machine before one."""
        wall = self._clock.wall()
        if self._dated is None:
            return wall
        came, date = self._dated
        ahead = came - (date_of(date or "") or came)
        # A Date has whole seconds.
        return wall - ahead if abs(ahead) > _DATE_PRECISION else wall

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection; a later call opens new ones."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def send(
        self, request: Request, *, throttled: bool = True, guard: Callable[[], None] | None = None
    ) -> Response:
        """Send ``request`` until it succeeds, cannot succeed, or its time is up.

        ``throttled=False`` skips the rate limit, for the few calls that must not queue behind others. ``guard`` is
        called right before each attempt and raises to stop it: the right to write may be lost while a request is
        queued. Raises the matching :class:`ApiError`.
        """
        if throttled:
            await self._bucket.acquire()
        deadline = self._clock.now() + (request.timeout_seconds or self._options.timeout_seconds)
        backoff = Backoff(0.1, 5.0)
        for attempt in range(1, self._options.attempts + 1):
            if guard is not None:
                guard()
            try:
                return await self._attempt(request, deadline - self._clock.now())
            except ApiError as error:
                delay = _retry_delay(error, request, backoff)
                last = attempt == self._options.attempts
                if delay is None or last or self._clock.now() + delay >= deadline:
                    raise
                await self._clock.sleep(delay)
                # Each attempt is a request to the API server: retries must not exceed the rate.
                if throttled and not await self._bucket.acquire(deadline - self._clock.now()):
                    raise
        raise AssertionError("unreachable: the last attempt returns or raises")

    @asynccontextmanager
    async def stream(
        self, request: Request, *, read_timeout_seconds: float, throttled: bool = True
    ) -> AsyncIterator[Stream]:
        """Open a long answer, without retries; its status is checked before the caller reads a byte.

        It ends after ``read_timeout_seconds`` without a byte, too.
        """
        if throttled:
            await self._bucket.acquire()
        # Only until the head of the answer: the stream itself lasts for minutes.
        async with _call_timeout(request, request.timeout_seconds or self._options.timeout_seconds):
            response = await self._open(request, read_timeout_seconds)
        try:
            yield Stream(response, request, self._clock)
        finally:
            # Closed, not released: with unread data, the connection cannot be used again.
            response.close()

    async def _attempt(self, request: Request, seconds: float) -> Response:
        async with _call_timeout(request, seconds):
            response = await self._open(request, None)
            async with response:
                with network_errors(request):
                    body = await _read(response, self._options.max_response_bytes)
        return Response(response.status, body, warnings_of(response.headers.getall("Warning", ())))

    async def _open(self, request: Request, read_timeout: float | None) -> aiohttp.ClientResponse:
        """Send once, or twice when the credentials were refused and there are newer ones.

        Return a successful answer.
        """
        access = await self._credentials.access()
        try:
            return await self._exchange(request, access, read_timeout)
        except UnauthorizedError as refused:
            if not await self._renew(access, refused):
                raise
        return await self._exchange(request, await self._credentials.access(), read_timeout)

    async def _renew(self, access: Access, refused: UnauthorizedError) -> bool:
        try:
            return await self._credentials.refresh(access)
        except ConfigError as error:
            message = f"{refused.message}; the credentials could not be renewed: {error.message}"
            raise UnauthorizedError(refused.status, refused.reason, message) from error

    async def _exchange(self, request: Request, access: Access, read_timeout: float | None) -> aiohttp.ClientResponse:
        # No total: ``_call_timeout`` bounds calls, and a watch goes on as long as data arrives.
        limits = aiohttp.ClientTimeout(
            total=None, sock_connect=self._options.connect_timeout_seconds, sock_read=read_timeout
        )
        payload = request.payload()
        # There may be several headers of one name: Impersonate-Group.
        headers = CIMultiDict(access.headers)
        if payload is not None:
            headers["Content-Type"] = request.content_type
        started, status = self._clock.now(), 0
        try:
            with network_errors(request):
                response = await self._opened_session().request(
                    request.method,
                    request.url(access.server),
                    data=payload,
                    headers=headers,
                    timeout=limits,
                    ssl=access.tls or True,
                    server_hostname=access.tls_server_name,
                    proxy=access.proxy,
                    # An API server does not redirect; following one could carry the token elsewhere.
                    allow_redirects=False,
                )
            status = response.status
            self._dated = (self._clock.wall(), response.headers.get("Date"))
        finally:
            if self._on_request is not None:
                self._on_request(request.verb, request.resource, status, self._clock.now() - started)
        if status in range(200, 300):
            return response
        async with response:
            with network_errors(request):
                body = await _read(response, _ERROR_BODY_BYTES)
        error = error_from_body(status, {name.lower(): value for name, value in response.headers.items()}, body)
        error.warnings = warnings_of(response.headers.getall("Warning", ()))
        raise error

    def _opened_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                # A hundred watches, of as many namespaces, must not block all other requests.
                connector=aiohttp.TCPConnector(
                    limit=0,
                    socket_factory=_keepalive_socket,
                    # Python before 3.12.7 may never let go of a TLS connection whose peer does not confirm its end.
                    enable_cleanup_closed=NEEDS_CLEANUP_CLOSED,
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={
                    "User-Agent": USER_AGENT,
                    "Accept": JSON,
                    # Compressing costs an API server more CPU than sending the bytes.
                    "Accept-Encoding": "identity",
                },
                # With aiohttp's 64 KiB the connection would be paused and resumed often in each page of a list.
                read_bufsize=2**21,
                # One object may earn many warnings; aiohttp's default refuses headers above 8 KiB.
                max_field_size=2**16,
                # The proxy is in Access. With True aiohttp would choose one itself, and send passwords of ~/.netrc.
                trust_env=False,
            )
        return self._session


def _retry_delay(error: ApiError, request: Request, backoff: Backoff) -> float | None:
    """Seconds to wait before sending again, None when sending again is unsafe or useless."""
    if isinstance(error, TooManyRequestsError):
        # A budget allows an eviction when other pods are ready: that may take hours.
        again = not error.blocked_by_budget
    elif isinstance(error, UnavailableError):
        again = error.reason == "ConnectFailed" or (request.idempotent and error.reason == "ConnectionLost")
    elif isinstance(error, ServerError):
        # The server rejected it with 503 and Retry-After before acting on it.
        turned_away = error.status == _SERVICE_UNAVAILABLE and error.retry_after is not None
        again = turned_away or (request.idempotent and error.reason not in {"UnreadableBody", "ResponseTooLarge"})
    else:
        again = False
    # In addition: clients that got the same Retry-After must not come back together.
    return (error.retry_after or 0.0) + backoff.next() if again else None


@asynccontextmanager
async def _call_timeout(request: Request, seconds: float) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise UnavailableError(
            0, "Timeout", f"{request.verb} {request.resource}: no answer within {seconds:.3g} s"
        ) from error


def _said(error: Exception) -> str:
    """What aiohttp says of a connection, without the object that it has for TLS."""
    return _TLS_OBJECT.sub("", str(error))


@contextmanager
def network_errors(request: Request) -> Iterator[None]:
    """Turn what aiohttp raises into :class:`UnavailableError`.

    Its ``reason`` is ConnectFailed (nothing was sent), TLSFailure or ConnectionLost.
    """
    what = f"{request.verb} {request.resource}"
    try:
        yield
    # First, because ClientSSLError is a ClientConnectorError.
    except (aiohttp.ClientSSLError, ssl.SSLError) as error:
        raise UnavailableError(0, "TLSFailure", f"{what}: {_said(error)}") from error
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
        raise UnavailableError(0, "ConnectFailed", f"{what}: {_said(error)}") from error
    except aiohttp.ClientResponseError as error:
        # The text of this error holds the URL, of a proxy too, and with it the proxy's password.
        raise UnavailableError(0, "ConnectionLost", f"{what}: HTTP {error.status} {error.message}") from error
    except (aiohttp.ClientError, OSError) as error:
        # A stream that is silent for too long ends without an error, in ``Stream.read``.
        if isinstance(error, TimeoutError):
            raise
        raise UnavailableError(0, "ConnectionLost", f"{what}: {str(error) or type(error).__name__}") from error


async def _read(response: aiohttp.ClientResponse, limit: int) -> bytes:
    chunks, size = [], 0
    async for chunk in response.content.iter_any():
        size += len(chunk)
        if size > limit:
            raise ServerError(response.status, "ResponseTooLarge", f"the answer is larger than {limit} bytes")
        chunks.append(chunk)
    return b"".join(chunks)


def _keepalive_socket(address: tuple[Any, ...]) -> socket.socket:
    """Open a socket on which the kernel notices within a minute that the other machine is gone."""
    family, kind, protocol = address[:3]
    opened = socket.socket(family, kind, protocol)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            opened.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return opened
