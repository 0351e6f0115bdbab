from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gangctl.fit.candidates import Preemptor, Why
from gangctl.fit.preemption import Preemption, borrowed_at, borrows_from
from gangctl.fit.quotas import Quotas
from gangctl.fit.search import Mode
from gangctl.kueue.configuration import Ordering
from gangctl.kueue.objects import ClusterQueue, Cohort, Condition, QueuedWorkload
from tests.fit.queues import cpu, holder, queue, quotas
from tests.strategies import PROPERTY

CPU = ("f1", "cpu")
BOTH = ("LessThanOrEqualToFinalShare", "LessThanInitialShare")
ANY = {"reclaim": "Any"}
OLD, NEW = "2026-11-01T10:00:00Z", "2026-11-01T11:00:00Z"


def running(uid: str, cluster_queue: str, amount: int, priority: int = 0, **fields: Any) -> QueuedWorkload:
    return holder(uid, cluster_queue, {CPU: amount}, priority=priority, **fields)


def reserved(since: str) -> dict[str, Any]:
    return {"conditions": {"QuotaReserved": Condition(status=True, since=since)}}


def cluster(members: Iterable[ClusterQueue | Cohort], workloads: Sequence[QueuedWorkload]) -> Quotas:
    index = quotas(*members)
    for each in workloads:
        index.set_usage(each)
    return index


def preemption(index: Quotas, name: str, priority: int = 5, **fields: Any) -> Preemption:
    known, node = index.queue(name), index.node(name)
    assert known is not None
    assert node is not None
    return Preemption(index, Preemptor(known, priority, **fields), node)


def preempted(index: Quotas, name: str, amount: int, priority: int = 5, **fields: Any) -> dict[str, Why]:
    found = preemption(index, name, priority, **fields).preempted({CPU: amount}, {CPU})
    return {each.workload.uid: each.why for each in found}


def pair(own: dict[str, Any], other: int = 4, **fields: Any) -> tuple[ClusterQueue, ClusterQueue]:
    """ClusterQueue a with quota 4, and b, in one cohort."""
    return queue("a", 4, "c", **own), queue("b", other, "c", **fields)


