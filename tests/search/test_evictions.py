"""The cure in every state of a small world, and mutants of it that the search has to kill."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from tests.search.evictions import MUTANTS, WORLDS, World, search
from tests.search.mutants import Patch


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name.replace(" ", "-"))
def test_no_state_is_evicted_too_soon_or_held_permanently(world: World) -> None:
    states, found = search(world)
    assert found is None
    assert states > 500


@pytest.mark.parametrize(("what", "mutant"), MUTANTS, ids=["hope", "autoscaler", "delay", "spare", "nothing"])
def test_a_mutant_of_the_cure_is_killed(what: str, mutant: Patch) -> None:
    with patch.object(mutant.holder, mutant.name, mutant.exchange(getattr(mutant.holder, mutant.name))):
        found = [search(world)[1] for world in WORLDS]
    assert any(found), what
