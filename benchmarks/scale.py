"""What 100, 10,000 and 50,000 JobSets cost one leader's informers, caches and queues, without an API server.

No machine of ours holds 500,000 pods in an API server. So this benchmark answers lists and watches itself, with copies
of one object of each kind that a real API server wrote; everything behind them is what a leader runs. Each size has a
process of its own. The seconds that making the objects takes are subtracted.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from typing import Any, Final

import orjson
from prometheus_client import CollectorRegistry

from benchmarks import crowd
from benchmarks.crowd import Copy, Key, Originals
from benchmarks.meters import Usage, end
from benchmarks.result import Figure, Findings
from benchmarks.table import Table
from gangctl.api.scheduling import NEWEST as GENERATION
from gangctl.api.scheduling import ApiState
from gangctl.client.client import Client
from gangctl.client.responses import Response
from gangctl.client.transport import Request, Stream, Transport
from gangctl.controllers.caches import GangCaches
from gangctl.controllers.gangs import Assessments, GangController, PodReader
from gangctl.controllers.readiness.controller import ReadinessController, ReadinessObserver
from gangctl.controllers.readiness.sources import ReadinessSources
from gangctl.controllers.reporter import GangMetrics, GangReporter
from gangctl.controllers.writer import Writer
from gangctl.errors import InvalidError
from gangctl.gang.resolve import ClusterRules
from gangctl.manager import logs
from gangctl.manager.process import COLLECT_AFTER, SWITCH_SECONDS
from gangctl.manager.readinessmetrics import ReadinessMetrics
from gangctl.readiness.evaluate import evaluate
from gangctl.readiness.facts import is_followed
from gangctl.runtime.controller import Controller, ControllerOptions
from tests.controlplane import manifests
from tests.controlplane.build import ensure_manifests
from tests.controlplane.minors import NEWEST
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for
from tests.credentials import StaticCredentials

CROWDS, QUICK_CROWDS = (100, 10_000, 50_000), (10, 50)
MORE, QUICK_MORE = 300, 5
"""JobSets that come in each round, when the others are there."""
ROUNDS: Final = 5
REST_SECONDS: Final = 0.001
_RESOURCES: Final = {
    "minions": "nodes",
    "workloads": "workloads.scheduling.k8s.io",
    "podgroups": "podgroups.scheduling.k8s.io",
    "jobsets": "jobsets.jobset.x-k8s.io",
    "jobs": "jobs.batch",
    "pods": "pods",
}
"""By their names in the API server's store. What gangctl would write comes before the JobSets: nothing is missing."""


@dataclass
class Cost:
    """Of one size. Times are seconds of CPU of one JobSet, if nothing else is said."""

    jobsets: int
    kilobytes: float = 0.0
    """Resident memory of each, beyond that of a process that holds nothing."""
    megabytes: float = 0.0
    start: float = 0.0
    start_seconds: float = 0.0
    """CPU of the whole start."""
    more: list[float] = field(default_factory=list)
    """Of one that comes later."""
    longest: list[float] = field(default_factory=list)
    """Seconds for which webhooks would have waited: at the start, and then by round."""
    requests: int = 0