class TestClassical:
    def test_nothing_is_preempted_in_a_queue_that_stays_within_its_quota(self) -> None:
        members = [queue("a", 4, "c", reclaim="Any"), queue("b", 4, "c")]
        index = cluster(members, [running("u", "b", 1)])
        assert preemption(index, "a").assess(CPU, 8)[0] is Mode.NO_FIT
        assert preempted(index, "a", 8) == {}

    def test_a_gang_that_borrows_preempts_nothing_without_borrow_within_cohort(self) -> None:
        members = (*pair(ANY), queue("d", 4, "c"))
        index = cluster(members, [running("u", "b", 8)])
        assert preemption(index, "a").assess(CPU, 6)[0] is Mode.NO_FIT
        assert preempted(index, "a", 6) == {}
        index.set_usage(running("v", "b", 2))
        assert preempted(index, "a", 4) == {"u": Why.RECLAIM}

    @pytest.mark.parametrize("strategies", [None, BOTH])
    @pytest.mark.parametrize(
        ("fields", "found"),
        [
            ({}, ["u"]),
            ({"stop_policy": "Hold"}, []),
            ({"stop_policy": "HoldAndDrain"}, []),
            ({"deleting": True}, []),
            ({"active": Condition(status=False, reason="FlavorNotFound")}, []),
        ],
    )
    def test_nothing_is_preempted_in_an_inactive_queue(
        self, fields: dict[str, Any], found: list[str], strategies: Sequence[str] | None
    ) -> None:
        """Kueue leaves it out of the snapshot that it schedules by; its usage counts for the cohort."""
        index = cluster(pair(ANY, **fields), [running("u", "b", 8)])
        assert list(preempted(index, "a", 4, strategies=strategies)) == found

    def test_workloads_of_higher_priority_do_not_count_as_room(self) -> None:
        index = cluster([queue("a", 4, within_queue="LowerPriority")], [running("u", "a", 1), running("v", "a", 3, 9)])
        assert preemption(index, "a").assess(CPU, 4) == (Mode.NO_CANDIDATES, 0)
        assert preempted(index, "a", 4) == {}
        assert preempted(index, "a", 1) == {"u": Why.IN_QUEUE}

    def test_the_fewest_workloads_of_the_lowest_priority_are_preempted(self) -> None:
        workloads = [running("u", "a", 1, 1), running("v", "a", 1, 2), running("w", "a", 3, 3)]
        index = cluster([queue("a", 5, within_queue="LowerPriority")], workloads)
        assert list(preempted(index, "a", 1)) == ["u"]
        assert list(preempted(index, "a", 2)) == ["u", "v"]
        # The last one makes room for all of it, and so the others stay.
        assert list(preempted(index, "a", 3)) == ["w"]

    def test_of_equal_priority_the_workload_that_started_last_is_preempted(self) -> None:
        workloads = [running("u", "a", 2, **reserved(NEW)), running("v", "a", 2, **reserved(OLD))]
        assert list(preempted(cluster([queue("a", 4, within_queue="Any")], workloads), "a", 2)) == ["u"]

    def test_workloads_that_are_being_evicted_come_first(self) -> None:
        evicted = {"Evicted": Condition(status=True), "QuotaReserved": Condition(status=True)}
        workloads = [running("u", "a", 2, 0), running("v", "a", 2, 4, conditions=evicted)]
        assert list(preempted(cluster([queue("a", 4, within_queue="LowerPriority")], workloads), "a", 2)) == ["v"]

    @pytest.mark.parametrize(("since", "found"), [(OLD, ["u"]), (NEW, []), (None, [])])
    def test_a_gang_preempts_newer_workloads_of_its_priority_only(self, since: str | None, found: list[str]) -> None:
        members = [queue("a", 4, within_queue="LowerOrNewerEqualPriority")]
        index = cluster(members, [running("u", "a", 4, 5, created="2026-11-01T10:30:00Z")])
        queued = datetime.fromisoformat(since).astimezone(UTC) if since else None
        assert list(preempted(index, "a", 4, since=queued)) == found

    @pytest.mark.parametrize(("buffered", "found"), [(False, ["u", "v"]), (True, ["u"])])
    def test_one_of_about_the_same_time_is_not_newer_with_a_buffer(self, buffered: bool, found: list[str]) -> None:
        """Kueue's feature gate SchedulerTimestampPreemptionBuffer."""
        members = [queue("a", 4, within_queue="LowerOrNewerEqualPriority")]
        times = {"u": "2026-11-01T10:05:01Z", "v": "2026-11-01T10:05:00Z"}
        index = cluster(members, [running(uid, "a", 2, 5, created=created) for uid, created in times.items()])
        ordering = Ordering(buffered=buffered)
        since = datetime.fromisoformat(OLD).astimezone(UTC)
        taken = [
            *preempted(index, "a", 2, since=since, ordering=ordering),
            *preempted(index, "a", 4, since=since, ordering=ordering),
        ]
        assert sorted(set(taken)) == found

    @pytest.mark.parametrize(
        ("threshold", "priority", "found"),
        [(None, 4, Why.WHILE_BORROWING), (3, 3, Why.WHILE_BORROWING), (3, 4, None), (None, 5, None)],
    )
    def test_borrow_within_cohort_preempts_up_to_a_priority(
        self, threshold: int | None, priority: int, found: Why | None
    ) -> None:
        own = {**ANY, "while_borrowing": True, "while_borrowing_up_to": threshold}
        index = cluster(pair(own), [running("u", "b", 8, priority)])
        assert preempted(index, "a", 6) == ({} if found is None else {"u": found})

    def test_quota_of_a_nearer_cohort_is_reclaimed_from_farther_ones_at_any_priority(self) -> None:
        members: list[ClusterQueue | Cohort] = [
            Cohort("left", "root"),
            Cohort("right", "root"),
            queue("a", 0, "left", reclaim="Any"),
            queue("b", 4, "left"),
            queue("d", 0, "right"),
        ]
        index = cluster(members, [running("u", "d", 4, 9)])
        assert preemption(index, "a").assess(CPU, 4) == (Mode.RECLAIM, 1)
        assert preempted(index, "a", 4) == {"u": Why.RECLAIM}

    def test_a_workload_is_kept_once_its_queue_has_given_back_what_it_borrowed(self) -> None:
        index = cluster(pair(ANY), [running("u", "b", 3, 0), running("v", "b", 3, 1)])
        assert list(preempted(index, "a", 4)) == ["u"]
        assert preempted(cluster(pair(ANY), [running("u", "b", 5, 0), running("v", "b", 3, 1)]), "a", 4) == {
            "u": Why.RECLAIM
        }

    def test_other_queues_are_preempted_before_the_own_one(self) -> None:
        own = {**ANY, "within_queue": "LowerPriority"}
        index = cluster(pair(own), [running("u", "a", 2, 0), running("v", "b", 6, 3)])
        assert list(preempted(index, "a", 2)) == ["v"]


