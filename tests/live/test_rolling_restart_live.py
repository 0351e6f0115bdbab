"""Both replicas replaced one after the other while JobSets are created: none is refused, each gets one gang."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.controlplane.wait import NotYet, wait_for
from tests.live.cluster import Cluster
from tests.live.load import Load
from tests.live.replicas import two_replicas

pytestmark = [pytest.mark.controlplane, pytest.mark.xdist_group("rough")]


async def test_no_admission_fails_while_replicas_are_replaced(rough: Cluster) -> None:
    async with two_replicas(rough.plane) as replicas:
        position = rough.plane.audit_position
        async with Load(rough, pace=20) as load:
            await load.more()
            for replica in replicas.both:
                await replica.process.stop(grace=20)
                await load.more()
                await replica.process.start()
                await replicas.balancer.settled(*replicas.both)
            await load.more()
        assert load.failures == []

        async def whole() -> bool:
            owners = Counter(
                o["metadata"]["ownerReferences"][0]["name"] for o in (await rough.gangs()).workloads.values()
            )
            if owners != Counter(load.kept):
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
