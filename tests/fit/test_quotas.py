"""Ceilings and available quota, against figures of Kueue and a recursion without state."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangctl.fit.quotas import Quotas, held_pairs
from gangctl.fit.tree import Total, minus, plus, quotas_of
from gangctl.kueue.amounts import UNLIMITED
from gangctl.kueue.objects import ClusterQueue, Cohort, Condition, QueuedWorkload, Quota, ResourceGroup
from tests.fit.queues import cpu, group, holder, queue, quotas
from tests.rows import each
from tests.strategies import PROPERTY

DEEP = (
    Cohort("root", "", cpu(100)),
    Cohort("child", "root", cpu((20, 7, None))),
    queue("a", 10, "child"),
    queue("b", (5, None, 1), "child"),
    queue("z", 3, "root"),
)


class TestCeiling:
    @each(
        ("members", "amount", "limit"),
        [
            pytest.param((queue("a", 10),), 10, 'nominalQuota of ClusterQueue "a"', id="alone"),
            pytest.param((queue("a", 10, "c"), queue("b", 5, "c")), 15, 'all that Cohort "c" has', id="7"),
            pytest.param(
                (queue("a", (10, 2, None), "c"), queue("b", 5, "c")), 12, 'borrowingLimit of ClusterQueue "a"', id="8"
            ),
            pytest.param((queue("a", 10, "c"), queue("b", (5, None, 3), "c")), 13, 'all that Cohort "c" has', id="9"),
            pytest.param((queue("a", (10, None, 0), "c"), queue("b", 5, "c")), 15, 'all that Cohort "c" has', id="10"),
            pytest.param(DEEP, 38, 'borrowingLimit of Cohort "child"', id="11 and 12"),
            pytest.param(
                (queue("a", 10, "c"), queue("b", 5, "c", stop_policy="Hold")), 15, 'all that Cohort "c" has', id="13"
            ),
            pytest.param((queue("a", 0, "c"), queue("b", 8, "c")), 8, 'all that Cohort "c" has', id="26"),
        ],
    )
    def test_the_ceiling_of_a_queue_agrees_with_kueue(
        self, members: tuple[ClusterQueue | Cohort, ...], amount: int, limit: str
    ) -> None:
        found = quotas(*members).ceiling("a", "f1", "cpu")
        assert (found.amount, found.limit) == (amount, limit)

    def test_the_ceiling_is_zero_for_a_flavor_that_only_the_cohort_has(self) -> None:
        index = quotas(queue("a", 10, "c"), Cohort("c", "", cpu(100, "f2")))
        assert index.ceiling("a", "f1", "cpu").amount == 10
        assert index.ceiling("a", "f2", "cpu").amount == 0
        assert 'does not have "cpu" in flavor "f2"' in index.ceiling("a", "f2", "cpu").limit
        assert index.available("a", "f2", "cpu") == 0

    def test_an_unlimited_member_makes_the_ceiling_unlimited(self) -> None:
        index = quotas(queue("a", 10, "c"), queue("b", UNLIMITED, "c"))
        assert index.ceiling("a", "f1", "cpu").amount is None
        assert index.available("a", "f1", "cpu") == UNLIMITED

    def test_the_ceiling_of_an_unknown_queue_is_unknown(self) -> None:
        assert quotas().ceiling("a", "f1", "cpu").amount is None

    def test_a_queue_without_a_cohort_does_not_borrow(self) -> None:
        index = quotas(queue("a", (10, 5, 2)))
        assert index.ceiling("a", "f1", "cpu").amount == 10
        assert index.available("a", "f1", "cpu") == 10


class TestCycles:
    def test_the_ceiling_below_a_cohort_cycle_is_unknown(self) -> None:
        index = quotas(Cohort("x", "y"), Cohort("y", "x"), queue("a", 10, "x"), queue("b", 10, "free"))
        assert index.cycle("a")
        assert not index.cycle("b")
        assert index.ceiling("a", "f1", "cpu").amount is None
        assert index.available("a", "f1", "cpu") == 0

    def test_a_cohort_cycle_ends_when_an_edge_is_removed(self) -> None:
        index = quotas(Cohort("x", "y"), Cohort("y", "x", cpu(3)), queue("a", 10, "x"), Cohort("self", "self"))
        index.set_usage(holder("1", "a", {("f1", "cpu"): 4}))
        index.set_cohort(Cohort("y", "", cpu(3)))
        assert not index.cycle("a")
        assert index.ceiling("a", "f1", "cpu").amount == 13
        assert index.available("a", "f1", "cpu") == 9

    def test_a_cohort_that_is_its_own_parent_is_a_cycle(self) -> None:
        index = quotas(Cohort("self", "self"), queue("a", 10, "self"))
        assert index.cycle("a")
        index.remove_cohort("self")
        assert not index.cycle("a")
        assert index.ceiling("a", "f1", "cpu").amount == 10


class TestUsage:
    def test_usage_above_the_kept_quota_reduces_what_others_can_borrow(self) -> None:
        index = quotas(queue("a", 10, "c"), queue("b", (5, None, 2), "c"))
        index.set_usage(holder("1", "b", {("f1", "cpu"): 4}))
        assert index.used("b", "f1", "cpu") == 4
        assert index.used("a", "f1", "cpu") == 0
        # b keeps 3 for itself, so that one of its four comes out of the cohort's 12.
        assert index.available("a", "f1", "cpu") == 11
        assert index.available("b", "f1", "cpu") == 11

    def test_usage_follows_the_changes_of_a_workload(self) -> None:
        index = quotas(queue("a", 10))
        workload = holder("1", "a", {("f1", "cpu"): 4})
        index.set_usage(workload)
        index.set_usage(replace(workload, priority=9))
        assert index.available("a", "f1", "cpu") == 6
        assert index.holders("a", [("f1", "cpu")])[0][0].priority == 9
        index.set_usage(replace(workload, conditions={"Finished": Condition(status=True), **workload.conditions}))
        assert index.available("a", "f1", "cpu") == 10
        index.set_usage(workload)
        index.remove_usage("1")
        index.remove_usage("1")
        assert index.available("a", "f1", "cpu") == 10

    def test_usage_counts_once_its_queue_exists(self) -> None:
        index = quotas()
        index.set_usage(holder("1", "a", {("f1", "cpu"): 4}))
        index.set_queue(queue("a", 10))
        assert index.available("a", "f1", "cpu") == 6
        index.remove_queue("a")
        index.set_queue(queue("a", 3))
        assert index.available("a", "f1", "cpu") == -1

    def test_usage_moves_with_its_workload_to_another_queue(self) -> None:
        index = quotas(queue("a", 10), queue("b", 10))
        index.set_usage(holder("1", "a", {("f1", "cpu"): 4}))
        index.set_usage(holder("1", "b", {("f1", "cpu"): 5}))
        assert (index.used("a", "f1", "cpu"), index.used("b", "f1", "cpu")) == (0, 5)

    def test_holders_are_workloads_that_use_the_needed_quota_of_the_tree(self) -> None:
        index = quotas(queue("a", 10, "child"), Cohort("child", "root"), queue("z", 5, "root"), queue("other", 5))
        index.set_usage(holder("1", "z", {("f1", "cpu"): 4, ("f1", "memory"): 9}))
        index.set_usage(holder("2", "a", {("f1", "cpu"): 3, ("f2", "cpu"): 2}, priority=5))
        index.set_usage(holder("3", "a", {("f1", "cpu"): 1}, priority=1))
        index.set_usage(holder("4", "a", {("f3", "cpu"): 1}))
        index.set_usage(holder("5", "other", {("f1", "cpu"): 1}))
        found = index.holders("a", [("f1", "cpu"), ("f2", "cpu")])
        assert [(workload.uid, amounts) for workload, amounts in found] == [
            ("3", {"cpu": 1}),
            ("2", {"cpu": 5}),
            ("1", {"cpu": 4}),
        ]
        assert index.holders("nowhere", [("f1", "cpu")]) == []


def test_the_tree_lists_queues_and_which_of_them_limit_lending() -> None:
    index = quotas(*DEEP)
    node, other = index.node("a"), index.node("b")
    assert node is not None
    assert other is not None
    assert [str(each) for each in node.lenders_with_limits(("f1", "cpu"))] == ['ClusterQueue "b"']
    assert other.lenders_with_limits(("f1", "cpu")) == []
    assert index.tree("a") == ("a", "b", "z")
    assert [each.name for each in index.queues()] == ["a", "b", "z"]
    assert index.cohort("child") == DEEP[1]
    assert index.cohort("none") is None


def test_removed_queues_and_cohorts_leave_no_nodes() -> None:
    index = quotas(queue("a", 1, "c"), Cohort("d", "e"))
    index.set_queue(queue("a", 1, "f"))
    index.remove_queue("a")
    index.remove_queue("a")
    index.remove_cohort("d")
    index.remove_cohort("d")
    assert index._cohort_nodes == {}
    assert index._queue_nodes == {}


class TestAmounts:
    def test_arithmetic_with_unlimited_stays_unlimited(self) -> None:
        assert plus(UNLIMITED, 1) == UNLIMITED
        assert plus(UNLIMITED - 1, 1) == UNLIMITED
        assert minus(UNLIMITED, 5) == UNLIMITED
        assert minus(UNLIMITED, UNLIMITED) == 0
        assert minus(5, UNLIMITED) == -(2**63)

    def test_a_total_is_finite_again_without_its_unlimited_part(self) -> None:
        total = Total()
        total.replace(0, UNLIMITED)
        total.replace(0, 5)
        assert total.value == UNLIMITED
        total.replace(UNLIMITED, 1)
        assert total.value == 6


# The index against a recursion without increments.

PAIRS = [("f1", "cpu"), ("f2", "cpu"), ("f1", "gpu")]
QUEUES = ["a", "b", "c", "d"]
COHORTS = ["r", "s", "t", "u"]
amounts = st.one_of(st.integers(0, 12), st.sampled_from([0, 1, UNLIMITED]))
limits = st.one_of(st.none(), amounts)
written = st.tuples(amounts, limits, limits)
groups: st.SearchStrategy[tuple[ResourceGroup, ...]] = st.one_of(
    st.just(()),
    st.fixed_dictionaries({}, optional={"f1": st.fixed_dictionaries({"cpu": written, "gpu": written})}).map(
        lambda flavors: (group(flavors),)
    ),
    st.tuples(written, written).map(lambda each: (group({"f1": {"cpu": each[0]}, "f2": {"cpu": each[1]}}),)),
)
cluster_queues = st.builds(ClusterQueue, st.sampled_from(QUEUES), cohort=st.sampled_from(["", *COHORTS]), groups=groups)
cohorts = st.builds(Cohort, st.sampled_from(COHORTS), st.sampled_from(["", *COHORTS]), groups)
workloads = st.builds(
    holder,
    st.sampled_from(["1", "2", "3", "4"]),
    st.sampled_from(QUEUES),
    st.dictionaries(st.sampled_from(PAIRS), st.integers(0, 20)),
    conditions=st.sampled_from([{"QuotaReserved": Condition(status=True)}, {"QuotaReserved": Condition(status=False)}]),
)
removals = st.one_of(
    st.tuples(st.just("queue"), st.sampled_from(QUEUES)),
    st.tuples(st.just("cohort"), st.sampled_from(COHORTS)),
    st.tuples(st.just("usage"), st.sampled_from(["1", "2", "3", "4"])),
)
Event = ClusterQueue | Cohort | QueuedWorkload | tuple[str, str]
events: st.SearchStrategy[list[Event]] = st.lists(st.one_of(cluster_queues, cohorts, workloads, removals), max_size=30)


@dataclass
class World:
    """The objects as they are in the end."""

    queues: dict[str, ClusterQueue] = field(default_factory=dict)
    cohorts: dict[str, Cohort] = field(default_factory=dict)
    workloads: dict[str, QueuedWorkload] = field(default_factory=dict)

    def apply(self, event: Event) -> None:
        match event:
            case ClusterQueue():
                self.queues[event.name] = event
            case Cohort():
                self.cohorts[event.name] = event
            case QueuedWorkload():
                self.workloads[event.uid] = event
            case ("queue", name):
                self.queues.pop(name, None)
            case ("cohort", name):
                self.cohorts.pop(name, None)
            case (_, uid):
                self.workloads.pop(uid, None)

    def index(self) -> Quotas:
        """Built from scratch, Cohorts last."""
        index = Quotas()
        for workload in self.workloads.values():
            index.set_usage(workload)
        for item in self.queues.values():
            index.set_queue(item)
        for cohort in self.cohorts.values():
            index.set_cohort(cohort)
        return index


@dataclass(frozen=True)
class Naive:
    """Kueue's definitions, for one pair; no cohort has the name of a queue."""

    world: World
    pair: tuple[str, str]

    def quota(self, name: str) -> Quota:
        groups = self.world.queues[name].groups if name in QUEUES else self.cohort(name).groups
        return quotas_of(groups).get(self.pair, Quota())

    def cohort(self, name: str) -> Cohort:
        return self.world.cohorts.get(name, Cohort(name))

    def parent(self, name: str) -> str:
        return self.world.queues[name].cohort if name in QUEUES else self.cohort(name).parent

    def children(self, name: str) -> list[str]:
        return [each for each in (*self.world.queues, *self.world.cohorts) if self.parent(each) == name]

    def cyclic(self, name: str) -> bool:
        for _ in range(len(COHORTS) + 2):
            if not name:
                return False
            name = self.parent(name)
        return True

    def subtree(self, name: str) -> int:
        total = self.quota(name).nominal
        for child in self.children(name):
            total = plus(total, minus(self.subtree(child), self.local(child)))
        return total

    def local(self, name: str) -> int:
        lending = self.quota(name).lending_limit
        return 0 if lending is None else max(0, minus(self.subtree(name), lending))

    def ceiling(self, name: str) -> int:
        if not self.parent(name):
            return self.subtree(name)
        most = plus(self.local(name), self.ceiling(self.parent(name)))
        borrowing = self.quota(name).borrowing_limit
        return most if borrowing is None else min(most, plus(self.subtree(name), borrowing))

    def usage(self, name: str) -> int:
        total = 0
        for workload in self.world.workloads.values():
            if workload.cluster_queue == name:
                total += held_pairs(workload).get(self.pair, 0)
        for child in self.children(name):
            total = plus(total, max(0, minus(self.usage(child), self.local(child))))
        return total

    def available(self, name: str) -> int:
        subtree, local, usage = self.subtree(name), self.local(name), self.usage(name)
        if not self.parent(name):
            return minus(subtree, usage)
        above = self.available(self.parent(name))
        borrowing = self.quota(name).borrowing_limit
        if borrowing is not None:
            above = min(above, plus(minus(minus(subtree, local), max(0, minus(usage, local))), borrowing))
        return plus(max(0, minus(local, usage)), above)


