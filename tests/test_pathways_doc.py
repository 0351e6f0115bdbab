"""The commands of docs/pathways.md are run on the file that it shows; what needs a cluster is what other tests run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Final

import click

from gangctl.cli.controller import controller
from gangctl.cli.fit import fit
from gangctl.cli.pathways.commands import status, validate
from gangctl.cli.program import program
from gangctl.pathways.job import DeploymentMode
from gangctl.pathways.options import PathwaysOptions, Slicing, Startup
from gangctl.pathways.words import OPTIONS, UPSTREAM_LEASE, WORKER_MODE
from tests.docpages import ROOT, Page
from tests.rows import each

PAGE: Final = Page("pathways.md")
OURS: Final = [(line, code) for line, code in PAGE.commands if line.startswith("gangctl ") and "|" not in line]
ONLINE: Final = re.compile(r"gangctl (pathways status|pathways validate .*--context|fit|controller)\b")
VERBS: Final[dict[str, click.Command]] = {
    "pathways status": status,
    "pathways validate": validate,
    "fit": fit,
    "controller": controller,
}
OFFLINE: Final = [(line, code) for line, code in OURS if not ONLINE.match(line)]


def test_the_page_has_commands() -> None:
    assert len(OFFLINE) >= 5
    assert len(OURS) - len(OFFLINE) >= 4


@each(("command", "code"), OFFLINE)
def test_offline_commands_print_what_the_page_shows(command: str, code: int, tmp_path: Path) -> None:
    PAGE.says_something(command, code, tmp_path)


@each("command", [line for line, _ in OURS if ONLINE.match(line)])
def test_commands_that_need_a_cluster_take_these_flags(command: str) -> None:
    """tests/cli and tests/live run them."""
    verb = next(each for each in VERBS if command.startswith(f"gangctl {each}"))
    VERBS[verb].make_context(verb, shlex.split(command.removeprefix(f"gangctl {verb}")), **program.context_settings)


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
