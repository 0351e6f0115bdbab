"""docs/reliability.md names tests that exist, and leaves no row without one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROWS = [line for line in (ROOT / "docs/reliability.md").read_text().splitlines() if re.match(r"\| \d+ \|", line)]
NAMES = sorted({name for row in ROWS for name in re.findall(r"`(tests/[\w/]+\.py(?:::\w+)?)`", row)})


def test_every_row_of_the_checklist_is_there() -> None:
    assert [int(row.split("|")[1]) for row in ROWS] == list(range(1, 34))


def test_every_row_names_a_test() -> None:
    assert [int(row.split("|")[1]) for row in ROWS if "`tests/" not in row] == []


@pytest.mark.parametrize("name", NAMES)
def test_it_names_tests_that_exist(name: str) -> None:
    path, _, test = name.partition("::")
    text = (ROOT / path).read_text()
    assert not test or re.search(rf"^(async )?def {test}\(", text, re.MULTILINE)
