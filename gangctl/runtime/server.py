"""HTTP servers: a listener that stops without breaking a request in flight, and the one for webhooks.

The webhooks' is TLS, JSON bytes in, JSON bytes out, with all HTTP handling around the handlers. Any client that can
reach the port can send anything, so everything that a caller chooses is bounded: size, time, concurrency. The content
of a request is never logged.
"""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, Self

import structlog
from aiohttp import hdrs, web

from gangctl.errors import InputError

_log = structlog.get_logger(__name__)

Handler = Callable[[web.BaseRequest], Awaitable[web.Response]]

_TEXT: Final = "text/plain; charset=utf-8"
# How much of a path is logged: enough to recognise it, too little to carry data.
_SHOWN_PATH: Final = 100
# How long to wait for handlers that outlived the drain and were cancelled.
_CUT_OFF_SECONDS: Final = 0.1


class HttpRefusal(Exception):  # noqa: N818 - it is an answer
    """An HTTP answer other than success: status, a text for the caller, further headers.

    ``logged`` is the text for the log; it differs where the caller's text quotes the request.
    """

    def __init__(self, status: HTTPStatus, text: str, **headers: str) -> None:
        """Answer with ``status`` and ``text``."""
        super().__init__(text)
        self.status = status
        self.text = text
        self.logged = text
        self.headers = headers


@dataclass(frozen=True, slots=True)
class ListenerOptions:
    """Times of a listener, in seconds.

    A connection may be silent for ``idle_seconds`` before, between and within the heads of its requests: more than the
    90 s after which Go clients drop an idle connection, because a request that meets our closing is lost. A TLS
    handshake takes at most ``handshake_seconds``. Requests in flight at the end get ``drain_seconds``. Data that a
    caller still sends after its answer is read for ``linger_seconds``, because many read the answer only when they have
    sent everything.
    """

    idle_seconds: float = 120.0
    handshake_seconds: float = 10.0
    drain_seconds: float = 20.0
    linger_seconds: float = 5.0


class Listener:
    """Serves one handler on one address; ``async with`` starts and stops it.

    A :class:`HttpRefusal` from the handler is the answer; any other exception is logged with its traceback and answered
    with a generic text.
    """

    def __init__(
        self,
        name: str,
        handler: Handler,
        address: tuple[str, int],
        *,
        tls: ssl.SSLContext | None = None,
        options: ListenerOptions | None = None,
    ) -> None:
        """Do nothing yet; ``name`` is for logs, host "" is every address of IPv4 and IPv6, port 0 is any free one."""
        self._handler = handler
        self._address = address
        self._tls = tls
        self._options = options or ListenerOptions()
        self._log = _log.bind(listener=name)
        self._runner: web.ServerRunner | None = None
        self._server: asyncio.Server | None = None
        self._in_flight = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._draining = False

    @property
    def address(self) -> tuple[str, int]:
        """The actual host and port, of IPv4 where it listens on both; RuntimeError while it does not listen."""
        if self._server is None or not self._server.sockets:
            raise RuntimeError("not listening")
        # A pod has 127.0.0.1 in any cluster, and ::1 not in every one.
        listening = min(self._server.sockets, key=lambda listener: listener.family)
        host, port = listening.getsockname()[:2]
        return str(host), int(port)

    @property
    def listening(self) -> bool:
        """Whether it accepts connections: between start and stop."""
        return self._server is not None and bool(self._server.sockets)

    async def start(self) -> None:
        """Listen; OSError when the address is not available."""
        server = web.Server(
            self._answer,
            access_log=None,
            # A compressed body is refused, and never unpacked.
            auto_decompress=False,
            keepalive_timeout=self._options.idle_seconds,
            lingering_time=self._options.linger_seconds,
            logger=_HttpLogger("gangctl.http"),
        )
        # The drain is ours (:meth:`stop`): aiohttp's would not read the rest of a body that is being sent.
        self._runner = web.ServerRunner(server, shutdown_timeout=_CUT_OFF_SECONDS)
        await self._runner.setup()
        host, port = self._address
        self._server = await asyncio.get_running_loop().create_server(
            server,
            host,
            port,
            ssl=self._tls,
            # asyncio raises ValueError for one without TLS.
            ssl_handshake_timeout=self._options.handshake_seconds if self._tls is not None else None,
            backlog=1024,
        )
        self._log.info("listening", address="{}:{}".format(*self.address))

    def begin_drain(self) -> None:
        """Keep answering, but close each connection after its answer, so that callers reconnect to other replicas."""
        self._draining = True

    async def stop(self) -> None:
        """Stop accepting, finish requests in flight within ``drain_seconds``, and close; harmless when repeated."""
        self.begin_drain()
        if self._server is not None:
            self._server.close()
        try:
            async with asyncio.timeout(self._options.drain_seconds):
                await self._idle.wait()
        except TimeoutError:
            self._log.warning("requests were cut off at shutdown", requests=self._in_flight)
        if self._runner is not None:
            await self._runner.cleanup()
        self._server = self._runner = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        self._in_flight += 1
        self._idle.clear()
        try:
            response = await self._respond(request)
            if self._draining:
                response.force_close()
            return response
        finally:
            self._in_flight -= 1
            if not self._in_flight:
                self._idle.set()

    async def _respond(self, request: web.BaseRequest) -> web.Response:
        try:
            return await self._handler(request)
        except HttpRefusal as refusal:
            self._log.warning("request refused", status=int(refusal.status), reason=refusal.logged, **_shown(request))
            return text_response(refusal.status, refusal.text, refusal.headers)
        except Exception:  # noqa: BLE001 - one request must not end the others
            self._log.exception("request failed", **_shown(request))
            status = HTTPStatus.INTERNAL_SERVER_ERROR
            return text_response(status, "internal error: the log of gangctl has the details")


