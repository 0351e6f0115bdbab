"""The writes that bring the observed objects to the desired state, in a safe order.

A Workload is created before its PodGroups (1.36 rejects the reverse order). A minCount
is raised in the Workload first and then in the PodGroups, and lowered in the reverse
order, so that no group requires more pods than its template allows. A PodGroup is
deleted before its Workload.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from gangctl.api.scheduling import Capabilities, CompositePodGroup, Observed, PodGroup, Workload
from gangctl.gang.naming import family
from gangctl.gang.plan import GangPlan, with_fewer

Kind = Literal["Workload", "PodGroup", "CompositePodGroup"]
Conflicts = tuple[tuple[Kind, str], ...]


@dataclass(frozen=True, slots=True)
class Create:
    """Create an object that does not exist. ``again`` means that its Workload existed before."""

    kind: Kind
    wanted: Workload | PodGroup | CompositePodGroup
    again: bool = False
    spare: bool = False
    """It is of the next attempt, or follows pods that finished: no event is recorded."""

    @property
    def name(self) -> str:
        """Name of the object."""
        return self.wanted.name


@dataclass(frozen=True, slots=True)
class SetMinCounts:
    """Change minCounts of an object; ``counts`` holds (list index, template name, old, new), a PodGroup's under "" ."""

    kind: Kind
    observed: Observed
    counts: tuple[tuple[int, str, int, int], ...]
    progress: bool = False
    """The change follows pods that finished: no event is recorded."""

    @property
    def name(self) -> str:
        """Name of the object."""
        return self.observed.name


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete exactly this object (by UID)."""

    kind: Kind
    observed: Observed
    progress: bool = False
    """It is of an earlier attempt: no event is recorded."""

    @property
    def name(self) -> str:
        """Name of the object."""
        return self.observed.name


Change = Create | SetMinCounts | Delete


@dataclass(frozen=True, slots=True)
class Existing:
    """What exists for one JobSet: the object under its Workload's name, and PodGroups by name.

    ``groups`` holds the PodGroups with names of the plan, regardless of their owners, and all
    others that the JobSet controls.
    """

    workload: Observed | None = None
    groups: Mapping[str, Observed] = field(default_factory=dict)
    composites: Mapping[str, Observed] = field(default_factory=dict)
    """CompositePodGroups by name, chosen as ``groups`` are."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Changes in order; ``conflicts`` are names of other owners' objects; ``frozen`` cannot be changed."""

    changes: tuple[Change, ...] = ()
    conflicts: Conflicts = ()
    frozen: tuple[tuple[Kind, str, int, int], ...] = ()
    """(kind, name, minCount, wanted) where this generation's minCount is immutable."""
    going: frozenset[str] = frozenset()
    """Names of conflicts that are being deleted: a PodGroup stays while pods name it, possibly pods of this JobSet."""


def _workload_changes(workload: Workload, found: Observed) -> list[Change]:
    have = dict(found.min_counts)
    if set(have) != {t.name for t in workload.templates} or found.composite is not bool(workload.composite):
        return [Delete("Workload", found)]
    wanted = {t.name: t.min_count for t in workload.templates}
    counts = tuple(
        (index, name, count, wanted[name])
        for index, (name, count) in enumerate(found.min_counts)
        if count != wanted[name]
    )
    return [SetMinCounts("Workload", found, counts)] if counts else []


def _group_change(group: PodGroup, found: Observed, target: int) -> SetMinCounts | None:
    have = dict(found.min_counts).get("", target)
    if have == target:
        return None
    progress = target < group.template.min_count
    return SetMinCounts("PodGroup", found, ((0, "", have, target),), progress)


def _lowers(change: Change) -> bool:
    """Whether it lowers the minCount of a PodGroup."""
    if not isinstance(change, SetMinCounts) or change.kind != "PodGroup":
        return False
    _, _, old, new = change.counts[0]
    return old > new


def _lowered(plan: GangPlan, existing: Existing, targets: Mapping[str, int]) -> Iterator[SetMinCounts]:
    """Lower minCounts, which need no change of the Workload."""
    for group in plan.groups:
        have = existing.groups.get(group.name)
        if have is None or have.owner_uid != plan.uid:
            continue
        change = _group_change(group, have, targets[group.name])
        if change is not None and _lowers(change):
            yield change


def runs(plan: GangPlan, existing: Existing) -> bool:
    """Whether the scheduler has placed one of its gangs."""
    found = (existing.groups.get(group.name) for group in plan.groups)
    return any(o is not None and o.owner_uid == plan.uid and o.scheduled and o.scheduled.status for o in found)


