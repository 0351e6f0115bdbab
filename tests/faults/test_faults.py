"""With a fault at any one request, gangctl converges: the same objects, each created as often, and none left over."""

from __future__ import annotations

import pytest

from tests.faults.matrix import Point, in_turn, one_of_each, verdict
from tests.faults.scenarios import SCENARIOS, Scenario

CASES = [
    pytest.param(scenario, minor, id=f"{scenario.name}-{minor}", marks=pytest.mark.minor(minor))
    for scenario in SCENARIOS
    for minor in scenario.minors
]


@pytest.mark.parametrize(("scenario", "minor"), CASES)
def test_gangctl_converges_after_a_fault_at_a_request_of_each_kind(scenario: Scenario, minor: str) -> None:
    wrong = verdict(scenario, minor, one_of_each)
    assert not wrong, "\n".join(wrong)


@pytest.mark.full("the whole matrix; a request of each kind is in the first tier")
@pytest.mark.parametrize(("scenario", "minor"), CASES)
def test_gangctl_converges_after_a_fault_at_every_request(scenario: Scenario, minor: str) -> None:
    wrong = verdict(scenario, minor, in_turn)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("kind", ["forbidden", "slow"])
def test_jobsets_are_evaluated_again_once_parameters_can_be_read(kind: str) -> None:
    [start] = [scenario for scenario in SCENARIOS if scenario.name == "policies-start"]
    late = Point("list", "configmaps", dry_run=False, nth=2)
    wrong = verdict(start, "1.37", lambda _: [[(late, kind)]])
    assert not wrong, "\n".join(wrong)
