"""Gangs that have room, and heads of StrictFIFO queues that Kueue tries first: of their own queue and of others."""

from __future__ import annotations

from typing import Any, Final

import pytest

from gangctl.fit.verdict import FitRequest, fit
from gangctl.kueue.objects import ClusterQueue, PodPriorityClass
from gangctl.kueue.queues import find_head
from tests.fit.asking import CONFIGURATION, NAMESPACE, QUEUE, known, pods
from tests.fit.queues import cpu
from tests.fit.waiters import HOUR, NOW, PAIR, ask, cluster_queue, head_of, limited, running, said, start, waiting
from tests.jobsets import jobset
from tests.rows import each

USAGE: Final = "admissionFairSharing: {usageHalfLifeTime: 5m}\n"
BOOSTS: Final = "featureGates: {PriorityBoost: true}\n"


class TestOwnQueue:
    def test_one_that_has_room_waits_for_the_head_of_a_strict_queue(self) -> None:
        held = cluster_queue(strategy="StrictFIFO"), running("u", 8, run_time=limited(HOUR, expected=3000))
        first = waiting("v", 6, run_time=limited(1000, expected=900))
        report = ask(held, 2, pending=[first])
        assert (report["verdict"], report["reason"]) == ("not-now", "HeadBlocksQueue")
        assert report["message"] == (
            'There is quota for it now, but "t/w-v" does not fit now, and is the head of StrictFIFO ClusterQueue "a" '
            "for 1h23m; 1 behind it wait."
        )
        assert start(held, 2, pending=[first]) == (2400, 3000)
        assert said(held, 2, pending=[first]).endswith('; 1 workload is ahead of it in ClusterQueue "a"')

    def test_none_waits_for_a_head_that_may_be_tried_soon_or_comes_later(self) -> None:
        held = cluster_queue(strategy="StrictFIFO"), running("u", 8)
        others = waiting("v", 6, short=False), waiting("v", 6, order=4500), waiting("v", 6, queue="other")
        assert [ask(held, 2, pending=[each])["reason"] for each in others] == ["Fits"] * 3
        assert ask([cluster_queue(), held[1]], 2, pending=[waiting("v", 6)])["reason"] == "Fits"

    def test_a_new_gang_goes_before_a_head_of_lower_priority(self) -> None:
        snapshot = known(cluster_queue(strategy="StrictFIFO"), running("u", 8))
        raw = jobset("js", pods("w", 2, cpu="1"))
        for priority, reason in ((0, "HeadBlocksQueue"), (-1, "Fits")):
            head = head_of(waiting("v", 6, priority=priority))
            assert fit(FitRequest(raw, NAMESPACE, {}, QUEUE, head=head), snapshot)["reason"] == reason
            unread = known(cluster_queue(strategy="StrictFIFO"), running("u", 8))
            unread.unread = frozenset({PodPriorityClass})
            report = fit(FitRequest(raw, NAMESPACE, {}, QUEUE, head=head), unread)
            assert report["unknown"] == [
                'its priority, by which "t/w-v", the head of StrictFIFO ClusterQueue "a", may go first'
            ]
            assert report["reason"] == "MayFit"

    @pytest.mark.parametrize(
        ("fields", "setting", "reason"),
        [
            ({"by_usage": True, "pending": 2}, USAGE, "MayFit"),
            ({"by_usage": True, "pending": 1}, USAGE, "Fits"),
            ({"by_usage": True, "pending": 2}, "", "Fits"),
            ({"pending": 2}, USAGE, "Fits"),
            ({"by_usage": True, "pending": 2, "strategy": "BestEffortFIFO"}, USAGE, "Fits"),
            ({"pending": 2}, BOOSTS, "MayFit"),
            ({"pending": 1}, BOOSTS, "Fits"),
        ],
    )
    def test_by_usage_or_boosts_it_is_not_known_what_is_tried_first(
        self, fields: dict[str, Any], setting: str, reason: str
    ) -> None:
        text = CONFIGURATION + setting
        strict = cluster_queue(**{"strategy": "StrictFIFO", **fields})
        own = waiting("~js", 2, order=4000)
        request = FitRequest(jobset("js", pods("w", 2, cpu="1")), NAMESPACE, {}, QUEUE, workload=own)
        report = fit(request, known(strict, running("u", 8), configuration=text))
        assert report["reason"] == reason

    def test_none_is_preempted_for_a_gang_behind_the_head(self) -> None:
        strict = cluster_queue(strategy="StrictFIFO", within_queue="LowerPriority")
        held = strict, running("u", 9, priority=-1)
        assert ask(held, 2)["reason"] == "NeedsPreemption"
        report = ask(held, 2, pending=[waiting("v", 11)])
        assert (report["reason"], report["preempts"]) == ("HeadBlocksQueue", [])
        assert report["message"].startswith('Kueue would preempt others for it, but "t/w-v" does not fit now')


