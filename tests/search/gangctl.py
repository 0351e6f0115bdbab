"""gangctl in a world: its own caches, controller and reporter, called with what the caches hold in a state.

This is the only module that knows how gangctl is built. A reconcile runs once for each input; what it writes is
recorded instead of sent, and sent by the world later, write by write.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from itertools import groupby
from typing import Any, Final, Literal, NamedTuple, TypeVar, cast

from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from gangctl.api.objects import Key
from gangctl.api.scheduling import ApiState, Feature, Generation, Observed
from gangctl.api.scheduling_versions import composite_pod_group
from gangctl.api.store import Entry, Store
from gangctl.client.client import Client
from gangctl.controllers.caches import GangCaches, SchedulingCache
from gangctl.controllers.gangs import Assessments, GangController, PodReader
from gangctl.controllers.reporter import GangMetrics, GangReporter
from gangctl.controllers.writer import CONCURRENT_WRITES, Writer
from gangctl.errors import ApiError, ForbiddenError, ServerError
from gangctl.gang.desired import while_suspended
from gangctl.gang.diff import Change, Create, Delete, Kind
from gangctl.runtime.controller import Action
from gangctl.runtime.informer import InformerObserver
from tests.search.facts import can_exist_in
from tests.search.state import KNOWN, RESYNC, SOON, Job, JobSet, Object, Write
from tests.search.views import Views
from tests.search.world import NAME, NAMESPACE, World

T = TypeVar("T")

KEY: Final[Key] = (NAMESPACE, NAME)
_MINUTES: Final = 120.0
"""What is done later than that waits for nothing in particular."""
_REFUSAL: Final = ForbiddenError(403, "Forbidden", "exceeded quota")
_FAILURE: Final = ServerError(500, "InternalError", "etcd has no leader")


class Decision(NamedTuple):
    """What a reconcile does: writes in order, when it is repeated, and its events (reason and message)."""

    writes: tuple[Write, ...] = ()
    due: int = 0
    reported: frozenset[str] = frozenset()


class _Pods:
    """The pods as they are."""

    def __init__(self, *, unfinished: bool) -> None:
        self._unfinished = unfinished

    async def any_unfinished(self, _jobset: object) -> bool:
        return self._unfinished


class _Recorder:
    """Takes the place of the writer; one call may end with an error."""

    def __init__(self, call: int | None, error: ApiError) -> None:
        self.calls: list[Sequence[Change]] = []
        self._call, self._error = call, error

    async def carry_out(self, changes: Sequence[Change], done: list[Change]) -> None:
        self.calls.append(changes)
        if changes and len(self.calls) - 1 == self._call:
            raise self._error.with_traceback(None)
        done += changes


def _run(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return cast(T, end.value)
    raise RuntimeError("a reconcile waited")


def _due(action: Action) -> int:
    if action.after_seconds is None and not action.backoff:
        return KNOWN
    return KNOWN | (RESYNC if (action.after_seconds or 0.0) >= _MINUTES else SOON)


class Gangctl:
    """gangctl with the rules of one world."""

    def __init__(self, world: World, views: Views) -> None:
        self._world = world
        self._views = views
        lacks = frozenset() if world.composite else frozenset({Feature.COMPOSITE})
        self._state = ApiState(world.generation, lacks=lacks)
        self._triggered = False
        self._caches = GangCaches(cast(Client, None), self._enqueue, lambda: 0.0)
        self._scheduling = SchedulingCache(
            cast(Client, None), world.generation, self._state.composite, lambda _: InformerObserver(), lambda: None
        )
        self._caches._scheduling = self._scheduling
        self._metrics = GangMetrics(CollectorRegistry())
        self._decisions: dict[object, Decision] = {}
        self._triggers: dict[object, bool] = {}
        self._claims: dict[tuple[Object, ...], bool] = {}

    def _enqueue(self, key: Key, seconds: float | None) -> None:
        self._triggered |= key == KEY and seconds is not None

    def reconcile(
        self,
        jobset: JobSet | None,
        jobs: tuple[int, ...],
        objects: tuple[Object, ...],
        *,
        unfinished: bool,
    ) -> Decision:
        """One reconcile; ``unfinished`` is whether any pod has not finished."""
        key = jobset, jobs, objects, unfinished
        decision = self._decisions.get(key)
        if decision is None:
            decision = self._decisions[key] = self._reconcile(jobset, jobs, objects, _Pods(unfinished=unfinished))
        return decision

    def _reconcile(
        self, jobset: JobSet | None, jobs: tuple[int, ...], objects: tuple[Object, ...], pods: _Pods
    ) -> Decision:
        self._fill(jobset, jobs, objects)
        calls, due, reported = self._outcome(pods)
        writes: list[Write] = []
        for number, changes in enumerate(calls):
            # A refusal of one of the next attempt's groups does not end a reconcile, a failure does.
            ends = [not changes or not self._survives(pods, number, error) for error in (_REFUSAL, _FAILURE)]
            made = self._writes(changes, number, jobset, jobs)
            writes += [write._replace(ends_refused=ends[0], ends_failed=ends[1]) for write in made]
        return Decision(tuple(writes), due, reported)

    def _survives(self, pods: _Pods, call: int, error: ApiError) -> bool:
        try:
            with capture_logs():
                self._outcome(pods, call, error)
        except ApiError:
            return False
        return True

    def _outcome(
        self, pods: _Pods, call: int | None = None, error: ApiError = _FAILURE
    ) -> tuple[list[Sequence[Change]], int, frozenset[str]]:
        recorder, reported = _Recorder(call, error), set[str]()
        controller = GangController(
            self._caches,
            lambda _: cast(Writer, recorder),
            cast(PodReader, pods),
            GangReporter(lambda _, notice: reported.add(f"{notice.reason.value}: {notice.message}"), self._metrics),
            self._assessments(),
            concerns=lambda _: True,
        )
        action = _run(controller.reconcile(KEY))
        return recorder.calls, _due(action), frozenset(reported)

    def _assessments(self) -> Assessments:
        rules = self._views.rules
        return Assessments(
            lambda: self._state,
            lambda _: rules,
            lambda jobset: while_suspended(jobset, queues=self._world.queue),
        )

    def _writes(
        self, changes: Sequence[Change], call: int, jobset: JobSet | None, jobs: tuple[int, ...]
    ) -> list[Write]:
        writes: list[Write] = []
        batch = 0
        for _, run in groupby(changes, key=lambda change: (type(change), change.kind)):
            for number, change in enumerate(run):
                batch += number % CONCURRENT_WRITES == 0
                write = self._write(change)
                timely = True
                if write.verb == "create" and write.kind == "PodGroup" and jobset is not None:
                    known = [self._views.known(job) for job in jobs]
                    wanted = can_exist_in(self._views, jobset, known, write.name)
                    timely = wanted is None or write.counts[0][1] <= max(1, wanted)
                writes.append(write._replace(batch=batch, call=call, timely=timely))
        return writes

    def _write(self, change: Change) -> Write:
        if isinstance(change, Create):
            new = self._views.accept(change.kind, self._body(change))
            return Write("create", new.kind, new.name, 0, new.counts, new.owner, new.parent)
        uid = int(change.observed.uid.rpartition("/")[2])
        if isinstance(change, Delete):
            return Write("delete", change.kind, change.name, uid)
        counts = dict(change.observed.min_counts) | {name: new for _, name, _, new in change.counts}
        return Write("patch", change.kind, change.name, uid, tuple(counts.items()))

    def _body(self, change: Create) -> dict[str, Any]:
        wanted: Any = change.wanted
        if change.kind == "CompositePodGroup":
            return composite_pod_group(wanted)
        return (
            self._views.adapter.workload(wanted) if change.kind == "Workload" else self._views.adapter.pod_group(wanted)
        )

    def claimed(self, objects: tuple[Object, ...]) -> bool:
        """Whether the webhook for JobSets leaves a new one to the owner of a Workload."""
        claimed = self._claims.get(objects)
        if claimed is None:
            self._fill(None, (), objects)
            claimed = self._claims[objects] = self._caches.claimed(*KEY) is not None
        return claimed

    def _fill(self, jobset: JobSet | None, jobs: tuple[int, ...], objects: tuple[Object, ...]) -> None:
        """Put this into the caches, and nothing else."""
        stores: list[Store[Any]] = [self._caches.jobsets.store, self._caches._jobs.store]
        for store in (*stores, *(informer.store for informer in self._scheduling.informers.values())):
            store.clear()
        if jobset is not None:
            stores[0].put(KEY, Entry("", "1", self._views.jobset(jobset)))
        for number in jobs:
            if (progress := self._views.progress(number)) is not None:
                stores[1].put((NAMESPACE, progress.name), Entry(str(number), "1", progress))
        for one in objects:
            observed = self._views.observed(one)
            kind: Kind = cast(Literal["Workload", "PodGroup", "CompositePodGroup"], one.kind)
            if kind in self._scheduling.informers:
                self._scheduling.informers[kind].store.put((NAMESPACE, one.name), Entry(observed.uid, "1", observed))

    def triggered_by_jobset(self, old: JobSet | None, new: JobSet | None) -> bool:
        """Whether a watch event of the JobSet makes a reconcile due."""
        key = "jobset", old, new
        triggered = self._triggers.get(key)
        if triggered is None:
            self._triggered = False
            views = [None if jobset is None else self._views.jobset(jobset) for jobset in (old, new)]
            if views[0] != views[1]:
                self._caches._on_jobset(*views)
            triggered = self._triggers[key] = self._triggered
        return triggered

    def triggered_by_jobs(self, jobset: JobSet | None, old: tuple[int, ...], new: tuple[int, ...]) -> bool:
        """The same of Jobs; ``jobset`` is the one in the cache."""
        key = "jobs", jobset, old, new
        triggered = self._triggers.get(key)
        if triggered is None:
            self._fill(jobset, new, ())
            self._triggered = False
            for slot, (before, after) in enumerate(zip(old, new, strict=True)):
                for change in self._job_changes(slot, before, after):
                    self._caches._on_job(*change)
            triggered = self._triggers[key] = self._triggered
        return triggered

    def _job_changes(self, slot: int, old: int, new: int) -> list[tuple[Any, Any]]:
        """The events; a watch shows a new Job before it has pods, also where it shows it late."""
        if old == new:
            return []
        before, after = self._views.known(old), self._views.known(new)
        views = self._views.progress(old), self._views.progress(new)
        if after is None or (before is not None and before[:3] == after[:3]):
            return [views]
        fresh = self._views.progress(self._views.number(None, slot, Job(*after[:6])))
        return [(views[0], None), (None, fresh), (fresh, views[1])]

    def triggered_by_objects(self, old: tuple[Object, ...], new: tuple[Object, ...]) -> bool:
        """The same of Workloads and groups."""
        key = "objects", old, new
        triggered = self._triggers.get(key)
        if triggered is None:
            self._triggered = False
            before = {(one.kind, one.name, one.uid): one for one in old}
            after = {(one.kind, one.name, one.uid): one for one in new}
            for name in sorted(before.keys() | after.keys()):
                views = [self._observed(objects.get(name)) for objects in (before, after)]
                if views[0] != views[1]:
                    self._caches._on_scheduling(cast(Kind, name[0]))(*views)
            triggered = self._triggers[key] = self._triggered
        return triggered

    def _observed(self, one: Object | None) -> Observed | None:
        return None if one is None else self._views.observed(one)


__all__ = ["Decision", "Gangctl", "Generation"]
