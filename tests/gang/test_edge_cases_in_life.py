"""The edge cases of a JobSet's life after its creation, one test per row of the table.

Left to live tests, because a pure function sees only part of them: E13 (the look-up of a
foreign Workload at CREATE; here only that it is recognised and left alone), E14 (the denial
of Jobs, which needs the informer; here only that nothing is written), E23 (collection by the
API server), E24 (creates that race with a deletion; here only that a deleting JobSet is left
alone), E34 (the answer to a cluster without the API is the webhook's), E41 (the Lease) and
E42 (quota on Jobs).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gangctl.api.meta import GANG_MODE, GANG_OPTIONS
from gangctl.api.scheduling import Generation
from gangctl.errors import ErrorKind
from gangctl.gang.admission import check_update
from gangctl.gang.desired import JobProgress, Lifecycle, counted, desire
from gangctl.gang.diff import Create, Delete, Difference, SetMinCounts, diff, retire
from gangctl.gang.plan import GangPlan, build_objects
from gangctl.gang.reasons import Reason
from tests.gang.pipeline import GENERATIONS, assessed, read, resolved, some_plan, stored, wanted
from tests.gang.store import Store
from tests.jobsets import jobset, rj
from tests.rows import each

Raw = dict[str, Any]
FIXED = [generation for generation in GENERATIONS if not generation.capabilities.min_count_mutable]
GANG = jobset("js", rj("w", 2, 4, 4, mode="Gang"), uid="u")


def running(plan: GangPlan, generation: Generation = Generation.V1BETA1) -> Store:
    return Store(generation, build_objects(plan, generation))


def difference(plan: GangPlan, store: Store, *jobs: JobProgress) -> Difference:
    return diff(wanted(counted(plan, jobs)), store.existing(plan), store.generation.capabilities)


def progress(plan: GangPlan, index: int, succeeded: int, *, complete: bool = False) -> JobProgress:
    key = (plan.jobset.name, plan.uid, "w", index)
    return JobProgress("t", f"js-w-{index}", *key, 0, succeeded, complete=complete, deleting=False)


def min_count_writes(found: Difference) -> list[tuple[str, int, int]]:
    assert all(isinstance(change, SetMinCounts) for change in found.changes)
    return [(c.kind, old, new) for c in found.changes if isinstance(c, SetMinCounts) for _, _, old, new in c.counts]


def test_e12_the_tail_of_a_gang() -> None:
    plan = some_plan(GANG)
    store = running(plan)
    done = [progress(plan, 0, 4, complete=True), progress(plan, 1, 3)]
    found = difference(plan, store, *done)
    assert min_count_writes(found) == [("PodGroup", 8, 1)]
    for change in found.changes:
        store.apply(change, plan.uid)
    assert difference(plan, store, *done) == Difference()
    restarted = replace(plan, jobset=replace(plan.jobset, restarts=1))
    assert min_count_writes(difference(restarted, store, *done)) == [("PodGroup", 1, 8)]


@each("generation", FIXED)
def test_e12_the_tail_where_min_count_is_immutable(generation: Generation) -> None:
    plan = some_plan(GANG, generation)
    """While pods name the group: without them it is replaced."""
    desired = desire(assessed(stored(GANG), generation), [progress(plan, 1, 3)], generation)
    seen = running(plan, generation).existing(plan)
    (group,) = plan.groups
    named = frozenset({group.name, f"{plan.workload.name}/w/0"})
    kind, larger = ("PodGroup", group.name) if generation.capabilities.pod_groups else ("Workload", plan.workload.name)
    assert diff(replace(desired, named=named), seen, generation.capabilities) == Difference(larger=(larger,))
    assert [(type(c), c.kind) for c in diff(desired, seen, generation.capabilities).changes] == [(Delete, kind)]


def test_e12_a_gang_that_has_finished_replaces_no_workload_of_1_35() -> None:
    raw = jobset("js", rj("a", 1, 3, 3, mode="Gang"), rj("b", 1, 4, 4, mode="Gang"), uid="u")
    plan = some_plan(raw, Generation.V1ALPHA1)
    group = f"{plan.workload.name}/a/0"
    done = JobProgress("t", "js-a-0", "js", "u", "a", 0, 0, 3, complete=True, deleting=False, group=group)
    desired = desire(assessed(stored(raw), Generation.V1ALPHA1), [done], Generation.V1ALPHA1)
    existing = running(plan, Generation.V1ALPHA1).existing(plan)
    assert diff(desired, existing, Generation.V1ALPHA1.capabilities) == Difference()


def test_e13_a_workload_that_another_controller_made_for_the_jobset() -> None:
    plan = some_plan(GANG)
    foreign = build_objects(plan, Generation.V1BETA1)[0]
    del foreign["metadata"]["ownerReferences"]
    store = Store(Generation.V1BETA1, [foreign])
    found = store.observed("Workload", plan.workload.name)
    assert found is not None
    assert (found.claims_jobset, found.owner_jobset, found.owner_uid) == ("js", "", "")
    assert retire(plan.uid, store.existing(plan)) == ()


@each("taken", ["Workload", "PodGroup"])
def test_e14_another_owner_has_the_name(taken: str) -> None:
    plan = some_plan(GANG)
    store = running(plan)
    (name,) = (name for kind, name in store.objects if kind == taken)
    store.objects[taken, name]["metadata"]["ownerReferences"][0]["uid"] = "another"
    assert difference(plan, store) == Difference(conflicts=((taken, name),))  # type: ignore[arg-type]


def test_e21_suspended_and_resumed() -> None:
    raw = stored(GANG)
    resumed = assessed(raw)
    raw["spec"]["suspend"] = True
    suspended = assessed(raw)
    assert (resumed.lifecycle, suspended.lifecycle) == (Lifecycle.PRESENT, Lifecycle.RETIRED)
    assert resumed.plan is not None
    store = running(resumed.plan)
    changes = retire("u", store.existing(resumed.plan))
    assert [change.kind for change in changes] == ["PodGroup", "Workload"]
    for change in changes:
        store.apply(change, "u")
    again = difference(resumed.plan, store).changes
    assert [change.name for change in again] == [change.name for change in reversed(changes)]


@each(
    "status",
    [
        {"conditions": [{"type": "Completed", "status": "True"}]},
        {"conditions": [{"type": "Suspended", "status": "False"}, {"type": "Failed", "status": "True"}]},
        {"terminalState": "Completed"},
    ],
)
def test_e22_finished(status: Raw) -> None:
    assert assessed({**stored(GANG), "status": status}).lifecycle is Lifecycle.RETIRED
    going = {
        "conditions": [{"type": "Completed", "status": "False"}, {"type": "StartupPolicyCompleted", "status": "True"}]
    }
    assert assessed({**stored(GANG), "status": going}).lifecycle is Lifecycle.PRESENT


def test_e24_a_jobset_that_is_being_deleted() -> None:
    raw = stored(GANG)
    raw["metadata"]["deletionTimestamp"] = "2026-09-01T00:00:00Z"
    seen = assessed(raw)
    assert (seen.lifecycle, seen.plan is None, seen.notices) == (Lifecycle.ENDING, False, ())
    raw["metadata"]["annotations"] = {GANG_MODE: "Gang"}
    assert check_update(read(stored(GANG)), read(raw), Generation.V1BETA1) == ()


def test_e32_configuration_changed_later() -> None:
    before = stored(GANG)
    after = stored(GANG)
    after["metadata"]["annotations"] = {GANG_MODE: "Gang"}
    path = f"metadata.annotations[{GANG_MODE}]"
    errors = check_update(read(before), read(after), Generation.V1BETA1)
    assert [(error.path, error.kind) for error in errors] == [(path, ErrorKind.FORBIDDEN)]
    seen = assessed(after)
    assert [notice.reason for notice in seen.notices] == [Reason.CONFIG_IGNORED]
    assert seen.plan is not None
    assert seen.plan.groups == some_plan(GANG).groups


@each(
    ("raw", "path", "kind"),
    [
        (jobset("js", rj("w", mode="All")), f"template.metadata.annotations[{GANG_MODE}]", ErrorKind.NOT_SUPPORTED),
        (jobset("js", rj("w", mode="Gang"), options="{"), f"metadata.annotations[{GANG_OPTIONS}]", ErrorKind.INVALID),
    ],
)
def test_e33_malformed_configuration(raw: Raw, path: str, kind: ErrorKind) -> None:
    (error,) = resolved(raw).errors
    assert error.path.endswith(path)
    assert error.kind is kind
    seen = assessed(raw)
    assert [notice.reason for notice in seen.notices] == [Reason.INVALID_GANG_CONFIG]
    assert (seen.plan, seen.unstamped) == (None, False)


@each(
    "spec",
    [
        pytest.param({"successPolicy": {"operator": "Any", "targetReplicatedJobs": ["w"]}}, id="E35-success"),
        pytest.param({"failurePolicy": {"rules": [{"targetReplicatedJobs": ["w"]}]}}, id="E35-failure"),
        pytest.param({"coordinator": {"replicatedJob": "w", "jobIndex": 0, "podIndex": 0}}, id="E36-coordinator"),
        pytest.param({"volumeClaimPolicies": [{"templates": []}]}, id="E36-volumes"),
        pytest.param({"network": {"enableDNSHostnames": False}}, id="E36-network"),
    ],
)
def test_fields_without_effect_on_gangs(spec: Raw) -> None:
    with_field = {**GANG, "spec": {**GANG["spec"], **spec}}
    assert some_plan(with_field).groups == some_plan(GANG).groups
    assert some_plan(with_field).workload == some_plan(GANG).workload


def test_e37_a_pod_is_replaced() -> None:
    plan = some_plan(GANG)
    assert difference(plan, running(plan), progress(plan, 0, 0), progress(plan, 1, 0)) == Difference()


@each("generation", GENERATIONS)
def test_e38_an_elastic_resize(generation: Generation) -> None:
    before, after = stored(GANG), stored(GANG)
    after["spec"]["replicatedJobs"][0]["template"]["spec"] |= {"parallelism": 6, "completions": 6}
    errors = check_update(read(before), read(after), generation)
    if generation.capabilities.min_count_mutable:
        assert errors == ()
    else:
        path = "spec.replicatedJobs[0].template.spec.parallelism"
        assert [(error.path, error.kind) for error in errors] == [(path, ErrorKind.FORBIDDEN)]
        assert f"Kubernetes {generation.kubernetes}" in errors[0].detail


def test_e39_own_pod_group_edited_or_deleted() -> None:
    plan = some_plan(GANG)
    (group,) = plan.groups
    store = running(plan)
    store.set_min_counts("PodGroup", group.name, [(0, 3)])
    assert min_count_writes(difference(plan, store)) == [("PodGroup", 3, 8)]
    del store.objects["PodGroup", group.name]
    assert difference(plan, store).changes == (Create("PodGroup", group),)


@each("generation", FIXED)
def test_e39_drift_of_an_immutable_min_count_is_repaired_with_a_new_object(generation: Generation) -> None:
    plan = some_plan(GANG, generation)
    store = running(plan, generation)
    store.set_min_counts("Workload", plan.workload.name, [(0, 3)])
    (change,) = difference(plan, store).changes
    assert (type(change), change.kind) == (Delete, "Workload")


@each("generation", GENERATIONS)
def test_e40_own_workload_deleted_by_a_user(generation: Generation) -> None:
    plan = some_plan(GANG, generation)
    store = running(plan, generation)
    del store.objects["Workload", plan.workload.name]
    assert difference(plan, store).changes == (Create("Workload", plan.workload),)


@each(
    "pod",
    [
        pytest.param({"nodeSelector": {"pool": "a"}, "tolerations": [{"operator": "Exists"}]}, id="E43"),
        pytest.param({"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}, id="E44"),
    ],
)
def test_fields_that_a_queue_adds_on_resume_change_no_group(pod: Raw) -> None:
    before, after = stored(GANG), stored(GANG)
    before["spec"]["suspend"] = True
    after["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"] |= pod
    waiting, admitted = assessed(before), assessed(after)
    assert waiting.plan is not None
    assert admitted.plan is not None
    assert (waiting.plan.workload, waiting.plan.groups) == (admitted.plan.workload, admitted.plan.groups)
    assert check_update(read(before), read(after), Generation.V1ALPHA2) == ()


def test_e45_native_scheduling() -> None:
    raw = {**GANG, "spec": {**GANG["spec"], "scheduling": {"schedulingPolicy": {"gang": {}}}}}
    resolution = resolved(raw)
    assert (resolution.stamps, resolution.errors) == ((None,), ())
    assert [notice.reason for notice in resolution.notices] == [Reason.UPSTREAM_SCHEDULING]
    assert resolved(jobset("js", rj("w"), scheduling={"schedulingPolicy": {"gang": {}}})).notices == ()
    seen = assessed(raw)
    assert (seen.plan, seen.unstamped) == (None, False)
