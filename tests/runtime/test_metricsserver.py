"""Metrics are served to clients that the API server authenticates and authorizes, and to no others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, Counter
from structlog.testing import capture_logs

from gangctl.client.resources import SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS, Resource
from gangctl.errors import ApiError, ForbiddenError, InvalidError, UnavailableError
from gangctl.runtime.metricsserver import AccessReviewer, MetricsServer, ReviewOptions
from gangctl.runtime.server import HttpRefusal
from gangctl.runtime.tls import ServerTls, client_context
from tests.client.clock import VirtualClock, settle
from tests.runtime.authority import bundle, pair

PROMETHEUS = "system:serviceaccount:monitoring:prometheus"


class ApiServer:
    """Answers reviews as an API server does, with the users and rights that a test gives it."""

    def __init__(self) -> None:
        self.users: dict[str, dict[str, Any]] = {
            "good": {"username": PROMETHEUS, "uid": "u", "groups": ["system:serviceaccounts"], "extra": {"k": ["v"]}},
            "stranger": {"username": "mallory"},
        }
        self.readers = {PROMETHEUS}
        self.asked: list[tuple[str, Mapping[str, Any]]] = []
        self.trouble: ApiError | None = None
        self.open = asyncio.Event()
        self.open.set()

    async def create(
        self, resource: Resource, body: Mapping[str, Any], *, timeout_seconds: float | None = None
    ) -> dict[str, Any]:
        assert timeout_seconds is not None
        assert (body["apiVersion"], body["kind"]) == (resource.api_version, resource.kind)
        self.asked.append((resource.plural, body["spec"]))
        await self.open.wait()
        if self.trouble is not None:
            raise self.trouble
        if resource is TOKEN_REVIEWS:
            user = self.users.get(body["spec"]["token"])
            return {"status": {"error": "no such token"} if user is None else {"authenticated": True, "user": user}}
        assert resource is SUBJECT_ACCESS_REVIEWS
        return {"status": {"allowed": body["spec"]["user"] in self.readers}}

    def count(self, plural: str = "tokenreviews") -> int:
        return [name for name, _ in self.asked].count(plural)


@pytest.fixture
def api() -> ApiServer:
    return ApiServer()


@pytest.fixture
def reviewer(api: ApiServer, clock: VirtualClock) -> AccessReviewer:
    return AccessReviewer(api, "/metrics", hint="bind ClusterRole reader to it", clock=clock)  # type: ignore[arg-type]  # creates reviews


@pytest.fixture
async def metrics(reviewer: AccessReviewer) -> AsyncIterator[tuple[str, aiohttp.ClientSession]]:
    registry = CollectorRegistry()
    Counter("gangctl_things", "Things.", registry=registry).inc()
    tls = ServerTls(pair("ca"))
    server = MetricsServer(("127.0.0.1", 0), tls.context, reviewer, registry)
    connector = aiohttp.TCPConnector(ssl=client_context(bundle("ca")))
    async with server, aiohttp.ClientSession(connector=connector) as session:
        yield f"https://localhost:{server.address[1]}", session


async def get(
    metrics: tuple[str, aiohttp.ClientSession], *authorization: str, path: str = "/metrics", method: str = "GET"
) -> tuple[int, str, str]:
    url, session = metrics
    headers = [("Authorization", each) for each in authorization]
    async with session.request(method, url + path, headers=headers) as answer:
        return answer.status, await answer.text(), answer.headers.get("WWW-Authenticate", "")


async def test_an_authorized_client_gets_the_metrics(
    metrics: tuple[str, aiohttp.ClientSession], api: ApiServer
) -> None:
    status, text, _ = await get(metrics, "Bearer good")
    assert status == 200
    assert "gangctl_things_total 1.0\n" in text
    assert (await get(metrics, "bearer good"))[0] == 200
    assert (await get(metrics, "Bearer good", method="HEAD"))[:2] == (200, "")
    ((_, token), (_, access)) = api.asked
    assert token == {"token": "good"}
    assert access == {
        "user": PROMETHEUS,
        "uid": "u",
        "groups": ["system:serviceaccounts"],
        "extra": {"k": ["v"]},
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
    }


@pytest.mark.parametrize("given", [(), ("Basic good",), ("Bearer",), ("good",), ("Bearer good", "Bearer good")])
async def test_a_request_without_a_token_is_refused_without_a_review(
    given: tuple[str, ...], metrics: tuple[str, aiohttp.ClientSession], api: ApiServer
) -> None:
    status, text, challenge = await get(metrics, *given)
    assert (status, text) == (401, "a bearer token of this cluster is required\n")
    assert challenge == 'Bearer realm="gangctl"'
    assert api.asked == []


async def test_an_expired_token_is_refused(metrics: tuple[str, aiohttp.ClientSession], api: ApiServer) -> None:
    status, text, challenge = await get(metrics, "Bearer expired")
    assert (status, text) == (401, "this token does not count here, or not any more\n")
    assert challenge == 'Bearer realm="gangctl"'
    assert api.count("subjectaccessreviews") == 0


async def test_a_refusal_names_the_missing_role_binding(metrics: tuple[str, aiohttp.ClientSession]) -> None:
    status, text, challenge = await get(metrics, "Bearer stranger")
    assert (status, text) == (403, 'user "mallory" may not get /metrics: bind ClusterRole reader to it\n')
    assert challenge == ""


@pytest.mark.parametrize(("path", "method", "status"), [("/", "GET", 404), ("/healthz", "GET", 404)])
async def test_other_paths_and_methods_are_refused(
    path: str, method: str, status: int, metrics: tuple[str, aiohttp.ClientSession], api: ApiServer
) -> None:
    assert (await get(metrics, "Bearer good", path=path, method=method))[0] == status
    assert (await get(metrics, "Bearer good", method="POST"))[0] == 405
    assert api.asked == []


@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        (UnavailableError(0, "", "refused"), "UnavailableError"),
        (ForbiddenError(403, "Forbidden", "cannot create tokenreviews"), "cannot create tokenreviews"),
        (InvalidError(400, "BadRequest", 'cannot read {"token": "good"}'), "InvalidError"),
    ],
    ids=["away", "no right", "odd"],
)
async def test_metrics_are_not_served_when_the_review_fails(
    trouble: ApiError, said: str, metrics: tuple[str, aiohttp.ClientSession], api: ApiServer
) -> None:
    api.trouble = trouble
    with capture_logs() as logs:
        for _ in range(2):
            status, text, _ = await get(metrics, "Bearer good")
            assert status == 503
            assert text == "the API server does not say who you are: try again later, and see the log of gangctl\n"
    assert [each["error"] for each in logs if each["event"].startswith("no client")] == [said]
    assert "good" not in str(logs)
    api.trouble = None
    assert (await get(metrics, "Bearer good"))[0] == 200


async def test_no_client_can_connect_before_a_certificate_is_loaded(reviewer: AccessReviewer) -> None:
    tls = ServerTls()
    connector = aiohttp.TCPConnector(ssl=client_context(bundle("ca")))
    async with (
        MetricsServer(("127.0.0.1", 0), tls.context, reviewer, CollectorRegistry()) as server,
        aiohttp.ClientSession(connector=connector) as session,
    ):
        metrics = f"https://localhost:{server.address[1]}", session
        with pytest.raises(aiohttp.ClientConnectorError):
            await get(metrics, "Bearer good")
        tls.load(pair("ca"))
        assert (await get(metrics, "Bearer good"))[0] == 200


class TestReviewer:
    async def refused(self, reviewer: AccessReviewer, token: str) -> int:
        with pytest.raises(HttpRefusal) as caught:
            await reviewer.admit(f"Bearer {token}")
        return int(caught.value.status)

    async def test_reviews_are_cached_for_a_short_time(
        self, reviewer: AccessReviewer, api: ApiServer, clock: VirtualClock
    ) -> None:
        for _ in range(3):
            await reviewer.admit("Bearer good")
            clock.tick(9)
        assert len(api.asked) == 2
        api.readers.clear()
        clock.tick(4)
        assert await self.refused(reviewer, "good") == 403
        assert len(api.asked) == 4
        api.readers.add(PROMETHEUS)
        clock.tick(9)
        assert await self.refused(reviewer, "good") == 403
        clock.tick(2)
        await reviewer.admit("Bearer good")

    async def test_a_failed_review_is_not_cached(self, reviewer: AccessReviewer, api: ApiServer) -> None:
        api.trouble = UnavailableError(0, "", "refused")
        assert await self.refused(reviewer, "good") == 503
        api.trouble = None
        await reviewer.admit("Bearer good")

    async def test_concurrent_requests_with_one_token_cost_one_review(
        self, reviewer: AccessReviewer, api: ApiServer
    ) -> None:
        api.open.clear()
        callers = [asyncio.create_task(reviewer.admit("Bearer good")) for _ in range(100)]
        await settle()
        # A client that disconnects does not cancel the review of the others.
        callers[0].cancel()
        api.open.set()
        results = await asyncio.gather(*callers, return_exceptions=True)
        assert [type(each) for each in results[:2]] == [asyncio.CancelledError, type(None)]
        assert set(results[1:]) == {None}
        assert api.count() == 1

    async def test_the_number_of_cached_reviews_is_bounded(self, api: ApiServer, clock: VirtualClock) -> None:
        options = ReviewOptions(most_kept=3, qps=1e9, burst=100)
        reviewer = AccessReviewer(api, "/metrics", options=options, clock=clock)  # type: ignore[arg-type]  # creates reviews
        for number in range(10):
            assert await self.refused(reviewer, f"guess-{number}") == 401
        assert len(reviewer._answers) == 3
        assert await self.refused(reviewer, "guess-9") == 401
        assert api.count() == 10
        assert await self.refused(reviewer, "guess-0") == 401
        assert api.count() == 11

    async def test_guessed_tokens_are_rate_limited_and_do_not_block_known_clients(
        self, api: ApiServer, clock: VirtualClock
    ) -> None:
        options = ReviewOptions(qps=2, burst=4, most_waiting=8)
        reviewer = AccessReviewer(api, "/metrics", options=options, clock=clock)  # type: ignore[arg-type]  # creates reviews
        await reviewer.admit("Bearer good")
        clock.tick(40)
        callers = [asyncio.create_task(reviewer.admit(f"Bearer guess-{number}")) for number in range(100)]
        await settle()
        assert api.count() == 1 + 4
        sent_away = [each for each in callers if each.done() and "too many" in str(each.exception())]
        assert len(sent_away) == 92
        callers += [asyncio.create_task(reviewer.admit(f"Bearer more-{number}")) for number in range(100)]
        await settle()
        known = asyncio.create_task(reviewer.admit("Bearer good"))
        await clock.advance(10)
        assert known.done()
        assert known.exception() is None
        assert api.count() == 1 + 12 + 1
        await asyncio.gather(*callers, return_exceptions=True)
