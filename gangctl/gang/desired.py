"""What should exist for one JobSet, from the JobSet and its Jobs: the plan step of a reconcile. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gangctl.api.jobset import JobSet
from gangctl.api.scheduling import PodGroup
from gangctl.gang.assess import Assessment, Lifecycle, assess
from gangctl.gang.plan import GangPlan
from gangctl.gang.progress import JobProgress, target_min_counts
from gangctl.gang.reasons import Notice
from gangctl.gang.resolve import ClusterRules
from gangctl.gang.spares import spare_groups
from gangctl.gang.unlinked import find_unlinked, tell, without


@dataclass(frozen=True, slots=True)
class Desired:
    """What there should be, and what a person should know of the Jobs that are left out.

    ``plan`` is for the Jobs whose pods can name their group, None without a gang; whether its objects should exist now
    says the lifecycle. ``min_counts`` holds each PodGroup's minCount by name. ``spares`` are the groups of the next
    attempt, which should exist once the gang runs.
    """

    assessment: Assessment
    plan: GangPlan | None = None
    min_counts: Mapping[str, int] = field(default_factory=dict)
    notices: tuple[Notice, ...] = ()
    spares: tuple[PodGroup, ...] = ()


def desire(jobset: JobSet, jobs: Sequence[JobProgress], rules: ClusterRules, suspended: Lifecycle) -> Desired:
    """What should exist now; ``jobs`` may be of an earlier JobSet of this name, too.

    ``suspended`` is what :func:`~gangctl.gang.assess.while_suspended` says.
    """
    assessment = assess(jobset, rules, suspended)
    plan = assessment.plan
    if plan is None:
        return Desired(assessment)
    own = [job for job in jobs if job.jobset_uid == plan.uid]
    unlinked = find_unlinked(plan, own, rules.generation)
    notices = () if jobset.finished else tell(unlinked, rules.generation)
    spares = spare_groups(plan) if rules.generation.capabilities.pod_groups else ()
    plan = without(plan, unlinked)
    return Desired(assessment, plan, target_min_counts(plan, own), notices, spares)
