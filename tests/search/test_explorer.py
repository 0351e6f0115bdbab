"""No state in which a gang waits, or is torn: of small worlds, all of them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, islice

import pytest

from tests.search.explorer import Explorer, Violation
from tests.search.known import KNOWN, Known, is_known
from tests.search.world import World
from tests.search.worlds import TABLE, generated, named

SHARDS = 8
FIRST_TIER = 100_000
PER_WORLD = 3_000
FULL_TIER = 5_000_000
PER_LARGE_WORLD = 100_000
FULL_SHARDS = 20


def explore(worlds: Iterable[World], limit: int, states: int = 0) -> tuple[int, list[Violation]]:
    """All of the worlds, or with ``states`` as many of them as have so many: states, and violations."""
    visited, violations = 0, list[Violation]()
    for world in worlds:
        explored = Explorer(world).run(limit, violations=3)
        visited += explored.states
        violations += explored.violations
        if 0 < states <= visited:
            break
    return visited, violations


def unknown(violations: list[Violation]) -> str:
    return "\n".join(str(violation) for violation in violations if not is_known(violation))


@pytest.mark.parametrize("shard", range(SHARDS))
def test_the_worlds_of_the_table_and_some_more(shard: int) -> None:
    visited, violations = explore(TABLE[shard::SHARDS], PER_WORLD)
    more, others = explore(generated(shard), PER_WORLD, max(1, FIRST_TIER // SHARDS - visited))
    assert unknown([*violations, *others]) == ""
    assert (visited + more) * SHARDS >= FIRST_TIER


@pytest.mark.full("five million states take a quarter of an hour of CPU")
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("shard", range(FULL_SHARDS))
def test_millions_of_states(shard: int) -> None:
    worlds = chain(TABLE[shard::FULL_SHARDS], generated(1_000 + shard))
    visited, violations = explore(worlds, PER_LARGE_WORLD, FULL_TIER // FULL_SHARDS)
    assert unknown(violations) == ""
    assert visited * FULL_SHARDS >= FULL_TIER


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: f"{known.finding}-{known.example}")
def test_what_is_known_is_still_there(known: Known) -> None:
    _, violations = explore([named(known.example)], 20_000)
    assert [found for found in violations if is_known(found, [known])] != [], "it is gone: delete it"


def test_the_same_seed_draws_the_same_worlds() -> None:
    assert list(islice(generated(7), 20)) == list(islice(generated(7), 20))
    assert list(islice(generated(7), 20)) != list(islice(generated(8), 20))


def test_a_world_is_explored_in_the_same_order_each_time() -> None:
    runs = [Explorer(TABLE[0]) for _ in range(2)]
    assert runs[0].run(500).states == runs[1].run(500).states
    assert list(runs[0]._parents) == list(runs[1]._parents)


def test_a_step_that_no_world_has_is_refused() -> None:
    with pytest.raises(ValueError, match=r"x: unknown steps or actors \['user\.sleep', 'cat'\], known are"):
        World("x", (), steps={"user.sleep": 1}, eager=frozenset({"cat"}))
