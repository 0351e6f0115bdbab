"""docs/reliability.md names tests that exist, and leaves no row without one or a word about where it belongs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROWS = [line for line in (ROOT / "docs/reliability.md").read_text().splitlines() if re.match(r"\| \d+ \|", line)]
NAMES = sorted({name for row in ROWS for name in re.findall(r"`(tests/[\w/]+\.py(?:::\w+)?)`", row)})


def test_every_row_of_the_checklist_is_there() -> None:
    assert [int(row.split("|")[1]) for row in ROWS] == list(range(1, 29))


def test_only_these_rows_wait_for_a_room_of_their_own() -> None:
    assert [int(row.split("|")[1]) for row in ROWS if "`tests/" not in row] == [23]


@pytest.mark.parametrize("name", NAMES)
def test_it_names_tests_that_exist(name: str) -> None:
    path, _, test = name.partition("::")
    text = (ROOT / path).read_text()
    assert not test or re.search(rf"^(async )?def {test}\(", text, re.MULTILINE)
