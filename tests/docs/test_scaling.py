"""docs/scaling.md: its command runs, and its numbers are those of the code and the manifests, or follow from others."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from gangctl.manager.settings import ControllerSettings
from gangctl.runtime.shards import shard_of
from tests.docpages import Page
from tests.docs.tables import rows
from tests.manifests.test_flowcontrol import LEVEL, SEATS, SHIPPED_SHARES, seats
from tests.rows import each

PAGE: Final = Page("scaling.md")
NAMESPACES: Final = (
    [f"team-{number:02}" for number in range(64)],
    [f"team-{number}" for number in range(1, 11)],
    [f"user-{number:04}" for number in range(1000)],
)
A_SECOND: Final = 1000 / 60


def reported(head: str) -> list[list[str]]:
    """The rows of the table with this first heading."""
    found = list(rows(PAGE.text.partition(f"\n| {head} |")[2].partition("\n\n")[0]))
    assert found, head
    return found[1:]


def fnv_1a(text: str) -> int:
    """The hash of ``shardSelector``."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def number(text: str) -> float:
    """The first one in a text."""
    (found, *_) = re.findall(r"\d[\d,]*\.?\d*", text)
    return float(found.replace(",", ""))


@each(("command", "code"), PAGE.commands)
def test_the_command_runs(command: str, code: int, tmp_path: Path) -> None:
    PAGE.keeps_its_word(command, code, tmp_path)


def test_there_is_a_command() -> None:
    assert len(PAGE.commands) == 1


@each(("names", "row"), [*zip(NAMESPACES, reported("namespaces"), strict=True)], ids=lambda each: each[0])
def test_names_are_spread_over_shards_as_described(names: list[str], row: list[str]) -> None:
    assert re.findall(r"`(\S+)`", row[0]) == [names[0], names[-1]]
    ranges = Counter(fnv_1a(name) >> 63 for name in names)
    shards = Counter(shard_of(name, 2) for name in names)
    halves = (ranges[0], ranges[1])
    assert row[1] in {f"{halves[0]} / {halves[1]}", f"{halves[1]} / {halves[0]}"}
    assert row[2] == f"{shards[0]} / {shards[1]}"


def test_seats_are_those_of_the_priority_level() -> None:
    (said,) = re.findall(
        r"(\d+) shares beside the (\d+) of the shipped levels: nominally (\d+) seats of (\d+), "
        r"never fewer than (\d+), never more than (\d+)",
        PAGE.text,
    )
    nominal, least, most = seats()
    wanted = (LEVEL["nominalConcurrencyShares"], SHIPPED_SHARES, nominal, SEATS, least, most)
    assert tuple(map(int, said)) == wanted
    assert f"({ControllerSettings().api_qps:.0f} a second" in PAGE.text


def test_rates_follow_from_what_one_gang_costs() -> None:
    costs = {row[0]: row for row in reported("of one gang")}
    for row in costs.values():
        each, rate = number(row[1]), number(row[2])
        if re.search(r"\d (of a core|cores)$", row[2]):
            assert rate == pytest.approx(each / 1000 * A_SECOND, abs=0.06), row
        elif "%" not in row[2]:
            assert rate == pytest.approx(each * A_SECOND, rel=0.03), row


def test_the_table_of_shards_follows_from_the_costs() -> None:
    alone, standby = (
        number(row[1]) for row in reported("of one gang") if row[0].startswith(("CPU of a gangctl", "CPU of one that"))
    )
    writes = number(reported("of one gang")[0][1])
    for row in reported("shards"):
        shards = number(row[0])
        core = (standby + (alone - standby) / shards) / 1000 * A_SECOND
        assert number(row[1]) == pytest.approx(core, abs=0.01)
        assert number(row[2]) == pytest.approx(writes * A_SECOND / shards, abs=1)
        assert number(row[3]) == pytest.approx(29.7 / shards, abs=0.6)
        assert (number(row[1]) < 0.5) == (shards >= 4), "four is the first number that leaves a loop half idle"
