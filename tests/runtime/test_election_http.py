"""Leader election over HTTP, in virtual time."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from gangctl.client.client import Client, Settings
from gangctl.client.transport import Transport
from gangctl.errors import LeadershipLostError
from gangctl.runtime.election import ElectionOptions, LeaseElection
from tests.client.clock import settle
from tests.client.server import ScriptedServer, hang, obj, status
from tests.credentials import StaticCredentials
from tests.faults import virtual_time

PATH = "/apis/coordination.k8s.io/v1/namespaces/ns/leases"
OPTIONS = ElectionOptions(lease_seconds=30, renew_deadline_seconds=6, retry_seconds=0.1, call_timeout_seconds=2)


async def elected_until_the_server_hangs() -> tuple[int, float]:
    """How often the Lease was renewed, and how long after the deadline the election ended."""
    lease = {"metadata": {"name": "x", "namespace": "ns", "resourceVersion": "1"}, "spec": {"holderIdentity": "a"}}
    async with ScriptedServer() as server, Transport(StaticCredentials(server.url)) as transport:

        async def answer(request: web.Request) -> web.StreamResponse:
            if server.count("PUT") >= 2:
                return await hang()(request)
            there = server.count("POST") > 0
            return await (obj(lease) if there else status(404, "NotFound"))(request)

        server.on("GET", f"{PATH}/x", answer)
        server.on("POST", PATH, obj(lease, code=201))
        server.on("PUT", f"{PATH}/x", answer)
        client = Client(transport, Settings(throttled=False))
        election = LeaseElection(client, name="x", namespace="ns", identity="a", options=OPTIONS)
        with pytest.raises(LeadershipLostError):
            await election.run(asyncio.Event().wait)  # type: ignore[arg-type]
        late = asyncio.get_running_loop().time() - election._deadline
        renewed = server.count("PUT")
        await settle()
    return renewed, late


def test_a_server_that_stops_answering_ends_leadership_in_time() -> None:
    renewed, late = virtual_time.run(elected_until_the_server_hangs())
    assert renewed >= 2
    assert late == pytest.approx(OPTIONS.call_timeout_seconds, abs=0.5), "one call, which gives the Lease back"
