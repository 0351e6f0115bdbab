"""Watched gangs: each change triggers a new evaluation, without polling, for ``get --watch``, ``wait`` and ``top``."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

import click

from gangctl.api.emit import to_yaml
from gangctl.api.objects import Key
from gangctl.api.scheduling import Observed
from gangctl.cli.gangs.asking import Asking, live
from gangctl.cli.gangs.cluster import ReadCollection, ScopeReader, queue_sources
from gangctl.cli.gangs.state import GangState, StoredJobSet
from gangctl.cli.gangs.views import WIDE_HEADERS, gang_row, headers_of, sentence
from gangctl.cli.messages import log_to_stderr, plural, printable
from gangctl.cli.output import TABLE, WIDE, Listing, Section, Table, print_answer, print_names, row_line
from gangctl.client.resources import JOBSETS
from gangctl.errors import ForbiddenError, GangctlError, NotFoundError
from gangctl.gang.desired import JobProgress
from gangctl.gang.reasons import Reason
from gangctl.kueue.amounts import span
from gangctl.kueue.names import GROUP as KUEUE
from gangctl.kueue.objects import QueuedWorkload
from gangctl.readiness.facts import EndedPod, PodFacts, Refused, is_followed
from gangctl.readiness.membership import of_earlier_jobset
from gangctl.readiness.report import gang_object
from gangctl.readiness.result import GangPhase, GroupReadiness, Readiness
from gangctl.runtime.informer import Informer

SETTLE_SECONDS: Final = 0.1
"""Changes come in bursts: they are evaluated together."""
_ANSWER_SECONDS: Final = 10.0
"""Of a cluster at the end of a wait."""

Changes = list[tuple[Key, Readiness | None, Readiness | None]]
"""Old and new readiness of each gang; None before it exists, and after its deletion."""


class GangWatch:
    """Watches the collections of a reader; :attr:`last` is the last readiness of each gang."""

    def __init__(self, reader: ScopeReader) -> None:
        """Nothing is watched before :meth:`turns`."""
        self.last: dict[Key, Readiness] = {}
        self._reader = reader
        self._state: GangState = reader.state
        self._dirty: set[Key] = set()
        """To evaluate again, besides everything after some changes."""
        self._everything = True
        self._ended: dict[Key, StoredJobSet] = {}
        """JobSets that were deleted since, as they were last, if they had finished."""
        self._changed = asyncio.Event()

    async def turns(self, tick: float | None = None) -> AsyncGenerator[Changes]:
        """Yield changes; first all gangs, as the reader read them, so that the informers report what is deleted since.

        With ``tick`` also empty changes at this interval (seconds).
        Close it with ``aclosing``: it runs the watches.
        """
        log_to_stderr(warnings_only=True)
        sources = [*self._reader.readable]
        if self._state.queues.present:
            sources += queue_sources(self._state, self._reader.scope)
            self._state.queues.heads.subscribe(self._on_head)
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
            # The caller closes the client next: no watch may be open then.
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _wait(self, tick: float | None) -> bool:
        """Wait for a change, or until time alone changes a result; False for a tick."""
        again = min((readiness.look_again for readiness in self.last.values() if readiness.look_again), default=None)
        due = None if again is None else max(0.0, again - self._state.now())
        limits = [limit for limit in (tick, due) if limit is not None]
        try:
            await asyncio.wait_for(self._changed.wait(), min(limits, default=None))
        except TimeoutError:
            now = self._state.now()
            late = {key for key, gang in self.last.items() if gang.look_again and gang.look_again <= now}
            self._dirty |= late
            return bool(late)
        await asyncio.sleep(SETTLE_SECONDS)
        return True

    def _evaluate(self) -> Changes:
        self._changed.clear()
        keys = {*self.last, *self._state.followed()} if self._everything else self._dirty
        self._dirty, self._everything = set(), False
        now = self._state.now()
        changes: Changes = []
        for key in sorted(keys):
            before = self.last.get(key)
            if before is not None and (end := self._end_of(before, now)) is not None:
                # It may be deleted as soon as it finishes (ttlSecondsAfterFinished), and both be seen at once.
                changes.append((key, before, end))
                before = end
            stored = self._state.jobsets.get(*key)
            is_gang = stored is not None and is_followed(stored.jobset)
            # The readiness of a deleted JobSet does not apply to the next one of its name.
            same = stored is not None and before is not None and stored.jobset.uid == before.uid
            after = self._state.readiness(key, now, before if same else None) if is_gang else None
            if after is None:
                self.last.pop(key, None)
            else:
                self.last[key] = after
            if after != before:
                changes.append((key, before, after))
        self._ended.clear()
        return changes

    def _end_of(self, before: Readiness, now: float) -> Readiness | None:
        """The readiness with which a deleted JobSet had finished, if that has not been seen."""
        ended = self._ended.get(before.key)
        if before.phase.over or ended is None or ended.jobset.uid != before.uid:
            return None
        return self._state.readiness_of(ended, now, before)

    def _informer(self, source: ReadCollection[Any]) -> Informer[Any]:
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

    def _on_head(self, _cluster_queue: str) -> None:
        self._everything = True
        self._changed.set()

    def _on_change(self, source: ReadCollection[Any]) -> Callable[[Any, Any], None]:
        queues = self._state.queues
        of_queues = source.resource.group == KUEUE

        def changed(old: Any, new: Any) -> None:
            if of_queues:
                queues.keep(old, new)
                workload = new or old if isinstance(new or old, QueuedWorkload) else None
                # Those of other namespaces change often, and concern a gang here only as the head of its queue.
                if workload is not None and self._reader.scope.namespace not in {None, workload.namespace}:
                    return
                self._everything = True
                # Verdicts on what never fits do not depend on Workloads, and these change all the time.
                if workload is None:
                    self._state.nevers.clear()
            if new is None and isinstance(old, StoredJobSet) and old.jobset.finished:
                self._ended[old.jobset.key] = old
            for one in (old, new):
                if one is None or of_queues:
                    continue
                if isinstance(one, StoredJobSet):
                    self._state.nevers.pop(one.jobset.key, None)
                keys = self._keys(one)
                if keys is None:
                    self._everything = True
                else:
                    self._dirty |= keys
            self._changed.set()

        return changed

    def _keys(self, changed: object) -> set[Key] | None:
        """The JobSets that an object affects; None for all."""
        match changed:
            case StoredJobSet():
                return {changed.jobset.key}
            case JobProgress() | PodFacts():
                return {(changed.namespace, changed.jobset)}
            case EndedPod():
                return {(changed.pod.namespace, changed.pod.jobset)}
            case Observed():
                return {(changed.namespace, name) for name in (changed.owner_jobset, changed.claims_jobset) if name}
            case Refused():
                job = self._state.jobs.get(changed.namespace, changed.name) if changed.kind == "Job" else None
                return {(changed.namespace, job.jobset if job is not None else changed.name)}
        return None


GONE: Final = "(deleted)"
_WIDTHS: Final[Mapping[str, int]] = {
    "NAMESPACE": 15,
    "NAME": 23,
    "PHASE": 19,
    "READY": 10,
    "REASON": 21,
    "QUEUE": 15,
    "SINCE": 9,
    "AGE": 9,
    "CLUSTER": 16,
    "CLUSTERQUEUE": 16,
}
"""Minimum widths of columns with the gap behind them, for later rows; others are as wide as the first rows."""


def print_changes(asking: Asking, phases: Collection[GangPhase], listing: Listing) -> None:
    """Print gangs until Ctrl-C; with ``phases`` only while they are in, or leave, one of these."""

    async def follow(reader: ScopeReader, _keys: list[Key]) -> None:
        printer = _Printer(listing, reader.state.now)
        watch = GangWatch(reader)
        async with aclosing(watch.turns()) as turns:
            async for changes in turns:
                shown = [
                    (before, after)
                    for _, before, after in changes
                    if _differs(before, after) and (not phases or _in(before, phases) or _in(after, phases))
                ]
                printer.show(shown)

    live(asking, follow, watching=True)


def _in(gang: Readiness | None, phases: Collection[GangPhase]) -> bool:
    return gang is not None and gang.phase in phases


def _differs(before: Readiness | None, after: Readiness | None) -> bool:
    """Whether the output differs."""
    if before is None or after is None:
        return before is not after
    return _cells(before) != _cells(after)


def _cells(gang: Readiness) -> tuple[str, ...]:
    return gang_row(gang, 0)[:6]


class _Printer:
    """One row, document or name at a time."""

    def __init__(self, listing: Listing, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._form = listing.form
        self._headers = listing.headers
        self._columns: tuple[str, ...] = ()
        """Those of the first gangs, without the columns of ``-o wide``: rows that come later have no others."""
        self._widths: Sequence[int] = ()
        self._documents = 0

    def show(self, changes: Sequence[tuple[Readiness | None, Readiness | None]]) -> None:
        now = self._clock()
        self._columns = self._columns or headers_of(after for _, after in changes if after is not None)
        if self._form in {TABLE, WIDE}:
            self._rows([self._row(before, after, now) for before, after in changes])
            return
        for _, after in changes:
            if after is None:
                continue
            if self._form == "name":
                print_names([gang_object(after)])
            else:
                click.echo(("---\n" if self._documents else "") + to_yaml([gang_object(after)]), nl=False)
                self._documents += 1

    def _row(self, before: Readiness | None, after: Readiness | None, now: float) -> tuple[str, ...]:
        if after is not None:
            return gang_row(after, now, self._columns)
        assert before is not None  # noqa: S101 -- a change has one of the two
        row = gang_row(before, now, self._columns)
        return (*row[:2], GONE, "", "", *row[5:])

    def _rows(self, rows: Sequence[tuple[str, ...]]) -> None:
        header = (*self._columns, *WIDE_HEADERS) if self._form == WIDE else self._columns
        if not self._widths:
            known = Table(header, tuple(row[: len(header)] for row in rows))
            self._widths = [max(width, _WIDTHS.get(name, 0)) for name, width in zip(header, known.widths, strict=False)]
            rows = [header, *rows] if self._headers else rows
        for row in rows:
            click.echo(row_line(row[: len(header)], self._widths))


ENDLESS: Final = frozenset(
    {
        Reason.NEVER_FITS,
        Reason.NOT_GANGED,
        Reason.INVALID_GANG_CONFIG,
        Reason.SCHEDULING_GATE_OFF,
        Reason.FIELD_DROPPED,
        Reason.UNSUPPORTED_SCHEDULER,
        Reason.PRIORITY_MISMATCH,
        Reason.MIN_COUNT_UNREACHABLE,
        Reason.GANG_TAIL_BLOCKED,
        Reason.EXCLUSIVE_TOPOLOGY_DEADLOCK,
        Reason.TOPOLOGY_TOO_SMALL,
        Reason.FAILED_TO_START,
        Reason.DEACTIVATED,
        Reason.TOO_MANY_PODSETS,
        Reason.PRIORITY_CLASS_MISSING,
        Reason.FRAMEWORK_NOT_ENABLED,
        Reason.NAMESPACE_NOT_MANAGED,
    }
)
"""Causes that stay until the user changes something: ``--fail-fast`` ends the wait."""
SCHEDULED: Final = "scheduled"
_GOALS: Final[Mapping[str, tuple[GangPhase, ...]]] = {
    SCHEDULED: (GangPhase.STARTING, GangPhase.PARTIALLY_READY, GangPhase.READY, GangPhase.SUCCEEDED),
    "ready": (GangPhase.READY, GangPhase.SUCCEEDED),
    "finished": (GangPhase.SUCCEEDED,),
}
_TO_COME: Final = frozenset({GangPhase.PENDING, GangPhase.WAITING_FOR_PODS})
SUSPENDED: Final = "suspended"
"""The goal that no phase shows: a suspended JobSet has different phases with and without a queue."""


class NotReachedError(GangctlError):
    """The wait ended, and a gang did not reach the goal: exit code 1."""

    code = "NotReached"


@dataclass(slots=True)
class Wait:
    """State of a wait; ``timeout`` in seconds."""

    goal: str
    timeout: float
    fail_fast: bool
    state: GangState
    keys: Sequence[Key]
    there: dict[Key, Readiness] = field(default_factory=dict)
    last: dict[Key, Readiness] = field(default_factory=dict)
    printed: dict[Key, str] = field(default_factory=dict)

    @property
    def over(self) -> bool:
        """Whether all reached the goal: one that reached it counts, even if it changes later."""
        return len(self.there) == len(self.keys)

    def learn(self, changes: Changes) -> None:
        """Print changes; NotReachedError if one will never reach the goal."""
        for key, _, gang in changes:
            if key not in self.keys:
                continue
            if gang is None:
                # Such as a finished one whose ttlSecondsAfterFinished is over, while others still run.
                if key in self.there:
                    continue
                raise NotReachedError(f"JobSet {_name(key)} was deleted, or asks for no gang any more")
            self.last[key] = gang
            line = f"{_name(key)}: {progress(gang)}"
            if self.printed.get(key) != line:
                self.printed[key] = line
                click.echo(printable(line), err=True)
            # At each change: one that has finished may be deleted by the next.
            self._check(key, gang)
        # Pods without a node, and those of ReplicatedJobs without a gang, may end without a change of the readiness.
        for key, gang in self.last.items():
            if key not in self.there:
                self._check(key, gang)

    def _check(self, key: Key, gang: Readiness) -> None:
        if self._is_reached(key, gang):
            self.there[key] = gang
        elif key not in self.there and self._is_hopeless(gang):
            raise self._error(key, gang, f"will not be {self.goal}")

    def too_late(self) -> NotReachedError:
        """The error with the gangs that did not reach the goal."""
        missing = [key for key in self.keys if key not in self.there]
        first = missing[0]
        others = f" (nor {', '.join(_name(key) for key in missing[1:])})" if missing[1:] else ""
        waited = span(timedelta(seconds=self.timeout))
        return self._error(first, self.last.get(first), f"is not {self.goal} after {waited}{others}")

    def _is_reached(self, key: Key, gang: Readiness) -> bool:
        if self.goal != SUSPENDED:
            # The phase is that of the groups that have begun: those of a later stage have no pods yet.
            if self.goal == SCHEDULED and any(group.phase in _TO_COME for group in gang.groups):
                return False
            degraded = self.goal == SCHEDULED and gang.phase is GangPhase.DEGRADED
            return gang.phase in _GOALS[self.goal] or (degraded and all(map(_is_placed, gang.groups)))
        stored = self.state.jobsets.get(*key)
        if stored is None or not stored.jobset.suspend or gang.phase.over:
            return False
        # Counts are without pods that terminate, which hold their nodes for as long as they may take to end, and
        # without those of ReplicatedJobs that have no gang.
        return all(of_earlier_jobset(pod, stored.jobset) for pod in self.state.pods.by_index("jobset", key))

    def _is_hopeless(self, gang: Readiness) -> bool:
        """Whether it will not reach the goal without a change."""
        if gang.phase is GangPhase.FAILED or (self.goal == SUSPENDED and gang.phase.over):
            return True
        return self.fail_fast and any(cause.blocking and cause.reason in ENDLESS for cause in gang.causes)

    def _error(self, key: Key, gang: Readiness | None, what: str) -> NotReachedError:
        if gang is None:
            return NotReachedError(f"gang {_name(key)} {what}")
        first = next((cause for cause in gang.causes if cause.reason in ENDLESS), None) or next(iter(gang.causes), None)
        why = first.message if first is not None else self.state.outcome(key) or gang.phase.sentence.rstrip(".")
        remedy = first.remedy if first is not None else ""
        look = self.state.flags.on(f"gangctl why {key[1]} -n {key[0]}")
        hint = f"{remedy}; {look} says more" if remedy else f"{look} says more"
        return NotReachedError(f"gang {_name(key)} {what}: {gang.phase.value}: {why}", hint=hint)


def _is_placed(group: GroupReadiness) -> bool:
    return group.counts.placed >= min(group.counts.minimum, group.counts.wanted)


def _name(key: Key) -> str:
    return f"{key[0]}/{key[1]}"


def progress(gang: Readiness) -> str:
    """Phase, counts and the first cause, on one line."""
    counts = f"{gang.counts.ready} of {plural(gang.counts.wanted, 'pod')} ready"
    why = f": {sentence(gang.causes[0].message)}" if gang.causes else ""
    return gang.phase.value if gang.phase.over else f"{gang.phase.value}, {counts}{why}"


def wait_for_gangs(asking: Asking, form: str, *, goal: str, timeout: float, fail_fast: bool) -> None:
    """Wait, and print the final state of the gangs; NotReachedError if not all reached the goal."""

    async def wait(reader: ScopeReader, keys: list[Key]) -> tuple[Wait, NotReachedError | None]:
        waiting = Wait(goal, timeout, fail_fast, reader.state, keys)
        try:
            await _until_over(waiting, reader)
        except NotReachedError as error:
            return waiting, error
        return waiting, None

    waiting, error = live(asking, wait, watching=True)
    _print(waiting, form)
    if error is not None:
        raise error


async def _until_over(waiting: Wait, reader: ScopeReader) -> None:
    """NotReachedError at the timeout, ApiError if the cluster does not answer then."""
    watch = GangWatch(reader)
    async with aclosing(watch.turns()) as turns:
        # Before the deadline: what is reached already counts, also with --timeout 0.
        waiting.learn(await anext(turns))
        try:
            async with asyncio.timeout(waiting.timeout):
                while not waiting.over:
                    waiting.learn(await anext(turns))
        except TimeoutError:
            # Watches of a cluster that does not answer are only tried again: what is known may be of long ago.
            namespace, name = waiting.keys[0]
            with suppress(ForbiddenError, NotFoundError):
                await reader.client.get(JOBSETS, name, namespace, timeout_seconds=_ANSWER_SECONDS)
            raise waiting.too_late() from None


def _print(waiting: Wait, form: str) -> None:
    gangs = [waiting.last[key] for key in waiting.keys if key in waiting.last]
    # On a terminal, where both streams are read as one, the last step of each says it already.
    one_stream = sys.stdout.isatty() and sys.stderr.isatty()
    lines = tuple(f"{_name(gang.key)}: {progress(gang)}" for gang in gangs)
    print_answer(
        form,
        [gang_object(gang) for gang in gangs],
        lambda: [] if one_stream else [Section(lines=lines)],
        map(gang_object, waiting.there.values()),
    )
