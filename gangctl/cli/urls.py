"""Read a manifest from a URL that ``-f`` names, as kubectl does: with GET, through the proxy of the environment."""

from __future__ import annotations

import ssl
import urllib.request
from concurrent.futures import Future
from http.client import HTTPException, InvalidURL
from threading import Thread
from typing import Final
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit, urlunsplit

from gangctl.errors import InputError, escaped, one_line

_SILENCE_SECONDS: Final = 10.0
_WHOLE_SECONDS: Final = 60.0


def url_for_messages(url: str) -> str:
    """The URL without a password, and without a query, which may be one."""
    try:
        parts = urlsplit(url)
        return escaped(urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", "")))
    except ValueError:
        return "a URL that cannot be read"


def read_url(url: str, limit: int) -> bytes:
    """
    Read at most ``limit`` bytes of the answer; redirects are followed.

    InputError for an answer other than 200, for a server that cannot be reached, does not prove its name, or
    takes longer than a minute, in whatever way it does.
    """
    shown = url_for_messages(url)
    future: Future[bytes] = Future()

    def read() -> None:
        try:
            # Its schemes are checked by the caller, and a redirect to a file is refused by urllib.
            with urllib.request.urlopen(url, timeout=_SILENCE_SECONDS) as answer:  # noqa: S310 -- see above
                future.set_result(answer.read(limit))
        except Exception as error:  # noqa: BLE001 -- the caller raises it
            future.set_exception(error)

    # A timeout of urllib is for one piece of what a server sends, and the process does not wait for such a thread.
    Thread(target=read, daemon=True).start()
    try:
        return future.result(_WHOLE_SECONDS)
    except HTTPError as error:
        with error:
            raise InputError(f"{shown}: HTTP {error.code} {one_line(error.reason, 80)}") from error
    except (OSError, HTTPException, ValueError) as error:
        if not future.done():
            raise InputError(f"{shown}: not read to its end within {_WHOLE_SECONDS:g} s") from error
        raise InputError(f"{shown}: cannot be read: {_reason(error)}") from error


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
