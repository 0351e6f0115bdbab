"""What a reconcile of a JobSet's gang reports: events on the JobSet and counts, and what of it was reported before."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from gangctl.api.jobset import JobSet
from gangctl.api.objects import Key
from gangctl.api.scheduling import Generation
from gangctl.controllers.events import RecordEvent, created, events_of, obstacles
from gangctl.controllers.translations import TranslationObserver, repairs, result_of
from gangctl.errors import ApiError, OwnershipConflictError
from gangctl.gang.assess import Assessment
from gangctl.gang.desired import Desired
from gangctl.gang.diff import Change, Create, Delete, Difference
from gangctl.gang.plan import GangPlan
from gangctl.gang.reasons import Notice, Reason
from gangctl.gang.report import level_of

NEW: Final = timedelta(minutes=2)
"""Younger JobSets get the events of their creation again after a restart of gangctl, in case they died with it."""


class GangReporter:
    """Reports what each step of a reconcile came to."""

    def __init__(self, say: RecordEvent, observer: TranslationObserver) -> None:
        """Record events by ``say``, and counts by ``observer``."""
        self._say = say
        self._observer = observer
        self._reported: dict[Key, str] = {}
        """UIDs of the JobSets whose creation this process has reported."""
        self._complete: dict[Key, tuple[str, int]] = {}
        """UID and attempt of the JobSets that have had all their objects: what is missing of these has gone."""

    def forget(self, key: Key) -> None:
        """The JobSet is gone."""
        self._reported.pop(key, None)
        self._complete.pop(key, None)

    def unavailable(self, jobset: JobSet, assessment: Assessment, reason: str) -> None:
        """No gang can be made on this cluster."""
        if not jobset.finished and (assessment.plan is not None or assessment.unstamped):
            self._say(jobset, Notice(Reason.API_UNAVAILABLE, f"No gang can be made: {reason}."))

    def planned(self, jobset: JobSet, desired: Desired, foreign: str | None) -> None:
        """What was decided; ``foreign`` is another owner's Workload for this JobSet."""
        assessment = desired.assessment
        notices = list(assessment.notices)
        if foreign and (assessment.unstamped or assessment.plan is not None):
            outcome = "gangctl leaves this JobSet to it" if assessment.unstamped else "gangctl's own objects stand"
            notices.append(Notice(Reason.FOREIGN_WORKLOAD, f"Workload {foreign} is for this JobSet: {outcome}."))
        elif assessment.unstamped:
            message = (
                "Runs without a gang: gangctl's webhook was not asked when this JobSet was created. Create it again "
                "while gangctl runs."
            )
            notices.append(Notice(Reason.NOT_GANGED, message))
        # What was decided when the JobSet was created is reported once, that it has no gang as long as it lives.
        if notices and (assessment.unstamped or self._is_new(jobset)):
            self._say_all(jobset, notices)
        self._say_all(jobset, desired.notices)

    def retired(self, jobset: JobSet) -> None:
        """Its objects are about to go."""
        self._complete.pop(jobset.key, None)

    def interrupted(self, jobset: JobSet, *, existed: bool) -> bool:
        """Whether an earlier process may have died between creating the gang, which ``existed``, and reporting it."""
        if not existed or self._reported.get(jobset.key) == jobset.uid:
            return False
        self._reported[jobset.key] = jobset.uid
        return self._is_new(jobset)

    def applied(
        self, jobset: JobSet, plan: GangPlan, changes: Sequence[Change], generation: Generation, *, interrupted: bool
    ) -> None:
        """Everything was written; after an interruption :meth:`present` reports the whole creation."""
        before = self._is_complete(jobset)
        self._observer.translated(level_of(plan), result_of(changes, before=before))
        if not changes:
            return
        self._reported[jobset.key] = jobset.uid
        if jobset.restarts and not before:
            # The groups of a restart are routine, and no news.
            changes = [each for each in changes if not (isinstance(each, Create) and each.again)]
        self._say_all(jobset, () if interrupted else events_of(plan, changes, generation))

    def rejected(self, jobset: JobSet, plan: GangPlan, conflict: OwnershipConflictError) -> None:
        """A name turned out to be another owner's."""
        self._observer.translated(level_of(plan), "rejected")
        self._say(jobset, Notice(Reason.NAME_CONFLICT, f"{conflict}: gangctl never adopts it."))

    def failed(
        self, jobset: JobSet, plan: GangPlan, error: ApiError, done: Sequence[Change], generation: Generation
    ) -> None:
        """The API server refused a write, after those that were ``done``."""
        self._observer.translated(level_of(plan), "failed")
        self._say(jobset, Notice(Reason.FAILED_CREATE, f"The API server refused a write ({error.reason}): {error}"))
        # The next attempt finds these done and would keep silent; a creation is reported when all of it is there.
        self._say_all(jobset, events_of(plan, [each for each in done if not isinstance(each, Create)], generation))

    def present(
        self, jobset: JobSet, plan: GangPlan, difference: Difference, generation: Generation, *, interrupted: bool
    ) -> None:
        """The objects are there, but for what stands in the way; what was repaired is counted."""
        for kind, field_class in repairs(difference.changes, before=self._is_complete(jobset)):
            self._observer.repaired(kind, field_class)
        # A Workload that was deleted for its templates comes back, which is the same repair.
        if difference.conflicts or any(isinstance(c, Delete) and not c.progress for c in difference.changes):
            self._complete.pop(jobset.key, None)
        else:
            self._complete[jobset.key] = (jobset.uid, jobset.restarts)
        if interrupted and not difference.conflicts:
            self._say(jobset, created(plan, generation.capabilities))
        self._say_all(jobset, obstacles(difference, generation))

    def stuck(self, jobset: JobSet, group: str, wanted: int, left: int) -> None:
        """A replacement pod can never be scheduled, because minCount cannot follow."""
        message = (
            f"A pod of gang {group} can never start: {wanted} pods are required, and at most {left} can still exist "
            "since others have finished. minCount is fixed before Kubernetes 1.37: restart the JobSet."
        )
        self._say(jobset, Notice(Reason.GANG_TAIL_BLOCKED, message))

    def _say_all(self, jobset: JobSet, notices: Sequence[Notice]) -> None:
        for notice in notices:
            self._say(jobset, notice)

    def _is_complete(self, jobset: JobSet) -> bool:
        return self._complete.get(jobset.key) == (jobset.uid, jobset.restarts)

    def _is_new(self, jobset: JobSet) -> bool:
        try:
            born = datetime.fromisoformat(jobset.created)
        except ValueError:
            return True
        return datetime.now(UTC) - born < NEW