class Made(Transport):
    """Answers lists with objects that are made meanwhile, and watches with those that come; nothing else."""

    def __init__(self, originals: Originals, jobsets: int) -> None:
        """So many JobSets are there."""
        super().__init__(StaticCredentials("http://127.0.0.1:1"))
        self._originals = originals
        self._jobsets = jobsets
        self._lists: dict[str, Iterator[bytes]] = {}
        self._coming: dict[str, asyncio.Queue[bytes]] = defaultdict(asyncio.Queue)
        self.making = 0.0
        """Seconds of CPU for objects, which an API server takes otherwise."""
        self.other = 0
        """Requests besides lists and watches."""

    async def send(self, request: Request, *, throttled: bool = True, guard: object = None) -> Response:  # noqa: ARG002 -- as its base has it
        """One page."""
        if request.verb != "list":
            self.other += 1
            raise InvalidError(400, "BadRequest", f"{request.verb} {request.resource}: there is no server")
        resource = request.resource
        if "continue" not in request.query:
            self._lists[resource] = self._everything(resource)
        page = [body async for body in self._made(islice(self._lists[resource], int(request.query["limit"])))]
        number = int(request.query.get("continue") or 0) + 1
        metadata = b'{"resourceVersion":"1","continue":"%s"}' % (str(number).encode() if page else b"")
        return Response(200, b'{"metadata":%s,"items":[%s]}' % (metadata, b",".join(page)))

    async def _made(self, bodies: Iterable[bytes]) -> AsyncGenerator[bytes, None]:
        """The same, without holding the event loop."""
        each = iter(bodies)
        while True:
            began = time.thread_time()
            body = next(each, None)
            self.making += time.thread_time() - began
            if body is None:
                return
            yield body
            await asyncio.sleep(0)

    def _everything(self, resource: str) -> Iterator[bytes]:
        if resource == "nodes":
            return (copy.body for copy in crowd.nodes(self._originals, self._jobsets))
        if resource not in _RESOURCES.values():
            return iter(())
        everything = (copy for number in range(self._jobsets) for copy in crowd.copies(self._originals, Key(number)))
        return (copy.body for copy in everything if _resource(copy) == resource)

    @asynccontextmanager
    async def stream(
        self,
        request: Request,
        *,
        read_timeout_seconds: float,  # noqa: ARG002 -- as its base has it
        throttled: bool = True,  # noqa: ARG002 -- as its base has it
    ) -> AsyncIterator[Stream]:
        """A watch."""
        yield _Coming(self._coming[request.resource])

    async def come(self, keys: Iterable[Key]) -> None:
        """Bring these JobSets with everything that belongs to them, resource by resource."""
        everything = [copy for key in keys for copy in crowd.copies(self._originals, key)]
        for resource in _RESOURCES.values():
            async for body in self._made(copy.body for copy in everything if _resource(copy) == resource):
                self._coming[resource].put_nowait(b'{"type":"ADDED","object":%s}\n' % body)
            await self._coming[resource].join()


class _Coming(Stream):
    """A watch of what is put into a queue."""

    def __init__(self, lines: asyncio.Queue[bytes]) -> None:
        """Read nothing yet."""
        self._lines = lines

    async def read(self) -> bytes:
        """The next line."""
        line = await self._lines.get()
        self._lines.task_done()
        return line

    async def gather(self, seconds: float) -> None:
        """Not measured here: each line is read alone."""


def _resource(copy: Copy) -> str:
    return next(name for part, name in _RESOURCES.items() if f"/{part}/" in copy.place)


class Seen(ReadinessObserver):
    """How many JobSets have a readiness."""

    def __init__(self) -> None:
        """None yet."""
        self.count = 0

    def on_status_change(self, before: object, now: object) -> None:  # noqa: ARG002 -- as its base has it
        """Count the new ones."""
        self.count += before is None


class Leader:
    """What a leader runs for gangs and their readiness, and nothing that talks to a server."""

    def __init__(self, client: Client) -> None:
        """Make everything."""
        loop, registry = asyncio.get_running_loop(), CollectorRegistry()
        self.seen, self.longest = Seen(), 0.0
        self.caches = GangCaches(client, self._enqueue, loop.time)
        assessments = Assessments(lambda: ApiState(GENERATION), lambda generation: ClusterRules(generation, known=True))
        gangs = GangController(
            self.caches,
            lambda generation: Writer(client, generation, self.caches.overlay),
            PodReader(client),
            GangReporter(lambda _jobset, _notice: None, GangMetrics(registry)),
            assessments,
            concerns=lambda _: True,
        )
        self.gangs: Controller[tuple[str, str]] = Controller(
            "gangs", gangs.reconcile, options=ControllerOptions(workers=4)
        )
        self.readiness = ReadinessController(
            self.caches,
            assessments,
            ReadinessSources(client),
            evaluate,
            [ReadinessMetrics(registry), self.seen],
            follows=is_followed,
        )

    def _enqueue(self, key: tuple[str, str], seconds: float | None) -> None:
        if seconds is not None:
            self.gangs.enqueue(key, seconds)
        self.readiness.mark(key)

    async def run(self) -> None:
        """Start as a leader does, and work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.caches.run())
            await self.caches.follow(GENERATION)
            for informer in self.caches.informers.values():
                await informer.synced.wait()
            group.create_task(self.gangs.run())
            group.create_task(self.readiness.run(self._nothing))
            group.create_task(self._held())

    async def _nothing(self) -> None:
        """Everything is known already."""

    async def _held(self) -> None:
        """The longest time for which a webhook would have waited for the event loop."""
        before = time.perf_counter()
        while True:
            await asyncio.sleep(REST_SECONDS)
            now = time.perf_counter()
            self.longest, before = max(self.longest, now - before - REST_SECONDS), now

    async def until(self, jobsets: int) -> float:
        """Wait until so many have a readiness and nothing is queued; the longest turn since the last time."""

        async def quiet() -> bool:
            if self.seen.count < jobsets or len(self.gangs.queue):
                raise NotYet(f"{self.seen.count} of {jobsets} have a readiness, {len(self.gangs.queue)} are queued")
            return True

        await wait_for(quiet, interval=0.01, what="everything to be read", hung=900)
        longest, self.longest = self.longest, 0.0
        return longest


async def measure(originals: Originals, jobsets: int, more: int) -> Cost:
    """Start with so many, and let others come."""
    made, cost = Made(originals, jobsets), Cost(jobsets)
    leader = Leader(Client(made))
    empty, began = Usage.of(os.getpid()).megabytes, time.process_time()
    task = asyncio.create_task(leader.run())
    cost.longest.append(await leader.until(jobsets))
    cost.start_seconds = time.process_time() - began - made.making
    cost.start = cost.start_seconds / jobsets
    cost.megabytes = Usage.of(os.getpid()).megabytes
    cost.kilobytes = (cost.megabytes - empty) * 1024 / jobsets
    for number in range(ROUNDS):
        first = jobsets + number * more
        began, made.making = time.process_time(), 0.0
        await made.come(Key(each) for each in range(first, first + more))
        cost.longest.append(await leader.until(first + more))
        cost.more.append((time.process_time() - began - made.making) / more)
    cost.requests = made.other
    await end(task)
    return cost


async def _originals(minor: str) -> Originals:
    """One of each, from a real API server."""
    definition = manifests.crds(ensure_manifests("jobset") / "crd")
    started = ControlPlane.start(minor, (), scheduler=False, controller_manager=False, crds=definition, audit=False)
    async with started as plane:
        return await crowd.make(plane.api)


async def _apart(text: bytes, jobsets: int, more: int) -> Cost:
    """Measure in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.scale", str(jobsets), str(more)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate(text)
    if process.returncode:
        raise RuntimeError(f"the process for {jobsets:,} JobSets ended with {process.returncode}")
    return Cost(**json.loads(output))


