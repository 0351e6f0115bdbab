"""The commands of docs/readiness.md print what the page shows."""

from __future__ import annotations

import re
import shlex
from typing import Final

from gangctl.cli.gangs.files import DUMP
from gangctl.cli.gangs.watching import ENDLESS
from gangctl.readiness.result import GangPhase
from tests.docpages import Page
from tests.rows import each

PAGE: Final = Page("readiness.md")


def test_the_page_has_commands() -> None:
    verbs = [shlex.split(command)[1] for command, _, _ in PAGE.samples]
    assert verbs == ["get", "why", "why", "describe", "top"]


@each(("command", "code", "shown"), PAGE.samples)
def test_samples_are_what_is_printed(command: str, code: int, shown: str) -> None:
    PAGE.prints_what_it_shows(command, code, shown)


def test_every_phase_is_explained() -> None:
    section = PAGE.text.partition("\n## Phases\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", section, flags=re.MULTILINE)
    assert rows == [(phase.value, phase.sentence) for phase in GangPhase]


def test_the_causes_that_end_fail_fast_are_named() -> None:
    section = PAGE.text.partition("--fail-fast` it also")[2].partition("\n\n")[0]
    assert re.findall(r"`(\w+)`", section) == sorted(reason.value for reason in ENDLESS)


def test_the_dump_command_is_that_of_the_error_hints() -> None:
    (line,) = [line for line, _ in PAGE.commands if line.startswith("kubectl get jobsets")]
    assert line == f"{DUMP} > dump.yaml"
    assert f"`{DUMP} > dump.yaml`" in Page("troubleshooting.md").text
