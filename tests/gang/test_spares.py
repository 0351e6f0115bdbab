"""The groups of the next attempt: exactly those that a restart will name, full, and only where one is allowed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from gangctl.api.meta import GANGS
from gangctl.api.scheduling import Generation, Scheduled
from gangctl.gang.desired import Lifecycle, assess, desire, spare_groups
from gangctl.gang.diff import Create, Delete, Difference, Existing, SetMinCounts, diff, exceptional
from gangctl.gang.plan import GangPlan, build_objects, make_plan
from gangctl.gang.resolve import ClusterRules
from tests.gang.pipeline import planned, read, resolved, some_plan, stored, wanted
from tests.gang.store import Store
from tests.jobsets import FIXTURE_UID, jobset, rj
from tests.rows import each
from tests.strategies import PROPERTY, gangs

Raw = dict[str, Any]
ONCE: Raw = {"failurePolicy": {"maxRestarts": 1}}
ALONE: Raw = {"failurePolicy": {"maxRestarts": 3, "rules": [{"action": "RestartJob", "targetReplicatedJobs": ["w"]}]}}


def names(plan: GangPlan) -> list[str]:
    return [group.name for group in spare_groups(plan)]


@given(raw=gangs(), attempt=st.integers(0, 3))
@PROPERTY
def test_spares_are_the_groups_of_the_plan_after_a_restart(raw: Raw, attempt: int) -> None:
    may_restart = {**raw, "spec": {**raw["spec"], **ONCE}, "status": {"restarts": attempt}}
    plan = planned(may_restart)
    assume(plan is not None)
    assert plan is not None
    config = resolved(may_restart).config
    restarted = make_plan(replace(plan.jobset, restarts=attempt + 1), plan.stamps, config)
    assert restarted is not None
    assert spare_groups(plan) == restarted.groups


def test_without_restarts_left_there_are_none() -> None:
    raw = jobset("js", rj("w", 2, 1, 1, mode="Gang"), uid=FIXTURE_UID, **ONCE)
    assert names(some_plan(raw)) == ["js-w-0f5a6f3e-7c21-1"]
    over = {**raw, "status": {"restarts": 1, "restartsCountTowardsMax": 1}}
    assert names(some_plan(over)) == []
    assert names(some_plan(jobset("js", rj("w", 2, 1, 1, mode="Gang")))) == []


@each(("key", "count"), [("resourceClaimTemplateName", 0), ("resourceClaimName", 1)])
def test_a_group_with_claims_of_its_own_has_no_spare(key: str, count: int) -> None:
    """The resource claim controller makes these with the group, and they count in the quotas of a namespace."""
    claims = [{"name": "net", key: "channel"}]
    shared = json.dumps([{"name": "g", "replicatedJobs": ["w"], "resourceClaims": claims}])
    worker = rj("w", 1, 2, 2, pod={"resourceClaims": claims})
    raw = jobset("js", worker, annotations={GANGS: shared}, uid=FIXTURE_UID, **ONCE)
    assert len(names(some_plan(raw))) == count


def test_a_restart_in_place_is_of_the_same_attempt() -> None:
    """JobSet 0.12 counts it apart from ``status.restarts``, and keeps Jobs and pods."""
    policy = {"maxRestarts": 1, "restartStrategy": "InPlaceRestart"}
    raw = jobset("js", rj("w", 2, 1, 1, mode="Gang"), uid=FIXTURE_UID, failurePolicy=policy)
    status = {"previousInPlaceRestartAttempt": 1, "currentInPlaceRestartAttempt": 2}
    before, after = some_plan(raw), some_plan({**raw, "status": status})
    assert (after.groups, names(after)) == (before.groups, names(before))


def test_a_job_that_is_a_gang_and_may_restart_by_itself_has_a_group_for_that() -> None:
    jobs = (rj("w", 2, 1, 1, mode="ReplicatedGang"), rj("v", 2, 1, 1, mode="ReplicatedGang"))
    raw = jobset("js", *jobs, uid=FIXTURE_UID, **ALONE)
    raw["status"] = {"replicatedJobsStatus": [{"name": "w", "jobRestarts": [0, 4]}]}
    base = "0f5a6f3e-7c21"
    whole = [f"js-w-{base}-0-1", f"js-w-{base}-1-1.4", f"js-v-{base}-0-1", f"js-v-{base}-1-1"]
    assert sorted(names(some_plan(raw))) == sorted([*whole, f"js-w-{base}-0-0.1", f"js-w-{base}-1-0.5"])


def test_jobs_that_share_a_gang_keep_it_when_one_restarts() -> None:
    raw = jobset("js", rj("w", 2, 1, 1, mode="Gang"), uid=FIXTURE_UID, **ALONE)
    assert names(some_plan(raw)) == ["js-w-0f5a6f3e-7c21-1"]


RAW = stored(jobset("js", rj("a", 1, 4, 4, mode="Gang"), rj("b", 1, 2, 2, mode="Gang"), uid=FIXTURE_UID, **ONCE))


def difference(plan: GangPlan, existing: Existing, **targets: int) -> Difference:
    return diff(wanted(plan, targets, spares=spare_groups(plan)), existing, Generation.V1BETA1.capabilities)


def existing(plan: GangPlan, *, scheduled: bool | None = True) -> Existing:
    found = Store(Generation.V1BETA1, build_objects(plan, Generation.V1BETA1)).existing(plan)
    state = None if scheduled is None else Scheduled(scheduled)
    first = plan.groups[0].name
    return replace(found, groups={**found.groups, first: replace(found.groups[first], scheduled=state)})


def with_spares(plan: GangPlan) -> Existing:
    store = Store(Generation.V1BETA1, build_objects(plan, Generation.V1BETA1))
    for change in difference(plan, existing(plan)).spares:
        store.apply(change, plan.uid)
    return store.existing(plan)


@each("scheduled", [None, False])
def test_spares_are_created_once_a_gang_was_scheduled(scheduled: bool | None) -> None:
    plan = some_plan(RAW)
    assert difference(plan, existing(plan, scheduled=scheduled)) == Difference()


def test_once_a_gang_was_scheduled_those_of_all_are_created_last() -> None:
    plan = some_plan(RAW)
    creates = tuple(Create("PodGroup", group) for group in spare_groups(plan))
    assert difference(plan, existing(plan)) == Difference(spares=creates)
    assert difference(plan, with_spares(plan)) == Difference()


def test_spares_stay_until_the_gang_is_scheduled_again_and_keep_the_full_min_count() -> None:
    plan = some_plan(RAW)
    changes = difference(plan, with_spares(plan), **{plan.groups[0].name: 1}).changes
    assert [(type(change), change.name) for change in changes] == [(SetMinCounts, plan.groups[0].name)]


def test_those_of_a_gang_that_waits_after_an_eviction_are_deleted() -> None:
    """A ResourceQuota for the gangs that run has no place for those of one that was preempted."""
    waits = {**RAW, "spec": {**RAW["spec"], "suspend": True}}
    desired = desire(assess(read(waits), ClusterRules(), Lifecycle.KEPT), [], Generation.V1BETA1)
    plan = some_plan(RAW)
    prepared = with_spares(plan)
    deletes = tuple(Delete("PodGroup", prepared.groups[group.name]) for group in spare_groups(plan))
    capabilities = Generation.V1BETA1.capabilities
    assert diff(desired, prepared, capabilities) == Difference(deletes)
    assert not exceptional(plan, deletes)
    assert diff(desired, existing(plan), capabilities) == Difference()


def test_spares_follow_a_resize_without_an_event() -> None:
    found = with_spares(some_plan(RAW))
    wider = stored(jobset("js", rj("a", 1, 6, 6, mode="Gang"), rj("b", 1, 1, 1, mode="Gang"), uid=FIXTURE_UID, **ONCE))
    plan = some_plan(wider)
    a, b = (group.name for group in spare_groups(plan))
    changes = {change.name: change for change in difference(plan, found).changes if isinstance(change, SetMinCounts)}
    assert [changes[name].counts[0][2:] for name in (a, b)] == [(4, 6), (2, 1)]
    assert not exceptional(plan, [changes[name] for name in (a, b)])
    order = [change.name for change in difference(plan, found).changes]
    assert order.index(b) < order.index(plan.workload.name) < order.index(a)


def test_after_the_restart_they_are_the_gang_and_those_before_them_go() -> None:
    plan = some_plan(RAW)
    found = with_spares(plan)
    restarted = some_plan({**RAW, "status": {"restarts": 1, "restartsCountTowardsMax": 1}})
    changes = difference(restarted, found).changes
    assert changes == tuple(Delete("PodGroup", found.groups[g.name]) for g in plan.groups)
    assert not exceptional(restarted, changes)


def test_one_of_another_owner_is_not_changed() -> None:
    plan = some_plan(RAW)
    found = with_spares(plan)
    spare = spare_groups(plan)[0].name
    foreign = replace(found.groups[spare], owner_uid="other", min_counts=(("", 77),))
    assert difference(plan, replace(found, groups={**found.groups, spare: foreign})) == Difference()


@each(("generation", "count"), [(Generation.V1ALPHA1, 0), (Generation.V1ALPHA2, 2), (Generation.V1BETA1, 2)])
def test_where_there_are_no_groups_there_are_no_spares(generation: Generation, count: int) -> None:
    desired = desire(assess(read(RAW), ClusterRules(generation)), [], generation)
    assert len(desired.spares) == count
