"""Option ``composite``: all gangs of a JobSet start together, each placed as a whole."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gangctl.api.meta import GANGS
from gangctl.api.scheduling import NEWEST, ApiState, CompositePodGroup, CompositeTemplate, Feature, Generation
from gangctl.api.scheduling_versions import composite_pod_group
from gangctl.controllers.writer import min_count_patch
from gangctl.gang.convert import Notation, convert
from gangctl.gang.desired import JobProgress, assess, desire
from gangctl.gang.diff import Create, Delete, Difference, SetMinCounts, diff, ending, retire
from gangctl.gang.plan import GangPlan, build_objects
from gangctl.gang.reasons import Reason
from gangctl.gang.resolve import ClusterRules, resolve
from tests.gang.pipeline import read, resolved, some_plan, stored, wanted
from tests.gang.store import Store
from tests.jobsets import FIXTURE_UID, OPTIONS, jobset, rj
from tests.rows import each
from tests.strategies import PROPERTY

Raw = dict[str, Any]
COMPOSITE = '{"composite": true}'
PATH = f"metadata.annotations[{OPTIONS}].composite"


def slices(*entries: Raw, options: str = COMPOSITE, **spec: Any) -> Raw:
    given_entries = entries or (rj("w", 3, 2, 2, mode="ReplicatedGang"),)
    return jobset("js", *given_entries, options=options, uid=FIXTURE_UID, **spec)


def parent(plan: GangPlan) -> CompositePodGroup:
    assert plan.composite is not None
    return plan.composite


def test_every_group_has_the_parent_and_the_parent_counts_them() -> None:
    plan = some_plan(slices(rj("w", 3, 2, 2, mode="ReplicatedGang"), rj("x", 2, 1, 1, mode="Gang"), rj("alone")))
    assert parent(plan).template == CompositeTemplate("all", 4)
    assert {group.parent for group in plan.groups} == {parent(plan).name}


def test_objects_of_1_37() -> None:
    workload, composite, group, *_ = build_objects(some_plan(slices()), Generation.V1BETA1)
    policy = {"gang": {"minGroupCount": 3}}
    template = {"name": "w", "schedulingPolicy": {"gang": {"minCount": 2}}}
    above = {"name": "all", "schedulingPolicy": policy, "podGroupTemplates": [template]}
    assert workload["spec"] == {
        "controllerRef": {"apiGroup": "jobset.x-k8s.io", "kind": "JobSet", "name": "js"},
        "compositePodGroupTemplates": [above],
    }
    assert (composite["apiVersion"], composite["kind"]) == ("scheduling.k8s.io/v1alpha3", "CompositePodGroup")
    reference = {"workloadName": workload["metadata"]["name"], "templateName": "all"}
    assert composite["spec"] == {"workloadRef": reference, "schedulingPolicy": policy}
    assert group["spec"]["parentCompositePodGroupName"] == composite["metadata"]["name"]


@each(
    ("first", "second", "mode"),
    [("all", "all", {"all": {}}), ("all", "single", None), ("single", "single", None), ("all", None, None)],
)
def test_gangs_that_are_all_preempted_as_a_whole_are_preempted_together(
    first: str, second: str | None, mode: Raw | None
) -> None:
    """The API's default of a CompositePodGroup is that one of its groups can be preempted without the others."""
    entries = [
        {"name": name, "replicatedJobs": [name], **({"disruption": value} if value else {})}
        for name, value in (("v", first), ("w", second))
    ]
    raw = slices(rj("v", 1, 2, 2), rj("w", 1, 2, 2))
    raw["metadata"]["annotations"][GANGS] = json.dumps(entries)
    workload, composite, *_ = build_objects(some_plan(raw), Generation.V1BETA1)
    (template,) = workload["spec"]["compositePodGroupTemplates"]
    assert [spec.get("disruptionMode") for spec in (template, composite["spec"])] == [mode, mode]


def test_names_of_templates_differ() -> None:
    assert parent(some_plan(slices(rj("all", 2, 1, 1, mode="ReplicatedGang")))).template.name == "all-2"