async def _all(minor: str, crowds: Iterable[int], more: int) -> list[Cost]:
    text = orjson.dumps(asdict(replace(await _originals(minor), texts={})))
    return [await _apart(text, jobsets, more) for jobsets in crowds]


def main(quick: bool = False, minor: str = NEWEST) -> Findings:
    """Each size in a process of its own, the smallest first."""
    more = QUICK_MORE if quick else MORE
    heading = ["JobSets", "pods", "memory", "memory of each", "start, CPU", "start, CPU of each", "CPU of one more"]
    table = Table("scale", [*heading, "longest turn, start", "longest turn, one more"])
    costs = asyncio.run(_all(minor, QUICK_CROWDS if quick else CROWDS, more))
    for cost in costs:
        table.add(
            f"{cost.jobsets:,}",
            f"{cost.jobsets * crowd.PODS:,}",
            f"{cost.megabytes:,.0f} MB",
            f"{cost.kilobytes:.1f} KB",
            f"{cost.start_seconds:.1f} s",
            *(f"{seconds * 1000:.2f} ms" for seconds in (cost.start, sorted(cost.more)[len(cost.more) // 2])),
            *(f"{seconds * 1000:.0f} ms" for seconds in (cost.longest[0], max(cost.longest[1:]))),
        )
    table.remarks.append(
        f"Each has {crowd.PODS} pods and one PodGroup, all of which exist: nothing is written. {more} come in each of "
        f"{ROUNDS} rounds. Informers from bytes on, caches, the queue, reconciles, readiness and its metrics; no TLS, "
        "no HTTP, no webhooks. Memory is resident; that of each is beyond an empty process's."
    )
    few, many = costs[0], costs[-1]
    milliseconds = [tuple(1000 * each for each in cost.more) for cost in (many, few)]
    figures = [
        Figure("scale-cpu", milliseconds[0], milliseconds[1]),
        Figure("scale-memory", (many.megabytes,)),
        Figure("scale-held", tuple(1000 * each for each in many.longest)),
        Figure("scale-writes", tuple(float(cost.requests) for cost in costs)),
    ]
    return Findings(table, figures)


def _child(arguments: list[str], stdin: Mapping[str, Any]) -> None:
    logs.configure("warning", "json")
    gc.set_threshold(*COLLECT_AFTER)
    sys.setswitchinterval(SWITCH_SECONDS)
    jobsets, more = map(int, arguments)
    json.dump(asdict(asyncio.run(measure(Originals(**stdin), jobsets, more))), sys.stdout)


if __name__ == "__main__":
    _child(sys.argv[1:], json.load(sys.stdin))
