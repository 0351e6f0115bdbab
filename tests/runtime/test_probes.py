"""Probes name the check that fails; metrics are served in the requested format."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, Counter

from gangctl.runtime.probes import Check, ProbeServer
from tests.rows import each

PROBLEMS: dict[str, str | None] = {"caches": None, "webhooks": None}


async def later() -> str | None:
    return PROBLEMS["webhooks"]


async def never() -> str | None:
    await asyncio.Event().wait()
    return None


def broken() -> str | None:
    raise KeyError("object")


@pytest.fixture
async def probes() -> AsyncIterator[str]:
    registry = CollectorRegistry()
    Counter("gangctl_things", "Things.", ["kind"], registry=registry).labels("a").inc()
    PROBLEMS.update(caches=None, webhooks=None)
    ready: dict[str, Check] = {"caches": lambda: PROBLEMS["caches"], "webhooks": later}
    async with ProbeServer(("127.0.0.1", 0), ready=lambda: ready, registry=registry) as server:
        yield "http://{}:{}".format(*server.address)


async def get(url: str, method: str = "GET", **headers: str) -> tuple[int, str, str]:
    async with aiohttp.ClientSession() as session, session.request(method, url, headers=headers) as response:
        return response.status, await response.text(), response.headers["Content-Type"]


async def test_readyz_lists_the_checks_if_verbose(probes: str) -> None:
    assert (await get(f"{probes}/readyz"))[:2] == (200, "ok\n")
    verbose = "[+]caches ok\n[+]webhooks ok\nreadyz check passed\n"
    assert (await get(f"{probes}/readyz?verbose"))[:2] == (200, verbose)


async def test_a_failed_readyz_names_the_check_and_the_reason(probes: str) -> None:
    PROBLEMS["webhooks"] = "caBundle of gangctl-gangs\n is not ours"
    status, text, _ = await get(f"{probes}/readyz")
    assert status == 503
    assert text == "[+]caches ok\n[-]webhooks failed: caBundle of gangctl-gangs is not ours\nreadyz check failed\n"
    assert (await get(f"{probes}/readyz/caches"))[:2] == (200, "ok\n")
    assert (await get(f"{probes}/readyz/webhooks"))[0] == 503


async def test_a_check_that_hangs_or_raises_has_failed() -> None:
    ready: dict[str, Check] = {"broken": broken, "never": never}
    async with ProbeServer(("127.0.0.1", 0), ready=lambda: ready, check_seconds=0.05) as server:
        status, text, _ = await get("http://{}:{}/readyz".format(*server.address))
    assert status == 503
    assert "[-]broken failed: the check itself failed (KeyError)\n" in text
    assert "[-]never failed: no answer within 0.05 s\n" in text


async def test_healthz_without_checks_succeeds() -> None:
    async with ProbeServer(("127.0.0.1", 0)) as server:
        url = "http://{}:{}".format(*server.address)
        assert (await get(f"{url}/healthz"))[:2] == (200, "ok\n")
        assert (await get(f"{url}/metrics"))[0] == 404


@each(
    ("accept", "content_type", "end"),
    [
        ("", "text/plain; version=0.0.4; charset=utf-8", ""),
        ("application/openmetrics-text;version=1.0.0", "application/openmetrics-text; version=1.0.0", "# EOF\n"),
        ("text/html", "text/plain; version=0.0.4; charset=utf-8", ""),
    ],
)
async def test_metrics_are_served_in_the_requested_format(
    probes: str, accept: str, content_type: str, end: str
) -> None:
    status, text, given = await get(f"{probes}/metrics", Accept=accept)
    assert status == 200
    assert 'gangctl_things_total{kind="a"} 1.0\n' in text
    assert text.endswith(end)
    assert given.startswith(content_type)


@each(
    ("path", "method", "status"),
    [("/", "GET", 404), ("/readyz/nothing", "GET", 404), ("/healthz", "POST", 405), ("/metrics/", "GET", 404)],
)
async def test_unknown_paths_and_methods_are_refused(probes: str, path: str, method: str, status: int) -> None:
    assert (await get(probes + path, method))[0] == status


async def test_a_head_request_has_no_body(probes: str) -> None:
    assert (await get(f"{probes}/readyz", "HEAD"))[:2] == (200, "")


async def test_large_metrics_are_compressed() -> None:
    registry = CollectorRegistry()
    counter = Counter("gangctl_many", "Many.", ["number"], registry=registry)
    for number in range(20_000):
        counter.labels(f"{number:05}")
    async with ProbeServer(("127.0.0.1", 0), registry=registry) as server:
        _, text, _ = await get("http://{}:{}/metrics".format(*server.address), **{"Accept-Encoding": "gzip"})
    assert text.count("gangctl_many_total") == 20_000 + 2