def _beside(plan: GangPlan, spares: Sequence[PodGroup], existing: Existing) -> Iterator[Change]:
    """Changes of the JobSet's other groups: those of earlier attempts, and of the next one.

    The latter are created after the gang runs, so that they do not delay other gangs that start.
    """
    planned = {group.name for group in (*plan.groups, *spares)}
    families = {family(name) for name in planned}
    for name, found in existing.groups.items():
        if name not in planned and found.owner_uid == plan.uid and not found.deleting:
            yield Delete("PodGroup", found, progress=family(name) in families)
    ready = bool(spares) and runs(plan, existing)
    for group in spares:
        have = existing.groups.get(group.name)
        if have is None:
            if ready:
                yield Create("PodGroup", group, spare=True)
        elif have.owner_uid == plan.uid and (change := _group_change(group, have, group.template.min_count)):
            yield replace(change, progress=True)


def diff(
    plan: GangPlan,
    existing: Existing,
    targets: Mapping[str, int],
    capabilities: Capabilities,
    spares: Sequence[PodGroup] = (),
) -> Difference:
    """Changes from the existing objects to the plan; ``targets`` holds each PodGroup's minCount by name.

    ``spares`` are the groups of the next attempt.

    Only minCount is compared: it is the only mutable field that gangctl sets. Fields that the
    server defaults or drops are no drift. The minCount of a group that is being deleted is
    updated too: the group exists while pods name it, and the scheduler uses it.
    """
    found = existing.workload
    if found is not None and found.owner_uid != plan.uid:
        return Difference(conflicts=(("Workload", found.name),))
    if found is not None and found.deleting:
        return _freeze([*_lowered(plan, existing, targets)], (), capabilities)
    changes: list[Change] = []
    conflicts: list[tuple[Kind, str]] = []
    going: list[str] = []
    if found is None:
        changes.append(Create("Workload", plan.workload))
    else:
        changes += _workload_changes(plan.workload, found)
        if any(isinstance(change, Delete) for change in changes):
            return Difference(tuple(changes))
    for group in plan.groups if capabilities.pod_groups else ():
        have = existing.groups.get(group.name)
        if have is None:
            changes.append(Create("PodGroup", group, again=found is not None))
        elif have.owner_uid != plan.uid:
            conflicts.append(("PodGroup", group.name))
            if have.deleting:
                going.append(group.name)
        elif (change := _group_change(group, have, targets[group.name])) is not None:
            changes.append(change)
    changes += _beside(plan, spares, existing)
    changes.sort(key=_lowers, reverse=True)
    return replace(_freeze(changes, tuple(conflicts), capabilities), going=frozenset(going))


def _freeze(
    changes: Sequence[Change], conflicts: tuple[tuple[Kind, str], ...], capabilities: Capabilities
) -> Difference:
    if capabilities.min_count_mutable:
        return Difference(tuple(changes), conflicts)
    frozen = tuple(
        (change.kind, change.name, old, new)
        for change in changes
        if isinstance(change, SetMinCounts) and not change.progress
        for _, _, old, new in change.counts
    )
    return Difference(tuple(c for c in changes if not isinstance(c, SetMinCounts)), conflicts, frozen)


def retire(uid: str, existing: Existing) -> tuple[Change, ...]:
    """Deletes of all objects that the JobSet with this UID controls: groups first, then the Workload."""
    changes: list[Change] = [
        Delete("PodGroup", o) for o in existing.groups.values() if o.owner_uid == uid and not o.deleting
    ]
    changes += [
        Delete("CompositePodGroup", o) for o in existing.composites.values() if o.owner_uid == uid and not o.deleting
    ]
    workload = existing.workload
    if workload is not None and workload.owner_uid == uid and not workload.deleting:
        changes.append(Delete("Workload", workload))
    return tuple(changes)


def with_composite(
    difference: Difference, plan: GangPlan, existing: Existing, groups: int, spare: CompositePodGroup | None
) -> Difference:
    """A difference, and the changes of CompositePodGroups: ``groups`` start together.

    ``spare`` is the one of the next attempt. One with another minGroupCount is deleted here, and created by the next
    reconcile.
    """
    if any(kind == "Workload" for kind, _ in difference.conflicts):
        return difference
    changes: list[Change] = []
    conflicts = difference.conflicts
    planned = {each.name for each in (plan.composite, spare) if each is not None}
    for name, found in existing.composites.items():
        if found.owner_uid == plan.uid and not found.deleting and name not in planned:
            changes.append(Delete("CompositePodGroup", found, progress=True))
    if plan.composite is not None:
        have = existing.composites.get(plan.composite.name)
        fewer = groups < plan.composite.template.min_group_count
        if have is None:
            again = existing.workload is not None
            changes.append(Create("CompositePodGroup", with_fewer(plan.composite, groups), again=again, spare=fewer))
        elif have.owner_uid != plan.uid:
            conflicts = (*conflicts, ("CompositePodGroup", have.name))
        elif not have.deleting and dict(have.min_counts).get("", groups) != groups:
            changes.append(Delete("CompositePodGroup", have, progress=True))
    if spare is not None and spare.name not in existing.composites and runs(plan, existing):
        changes.append(Create("CompositePodGroup", spare, spare=True))
    return replace(difference, changes=(*difference.changes, *changes), conflicts=conflicts)
