"""Changes put into words: the events that a reconcile leaves on a JobSet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from gangctl.api.jobset import JobSet
from gangctl.api.scheduling import Capabilities, Generation
from gangctl.gang.diff import Change, Create, Delete, Difference, Kind, SetMinCounts
from gangctl.gang.plan import GangPlan
from gangctl.gang.reasons import Notice, Reason

RecordEvent = Callable[[JobSet, Notice], None]
"""Records one event on a JobSet; never blocks."""

_LISTED: Final = 8
"""Names spelled out in one event; the rest is counted."""

CURE: Final = (
    "It is being deleted and stays as long as pods name it: suspend the JobSet, and resume it once its pods have ended."
)
"""What to do about a foreign group on its way out that pods of the gang keep (``podgroup-protection``)."""

_CREATED: Final[dict[Kind, Reason]] = {"Workload": Reason.WORKLOAD_CREATED, "PodGroup": Reason.POD_GROUP_CREATED}
_UPDATED: Final[dict[Kind, Reason]] = {"Workload": Reason.WORKLOAD_UPDATED, "PodGroup": Reason.POD_GROUP_UPDATED}
_DELETED: Final[dict[Kind, Reason]] = {"Workload": Reason.WORKLOAD_DELETED, "PodGroup": Reason.POD_GROUP_DELETED}


def _list(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_LISTED])
    return shown if len(names) <= _LISTED else f"{shown} and {len(names) - _LISTED} more"


def created(plan: GangPlan, capabilities: Capabilities) -> Notice:
    """One event for the whole gang: the Workload and every group in it."""
    if capabilities.pod_groups:
        groups = [f"{group.name} ({group.template.min_count})" for group in plan.groups]
    else:
        groups = [f"{template.name} ({template.min_count})" for template in plan.workload.templates]
    message = f"Created Workload {plan.workload.name} with {len(groups)} groups (pods each): {_list(groups)}"
    if not groups:
        message = f"Created Workload {plan.workload.name} without a group: no Job is in one"
    return Notice(Reason.WORKLOAD_CREATED, message)


def events_of(plan: GangPlan | None, changes: Iterable[Change], generation: Generation) -> list[Notice]:
    """Events for changes that were carried out; routine ones (pods that finished) leave none."""
    notices: list[Notice] = []
    deleted: dict[Kind, list[str]] = {}
    recreated: list[str] = []
    for change in changes:
        match change:
            case Create(kind="Workload") if plan is not None:
                notices.append(created(plan, generation.capabilities))
            case Create(again=True):
                recreated.append(change.name)
            case SetMinCounts(progress=False):
                counts = ", ".join(f"{name + ' ' if name else ''}{old} to {new}" for _, name, old, new in change.counts)
                message = f"Changed minCount of {change.kind} {change.name}: {counts}"
                notices.append(Notice(_UPDATED[change.kind], message))
            case Delete(progress=False):
                deleted.setdefault(change.kind, []).append(change.name)
            case _:
                pass
    if recreated:
        notices.append(Notice(Reason.POD_GROUP_CREATED, f"Created PodGroups {_list(recreated)}"))
    notices += [Notice(_DELETED[kind], f"Deleted {kind} {_list(names)}") for kind, names in deleted.items()]
    return notices


def obstacles(difference: Difference, generation: Generation) -> list[Notice]:
    """Events for what a difference could not change."""
    notices = [
        Notice(
            Reason.NAME_CONFLICT,
            f"{kind} {name} exists and has another owner: gangctl never adopts it. Its gang waits until that "
            f"object is {'gone' if name in difference.going else 'deleted'}."
            + (f" {CURE}" if name in difference.going else ""),
        )
        for kind, name in difference.conflicts
    ]
    notices += [
        Notice(
            Reason.CONFIG_IGNORED,
            f"{kind} {name} keeps minCount {old} although {new} pods are configured: it is immutable on Kubernetes "
            f"{generation.kubernetes}. Create a new JobSet.",
        )
        for kind, name, old, new in difference.frozen
    ]
    return notices
