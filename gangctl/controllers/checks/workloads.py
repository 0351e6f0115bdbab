"""The Workload loop of gangctl's AdmissionChecks: reads the caches, decides purely, writes its own entries.

A JobSet may start when its gang's objects exist and the policies allow it. A write is a server-side apply of gangctl's
entries alone, on the status subresource, under its own field manager, with the UID and the resourceVersion that were
observed: if Kueue evicts in the same moment, the API server rejects the write, and gangctl decides again.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from gangctl.api.jobset import JobSet
from gangctl.api.objects import Key
from gangctl.api.scheduling import ApiState, Capabilities, Generation
from gangctl.api.store import Store
from gangctl.client.client import Client
from gangctl.client.resources import JOBSETS
from gangctl.cluster.kinds import QUEUED_WORKLOADS, with_variants
from gangctl.controllers.caches import GangCaches
from gangctl.controllers.checks.activity import Checks
from gangctl.controllers.reporter import RecordEvent
from gangctl.controllers.scan import ScanView
from gangctl.errors import ConflictError, NotFoundError, plural
from gangctl.gang.desired import Desired, Lifecycle, assess, desire
from gangctl.gang.diff import Create, Delete, diff
from gangctl.gang.plan import GangPlan
from gangctl.gang.reasons import Notice, Reason
from gangctl.gang.resolve import ClusterRules
from gangctl.kueue.amounts import moment
from gangctl.kueue.checks import (
    CheckProgress,
    Decision,
    Progress,
    State,
    decide,
    digest_of,
    is_variant,
    message_digest,
    of_jobset,
    reserved,
    waiting_since,
)
from gangctl.kueue.objects import CheckState, QueuedWorkload
from gangctl.policy.verdict import merge, show
from gangctl.runtime.controller import Action, await_change, computed, requeue

_LISTED: Final = 4


class Statuses:
    """Answers from the caches; reads a whole JobSet only if there are policies that evaluate it."""

    def __init__(
        self,
        reader: Client,
        caches: GangCaches,
        policies: ScanView | None,
        *,
        state: Callable[[], ApiState],
        rules: Callable[[Generation], ClusterRules],
    ) -> None:
        """``state`` is the last result of discovery; ``policies`` is None where no policies are evaluated."""
        self._reader = reader
        self._caches = caches
        self._policies = policies
        self._state = state
        self._rules = rules

    async def of_objects(self, jobset: JobSet) -> CheckProgress:
        """Whether all objects of its gang exist."""
        if jobset.managed_elsewhere:
            return CheckProgress(Progress.NOTHING_TO_DO, f"The JobSet is run by {jobset.managed_by}, not here.")
        state = self._state()
        rules = self._rules(state.generation or ClusterRules().generation)
        # As if it ran: it is suspended until the check is Ready, and its objects have to exist before that.
        assessment = await computed(jobset.jobs, assess, jobset, rules, Lifecycle.PRESENT)
        desired = await computed(jobset.jobs, desire, assessment, self._caches.jobs(jobset.key), rules.generation)
        if desired.plan is None:
            return CheckProgress(Progress.NOTHING_TO_DO, "The JobSet has no gang.")
        if state.generation is None:
            return CheckProgress(Progress.UNDER_WAY, f"No gang can be made: {state.reason}.")
        return await self._of_plan(desired, desired.plan, state.capabilities)

    async def of(self, jobset: JobSet) -> CheckProgress:
        """The same, and whether policies deny it now. Raises ApiError."""
        standing = await self.of_objects(jobset)
        if standing.progress is not Progress.DONE or self._policies is None or not self._policies.scanned():
            return standing
        raw = await self._reader.get(JOBSETS, jobset.name, jobset.namespace)
        verdict = merge(await self._policies.evaluate(raw) or ())
        return standing if verdict.allowed else CheckProgress(Progress.DENIED, show(verdict.denials[0]))

    async def _of_plan(self, desired: Desired, plan: GangPlan, capabilities: Capabilities) -> CheckProgress:
        existing = await self._caches.existing(plan)
        difference = await computed(plan.jobset.jobs, diff, desired, existing, capabilities)
        if difference.conflicts:
            kind, name = difference.conflicts[0]
            return CheckProgress(Progress.UNDER_WAY, f"{kind} {name} exists and has another owner.")
        objects = existing.workload, *existing.groups.values(), *existing.composites.values()
        going = [item.name for item in objects if item is not None and item.deleting]
        # The rest of the gang, or a group with another minCount, is made after that: until then it is in no change.
        replaced = {group.name for group in plan.groups} - plan.finished
        deletions = [change for change in difference.changes if isinstance(change, Delete)]
        going += [change.name for change in deletions if change.kind == "Workload" or change.name in replaced]
        if going:
            return CheckProgress(Progress.UNDER_WAY, f"{going[0]} of an earlier gang is being deleted.")
        if plan.jobset.suspend and difference.larger:
            larger = difference.larger[0]
            return CheckProgress(Progress.UNDER_WAY, f"{larger} is replaced once the pods that name it have ended.")
        missing = [f"{change.kind} {change.name}" for change in difference.changes if isinstance(change, Create)]
        if missing:
            shown = ", ".join(missing[:_LISTED])
            more = f" and {len(missing) - _LISTED} more" if len(missing) > _LISTED else ""
            return CheckProgress(Progress.UNDER_WAY, f"Not there yet: {shown}{more}.")
        groups = len(plan.groups) if capabilities.pod_groups else len(plan.workload.templates)
        return CheckProgress(Progress.DONE, f"Workload {plan.workload.name} with {plural(groups, 'group')} is there.")


FIELD_MANAGER: Final = "gangctl-admission-check"
CONFLICT_RETRY_SECONDS: Final = 0.2
NEW: Final = timedelta(minutes=2)
"""Younger transitions are reported again after a restart, in case their event died with the process."""


_REASONS: Final = {
    State.PENDING: Reason.CHECK_PENDING,
    State.READY: Reason.CHECK_READY,
    State.RETRY: Reason.CHECK_RETRY,
    State.REJECTED: Reason.CHECK_REJECTED,
}


@dataclass(frozen=True, slots=True)
class _ObservedCheck:
    """The input of a reconcile; ``entries`` are those of gangctl's checks."""

    workload: QueuedWorkload
    entries: list[CheckState]
    origin: QueuedWorkload | None
    """As of :meth:`WorkloadChecks.origin`."""
    jobset: JobSet | None

    @property
    def key(self) -> Key:
        """Namespace and name of the Workload."""
        return self.workload.namespace, self.workload.name


