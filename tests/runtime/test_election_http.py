"""Leader election over HTTP and on a real clock."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from gangctl.client.client import Client, Settings
from gangctl.client.credentials import StaticCredentials
from gangctl.client.transport import Transport
from gangctl.errors import LeadershipLostError
from gangctl.runtime.election import ElectionOptions, LeaseElection
from tests.client.clock import settle
from tests.client.server import ScriptedServer, hang, obj, status

PATH = "/apis/coordination.k8s.io/v1/namespaces/ns/leases"


async def test_over_http_a_server_that_stops_answering_ends_leadership_in_time(server: ScriptedServer) -> None:
    lease = {"metadata": {"name": "x", "namespace": "ns", "resourceVersion": "1"}, "spec": {"holderIdentity": "a"}}

    # By what has been asked and not by how often: what comes late is given up and asked again.
    async def answer(request: web.Request) -> web.StreamResponse:
        if server.count("PUT") >= 2:
            return await hang()(request)
        there = server.count("POST") > 0
        return await (obj(lease) if there else status(404, "NotFound"))(request)

    server.on("GET", f"{PATH}/x", answer)
    server.on("POST", PATH, obj(lease, code=201))
    server.on("PUT", f"{PATH}/x", answer)
    options = ElectionOptions(30, 6, 0.1, 2)
    async with Transport(StaticCredentials(server.url)) as transport:
        election = LeaseElection(
            Client(transport, Settings(throttled=False)),
            name="x",
            namespace="ns",
            identity="a",
            options=options,
        )
        loop = asyncio.get_running_loop()
        with pytest.raises(LeadershipLostError):
            await election.run(asyncio.Event().wait)  # type: ignore[arg-type]
        # After the deadline there is one call, which gives the Lease back. What nobody bounds takes 30 s, or for ever.
        assert loop.time() - election._deadline < options.call_timeout_seconds + 5
    assert server.count("PUT") >= 2
    await settle()
