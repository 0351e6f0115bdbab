"""docs/doctor.md has a row for every check, with its question and what to do, and commands with flags that exist."""

from __future__ import annotations

import re
import shlex
from typing import Final

from gangctl.cli.doctor.check import CheckVerdict
from gangctl.cli.doctor.checks import CHECKS
from gangctl.cli.doctor.command import command
from tests.docpages import ROOT, Page
from tests.rows import each

PAGE: Final = Page("doctor.md")
ROWS: Final = re.findall(r"^\| `([\w-]+)` \| ([^|]*) \| ([^|]*) \|$", PAGE.text, flags=re.MULTILINE)


def test_every_check_has_its_row() -> None:
    assert [(row[0], row[1]) for row in ROWS] == [(check.id, check.question) for check in CHECKS]
    assert all(row[2] for row in ROWS)


def test_every_verdict_is_explained() -> None:
    assert re.findall(r"^\| `(\w+)` \| [^|]+ \|$", PAGE.text, flags=re.MULTILINE) == [
        each.value for each in CheckVerdict
    ]


@each("line", [line for line, _ in PAGE.commands])
def test_commands_take_these_flags(line: str) -> None:
    """tests/cli/doctor and tests/live run them."""
    program, verb, *arguments = shlex.split(line)
    assert (program, verb) == ("gangctl", "doctor")
    command.make_context(verb, arguments, help_option_names=["-h", "--help"])


def test_there_are_commands_and_linked_pages() -> None:
    assert len(PAGE.commands) >= 4
    for name in re.findall(r"\]\(([\w./-]+)\)", PAGE.text):
        assert (ROOT / "docs" / name).exists(), name
