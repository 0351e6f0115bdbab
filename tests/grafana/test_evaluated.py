"""Every query of every dashboard, evaluated by a real Prometheus that scrapes two replicas of each component.

What is scraped is made up: each family with all its labels. So no query may fail, by a join that matches twice for one,
and none may come to nothing.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Iterator
from itertools import product
from pathlib import Path
from typing import Final

import pytest
from aiohttp import web

from gangctl.gang.reasons import Reason
from gangctl.readiness.result import GangPhase
from gangctl.runtime.families import Family
from tests.controlplane.components.prometheus import Prometheus
from tests.controlplane.ports import Ports
from tests.controlplane.wait import NotYet, wait_for
from tests.grafana.foreign import FAMILIES
from tests.grafana.queries import panel_queries, variable_queries
from tests.manager.families import composed_families

VALUES: Final = {
    "phase": [phase.label for phase in GangPhase],
    "from": [phase.label for phase in GangPhase],
    "to": [phase.label for phase in GangPhase],
    "reason": [Reason.NEVER_FITS.value, Reason.UNSCHEDULABLE.value],
    "queue": ["active", "backoff", "gated", "incomplete", "pending", "unschedulable"],
    "type": ["pod", "podgroup"],
    "result": ["done", "failed", "error", "unschedulable"],
    "action": ["deny", "audit"],
    "state": ["loaded", "broken"],
    "status": ["active", "inadmissible"],
    "verdict": ["allowed", "unready", "never"],
    "verb": ["get", "patch"],
    "name": ["jobsets", "jobs.gangs.gangctl.dev"],
    "error_type": ["no_error", "calling_webhook_error"],
    "alertname": ["GangDegraded"],
    "namespace": ["team-a"],
    "jobset": ["train"],
    "usage": ["serving", "authority"],
    "stage": ["admission", "scheduling", "containers"],
}
LEADER: Final = "gangctl_leader_election_master_status"
MOMENTS: Final = ("_timestamp_seconds", "process_start_time_seconds")
ONE: Final = {
    "gangctl_gang_status_phase": {"phase": ["unschedulable"]},
    "gangctl_gang_status_reason": {"reason": [Reason.UNSCHEDULABLE.value]},
}
"""One gang has one phase and one cause."""
CHOSEN: Final = {"namespace": "team-a", "jobset": "train"}


def exposition(families: list[Family], since: float, age: float) -> Iterator[str]:
    """All of them after ``age`` seconds of growth; moments lie before ``since``."""
    for family in families:
        choices = {**VALUES, **ONE.get(family.name, {})}
        for values in product(*(choices.get(label, ["x"]) for label in family.labels)):
            labels = ",".join(f'{label}="{value}"' for label, value in zip(family.labels, values, strict=True))
            if family.type == "histogram":
                for le in ("0.1", "1", "100", "+Inf"):
                    yield f'{family.name}_bucket{{{labels + "," if labels else ""}le="{le}"}} {age}'
                yield f"{family.name}_sum{{{labels}}} {age * 2}"
                yield f"{family.name}_count{{{labels}}} {age}"
            elif family.name.endswith(MOMENTS) or "_expir" in family.name:
                yield f"{family.name}{{{labels}}} {since + (3600 if '_expir' in family.name else -60)}"
            elif family.name == "gangctl_informer_synced":
                yield f"{family.name}{{{labels}}} 0"
            else:
                yield f"{family.name}{{{labels}}} {age if family.type == 'counter' else 1}"


@contextlib.asynccontextmanager
async def exporters(families: list[Family], count: int) -> AsyncIterator[list[str]]:
    since = time.time()

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(text="\n".join([*exposition(families, since, time.time() - since), ""]))

    application = web.Application()
    application.router.add_get("/metrics", metrics)
    runner = web.AppRunner(application)
    await runner.setup()
    ports = Ports()
    try:
        addresses = []
        for _ in range(count):
            port = ports.take()
            await web.TCPSite(runner, "127.0.0.1", port).start()
            addresses.append(f"127.0.0.1:{port}")
        yield addresses
    finally:
        await runner.cleanup()
        ports.release()


@pytest.mark.usefixtures("prometheus_binary")
async def test_every_query_has_a_result(tmp_path: Path) -> None:
    own = {family.name: family for family in await composed_families()}
    foreign = {family.name: family for family in FAMILIES}
    everything = [*(own | foreign).values()]
    async with exporters(everything, 2) as addresses:
        config = {
            "global": {"scrape_interval": "1s"},
            "scrape_configs": [
                {"job_name": "all", "honor_labels": True, "static_configs": [{"targets": addresses}]},
            ],
        }
        async with Prometheus(tmp_path, config) as prometheus:

            async def scraped() -> float:
                """A moment at which both are there, after some scrapes; no scrape that is going on can change it."""
                newest = await prometheus.query(f"timestamp({LEADER})")
                if len(newest) != len(addresses):
                    raise NotYet(f"{len(newest)} are there")
                moment = min(series.value for series in newest)
                there = await prometheus.query(f"count_over_time({LEADER}[1m]) and {LEADER}", at=moment)
                counts = [series.value for series in there]
                if len(counts) != len(addresses) or min(counts) < 4:
                    raise NotYet(f"scrapes: {counts}")
                return moment

            # All are asked for one moment: the exporters are in this process, and when it stands still for a second,
            # their series count as ended until the next scrape.
            moment = await wait_for(scraped, "some scrapes of both")
            runnable = {query.name: query.runnable(CHOSEN) for query in panel_queries()}
            runnable |= {
                f"{query.dashboard}/{query.variable}": query.runnable(CHOSEN)
                for query in variable_queries()
                if query.variable != "cluster"
            }
            nothing = {name for name, expr in runnable.items() if not await prometheus.query(expr, at=moment)}
            assert nothing == set()
