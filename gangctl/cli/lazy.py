"""Groups of commands of which only the one that was asked for is imported."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, ClassVar

import click

Commands = Mapping[str, tuple[str, str]]
"""Module and one-line help by name. The command is the attribute of that name in the module, or ``command``."""


class LazyGroup(click.Group):
    """A group that lists its commands from a table."""

    table: ClassVar[Commands] = {}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 -- click's signature
        """All names, without importing anything."""
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 -- click's signature
        """Import one command."""
        if cmd_name not in self.table:
            return None
        module = importlib.import_module(self.table[cmd_name][0])
        command = getattr(module, cmd_name, None) or getattr(module, "command", None)
        assert isinstance(command, click.Command)  # noqa: S101 -- a slip in the table
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the commands for ``--help`` from the table alone."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, help_line) for name, (_, help_line) in self.table.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Complete names of commands from the table, and options as click does."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 -- only while completing

        names = [
            CompletionItem(name, help=line) for name, (_, line) in self.table.items() if name.startswith(incomplete)
        ]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]
