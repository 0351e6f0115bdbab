"""The TLS listener for webhooks: JSON bytes in, JSON bytes out, with all HTTP handling around the handlers.

Any client that can reach the port can send anything, so everything that a caller chooses is bounded: size, time,
concurrency. The content of a request is never logged.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from aiohttp import hdrs, web

from gangctl.errors import InputError
from gangctl.runtime.listener import Listener, ListenerOptions, Refusal, text_response

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

    def grew(self, deadline: asyncio.Timeout, count: int) -> None:
        """Count received bytes of the body that has this deadline."""
        self._held += count
        self._arriving[deadline] = self._arriving.get(deadline, 0) + count
        if self._held > self._most:
            largest = max(self._arriving, key=self._arriving.__getitem__)
            self._arriving.pop(largest)
            if not largest.expired():
                largest.reschedule(0)

    def arrived(self, deadline: asyncio.Timeout) -> None:
        """This body is complete."""
        self._arriving.pop(deadline, None)

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
        if request.path == HEALTH_PATH:
            _allow(request, hdrs.METH_GET, hdrs.METH_HEAD)
            return text_response(HTTPStatus.OK, "ok")
        if self._known_clients and not _showed_certificate(request):
            raise Refusal(HTTPStatus.FORBIDDEN, "a client certificate is required here", Connection="close")
        handler = self._routes.get(request.path)
        if handler is None:
            raise Refusal(HTTPStatus.NOT_FOUND, "no webhook at this path")
        _allow(request, hdrs.METH_POST)
        self._check_head(request)
        seconds, began = self._deadline(request), self._clock()
        body = bytearray()
        try:
            await self._read(request, body, min(seconds, self._limits.read_seconds))
            async with asyncio.timeout(seconds - (self._clock() - began)), self._slots:
                answer = await handler(bytes(body))
        except TimeoutError as error:
            raise Refusal(HTTPStatus.GATEWAY_TIMEOUT, f"no answer within {seconds:g} s") from error
        except InputError as error:
            refusal = Refusal(HTTPStatus.BAD_REQUEST, error.message)
            refusal.logged = "the body is not what this webhook takes"
            raise refusal from error
        finally:
            self._bodies.left(len(body))
        return web.Response(body=answer, content_type=JSON)

    def _check_head(self, request: web.BaseRequest) -> None:
        if request.content_type != JSON:
            raise Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"the body must be {JSON}")
        if request.headers.get(hdrs.CONTENT_ENCODING, "identity") != "identity":
            raise Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "the body must not be compressed")
        if (request.content_length or 0) > self._limits.max_bytes:
            raise self._too_large()

    def _deadline(self, request: web.BaseRequest) -> float:
        timeout = _GO_SECONDS.fullmatch(request.query.get("timeout", ""))
        seconds = float(timeout[1]) if timeout else 0.0
        return min(seconds or self._limits.handler_seconds, self._limits.handler_seconds)

    async def _read(self, request: web.BaseRequest, body: bytearray, seconds: float) -> None:
        """Read the body into ``body``, where it can be counted after any end."""
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
            text = f"the body did not arrive within {seconds:g} s"
            raise Refusal(HTTPStatus.REQUEST_TIMEOUT, text, Connection="close") from error
        except (web.RequestPayloadError, ConnectionError) as error:
            raise Refusal(HTTPStatus.BAD_REQUEST, "the body is not complete", Connection="close") from error
        finally:
            self._bodies.arrived(deadline)

    def _too_large(self) -> Refusal:
        limit = f"{self._limits.max_bytes / _MIB:g} MiB"
        return Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body is larger than {limit}", Connection="close")


def _showed_certificate(request: web.BaseRequest) -> bool:
    """Whether the caller showed a certificate; one that does not verify ends the handshake."""
    return request.transport is not None and bool(request.transport.get_extra_info("peercert"))


def _allow(request: web.BaseRequest, *methods: str) -> None:
    if request.method not in methods:
        allowed = ", ".join(methods)
        raise Refusal(HTTPStatus.METHOD_NOT_ALLOWED, f"only {allowed} is answered here", Allow=allowed)
