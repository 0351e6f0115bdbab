"""What gangctl says of a gang in random worlds, and mutants of it that the search has to kill."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from tests.search import stages, waiting
from tests.search.walks import Model

SHARDS = 4
FIRST_TIER = 400
FULL_TIER = 20_000

models = pytest.mark.parametrize("model", [waiting.MODEL, stages.MODEL], ids=["waiting", "stages"])
shards = pytest.mark.parametrize("shard", range(SHARDS))


@models
@shards
def test_a_gang_is_blocked_by_what_keeps_it_and_by_nothing_else(model: Model, shard: int) -> None:
    first = shard * FIRST_TIER
    assert model.search(range(first, first + FIRST_TIER)) == ""


@models
@shards
@pytest.mark.full("eighty thousand walks of each model take half an hour of CPU")
def test_a_gang_in_many_worlds(model: Model, shard: int) -> None:
    first = SHARDS * FIRST_TIER + shard * FULL_TIER
    assert model.search(range(first, first + FULL_TIER)) == ""


@models
def test_mutants_of_the_answer_are_killed(model: Model) -> None:
    alive = []
    for what, mutant in model.mutants:
        with patch.object(mutant.holder, mutant.name, mutant.exchange(getattr(mutant.holder, mutant.name))):
            if not model.search(range(SHARDS * FIRST_TIER)):
                alive.append(what)
    assert alive == []
