"""The writes that bring the observed objects to the desired state, in a safe order.

What no pod needs is deleted first: it may hold the quota that the rest needs. A Workload is created before its
PodGroups (1.36 rejects the reverse order). A minCount is raised in the Workload first and then in the PodGroups, and
lowered in the reverse order, so that no group requires more pods than its template allows. The groups of the next
attempt come last: a JobSet can do without them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from gangctl.api.scheduling import Capabilities, CompositePodGroup, Observed, PodGroup, Workload
from gangctl.gang.desired import Desired
from gangctl.gang.naming import family
from gangctl.gang.plan import GangPlan, composite_of, composite_template

Kind = Literal["Workload", "PodGroup", "CompositePodGroup"]
Conflicts = tuple[tuple[Kind, str], ...]
Frozen = tuple[tuple[Kind, str, int, int], ...]


@dataclass(frozen=True, slots=True)
class Create:
    """Create an object that does not exist."""

    kind: Kind
    wanted: Workload | PodGroup | CompositePodGroup

    @property
    def name(self) -> str:
        """Name of the object."""
        return self.wanted.name


@dataclass(frozen=True, slots=True)
class SetMinCounts:
    """Change minCounts of an object; ``counts`` holds (list index, template name, old, new), a group's under "" ."""

    kind: Kind
    observed: Observed
    counts: tuple[tuple[int, str, int, int], ...]

    @property
    def name(self) -> str:
        """Name of the object."""
        return self.observed.name

    @property
    def field(self) -> str:
        """The field of its gang policy."""
        return "minGroupCount" if self.kind == "CompositePodGroup" else "minCount"

    @property
    def lowers(self) -> bool:
        """Whether no minCount grows."""
        return all(old > new for _, _, old, new in self.counts)


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete exactly this object (by UID)."""

    kind: Kind
    observed: Observed

    @property
    def name(self) -> str:
        """Name of the object."""
        return self.observed.name


Change = Create | SetMinCounts | Delete


def exceptional(plan: GangPlan, changes: Sequence[Change]) -> list[Change]:
    """The changes that record an event: the others only follow pods that finished, or are of another attempt."""
    if not changes:
        return []
    planned = {group.name: group for group in plan.groups}
    families = {family(name) for name in planned}
    composite = plan.composite

    def is_routine(change: Change) -> bool:
        if change.kind == "Workload":
            return False
        if (group := planned.get(change.name)) is not None:
            return group.min_count < group.template.min_count or group.name in plan.finished
        if composite is not None and composite.name == change.name:
            # It is deleted only for its minGroupCount, which follows the groups that have finished.
            return isinstance(change, Delete) or composite.min_group_count < composite.template.min_group_count
        if change.kind == "CompositePodGroup" or not isinstance(change, Delete):
            return True
        return family(change.name) in families

    return [change for change in changes if not is_routine(change)]


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
    orphans: tuple[tuple[Kind, Observed], ...] = ()
    """What gangctl made for a JobSet of this name, and nothing controls: an earlier one was deleted without its
    dependents, or an edit removed the owner."""

    def owned(self, uid: str) -> Iterator[tuple[Kind, Observed]]:
        """The groups that the JobSet with this UID controls, without those that are being deleted."""
        kinds: dict[Kind, Mapping[str, Observed]] = {"PodGroup": self.groups, "CompositePodGroup": self.composites}
        for kind, objects in kinds.items():
            for observed in objects.values():
                if observed.owner_uid == uid and not observed.deleting:
                    yield kind, observed


@dataclass(frozen=True, slots=True)
class Difference:
    """Changes in order; ``conflicts`` are names of other owners' objects; ``frozen`` cannot be changed."""

    changes: tuple[Change, ...] = ()
    conflicts: Conflicts = ()
    frozen: Frozen = ()
    """(kind, name, minCount, wanted) where minCount is immutable and pods need the object as it is."""
    going: frozenset[str] = frozenset()
    """Names of conflicts that are being deleted: a PodGroup stays while pods name it, possibly pods of this JobSet."""
    unowned: frozenset[str] = frozenset()
    """Names of conflicts that nothing controls: an edit may have removed the owner of gangctl's own object."""
    edited: tuple[tuple[str, str, str], ...] = ()
    """(PodGroup, its topologyKey, the one that is wanted) where that was changed after the group was made."""
    larger: tuple[str, ...] = ()
    """Names of objects whose minCount is immutable and larger than wanted, and that stay while pods name them."""
    spares: tuple[Create, ...] = ()
    """The next attempt's groups: created after all changes, and not needed yet."""


