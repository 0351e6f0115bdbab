"""Writes docs/reference/cli.md and a page for each command from ``--help``: what it does, and its flags.

python -m tests.cli.reference
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from gangctl.cli.program import EPILOG, program
from tests.cli.publishedschemas import OF_COMMANDS

DIRECTORY: Final = Path(__file__).parents[2] / "docs" / "reference"
INDEX: Final = "cli.md"
WRITTEN: Final = "Written by `python -m tests.cli.reference` from the commands."

_HEAD: Final = """\
# Command line

Look up a command, its flags and exit codes. [Get the command line](../cli.md) says how to install it.

`kubectl gang` is the same program under another name. Every command takes `-h` and `--help`, which say what is said
here. Messages go to stderr; stdout has the answer and nothing else. Tables begin with their header, and are not
wrapped; a terminal also shows what their columns mean. `-o json` prints one JSON document, lists and several objects as
a `v1` `List`. `-o jsonpath=...`, `-o custom-columns=...` and `--sort-by` have the syntax of kubectl.
"""


class Entry:
    """One command: its words, such as ``queue list``, and its click object."""

    def __init__(self, command: click.Command, context: click.Context) -> None:
        """``context`` is the command's own."""
        self.command = command
        self.context = context
        self.name = context.command_path

    @property
    def page(self) -> str:
        """The page that has it."""
        return f"cli-{'-'.join(self.name.split()[1:])}.md"

    @property
    def schema(self) -> str:
        """The file below docs that describes one object of ``-o json``; empty where none does."""
        name = OF_COMMANDS.get(self.name.partition(" ")[2])
        return f"{name}.schema.json" if name else ""

    @property
    def flags(self) -> list[tuple[str, str]]:
        """Each flag with its value, and its help."""
        options = [each for each in self.command.get_params(self.context) if isinstance(each, click.Option)]
        records = [each.get_help_record(self.context) for each in options if "--help" not in each.opts]
        return [record for record in records if record is not None]


def entries() -> list[Entry]:
    """Every command in the order of ``--help``, groups before what is in them."""
    return list(_below(program, click.Context(program, info_name="gangctl", **program.context_settings)))


def _below(command: click.Command, context: click.Context) -> Iterator[Entry]:
    if command is not program:
        yield Entry(command, context)
    if not isinstance(command, click.Group):
        return
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        if found is not None and not found.hidden:
            yield from _below(found, click.Context(found, context, info_name=name))


def pages() -> dict[str, str]:
    """The text of each page by its name: an index, and one for each command that does something."""
    found = [each for each in entries() if not isinstance(each.command, click.Group)]
    index = "\n".join([_HEAD, *_index(found), *_exit_codes(), WRITTEN, ""])
    return {INDEX: index, **{each.page: "\n".join(_page(each)) for each in found}}


def _index(found: list[Entry]) -> Iterator[str]:
    """One line for each command that does something."""
    yield "| command | |"
    yield "|---|---|"
    for each in found:
        yield f"| [`{each.name}`]({each.page}) | {_cell(each.command.get_short_help_str(limit=200))} |"
    yield ""


def _exit_codes() -> Iterator[str]:
    rows = [line.split(maxsplit=1) for line in EPILOG.splitlines() if line.startswith("  ")]
    yield "## Exit codes"
    yield ""
    yield "| code | |"
    yield "|---|---|"
    yield from (f"| {code} | {_cell(text)} |" for code, text in rows)
    yield ""


def _page(entry: Entry) -> Iterator[str]:
    yield from (f"# {entry.name}", "")
    yield from _help(entry.command.help or "")
    usage = " ".join(entry.command.collect_usage_pieces(entry.context))
    yield from ("```text", f"{entry.name} {usage}", "```", "")
    if entry.flags:
        yield "| flag | |"
        yield "|---|---|"
        yield from (f"| `{_cell(flag)}` | {_cell(text)} |" for flag, text in entry.flags)
        yield ""
    if entry.schema:
        yield f"One object of `-o json` has the shape of [{entry.schema}](../{entry.schema})."
        yield ""
    yield from (f"[Exit codes]({INDEX}#exit-codes). {WRITTEN}", "")


def _help(text: str) -> Iterator[str]:
    """Paragraphs as they are; what click keeps line by line (``\\b``) as examples, or as a block."""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        lines = paragraph.splitlines()
        if lines[0] != "\b":
            yield from lines
        elif lines[1].endswith(":"):
            yield from (lines[1], "", *(f"  {line}" for line in lines[2:]))
        else:
            yield from ("```text", *lines[1:], "```")
        yield ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    for name, text in pages().items():
        (DIRECTORY / name).write_text(text, encoding="utf-8")
