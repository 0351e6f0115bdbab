"""The search notices every finding of the reviews that comes back and that a state can show."""

from __future__ import annotations

import pytest

from gangctl.gang import plan
from tests.search.known import NOT_REPAIRED
from tests.search.mutants import TABLE, Mutant, applied, killed

EXPLORED = [mutant for mutant in TABLE if mutant.ground == "explorer"]
FINDINGS = [*"ABCDEFGHIJKLMNO", *(f"C{number}" for number in range(1, 12))]


@pytest.mark.parametrize("mutant", EXPLORED, ids=lambda mutant: mutant.finding)
def test_the_explorer_kills(mutant: Mutant) -> None:
    if mutant.finding in NOT_REPAIRED:
        pytest.skip("not repaired")
    violation = killed(mutant)
    assert violation is not None, f"{mutant.finding} ({mutant.what}) survives in {mutant.worlds}"


def test_every_finding_has_a_mutant_or_another_ground() -> None:
    assert [finding for finding in FINDINGS if finding not in {mutant.finding for mutant in TABLE}] == []


def test_every_mutant_of_a_search_has_a_patch_and_is_killed_there() -> None:
    searched = [mutant for mutant in TABLE if mutant.ground in {"explorer", "simulation"}]
    assert [mutant.finding for mutant in searched if not mutant.patches] == []
    assert [mutant.finding for mutant in searched if mutant.ground == "simulation" and mutant.seed is None] == []


def test_a_mutant_is_gone_afterwards() -> None:
    mutant = next(mutant for mutant in EXPLORED if mutant.finding == "A")
    before = plan.pods_that_can_exist
    with applied(mutant):
        assert plan.pods_that_can_exist is not before
    assert plan.pods_that_can_exist is before