def runs(plan: GangPlan, existing: Existing) -> bool:
    """Whether the scheduler has placed one of its gangs."""
    groups = (existing.groups.get(group.name) for group in plan.groups)
    return any(o is not None and o.owner_uid == plan.uid and o.scheduled and o.scheduled.status for o in groups)


def _count(observed: Observed) -> int | None:
    """minCount of a PodGroup, or minGroupCount of a CompositePodGroup; None without a gang policy."""
    return dict(observed.min_counts).get("")


def _missing(plan: GangPlan, existing: Existing) -> list[PodGroup]:
    return [group for group in plan.groups if group.name not in existing.groups and group.name not in plan.finished]


def _surplus(desired: Desired, plan: GangPlan, existing: Existing) -> Iterator[Delete]:
    """Objects that no pod of this attempt or the next one names.

    A group whose pods have all finished stays visible until another one needs its quota. One with ResourceClaims does
    not: they stay allocated for as long as it exists, and others of the JobSet may wait for the devices.
    """
    names = {group.name for group in plan.groups}
    # The field is immutable, and no pod names a spare yet: the next one is made with the key that is wanted now.
    names |= {group.name for group in desired.spares if not _other_key(group, existing.groups.get(group.name))}
    replaced = bool(_missing(plan, existing))
    names -= {
        group.name for group in plan.groups if group.name in plan.finished and (replaced or group.template.claims)
    }
    names |= {group.name for group in (plan.composite, desired.spare_composite) if group is not None}
    # Also those of groups that were made while the configuration, or the cluster, was another.
    names |= {observed.parent for observed in existing.groups.values() if observed.name in names}
    for kind, observed in existing.orphans:
        yield Delete(kind, observed)
    for kind, observed in existing.owned(plan.uid):
        if observed.name not in names:
            yield Delete(kind, observed)


def _of_workload(workload: Workload, observed: Observed) -> Delete | SetMinCounts | None:
    """The change of a Workload; its list of templates is immutable in every generation."""
    wanted = {template.name: template.min_count for template in workload.templates}
    if set(dict(observed.min_counts)) != set(wanted) or observed.composite is not bool(workload.composite):
        return Delete("Workload", observed)
    counts = tuple(
        # With the index, by which alone a JSON patch names an entry of a list.
        (index, name, count, wanted[name])
        for index, (name, count) in enumerate(observed.min_counts)
        if count != wanted[name]
    )
    return SetMinCounts("Workload", observed, counts) if counts else None


def _recounted(
    desired: Desired, plan: GangPlan, existing: Existing, capabilities: Capabilities
) -> Iterator[SetMinCounts]:
    """The groups with another minCount, also of those that are being deleted: they exist while pods name them."""
    for group in (*plan.groups, *desired.spares):
        have = existing.groups.get(group.name)
        if have is not None and have.owner_uid == plan.uid and (count := _count(have)) not in {None, group.min_count}:
            yield SetMinCounts("PodGroup", have, ((0, "", count or 0, group.min_count),))
    if capabilities.group_count_mutable and plan.composite is not None and (have := _recountable(plan, existing)):
        count = dict(have.min_counts)[""]
        yield SetMinCounts("CompositePodGroup", have, ((0, "", count, plan.composite.min_group_count),))