class TestOtherQueues:
    @pytest.mark.parametrize(
        ("fields", "size", "priority", "amount", "reason"),
        [
            ({}, 8, 0, 6, "HeadBlocksQueue"),
            ({}, 8, 0, 4, "Fits"),
            # Beside what is in use both exceed their own quota: the priority decides which of them is first.
            ({}, 8, -1, 6, "Fits"),
            ({}, 8, 1, 6, "HeadBlocksQueue"),
            # It goes first, or Kueue looks for nothing to preempt.
            ({}, 4, 0, 6, "Fits"),
            ({}, 9, 0, 6, "Fits"),
            ({"reclaim": "Any"}, 8, 0, 6, "Fits"),
            ({"reclaim": "LowerPriority"}, 8, 0, 6, "HeadBlocksQueue"),
            ({"strategy": "BestEffortFIFO"}, 8, 0, 6, "Fits"),
            ({"stop_policy": "Hold"}, 8, 0, 6, "Fits"),
        ],
    )
    def test_quota_is_kept_for_the_head_of_another_strict_queue_of_the_cohort(
        self, fields: dict[str, Any], size: int, priority: int, amount: int, reason: str
    ) -> None:
        """It has 8, uses 4, and borrows nothing: what is free beyond its other 4 is for others."""
        quotas = cpu((8000, 0, None))
        other = ClusterQueue("b", "c", quotas, selector=(), **{"strategy": "StrictFIFO", **fields})
        snapshot = known(cluster_queue(4, "c"), other, running("u", 4, queue="b"))
        first = waiting("v", size, queue="other", priority=priority)
        request = FitRequest(
            jobset("js", pods("w", amount, cpu="1")),
            NAMESPACE,
            {},
            QUEUE,
            head=lambda queue: find_head(queue, [first] if queue.name == "b" else [], NOW),
        )
        report = fit(request, snapshot)
        assert report["reason"] == reason
        assert ('keeps it for "t/w-v", at the head of StrictFIFO ClusterQueue "b"' in report["message"]) is (
            reason != "Fits"
        )
        assert snapshot.quotas.available("a", *PAIR) == 8000

    @pytest.mark.parametrize("fair", [True, False])
    @pytest.mark.parametrize(
        ("amount", "waits", "reason"), [(6, True, "MayFit"), (4, True, "Fits"), (6, False, "Fits")]
    )
    def test_with_fair_sharing_or_without_a_priority_it_is_not_known_which_queue_is_first(
        self, amount: int, waits: bool, reason: str, fair: bool
    ) -> None:
        other = ClusterQueue("b", "c", cpu((8000, 0, None)), selector=(), strategy="StrictFIFO")
        queues = cluster_queue(4, "c"), other, running("u", 4, queue="b")
        first = waiting("v", 8, queue="other")
        request = FitRequest(
            jobset("js", pods("w", amount, cpu="1")),
            NAMESPACE,
            {},
            QUEUE,
            head=lambda queue: find_head(queue, [first] if waits and queue.name == "b" else [], NOW),
        )
        snapshot = known(*queues, configuration=CONFIGURATION + "fairSharing: {}\n" * fair)
        snapshot.unread = frozenset() if fair else frozenset({PodPriorityClass})
        report = fit(request, snapshot)
        assert report["reason"] == reason
        by = "fairSharing" if fair else "by its priority"
        why = f'whether Kueue ({by}) tries "t/w-v", the head of StrictFIFO ClusterQueue "b", before it, and keeps'
        assert report["unknown"] == [f"{why} the quota for that"] * (reason == "MayFit")

    @each(
        ("sorts", "priority", "order", "known_priority", "reason"),
        [
            (True, -1, 0, True, "Fits"),
            (False, -1, 0, True, "HeadBlocksQueue"),
            (True, 1, 4500, True, "HeadBlocksQueue"),
            (False, 1, 4500, True, "Fits"),
            (False, 0, 0, False, "HeadBlocksQueue"),
        ],
    )
    def test_without_priority_sorting_the_time_decides_which_queue_is_first(
        self, sorts: bool, priority: int, order: int, known_priority: bool, reason: str
    ) -> None:
        """Kueue's feature gate PrioritySortingWithinCohort."""
        gates = f"featureGates: {{PrioritySortingWithinCohort: {str(sorts).lower()}}}\n"
        other = ClusterQueue("b", "c", cpu((8000, 0, None)), selector=(), strategy="StrictFIFO")
        held = cluster_queue(4, "c"), other, running("u", 4, queue="b")
        snapshot = known(*held, configuration=CONFIGURATION + gates)
        first = waiting("v", 8, queue="other", priority=priority, order=order)
        request = FitRequest(
            jobset("js", pods("w", 6, cpu="1")),
            NAMESPACE,
            {},
            QUEUE,
            workload=waiting("~js", 6, order=4000) if known_priority else None,
            head=lambda queue: find_head(queue, [first] if queue.name == "b" else [], NOW),
        )
        snapshot.unread = frozenset() if known_priority else frozenset({PodPriorityClass})
        assert fit(request, snapshot)["reason"] == reason

    @each(
        ("fields", "setting", "known_heads", "reason"),
        [
            ({"pending": 1, "by_usage": True}, USAGE, True, "MayFit"),
            ({"pending": 1}, BOOSTS, True, "MayFit"),
            ({"pending": 1}, "", False, "MayFit"),
            ({"pending": 1}, USAGE, True, "Fits"),
            ({"pending": 0}, BOOSTS, True, "Fits"),
            ({"pending": 1, "reclaim": "Any"}, BOOSTS, True, "Fits"),
        ],
    )
    def test_what_is_kept_for_a_head_that_is_not_known_is_unknown(
        self, fields: dict[str, Any], setting: str, known_heads: bool, reason: str
    ) -> None:
        other = ClusterQueue("b", "c", cpu((8000, 0, None)), selector=(), strategy="StrictFIFO", **fields)
        held = cluster_queue(4, "c"), other, running("u", 4, queue="b")
        snapshot = known(*held, configuration=CONFIGURATION + setting)
        snapshot.heads_known = known_heads
        report = fit(FitRequest(jobset("js", pods("w", 6, cpu="1")), NAMESPACE, {}, QUEUE), snapshot)
        assert report["reason"] == reason