def no_effect(*entries: Raw, options: str = COMPOSITE) -> list[str]:
    notices = resolved(slices(*entries, options=options)).notices
    return [notice.message for notice in notices if notice.reason is Reason.NO_EFFECT]


@each("entry", [rj("w", 3, 2, 2, mode="Gang"), rj("w", 1, 2, 2, mode="ReplicatedGang")])
def test_a_single_gang_has_no_parent_and_a_notice(entry: Raw) -> None:
    assert some_plan(slices(entry)).composite is None
    (message,) = no_effect(entry, rj("alone"))
    assert message.startswith(f"{PATH} has no effect: this JobSet has a single gang")


def test_gangs_that_start_together_and_those_that_need_not_have_no_notice() -> None:
    assert no_effect() == []
    assert no_effect(rj("w", mode="Gang"), options="{}") == []
    assert no_effect(rj("w", 0, 2, 2, mode="Gang")) == [], "it has no gang, and another notice"


@each(
    ("raw", "message"),
    [
        (
            slices(rj("a", mode="Gang"), rj("b", mode="Gang", depends_on="a")),
            "the gangs start together, and these replicated jobs one after another",
        ),
        (
            slices(rj("a", mode="Gang"), rj("b", mode="Gang", pod={"priorityClassName": "high"})),
            'all pods need one priorityClassName, because the gangs start together; there are "", "high"',
        ),
    ],
)
def test_gangs_that_cannot_start_together_are_rejected(raw: Raw, message: str) -> None:
    (error,) = resolved(raw).errors
    assert (error.path, error.detail.startswith(message)) == (PATH, True), error


def test_clusters_without_composites_reject_them_with_what_is_missing() -> None:
    (older,) = resolved(slices(), Generation.V1ALPHA2).errors
    assert older.detail == "needs Kubernetes 1.37 or later; this is 1.36 (scheduling.k8s.io/v1alpha2)"
    rules = ClusterRules(lacks=frozenset({Feature.COMPOSITE}))
    (gates,) = resolve(read(slices()), rules).errors
    assert "scheduling.k8s.io/v1alpha3 and the feature gates CompositePodGroup" in gates.detail


def test_a_cluster_that_has_lost_them_starts_each_gang_by_itself() -> None:
    """The JobSet was accepted before."""
    rules = ClusterRules(lacks=frozenset({Feature.COMPOSITE}))
    found = assess(read(stored(slices())), rules)
    assert found.plan is not None
    assert (found.plan.composite, found.plan.workload.composite) == (None, None)
    assert {group.parent for group in found.plan.groups} == {""}
    assert [notice.reason for notice in found.notices] == [Reason.CONFIG_IGNORED]


def difference(plan: GangPlan, store: Store, groups: int | None = None) -> Difference:
    if groups is not None:
        plan = replace(plan, composite=parent(plan)._replace(min_group_count=groups))
    return diff(wanted(plan), store.existing(plan), store.capabilities)


def full(plan: GangPlan, parents: str = "v1alpha3") -> Store:
    return Store(Generation.V1BETA1, build_objects(plan, Generation.V1BETA1), parents)


@given(data=st.data(), parents=st.sampled_from(["v1alpha3", "v1beta1"]))
@PROPERTY
def test_from_any_history_it_arrives_at_the_plan_and_stops(data: st.DataObject, parents: str) -> None:
    plan = some_plan(slices())
    store, groups = full(plan, parents), data.draw(st.integers(1, 3))
    for key in data.draw(st.sets(st.sampled_from(sorted(store.objects)))):
        del store.objects[key]
    for _ in range(3):
        for change in difference(plan, store, groups).changes:
            store.apply(change, plan.uid)
    assert difference(plan, store, groups) == Difference()
    assert set(store.objects) == set(full(plan).objects)
    found = store.observed("CompositePodGroup", parent(plan).name)
    assert found is not None
    assert found.min_counts == (("", groups),)
    for change in retire(plan.uid, store.existing(plan)):
        store.apply(change, plan.uid)
    assert store.objects == {}


