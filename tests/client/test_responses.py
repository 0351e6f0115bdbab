from __future__ import annotations

from datetime import UTC, datetime

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gangctl.client.responses import decode_object, error_from_body, error_from_status, retry_after_seconds
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
    is_transient,
)
from tests.client.server import status_object
from tests.rows import each


@each(
    ("code", "reason", "expected", "transient"),
    [
        (400, "BadRequest", InvalidError, False),
        (401, "Unauthorized", UnauthorizedError, True),
        (403, "Forbidden", ForbiddenError, False),
        (404, "NotFound", NotFoundError, True),
        (405, "MethodNotAllowed", InvalidError, False),
        (409, "AlreadyExists", AlreadyExistsError, True),
        (409, "Conflict", ConflictError, True),
        (410, "Expired", GoneError, True),
        (410, "Gone", GoneError, True),
        (413, "RequestEntityTooLarge", InvalidError, False),
        (422, "Invalid", InvalidError, False),
        (429, "TooManyRequests", TooManyRequestsError, True),
        (500, "InternalError", ServerError, True),
        (504, "Timeout", ServerError, True),
        (418, "", ApiError, True),
    ],
)
def test_each_status_has_its_class(code: int, reason: str, expected: type[ApiError], transient: bool) -> None:
    body = orjson.dumps(status_object(code, reason, "words", details={"name": "x"}))
    error = error_from_body(code, {}, body)
    assert type(error) is expected
    assert (error.status, error.reason, error.message, error.details) == (code, reason, "words", {"name": "x"})
    assert is_transient(error) is transient


def test_a_watch_error_event_is_the_same_error() -> None:
    error = error_from_status(status_object(410, "Expired", "too old resource version: 1 (2)"))
    assert type(error) is GoneError
    assert error.status == 410


def test_a_proxy_s_page_becomes_a_short_message() -> None:
    error = error_from_body(503, {"retry-after": "7"}, b"<html>\nupstream   down\n" + b"x" * 5000)
    assert type(error) is ServerError
    assert error.retry_after == 7
    assert len(error.message) < 400
    assert "<html> upstream down" in error.message


def test_a_redirect_is_named_without_its_target() -> None:
    error = error_from_body(302, {"location": "https://login/?token=secret"}, b"")
    assert "redirect" in error.message
    assert "secret" not in error.message


def test_retry_after_comes_from_the_header_or_from_details() -> None:
    assert error_from_body(429, {"retry-after": "3"}, b"").retry_after == 3
    body = orjson.dumps(status_object(429, "TooManyRequests", details={"retryAfterSeconds": 5}))
    assert error_from_body(429, {}, body).retry_after == 5
    assert error_from_body(429, {}, b"").retry_after is None


def test_retry_after_is_parsed() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert retry_after_seconds("Thu, 01 Jan 2026 00:01:00 GMT", now) == 60
    assert retry_after_seconds("Wed, 31 Dec 2025 00:00:00 GMT", now) == 0
    assert retry_after_seconds("1.5") == 1.5
    assert retry_after_seconds("-1") == 0
    assert retry_after_seconds("nan") is None
    assert retry_after_seconds("inf") is None
    assert retry_after_seconds("soon") is None


@settings(deadline=None)
@given(st.binary(), st.integers(min_value=300, max_value=599))
def test_an_error_is_made_from_any_body(body: bytes, code: int) -> None:
    assert error_from_body(code, {}, body).status == code


@each("body", [b"", b"not json", b"[1]", b"\xff", b"12"])
def test_a_body_that_is_no_object_is_a_server_error(body: bytes) -> None:
    with pytest.raises(ServerError) as caught:
        decode_object(body, 200)
    assert caught.value.reason == "UnreadableBody"
