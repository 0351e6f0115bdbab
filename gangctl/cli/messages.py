"""What goes to stderr: errors, hints and notes. Stdout belongs to the answer alone."""

from __future__ import annotations

import click

from gangctl.errors import GangctlError, InputError
from gangctl.errors import escaped as printable

__all__ = ["InvalidInputError", "note", "plural", "print_error", "printable"]


class InvalidInputError(InputError):
    """Everything that is wrong with the input, one line each: ``file:line:column: field.path: detail``."""

    def __init__(self, lines: list[str], summary: str, *, hint: str = "") -> None:
        """Keep the lines; ``summary`` is the message."""
        super().__init__(summary, hint=hint)
        self.lines = lines


def plural(count: int, noun: str) -> str:
    """How many there are of something.

    >>> plural(1, "pod"), plural(2, "pod")
    ('1 pod', '2 pods')
    """
    return f"{count} {noun}{'' if count == 1 else 's'}"


def note(text: str) -> None:
    """Print something that is good to know and changes nothing."""
    click.echo(f"note: {printable(text)}", err=True)


def print_error(error: GangctlError) -> None:
    """Print an error, its details before it and its hint after it."""
    for line in getattr(error, "lines", ()):
        click.echo(printable(line), err=True)
    for number, line in enumerate(error.message.splitlines() or [error.code]):
        click.echo(("error: " if number == 0 else "       ") + printable(line), err=True)
    if error.hint:
        click.echo(f"hint: {printable(error.hint)}", err=True)
