"""When a gang starts that waits for quota: ranges from what is declared, against replays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangctl.fit.clusterstate import Outlook
from gangctl.fit.demands import demands_of
from gangctl.fit.verdict import FitRequest, fit
from gangctl.kueue.objects import (
    PODS,
    CheckUse,
    ClusterQueue,
    Condition,
    FlavorQuotas,
    LocalQueue,
    QueuedWorkload,
    Quota,
    ResourceGroup,
    RunTime,
)
from tests.fit.asking import CONFIGURATION, NAMESPACE, QUEUE, known, pods
from tests.fit.waiters import HOUR, NOW, PAIR, cluster_queue, limited, running, said, since, start, waiting
from tests.jobsets import jobset
from tests.strategies import PROPERTY


class TestDeclared:
    def test_a_maximum_execution_time_is_the_latest_end(self) -> None:
        held = cluster_queue(), running("u", 4, run_time=limited(HOUR))
        assert start(held) == (0, 3000)
        assert said(held) == '"team/w-u" may run for 1h at most and has run for 10m'

    def test_the_pods_get_their_time_to_stop(self) -> None:
        assert start([cluster_queue(), running("u", 4, run_time=limited(HOUR, grace=90))]) == (0, 3090)

    def test_the_time_before_an_eviction_counts(self) -> None:
        assert start([cluster_queue(), running("u", 4, run_time=limited(HOUR, spent=1000))]) == (0, 2000)

    def test_an_expected_duration_is_the_earliest_end(self) -> None:
        held = cluster_queue(), running("u", 4, run_time=RunTime(expected=HOUR))
        assert start(held) == (3000, None)
        assert said(held) == (
            '"team/w-u" declares to run for 1h and has run for 10m; when "team/w-u" will have ended is not known'
        )

    def test_both_make_a_range(self) -> None:
        assert start([cluster_queue(), running("u", 4, run_time=limited(HOUR, expected=1800))]) == (1200, 3000)

    def test_a_jobset_declares_for_its_workload(self) -> None:
        held = [cluster_queue(), running("u", 4, owner_kind="JobSet", owner_name="big", run_time=limited(HOUR))]
        assert start(held, expected={("team", "big"): 1800}) == (1200, 3000)
        assert start(held, expected={("other", "big"): 1800}) == (0, 3000)

    def test_a_gang_that_needs_several_waits_for_the_last_of_them(self) -> None:
        held = [running(f"u{n}", 3, run_time=limited(HOUR * n, expected=HOUR * n - 1800)) for n in (1, 2, 3)]
        assert start([cluster_queue(), *held], 4) == (1200, 3000)
        assert start([cluster_queue(), *held], 7) == (1200 + HOUR, 3000 + HOUR)
        assert start([cluster_queue(), *held], 10) == (1200 + 2 * HOUR, 3000 + 2 * HOUR)

    def test_an_end_that_is_not_known_leaves_the_latest_start_open(self) -> None:
        held = cluster_queue(), running("u", 4, run_time=limited(HOUR, expected=1800)), running("v", 4)
        assert start(held) == (1200, None)
        assert start(held, 6) == (0, 3000)

    @pytest.mark.parametrize(
        "holder",
        [
            pytest.param(running("u", 4), id="declares nothing"),
            pytest.param(running("u", 4, run_time=limited(300)), id="runs for longer than it may"),
            pytest.param(running("u", 4, age=None, run_time=limited(300)), id="has not started"),
            pytest.param(running("u", 4, deleting=True), id="is being deleted"),
        ],
    )
    def test_without_anything_known_nothing_is_said(self, holder: QueuedWorkload) -> None:
        assert start([cluster_queue(), holder]) is None

    def test_an_evicted_workload_ends_when_its_pods_have_stopped(self) -> None:
        each = running("u", 4, run_time=RunTime(grace=30))
        evicted = {**each.conditions, "Evicted": Condition(status=True, since=since(10))}
        assert start([cluster_queue(), replace(each, conditions=evicted)]) == (0, 20)
        late = {**each.conditions, "Evicted": Condition(status=True, since=since(40))}
        assert start([cluster_queue(), replace(each, conditions=late)]) is None


class TestAhead:
    SURE = limited(1000, expected=900)

    def test_a_strict_queue_admits_those_ahead_first(self) -> None:
        held = cluster_queue(strategy="StrictFIFO"), running("u", 8, run_time=limited(HOUR, expected=3000))
        first = waiting("v", 6, run_time=self.SURE)
        assert start(held, 5, pending=[first]) == (2400 + 900, 3000 + 1000)
        assert said(held, 5, pending=[first]).endswith('; 1 workload is ahead of it in ClusterQueue "a"')

    @pytest.mark.parametrize(
        ("setting", "own", "queue", "starts"),
        [
            ("admissionFairSharing: {}", {"by_usage": True}, QUEUE, (2400, None)),
            ("admissionFairSharing: {}", {}, QUEUE, (2400 + 900, 3000 + 1000)),
            ("fairSharing: {}", {}, QUEUE, (2400 + 900, 3000 + 1000)),
            ("fairSharing: {}", {}, "other", (2400, None)),
        ],
    )
    def test_there_is_no_latest_start_where_shares_decide_who_is_first(
        self, setting: str, own: dict[str, Any], queue: str, starts: tuple[int, int | None]
    ) -> None:
        queues = cluster_queue(cohort="c", strategy="StrictFIFO", **own), cluster_queue(0, "c", "b")
        holder = running("u", 8, run_time=limited(HOUR, expected=3000))
        held = *queues, LocalQueue(NAMESPACE, "other", "b"), holder
        waits = [waiting("v", 6, queue=queue, run_time=self.SURE)]
        asked = {"pending": waits, "configuration": CONFIGURATION + setting}
        assert start(held, 5, **asked) == starts
        assert ("order in which Kueue admits what waits is not known" in said(held, 5, **asked)) is (starts[1] is None)

    def test_a_smaller_gang_may_overtake_in_a_best_effort_queue(self) -> None:
        held = cluster_queue(), running("u", 8, run_time=limited(HOUR, expected=3000))
        assert start(held, 5, pending=[waiting("v", 6, run_time=self.SURE)]) == (2400, 4000)

    def test_one_of_its_size_is_not_overtaken(self) -> None:
        held = cluster_queue(), running("u", 8, run_time=limited(HOUR, expected=3000))
        assert start(held, 6, pending=[waiting("v", 6, run_time=self.SURE)]) == (3300, 4000)
        assert start(held, 6, pending=[waiting("v", 6, run_time=self.SURE, short=False)]) == (2400, 4000)

    def test_those_behind_it_do_not_delay_a_strict_queue(self) -> None:
        held = cluster_queue(strategy="StrictFIFO"), running("u", 8, run_time=limited(HOUR, expected=3000))
        assert start(held, 10, pending=[waiting("v", 2, order=4500, run_time=limited(9000))]) == (2400, 3000)

    def test_those_behind_it_may_overtake_in_a_best_effort_queue(self) -> None:
        held = cluster_queue(), running("u", 8, run_time=limited(HOUR, expected=3000))
        assert start(held, 10, pending=[waiting("v", 2, order=4500, run_time=limited(9000))]) == (2400, 9000)

    def test_one_ahead_without_a_known_end_leaves_the_latest_start_open(self) -> None:
        held = cluster_queue(strategy="StrictFIFO"), running("u", 8, run_time=limited(HOUR, expected=3000))
        assert start(held, 10, pending=[waiting("v", 10)]) == (2400, None)
        checked = replace(held[0], checks=(CheckUse("c"),))
        assert start([checked, held[1]], 10, pending=[waiting("v", 10, run_time=limited(100))]) is None

    def test_one_of_another_queue_may_take_the_quota(self) -> None:
        members = cluster_queue(10, "c"), cluster_queue(0, "c", "b")
        held = running("u", 8, run_time=limited(HOUR, expected=3000))
        door = LocalQueue(NAMESPACE, "other", "b")
        other = waiting("v", 2, queue="other", run_time=limited(9000))
        assert start([*members, held, door], 10, pending=[other]) == (2400, 9000)
        assert start([*members, held], 10, pending=[other]) == (2400, None)

    @pytest.mark.parametrize(("strategy", "latest"), [("StrictFIFO", 3000), ("BestEffortFIFO", 9000)])
    def test_a_strict_queue_keeps_its_quota_from_those_that_borrow(self, strategy: str, latest: int) -> None:
        members = cluster_queue(10, "c", strategy=strategy), cluster_queue(0, "c", "b")
        held = (
            running("u", 5, queue="b", run_time=limited(HOUR, expected=3000)),
            running("v", 3, queue="b", run_time=limited(HOUR // 2, expected=1000)),
        )
        other = waiting("w", 4, queue="other", run_time=limited(9000 - 1200))
        found = start([*members, *held, LocalQueue(NAMESPACE, "other", "b")], 10, pending=[other])
        assert found == (2400, latest)

    @pytest.mark.parametrize(("sorts", "latest"), [("true", 3000), ("false", 9000)])
    def test_without_priority_sorting_the_time_decides_which_queue_is_first(self, sorts: str, latest: int) -> None:
        members = cluster_queue(5, "c"), cluster_queue(5, "c", "b"), LocalQueue(NAMESPACE, "other", "b")
        held = running("u", 10, run_time=limited(HOUR, expected=3000))
        older = waiting("w", 10, queue="other", priority=-1, run_time=limited(6000))
        gates = f"featureGates: {{PrioritySortingWithinCohort: {sorts}}}\n"
        found = start([*members, held], 10, pending=[older], configuration=CONFIGURATION + gates)
        assert found == (2400, latest)

    def test_one_that_asks_for_what_is_not_known_leaves_the_latest_start_open(self) -> None:
        held = cluster_queue(), running("u", 8, run_time=limited(HOUR, expected=3000))
        assert start(held, pending=[waiting("v", 6, requests={})]) == (2400, None)

    @pytest.mark.parametrize(("gates", "starts"), [("", (2400, None)), ("PartialAdmission: false", (2400, 4000))])
    def test_one_that_may_start_with_fewer_pods_leaves_the_latest_start_open(
        self, gates: str, starts: tuple[int, int | None]
    ) -> None:
        held = cluster_queue(), running("u", 8, run_time=limited(HOUR, expected=3000))
        first = waiting("v", 6, divisible=True, run_time=self.SURE)
        assert start(held, 5, pending=[first], configuration=f"{CONFIGURATION}featureGates: {{{gates}}}\n") == starts

    def test_pods_of_others_that_have_ended_need_no_quota(self) -> None:
        groups = (ResourceGroup((PODS,), (FlavorQuotas("f1", {PODS: Quota(10)}),)),)
        held = ClusterQueue("a", groups=groups, selector=(), strategy="StrictFIFO")
        first = waiting("v", 0, pods={"main": 8}, reclaimable={"main": 6})
        demands = demands_of(first, held)
        assert demands is not None
        assert [dict(demand.amounts) for demand in demands] == [{PODS: 2}]

    def test_waiting_for_pods_of_others_leaves_the_latest_start_open(self) -> None:
        held = cluster_queue(), running("u", 8, run_time=limited(HOUR, expected=3000))
        text = CONFIGURATION + "waitForPodsReady: {blockAdmission: true}\n"
        assert start(held) == (2400, 3000)
        assert start(held, configuration=text) == (2400, None)
        assert "waitForPodsReady.blockAdmission" in said(held, configuration=text)

    def test_too_many_others_leave_the_latest_start_open(self) -> None:
        held = cluster_queue(), *(running(f"u{n}", 1, run_time=limited(HOUR + n, expected=3000)) for n in range(10))
        many = [waiting(f"v{n}", 10, order=n - 2000, run_time=limited(100)) for n in range(1500)]
        assert start(held, 10, pending=many[:10]) == (2400, 4009)
        assert start(held, 10, pending=many) == (2400, None)
        assert "too many workloads wait for a latest start" in said(held, 10, pending=many)


class TestSilence:
    def test_a_gang_that_fits_now_has_no_estimate(self) -> None:
        assert start([cluster_queue()]) is None

    def test_without_an_outlook_there_is_no_estimate(self) -> None:
        held = cluster_queue(), running("u", 4, run_time=limited(HOUR))
        raw = jobset("js", pods("w", 10, cpu="1"))
        assert fit(FitRequest(raw, NAMESPACE, {}, QUEUE), known(*held))["starts"] is None

    def test_what_is_unknown_about_the_cluster_leaves_no_estimate(self) -> None:
        held = cluster_queue(), running("u", 4, run_time=limited(HOUR))
        assert start(held, configuration=None) is None

    def test_a_holder_that_it_may_preempt_later_does_not_make_it_wait(self) -> None:
        held = (
            cluster_queue(within_queue="LowerPriority"),
            running("u", 4, run_time=limited(HOUR, expected=3000)),
            running("v", 4, run_time=limited(2 * HOUR, expected=6600), priority=-1),
        )
        assert start(held) == (2400, 6600)


@dataclass(frozen=True)
class Run:
    """Amount, and the shortest and longest time that it may still run, or run once it has started."""

    amount: int
    shortest: int
    longest: int


RUNS = st.builds(
    lambda amount, shortest, more: Run(amount, shortest, shortest + more),
    st.integers(1, 6),
    st.integers(1, 60),
    st.integers(0, 60),
)


def replayed(
    capacity: int, holders: Sequence[tuple[int, int]], order: Sequence[tuple[str, int, int]], *, strict: bool
) -> int:
    """When ``gang`` starts in one queue, if each runs for its time: amounts and ends, and names in order."""
    ends = {f"h{number}": (end, amount) for number, (amount, end) in enumerate(holders)}
    left = list(order)
    now = 0
    while True:
        for each in list(left):
            name, amount, length = each
            if sum(used for _, used in ends.values()) + amount > capacity:
                if strict:
                    break
                continue
            if name == "gang":
                return now
            ends[name] = now + length, amount
            left.remove(each)
        now = min(end for end, _ in ends.values())
        ends = {name: each for name, each in ends.items() if each[0] > now}


class TestReplays:
    @pytest.mark.parametrize("many", [3, 1500])
    def test_an_estimate_leaves_the_quotas_as_they_were(self, many: int) -> None:
        snapshot = known(
            cluster_queue(10, "c", strategy="StrictFIFO"),
            cluster_queue(0, "c", "b"),
            LocalQueue(NAMESPACE, "other", "b"),
            *(running(f"u{n}", 2, queue="b", run_time=limited(HOUR + n, expected=3000)) for n in range(4)),
        )
        others = [waiting(f"v{n}", 3, queue=QUEUE if n % 2 else "other", run_time=limited(100)) for n in range(many)]
        request = FitRequest(jobset("js", pods("w", 8, cpu="1")), NAMESPACE, {}, QUEUE, outlook=Outlook(NOW, others))
        before = [(snapshot.quotas.used(name, *PAIR), snapshot.quotas.available(name, *PAIR)) for name in "ab"]
        report = fit(request, snapshot)
        assert report["starts"] is not None
        assert before == [(snapshot.quotas.used(name, *PAIR), snapshot.quotas.available(name, *PAIR)) for name in "ab"]
        assert fit(request, snapshot) == report

    @PROPERTY
    @given(st.data(), st.lists(RUNS, min_size=1, max_size=6), st.lists(RUNS, max_size=4), st.booleans())
    def test_a_range_holds_the_start_of_each_replay_in_which_all_end_as_declared(
        self, data: st.DataObject, holders: list[Run], ahead: list[Run], strict: bool
    ) -> None:
        capacity = sum(each.amount for each in holders)
        amount = data.draw(st.integers(1, capacity))
        ahead = [each for each in ahead if each.amount <= capacity]
        # Without an order, a shorter run may let another overtake, which makes the gang start later.
        equal = strict or all(each.amount == amount for each in ahead)
        if not strict and ahead:
            amount, ahead = ahead[0].amount, [replace(each, amount=ahead[0].amount) for each in ahead]
            equal = data.draw(st.booleans())
            amount = amount if equal else data.draw(st.integers(1, capacity))
        held = [
            running(f"u{n}", each.amount, age=0, run_time=limited(each.longest, expected=each.shortest))
            for n, each in enumerate(holders)
        ]
        pending = [
            waiting(f"v{n}", each.amount, order=n, run_time=limited(each.longest, expected=each.shortest))
            for n, each in enumerate(ahead)
        ]
        found = start(
            [cluster_queue(capacity, strategy="StrictFIFO" if strict else "BestEffortFIFO"), *held],
            amount,
            pending=pending,
        )
        lengths = [data.draw(st.integers(each.shortest, each.longest)) for each in (*holders, *ahead)]
        order = [(f"v{n}", each.amount, lengths[len(holders) + n]) for n, each in enumerate(ahead)]
        happened = replayed(
            capacity,
            [(each.amount, length) for each, length in zip(holders, lengths, strict=False)],
            [*order, ("gang", amount, 1)],
            strict=strict,
        )
        assert found is not None
        assert found[0] <= happened
        assert found[1] is not None
        if equal:
            assert happened <= found[1]
