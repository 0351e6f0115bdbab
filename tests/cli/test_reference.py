"""The reference of commands has all of their help."""

from __future__ import annotations

import json
import re
from typing import Final

import click

from gangctl.cli.program import BROKEN_PIPE, INTERNAL_ERROR, INTERRUPTED, program
from tests.cli import reference
from tests.cli.publishedschemas import OF_COMMANDS, OF_FLAGS, schema_of
from tests.cli.run import gangctl
from tests.rows import each

PAGES: Final = reference.pages()
DOCS: Final = reference.DIRECTORY.parent
ENTRIES: Final = [entry for entry in reference.entries() if entry.page in PAGES]


def test_the_reference_is_generated_from_the_commands() -> None:
    there = {path.name: path.read_text(encoding="utf-8") for path in reference.DIRECTORY.glob("cli*.md")}
    assert there == PAGES, reference.__doc__


def test_every_command_of_the_help_has_a_page() -> None:
    commands = program.list_commands(click.Context(program))
    assert {name for name in commands if not any(re.match(rf"cli-{name}[-.]", page) for page in PAGES)} == set()


@each("entry", ENTRIES, ids=lambda entry: entry.name)
def test_every_flag_that_the_program_shows_is_named(entry: reference.Entry) -> None:
    section = PAGES[entry.page]
    shown = gangctl(*entry.name.split()[1:], "--help").out.partition("\nOptions:")[2].partition("\nCommands:")[0]
    flags = set(re.findall(r"^  (?:-\w, )?(--[\w-]+)", shown, flags=re.MULTILINE)) - {"--help"}
    assert flags == set(re.findall(r"^\| `(?:-\w, )?(--[\w-]+)", section, flags=re.MULTILINE))


def test_every_schema_of_a_command_is_named_where_the_command_prints_json() -> None:
    """And no other: that of policy tests is of a file that people write."""
    named = {entry.name.partition(" ")[2]: entry.schema for entry in ENTRIES if entry.schema}
    assert named.keys() == OF_COMMANDS.keys()
    of_flags = {f"{name}.schema.json" for name in OF_FLAGS.values()}
    assert set(named.values()) | of_flags == {
        path.name for path in DOCS.glob("*.schema.json") if path.name != "gangctl-test.schema.json"
    }
    for name in named:
        (output,) = [
            flag for entry in ENTRIES if entry.name == f"gangctl {name}" for flag, _ in entry.flags if "-o," in flag
        ]
        assert "json" in output


@each("name", sorted({*OF_COMMANDS.values(), *OF_FLAGS.values()}))
def test_every_schema_is_made_by_its_name(name: str) -> None:
    made = schema_of(name)
    assert json.loads((DOCS / f"{name}.schema.json").read_text(encoding="utf-8")) == made


def test_exit_codes_are_those_of_the_program() -> None:
    named = set(map(int, re.findall(r"^\| (\d+) \|", PAGES[reference.INDEX], flags=re.MULTILINE)))
    assert {0, 1, 2, 3, INTERNAL_ERROR} <= named
    assert not named - {0, 1, 2, 3, INTERNAL_ERROR, INTERRUPTED, BROKEN_PIPE}
