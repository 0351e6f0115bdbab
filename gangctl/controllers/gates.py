"""The opt-in gate: JobSets are created with gangctl's name among those that hold Kueue back; here it is taken off.

Not before the gang's objects are there, and not before Kueue has shown that it minds gates at all. Nothing is
remembered: what the JobSet, its Workload and the gang look like decides, so that a crash at any point is mended by
the next look.
"""

from __future__ import annotations

from typing import Final

from gangctl.api.jobset import JobSet
from gangctl.client.client import Client
from gangctl.client.resources import JOBSETS
from gangctl.controllers.caches import GangCaches
from gangctl.controllers.checks.standing import Standings
from gangctl.controllers.projections import project_jobset
from gangctl.controllers.reporter import Announcer
from gangctl.errors import ApiError, NotFoundError
from gangctl.gang.reasons import Notice, Reason
from gangctl.kueue.checks import Progress
from gangctl.kueue.gates import Move, decide_gate, gated, ungate_patch
from gangctl.kueue.names import GATE
from gangctl.kueue.objects import QueuedWorkload
from gangctl.runtime.controller import Action, await_change, requeue
from gangctl.runtime.store import Store

Key = tuple[str, str]

CHANGED_RETRY_SECONDS: Final = 0.5


class GateKeeper:
    """``reconcile(key) -> Action`` for JobSets."""

    def __init__(
        self,
        reader: Client,
        writer: Client,
        caches: GangCaches,
        workloads: Store[QueuedWorkload],
        *,
        standings: Standings,
        say: Announcer,
    ) -> None:
        """The store of Kueue's Workloads has the index ``owner``."""
        self._reader = reader
        self._writer = writer
        self._caches = caches
        self._workloads = workloads
        self._standings = standings
        self._say = say

    @staticmethod
    def awaits(jobset: JobSet) -> bool:
        """Whether the gate holds a JobSet back: then its gang is made now."""
        return gated(jobset)

    def waiting(self) -> list[Key]:
        """JobSets with the gate."""
        return [jobset.key for jobset in self._caches.jobsets.store.values() if gated(jobset)]

    async def reconcile(self, key: Key) -> Action:
        """Take the gate off one JobSet if it is time."""
        jobset = self._caches.jobset(key)
        if jobset is None or not gated(jobset):
            return await_change()
        standing = self._standings.of_objects(jobset)
        decision = decide_gate(jobset, self._workload(jobset), standing)
        if decision.move is Move.WAIT:
            return await_change()
        if decision.move is Move.TELL:
            if await self._live(jobset) is None:
                return await_change()
            text = f"Gate {GATE} holds nobody back: {decision.message}. Kueue before 0.19, or AdmissionGatedBy off?"
            self._say(jobset, Notice(Reason.GATE_NOT_HONOURED, text))
            if standing.progress not in {Progress.DONE, Progress.NOTHING_TO_DO}:
                return await_change()
        try:
            await self._writer.json_patch(JOBSETS, jobset.name, ungate_patch(jobset), jobset.namespace)
        except NotFoundError:
            return await_change()
        except ApiError as error:
            live = await self._live(jobset)
            if live is None or live.gates != jobset.gates:
                # The cache has not heard yet that it is off, or that somebody changed the list.
                return await_change() if live is None else requeue(CHANGED_RETRY_SECONDS)
            text = f"Gate {GATE} stays, the API server refused to take it off ({error.reason}): {error}"
            self._say(jobset, Notice(Reason.FAILED_CREATE, text))
            raise
        if decision.move is Move.OPEN:
            self._say(jobset, Notice(Reason.GATE_REMOVED, f"Gate {GATE} is open: {standing.message}"))
        return await_change()

    def _workload(self, jobset: JobSet) -> QueuedWorkload | None:
        """Kueue's Workload for it, the newest if there are several."""
        found = self._workloads.by_index("owner", jobset.uid)
        return max(found, key=lambda each: (each.created, each.name), default=None)

    async def _live(self, jobset: JobSet) -> JobSet | None:
        """The JobSet as it is, if it is gated in truth: caches of two kinds of objects do not show the same moment."""
        try:
            live = project_jobset(await self._reader.get(JOBSETS, jobset.name, jobset.namespace))
        except NotFoundError:
            return None
        return live if live.uid == jobset.uid and gated(live) else None