@each("missing", [0, 1, 2])
def test_groups_that_were_made_without_a_parent_are_not_waited_for(missing: int) -> None:
    before = assess(read(stored(slices())), ClusterRules(lacks=frozenset({Feature.COMPOSITE}))).plan
    plan = some_plan(slices())
    assert before is not None
    store = full(before)
    for group in plan.groups[:missing]:
        del store.objects["PodGroup", group.name]
    for _ in range(3):
        for change in difference(plan, store).changes:
            store.apply(change, plan.uid)
    assert difference(plan, store) == Difference()
    found = store.observed("CompositePodGroup", parent(plan).name)
    assert found is not None
    assert found.min_counts == (("", max(1, missing)),)


def without_the_option(raw: Raw) -> Raw:
    bare = copy.deepcopy(raw)
    del bare["metadata"]["annotations"][OPTIONS]
    return bare


def test_groups_keep_the_parent_that_they_name_where_the_option_was_removed() -> None:
    """The name of the parent is immutable, and the scheduler ignores pods of a group whose parent does not exist."""
    raw = stored(slices(failurePolicy={"maxRestarts": 1}))
    before = desire(assess(read(raw), ClusterRules()), [], NEWEST)
    plan, spare = before.plan, before.spare_composite
    assert plan is not None
    assert spare is not None
    store = full(plan)
    store.add(composite_pod_group(spare))
    for group in before.spares:
        store.add(store.adapter.pod_group(group))
    after = desire(assess(read(without_the_option(raw)), ClusterRules()), [], NEWEST)
    assert after.plan is not None
    assert after.plan.composite is None
    assert diff(after, store.existing(after.plan), store.capabilities).changes == ()
    del store.objects["CompositePodGroup", parent(plan).name]
    (change,) = diff(after, store.existing(after.plan), store.capabilities).changes
    assert isinstance(change, Create)
    assert change.wanted == parent(plan)


def test_a_parent_that_is_no_longer_an_option_needs_the_groups_that_have_not_finished() -> None:
    raw = stored(slices())
    plan = some_plan(raw)
    done = JobProgress("t", "js-w-0", "js", FIXTURE_UID, "w", 0, 0, 2, complete=True, deleting=False)
    after = desire(
        assess(read(without_the_option(raw)), ClusterRules()), [replace(done, group=plan.groups[0].name)], NEWEST
    )
    store = full(plan, "v1beta1")
    assert after.plan is not None
    *_, change = diff(after, store.existing(after.plan), store.capabilities).changes
    assert isinstance(change, SetMinCounts)
    assert (change.kind, change.counts) == ("CompositePodGroup", ((0, "", 3, 2),))
    assert change in ending(after, store.existing(after.plan), store.capabilities)


def test_groups_without_a_parent_get_none_where_the_cluster_has_none() -> None:
    raw = stored(slices())
    plan = some_plan(raw)
    store = full(plan)
    del store.objects["CompositePodGroup", parent(plan).name]
    lacking = ApiState(NEWEST, lacks=frozenset({Feature.COMPOSITE}))
    bare = assess(read(raw), ClusterRules(lacks=lacking.lacks)).plan
    assert bare is not None
    found = diff(wanted(bare), store.existing(bare), lacking.capabilities)
    assert [change.kind for change in found.changes] == ["Workload"]


def test_a_foreign_object_under_its_name_is_a_conflict() -> None:
    plan = some_plan(slices())
    store = full(plan)
    store.objects["CompositePodGroup", parent(plan).name]["metadata"]["ownerReferences"][0]["uid"] = "other"
    assert difference(plan, store).conflicts == (("CompositePodGroup", parent(plan).name),)


def test_the_min_count_of_a_template_below_it_changes_in_its_place() -> None:
    plan = some_plan(slices())
    store = full(plan)
    store.set_min_counts("Workload", plan.workload.name, [(0, 1)])
    (change,) = difference(plan, store).changes
    assert isinstance(change, SetMinCounts)
    assert [step["path"] for step in min_count_patch(change)[1:]] == [
        "/spec/compositePodGroupTemplates/0/podGroupTemplates/0/name",
        "/spec/compositePodGroupTemplates/0/podGroupTemplates/0/schedulingPolicy/gang/minCount",
    ]


