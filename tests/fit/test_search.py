"""The exhaustive search agrees with brute force, and the greedy walk with Kueue."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangctl.fit.search import MOST, Available, Demand, Mode, Solution, Step, Terms, greedy, search, tries
from tests.strategies import PROPERTY

FLAVORS = ("f1", "f2", "f3")
RESOURCES = ("cpu", "gpu")


def cpu(amount: int, *flavors: str) -> Demand:
    return Demand({"cpu": amount}, flavors or ("f1", "f2"))


def of_cpu(**amounts: int | None) -> dict[tuple[str, str], int | None]:
    return {(flavor, "cpu"): amount for flavor, amount in amounts.items()}


def holds(demands: Sequence[Demand], available: Available, choice: Sequence[str]) -> bool:
    taken: dict[tuple[str, str], int] = {}
    for demand, flavor in zip(demands, choice, strict=True):
        for resource, amount in demand.amounts.items():
            taken[flavor, resource] = taken.get((flavor, resource), 0) + amount
    bounds = {pair: available.get(pair, 0) for pair in taken}
    return all(bound is None or taken[pair] <= bound for pair, bound in bounds.items())


def brute_force(demands: Sequence[Demand], available: Available) -> bool:
    options = [demand.flavors if any(demand.amounts.values()) else ("",) for demand in demands]
    asked = [demand if any(demand.amounts.values()) else Demand({}, ("",)) for demand in demands]
    return any(holds(asked, available, choice) for choice in itertools.product(*options))


amounts = st.dictionaries(st.sampled_from(RESOURCES), st.integers(0, 6), max_size=2)
flavors = st.lists(st.sampled_from(FLAVORS), unique=True, max_size=3).map(tuple)
demands = st.lists(st.builds(Demand, amounts, flavors), max_size=6)
amounts_available = st.dictionaries(
    st.tuples(st.sampled_from(FLAVORS), st.sampled_from(RESOURCES)), st.none() | st.integers(0, 14), max_size=6
)
parted = st.lists(
    st.builds(
        lambda part, amount, own: Demand({RESOURCES[part]: amount}, own, part),
        st.integers(0, 1),
        st.integers(0, 6),
        flavors,
    ),
    max_size=6,
)


class TestSearch:
    @PROPERTY
    @given(demands, amounts_available)
    def test_the_search_agrees_with_brute_force(self, asked: list[Demand], available: Available) -> None:
        found = search(asked, available)
        assert not found.exhausted
        assert (found.choice is not None) == brute_force(asked, available)

    @PROPERTY
    @given(parted, amounts_available)
    def test_the_search_by_parts_agrees_with_brute_force(self, asked: list[Demand], available: Available) -> None:
        assert (search(asked, available).choice is not None) == brute_force(asked, available)

    @PROPERTY
    @given(demands, amounts_available, st.integers(0, 40))
    def test_a_search_with_a_small_budget_is_correct_or_exhausted(
        self, asked: list[Demand], available: Available, budget: int
    ) -> None:
        """K6: nothing is called impossible that brute force can do, and a choice is one."""
        found = search(asked, available, budget)
        if found.choice is not None:
            meant = [d if any(d.amounts.values()) else Demand({}, ("",)) for d in asked]
            assert holds(meant, available, found.choice)
            assert all(f in (*d.flavors, "") for d, f in zip(asked, found.choice, strict=True))
        elif not found.exhausted:
            assert not brute_force(asked, available)

    def test_the_search_backtracks_where_kueue_does_not(self) -> None:
        assert search([cpu(6), cpu(10)], of_cpu(f1=10, f2=6)) == Solution(("f2", "f1"))

    def test_a_demand_for_nothing_needs_no_quota(self) -> None:
        assert search([Demand({"cpu": 0}, ("f1",)), Demand({}, ())], {}) == Solution(("f1", ""))

    def test_an_unlimited_flavor_takes_all_demands(self) -> None:
        assert search([cpu(10**15)] * 18, of_cpu(f1=1, f2=None)) == Solution(("f2",) * 18)

    def test_equal_demands_are_counted_and_not_tried_one_by_one(self) -> None:
        """Eighteen of six that fit once into each of seventeen flavors of different size."""
        names = [f"f{n}" for n in range(17)]
        available = of_cpu(**{name: 6 + n % 5 for n, name in enumerate(names)}) | of_cpu(big=11)
        assert search([cpu(6, *names, "big")] * 19, available, budget=2000) == Solution(None)

    def test_a_search_above_its_budget_is_exhausted(self) -> None:
        sizes = [15 + 2 * n for n in range(18)]
        available = of_cpu(**{f"f{n}": sum(sizes) // 6 + n % 2 for n in range(6)})
        assert search([cpu(size, *(f"f{n}" for n in range(6))) for size in sizes], available, budget=50) == Solution(
            None, exhausted=True
        )

    def test_a_search_with_too_many_demands_is_exhausted(self) -> None:
        assert search([cpu(1)] * (MOST + 1), of_cpu(f1=None)) == Solution(None, exhausted=True)

    def test_a_part_without_a_choice_ends_the_search_before_the_expensive_parts(self) -> None:
        sizes = [15 + 2 * n for n in range(18)]
        available = of_cpu(**{f"f{n}": sum(sizes) // 6 + n % 2 for n in range(6)})
        hard = [cpu(size, *(f"f{n}" for n in range(6))) for size in sizes]
        assert search([*hard, Demand({"gpu": 1}, ("f1",), part=1)], available, budget=50) == Solution(None)


def terms(
    available: Available,
    *,
    free: Available | None = None,
    own: Available | None = None,
    preempting: Mode = Mode.NO_CANDIDATES,
    **more: bool,
) -> Terms:
    """Terms of a queue that can have ``available``, of which ``free`` is not in use and ``own`` is not borrowed."""

    def within(amount: int, bounds: Available | None, pair: tuple[str, str]) -> bool:
        there = (available if bounds is None else bounds).get(pair, 0)
        return there is None or amount <= there

    def assess(pair: tuple[str, str], amount: int) -> tuple[Mode, int]:
        borrowed = int(not within(amount, own, pair))
        if not within(amount, available, pair):
            return Mode.NO_FIT, borrowed
        return Mode.FIT if within(amount, free, pair) else preempting, borrowed

    return Terms(assess, **more)


class TestGreedy:
    @pytest.mark.parametrize(
        ("sizes", "expected"),
        [((6, 6), ("f1", "f2")), ((10, 6), ("f1", "f2")), ((6, 10), None)],
    )
    def test_the_greedy_choice_depends_on_the_order_of_podsets(
        self, sizes: tuple[int, ...], expected: tuple[str, ...] | None
    ) -> None:
        steps = greedy([cpu(size) for size in sizes], terms(of_cpu(f1=10, f2=6)))
        assert (None if steps is None else tuple(step.flavor for step in steps)) == expected

    def test_a_flavor_with_free_quota_is_preferred_to_one_that_waits(self) -> None:
        steps = greedy([cpu(6)], terms(of_cpu(f1=10, f2=10), free=of_cpu(f1=5, f2=6)))
        assert steps == (Step("f2", Mode.FIT),)

    def test_preemption_in_the_first_flavor_is_chosen_if_the_queue_stops_at_preemption(self) -> None:
        available, free = of_cpu(f1=10, f2=10), of_cpu(f1=5, f2=6)
        stopping = terms(available, free=free, preempting=Mode.PREEMPT, stop_at_preemption=True)
        assert greedy([cpu(6)], stopping) == (Step("f1", Mode.PREEMPT),)
        assert greedy([cpu(6)], terms(available, free=free, preempting=Mode.PREEMPT)) == (Step("f2", Mode.FIT),)

    def test_the_next_flavor_is_tried_before_borrowing_if_the_queue_prefers_it(self) -> None:
        available, own = of_cpu(f1=10, f2=10), of_cpu(f1=5, f2=10)
        assert greedy([cpu(6)], terms(available, own=own)) == (Step("f1", Mode.FIT),)
        assert greedy([cpu(6)], terms(available, own=own, stop_at_borrowing=False)) == (Step("f2", Mode.FIT),)
        only_one = greedy([cpu(6, "f1")], terms(available, own=own, stop_at_borrowing=False))
        assert only_one == (Step("f1", Mode.FIT),)

    def test_waiting_podsets_count_towards_the_quota(self) -> None:
        available = of_cpu(f1=10)
        assert greedy([cpu(6, "f1"), cpu(5, "f1")], terms(available, free=of_cpu(f1=0))) is None
        waiting = greedy([cpu(6, "f1"), cpu(4, "f1")], terms(available, free=of_cpu(f1=0)))
        assert waiting == (Step("f1", Mode.NO_CANDIDATES),) * 2
        assert [step.waits for step in waiting] == [{"cpu"}] * 2

    @pytest.mark.parametrize(("prefer", "flavor"), [(False, "f1"), (True, "f2")])
    def test_the_preference_decides_between_preemption_and_borrowing(self, prefer: bool, flavor: str) -> None:
        def assess(pair: tuple[str, str], _: int) -> tuple[Mode, int]:
            return {"f1": (Mode.FIT, 1), "f2": (Mode.RECLAIM, 0)}[pair[0]]

        choice = Terms(assess, stop_at_borrowing=False, prefer_preemption=prefer)
        assert [step.flavor for step in greedy([cpu(6)], choice) or ()] == [flavor]

    def test_a_flavor_with_nothing_to_preempt_is_the_last_choice(self) -> None:
        def assess(pair: tuple[str, str], _: int) -> tuple[Mode, int]:
            return {"f1": (Mode.NO_CANDIDATES, 0), "f2": (Mode.PREEMPT, 2)}[pair[0]]

        choice = Terms(assess, stop_at_borrowing=False, prefer_preemption=True)
        assert [step.flavor for step in greedy([cpu(6)], choice) or ()] == ["f2"]

    @pytest.mark.parametrize(
        ("sizes", "available", "found"),
        [
            ((6, 10), (10, 6), [None, ("f2", "f1")]),
            ((1, 4, 3), (7, 2), [None, None]),
            ((4, 3, 1), (7, 2), [("f1", "f1", "f2"), None]),
        ],
    )
    def test_the_next_try_resumes_after_the_flavor_of_the_last(
        self, sizes: tuple[int, ...], available: tuple[int, int], found: list[tuple[str, ...] | None]
    ) -> None:
        """Kueue admits the first gang at its second try, and never finds the choice that the second one has."""
        walks = list(tries([cpu(size) for size in sizes], terms(of_cpu(f1=available[0], f2=available[1]))))
        names = [None if steps is None else tuple(step.flavor for step in steps) for steps in walks]
        assert names[: len(found)] == found
        assert len(names) < 5

    def test_an_ineligible_flavor_is_skipped_in_later_tries_too(self) -> None:
        asked = [Demand({"cpu": 6}, ("f2",), among=("f1", "f2", "f3")), cpu(7, "f2")]
        assert list(tries(asked, terms(of_cpu(f2=10)))) == [None, None]

    def test_podsets_of_a_group_restart_the_flavors_together(self) -> None:
        asked = [
            Demand({"cpu": 1}, ("f1", "f2"), 0, 0),
            Demand({"gpu": 1}, ("g1",), 1, 0),
        ]
        assert list(tries(asked, terms(of_cpu(f1=1, f2=1)))) == [None]

    @PROPERTY
    @given(demands, amounts_available)
    def test_the_greedy_walk_finds_no_choice_that_the_search_excludes(
        self, asked: list[Demand], available: Available
    ) -> None:
        steps = greedy(asked, terms(available))
        if steps is not None:
            assert search(asked, available).choice is not None
            assert all(step.mode is Mode.FIT for step in steps)
