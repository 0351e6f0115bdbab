"""What a process takes, what it says in a scrape, and how soon an API server answers meanwhile."""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final, Self

import aiohttp

from benchmarks import crowd
from benchmarks.exposed import Exposed
from benchmarks.result import percentile
from tests.controlplane.api import ApiClient, path_of
from tests.controlplane.plane import ControlPlane
from tests.jobsets import jobset, rj
from tests.live.cluster import JOBSETS
from tests.live.gangctl import Gangctl

CREATES: Final = 4.0
"""A second, dry runs, to see what admission takes meanwhile."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process has taken: megabytes resident now and at most, seconds of CPU."""

    megabytes: float
    most_megabytes: float
    cpu_seconds: float

    @classmethod
    def of(cls, pid: int) -> Usage:
        """From Linux' /proc."""
        status, stat = (Path(f"/proc/{pid}/{name}").read_text(encoding="ascii") for name in ("status", "stat"))
        found = dict(line.split(":", 1) for line in status.splitlines())
        ticks = stat.rpartition(")")[2].split()[11:13]
        now, most = (int(found[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM"))
        return cls(now, most, sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK"))


def cpu_seconds(
    plane: ControlPlane, gangctl: Gangctl | None = None, *, since: Mapping[str, float] = MappingProxyType({})
) -> dict[str, float]:
    """What each process of a control plane, gangctl, and who measures have taken, by name; ``since`` is subtracted."""
    pids = {name: plane.process(name).pid for name in plane.components} | {"this benchmark": os.getpid()}
    if gangctl is not None:
        pids["gangctl"] = gangctl.process.pid
    return {name: Usage.of(pid).cpu_seconds - since.get(name, 0.0) for name, pid in pids.items()}


def compared(ways: Mapping[str, Sequence[Mapping[str, float]]], unit: str) -> str:
    """Means of several rounds by process, the largest of the first way first; ``ways`` has the rounds of each."""
    means = [_means(rounds) for rounds in ways.values()]
    by_size = sorted(means[0], key=means[0].__getitem__, reverse=True)
    rows = [(name, [each.get(name, 0.0) for each in means]) for name in by_size]
    rows.append(("all", [sum(each.values()) for each in means]))
    shown = ", ".join(f"{name} {' / '.join(f'{value:.1f}' for value in values)}" for name, values in rows)
    return f"CPU {' / '.join(ways)}, {unit}: {shown}."


def _means(rounds: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: statistics.fmean(each[name] for each in rounds) for name in rounds[0]}


@dataclass(frozen=True, slots=True)
class Scrape:
    """One scrape: when it was asked for, how long it took, and what came."""

    asked: float
    seconds: float
    body: bytes

    @property
    def exposed(self) -> Exposed:
        """What it says."""
        return Exposed(self.body.decode())


async def scrape(gangctl: Gangctl) -> Scrape:
    """Everything, as Prometheus asks for it."""
    began = time.monotonic()
    timeout = aiohttp.ClientTimeout(total=60)
    async with (
        aiohttp.ClientSession(timeout=timeout, trust_env=False) as session,
        session.get(f"{gangctl.metrics_url}/metrics") as answer,
    ):
        body = await answer.read()
    return Scrape(began, time.monotonic() - began, body)


@dataclass
class Admission:
    """Dry-run creates through gangctl's webhooks at a slow pace while the block runs."""

    api: ApiClient
    seconds: list[float] = field(default_factory=list)
    _driver: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Begin."""
        self._driver = asyncio.create_task(self._drive())
        return self

    async def __aexit__(self, *_: object) -> None:
        """End; a create that failed is raised here."""
        if self._driver is not None:
            await end(self._driver)

    async def _drive(self) -> None:
        body = jobset("asking", rj("w", 2, 4, 4, mode="Gang"), namespace=crowd.Key(0).namespace)
        path = path_of(JOBSETS, "jobsets", namespace=crowd.Key(0).namespace)

        async def create() -> None:
            began = time.monotonic()
            await self.api.create(path, body, dryRun="All")
            self.seconds.append(time.monotonic() - began)

        async with asyncio.TaskGroup() as group:
            due = time.monotonic()
            while True:
                group.create_task(create())
                due += 1 / CREATES
                await asyncio.sleep(max(0.0, due - time.monotonic()))

    def __str__(self) -> str:
        """The percentiles, and the worst."""
        if not self.seconds:
            return "none"
        return f"{percentiles(self.seconds)}, worst {seconds_text(max(self.seconds))} ({len(self.seconds)} creates)"


async def end(task: asyncio.Task[None]) -> None:
    """Cancel what works without end; what ended it before is raised."""
    if task.cancel():
        await asyncio.wait({task})
    else:
        task.result()


def percentiles(seconds: list[float]) -> str:
    """The median, and what 99 of 100 do not exceed."""
    return " / ".join(seconds_text(percentile(seconds, share)) for share in (0.5, 0.99)) if seconds else "none"


def seconds_text(value: float) -> str:
    """In the unit that suits it."""
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"
