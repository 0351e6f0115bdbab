"""docs/doctor.md has a row for every check, with its question and what to do."""

from __future__ import annotations

import re
from typing import Final

from gangctl.cli.doctor.check import CheckVerdict
from gangctl.cli.doctor.checks import CHECKS
from tests.docpages import Page

PAGE: Final = Page("doctor.md")
ROWS: Final = re.findall(r"^\| `([\w-]+)` \| ([^|]*) \| ([^|]*) \|$", PAGE.text, flags=re.MULTILINE)


def test_every_check_has_its_row() -> None:
    assert [(row[0], row[1]) for row in ROWS] == [(check.id, check.question) for check in CHECKS]
    assert all(row[2] for row in ROWS)


def test_every_verdict_is_explained() -> None:
    assert re.findall(r"^\| `(\w+)` \| [^|]+ \|$", PAGE.text, flags=re.MULTILINE) == [
        each.value for each in CheckVerdict
    ]
