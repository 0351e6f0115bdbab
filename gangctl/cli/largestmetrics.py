"""``gangctl fit --largest --serve``: the largest gangs that fit, read again and again, as metrics.

It is a process of its own, with rights of its own: among 5,000 nodes a replicated job takes 7 to 11 seconds of CPU, in
which the controller would answer webhooks late.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from threading import Thread
from typing import Final, TypeVar

from prometheus_client import Metric

from gangctl.api.objects import objects_at, within
from gangctl.cli.cluster import connected
from gangctl.cli.fitting import FitSubject, Question
from gangctl.cli.kueuecluster import stock_for, subjects_in
from gangctl.cli.largest import largest_of
from gangctl.cli.messages import full_name, log_to_stderr, note
from gangctl.cli.options import ClusterFlags
from gangctl.client.client import Client
from gangctl.errors import GangctlError, InputError
from gangctl.fit.largest import LargestReport, RoomReport
from gangctl.runtime.families import Family, Scraped, new_registry
from gangctl.runtime.probes import ProbeServer

T = TypeVar("T")

MOST_SHAPES: Final = 50
"""Replicated jobs: each has a series for a node, each level of domains, each flavor, all nodes, and the gang."""

_LABELS: Final = ("namespace", "jobset", "replicated_job", "scope", "level", "flavor")
PODS: Final = Family(
    "gangctl_largest_gang_pods",
    "gauge",
    "Pods of this replicated job that fit at once now, by scope: node and domain (the one with the most room), flavor, "
    "cluster, gang (what gangctl fit says fits).",
    _LABELS,
)
POSSIBLE: Final = Family(
    "gangctl_largest_gang_possible_pods",
    "gauge",
    "Pods of this replicated job that fit at most now, if the scheduler chooses the right nodes; by scope as "
    "gangctl_largest_gang_pods.",
    _LABELS,
)
READ: Final = Family(
    "gangctl_largest_gang_read_timestamp_seconds",
    "gauge",
    "When the cluster was read last, Unix time. Absent until then.",
)
ERRORS: Final = Family(
    "gangctl_largest_gang_read_errors_total",
    "counter",
    "Reads of the cluster that failed. The numbers of pods are absent from then until a read succeeds.",
)
FAMILIES: Final = (PODS, POSSIBLE, READ, ERRORS)


class Largest:
    """What was read last, as rows of :data:`FAMILIES`; nothing where the last read failed."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._reports: Sequence[LargestReport] | None = None
        self._read: float | None = None
        self._errors = 0

    def know(self, reports: Sequence[LargestReport], at: float) -> None:
        """Keep what was read ``at`` a Unix time."""
        self._reports, self._read = reports, at

    def fail(self) -> None:
        """A read failed: the numbers of before may be wrong by now."""
        self._reports = None
        self._errors += 1

    def problem(self) -> str | None:
        """Why the numbers are not known; None if they are."""
        return None if self._reports is not None else "the cluster is not read"

    def collect(self) -> Iterable[Metric]:
        """All families."""
        rows = [row for report in self._reports or () for row in _rows(report)]
        return [
            PODS.metric([(labels, room["pods"]) for labels, room in rows]),
            POSSIBLE.metric([(labels, room["possible"]) for labels, room in rows]),
            READ.metric([] if self._read is None else [((), self._read)]),
            ERRORS.metric([((), float(self._errors))]),
        ]


def _rows(report: LargestReport) -> Iterable[tuple[tuple[str, ...], RoomReport]]:
    """Label values of each series, and its numbers. The domain with the most room is no label: it changes."""
    identity = report["metadata"]
    for shape in report["podSets"]:
        for room in shape["rooms"]:
            flavor = room["name"] if room["scope"] == "flavor" else ""
            yield (identity["namespace"], identity["name"], shape["name"], room["scope"], room["level"], flavor), room


def check_shapes(subjects: Sequence[FitSubject]) -> None:
    """InputError where series would have the same labels, or there are too many."""
    names = Counter((subject.namespace, subject.name) for subject in subjects)
    if double := [full_name(*key) for key, count in names.items() if count > 1]:
        raise InputError(f"--serve: JobSet {double[0]} is in the files more than once", hint="its name is a label")
    shapes = sum(len(objects_at(within(subject.raw, "spec"), "replicatedJobs")) for subject in subjects)
    if shapes > MOST_SHAPES:
        raise InputError(f"--serve: the JobSets have {shapes} replicated jobs; at most {MOST_SHAPES} have metrics")


Reading = Callable[[], Awaitable[list[LargestReport]]]


async def _reports(client: Client, question: Question, own_namespace: str) -> list[LargestReport]:
    subjects = await subjects_in(client, question, own_namespace)
    # At each read, because the files may have changed.
    check_shapes(subjects)
    stock = await stock_for(client, question, subjects)
    # Seconds for thousands of nodes, in which the listener has to answer.
    return await beside(lambda: [largest_of(subject, stock) for subject in subjects])


async def beside(work: Callable[[], T]) -> T:
    """Do the work in a thread; nothing waits for its end after a cancellation."""
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()

    def run() -> None:
        try:
            future.set_result(work())
        except Exception as error:  # noqa: BLE001 -- the caller raises it
            future.set_exception(error)

    # The event loop and the process wait for threads of an executor, and Kubernetes kills a pod after 30 seconds.
    Thread(target=run, daemon=True).start()
    return await asyncio.wrap_future(future)


async def keep_reading(largest: Largest, read: Reading, pause: Callable[[], Awaitable[None]]) -> None:
    """``pause``, read, and keep what was read, until cancelled; errors are counted, and printed as warnings."""
    while True:
        # First, because the caller has just read.
        await pause()
        try:
            largest.know(await read(), time.time())
        except GangctlError as error:
            largest.fail()
            note(f"not read: {error.message}")


def serve(question: Question, cluster: ClusterFlags, address: tuple[str, int], period_seconds: float) -> None:
    """Serve /metrics until SIGTERM or SIGINT; GangctlError if the first read or the listener fails."""
    log_to_stderr(warnings_only=True)
    asyncio.run(_until_signal(_serve(question, cluster, address, period_seconds)))


async def _until_signal(serving: Coroutine[None, None, None]) -> None:
    # From the start: the first process of a container ignores signals without a handler.
    task = asyncio.ensure_future(serving)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    # There is nothing to finish.
    with suppress(asyncio.CancelledError):
        await task


async def _serve(question: Question, cluster: ClusterFlags, address: tuple[str, int], period_seconds: float) -> None:
    registry, largest = new_registry(), Largest()
    Scraped(registry, FAMILIES, largest.collect)
    async with connected(cluster) as (client, config):
        home = config.namespace or "default"
        # What is wrong with the files or the rights is said at once, and not in a log.
        largest.know(await _reports(client, question, home), time.time())
        try:
            async with ProbeServer(address, ready=lambda: {"read": largest.problem}, registry=registry) as server:
                host, port = server.address
                note(f"serving http://{host}:{port}/metrics, with {period_seconds:g} s between two reads")
                await keep_reading(
                    largest, lambda: _reports(client, question, home), lambda: asyncio.sleep(period_seconds)
                )
        except OSError as error:
            raise InputError(f"--serve: {error.strerror or error}") from error
