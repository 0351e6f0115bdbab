"""Both replicas replaced one after the other while JobSets are created: none is refused, each gets one gang."""

from __future__ import annotations

import ssl
from collections import Counter

import aiohttp
import pytest

from tests.controlplane.api import path_of
from tests.controlplane.wait import NotYet, read_until, wait_for
from tests.jobsets import REF, jobset, rj
from tests.live.cluster import Cluster
from tests.live.gangctl import OWN_NAMESPACE, Gangctl
from tests.live.load import Load
from tests.live.replicas import UNTIL_TOLD_SECONDS, leads, two_replicas

pytestmark = pytest.mark.controlplane


async def test_no_admission_fails_while_replicas_are_replaced(bare: Cluster) -> None:
    async with two_replicas(bare.plane, shutdown_delay=UNTIL_TOLD_SECONDS) as replicas:
        position = bare.plane.audit_position
        async with Load(bare, pace=20) as load:
            await load.more()
            for replica in replicas.both:
                await replicas.leave(replica, load)
                await replica.process.start()
                await replicas.balancer.settled(*replicas.both)
            await load.more()
        assert load.refusals == []

        async def whole() -> bool:
            owners = Counter(
                o["metadata"]["ownerReferences"][0]["name"] for o in (await bare.gangs()).workloads.values()
            )
            # Of one that failed nobody knows whether it was kept.
            if set(load.kept) - owners.keys() or owners != Counter(owners.keys()):
                raise NotYet(f"{owners} instead of {load.kept}")
            return True

        await wait_for(whole, what="one Workload for each JobSet that was kept")
        born = [
            (entry["objectRef"]["resource"], entry["objectRef"]["name"])
            for replica in replicas.both
            for entry in replicas.writes(replica, position)
            if entry["verb"] == "create" and entry["responseStatus"]["code"] == 201
        ]
        assert len(born) == len(set(born))
        for replica in replicas.both:
            assert '"event": "ended"' in replica.log
            assert "Traceback" not in replica.log


async def test_a_terminating_replica_answers_until_a_second_signal(bare: Cluster) -> None:
    async with Gangctl(bare.plane, "--leader-elect=true", "--shutdown-delay", "3600") as gangctl:
        await wait_for(lambda: leads(gangctl), what="it to lead")
        gangctl.process.terminate()

        async def unready() -> bool:
            status, text = await gangctl.fetch("/readyz")
            return status == 503 and "[-]shutdown failed: ending" in text

        await wait_for(unready, what="readiness to be gone")
        for _ in range(3):
            created = await bare.create_jobset(jobset("js", rj("w", 1, 1, 1, mode="Gang")), dry_run=True)
            assert REF in str(created)
        lease = path_of("coordination.k8s.io/v1", "leases", namespace=OWN_NAMESPACE, name="gangctl")

        # Long before the hour is over for which it goes on answering.
        await read_until(
            lambda: bare.api.get(lease), lambda obj: not obj["spec"].get("holderIdentity"), "the Lease to be given back"
        )
        assert await closes_after_its_answer(gangctl)
        assert gangctl.process.running
        await gangctl.end()
        assert '"event": "ended"' in gangctl.log


async def closes_after_its_answer(gangctl: Gangctl) -> bool:
    trust = ssl.create_default_context()
    trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
    async with (
        aiohttp.ClientSession(trust_env=False) as session,
        session.get(f"{gangctl.webhook_url}/healthz", ssl=trust) as answer,
    ):
        return answer.headers.get("Connection") == "close"