def _replaced(
    desired: Desired, plan: GangPlan, recounted: list[SetMinCounts], capabilities: Capabilities
) -> tuple[list[Change], Frozen, tuple[str, ...]]:
    """Where minCount is immutable: deletes of what no pod needs as it is, and what has to stay.

    Of the latter, pods that have finished are no reason for a report: the gang runs. Last those that are larger.
    """
    changes: list[Change] = []
    frozen: list[tuple[Kind, str, int, int]] = []
    larger: list[str] = []
    before = desired.assessment.plan or plan
    whole = {group.name: group.template.min_count for group in before.groups}
    templates = {template.name: template.min_count for template in before.workload.templates}
    for change in recounted:
        if change.kind == "PodGroup":
            needed = change.name in desired.named
        else:
            # With PodGroups the scheduler does not read Workloads.
            # On Kubernetes 1.35 pods name the Workload itself, in front of a slash (named_group).
            needed = not capabilities.pod_groups and any(name.startswith(f"{change.name}/") for name in desired.named)
        if not needed:
            changes += [] if change.observed.deleting else [Delete(change.kind, change.observed)]
            continue
        if any(old > new for *_, old, new in change.counts):
            larger.append(change.name)
        for _, template, old, new in change.counts:
            wanted = templates[template] if change.kind == "Workload" else whole.get(change.name, old)
            # One that was made after pods had finished has fewer than all, and others may have finished since.
            if old > wanted or old < new:
                frozen.append((change.kind, change.name, old, wanted))
    return changes, tuple(frozen), tuple(larger)


def _recountable(plan: GangPlan, existing: Existing) -> Observed | None:
    """The parent of all groups, if it has another minGroupCount."""
    if plan.composite is None:
        return None
    have = existing.composites.get(plan.composite.name)
    if have is None or have.owner_uid != plan.uid or _count(have) in {None, plan.composite.min_group_count}:
        return None
    return have


def _with_parent(plan: GangPlan, existing: Existing, capabilities: Capabilities) -> GangPlan:
    """The plan whose CompositePodGroup is that of its groups, and needs only those that belong to it, or will.

    The parent of a group is immutable. While the cluster has no CompositePodGroups, groups are made without one: those
    that are made later would wait permanently for these. Groups that have one keep it also where the option was
    removed past the webhook, or a resize left a single gang: the scheduler ignores their pods while it does not exist.
    """
    have = [
        observed
        for group in plan.groups
        if group.name not in plan.finished
        and (observed := existing.groups.get(group.name)) is not None
        and observed.owner_uid == plan.uid
    ]
    parents = [observed.parent for observed in have]
    composite, workload = plan.composite, plan.workload
    if composite is None and capabilities.composite and any(parents):
        workload = replace(workload, composite=composite_template(workload.templates, len(have)))
        composite = composite_of(workload, plan.jobset.restarts)
        if composite is not None and composite.name not in parents:
            return plan
    if composite is None:
        return plan
    count = max(1, composite.min_group_count - sum(parent != composite.name for parent in parents))
    return replace(plan, workload=workload, composite=composite._replace(min_group_count=count))


def _of_composite(plan: GangPlan, existing: Existing, capabilities: Capabilities) -> Change | None:
    """The creation of the parent of all groups, or the deletion of one whose minGroupCount cannot be changed."""
    if plan.composite is not None and plan.composite.name not in existing.composites:
        return Create("CompositePodGroup", plan.composite)
    have = None if capabilities.group_count_mutable else _recountable(plan, existing)
    return Delete("CompositePodGroup", have) if have is not None and not have.deleting else None


def _conflicts(plan: GangPlan, existing: Existing, *, pod_groups: bool) -> Iterator[tuple[Kind, str]]:
    for group in plan.groups if pod_groups else ():
        if (have := existing.groups.get(group.name)) is not None and have.owner_uid != plan.uid:
            yield "PodGroup", group.name
    parent = existing.composites.get(plan.composite.name) if plan.composite is not None else None
    if parent is not None and parent.owner_uid != plan.uid:
        yield "CompositePodGroup", parent.name


def _unowned(conflicts: Iterable[Observed]) -> frozenset[str]:
    return frozenset(observed.name for observed in conflicts if not observed.owner_uid)


def _other_key(group: PodGroup, have: Observed | None) -> str:
    """The topologyKey of a group, if it is another one than is wanted."""
    # One without a key may have lost it: API servers drop the field where its gate is off.
    return have.topology_key if have is not None and have.topology_key != group.template.topology_key else ""


def _edited(plan: GangPlan, existing: Existing) -> Iterator[tuple[str, str, str]]:
    for group in plan.groups:
        have = existing.groups.get(group.name)
        if have is not None and have.owner_uid == plan.uid and (key := _other_key(group, have)):
            yield group.name, key, group.template.topology_key


