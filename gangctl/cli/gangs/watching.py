"""Watched gangs: each change triggers a new evaluation, without polling."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import structlog

from gangctl.api.objects import Key
from gangctl.api.scheduling import Observed
from gangctl.cli.gangs.cluster import Reader, Source, queue_sources
from gangctl.cli.gangs.state import GangState, StoredJobSet
from gangctl.gang.desired import JobProgress
from gangctl.readiness.facts import PodFacts, Refused, is_followed
from gangctl.readiness.result import Readiness
from gangctl.runtime.informer import Informer

SETTLE_SECONDS: Final = 0.1
"""Changes come in bursts: they are evaluated together."""

Changes = list[tuple[Key, Readiness | None, Readiness | None]]
"""Old and new readiness of each gang; None before it exists, and after its deletion."""


@dataclass(slots=True)
class _Dirty:
    """Keys to evaluate again."""

    keys: set[Key]
    everything: bool = False
    queues: bool = False


class Watch:
    """Watches the collections of a reader; :attr:`last` is the last readiness of each gang."""

    def __init__(self, reader: Reader) -> None:
        """Nothing is watched before :meth:`turns`."""
        self.last: dict[Key, Readiness] = {}
        self._reader = reader
        self._state: GangState = reader.state
        self._dirty = _Dirty(set(), everything=True)
        self._changed = asyncio.Event()

    async def turns(self, tick: float | None = None) -> AsyncGenerator[Changes]:
        """Yield changes; first all gangs, as the reader read them, so that the informers report what is deleted since.

        With ``tick`` also empty changes at this interval (seconds).
        Close it with ``aclosing``: it runs the watches.
        """
        _quiet()
        sources = [*self._reader.readable]
        if self._state.queues.stock is not None:
            self._state.queues.seed(self._reader.scope.namespace)
            sources += queue_sources(self._state, self._reader.scope)
        informers = [self._informer(source) for source in sources]
        yield self._evaluate()
        tasks = [asyncio.create_task(informer.run()) for informer in informers]
        try:
            while True:
                if await self._wait(tick):
                    yield self._evaluate()
                else:
                    yield []
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _wait(self, tick: float | None) -> bool:
        """Wait for a change, or until time alone changes a result; False for a tick."""
        again = min((each.look_again for each in self.last.values() if each.look_again), default=None)
        due = None if again is None else max(0.0, again - _now())
        limits = [limit for limit in (tick, due) if limit is not None]
        try:
            await asyncio.wait_for(self._changed.wait(), min(limits, default=None))
        except TimeoutError:
            now = _now()
            late = {key for key, each in self.last.items() if each.look_again and each.look_again <= now}
            self._dirty.keys |= late
            return bool(late)
        await asyncio.sleep(SETTLE_SECONDS)
        return True

    def _evaluate(self) -> Changes:
        dirty, self._dirty = self._dirty, _Dirty(set())
        self._changed.clear()
        if dirty.queues:
            self._state.queues.refresh(self._reader.scope.namespace)
        keys = {*self.last, *self._state.followed()} if dirty.everything or dirty.queues else dirty.keys
        now = _now()
        changes: Changes = []
        for key in sorted(keys):
            before = self.last.get(key)
            found = self._state.jobsets.get(*key)
            is_gang = found is not None and is_followed(found.jobset)
            # The readiness of a deleted JobSet does not apply to the next one of its name.
            same = found is not None and before is not None and found.jobset.uid == before.uid
            after = self._state.readiness(key, now, before if same else None) if is_gang else None
            if after is None:
                self.last.pop(key, None)
            else:
                self.last[key] = after
            if after != before:
                changes.append((key, before, after))
        return changes

    def _informer(self, source: Source[Any]) -> Informer[Any]:
        informer = Informer(
            self._reader.client,
            source.resource,
            source.project,
            store=source.store,
            namespace=source.namespace,
            selection=source.selection,
        )
        informer.subscribe(self._on_change(source))
        return informer

    def _on_change(self, source: Source[Any]) -> Callable[[Any, Any], None]:
        queues = self._state.queues
        of_queues = any(source.store is each for each in (queues.local_queues, queues.cluster_queues, queues.workloads))

        def changed(old: Any, new: Any) -> None:
            for each in (old, new):
                if each is None:
                    continue
                keys = self._keys(each)
                if of_queues:
                    self._dirty.queues = True
                elif keys is None:
                    self._dirty.everything = True
                else:
                    self._dirty.keys |= keys
            self._changed.set()

        return changed

    def _keys(self, changed: object) -> set[Key] | None:
        """The JobSets that an object affects; None for all."""
        match changed:
            case StoredJobSet():
                return {changed.jobset.key}
            case JobProgress() | PodFacts():
                return {(changed.namespace, changed.jobset)}
            case Observed():
                return {(changed.namespace, name) for name in (changed.owner_jobset, changed.claims_jobset) if name}
            case Refused():
                job = self._state.jobs.get(changed.namespace, changed.name) if changed.kind == "Job" else None
                return {(changed.namespace, job.jobset if job is not None else changed.name)}
        return None


def _now() -> float:
    return datetime.now(UTC).timestamp()


def _quiet() -> None:
    """Informer events go to logs; problems are also shown to the user."""
    structlog.configure(
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
    )
