"""What a reconcile of a JobSet's gang reports: event texts, counts, and what was reported before."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final, Literal

from prometheus_client import CollectorRegistry, Counter

from gangctl.api.jobset import JobSet
from gangctl.api.objects import Key
from gangctl.api.scheduling import ApiState, Capabilities, Generation
from gangctl.api.scheduling_versions import ADAPTERS
from gangctl.client.pacing import Clock
from gangctl.controllers.writer import scheduling_resources
from gangctl.errors import ApiError, OwnershipConflictError, plural
from gangctl.gang.desired import WHETHER_SERVED, Assessment, Desired, Lifecycle, renewal
from gangctl.gang.diff import Change, Create, Delete, Difference, Kind, SetMinCounts, exceptional
from gangctl.gang.plan import GangPlan, level_of
from gangctl.gang.reasons import Notice, Reason
from gangctl.runtime.events import Event, EventType, ObjectReference
from gangctl.runtime.families import Family, Row, Scraped

RecordEvent = Callable[[JobSet, Notice], None]
"""Records one event on a JobSet; never blocks."""


def event_of(regarding: ObjectReference, notice: Notice) -> Event:
    """The event of a reconcile with a notice about this object."""
    kind: EventType = "Warning" if notice.is_warning else "Normal"
    return Event(regarding, notice.reason.value, notice.message, "Reconcile", kind)


_LISTED: Final = 8
"""Names spelled out in one event; the rest is counted."""

_CREATED: Final[dict[Kind, Reason]] = {
    "PodGroup": Reason.POD_GROUP_CREATED,
    "CompositePodGroup": Reason.COMPOSITE_POD_GROUP_CREATED,
}
_UPDATED: Final[dict[Kind, Reason]] = {
    "Workload": Reason.WORKLOAD_UPDATED,
    "PodGroup": Reason.POD_GROUP_UPDATED,
    "CompositePodGroup": Reason.COMPOSITE_POD_GROUP_UPDATED,
}
_DELETED: Final[dict[Kind, Reason]] = {
    "Workload": Reason.WORKLOAD_DELETED,
    "PodGroup": Reason.POD_GROUP_DELETED,
    "CompositePodGroup": Reason.COMPOSITE_POD_GROUP_DELETED,
}


def _list(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_LISTED])
    return shown if len(names) <= _LISTED else f"{shown} and {len(names) - _LISTED} more"


def created(plan: GangPlan, capabilities: Capabilities) -> Notice:
    """One event for the whole gang: the Workload and every group in it."""
    if capabilities.pod_groups:
        groups = [f"{group.name} ({group.min_count})" for group in plan.groups]
    else:
        groups = [f"{template.name} ({template.min_count})" for template in plan.workload.templates]
    message = f"Created Workload {plan.workload.name} with {plural(len(groups), 'group')} (pods each): {_list(groups)}"
    if not groups:
        message = f"Created Workload {plan.workload.name} without a group: no Job is in one"
    return Notice(Reason.WORKLOAD_CREATED, message)


def events_of(plan: GangPlan, changes: Sequence[Change], generation: Generation) -> list[Notice]:
    """Events for changes that were carried out; routine ones have none."""
    notices: list[Notice] = []
    deleted: dict[Kind, list[str]] = {}
    recreated: dict[Kind, list[str]] = {}
    new = any(isinstance(change, Create) and change.kind == "Workload" for change in changes)
    for change in exceptional(plan, changes):
        match change:
            case Create(kind="Workload"):
                notices.append(created(plan, generation.capabilities))
            # Groups of a new gang are in the event of its Workload.
            case Create() if not new:
                recreated.setdefault(change.kind, []).append(change.name)
            case SetMinCounts():
                counts = ", ".join(f"{name + ' ' if name else ''}{old} to {new}" for _, name, old, new in change.counts)
                message = f"Changed {change.field} of {change.kind} {change.name}: {counts}"
                notices.append(Notice(_UPDATED[change.kind], message))
            case Delete():
                deleted.setdefault(change.kind, []).append(change.name)
            case _:
                pass
    notices += [Notice(_CREATED[kind], f"Created {kind}s {_list(names)}") for kind, names in recreated.items()]
    notices += [Notice(_DELETED[kind], f"Deleted {kind} {_list(names)}") for kind, names in deleted.items()]
    return notices


def obstacles(difference: Difference, generation: Generation, suspended: Lifecycle) -> list[Notice]:
    """Events for what a difference could not change; ``suspended`` is what exists while the JobSet is suspended."""
    renew = renewal(suspended)
    renew = f"{renew[:1].upper()}{renew[1:]}."
    notices = [
        Notice(
            Reason.NAME_CONFLICT,
            f"{kind} {name} exists and has {'no' if name in difference.unowned else 'another'} owner: gangctl never "
            f"adopts it. Its gang waits until that object is {'gone' if name in difference.going else 'deleted'}."
            # The finalizer podgroup-protection keeps it.
            + (f" It is being deleted and stays as long as pods name it. {renew}" if name in difference.going else ""),
        )
        for kind, name in difference.conflicts
    ]
    notices += [
        Notice(
            Reason.CONFIG_IGNORED,
            f"{kind} {name} keeps minCount {old} although its Jobs have {plural(new, 'pod')}: it is immutable on "
            f"Kubernetes {generation.kubernetes}. {renew}",
        )
        for kind, name, old, new in difference.frozen
    ]
    notices += [
        Notice(
            Reason.CONFIG_CHANGED,
            f"PodGroup {name} has topologyKey {key}, and the JobSet asks for {wanted or 'none'} now: it was changed "
            "while gangctl's webhook was not asked. What runs stays as it is, and the groups of the next attempt have "
            "the new one. Restore the configuration, or delete the JobSet and create it again.",
        )
        for name, key, wanted in difference.edited
    ]
    return notices


NEW: Final = timedelta(minutes=2)
"""Younger JobSets get the events of their creation again after a restart of gangctl, in case they died with it."""


Result = Literal["unchanged", "created", "recreated", "prepared", "patched", "deleted", "rejected", "failed"]
FieldClass = Literal["existence", "min_count", "templates", "surplus"]


_SUPPORT: Final = Family(
    "gangctl_api_support_info",
    "gauge",
    "Served resources of scheduling.k8s.io that gangs consist of, always 1, and the field of pods that names their "
    "group. Absent where no gang can be made.",
    ("resource", "version", "link_field"),
)


class GangMetrics:
    """Counts of gangs by result and API generation, as Prometheus metrics."""

    def __init__(self, registry: CollectorRegistry, state: Callable[[], ApiState] = lambda: ApiState(None)) -> None:
        """Register every family at once; ``state`` is the last result of discovery."""
        self._state = state
        self.translations = Counter(
            "gangctl_translations",
            "Reconciles of the groups of a JobSet, by level (JobSet, ReplicatedJob, Replica, Mixed) and result: "
            "unchanged, created, recreated (an object had been deleted), prepared (groups of the next attempt), "
            "patched, deleted, rejected (a name belongs to another owner), failed.",
            ["level", "result"],
            registry=registry,
        )
        self.repairs = Counter(
            "gangctl_drift_repairs",
            "Objects that differed from the planned ones and were repaired, by kind (Workload, PodGroup) and "
            "difference: existence (it had been deleted), min_count (edited, or the JobSet was resized), templates, "
            "surplus (no JobSet needs it).",
            ["kind", "field_class"],
            registry=registry,
        )
        Scraped(registry, [_SUPPORT], lambda: [_SUPPORT.metric([*self._support()])])

    def _support(self) -> Iterator[Row]:
        state = self._state()
        if state.generation is not None:
            field = ADAPTERS[state.generation].reference_field
            for resource in scheduling_resources(state.generation, composite=state.composite).values():
                yield (resource.plural, resource.version, field), 1


class GangReporter:
    """Reports the result of each step of a reconcile."""

    def __init__(self, record: RecordEvent, metrics: GangMetrics, clock: Clock | None = None) -> None:
        """Record events by ``record``, and counts in ``metrics``."""
        self._record_event = record
        self._metrics = metrics
        self._clock = clock or Clock()
        self._reported: dict[Key, str] = {}
        """UIDs of the JobSets whose creation this process has reported."""
        self._complete: dict[Key, tuple[str, int]] = {}
        """UID and attempt of the JobSets that have had all their objects: one that is missing now was deleted."""

    def forget(self, key: Key) -> None:
        """Forget a deleted JobSet."""
        self._reported.pop(key, None)
        self._complete.pop(key, None)

    def forget_all(self) -> None:
        """Forget every JobSet: another replica reconciles them from now on."""
        self._reported.clear()
        self._complete.clear()

    def unavailable(self, jobset: JobSet, assessment: Assessment, reason: str) -> None:
        """No gang can be made on this cluster."""
        if not jobset.finished and (assessment.plan is not None or assessment.unstamped):
            self._record_event(jobset, Notice(Reason.API_UNAVAILABLE, f"No gang can be made: {reason}."))

    def planned(self, jobset: JobSet, desired: Desired, foreign: str | None) -> None:
        """Report the decision; ``foreign`` is another owner's Workload for this JobSet."""
        assessment = desired.assessment
        notices = list(assessment.notices)
        if foreign and (assessment.unstamped or assessment.plan is not None):
            outcome = "gangctl leaves this JobSet to it" if assessment.unstamped else "gangctl's own objects stand"
            notices.append(Notice(Reason.FOREIGN_WORKLOAD, f"Workload {foreign} is for this JobSet: {outcome}."))
        elif assessment.unstamped:
            message = (
                "Runs without a gang: gangctl's webhook was not asked when this JobSet was created, or could make none."
                f" See {WHETHER_SERVED}, and create it again."
            )
            notices.append(Notice(Reason.NOT_GANGED, message))
        # The decision at a JobSet's creation is reported once, the lack of a gang for as long as it lives, and so is a
        # configuration that is invalid or without effect: it is changed later, or the cluster is, or it went unchecked.
        if not (assessment.unstamped or self._is_new(jobset)):
            notices = [] if jobset.finished else assessment.lasting
        self._record_all(jobset, notices)
        self._record_all(jobset, desired.notices)

    def retired(self, jobset: JobSet) -> None:
        """Its objects are about to be deleted."""
        self._complete.pop(jobset.key, None)

    def interrupted(self, jobset: JobSet, *, existed: bool) -> bool:
        """Whether an earlier process may have died between creating the gang, which ``existed``, and reporting it."""
        return existed and self._reported.get(jobset.key) != jobset.uid and self._is_new(jobset)

    def applied(
        self,
        jobset: JobSet,
        plan: GangPlan,
        changes: Sequence[Change],
        generation: Generation,
        *,
        interrupted: bool,
        prepared: bool,
    ) -> None:
        """Everything was written; after an interruption :meth:`present` reports the whole creation.

        ``prepared`` is whether groups of the next attempt were created.
        """
        before = self._is_complete(jobset)
        result = result_of(changes, before=before, prepared=prepared)
        self._metrics.translations.labels(level_of(plan), result).inc()
        if not changes:
            return
        if not interrupted:
            self._reported[jobset.key] = jobset.uid
        if jobset.restarts and not before:
            # The groups of a restart are routine, and get no event.
            changes = [change for change in changes if not isinstance(change, Create) or change.kind == "Workload"]
        self._record_all(jobset, () if interrupted else events_of(plan, changes, generation))

    def rejected(self, jobset: JobSet, plan: GangPlan, conflict: OwnershipConflictError) -> None:
        """Another owner has one of the names."""
        self._metrics.translations.labels(level_of(plan), "rejected").inc()
        self._record_event(jobset, Notice(Reason.NAME_CONFLICT, f"{conflict}: gangctl never adopts it."))

    def failed(
        self, jobset: JobSet, plan: GangPlan, error: ApiError, done: Sequence[Change], generation: Generation
    ) -> None:
        """The API server refused a write, after those that were ``done``."""
        self._metrics.translations.labels(level_of(plan), "failed").inc()
        self._record_event(
            jobset, Notice(Reason.FAILED_CREATE, f"The API server refused a write ({error.reason}): {error}")
        )
        # The next attempt finds these done and would not report them; a creation is reported when it is complete.
        self._record_all(
            jobset, events_of(plan, [change for change in done if not isinstance(change, Create)], generation)
        )

    def present(
        self,
        jobset: JobSet,
        plan: GangPlan,
        difference: Difference,
        generation: Generation,
        *,
        suspended: Lifecycle,
        interrupted: bool,
    ) -> None:
        """The objects exist, except for what conflicts; repairs are counted."""
        changes = exceptional(plan, difference.changes)
        for kind, field_class in repairs(changes, before=self._is_complete(jobset)):
            self._metrics.repairs.labels(kind, field_class).inc()
        # What was deleted for its templates or its minCount is created again, which is the same repair.
        if difference.conflicts or any(isinstance(change, Delete) for change in changes):
            self._complete.pop(jobset.key, None)
        else:
            self._complete[jobset.key] = (jobset.uid, jobset.restarts)
        if not difference.conflicts:
            if interrupted:
                self._record_event(jobset, created(plan, generation.capabilities))
            # Not before everything is there: a write that fails is tried again, and the event comes after it.
            self._reported[jobset.key] = jobset.uid
        self._record_all(jobset, obstacles(difference, generation, suspended))

    def _record_all(self, jobset: JobSet, notices: Sequence[Notice]) -> None:
        for notice in notices:
            self._record_event(jobset, notice)

    def _is_complete(self, jobset: JobSet) -> bool:
        return self._complete.get(jobset.key) == (jobset.uid, jobset.restarts)

    def _is_new(self, jobset: JobSet) -> bool:
        try:
            born = datetime.fromisoformat(jobset.created)
        # It may be new. An event that was recorded before has the same name, and is not written twice.
        except ValueError:
            return True
        return self._clock.wall() - born < NEW


def result_of(changes: Sequence[Change], *, before: bool, prepared: bool) -> Result:
    """The result of the changes that were carried out; ``before`` means that the JobSet had its objects already."""
    if not changes:
        return "prepared" if prepared else "unchanged"
    if any(isinstance(change, Create) for change in changes):
        return "recreated" if before else "created"
    return "patched" if any(isinstance(change, SetMinCounts) for change in changes) else "deleted"


def repairs(changes: Sequence[Change], *, before: bool) -> Iterator[tuple[Kind, FieldClass]]:
    """What these changes, none of them routine, repair: not the effects of a restart or of a new JobSet."""
    for change in changes:
        match change:
            case Create(kind=kind):
                if before:
                    yield kind, "existence"
            case SetMinCounts(kind=kind):
                yield kind, "min_count"
            case Delete(kind="Workload"):
                yield "Workload", "templates"
            case Delete(kind=kind):
                yield kind, "surplus"