def text_response(status: HTTPStatus, text: str, headers: dict[str, str] | None = None) -> web.Response:
    """Plain text with a newline at its end."""
    return web.Response(status=status, body=f"{text}\n".encode(), headers={"Content-Type": _TEXT, **(headers or {})})


def _shown(request: web.BaseRequest) -> dict[str, Any]:
    """What is logged of a request: its path and its source, never its content."""
    return {"method": request.method, "path": request.path[:_SHOWN_PATH], "remote": request.remote}


class _HttpLogger(logging.Logger):
    """Receives aiohttp's errors about malformed HTTP and drops quotes of the request."""

    def exception(self, msg: object, *args: object, exc_info: Any = None, **_: Any) -> None:
        """Log the kind of the error."""
        del msg, args
        _log.warning("malformed HTTP", error=type(exc_info).__name__)


JSON: Final = "application/json"
HEALTH_PATH: Final = "/healthz"
_MIB: Final = 2**20
# The API server sends its deadline as a Go duration of whole seconds.
_GO_SECONDS: Final = re.compile(r"([0-9]{1,4})s")

WebhookHandler = Callable[[bytes], Awaitable[bytes]]


@dataclass(frozen=True, slots=True)
class WebhookLimits:
    """Bounds on one request, on how many are handled at once, and on the bytes of all bodies together.

    An AdmissionReview of an UPDATE holds two objects of up to 1.5 MiB in etcd, which
    JSON and managed fields may double.
    """

    max_bytes: int = 7 * _MIB
    max_held_bytes: int = 64 * _MIB
    read_seconds: float = 5.0
    handler_seconds: float = 30.0
    max_at_once: int = 64


