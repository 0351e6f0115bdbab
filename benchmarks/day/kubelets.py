"""Simulated kubelets of a run: pods work only while all pods of their JobSet run, and end once its work is done.

A JobSet that is interrupted keeps the work that it has done, as one with checkpoints does.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self

from benchmarks.day.figures import Event, Kind
from benchmarks.day.windows import Demand, Replay
from tests.controlplane import pod_status
from tests.controlplane.api import ApiClient, Object
from tests.controlplane.kubelet import JOBSET_NAME, Kubelet, run_forever

_ENDED = {"Succeeded", "Failed"}


class _Work:
    """What is left to do of one JobSet, in seconds of the run."""

    def __init__(self, demand: Demand, left: float) -> None:
        self.demand = demand
        self.left = left
        self.running: dict[str, Object] = {}
        self.began = 0.0
        self.timer: asyncio.TimerHandle | None = None
        self.done = False


class Kubelets:
    """All kubelets; ``async with Kubelets(api, replay) as kubelets:``. Its clock begins at :meth:`begin`.

    The end of the context raises the error of a write that was refused.
    """

    def __init__(self, api: ApiClient, replay: Replay) -> None:
        self.events: list[Event] = []
        self.all_done = asyncio.Event()
        self._speed = replay.speed
        self._works = {each.name: _Work(each, each.seconds / replay.speed) for each in replay.demands}
        self._states: dict[str, Kind] = {}
        self._lost: set[str] = set()
        self._began = time.monotonic()
        self._writes: set[asyncio.Task[None]] = set()
        self._error: BaseException | None = None
        self._kubelet = Kubelet(api, run_forever, start=self._start, observe=self._observe)

    async def __aenter__(self) -> Self:
        self._kubelet.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for work in self._works.values():
            self._pause(work)
        for task in self._writes:
            task.cancel()
        await asyncio.gather(*self._writes, return_exceptions=True)
        await self._kubelet.stop()
        if self._error is not None and error is None:
            raise self._error

    def begin(self) -> None:
        """The trace begins now."""
        self._began = time.monotonic()

    @property
    def now(self) -> float:
        """Seconds of the trace."""
        return (time.monotonic() - self._began) * self._speed

    @property
    def done(self) -> int:
        """JobSets whose work is done."""
        return sum(work.done for work in self._works.values())

    def lose(self, node: str) -> None:
        """Its pods fail, and so do those that are bound to it from now on."""
        self._lost.add(node)
        self.events.append(Event(self.now, Kind.LOST, node=node))
        for pod in self._kubelet.pods:
            if pod["spec"]["nodeName"] == node and pod["status"].get("phase") not in _ENDED:
                self._write(lambda pod=pod: self._kubelet.fail(pod, exit_code=137))  # type: ignore[misc]

    def bring_back(self, node: str) -> None:
        """It runs pods again."""
        self._lost.discard(node)
        self.events.append(Event(self.now, Kind.BACK, node=node))

    def _start(self, pod: Object) -> Object:
        return pod_status.failed(pod, 137) if pod["spec"]["nodeName"] in self._lost else pod_status.running(pod)

    def _observe(self, pod: Object, present: bool) -> None:
        metadata = pod["metadata"]
        work = self._works.get(metadata.get("labels", {}).get(JOBSET_NAME, ""))
        if work is None:
            return
        phase = pod["status"].get("phase")
        if not present or phase in _ENDED:
            state = Kind.ENDED
        elif "deletionTimestamp" in metadata:
            state = Kind.STOPPING
        else:
            state = Kind.RUNNING if phase == "Running" else Kind.BOUND
        uid = metadata["uid"]
        # A pod that ran between two lists is seen first in a later state: figures count its GPUs from its binding.
        if uid not in self._states:
            self._record(Kind.BOUND, work, pod)
        # A pod ends once: its deletion comes after its end.
        if self._states[uid] not in {state, Kind.ENDED}:
            self._record(state, work, pod)
        self._work(work, pod, running=state is Kind.RUNNING)

    def _record(self, kind: Kind, work: _Work, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        self._states[uid] = kind
        self.events.append(Event(self.now, kind, work.demand.name, uid, pod["spec"]["nodeName"]))

    def _work(self, work: _Work, pod: Object, *, running: bool) -> None:
        uid = pod["metadata"]["uid"]
        if running:
            work.running[uid] = pod
        else:
            work.running.pop(uid, None)
        # A Job that failed just before is made anew, and its pods have no work left.
        if work.done:
            if running:
                self._finish(pod)
        elif len(work.running) < work.demand.pods:
            self._pause(work)
        elif work.timer is None:
            work.began = time.monotonic()
            work.timer = asyncio.get_running_loop().call_later(work.left, self._over, work)

    def _pause(self, work: _Work) -> None:
        if work.timer is not None:
            work.timer.cancel()
            work.timer = None
            work.left = max(0.0, work.left - (time.monotonic() - work.began))

    def _over(self, work: _Work) -> None:
        work.done, work.timer = True, None
        self.events.append(Event(self.now, Kind.DONE, work.demand.name))
        for pod in work.running.values():
            self._finish(pod)
        if all(each.done for each in self._works.values()):
            self.all_done.set()

    def _finish(self, pod: Object) -> None:
        self._write(lambda: self._kubelet.finish(pod))

    def _write(self, write: Callable[[], Coroutine[Any, Any, None]]) -> None:
        task = asyncio.get_running_loop().create_task(write())
        self._writes.add(task)
        task.add_done_callback(self._wrote)

    def _wrote(self, task: asyncio.Task[None]) -> None:
        self._writes.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            # The pod runs on, so that the run is worth nothing: it ends now.
            self._error = self._error or error
            self.all_done.set()
