"""The order of writes one by one, and what is left alone while it is going away."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gangctl.api.scheduling import Generation, Observed, PodGroup
from gangctl.gang.desired import JobProgress, target_min_counts
from gangctl.gang.diff import Change, Create, Delete, Difference, Existing, SetMinCounts, diff, retire
from gangctl.gang.plan import GangPlan, build_objects
from tests.gang.pipeline import GENERATIONS, some_plan
from tests.gang.store import Store
from tests.jobsets import jobset, rj
from tests.rows import each


def plan_of(a: int, b: int) -> GangPlan:
    """Two ReplicatedJobs with gangs of these sizes."""
    return some_plan(jobset("js", rj("a", 1, a, a, mode="Gang"), rj("b", 1, b, b, mode="Gang"), uid="u"))


PLAN = plan_of(4, 2)
A, B = (group.name for group in PLAN.groups)
WL = PLAN.workload.name


def exists(plan: GangPlan = PLAN, generation: Generation = Generation.V1BETA1) -> Existing:
    return Store(generation, build_objects(plan, generation)).existing(plan)


def difference(
    plan: GangPlan,
    existing: Existing,
    targets: Mapping[str, int] | None = None,
    generation: Generation = Generation.V1BETA1,
) -> Difference:
    wanted = {**target_min_counts(plan, []), **(targets or {})}
    return diff(plan, existing, wanted, generation.capabilities)


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
    assert not any(isinstance(change, Create) and change.again for change in changes)


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
    assert isinstance(change, SetMinCounts)
    assert change.progress
    (back,) = difference(PLAN, group(exists(), A, min_counts=(("", 1),))).changes
    assert isinstance(back, SetMinCounts)
    assert not back.progress


def test_a_workload_with_other_templates_goes_before_anything_else() -> None:
    other = some_plan(jobset("js", rj("a", 1, 4, 4, mode="Gang"), uid="u"))
    assert told(difference(PLAN, exists(other)).changes) == ["-W"]
    assert told(difference(other, exists()).changes) == ["-W"]
    assert told(difference(other, replace(exists(), workload=None)).changes) == ["+W", "-b"]


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


def test_a_foreign_workload_of_that_name_stops_everything() -> None:
    found = difference(plan_of(6, 6), replace(workload(exists(), owner_uid=""), groups={}))
    assert found == Difference(conflicts=(("Workload", WL),))


def test_objects_in_deletion_are_waited_for() -> None:
    assert difference(plan_of(6, 6), workload(exists(), deleting=True)) == Difference()
    lower = difference(PLAN, workload(exists(), deleting=True), {A: 1})
    assert told(lower.changes) == ["a 4>1"]


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
    jobs = [JobProgress("t", "js-a-0", "js", "u", "a", 0, 0, succeeded=3, complete=False, deleting=False)]
    lowered = group(exists(), A, min_counts=(("", 1),))
    changes = diff(again, lowered, target_min_counts(again, jobs), Generation.V1BETA1.capabilities).changes
    made = [change.wanted for change in changes if isinstance(change, Create)]
    assert [(each.name, each.template.min_count) for each in made if isinstance(each, PodGroup)] == [
        ("js-a-u-1", 4),
        ("js-b-u-1", 2),
    ]
    assert [change for change in changes if not isinstance(change, Create)] == [
        Delete("PodGroup", lowered.groups[name], progress=True) for name in (A, B)
    ]


def test_a_group_without_a_gang_policy_cannot_be_repaired() -> None:
    assert difference(PLAN, group(exists(), A, min_counts=())) == Difference()


@each("generation", [g for g in GENERATIONS if not g.capabilities.min_count_mutable])
def test_where_min_counts_are_immutable_they_are_reported_not_written(generation: Generation) -> None:
    found = difference(plan_of(6, 2), exists(generation=generation), generation=generation)
    groups = [("PodGroup", A, 4, 6)] if generation.capabilities.pod_groups else []
    assert found == Difference(frozen=(("Workload", WL, 4, 6), *groups))  # type: ignore[arg-type]
    missing = replace(exists(generation=generation), groups={})
    wanted = ["+a", "+b"] if generation.capabilities.pod_groups else []
    assert told(difference(PLAN, missing, generation=generation).changes) == wanted


def test_retiring_deletes_groups_first_and_nothing_twice() -> None:
    assert told(retire("u", exists())) == ["-a", "-b", "-W"]
    assert told(retire("u", group(exists(), A, deleting=True))) == ["-b", "-W"]
    assert told(retire("u", workload(exists(), deleting=True))) == ["-a", "-b"]
    assert retire("another", exists()) == ()
    assert retire("u", Existing()) == ()


def test_a_delete_has_the_uid_of_the_observed_object() -> None:
    seen: Observed = exists().groups[A]
    assert Delete("PodGroup", seen) in retire("u", exists())
