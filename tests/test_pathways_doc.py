"""The commands of docs/pathways.md that need no cluster are run on the file that it shows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from gangctl.pathways.job import DeploymentMode
from gangctl.pathways.options import PathwaysOptions, Slicing, Startup
from gangctl.pathways.words import OPTIONS, UPSTREAM_LEASE, WORKER_MODE
from tests.docpages import ROOT, Page
from tests.rows import each

PAGE: Final = Page("pathways.md")
OURS: Final = [(line, code) for line, code in PAGE.commands if line.startswith("gangctl ") and "|" not in line]
ONLINE: Final = re.compile(r"gangctl (pathways status|pathways validate .*--context|fit|controller)\b")
OFFLINE: Final = [(line, code) for line, code in OURS if not ONLINE.match(line)]


def test_the_page_has_commands() -> None:
    assert len(OFFLINE) >= 5


@each(("command", "code"), OFFLINE)
def test_offline_commands_print_what_the_page_shows(command: str, code: int, tmp_path: Path) -> None:
    PAGE.says_something(command, code, tmp_path)


def test_every_option_is_described() -> None:
    section = PAGE.text.partition("## Options")[2].partition("\n## ")[0]
    named = set(re.findall(r"`([a-z]\w+)`", section))
    assert {each.alias for each in PathwaysOptions.model_fields.values()} <= named
    words = {*Startup, *(each for each in Slicing if each is not Slicing.NONE)}
    assert not [each for each in words if f"`{each}`" not in section]


@each("name", [WORKER_MODE, OPTIONS, UPSTREAM_LEASE, *DeploymentMode])
def test_names_are_those_of_the_code(name: str) -> None:
    assert name in PAGE.text


def test_the_page_has_the_examples() -> None:
    assert sorted(path.name for path in (ROOT / "examples" / "pathways").glob("*.yaml"))
