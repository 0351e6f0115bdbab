"""The table of causes in docs/causes.md is what the tests have: every cause, and tests that exist."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gangctl.gang.reasons import Reason
from gangctl.readiness.causes import TIERS, WAITING
from gangctl.readiness.causes.context import Command
from tests.docpages import ROOT
from tests.live.causes_found import BEGIN, END, PAGE, Row, rows, suggested, table
from tests.rows import each

SNAPSHOT = "snapshot; "
ROWS = rows()
RANKED = {*WAITING, *(reason for _, reasons in TIERS for reason in reasons)}


def test_the_page_has_the_table() -> None:
    """``python -m tests.live.causes_found`` writes it."""
    shown = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    assert shown.strip() == table()


def test_every_cause_is_in_it() -> None:
    assert {row.reason for row in ROWS} == RANKED


def test_causes_that_a_real_control_plane_can_show_are_tested_on_one() -> None:
    real = {row.reason for row in ROWS if row.real}
    assert Reason.UNSCHEDULABLE in real
    unexplained = RANKED - real - {row.reason for row in ROWS if row.how.startswith(SNAPSHOT)}
    assert not unexplained, without_a_real_situation(unexplained)


def without_a_real_situation(reasons: Iterable[Reason]) -> str:
    return (
        f"no real control plane shows {', '.join(sorted(reasons))}: add a situation to tests/live/*_situations.py, or "
        f"begin the text of one in tests/cli/gangs/stored_situations.py with '{SNAPSHOT}WHY', where WHY is why a real "
        "one cannot show it"
    )


def test_a_cause_without_a_real_situation_is_named_with_what_to_write() -> None:
    assert "shows NeverFits: add a situation to tests/live" in without_a_real_situation({Reason.NEVER_FITS})
    assert "'snapshot; WHY'" in without_a_real_situation({Reason.NEVER_FITS})


def test_every_command_is_run_in_a_situation_that_it_is_suggested_for() -> None:
    """That no cause suggests a command without one: ``tests/readiness/causes/finding.py``."""
    assert {command for _, command in suggested()} == set(Command)
    assert {reason for reason, _ in suggested()} == RANKED - {Reason.FINISHED_HOLDS_QUOTA}


@each("row", ROWS, ids=lambda row: row.test.rpartition("/")[2])
def test_named_tests_exist(row: Row) -> None:
    path, _, name = row.test.partition("::")
    found = re.search(rf"^(async )?def {name.partition('[')[0]}\(", (ROOT / path).read_text("utf-8"), re.MULTILINE)
    assert found, row.test