@each(("parents", "kind"), [("v1alpha3", Delete), ("v1beta1", SetMinCounts)])
def test_the_count_of_groups_changes_in_its_place_where_it_can(parents: str, kind: type) -> None:
    plan = some_plan(slices())
    store = full(plan, parents)
    (change,) = difference(plan, store, 2).changes
    assert type(change) is kind
    if isinstance(change, SetMinCounts):
        uid, step = min_count_patch(change)
        assert uid["op"] == "test"
        assert step == {"op": "replace", "path": "/spec/schedulingPolicy/gang/minGroupCount", "value": 2}


def test_a_parent_that_is_being_deleted_needs_fewer_groups_where_it_can() -> None:
    """Pods wait for the groups that it counts as long as it exists."""
    plan = some_plan(slices())
    store = full(plan, "v1beta1")
    lower = replace(plan, composite=parent(plan)._replace(min_group_count=2))
    (change,) = ending(wanted(lower), store.existing(plan), store.capabilities)
    assert (change.kind, isinstance(change, SetMinCounts)) == ("CompositePodGroup", True)


def test_a_group_that_has_finished_does_not_count() -> None:
    raw = stored(slices())
    plan = some_plan(raw)
    jobs = [
        JobProgress("t", f"js-w-{i}", "js", FIXTURE_UID, "w", i, 0, 2 * done, done, False, group=plan.groups[i].name)
        for i, done in enumerate([True, False])
    ]
    desired = desire(assess(read(raw), ClusterRules()), jobs, NEWEST)
    assert desired.plan is not None
    assert parent(desired.plan).min_group_count == 2


def test_the_next_attempt_has_a_parent_of_its_own() -> None:
    desired = desire(assess(read(stored(slices(failurePolicy={"maxRestarts": 1}))), ClusterRules()), [], NEWEST)
    assert desired.plan is not None
    now, spare = parent(desired.plan), desired.spare_composite
    assert spare is not None
    assert (now.name[-2:], spare.name[-2:]) == ("-0", "-1")
    assert {group.parent for group in desired.spares} == {spare.name}
    store = full(desired.plan)
    later = replace(desired.plan, composite=spare, groups=desired.spares)
    changes = [change for change in difference(later, store).changes if change.kind == "CompositePodGroup"]
    assert [(type(change), change.name) for change in changes] == [(Delete, now.name), (Create, spare.name)]


def test_a_job_that_is_restarted_alone_keeps_the_parent() -> None:
    rules = {"maxRestarts": 1, "rules": [{"action": "RestartJob", "name": "r"}]}
    desired = desire(assess(read(stored(slices(failurePolicy=rules))), ClusterRules()), [], NEWEST)
    assert desired.plan is not None
    assert desired.spare_composite is None
    assert {group.parent for group in desired.spares} == {parent(desired.plan).name}


def test_spec_scheduling_has_no_word_for_gangs_that_start_together() -> None:
    (error,) = convert(slices(), Notation.SCHEDULING).errors
    assert error.path == PATH


def test_a_policy_beside_entries_of_spec_scheduling_is_read() -> None:
    """Files have it that an older gangctl wrote; JobSet refuses it."""
    entry = {"targetReplicatedJobs": ["w"], "job": {"schedulingPolicy": {"gang": {}}}}
    scheduling: dict[str, Any] = {"schedulingPolicy": {"gang": {}}, "replicatedJobs": [entry]}
    there = jobset("js", rj("w", 3, 2, 2), scheduling=scheduling)
    back = convert(there, Notation.ANNOTATIONS)
    assert back.errors == ()
    assert json.loads(back.value["metadata"]["annotations"][OPTIONS]) == {"composite": True}
    (error,) = convert(there, Notation.SCHEDULING).errors
    assert error.path == "spec.scheduling.schedulingPolicy"
    scheduling["schedulingConstraints"] = {"topology": [{"key": "zone"}]}
    (error,) = convert(there, Notation.ANNOTATIONS).errors
    assert error.path == "spec.scheduling.schedulingConstraints"
