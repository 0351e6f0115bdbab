"""Read a manifest from a URL that ``-f`` names, as kubectl does: with GET, through the proxy of the environment."""

from __future__ import annotations

import io
import socket
import ssl
import time
import urllib.request
from collections.abc import Callable
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, InvalidURL
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit, urlunsplit

from gangctl.errors import InputError, escaped, one_line

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_SILENCE_SECONDS: Final = 10.0
_WHOLE_SECONDS: Final = 60.0


def url_for_messages(url: str) -> str:
    """The URL without a password, and without a query, which may be one."""
    try:
        parts = urlsplit(url)
        return escaped(urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", "")))
    except ValueError:
        return "a URL that cannot be read"


def read_url(url: str, limit: int, clock: Callable[[], float] = time.monotonic) -> bytes:
    """
    Read at most ``limit`` bytes of the answer; redirects are followed.

    InputError for an answer other than 200, for a server that cannot be reached, does not prove its name, or
    takes longer than a minute, in whatever way it does.
    """
    shown = url_for_messages(url)
    end = clock() + _WHOLE_SECONDS

    def left() -> float:
        rest = end - clock()
        if rest <= 0:
            raise TimeoutError
        return min(_SILENCE_SECONDS, rest)

    # It leaves out its own handlers of both schemes for these, and keeps those of proxies and redirects.
    opener = urllib.request.build_opener(_Http(left), _Https(left))
    try:
        # Its schemes are checked by the caller, and a redirect to a file is refused by urllib.
        with opener.open(url) as answer:
            return cast("bytes", answer.read(limit))
    except HTTPError as error:
        with error:
            raise InputError(f"{shown}: HTTP {error.code} {one_line(error.reason, 80)}") from error
    except (OSError, HTTPException, ValueError) as error:
        # Sockets without time left fail in several ways.
        if clock() >= end:
            raise InputError(f"{shown}: not read to its end within {_WHOLE_SECONDS:g} s") from error
        raise InputError(f"{shown}: cannot be read: {_reason(error)}") from error


class _Handler(urllib.request.AbstractHTTPHandler):
    """Bounds whatever waits for the server: connections, proxies, headers, chunks, the body."""

    def __init__(self, left: Callable[[], float]) -> None:
        super().__init__()
        self._left = left

    def do_open(self, http_class: Any, req: Any, **arguments: Any) -> HTTPResponse:
        return super().do_open(partial(self._connection, http_class), req, **arguments)

    def _connection(self, http_class: type[HTTPConnection], host: str, **arguments: Any) -> HTTPConnection:
        connection = http_class(host, **{**arguments, "timeout": self._left()})
        connection.response_class = self._response  # type: ignore[assignment]
        return connection

    def _response(self, sock: socket.socket, **arguments: Any) -> HTTPResponse:
        response = HTTPResponse(sock, **arguments)
        # Nothing has been read yet: detach would lose what is in the buffer.
        response.fp = io.BufferedReader(_Timed(response.fp.detach(), sock, self._left))
        return response


class _Http(_Handler, urllib.request.HTTPHandler):
    pass


class _Https(_Handler, urllib.request.HTTPSHandler):
    pass


class _Timed(io.RawIOBase):
    """What a socket receives, each piece within ``left()`` seconds: a timeout of the socket is for one piece only."""

    def __init__(self, raw: io.RawIOBase, sock: socket.socket, left: Callable[[], float]) -> None:
        self._raw, self._sock, self._left = raw, sock, left

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int | None:
        self._sock.settimeout(self._left())
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


def _reason(error: Exception) -> str:
    """What the system or OpenSSL says, without Python's names."""
    cause = error.reason if isinstance(error, URLError) else error
    # From the special to the general: all of these are OSErrors.
    if isinstance(cause, ssl.SSLCertVerificationError):
        return cause.verify_message
    if isinstance(cause, TimeoutError):
        return f"no answer within {_SILENCE_SECONDS:g} s"
    if isinstance(cause, ssl.SSLError):
        return (cause.reason or "the server speaks no TLS").lower().replace("_", " ")
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror.lower()
    valid = isinstance(cause, HTTPException) and not isinstance(cause, InvalidURL)
    return "the server does not answer with HTTP" if valid else "not a valid URL"
