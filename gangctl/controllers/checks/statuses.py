"""Whether a JobSet may start: whether its gang's objects exist, and the verdict of policies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from gangctl.api.jobset import JobSet
from gangctl.api.objects import Object
from gangctl.api.scheduling import Generation
from gangctl.client.client import Client
from gangctl.client.resources import JOBSETS
from gangctl.controllers.caches import GangCaches
from gangctl.errors import plural
from gangctl.gang.desired import Lifecycle, assess, desire
from gangctl.gang.diff import Create, Existing, diff
from gangctl.gang.generation import ApiState
from gangctl.gang.plan import GangPlan
from gangctl.gang.resolve import ClusterRules
from gangctl.kueue.checks import Progress, Status
from gangctl.policy.loaded import LoadedPolicy
from gangctl.policy.verdict import Outcome, merge, show

_LISTED: Final = 4


class Policies(Protocol):
    """The policies in force, evaluated for existing JobSets: the part of a scan's view that is needed here."""

    def scanned(self) -> Sequence[LoadedPolicy]:
        """The policies that request evaluation of existing JobSets."""

    async def evaluate(self, jobset: Object) -> tuple[Outcome, ...] | None:
        """Outcomes for one JobSet; None where policies do not apply."""


class Statuses:
    """Answers from the caches; reads a whole JobSet only if there are policies that evaluate it."""

    def __init__(
        self,
        reader: Client,
        caches: GangCaches,
        policies: Policies | None,
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

    def of_objects(self, jobset: JobSet) -> Status:
        """Whether all objects of its gang exist."""
        if jobset.managed_elsewhere:
            return Status(Progress.NOTHING_TO_DO, f"The JobSet is run by {jobset.managed_by}, not here.")
        state = self._state()
        rules = self._rules(state.generation or ClusterRules().generation)
        assessment = assess(jobset, rules, Lifecycle.PRESENT)
        desired = desire(assessment, self._caches.jobs(jobset.key), rules.generation)
        if desired.plan is None:
            return Status(Progress.NOTHING_TO_DO, "The JobSet has no gang.")
        if state.generation is None:
            return Status(Progress.UNDER_WAY, f"No gang can be made: {state.reason}.")
        return self._of_plan(desired.plan, desired.min_counts, state.generation)

    async def of(self, jobset: JobSet) -> Status:
        """The same, and whether policies deny it now. Raises ApiError."""
        standing = self.of_objects(jobset)
        if standing.progress is not Progress.DONE or self._policies is None or not self._policies.scanned():
            return standing
        raw = await self._reader.get(JOBSETS, jobset.name, jobset.namespace)
        verdict = merge(await self._policies.evaluate(raw) or ())
        return standing if verdict.allowed else Status(Progress.DENIED, show(verdict.denials[0]))

    def _of_plan(self, plan: GangPlan, min_counts: Mapping[str, int], generation: Generation) -> Status:
        workload = self._caches.scheduling("Workload", plan.jobset.namespace, plan.workload.name)
        names = [group.name for group in plan.groups]
        existing = Existing(workload, self._caches.groups_of(plan.jobset.namespace, plan.uid, names))
        difference = diff(plan, existing, min_counts, generation.capabilities)
        if difference.conflicts:
            kind, name = difference.conflicts[0]
            return Status(Progress.UNDER_WAY, f"{kind} {name} exists and has another owner.")
        going = [each for each in (existing.workload, *existing.groups.values()) if each is not None and each.deleting]
        if going:
            return Status(Progress.UNDER_WAY, f"{going[0].name} of an earlier gang is being deleted.")
        missing = [f"{change.kind} {change.name}" for change in difference.changes if isinstance(change, Create)]
        if missing:
            shown = ", ".join(missing[:_LISTED])
            more = f" and {len(missing) - _LISTED} more" if len(missing) > _LISTED else ""
            return Status(Progress.UNDER_WAY, f"Not there yet: {shown}{more}.")
        groups = len(names) if generation.capabilities.pod_groups else len(plan.workload.templates)
        return Status(Progress.DONE, f"Workload {plan.workload.name} with {plural(groups, 'group')} is there.")
