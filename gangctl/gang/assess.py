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


def _lifecycle(jobset: JobSet) -> Lifecycle:
    if jobset.deleting or jobset.managed_elsewhere:
        return Lifecycle.UNTOUCHED
    return Lifecycle.RETIRED if jobset.suspend or jobset.finished else Lifecycle.PRESENT


def assess(jobset: JobSet, rules: ClusterRules) -> Assessment:
    """What the stored JobSet means; total, whatever was written past the webhook."""
    lifecycle = _lifecycle(jobset)
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
