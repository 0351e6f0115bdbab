"""Loads policies into worker processes, and tracks which worker has which."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from functools import partial
from typing import Any, Final

from gangctl.client.pacing import Clock
from gangctl.errors import GangctlError
from gangctl.evaluation.messages import Load, plain_request, read_text
from gangctl.evaluation.options import EvaluatorOptions
from gangctl.evaluation.queue import Penalties
from gangctl.policy.loaded import KeyedPolicy, KeyedSet
from gangctl.runtime.workerprocess import WorkerDiedError, WorkerProcess, WorkerSpec, no_answer

_RETRY_SECONDS: Final = 5.0
"""The least time before a policy that a worker could not load is tried again."""
_CHECKS: Final = 20
"""How often the CPU time of a worker is read within the time that it may take."""
_PATIENCE: Final = 12
"""The worker is given up after this many times that time by the clock of the wall."""
_NICENESS: Final = 5
"""The event loop has priority: it answers all requests."""
SERVICE: Final = "gangctl.evaluation.worker:Service"
START_SECONDS: Final = 30.0


def worker_spec(options: EvaluatorOptions) -> WorkerSpec:
    """What worker processes run, and their limits."""
    return WorkerSpec(
        "policy-worker",
        SERVICE,
        memory_bytes=options.memory_bytes,
        # The pool kills it long before, unless this process is gone and the kernel does not kill its children.
        cpu_seconds=max(options.request_seconds, options.load_seconds) * 4,
        niceness=_NICENESS,
        start_seconds=START_SECONDS,
    )


class PolicyLoadError(GangctlError):
    """A worker could not load a policy; the worker has to be ended."""

    code = "PolicyNotLoaded"

    def __init__(self, entry: KeyedPolicy) -> None:
        """Name the policy."""
        super().__init__(f"a worker cannot load policy {entry.policy.name}")
        self.entry = entry


class WorkerLoader:
    """Sends each policy to a worker once."""

    def __init__(self, options: EvaluatorOptions, clock: Clock) -> None:
        """Start with workers that have nothing loaded."""
        self._options = options
        self._unloadable: Penalties[str] = Penalties(_RETRY_SECONDS, clock.now)
        self._loaded: dict[WorkerProcess, set[str]] = {}
        self.current: KeyedSet | None = None
        """The set in force: workers keep nothing else for longer than one task."""
        self.coming: KeyedSet | None = None
        """The next set."""

    def loadable(self, entry: KeyedPolicy) -> bool:
        """Whether workers could load the policy, or have not tried lately."""
        return entry.key not in self._unloadable

    async def load_all(self, worker: WorkerProcess) -> None:
        """Load everything in force, and everything that will be, one policy at a time."""
        for snapshot in (self.current, self.coming):
            if snapshot is not None:
                await self.load(worker, snapshot, ())
                # One by one: a worker that ends shows by that which policy it cannot load.
                for entry in filter(self.loadable, snapshot.entries):
                    await self.load(worker, snapshot, [entry])

    async def load(self, worker: WorkerProcess, snapshot: KeyedSet, entries: Collection[KeyedPolicy]) -> None:
        """Make sure that the worker has these entries and the snapshot's exceptions.

        :class:`PolicyLoadError` when one cannot be loaded in time, :class:`WorkerDiedError` when the worker does not
        work: after that only :meth:`WorkerProcess.kill` is valid.
        """
        if worker not in self._loaded:
            self._loaded[worker] = set()
            worker.exited.add_done_callback(lambda _: self._loaded.pop(worker, None))
        loaded = self._loaded[worker]
        missing = [entry for entry in entries if entry.key not in loaded]
        exceptions_key = snapshot.exceptions_key
        documents = tuple(exception.source for exception in snapshot.policies.exceptions)
        exceptions = {} if exceptions_key in loaded else {exceptions_key: documents}
        if not missing and not exceptions:
            return
        kept = {entry.key for entry in entries} | {exceptions_key}
        for bundle in (self.current, self.coming):
            kept |= bundle.keys if bundle is not None else frozenset()
        policies = {entry.key: (entry.policy.name, entry.source) for entry in missing}
        await worker.send(plain_request(Load(self._options.minor, policies, exceptions, frozenset(loaded - kept))))
        for entry in missing:
            try:
                await self._received(worker, partial(read_text, entry.key))
            except (WorkerDiedError, TimeoutError) as error:
                # A worker that does not work shows nothing about the policy.
                if isinstance(error, WorkerDiedError) and error.ended.fault:
                    raise
                self._unloadable.add(entry.key)
                raise PolicyLoadError(entry) from error
            loaded.add(entry.key)
        await self._received(worker, no_answer)
        loaded &= kept
        loaded.add(exceptions_key)

    async def _received(self, worker: WorkerProcess, read: Callable[[Any], None]) -> None:
        """
        Wait for one answer.

        TimeoutError when the worker has used more CPU time than it may. A worker that only waits for a busy machine has
        not failed: its policies would be refused for it. One that makes no progress for long is killed.
        """
        begun, seconds = worker.cpu_seconds(), self._options.load_seconds
        receiving = asyncio.ensure_future(worker.receive(read))
        try:
            for _ in range(_CHECKS * _PATIENCE):
                await asyncio.wait({receiving}, timeout=seconds / _CHECKS)
                if receiving.done():
                    return receiving.result()
                if worker.cpu_seconds() - begun >= seconds:
                    raise TimeoutError
            worker.kill(f"the worker did not answer within {seconds * _PATIENCE:g} s")
            return await receiving
        finally:
            receiving.cancel()
