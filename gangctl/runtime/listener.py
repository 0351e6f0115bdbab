"""A listening HTTP server: binds, answers, counts requests in flight, and stops without breaking any of them."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, Self

import structlog
from aiohttp import web

_log = structlog.get_logger(__name__)

Handler = Callable[[web.BaseRequest], Awaitable[web.Response]]

_TEXT: Final = "text/plain; charset=utf-8"
# How much of a path is logged: enough to recognise it, too little to carry data.
_SHOWN_PATH: Final = 100
# How long to wait for handlers that outlived the drain and were cancelled.
_CUT_OFF_SECONDS: Final = 0.1


class Refusal(Exception):  # noqa: N818 - it is an answer
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

    A :class:`Refusal` from the handler is the answer; any other exception is logged with its traceback and answered
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
        """Do nothing yet; ``name`` is for logs, port 0 is any free one."""
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
        """The actual host and port; RuntimeError while it does not listen."""
        if self._server is None or not self._server.sockets:
            raise RuntimeError("not listening")
        host, port = self._server.sockets[0].getsockname()[:2]
        return str(host), int(port)

    @property
    def listening(self) -> bool:
        """Whether it accepts connections: between start and stop."""
        return self._server is not None and bool(self._server.sockets)

    @property
    def in_flight(self) -> int:
        """How many requests are being answered now."""
        return self._in_flight

    async def start(self) -> None:
        """Listen; OSError when the address is not available."""
        server = web.Server(
            self._answer,
            access_log=None,
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
        except Refusal as refusal:
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
