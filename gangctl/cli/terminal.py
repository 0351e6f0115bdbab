"""Sections on a terminal, with rich: colours, and cells that wrap at its width."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from gangctl.cli.messages import printable
from gangctl.cli.output import GAP, INDENT, NARROWEST, Section, Table


def _rich_table(table: Table, width: int) -> RichTable:
    """Names stay whole and the last column wraps; where even that is too wide, every cell folds."""
    shown = RichTable(box=None, pad_edge=False, padding=(0, len(GAP), 0, 0), header_style="bold")
    fits = table.offset + NARROWEST + len(INDENT) <= width
    for column, header in enumerate(table.headers):
        last = column == len(table.headers) - 1
        shown.add_column(
            header,
            justify="right" if column in table.right else "left",
            overflow="fold",
            no_wrap=fits and not last,
        )
    for row in table.rows:
        shown.add_row(*(Text(printable(cell)) for cell in row))
    return shown


def drawn(sections: Sequence[Section], width: int) -> Iterator[RenderableType]:
    """Sections for a terminal so wide, one blank line between them; names are text, never markup."""
    for number, section in enumerate(sections):
        if number:
            yield Text("")
        yield Text(printable(section.title), style="bold cyan")
        for line in section.lines:
            yield Padding(Text(printable(line)), (0, 0, 0, len(INDENT)))
        if section.table:
            yield Padding(_rich_table(section.table, width), (0, 0, 0, len(INDENT)))
        for warning in section.warnings:
            yield Padding(Text(f"! {printable(warning)}", style="yellow"), (0, 0, 0, len(INDENT)))


def print_on_terminal(sections: Sequence[Section], console: Console | None = None) -> None:
    """Print sections."""
    console = console or Console(highlight=False, soft_wrap=False)
    for each in drawn(sections, console.width):
        console.print(each)
