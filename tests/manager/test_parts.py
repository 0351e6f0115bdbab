"""Which parts there are, by the flags, and how they are connected."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from gangctl.api.jobset import JobSet, read_jobset
from gangctl.client.client import Client
from gangctl.client.transport import Transport
from gangctl.errors import ConfigError
from gangctl.gang.desired import Lifecycle
from gangctl.manager.gangs import Clients, Dependencies
from gangctl.manager.parts import Parts, compose
from gangctl.manager.settings import load_settings
from gangctl.runtime.events import EventRecorder
from gangctl.runtime.metrics import RuntimeMetrics
from gangctl.runtime.shards import Share, shard_of
from tests.credentials import StaticCredentials
from tests.jobsets import jobset, rj


def composed(**flags: Any) -> Parts:
    client = Client(Transport(StaticCredentials("http://127.0.0.1:1", token="none")))
    registry = CollectorRegistry()
    outside: dict[str, Any] = {
        "clients": Clients(client, client),
        "applier": client,
        "settings": load_settings(flags, None),
        "own_namespace": "gangctl-system",
        "recorder": EventRecorder(client, instance="test"),
        "metrics": RuntimeMetrics(registry),
        "registry": registry,
        "may_register": lambda: True,
        "share": Share(flags.get("shards", 1)),
    }
    return compose(Dependencies(**outside))


def suspended(*, queue: str) -> JobSet:
    raw = jobset("js", rj("w", 1, 1, 1, mode="Gang"), suspend=True, uid="u")
    raw["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": queue}
    return read_jobset(raw)[0]


async def test_kueue_is_followed_by_default() -> None:
    parts = composed()
    assert parts.queues is not None
    assert parts.queues.watch in parts.watching()
    assert parts.queues.lead in parts.leading()
    assert parts.queues.unready() == "waiting for kueue"


async def test_kueue_can_be_switched_off() -> None:
    parts = composed(kueue="off")
    assert parts.queues is None
    assert len(parts.watching()) == 2
    assert len(parts.leading()) == 3
    assert parts.policies is not None
    assert parts.policies.fit(jobset("js", rj("w")), "t")["verdict"] == "unknown"


async def test_a_suspended_jobset_keeps_its_groups_if_kueue_is_present() -> None:
    queues = composed().queues
    assert queues is not None
    jobset = suspended(queue="q")
    assert queues.suspended(jobset) is Lifecycle.KEPT
    queues.sources.presence.present = False
    assert queues.suspended(jobset) is Lifecycle.RETIRED
    queues.sources.presence.present = True
    assert queues.suspended(suspended(queue="")) is Lifecycle.RETIRED
    queues.early = lambda _: True
    assert queues.suspended(jobset) is Lifecycle.PRESENT


async def test_readiness_is_followed_by_default() -> None:
    parts = composed()
    assert parts.readiness is not None
    assert parts.readiness.lead in parts.leading()
    assert composed(readiness="off").readiness is None


async def test_pathwaysjobs_are_followed_by_the_leader_if_switched_on() -> None:
    assert composed().pathways is None
    parts = composed(pathways=True)
    assert parts.pathways is not None
    assert parts.pathways.lead in parts.leading()


def test_gang_objects_need_readiness() -> None:
    with pytest.raises(ConfigError, match=r"gang-objects has no effect with readiness off"):
        load_settings({"readiness": "off", "gang_objects": True}, None)


def test_settings_that_need_kueue_are_refused_without_it() -> None:
    with pytest.raises(ConfigError, match=r"kueue-check has no effect with kueue off"):
        load_settings({"kueue": "off", "kueue_check": True}, None)


@pytest.mark.parametrize("number", [0, 1])
async def test_each_shard_has_its_keys_and_the_first_the_cluster_scoped_ones(number: int) -> None:
    parts = composed(shards=2, kueue_check=True)
    assert parts.policies is not None
    assert parts.checks is not None
    parts.gangs.share.take(number)
    mine, others = (next(n for n in map(str, range(99)) if shard_of(n, 2) == each) for each in (number, 1 - number))
    active: list[str] = []

    async def declare() -> None:
        active.append("declared")

    parts.checks._declare = declare  # type: ignore[method-assign]
    leading = [asyncio.create_task(part()) for part in (parts.policies.lead, parts.checks.lead)]
    queue = parts.gangs.controller.queue
    await queue.resume()
    for namespace in (mine, others):
        parts.gangs.controller.enqueue((namespace, "js"))
    assert (len(queue), await queue.get()) == (1, (mine, "js"))
    done, _ = await asyncio.wait(leading[:1], timeout=0.1)
    assert bool(done) is (number != 0), "statuses and scans of policies"
    assert bool(active) is (number == 0), "activity of checks"
    for task in leading:
        task.cancel()
    await asyncio.gather(*leading, return_exceptions=True)


def test_shards_need_leases() -> None:
    with pytest.raises(ConfigError, match=r"shards has no effect without leader-elect"):
        load_settings({"shards": 2, "leader_elect": False}, None)