class _Bodies:
    """Counts the bytes of received bodies; above the limit, the largest unfinished one is aborted.

    A slot is taken only by a complete body: slow senders block no one, and senders of much block only each other.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._held = 0
        self._arriving: dict[asyncio.Timeout, int] = {}
        self._ending: dict[asyncio.Timeout, int] = {}
        """Of the aborted ones: their tasks end later, and until then their bytes are no reason to abort others."""

    def grew(self, deadline: asyncio.Timeout, count: int) -> None:
        """Count received bytes of the body that has this deadline."""
        self._held += count
        known = self._ending if deadline in self._ending else self._arriving
        known[deadline] = known.get(deadline, 0) + count
        if self._arriving and self._held - sum(self._ending.values()) > self._most:
            largest = max(self._arriving, key=self._arriving.__getitem__)
            self._ending[largest] = self._arriving.pop(largest)
            # One that is expiring cannot be rescheduled: ``asyncio.Timeout`` raises RuntimeError.
            if not largest.expired():
                largest.reschedule(0)

    def arrived(self, deadline: asyncio.Timeout) -> None:
        """This body is complete, or will not be."""
        self._arriving.pop(deadline, None)
        self._ending.pop(deadline, None)

    def left(self, count: int) -> None:
        """Forget a body that has been processed."""
        self._held -= count


class WebhookServer(Listener):
    """Answers ``POST`` on each of ``routes`` with its handler's result for the body, and ``GET /healthz``.

    A handler's :class:`~gangctl.errors.InputError` is a 400 with its message. A handler has the time that the API
    server gave the call, at most ``handler_seconds``. With ``known_clients`` a webhook is answered only for callers
    with a certificate that the TLS context has verified, and no other caller's body is read.
    """

    def __init__(
        self,
        routes: Mapping[str, WebhookHandler],
        address: tuple[str, int],
        tls: ssl.SSLContext | None,
        *,
        limits: WebhookLimits | None = None,
        options: ListenerOptions | None = None,
        known_clients: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Do nothing yet; see :class:`Listener` for starting and stopping."""
        super().__init__("webhooks", self._call, address, tls=tls, options=options)
        self._routes = dict(routes)
        self._limits = limits or WebhookLimits()
        self._slots = asyncio.Semaphore(self._limits.max_at_once)
        self._bodies = _Bodies(self._limits.max_held_bytes)
        self._known_clients = known_clients
        self._clock = clock

    async def _call(self, request: web.BaseRequest) -> web.Response:
        # Without a client certificate: a balancer has none, nor has gangctl's check of its own listener.
        if request.path == HEALTH_PATH:
            allow(request, hdrs.METH_GET, hdrs.METH_HEAD)
            return text_response(HTTPStatus.OK, "ok")
        if self._known_clients and not _showed_certificate(request):
            raise HttpRefusal(HTTPStatus.FORBIDDEN, "a client certificate is required here", Connection="close")
        handler = self._routes.get(request.path)
        if handler is None:
            raise HttpRefusal(HTTPStatus.NOT_FOUND, "no webhook at this path")
        allow(request, hdrs.METH_POST)
        self._check_head(request)
        seconds, began = self._deadline(request), self._clock()
        body = bytearray()
        try:
            await self._read(request, body, min(seconds, self._limits.read_seconds))
            # The wait for a slot counts, because the API server's deadline runs. Only complete bodies take a slot.
            async with asyncio.timeout(seconds - (self._clock() - began)), self._slots:
                answer = await handler(bytes(body))
        except TimeoutError as error:
            raise HttpRefusal(HTTPStatus.GATEWAY_TIMEOUT, f"no answer within {seconds:g} s") from error
        except InputError as error:
            refusal = HttpRefusal(HTTPStatus.BAD_REQUEST, error.message)
            refusal.logged = "the body is not what this webhook takes"
            raise refusal from error
        finally:
            self._bodies.left(len(body))
        return web.Response(body=answer, content_type=JSON)

    def _check_head(self, request: web.BaseRequest) -> None:
        if request.content_type != JSON:
            raise HttpRefusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"the body must be {JSON}")
        if request.headers.get(hdrs.CONTENT_ENCODING, "identity") != "identity":
            raise HttpRefusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "the body must not be compressed")
        if (request.content_length or 0) > self._limits.max_bytes:
            raise self._too_large()

    def _deadline(self, request: web.BaseRequest) -> float:
        timeout = _GO_SECONDS.fullmatch(request.query.get("timeout", ""))
        seconds = float(timeout[1]) if timeout else 0.0
        return min(seconds or self._limits.handler_seconds, self._limits.handler_seconds)

    async def _read(self, request: web.BaseRequest, body: bytearray, seconds: float) -> None:
        """Read the body into ``body``, where it can be counted after any end."""
        # aiohttp answers this in the routes of an application, which this server does not have.
        if request.headers.get(hdrs.EXPECT, "").lower() == "100-continue" and request.transport is not None:
            request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        deadline = asyncio.timeout(seconds)
        try:
            async with deadline:
                while chunk := await request.content.readany():
                    body += chunk
                    self._bodies.grew(deadline, len(chunk))
                    if len(body) > self._limits.max_bytes:
                        raise self._too_large()
        except TimeoutError as error:
            # Also where ``_Bodies`` ended it, by the same deadline.
            text = f"the body did not arrive within {seconds:g} s"
            raise HttpRefusal(HTTPStatus.REQUEST_TIMEOUT, text, Connection="close") from error
        except (web.RequestPayloadError, ConnectionError) as error:
            raise HttpRefusal(HTTPStatus.BAD_REQUEST, "the body is not complete", Connection="close") from error
        finally:
            self._bodies.arrived(deadline)

    def _too_large(self) -> HttpRefusal:
        limit = f"{self._limits.max_bytes / _MIB:g} MiB"
        return HttpRefusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body is larger than {limit}", Connection="close")


def _showed_certificate(request: web.BaseRequest) -> bool:
    """Whether the caller showed a certificate; one that does not verify ends the handshake."""
    return request.transport is not None and bool(request.transport.get_extra_info("peercert"))


def allow(request: web.BaseRequest, *methods: str) -> None:
    """Refuse any other method: 405, with the allowed ones."""
    if request.method not in methods:
        allowed = ", ".join(methods)
        raise HttpRefusal(HTTPStatus.METHOD_NOT_ALLOWED, f"only {allowed} is answered here", Allow=allowed)