class WorkloadChecks:
    """``reconcile(key) -> Action`` for Kueue's Workloads."""

    def __init__(
        self,
        writer: Client,
        workloads: Store[QueuedWorkload],
        checks: Checks,
        jobsets: GangCaches,
        *,
        statuses: Statuses,
        record: RecordEvent,
        now: Callable[[], datetime],
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """The store has the index ``owner``; ``now`` is the API server's time, by which Kueue's objects are dated."""
        self._writer = writer
        self._workloads = workloads
        self._checks = checks
        self._jobsets = jobsets
        self._statuses = statuses
        self._record_event = record
        self._now = now
        self._jitter = jitter
        self._started = now()
        self._reported: dict[Key, tuple[str, str]] = {}
        """State and time of the last transition that this process has reported, by Workload."""
        self._reserved: dict[Key, tuple[tuple[str, str], datetime]] = {}
        """UID and time of the last reservation, and when this process saw it first, by Workload."""

    def begin(self) -> None:
        """Restart all timeouts: before now, perhaps no process could make the objects."""
        self._started = self._now()
        self._reserved.clear()

    def awaits(self, jobset: JobSet) -> bool:
        """Whether Kueue holds a JobSet back until one of gangctl's checks is Ready: its gang must exist before that."""
        return any(
            reserved(workload) and any(self._checks.ours(entry.name) for entry in workload.checks)
            for workload in self.workloads_of(jobset)
        )

    def waiting(self) -> list[QueuedWorkload]:
        """Workloads whose checks may need an update now."""
        return [workload for workload in self._workloads.values() if reserved(workload)]

    def workloads_of(self, jobset: JobSet) -> list[QueuedWorkload]:
        """Workloads of a JobSet, and the variants of them."""
        return with_variants(self._workloads, self._workloads.by_index("owner", jobset.uid))

    def origin(self, workload: QueuedWorkload) -> QueuedWorkload | None:
        """The Workload whose owner is its job: of a variant its parent, None if that is not known; otherwise itself."""
        if not is_variant(workload):
            return workload
        parent = self._workloads.get(workload.namespace, workload.owner_name)
        return parent if parent is not None and parent.uid == workload.owner_uid else None

    async def reconcile(self, key: Key) -> Action:
        """Update gangctl's entries of one Workload."""
        observed = self._observe(key)
        if observed is None:
            return await_change()
        self._report_again(observed)
        decisions = await self._plan(observed)
        if any(decision.state is not None for decision in decisions.values()):
            # metav1.Time has whole seconds, and after a restart the event has to have the same text.
            now = self._now().replace(microsecond=0)
            try:
                await self._apply(observed, decisions, now)
            except NotFoundError:
                return await_change()
            except ConflictError:
                # Kueue wrote first; the cache will show the result.
                return requeue(CONFLICT_RETRY_SECONDS)
            self._report(observed, decisions, now)
        again = [decision.requeue_seconds for decision in decisions.values() if decision.requeue_seconds is not None]
        return requeue(min(again)) if again else await_change()

    def _observe(self, key: Key) -> _ObservedCheck | None:
        """A Workload that waits for gangctl's checks, and its JobSet."""
        workload = self._workloads.get(*key)
        if workload is None:
            self._reported.pop(key, None)
            self._reserved.pop(key, None)
            return None
        entries = [entry for entry in workload.checks if self._checks.ours(entry.name)]
        if not entries or not reserved(workload):
            self._reserved.pop(key, None)
            return None
        origin = self.origin(workload)
        jobset: JobSet | None = None
        if origin is not None and of_jobset(origin):
            jobset = self._jobsets.restarted_jobset((origin.namespace, origin.owner_name))
            # Another JobSet has the name: the garbage collector deletes this Workload.
            if jobset is not None and jobset.uid != origin.owner_uid:
                jobset = None
        return _ObservedCheck(workload, entries, origin, jobset)

    async def _plan(self, observed: _ObservedCheck) -> dict[str, Decision]:
        """The decision for each entry; nothing if one of them has ended the admission."""
        if any(entry.state in {State.RETRY, State.REJECTED} for entry in observed.entries):
            return {}
        standing = await self._standing(observed)
        if standing is None:
            return {}
        return {entry.name: self._decide(observed.workload, entry, standing) for entry in observed.entries}

    async def _standing(self, observed: _ObservedCheck) -> CheckProgress | None:
        """The status of its JobSet; None if the JobSet is not cached, or is deleted and the Workload soon will be."""
        origin, jobset = observed.origin, observed.jobset
        # Its JobSet is not known: the garbage collector deletes a variant whose parent is gone.
        if origin is None:
            return None
        if not of_jobset(origin):
            owner = f"a {origin.owner_kind}" if origin.owner_kind else "nothing"
            return CheckProgress(
                Progress.NOTHING_TO_DO, f"The Workload belongs to {owner}: gangctl makes gangs of JobSets."
            )
        if jobset is None or jobset.deleting:
            return None
        try:
            return await self._statuses.of(jobset)
        except NotFoundError:
            return None

    def _decide(self, workload: QueuedWorkload, entry: CheckState, standing: CheckProgress) -> Decision:
        parameters = self._checks.parameters(entry.name)
        if parameters is None:
            # Kueue admits nothing in a queue whose check is not active, so waiting is safe.
            return Decision()
        since = waiting_since(workload, entry, max(self._started, self._seen_at(workload)))
        return decide(workload, entry, standing, parameters, since=since, now=self._now(), jitter=self._jitter)

    def _seen_at(self, workload: QueuedWorkload) -> datetime:
        """When this process saw the reservation first: Kueue writes its time by another clock, which may be behind."""
        key = workload.namespace, workload.name
        reservation = workload.uid, workload.condition("QuotaReserved").since
        known = self._reserved.get(key)
        if known is None or known[0] != reservation:
            known = self._reserved[key] = reservation, self._now()
        return known[1]

    async def _apply(self, observed: _ObservedCheck, decisions: dict[str, Decision], now: datetime) -> None:
        """Apply all of gangctl's entries: the server removes those that an apply omits."""
        workload = observed.workload
        metadata = {
            "name": workload.name,
            "namespace": workload.namespace,
            "uid": workload.uid,
            "resourceVersion": workload.version,
        }
        written = [_entry(entry, decisions[entry.name], now) for entry in observed.entries]
        body = {"metadata": metadata, "status": {"admissionChecks": written}}
        # Forced, because Kueue made the entries and owns their fields. With uid and resourceVersion in the body the
        # apply is a conflict where Kueue has written since.
        await self._writer.apply(QUEUED_WORKLOADS, body, force=True, subresource="status", field_manager=FIELD_MANAGER)

    def _report(self, observed: _ObservedCheck, decisions: dict[str, Decision], now: datetime) -> None:
        for entry in observed.entries:
            decision = decisions[entry.name]
            if decision.state is not None:
                self._announce(
                    observed, entry.name, decision.state, decision.message, _since(entry, decision.state, now)
                )

    def _report_again(self, observed: _ObservedCheck) -> None:
        """Record recent transitions of an earlier process; an event that exists already is not written twice."""
        if observed.key in self._reported:
            return
        for entry in observed.entries:
            since = moment(entry.since)
            new = since is not None and self._now() - since < NEW
            if new and entry.state in _REASONS and message_digest(entry.message) == digest_of(observed.workload):
                self._announce(observed, entry.name, State(entry.state), entry.message, entry.since)

    def _announce(self, observed: _ObservedCheck, check: str, state: State, message: str, since: str) -> None:
        if observed.jobset is not None:
            self._reported[observed.key] = (state.value, since)
            text = f"AdmissionCheck {check} {state} at {since}: {message}"
            self._record_event(observed.jobset, Notice(_REASONS[state], text))


def _since(entry: CheckState, state: State, now: datetime) -> str:
    """``lastTransitionTime``: it changes when the state does."""
    return entry.since if entry.state == state and entry.since else now.isoformat().replace("+00:00", "Z")


def _entry(entry: CheckState, decision: Decision, now: datetime) -> dict[str, Any]:
    """An entry of ``status.admissionChecks`` with all required fields."""
    if decision.state is None:
        return {"name": entry.name, "state": entry.state, "lastTransitionTime": entry.since, "message": entry.message}
    written: dict[str, Any] = {
        "name": entry.name,
        "state": decision.state.value,
        "lastTransitionTime": _since(entry, decision.state, now),
        "message": decision.message,
    }
    if decision.retry_seconds is not None:
        written["requeueAfterSeconds"] = decision.retry_seconds
    elif entry.retry_count:
        # Kueue keeps the delay of an earlier retry, and would apply it again when another check retries.
        written["requeueAfterSeconds"] = 0
    return written
