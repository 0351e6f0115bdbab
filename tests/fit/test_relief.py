"""The quota that is proposed is sufficient, and less is not."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from gangctl.fit.explain import Relief, relief
from gangctl.fit.search import Available, Demand
from tests.fit.test_search import RESOURCES, amounts_available, brute_force, flavors
from tests.strategies import PROPERTY

amounts = st.dictionaries(st.sampled_from(RESOURCES), st.integers(1, 6), min_size=1, max_size=2)
demands = st.lists(st.builds(Demand, amounts, flavors), min_size=1, max_size=5)


def wider(available: Available, found: Relief, less: int = 0) -> Available:
    grown = dict(available)
    for resource, amount in found.more.items():
        there = grown.get((found.flavor, resource), 0)
        assert there is not None, "what is without bound needs no more"
        grown[found.flavor, resource] = there + amount - less
    return grown


@PROPERTY
@given(demands, amounts_available)
def test_relief_is_sufficient_and_minimal(asked: list[Demand], available: Available) -> None:
    assume(not brute_force(asked, available))
    found = relief(asked, available)
    if found is None:
        return
    assert brute_force(asked, wider(available, found))
    if len(found.more) == 1:
        assert not brute_force(asked, wider(available, found, less=1))


@PROPERTY
@given(demands, amounts_available, st.integers(0, 60))
def test_relief_with_a_small_budget_is_sufficient(asked: list[Demand], available: Available, budget: int) -> None:
    assume(not brute_force(asked, available))
    found = relief(asked, available, budget)
    assert found is None or brute_force(asked, wider(available, found))


def test_no_relief_is_proposed_if_one_flavor_is_not_enough() -> None:
    asked = [Demand({"cpu": 6}, ("f1",)), Demand({"cpu": 6}, ("f2",))]
    assert relief(asked, {("f1", "cpu"): 5, ("f2", "cpu"): 5}) is None
    assert relief(asked, {("f1", "cpu"): 5, ("f2", "cpu"): 6}) == Relief("f1", {"cpu": 1})
