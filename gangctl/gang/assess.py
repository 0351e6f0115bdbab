"""The assessment of a stored JobSet: the plan of its stamps, and notices for the user.

The stamps are authoritative, because stamped Job templates are immutable. The
configuration is resolved again only to explain why there are no stamps, or that
a configuration was written past the webhook and has no effect.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gangctl.api.jobset import JobSet
from gangctl.gang.plan import GangPlan, make_plan, stored_stamps
from gangctl.gang.reasons import Notice, Reason
from gangctl.gang.resolve import ClusterRules, resolve
from gangctl.gang.validate import check_jobs


class Lifecycle(StrEnum):
    """What should exist for a JobSet now."""

    PRESENT = "Present"
    KEPT = "Kept"
    """Keep what exists: the JobSet waits in a queue and will be resumed."""
    RETIRED = "Retired"
    """Nothing, after its pods are gone."""
    UNTOUCHED = "Untouched"
    """Do not manage: another controller does, or the garbage collector deletes it with its owner."""


@dataclass(frozen=True, slots=True)
class Assessment:
    """``unstamped`` means that a valid gang was requested, but there is no stamp."""

    lifecycle: Lifecycle
    plan: GangPlan | None
    notices: tuple[Notice, ...] = ()
    unstamped: bool = False


def while_suspended(jobset: JobSet, *, queues: bool | None, early: bool = False) -> Lifecycle:
    """What should exist for a JobSet while it is suspended.

    ``queues`` is whether the cluster has Kueue, None if unknown; unknown deletes nothing. Kueue suspends a JobSet that
    waits in a queue, and resumes it later. Its groups stay after an eviction, so that the references of its pods
    remain valid. Before the first start there are no groups, unless ``early`` is set. Without Kueue the queue name is
    ignored, because only the user suspends JobSets.
    """
    if not jobset.queue or queues is False:
        return Lifecycle.RETIRED
    return Lifecycle.PRESENT if early else Lifecycle.KEPT


def _lifecycle(jobset: JobSet, suspended: Lifecycle) -> Lifecycle:
    if jobset.deleting or jobset.managed_elsewhere:
        return Lifecycle.UNTOUCHED
    if jobset.finished:
        return Lifecycle.RETIRED
    return suspended if jobset.suspend else Lifecycle.PRESENT


def assess(jobset: JobSet, rules: ClusterRules, suspended: Lifecycle = Lifecycle.RETIRED) -> Assessment:
    """Assess a stored JobSet; total, also for a JobSet that bypassed the webhook.

    ``suspended`` is the result of :func:`while_suspended`.
    """
    lifecycle = _lifecycle(jobset, suspended)
    if lifecycle is Lifecycle.UNTOUCHED:
        return Assessment(lifecycle, None)
    resolution = resolve(jobset, rules)
    stamps, malformed = stored_stamps(jobset)
    notices = list(resolution.notices)
    if malformed:
        notices.append(Notice(Reason.INVALID_GANG_CONFIG, "; ".join(str(error) for error in malformed)))
    if not any(stamps):
        if resolution.errors:
            notices.append(Notice(Reason.INVALID_GANG_CONFIG, "; ".join(str(error) for error in resolution.errors)))
        return Assessment(lifecycle, None, tuple(notices), unstamped=any(resolution.stamps))
    if too_many := check_jobs(jobset):
        notices.append(Notice(Reason.INVALID_GANG_CONFIG, str(too_many[0])))
        return Assessment(lifecycle, None, tuple(notices))
    changed = any(new is not None and old != new for old, new in zip(stamps, resolution.stamps, strict=True))
    if changed or resolution.errors or not resolution.config.asks_for_gangs:
        message = (
            "The gang configuration is not the one decided upon at creation and has no effect: what was decided stays. "
            "Delete the JobSet and create it again."
        )
        if resolution.errors:
            message += " As it is now it would be refused: " + "; ".join(str(error) for error in resolution.errors)
        notices.append(Notice(Reason.CONFIG_IGNORED, message))
    config = resolution.config if rules.composite else resolution.config.without_composite()
    return Assessment(lifecycle, make_plan(jobset, stamps, config), tuple(notices))
