"""The order of writes one by one, and what is left alone while it is going away."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gangctl.api.meta import GANGS
from gangctl.api.scheduling import Generation, Observed, PodGroup, Scheduled
from gangctl.gang.desired import JobProgress, counted, spare_groups
from gangctl.gang.diff import (
    Change,
    Create,
    Delete,
    Difference,
    Existing,
    SetMinCounts,
    diff,
    ending,
    exceptional,
    retire,
)
from gangctl.gang.plan import GangPlan, build_objects
from tests.gang.pipeline import GENERATIONS, some_plan, wanted
from tests.gang.store import Store
from tests.jobsets import jobset, rj
from tests.rows import each


def plan_of(a: int, b: int) -> GangPlan:
    """Two ReplicatedJobs with gangs of these sizes."""
    return some_plan(jobset("js", rj("a", 1, a, a, mode="Gang"), rj("b", 1, b, b, mode="Gang"), uid="u"))


PLAN = plan_of(4, 2)
A, B = (group.name for group in PLAN.groups)
WL = PLAN.workload.name
TAIL = JobProgress("t", "js-a-0", "js", "u", "a", 0, 0, succeeded=3, complete=False, deleting=False)


def exists(plan: GangPlan = PLAN, generation: Generation = Generation.V1BETA1) -> Existing:
    return Store(generation, build_objects(plan, generation)).existing(plan)


def difference(
    plan: GangPlan,
    existing: Existing,
    targets: Mapping[str, int] | None = None,
    generation: Generation = Generation.V1BETA1,
) -> Difference:
    return diff(wanted(plan, targets), existing, generation.capabilities)


def told(changes: tuple[Change, ...]) -> list[str]:
    """Changes as ``+W``, ``-js-a…``, ``js-a… 4>6`` and the like."""
    names = {WL: "W", A: "a", B: "b"}
    lines = []
    for change in changes:
        name = names.get(change.name, change.name)
        if isinstance(change, SetMinCounts):
            lines += [
                f"{name}{f'.{template}' if template else ''} {old}>{new}" for _, template, old, new in change.counts
            ]
        else:
            lines.append(f"{'+' if isinstance(change, Create) else '-'}{name}")
    return lines


def group(existing: Existing, name: str, **changes: Any) -> Existing:
    """The same with some fields of one PodGroup changed."""
    return replace(existing, groups={**existing.groups, name: replace(existing.groups[name], **changes)})


def workload(existing: Existing, **changes: Any) -> Existing:
    assert existing.workload is not None
    return replace(existing, workload=replace(existing.workload, **changes))


def test_creation_starts_with_the_workload() -> None:
    changes = difference(PLAN, Existing()).changes
    assert told(changes) == ["+W", "+a", "+b"]


def test_1_35_has_no_groups_to_create() -> None:
    assert told(difference(PLAN, Existing(), generation=Generation.V1ALPHA1).changes) == ["+W"]


def test_raising_goes_from_the_template_to_the_group() -> None:
    assert told(difference(plan_of(6, 2), exists()).changes) == ["W.a 4>6", "a 4>6"]


def test_lowering_goes_from_the_group_to_the_template() -> None:
    assert told(difference(plan_of(3, 2), exists()).changes) == ["a 4>3", "W.a 4>3"]


def test_raising_one_and_lowering_another_is_one_write_to_the_workload() -> None:
    changes = difference(plan_of(6, 1), exists()).changes
    assert told(changes) == ["b 2>1", "W.a 4>6", "W.b 2>1", "a 4>6"]
    assert len(changes) == 3


def test_counts_name_the_place_in_the_list_as_it_was_seen() -> None:
    seen = exists()
    assert seen.workload is not None
    turned = workload(seen, min_counts=tuple(reversed(seen.workload.min_counts)))
    (change,) = (c for c in difference(plan_of(4, 7), turned).changes if c.kind == "Workload")
    assert isinstance(change, SetMinCounts)
    assert change.counts == ((0, "b", 2, 7),)


def test_following_progress_is_routine_and_touches_no_template() -> None:
    (change,) = difference(PLAN, exists(), {A: 1}).changes
    assert told((change,)) == ["a 4>1"]
    assert not exceptional(counted(PLAN, [TAIL]), [change])
    (back,) = difference(PLAN, group(exists(), A, min_counts=(("", 1),))).changes
    assert exceptional(PLAN, [back]) == [back]


@each("generation", [g for g in GENERATIONS if g.capabilities.pod_groups])
def test_a_group_is_created_with_the_pods_that_can_still_exist(generation: Generation) -> None:
    """After a suspension that deleted it, some pods will never come back (review-2, C1)."""
    changes = difference(PLAN, replace(exists(generation=generation), groups={}), {A: 3}, generation).changes
    numbers = {change.name: change.wanted.min_count for change in changes if isinstance(change.wanted, PodGroup)}  # type: ignore[union-attr]
    assert numbers == {A: 3, B: 2}


def test_a_workload_with_other_templates_goes_before_anything_is_written() -> None:
    other = some_plan(jobset("js", rj("a", 1, 4, 4, mode="Gang"), uid="u"))
    assert told(difference(PLAN, exists(other)).changes) == ["-W"]
    assert told(difference(other, exists()).changes) == ["-b", "-W"]
    assert told(difference(other, replace(exists(), workload=None)).changes) == ["-b", "+W"]


CLAIM = {"name": "net", "resourceClaimTemplateName": "channel"}


@each(("claims", "deleted"), [([CLAIM], ["js-sweep-u-0-0"]), ([], [])])
def test_a_group_that_has_finished_is_deleted_if_it_holds_devices(claims: list[Any], deleted: list[str]) -> None:
    """The resource claim controller releases what a PodGroup has reserved once that does not exist any more."""
    gangs = [{"name": "sweep", "replicatedJobs": ["w"], "perReplica": True, "resourceClaims": claims}]
    worker = rj("w", 2, 4, 4, pod={"resourceClaims": claims})
    plan = some_plan(jobset("js", worker, uid="u", annotations={GANGS: json.dumps(gangs)}))
    ended = JobProgress("t", "js-w-0", "js", "u", "w", 0, 0, succeeded=4, complete=True, deleting=False)
    now = counted(plan, [ended])
    changes = difference(now, exists(plan)).changes
    assert [change.name for change in changes if isinstance(change, Delete)] == deleted
    # Its minCount is not written: it may be gone by then.
    assert [change.name for change in changes if change.name in deleted] == deleted
    # It is not made again.
    left = {name: seen for name, seen in exists(plan).groups.items() if name not in deleted}
    later = difference(now, replace(exists(plan), groups=left)).changes
    assert not [change for change in later if not isinstance(change, SetMinCounts)]


def test_own_groups_in_no_plan_are_deleted_and_foreign_ones_stay() -> None:
    extra = replace(exists().groups[A], name="extra", uid="x")
    strange = replace(extra, name="strange", owner_uid="")
    going = replace(extra, name="going", deleting=True)
    groups = {**exists().groups, "extra": extra, "strange": strange, "going": going}
    found = difference(PLAN, replace(exists(), groups=groups))
    assert told(found.changes) == ["-extra"]
    assert found.conflicts == ()


def test_one_name_of_another_owner_does_not_stop_the_other_groups() -> None:
    found = difference(PLAN, replace(exists(), groups={A: replace(exists().groups[A], owner_uid="other")}))
    assert told(found.changes) == ["+b"]
    assert (found.conflicts, found.going) == ((("PodGroup", A),), frozenset())
    going = difference(PLAN, group(exists(), A, owner_uid="theirs", deleting=True))
    assert (going.conflicts, going.going) == ((("PodGroup", A),), frozenset({A}))


def test_a_group_with_another_topology_than_the_configuration_is_named() -> None:
    """Its options were edited while no webhook was asked: the groups of the next attempt differ from it."""

    def placed(key: str, **changes: Any) -> Difference:
        return difference(PLAN, group(exists(), A, topology_key=key, **changes))

    assert placed("rack").edited == ((A, "rack", ""),)
    assert placed("rack").changes == ()
    assert placed("rack", owner_uid="other").edited == ()
    # One that the API server has dropped was not edited.
    asked = some_plan(jobset("js", rj("a", 1, 4, 4, mode="Gang"), options='{"topologyKey": "zone"}', uid="u"))
    assert difference(asked, group(exists(asked), A, topology_key="")).edited == ()
    assert difference(asked, group(exists(asked), A, topology_key="rack")).edited == ((A, "rack", "zone"),)
    assert difference(asked, exists(asked)).edited == ()


@each(
    ("key", "owner", "changes"),
    [
        ("rack", "u", ["-js-a-u-1"]),
        ("rack", "other", []),
        ("zone", "u", []),
        # One that the API server has dropped was not edited.
        ("", "u", []),
    ],
)
def test_a_group_of_the_next_attempt_with_another_topology_is_replaced(
    key: str, owner: str, changes: list[str]
) -> None:
    """No pod names it yet."""
    policy: dict[str, Any] = {"failurePolicy": {"maxRestarts": 1}}
    asked = some_plan(jobset("js", rj("a", 1, 4, 4, mode="Gang"), options='{"topologyKey": "zone"}', uid="u", **policy))
    (spare,) = spare_groups(asked)
    seen = exists(asked)
    prepared = replace(seen.groups[A], name=spare.name, topology_key=key, owner_uid=owner)
    both = replace(seen, groups={**seen.groups, spare.name: prepared})
    assert told(diff(wanted(asked, spares=(spare,)), both, Generation.V1BETA1.capabilities).changes) == changes
    # The next one follows once it is gone.
    placed = group(seen, A, scheduled=Scheduled(True))
    later = diff(wanted(asked, spares=(spare,)), placed, Generation.V1BETA1.capabilities)
    assert later == Difference(spares=(Create("PodGroup", spare),))


def test_a_foreign_workload_of_that_name_stops_everything() -> None:
    found = difference(plan_of(6, 6), replace(workload(exists(), owner_uid=""), groups={}))
    assert found == Difference(conflicts=(("Workload", WL),), unowned=frozenset({WL}))


def test_its_own_workload_without_an_owner_is_deleted_and_made_again() -> None:
    """As after a patch that removed its ownerReferences, or where an edited export replaced it."""
    existing = workload(exists(), owner_uid="", owner_jobset="", orphan_of="js")
    assert existing.workload is not None
    found = difference(PLAN, replace(existing, orphans=(("Workload", existing.workload),)))
    assert (told(found.changes), found.conflicts) == (["-W"], ())
    # The API server keeps it for as long as it has a finalizer.
    assert difference(PLAN, workload(existing, deleting=True)) == Difference()
    assert told(difference(PLAN, replace(existing, workload=None)).changes) == ["+W"]


def test_what_nothing_controls_is_a_conflict_without_an_owner() -> None:
    """On 1.35, where pods name their Workload itself, and of anything that gangctl did not make."""
    for existing in (workload(exists(), owner_uid="", orphan_of="js"), group(exists(), A, owner_uid="")):
        found = difference(PLAN, existing)
        assert {name for _, name in found.conflicts} == found.unowned
    assert difference(PLAN, workload(exists(), owner_uid="another")).unowned == frozenset()


def test_objects_in_deletion_are_waited_for() -> None:
    assert difference(plan_of(6, 6), workload(exists(), deleting=True)) == Difference()
    lower = difference(PLAN, workload(exists(), deleting=True), {A: 1})
    assert told(lower.changes) == ["a 4>1"]


@each("generation", GENERATIONS)
def test_a_jobset_in_deletion_has_its_min_counts_lowered_and_nothing_else(generation: Generation) -> None:
    mutable = generation.capabilities.min_count_mutable
    existing, capabilities = exists(generation=generation), generation.capabilities
    assert told(ending(wanted(PLAN, {A: 1}), existing, capabilities)) == (["a 4>1"] if mutable else [])
    assert ending(wanted(plan_of(6, 2)), existing, capabilities) == ()
    assert ending(wanted(PLAN), Existing(), capabilities) == ()


def test_the_min_count_of_a_group_in_deletion_is_updated_because_the_scheduler_uses_it() -> None:
    going = group(exists(), A, deleting=True)
    assert told(difference(PLAN, going, {A: 2}).changes) == ["a 4>2"]
    assert told(difference(plan_of(6, 2), going).changes) == ["W.a 4>6", "a 4>6"]
    strangers = group(exists(), A, deleting=True, owner_uid="theirs")
    assert told(difference(PLAN, strangers, {A: 2}).changes) == []


def test_a_restart_in_the_tail_makes_a_whole_group_and_leaves_the_lowered_one_to_its_pods() -> None:
    """Pods of the restart name the new group: what became of the minCount of the old one cannot start half of them."""
    raw = jobset("js", rj("a", 1, 4, 4, mode="Gang"), rj("b", 1, 2, 2, mode="Gang"), uid="u")
    again = some_plan({**raw, "status": {"restarts": 1}})
    lowered = group(exists(), A, min_counts=(("", 1),))
    changes = diff(wanted(counted(again, [TAIL])), lowered, Generation.V1BETA1.capabilities).changes
    made = [change.wanted for change in changes if isinstance(change, Create)]
    assert [(made_group.name, made_group.min_count) for made_group in made if isinstance(made_group, PodGroup)] == [
        ("js-a-u-1", 4),
        ("js-b-u-1", 2),
    ]
    deletes = [Delete("PodGroup", lowered.groups[name]) for name in (A, B)]
    assert list(changes[:2]) == deletes, "they may hold the quota of the others"
    assert not exceptional(again, deletes)


def test_a_group_without_a_gang_policy_cannot_be_repaired() -> None:
    assert difference(PLAN, group(exists(), A, min_counts=())) == Difference()


@each("generation", [g for g in GENERATIONS if not g.capabilities.min_count_mutable])
def test_where_min_counts_are_immutable_what_no_pod_names_is_replaced(generation: Generation) -> None:
    larger, seen, pod_groups = plan_of(6, 2), exists(generation=generation), generation.capabilities.pod_groups
    assert told(difference(larger, seen, generation=generation).changes) == (["-a", "-W"] if pod_groups else ["-W"])
    named = frozenset({A, f"{WL}/a/0"})
    kept = diff(wanted(larger, named=named), seen, generation.capabilities)
    assert kept.frozen == ((("PodGroup", A, 4, 6),) if pod_groups else (("Workload", WL, 4, 6),))
    assert told(kept.changes) == (["-W"] if pod_groups else [])
    tail = diff(wanted(PLAN, {A: 3}, named=named), seen, generation.capabilities)
    replaced_later = Difference(larger=(A,) if pod_groups else ())
    assert tail == replaced_later, "pods that finished are no reason for a report"
    if pod_groups:
        resumed = group(seen, A, min_counts=(("", 3),))
        later = diff(wanted(PLAN, {A: 2}, named=named), resumed, generation.capabilities)
        assert later == replaced_later, "nor of one that was made when some had finished"
        assert told(difference(PLAN, seen, {A: 3}, generation).changes) == ["-a"]
        going = group(seen, A, deleting=True)
        assert difference(PLAN, going, {A: 3}, generation) == Difference()
    missing = replace(exists(generation=generation), groups={})
    assert told(difference(PLAN, missing, generation=generation).changes) == (["+a", "+b"] if pod_groups else [])


def test_retiring_deletes_groups_first_and_nothing_twice() -> None:
    assert told(retire("u", exists())) == ["-a", "-b", "-W"]
    assert told(retire("u", group(exists(), A, deleting=True))) == ["-b", "-W"]
    assert told(retire("u", workload(exists(), deleting=True))) == ["-a", "-b"]
    assert retire("another", exists()) == ()
    assert retire("u", Existing()) == ()


def test_a_delete_has_the_uid_of_the_observed_object() -> None:
    seen: Observed = exists().groups[A]
    assert Delete("PodGroup", seen) in retire("u", exists())
