"""From whatever exists to the plan: diff and retire get there, in a safe order, and then stop."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gangctl.api.scheduling import Generation
from gangctl.gang.desired import JobProgress, counted, pods_left
from gangctl.gang.diff import Create, Delete, Difference, diff, retire
from gangctl.gang.plan import GangPlan, build_objects
from tests.gang.pipeline import GENERATIONS, planned, wanted
from tests.gang.store import Store
from tests.strategies import PROPERTY, gangs, resized

Raw = dict[str, Any]
WITH_GROUPS = [generation for generation in GENERATIONS if generation.capabilities.pod_groups]
STRANGER = "99999999-0000-4000-8000-000000000000"


def some(raw: Raw, generation: Generation) -> GangPlan:
    plan = planned(raw, generation)
    assume(plan is not None)
    assert plan is not None
    return plan


def difference(plan: GangPlan, store: Store, targets: Mapping[str, int] | None = None) -> Difference:
    return diff(wanted(plan, targets), store.existing(plan), store.generation.capabilities)


def converge(
    plan: GangPlan,
    store: Store,
    targets: Mapping[str, int] | None = None,
    watch: Callable[[], None] = lambda: None,
) -> Difference:
    """Apply differences until there are none; at most two rounds, one more to see that it is quiet."""
    for _ in range(3):
        found = difference(plan, store, targets)
        if not found.changes:
            return found
        for change in found.changes:
            store.apply(change, plan.uid)
            watch()
    raise AssertionError(f"still changing: {difference(plan, store, targets)}")


def counts(store: Store) -> dict[tuple[str, str], tuple[tuple[str, int], ...]]:
    observed = {(kind, name): store.observed(kind, name) for kind, name in store.objects}  # type: ignore[arg-type]
    return {key: found.min_counts for key, found in observed.items() if found is not None}


def full(plan: GangPlan, generation: Generation) -> Store:
    return Store(generation, build_objects(plan, generation))


@st.composite
def histories(draw: st.DrawFn, generation: Generation) -> tuple[GangPlan, Store]:
    """A plan, and some of its objects with other numbers, next to groups of an earlier plan of the same JobSet."""
    raw = draw(gangs())
    plan = some(raw, generation)
    store = full(plan, generation)
    mutable = generation.capabilities.min_count_mutable
    for kind, name in list(store.objects):
        fate = draw(st.sampled_from(["stays", "gone", "drifted", "stale"]))
        if fate == "gone":
            del store.objects[kind, name]
        elif fate == "drifted" and mutable:
            entries = store.entries(kind, name)  # type: ignore[arg-type]
            store.set_min_counts(kind, name, [(i, draw(st.integers(1, 40))) for i in range(len(entries))])  # type: ignore[arg-type]
        elif fate == "stale" and kind == "PodGroup":
            left_over = copy.deepcopy(store.objects[kind, name])
            left_over["metadata"]["name"] = f"{name[:55]}-earlier"
            store.add(left_over)
        elif fate == "stale":
            template = store.objects[kind, name]["spec"]
            entries = template.get("podGroups") or template["podGroupTemplates"]
            entries[0]["name"] = "earlier"
    return plan, store


@pytest.mark.parametrize("generation", GENERATIONS)
@given(raw=gangs())
@PROPERTY
def test_what_the_plan_created_needs_no_change(raw: Raw, generation: Generation) -> None:
    plan = some(raw, generation)
    assert difference(plan, full(plan, generation)) == Difference()


@pytest.mark.parametrize("generation", GENERATIONS)
@given(data=st.data())
@PROPERTY
def test_from_any_history_it_arrives_at_the_plan_and_stops(data: st.DataObject, generation: Generation) -> None:
    plan, store = data.draw(histories(generation))
    converge(plan, store)
    assert counts(store) == counts(full(plan, generation))


@pytest.mark.parametrize("generation", GENERATIONS)
@given(raw=gangs(), data=st.data())
@PROPERTY
def test_objects_of_other_owners_are_not_changed(raw: Raw, data: st.DataObject, generation: Generation) -> None:
    plan = some(raw, generation)
    store = full(plan, generation)
    taken = data.draw(st.sets(st.sampled_from(sorted(store.objects)), min_size=1))
    for key in taken:
        references = store.objects[key]["metadata"]["ownerReferences"]
        references[0] = data.draw(st.sampled_from([{**references[0], "uid": STRANGER}, {}]))
        store.set_min_counts(key[0], key[1], [(0, 77)])  # type: ignore[arg-type]
    before = {key: copy.deepcopy(store.objects[key]) for key in taken}
    found = converge(plan, store)
    for change in retire(plan.uid, store.existing(plan)):
        store.apply(change, plan.uid)
    assert {key: store.objects.get(key) for key in taken} == before
    assert set(store.objects) == taken
    workloads = {key for key in taken if key[0] == "Workload"}
    assert set(found.conflicts) == (workloads or taken)


@pytest.mark.parametrize("generation", WITH_GROUPS)
@given(data=st.data())
@PROPERTY
def test_a_group_is_created_after_its_workload_and_deleted_before_it(
    data: st.DataObject, generation: Generation
) -> None:
    plan, store = data.draw(histories(generation))
    changes = difference(plan, store).changes
    workload = [i for i, c in enumerate(changes) if isinstance(c, Create) and c.kind == "Workload"]
    groups = [i for i, c in enumerate(changes) if isinstance(c, Create) and c.kind == "PodGroup"]
    assert not workload or not groups or max(workload) < min(groups)
    converge(plan, store)
    gone = retire(plan.uid, store.existing(plan))
    assert [c.kind for c in gone] == ["PodGroup"] * len(plan.groups) + ["Workload"]
    for change in gone:
        store.apply(change, plan.uid)
    assert store.objects == {}


@given(raw=gangs(), data=st.data())
@PROPERTY
def test_no_group_asks_for_more_than_its_template_at_any_moment(raw: Raw, data: st.DataObject) -> None:
    plan = some(raw, Generation.V1BETA1)
    store = full(plan, Generation.V1BETA1)
    after = some(data.draw(resized(raw)), Generation.V1BETA1)
    targets = {g.name: data.draw(st.integers(1, g.template.min_count)) for g in after.groups}

    def within_templates() -> None:
        workload = store.observed("Workload", plan.workload.name)
        assert workload is not None
        for kind, name in store.objects:
            if kind == "PodGroup":
                template = store.objects[kind, name]["spec"]["workloadRef"]["templateName"]
                assert store.entries("PodGroup", name)[0]["gang"]["minCount"] <= dict(workload.min_counts)[template]

    converge(after, store, targets, within_templates)
    assert not any(isinstance(change, Create | Delete) for change in store.writes)
    seen = {group.name: store.entries("PodGroup", group.name)[0]["gang"]["minCount"] for group in after.groups}
    assert seen == targets


@st.composite
def progresses(draw: st.DrawFn, plan: GangPlan) -> list[JobProgress]:
    jobs = []
    for job in plan.jobs():
        if draw(st.booleans()):
            jobs.append(
                JobProgress(
                    *("t", job.name, plan.jobset.name, plan.uid, job.replicated_job, job.index),
                    attempt=draw(st.integers(0, 1)),
                    succeeded=draw(st.integers(0, 9)),
                    complete=draw(st.booleans()),
                    deleting=draw(st.booleans()),
                )
            )
    return jobs


@given(raw=gangs(), data=st.data())
@PROPERTY
def test_min_counts_follow_progress_between_one_and_the_full_gang(raw: Raw, data: st.DataObject) -> None:
    plan = some(raw, Generation.V1BETA1)
    whole = {group.name: group.template.min_count for group in plan.groups}
    assert counted(plan, []) is plan
    jobs = data.draw(progresses(plan))
    targets = {group.name: group.min_count for group in counted(plan, jobs).groups}
    assert targets.keys() == whole.keys()
    assert all(1 <= target <= whole[name] for name, target in targets.items())


@given(raw=gangs(), data=st.data())
@PROPERTY
def test_more_success_never_raises_a_min_count(raw: Raw, data: st.DataObject) -> None:
    plan = some(raw, Generation.V1BETA1)
    before = data.draw(progresses(plan))
    after = [replace(job, succeeded=job.succeeded + data.draw(st.integers(0, 4))) for job in before]
    earlier, later = pods_left(plan, before), pods_left(plan, after)
    assert all(later[name] <= earlier[name] for name in earlier)
