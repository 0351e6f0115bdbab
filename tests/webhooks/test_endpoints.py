"""Endpoints from bytes to bytes: synchronous and asynchronous handlers, and answers before gangctl is ready."""

from __future__ import annotations

import asyncio
from http import HTTPStatus

import orjson
import pytest

import gangctl.webhooks.review
from gangctl.errors import InputError
from gangctl.runtime.server import HttpRefusal
from gangctl.webhooks.review import MAX_VALUES, AdmissionRequest, AdmissionResponse, build_endpoints
from tests.webhooks.test_review import review


async def ready() -> None:
    return


def at_once(_: AdmissionRequest) -> AdmissionResponse:
    return AdmissionResponse.allow(warnings=["at once"])


async def later(_: AdmissionRequest) -> AdmissionResponse:
    await asyncio.sleep(0)
    return AdmissionResponse.allow(warnings=["later"])


async def test_synchronous_and_asynchronous_handlers_answer() -> None:
    seen: list[tuple[str, str]] = []
    built = build_endpoints({"/a": at_once, "/b": later}, ready, lambda path, verdict, _: seen.append((path, verdict)))
    bodies = [orjson.loads(await built[path](orjson.dumps(review()))) for path in ("/a", "/b")]
    assert [body["response"]["warnings"] for body in bodies] == [["at once"], ["later"]]
    assert seen == [("/a", "allowed"), ("/b", "allowed")]


async def test_what_is_too_large_to_be_read_can_have_an_answer() -> None:
    seen: list[AdmissionRequest] = []

    def oversized(request: AdmissionRequest) -> AdmissionResponse:
        seen.append(request)
        return AdmissionResponse.deny(422, "Invalid", "too large")

    values = {"spec": {"values": [0] * MAX_VALUES}}
    sent = review()
    sent["request"] |= {"object": values, "oldObject": values}
    body = orjson.dumps(sent)
    answer = orjson.loads(
        await build_endpoints({"/a": at_once}, ready, lambda *_: None, oversized={"/a": oversized})["/a"](body)
    )
    assert (answer["response"]["uid"], answer["response"]["allowed"]) == (sent["request"]["uid"], False)
    (request,) = seen
    assert (request.namespace, request.operation) == (sent["request"]["namespace"], sent["request"]["operation"])
    with pytest.raises(InputError, match="more than 200000 values"):
        await build_endpoints({"/a": at_once}, ready, lambda *_: None)["/a"](body)


async def test_before_it_is_ready_a_path_gives_its_configured_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gangctl.webhooks.review, "WAIT_SECONDS", 0.01)
    never = asyncio.Event()
    seen: list[str] = []

    def unready(path: str) -> AdmissionResponse:
        if path == "/c":
            raise HttpRefusal(HTTPStatus.SERVICE_UNAVAILABLE, "not yet")
        return AdmissionResponse.allow() if path == "/a" else AdmissionResponse.deny(503, "ServiceUnavailable", "")

    routes = dict.fromkeys(("/a", "/b", "/c"), at_once)
    built = build_endpoints(routes, never.wait, lambda _path, verdict, _: seen.append(verdict), unready)
    bodies = [orjson.loads(await built[path](orjson.dumps(review()))) for path in ("/a", "/b")]
    assert [body["response"]["allowed"] for body in bodies] == [True, False]
    with pytest.raises(HttpRefusal):
        await built["/c"](orjson.dumps(review()))
    assert seen == ["unready", "unready", "unready"]
