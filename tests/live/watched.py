"""A few minutes in which everything happens that gangctl's alerts and dashboards are for, and what Prometheus saw."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import time
from collections.abc import AsyncIterator, Collection, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from gangctl.manager.readinessmetrics import SCRAPED, WITHOUT_SERIES
from tests.controlplane.api import UNREACHABLE
from tests.controlplane.components.prometheus import Prometheus, QueryRefused
from tests.controlplane.plane import ControlPlane
from tests.controlplane.process import children_of
from tests.controlplane.wait import NotYet, wait_for
from tests.grafana.queries import panel_queries, variable_queries
from tests.live import tenants
from tests.live.faultyproxy import FaultyProxy, everything
from tests.live.gangctl import USER, Gangctl, prepare
from tests.live.monitored import Watcher, configuration, of_gangctl, of_others, scraper_token, until_series, write_rules
from tests.live.plays import stages
from tests.live.sick import Sick, sick_replicas
from tests.live.tenancy import Tenancy
from tests.monitoring.rulefiles import recordings

CHOSEN: Final = {"namespace": tenants.QUEUED, "jobset": "huge"}
"""The gang that the dashboard of one gang shows: in a queue, and held back."""
FLAGS: Final = ("--gang-scheduler=default-scheduler", f"--gang-scheduler={tenants.PHANTOM}", "--policy-scan-period=5")

OF_GANGS: Final = (
    *("GangPartiallyPlaced", "GangMutualDeadlock", "GangStuckPending", "GangNeverFits", "GangUnschedulable"),
    *("GangSchedulerFailing", "GangGroupMissing", "GangCreationRefused", "GangNodeLost", "GangImagePullFailing"),
    *(
        "GangContainersFailing",
        "GangDegraded",
        "GangRestartLoop",
        "GangGuaranteeLost",
        "GangReadySlow",
        "GangPolicyBroken",
    ),
    *("QueueBlocked", "QueueWorkloadStuck", "QueueStarved"),
)
OF_OVERLOAD: Final = ("GangPolicyKilled", "GangPolicyUnanswered", "GangctlWebhookSlow")
OF_A_HELD_API: Final = ("GangctlQueueBackedUp",)
OF_A_BROKEN_API: Final = ("GangctlReconcileErrors", "GangctlApiErrors", "GangctlEventsDropped", "GangPolicyScanStale")
OF_NOBODY: Final = ("GangctlDown", "GangctlWebhookUnreachable")
OF_A_SLOW_MACHINE: Final = ("GangctlReadinessLagging", "GangMetricsTruncated")
OF_SICK_REPLICAS: Final = (
    *("GangctlNoLeader", "GangctlShardWithoutLeader"),
    *("GangctlCertificateExpiring", "GangctlWebhookFailing", "GangctlInformerStale"),
)
OF_ROGUES: Final = ("GangPolicyViolationsRising",)


SYNCED: Final = 3
"""Informers of a synced replica, at least."""


@dataclass
class Seen:
    """What came of it."""

    phases: dict[str, str] = field(default_factory=dict)
    """Errors in the reported phases and reasons, by JobSet."""
    fired: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    values: dict[frozenset[tuple[str, str]], float] = field(default_factory=dict)
    """The highest value of each alert, by its labels."""
    nothing: set[str] = field(default_factory=set)
    """Panel and variable queries, and recording rules, that came to nothing."""
    answered: set[str] = field(default_factory=set)
    errors: dict[str, str] = field(default_factory=dict)
    """Queries and rules that failed."""
    left: list[str] = field(default_factory=list)
    """Series about gangs that were there after all gangs had gone."""
    exposition: str = ""
    """gangctl's own metrics when most gangs existed."""
    never: Collection[str] = ()
    """Queries that have no answer here."""
    stages: dict[str, float] = field(default_factory=dict)
    """How long each part took, in seconds."""


@asynccontextmanager
async def _stage(seen: Seen, name: str) -> AsyncIterator[None]:
    began = time.monotonic()
    yield
    seen.stages[name] = round(time.monotonic() - began, 1)


