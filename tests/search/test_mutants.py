"""The search notices every finding of the reviews that comes back and that a state can show."""

from __future__ import annotations

import pytest

from gangctl.controllers import gangs
from tests.search.mutants import TABLE, Mutant, applied, killed

EXPLORED = [mutant for mutant in TABLE if mutant.ground == "explorer"]
FINDINGS = [*"ABCDEFGHIJKLMNO", *(f"C{number}" for number in range(1, 12))]


@pytest.mark.parametrize("mutant", EXPLORED, ids=lambda mutant: mutant.finding)
def test_the_explorer_kills(mutant: Mutant) -> None:
    violation = killed(mutant)
    assert violation is not None, f"{mutant.finding} ({mutant.what}) survives in {mutant.worlds}"


def test_every_finding_has_a_mutant_or_another_ground() -> None:
    assert [finding for finding in FINDINGS if finding not in {mutant.finding for mutant in TABLE}] == []


def test_a_mutant_is_gone_afterwards() -> None:
    mutant = next(mutant for mutant in EXPLORED if mutant.finding == "C4")
    before = gangs.diff  # type: ignore[attr-defined]
    with applied(mutant):
        assert gangs.diff is not before  # type: ignore[attr-defined]
    assert gangs.diff is before  # type: ignore[attr-defined]
