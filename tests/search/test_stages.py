"""What gangctl says of a gang of which any controller may stop, and mutants of it that the search has to kill."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from tests.rows import each
from tests.search.mutants import Patch
from tests.search.stages import MUTANTS, Walk, search, violation

SHARDS = 4
FIRST_TIER = 400
FULL_TIER = 20_000


def shown(walk: Walk | None) -> str:
    return "" if walk is None else f"{violation(walk)}: {walk}"


@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_gang_that_waits_for_good_is_blocked_by_who_stopped(shard: int) -> None:
    first = shard * FIRST_TIER
    assert shown(search(range(first, first + FIRST_TIER))) == ""


@pytest.mark.full("eighty thousand walks take a quarter of an hour of CPU")
@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_gang_in_many_worlds(shard: int) -> None:
    first = SHARDS * FIRST_TIER + shard * FULL_TIER
    assert shown(search(range(first, first + FULL_TIER))) == ""


@each(("what", "mutant"), MUTANTS)
def test_a_mutant_of_the_answer_is_killed(what: str, mutant: Patch) -> None:
    with patch.object(mutant.holder, mutant.name, mutant.exchange(getattr(mutant.holder, mutant.name))):
        assert search(range(SHARDS * FIRST_TIER)) is not None, what
