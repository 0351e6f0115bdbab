"""A stored JobSet as the controller sees it: the plan its stamps mean, and what a person should know.

The stamps decide, because Job templates that were stamped cannot change any more. The
configuration is resolved again only to explain: why nothing is stamped, or that
somebody got past the webhook and wrote a configuration that has no effect.
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
    """What there is, as it is: it waits in a queue, and comes back."""
    RETIRED = "Retired"
    """Nothing, once its pods are gone."""
    UNTOUCHED = "Untouched"
    """Somebody else's business, or about to be collected with its owner."""


@dataclass(frozen=True, slots=True)
class Assessment:
    """``unstamped`` says that a gang was asked for and could have been made, but no stamp is there."""

    lifecycle: Lifecycle
    plan: GangPlan | None
    notices: tuple[Notice, ...] = ()
    unstamped: bool = False


def while_suspended(jobset: JobSet, *, queues: bool | None, early: bool = False) -> Lifecycle:
    """What should exist for a JobSet while it is suspended.

    ``queues`` is whether the cluster has Kueue, None while that is not known. Who waits in one of its queues was
    suspended by Kueue, which will start it, perhaps again: its groups outlive eviction, so that pods, references and
    groups go on naming each other. Before the first start there are none, unless they are wanted ``early``. What is
    not known deletes nothing. Without Kueue nobody but a person suspends, as if there were no queue's name on it.
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
    """What the stored JobSet means; total, whatever was written past the webhook.

    ``suspended`` is what :func:`while_suspended` says.
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
    return Assessment(lifecycle, make_plan(jobset, stamps, resolution.config.options), tuple(notices))
