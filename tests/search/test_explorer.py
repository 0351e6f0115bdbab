"""No state in which a gang waits, or is torn: of small worlds, all of them."""

from __future__ import annotations

from itertools import islice

import pytest

from tests.search.explorer import Explorer, Violation
from tests.search.known import KNOWN, is_known
from tests.search.world import World
from tests.search.worlds import TABLE, generated

SHARDS = 8
FIRST_TIER = 100_000
PER_WORLD = 3_000
FULL_TIER = 5_000_000
PER_LARGE_WORLD = 100_000
FULL_SHARDS = 20


def explore(worlds: list[World], limit: int, states: int) -> tuple[int, list[Violation]]:
    """At least so many states, if the worlds have them: how many, and the violations."""
    visited, violations = 0, list[Violation]()
    for world in worlds:
        if visited >= states:
            break
        explored = Explorer(world).run(limit, violations=3)
        visited += explored.states
        violations += explored.violations
    return visited, violations


def unknown(violations: list[Violation]) -> str:
    return "\n".join(str(violation) for violation in violations if not is_known(violation))


@pytest.mark.parametrize("shard", range(SHARDS))
def test_the_worlds_of_the_table(shard: int) -> None:
    visited, violations = explore(list(TABLE[shard::SHARDS]), PER_WORLD, FIRST_TIER)
    assert unknown(violations) == ""
    assert visited * SHARDS >= FIRST_TIER


@pytest.mark.full("five million states take a quarter of an hour of CPU")
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("shard", range(FULL_SHARDS))
def test_more_states(shard: int) -> None:
    worlds = [*TABLE[shard::FULL_SHARDS], *islice(generated(shard), 1000)]
    visited, violations = explore(worlds, PER_LARGE_WORLD, FULL_TIER // FULL_SHARDS)
    assert unknown(violations) == ""
    assert visited * FULL_SHARDS >= FULL_TIER


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: known.finding)
def test_what_is_known_is_still_there(known: object) -> None:
    worlds = [world for world in TABLE if any(world.name.startswith(each.world) for each in KNOWN if each is known)]
    assert [is_known(found) for found in explore(worlds, 20_000, FIRST_TIER)[1]], f"{known} is gone: delete it"


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
