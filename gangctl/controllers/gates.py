"""The opt-in gate: a JobSet is created with gangctl's name among its admission gates; here gangctl removes it.

It waits until the gang's objects exist, and Kueue has shown that it respects gates. It keeps no state: it decides from
the JobSet, its Workload and the gang, so that the next reconcile repairs a crash at any point.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gangctl.api.jobset import JobSet
from gangctl.api.objects import Key
from gangctl.client.client import Client
from gangctl.client.resources import JOBSETS
from gangctl.controllers.caches import GangCaches, project_jobset
from gangctl.controllers.checks.workloads import Statuses
from gangctl.controllers.reporter import RecordEvent
from gangctl.errors import ApiError, NotFoundError
from gangctl.gang.reasons import Notice, Reason
from gangctl.kueue.checks import Status
from gangctl.kueue.gates import GateDecision, Move, decide_gate, gated, is_opened, ungate_patch
from gangctl.kueue.names import GATE
from gangctl.kueue.objects import QueuedWorkload
from gangctl.runtime.controller import Action, await_change, requeue
from gangctl.runtime.informer import Store

CHANGED_RETRY_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True)
class _Observed:
    """The input of a reconcile."""

    jobset: JobSet
    workload: QueuedWorkload | None
    standing: Status


class GateKeeper:
    """``reconcile(key) -> Action`` for JobSets."""

    def __init__(
        self,
        reader: Client,
        writer: Client,
        caches: GangCaches,
        workloads: Store[QueuedWorkload],
        *,
        statuses: Statuses,
        record: RecordEvent,
    ) -> None:
        """The store of Kueue's Workloads has the index ``owner``."""
        self._reader = reader
        self._writer = writer
        self._caches = caches
        self._workloads = workloads
        self._statuses = statuses
        self._record_event = record

    @staticmethod
    def awaits(jobset: JobSet) -> bool:
        """Whether the gate holds a JobSet back: its gang must exist before the gate is removed."""
        return gated(jobset)

    def waiting(self) -> list[Key]:
        """JobSets with the gate."""
        return [jobset.key for jobset in self._caches.jobsets.store.values() if gated(jobset)]

    async def reconcile(self, key: Key) -> Action:
        """Remove the gate of one JobSet if its gang is ready."""
        observed = self._observe(key)
        if observed is None:
            return await_change()
        decision = decide_gate(observed.jobset, observed.workload, observed.standing)
        if decision.move is Move.REPORT and await self._live(observed.jobset) is None:
            return await_change()
        self._report_ignored(observed.jobset, decision)
        if not is_opened(decision, observed.standing):
            return await_change()
        return await self._apply(observed, decision)

    def _observe(self, key: Key) -> _Observed | None:
        """A JobSet with the gate, Kueue's Workload for it, the newest if there are several, and its gang."""
        jobset = self._caches.jobset(key)
        if jobset is None or not gated(jobset):
            return None
        found = self._workloads.by_index("owner", jobset.uid)
        workload = max(found, key=lambda each: (each.created, each.name), default=None)
        return _Observed(jobset, workload, self._statuses.of_objects(jobset))

    async def _apply(self, observed: _Observed, decision: GateDecision) -> Action:
        """Remove the gate, and report it; raises ApiError when the API server refuses that."""
        jobset = observed.jobset
        try:
            await self._writer.json_patch(JOBSETS, jobset.name, ungate_patch(jobset), jobset.namespace)
        except NotFoundError:
            return await_change()
        except ApiError as error:
            live = await self._live(jobset)
            if live is None:
                return await_change()
            if live.gates != jobset.gates:
                # The list was changed, and the cache does not have it yet.
                return requeue(CHANGED_RETRY_SECONDS)
            self._report_refused(jobset, error)
            raise
        if decision.move is Move.OPEN:
            self._report_opened(observed)
        return await_change()

    def _report_ignored(self, jobset: JobSet, decision: GateDecision) -> None:
        if decision.move is Move.REPORT:
            text = f"Gate {GATE} has no effect: {decision.message}. Kueue before 0.19, or AdmissionGatedBy off?"
            self._record_event(jobset, Notice(Reason.GATE_NOT_HONOURED, text))

    def _report_refused(self, jobset: JobSet, error: ApiError) -> None:
        text = f"Gate {GATE} stays, the API server refused to take it off ({error.reason}): {error}"
        self._record_event(jobset, Notice(Reason.FAILED_CREATE, text))

    def _report_opened(self, observed: _Observed) -> None:
        self._record_event(
            observed.jobset, Notice(Reason.GATE_REMOVED, f"Gate {GATE} is open: {observed.standing.message}")
        )

    async def _live(self, jobset: JobSet) -> JobSet | None:
        """The current JobSet from the API server, if it still has the gate: caches of two kinds may differ in age."""
        try:
            live = project_jobset(await self._reader.get(JOBSETS, jobset.name, jobset.namespace))
        except NotFoundError:
            return None
        return live if live.uid == jobset.uid and gated(live) else None