@asynccontextmanager
async def _meanwhile(*works: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Let them run until the block ends."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(work) for work in works]
        yield
        for task in tasks:
            task.cancel()


async def play(directory: Path, never: Collection[str]) -> Seen:
    """Everything, from the start of the control plane to its end; ``never`` are queries that have no answer here."""
    seen = Seen(never=never)
    async with AsyncExitStack() as stack:
        async with _stage(seen, "control plane"):
            plane = await stack.enter_async_context(
                ControlPlane.start(
                    "1.37",
                    ("jobset", "kueue", "kwok"),
                    audit=False,
                    gates={"TopologyAwareWorkloadScheduling": True},
                    kueue_gates={"UnadmittedWorkloadsObservability": True},
                    kueue_metrics=True,
                    kwok_stages=stages(),
                )
            )
            tenancy = Tenancy(plane)
            await prepare(plane)
            await tenancy.prepare()
        context = await stack.enter_async_context(_context(plane, tenancy, directory, seen))
        async with asyncio.TaskGroup() as group:
            group.create_task(context.sick_side())
            group.create_task(context.main_side())
        seen.fired, seen.values = context.watcher.fired, context.watcher.values
    return seen


@dataclass
class _Context:
    plane: ControlPlane
    tenancy: Tenancy
    network: FaultyProxy
    gangctl: Gangctl
    slow: Gangctl
    sick: Sick
    prometheus: Prometheus
    beside: Prometheus
    """Another one, with the degraded replicas only."""
    watcher: Watcher
    seen: Seen

    async def sick_side(self) -> None:
        """What becomes of replicas that are cut off."""
        await until_series(self.beside, f"count(gangctl_informer_synced == 1) >= {SYNCED}")
        self.sick.network.fall_silent()
        async with _stage(self.seen, "sick replicas"):
            async with _meanwhile(self.sick.ask_new()):
                await self.watcher.until([name for name in OF_SICK_REPLICAS if name != "GangctlInformerStale"])
            await self.watcher.until(OF_SICK_REPLICAS)
        await self._rules_are_well(self.beside)

    async def main_side(self) -> None:
        """What becomes of gangs, and then of the gangctl that leads."""
        async with _stage(self.seen, "gangs"), _meanwhile(self._keep_asking()):
            await self._gangs()
        async with _stage(self.seen, "queries"):
            await self._ask_everything()
        async with _stage(self.seen, "ends"):
            await self._end()
        async with _stage(self.seen, "faults"), _meanwhile(self._keep_asking()):
            await self._faults()
            await self._all_answered()
        await self._rules_are_well(self.prometheus)

    async def _gangs(self) -> None:
        tenancy, watcher = self.tenancy, self.watcher
        await tenancy.make([tenants.UNGANGED])
        await tenancy.mistaken_policy()
        await self.gangctl.process.start()
        await tenancy.policies()
        await tenancy.risk()
        await tenancy.make(gang for gang in tenants.GANGS if not gang.after)
        await tenancy.running("early", "greedy", "patient", "ready-1", "weak")
        await tenancy.make(gang for gang in tenants.GANGS if gang.after)
        await tenancy.disturb()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._rogues())
            async with _meanwhile(tenancy.overload()):
                await watcher.until(OF_OVERLOAD)
            await self._end_workers()
            degraded = f'gangctl_gang_status_phase{{jobset="{tenants.RECOVERING.name}",phase="degraded"}}'
            async with tenancy.degraded():
                await until_series(self.prometheus, degraded)
            await self._phases()
            _, self.seen.exposition = await self.gangctl.fetch("/metrics")
            await watcher.until(OF_GANGS)
            # A queue that is held was there before the one that starves.
            starves = 'ALERTS{alertname="QueueStarved",alertstate="firing",cluster_queue="starved"}'
            await until_series(self.prometheus, starves)
            await watcher.look()

    async def _end_workers(self) -> None:
        """Have workers of policies end without gangctl's doing, until it has noticed one."""

        async def noticed() -> bool:
            for pid in _workers(self.gangctl.process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return await self.gangctl.metric("gangctl_policy_worker_deaths_total") > 0

        await wait_for(noticed, "gangctl to count a worker that ended", interval=0.5)

    async def _rogues(self) -> None:
        violations = "policy:gangctl_policy_violations:max"
        await until_series(self.prometheus, f"{violations} offset 26s")
        await self.tenancy.make(tenants.ROGUES)
        await self.watcher.until(OF_ROGUES)
        # From now on no scan gets to its end.
        self.network.fails = lambda method, path: method == "GET" and "/jobsets?limit=" in path

    async def _phases(self) -> None:
        """Wait until every gang is reported in its expected phase."""
        for gang in (tenants.UNGANGED, *tenants.GANGS):
            if gang.phase is None:
                continue
            reason = gang.reason.value if gang.reason is not None else ""
            one = f'namespace="{gang.namespace}",jobset="{gang.name}"'
            phase = f'gangctl_gang_status_phase{{{one},phase="{gang.phase.label}"}}'
            held = f'and on (jobset) gangctl_gang_status_reason{{{one},reason="{reason}"}}'
            held = held if reason else f"unless on (jobset) gangctl_gang_status_reason{{{one}}}"
            try:
                await until_series(self.prometheus, f"{phase} {held}")
            except TimeoutError:
                reported = await self.prometheus.query(f'{{__name__=~"gangctl_gang_status_.+",{one}}}')
                self.seen.phases[gang.name] = f"not {gang.phase} {reason}: {[dict(each.labels) for each in reported]}"

    async def _keep_asking(self) -> None:
        """Ask over and over: some have an answer only while something happens."""
        while True:
            # One that is asked meanwhile may have no answer because Prometheus has none to give just now.
            with contextlib.suppress(*UNREACHABLE):
                await self._ask_everything()
            await asyncio.sleep(1)

    async def _all_answered(self) -> None:
        async def answered() -> bool:
            if left := self.seen.nothing - {*self.seen.never}:
                raise NotYet(", ".join(sorted(left)))
            return True

        with contextlib.suppress(TimeoutError):
            await wait_for(answered, "every query to have had an answer")

    async def _ask_everything(self) -> None:
        """Ask what has had no answer yet."""
        asked = {each.name: each.runnable(_chosen(each.dashboard)) for each in panel_queries()}
        asked |= {f"{e.dashboard}/${e.variable}": e.runnable(_chosen(e.dashboard)) for e in variable_queries()}
        # What is recorded is there for as long as what it is made of; that it ever was is enough.
        asked |= {rule.name: f"last_over_time({rule.name}[10m])" for rule in recordings()}
        self.seen.nothing |= asked.keys() - self.seen.answered
        for name, expression in asked.items():
            try:
                if name not in self.seen.answered and await self._has_answer(expression):
                    self.seen.answered.add(name)
            except QueryRefused as refusal:
                self.seen.errors[name] = str(refusal)
        self.seen.nothing -= self.seen.answered

    async def _has_answer(self, expression: str) -> bool:
        return any([await each.query(expression) for each in (self.prometheus, self.beside)])

    async def _rules_are_well(self, prometheus: Prometheus) -> None:
        for rule in await prometheus.rules():
            if rule["health"] != "ok":
                self.seen.errors[rule["name"]] = f"{rule['health']}: {rule.get('lastError')}"

    async def _end(self) -> None:
        await self.tenancy.end()
        # Counters stay: what was lost stays lost.
        own = (family for family in SCRAPED if family is not WITHOUT_SERIES and family.type != "counter")
        names = re.compile("|".join(family.name for family in own))

        async def gone() -> bool:
            # gangctl itself is asked: Prometheus would let go of what nobody tells any more by itself, some time later.
            _, text = await self.gangctl.fetch("/metrics")
            if left := [line for line in text.splitlines() if names.fullmatch(line.partition("{")[0])]:
                raise NotYet("; ".join(left[:5]))
            return True

        try:
            await wait_for(gone, "the series of gangs to end")
            there = f'{{__name__=~"{names.pattern}", instance!=""}} or absent(gangctl_leader_election_master_status)'
            await until_series(self.prometheus, there, gone=True)
        except TimeoutError as error:
            self.seen.left.append(str(error))

    async def _faults(self) -> None:
        network, watcher = self.network, self.watcher
        network.hold_writes()
        await self.tenancy.make(tenants.crowd())
        await watcher.until(OF_A_HELD_API)
        network.fails = everything
        network.release_writes()
        await watcher.until(OF_A_BROKEN_API)
        # Before the first gangctl started there was none, either.
        watcher.forget(OF_NOBODY)
        await self.gangctl.process.kill()
        async with _meanwhile(self.tenancy.knock()):
            await watcher.until(OF_NOBODY)
        await self.slow.process.launch()
        await watcher.until(OF_A_SLOW_MACHINE)


@asynccontextmanager
async def _context(plane: ControlPlane, tenancy: Tenancy, directory: Path, seen: Seen) -> AsyncIterator[_Context]:
    async with AsyncExitStack() as stack:
        sick = await stack.enter_async_context(sick_replicas(plane, directory))
        network = await stack.enter_async_context(FaultyProxy(plane, USER))
        gangctl = Gangctl(plane, *FLAGS, kubeconfig=network.kubeconfig(directory / "gangctl.json"))
        few = "--metrics-jobset-limit=20"
        slow = Gangctl(plane, *FLAGS, few, name="gangctl-slow", program=("-m", "tests.live.hampered"))
        for replica in (gangctl, slow):
            stack.push_async_callback(replica.close)
        written = write_rules(directory / "rules")
        jobs = [of_gangctl(_addresses(gangctl, slow)), *of_others(plane, await scraper_token(plane.api))]
        prometheus = await stack.enter_async_context(_prometheus(directory / "main", jobs, written))
        beside = await stack.enter_async_context(
            _prometheus(directory / "beside", [of_gangctl(_addresses(sick.old, sick.new))], written)
        )
        watcher = Watcher([prometheus, beside])
        watching = asyncio.create_task(watcher.run())
        try:
            yield _Context(plane, tenancy, network, gangctl, slow, sick, prometheus, beside, watcher, seen)
        finally:
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching


def _workers(pid: int) -> list[int]:
    """Processes of a gangctl in which policies are evaluated."""
    found = []
    for child in children_of(pid):
        with contextlib.suppress(OSError):
            if b"workerchild" in Path(f"/proc/{child}/cmdline").read_bytes():
                found.append(child)
    return found


def _chosen(dashboard: str) -> dict[str, str]:
    """One gang where one is shown, and everything elsewhere."""
    return CHOSEN if dashboard == "gangctl-gang" else {}


def _addresses(*replicas: Gangctl) -> list[str]:
    return [replica.metrics_url.removeprefix("http://") for replica in replicas]


def _prometheus(directory: Path, jobs: list[dict[str, Any]], written: list[Path]) -> Prometheus:
    directory.mkdir()
    return Prometheus(directory, configuration(*jobs), rules=written)