def _spares(desired: Desired, plan: GangPlan, existing: Existing) -> Iterator[Create]:
    """The groups of the next attempt: made once the gang runs, so that they do not delay other gangs that start."""
    if not runs(plan, existing):
        return
    for group in desired.spares:
        if group.name not in existing.groups:
            yield Create("PodGroup", group)
    if desired.spare_composite is not None and desired.spare_composite.name not in existing.composites:
        yield Create("CompositePodGroup", desired.spare_composite)


def diff(desired: Desired, existing: Existing, capabilities: Capabilities) -> Difference:
    """Changes from the existing objects to the desired ones; none without a plan.

    Only minCount is changed: it is the only mutable field that gangctl sets. Fields that the
    server defaults or drops are no drift.
    """
    if desired.plan is None:
        return Difference()
    plan, workload = _with_parent(desired.plan, existing, capabilities), existing.workload
    if ("Workload", workload) in existing.orphans:
        # An edit removed its owner. No pod needs it, and the next one follows, as below.
        return Difference(tuple(_surplus(desired, plan, existing)))
    going = workload is not None and workload.deleting
    if workload is not None and workload.owner_uid != plan.uid and not (going and workload.orphan_of):
        # PodGroups name their Workload: they would belong to that of another owner.
        return Difference(conflicts=(("Workload", workload.name),), unowned=_unowned([workload]))
    # The next one has the same name, and cannot be created before this one is gone.
    if going:
        return Difference(ending(desired, existing, capabilities))
    own = Create("Workload", plan.workload) if workload is None else _of_workload(plan.workload, workload)
    composite = _of_composite(plan, existing, capabilities)
    deletes: list[Change] = [*_surplus(desired, plan, existing)]
    recounted = [*_recounted(desired, plan, existing, capabilities)] if capabilities.pod_groups else []
    # A group that has finished may be gone before its minCount is written.
    surplus = {(change.kind, change.name) for change in deletes}
    recounted = [change for change in recounted if (change.kind, change.name) not in surplus]
    frozen: Frozen = ()
    larger: tuple[str, ...] = ()
    if not capabilities.min_count_mutable:
        counts, recounted = [*recounted, *([own] if isinstance(own, SetMinCounts) else [])], []
        replaced, frozen, larger = _replaced(desired, plan, counts, capabilities)
        deletes += replaced
    deletes += [change for change in (composite, own) if isinstance(change, Delete)]
    if any(change.kind == "Workload" for change in deletes):
        # The rest follows when it exists again: 1.36 refuses groups without their Workload.
        return Difference(tuple(deletes), frozen=frozen)
    missing = _missing(plan, existing) if capabilities.pod_groups else []
    conflicts = tuple(_conflicts(plan, existing, pod_groups=capabilities.pod_groups))
    changes: list[Change] = [
        *deletes,
        *(change for change in recounted if change.lowers),
        *([own] if isinstance(own, Create) or (own is not None and capabilities.min_count_mutable) else []),
        *(change for change in recounted if not change.lowers),
        *([composite] if isinstance(composite, Create) else []),
        *(Create("PodGroup", group) for group in missing),
    ]
    groups = {**existing.groups, **existing.composites}
    return Difference(
        tuple(changes),
        conflicts,
        frozen,
        going=frozenset(name for _, name in conflicts if groups[name].deleting),
        unowned=_unowned(groups[name] for _, name in conflicts),
        edited=tuple(_edited(plan, existing)) if capabilities.pod_groups else (),
        larger=larger,
        spares=tuple(_spares(desired, plan, existing)) if capabilities.pod_groups else (),
    )


def ending(desired: Desired, existing: Existing, capabilities: Capabilities) -> tuple[Change, ...]:
    """Lower minCounts and do nothing else: what exists is being deleted, and pods may still wait for a quorum."""
    if desired.plan is None or not capabilities.min_count_mutable:
        return ()
    plan = _with_parent(desired.plan, existing, capabilities)
    return tuple(change for change in _recounted(desired, plan, existing, capabilities) if change.lowers)


def retire(uid: str, existing: Existing) -> tuple[Change, ...]:
    """Deletes of all objects that the JobSet with this UID controls: groups first, then the Workload."""
    changes: list[Change] = [Delete(kind, observed) for kind, observed in existing.owned(uid)]
    workload = existing.workload
    if workload is not None and workload.owner_uid == uid and not workload.deleting:
        changes.append(Delete("Workload", workload))
    return tuple(changes)
