"""gangctl's readiness controller and its metrics over objects that a simulated cluster delivers, in virtual time."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

from prometheus_client import CollectorRegistry

from gangctl.api.objects import Key
from gangctl.client.pacing import Clock
from gangctl.kueue.queues import Never
from gangctl.manager.readinessmetrics import ReadinessMetrics
from tests.agreement.paths import Fed, Object

START: Final = datetime(2026, 3, 2, tzinfo=UTC)
"""Monday; the first minute of every week."""

T = TypeVar("T")


class _Timers(selectors.SelectSelector):
    """Nothing but timers: the clock moves to the next one."""

    def __init__(self, passed: Callable[[float], None]) -> None:
        super().__init__()
        self._passed = passed

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout > 0:
            self._passed(timeout)
        return []


class TimerLoop(asyncio.SelectorEventLoop):
    """An event loop without sockets and threads, whose waiting takes no time."""

    def __init__(self) -> None:
        self._now = 0.0
        super().__init__(_Timers(self._pass))

    def time(self) -> float:
        return self._now

    def _pass(self, seconds: float) -> None:
        # A whole microsecond more: a timer must not ring a rounding error before its time.
        self._now += seconds + 1e-6


class WeekClock(Clock):
    """The loop's time, which begins at :data:`START`."""

    def wall(self) -> datetime:
        return START + timedelta(seconds=self.now())


def run(main: Coroutine[Any, Any, T]) -> T:
    """``asyncio.run`` on a :class:`TimerLoop`."""
    with asyncio.Runner(loop_factory=TimerLoop) as runner:
        return runner.run(main)


class _Fed(Fed):
    """With verdicts that are computed once, and again when a ClusterQueue changes, as the controller does it."""

    def deliver(self, raw: Object) -> None:
        if raw["kind"] == "ClusterQueue":
            self.verdicts: dict[Key, Never | None] = {}
        super().deliver(raw)

    def never(self, key: Key) -> Never | None:
        if key not in self.verdicts:
            self.verdicts[key] = super().never(key)
        return self.verdicts[key]


class Watched:
    """The leader's part that makes the metrics of gangs; inside a loop of :func:`run`."""

    def __init__(self, objects: Iterable[Object]) -> None:
        self.clock = WeekClock()
        self.fed = _Fed(objects, enqueue=lambda key, _: self.mark(key), clock=self.clock)
        self._lead()

    def _lead(self) -> None:
        self.registry = CollectorRegistry()
        self.metrics = ReadinessMetrics(
            self.registry, monotonic=self.clock.now, wall=lambda: self.clock.wall().timestamp()
        )
        self._controller = self.fed.controller([self.metrics], self.clock)
        self._controller.follow(self.fed.view, self.fed.queues.workloads.informer)
        self._controller._active = True
        self.metrics.leads()
        self._task = asyncio.get_running_loop().create_task(self._controller._requeue_timers.run())

    def mark(self, key: Key) -> None:
        """Something about a JobSet has changed."""
        self._controller.mark(key)

    def deliver(self, raw: Object) -> None:
        """An object is new, or has changed."""
        self.fed.deliver(raw)
        if raw["kind"] in {"PodGroup", "Workload"}:
            for owner in raw["metadata"].get("ownerReferences", ()):
                self.mark((raw["metadata"]["namespace"], owner["name"]))

    def withdraw(self, raw: Object) -> None:
        """An object is gone."""
        self.fed.withdraw(raw)
        if raw["kind"] == "JobSet":
            self.mark((raw["metadata"]["namespace"], raw["metadata"]["name"]))

    async def stop(self) -> None:
        """End its task."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
