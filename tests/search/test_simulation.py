"""No run of the simulation leaves a gang that waits or is torn, and one seed is one run."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from tests.search import memory
from tests.search.draws import draw
from tests.search.mutants import TABLE as MUTANTS
from tests.search.mutants import Mutant, applied
from tests.search.simulation import failures, play, replay, shrink

SHARDS = 10
FIRST_TIER = 50
FULL_SHARDS = 20
FULL_TIER = 5_000

HISTORY = """
import hashlib, logging, sys
import structlog
from tests.search.draws import draw
from tests.search.simulation import Totals, play
structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
for seed in map(int, sys.argv[1:]):
    totals = Totals()
    play(draw(seed), totals)
    print(seed, len(totals.requests), hashlib.sha256(repr(totals.requests).encode()).hexdigest())
"""


def shown(seeds: range) -> str:
    return "\n".join(map(str, failures(seeds)))


@pytest.mark.parametrize("shard", range(SHARDS))
def test_the_first_seeds(shard: int) -> None:
    assert shown(range(shard, FIRST_TIER, SHARDS)) == ""


@pytest.mark.full("five thousand seeds take an hour of CPU")
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("shard", range(FULL_SHARDS))
def test_thousands_of_seeds(shard: int) -> None:
    assert shown(range(shard, FULL_TIER, FULL_SHARDS)) == ""


@pytest.mark.parametrize("mutant", [one for one in MUTANTS if one.seed is not None], ids=lambda one: one.finding)
def test_the_simulation_kills(mutant: Mutant) -> None:
    assert mutant.shown_by is not None
    with applied(mutant):
        assert play(mutant.shown_by) != ""


def test_one_seed_is_one_run_whatever_the_order_of_hashes() -> None:
    seeds = ["2", "7"]
    command = [sys.executable, "-c", HISTORY, *seeds]
    runs = [
        subprocess.run(
            command, env={**os.environ, "PYTHONHASHSEED": number}, capture_output=True, text=True, check=True
        ).stdout
        for number in ("1", "2")
    ]
    assert len(runs[0].splitlines()) == len(seeds)
    assert runs[0] == runs[1]


def test_a_failure_is_shrunk_to_actions_that_show_it() -> None:
    [mutant] = [mutant for mutant in MUTANTS if mutant.finding == "order"]
    plan = replace(draw(7), actions=("label a", "create a", "wait 1", "wait 5"))
    with applied(mutant):
        failure = shrink(plan, play(plan))
        assert failure.what != ""
        assert failure.plan.actions == ("create a",)
        assert replay(7, failure.plan.actions) == failure.what
    assert "replay(7, [\n        'create a',\n    ])" in str(failure)
    assert replay(7, failure.plan.actions) == ""


def test_a_loop_in_which_nothing_can_happen_any_more_ends() -> None:
    with pytest.raises(RuntimeError, match="every task waits"):
        memory.run(0, lambda: asyncio.Event().wait())
