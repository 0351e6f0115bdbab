"""Reading an API server's answers: typed errors from ``Status``, ``Retry-After``. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any

import orjson

from gangctl.api.objects import misshapen, object_at, text_at
from gangctl.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    ForbiddenError,
    GoneError,
    InvalidError,
    NotFoundError,
    ServerError,
    TooManyRequestsError,
    UnauthorizedError,
)

# A proxy's error page identifies it in its first lines; more would only fill logs.
_TEXT_LIMIT = 300
# Longer values are capped: they are mistakes, and the server would never be asked again.
_LONGEST_RETRY_AFTER = 300.0


@dataclass(frozen=True, slots=True)
class Response:
    """A successful answer: HTTP status, body, and the texts of its warnings."""

    status: int
    body: bytes = field(repr=False)
    warnings: tuple[str, ...] = ()

    def json(self) -> dict[str, Any]:
        """Decode the body, which must be a JSON object."""
        return decode_object(self.body, self.status)


_WARNING = re.compile(r'299 [^" ]+ "((?:[^"\\]|\\.)*)"')


def warnings_of(headers: Iterable[str]) -> tuple[str, ...]:
    """The texts of ``Warning`` headers (RFC 7234, 5.5), of which one may have several."""
    texts = (text for header in headers for text in _WARNING.findall(header))
    return tuple(re.sub(r"\\(.)", r"\1", text) for text in texts)


def decode_object(body: bytes, status: int) -> dict[str, Any]:
    """Decode one JSON object; anything else did not come from an API server and is a :class:`ServerError`."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise ServerError(status, "UnreadableBody", f"not JSON: {_text(body)}") from error
    if not isinstance(value, dict):
        raise ServerError(status, "UnreadableBody", f"not a JSON object: {_text(body)}")
    # A line of a watch is not an object, but its "object" is: the watch's reader checks each.
    if "object" not in value and (wrong := misshapen(value)):
        raise ServerError(status, "UnreadableBody", f"not an object of an API server: {wrong} has another type")
    return value


def error_from_body(status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """Make the error of an unsuccessful answer; a proxy in front of the server may have written the body."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        value = None
    if isinstance(value, dict) and value.get("kind") == "Status":
        return error_from_status(value, status=status, retry_after=retry_after_seconds(headers.get("retry-after")))
    message = f"HTTP {status} without a Status: {_text(body)}"
    if status in range(300, 400):
        message = f"HTTP {status}: a redirect instead of an API server's answer"
    return _make(status, "", message, {}, retry_after_seconds(headers.get("retry-after")))


def error_from_status(value: Mapping[str, Any], *, status: int = 0, retry_after: float | None = None) -> ApiError:
    """Make the error a ``Status`` object describes, from an answer or from a watch's ERROR event."""
    code = value.get("code")
    details = value.get("details")
    details = dict(details) if isinstance(details, dict) else {}
    if retry_after is None:
        retry_after = retry_after_seconds(details.get("retryAfterSeconds") or None)
    number = status or (code if isinstance(code, int) else 500)
    error = _make(number, str(value.get("reason") or ""), str(value.get("message") or ""), details, retry_after)
    if isinstance(error, GoneError):
        error.following = text_at(object_at(value, "metadata"), "continue")
    return error


def _make(status: int, reason: str, message: str, details: dict[str, Any], retry_after: float | None) -> ApiError:
    class_ = _BY_REASON.get(reason) or _BY_STATUS.get(status)
    if class_ is None:
        class_ = ServerError if status >= 500 else ApiError  # noqa: PLR2004 -- the class of HTTP statuses
    return class_(status, reason, message, details=details, retry_after=retry_after)


_BY_STATUS: dict[int, type[ApiError]] = {
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: GoneError,
    429: TooManyRequestsError,
    # The server will refuse the same request again: bad object, verb, media type or size.
    400: InvalidError,
    405: InvalidError,
    406: InvalidError,
    413: InvalidError,
    415: InvalidError,
    422: InvalidError,
}
# Reasons that are more specific than their status code (k8s.io/apimachinery meta/v1 StatusReason).
_BY_REASON: dict[str, type[ApiError]] = {"AlreadyExists": AlreadyExistsError, "Expired": GoneError}


def retry_after_seconds(value: object, now: datetime | None = None) -> float | None:
    """Read ``Retry-After``: seconds, or an HTTP date (RFC 9110, 10.2.3) against ``now``; None if unreadable."""
    if value is None:
        return None
    try:
        seconds = float(str(value))
    except ValueError:
        moment = date_of(str(value))
        if moment is None:
            return None
        seconds = (moment - (now or datetime.now(UTC))).total_seconds()
    # ``float`` also reads inf and nan.
    return min(max(0.0, seconds), _LONGEST_RETRY_AFTER) if math.isfinite(seconds) else None


@lru_cache(maxsize=4)
def date_of(value: str) -> datetime | None:
    """The time in a header such as ``Date``; None if it is none."""
    # The controller asks for the API server's time with each evaluation, and its answers of one second have one Date.
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _text(body: bytes) -> str:
    text = " ".join(body[:_TEXT_LIMIT].decode("utf-8", "replace").split())
    return repr(text if len(body) <= _TEXT_LIMIT else text + " …")