def state(index: Quotas) -> dict[tuple[bool, str], tuple[object, ...]]:
    """Everything that the index keeps, without totals of nothing."""

    def totals(written: Mapping[tuple[str, str], Total]) -> dict[tuple[str, str], tuple[int, int]]:
        return {
            pair: (total.bounded, total.unlimited)
            for pair, total in written.items()
            if total.bounded or total.unlimited
        }

    return {
        (node.is_queue, node.name): (
            node.quotas,
            str(node.parent),
            sorted(map(str, node.children)),
            node.used,
            node.given,
            totals(node.lent),
            totals(node.drawn),
        )
        for node in (*index._queue_nodes.values(), *index._cohort_nodes.values())
    }


@PROPERTY
@given(events)
def test_quotas_after_single_changes_equal_quotas_built_at_once(events: list[Event]) -> None:
    index, world = Quotas(), World()
    for event in events:
        play(index, event)
        world.apply(event)
    assert state(index) == state(world.index())


@PROPERTY
@given(events)
def test_ceilings_and_available_quota_agree_with_a_naive_model(events: list[Event]) -> None:
    index, world = Quotas(), World()
    for event in events:
        play(index, event)
        world.apply(event)
    for name, (flavor, resource) in itertools.product(world.queues, PAIRS):
        naive = Naive(world, (flavor, resource))
        assert index.cycle(name) is naive.cyclic(name)
        if naive.cyclic(name) or not index.covers(name, flavor, resource):
            continue
        ceiling = index.ceiling(name, flavor, resource).amount
        assert (UNLIMITED if ceiling is None else ceiling) == naive.ceiling(name)
        assert index.available(name, flavor, resource) == naive.available(name)
        assert index.available(name, flavor, resource) <= naive.ceiling(name)


def play(index: Quotas, event: Event) -> None:
    match event:
        case ClusterQueue():
            index.set_queue(event)
        case Cohort():
            index.set_cohort(event)
        case QueuedWorkload():
            index.set_usage(event)
        case ("queue", name):
            index.remove_queue(name)
        case ("cohort", name):
            index.remove_cohort(name)
        case (_, uid):
            index.remove_usage(uid)