class TestFairSharing:
    def test_the_queue_with_the_highest_share_is_preempted(self) -> None:
        members = queue("a", 0, "c", reclaim="Any"), queue("b", 0, "c"), queue("d", 0, "c"), queue("e", 8, "c")
        index = cluster(members, [running("u", "d", 2), running("v", "b", 3), running("w", "b", 3, 1)])
        assert preempted(index, "a", 2, strategies=BOTH[:1]) == {"v": Why.FAIR}

    def test_a_gang_within_its_quota_reclaims_whatever_the_shares_are(self) -> None:
        members = queue("a", 4, "c", reclaim="Any"), queue("b", 0, "c"), queue("d", 4, "c", weight=0.0)
        index = cluster(members, [running("u", "b", 4), running("v", "d", 4)])
        assert preempted(index, "a", 4, strategies=BOTH) == {"u": Why.RECLAIM}
        assert preempted(index, "a", 4, strategies=BOTH, within_nominal=False) == {"u": Why.FAIR}

    @pytest.mark.parametrize(("weight", "found"), [(1.0, []), (4.0, ["u", "v"]), (0.0, [])])
    def test_the_weight_divides_the_share(self, weight: float, found: list[str]) -> None:
        members = queue("a", 0, "c", reclaim="Any", weight=weight), queue("b", 0, "c"), queue("d", 8, "c")
        index = cluster(members, [running("u", "b", 4), running("v", "b", 4)])
        assert list(preempted(index, "a", 6, strategies=BOTH[1:])) == found

    @pytest.mark.parametrize(("strategies", "found"), [(BOTH[:1], []), (BOTH[1:], ["u"])])
    def test_a_cohort_that_lends_nothing_has_shares_of_its_own_quota(
        self, strategies: Sequence[str], found: list[str]
    ) -> None:
        """Both queues borrow from their cohort, of which the root has nothing."""
        cohorts = Cohort("team", "root", cpu((10, None, 0))), Cohort("root")
        members = queue("a", 0, "team", reclaim="Any"), queue("b", 0, "team")
        index = cluster([*cohorts, *members], [running("u", "b", 6), running("v", "a", 2)])
        assert list(preempted(index, "a", 3, strategies=strategies)) == found

    def test_a_queue_without_a_cohort_preempts_its_own_workloads(self) -> None:
        index = cluster([queue("a", 4, within_queue="LowerPriority")], [running("u", "a", 2), running("v", "a", 2, 9)])
        assert preempted(index, "a", 2, strategies=BOTH) == {"u": Why.IN_QUEUE}


members = st.lists(
    st.tuples(
        st.integers(0, 6), st.sampled_from(["c0", "c1", "c2"]), st.sampled_from(["Any", "LowerPriority", "Never"])
    ),
    min_size=1,
    max_size=4,
)
workloads = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5), st.integers(0, 9)), max_size=8)


class TestProperties:
    @PROPERTY
    @given(members, workloads, st.integers(1, 12), st.booleans(), st.sampled_from([None, BOTH, BOTH[:1], BOTH[1:]]))
    def test_what_is_preempted_makes_room_and_nothing_of_it_is_too_much(
        self,
        members: list[tuple[int, str, str]],
        workloads: list[tuple[int, int, int]],
        amount: int,
        while_borrowing: bool,
        strategies: Sequence[str] | None,
    ) -> None:
        cohorts = [Cohort("c1", "c0"), Cohort("c2", "c1")]
        queues = [
            queue(f"q{n}", size, cohort, reclaim=policy, within_queue=policy, while_borrowing=while_borrowing)
            for n, (size, cohort, policy) in enumerate(members)
        ]
        held = [
            running(f"u{n}", f"q{at % len(queues)}", size, priority) for n, (at, size, priority) in enumerate(workloads)
        ]
        index = cluster([*cohorts, *queues], held)
        assume(index.available("q0", *CPU) < amount)
        before = usage(index)
        found = preemption(index, "q0", strategies=strategies).preempted({CPU: amount}, {CPU})
        assert usage(index) == before
        for each in found:
            index.remove_usage(each.workload.uid)
        if found:
            assert index.available("q0", *CPU) >= amount
            assert all(each.workload.cluster_queue in index.tree("q0") for each in found)
        for each in found:
            index.set_usage(each.workload)
            # Without borrowing it may be preempted for what is free in the cohort.
            assert index.available("q0", *CPU) < amount or (strategies is None and not while_borrowing)
            index.remove_usage(each.workload.uid)


def usage(index: Quotas) -> Mapping[str, tuple[int, int]]:
    return {each.name: (index.used(each.name, *CPU), index.available(each.name, *CPU)) for each in index.queues()}


def test_an_exhausted_budget_is_reported() -> None:
    index = cluster([queue("a", 40, within_queue="Any")], [running(f"u{n}", "a", 1) for n in range(40)])
    short = preemption(index, "a")
    short.budget = 10
    assert short.preempted({CPU: 40}, {CPU}) == []
    assert short.exhausted
    assert index.used("a", *CPU) == 40


def test_borrowing_is_measured_by_the_levels_up_to_the_cohort_that_lends() -> None:
    index = quotas(Cohort("c1", "c0"), queue("a", 2, "c1"), queue("b", 2, "c1"), queue("d", 4, "c0"))
    node = index.node("a")
    assert node is not None
    assert [borrowed_at(node, CPU, amount) for amount in (2, 4, 8)] == [(0, True), (1, True), (2, False)]


def test_queues_are_compared_by_the_height_of_the_cohort_that_they_borrow_from() -> None:
    """Heights count from the queues up: that of the root is 2, also for a queue that is directly below it."""
    members = Cohort("root", "", cpu(8)), Cohort("team", "root", cpu(2)), queue("a", 0, "root"), queue("b", 0, "team")
    index = cluster(members, [])
    heights = {
        (name, amount): borrows_from(node, {CPU: amount})
        for name in ("a", "b")
        for amount in (0, 1, 3)
        if (node := index.node(name)) is not None
    }
    assert list(heights.values()) == [0, 2, 2, 0, 1, 2]
