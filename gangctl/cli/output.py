"""Print results: documents for programs, tables for users, on a terminal in colours and fitted to its width."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click

from gangctl.api.emit import to_json, to_yaml
from gangctl.cli.messages import printable

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table as RichTable


def print_answer(
    form: str,
    objects: Sequence[Mapping[str, Any]],
    sections: Callable[[], Sequence[Section]] | None = None,
    names: Iterable[Mapping[str, Any]] | None = None,
) -> None:
    """Print a result in a format of ``-o``; ``names`` are the objects for ``-o name``, if these differ."""
    if form == "table" and sections is not None:
        print_sections(sections())
    elif form == "name":
        print_names(objects if names is None else names)
    else:
        print_objects(objects, form)


def answer_no() -> NoReturn:
    """Exit with the code of a failed check."""
    raise click.exceptions.Exit(1)


def print_objects(objects: Sequence[Mapping[str, Any]], form: str) -> None:
    """Print objects as one JSON document or as a stream of YAML documents."""
    click.echo(to_json(objects) if form == "json" else to_yaml(objects), nl=False)


def print_names(objects: Iterable[Mapping[str, Any]]) -> None:
    """Print ``kind.group/name`` of each object, as ``kubectl -o name`` does."""
    for each in objects:
        group, slash, _ = str(each["apiVersion"]).partition("/")
        kind = str(each["kind"]).lower()
        click.echo(f"{kind}.{group}/{each['metadata']['name']}" if slash else f"{kind}/{each['metadata']['name']}")


_WIDTH: Final = 80
_TEXT_WIDTH: Final = 78
INDENT: Final = "  "
GAP: Final = "  "
_NARROWEST: Final = 12


def wrapped(text: str, first: str = "", following: str = "") -> list[str]:
    """A text in lines of readable width, with names unbroken, and prefixes of the first and of other lines."""
    return wrap(
        text,
        _TEXT_WIDTH,
        initial_indent=first,
        subsequent_indent=following,
        break_long_words=False,
        break_on_hyphens=False,
    )


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under headers; every cell is plain text."""

    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[int] = frozenset()
    """Columns of numbers."""

    @property
    def widths(self) -> tuple[int, ...]:
        """Widths of all columns but the last."""
        columns = range(len(self.headers) - 1)
        return tuple(max(len(row[column]) for row in (self.headers, *self.rows)) for column in columns)

    @property
    def offset(self) -> int:
        """Start of the last column."""
        return sum(width + len(GAP) for width in self.widths)


@dataclass(frozen=True, slots=True)
class Section:
    """Text about one object: a title, lines, an optional table, and warnings."""

    title: str
    lines: tuple[str, ...] = ()
    table: Table | None = None
    warnings: tuple[str, ...] = ()


def without_colour() -> bool:
    """Whether ``--no-color`` disables colours."""
    context = click.get_current_context(silent=True)
    return context is not None and context.color is False


def wants_colour() -> bool:
    """Whether stdout is a terminal, and colours are not disabled."""
    if without_colour() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return sys.stdout.isatty()


def print_sections(sections: Sequence[Section]) -> None:
    """Print text: in colours and fitted to the width on a terminal, else plain text that scripts can parse."""
    if wants_colour():
        print_on_terminal(sections)
        return
    click.echo("\n".join("".join(f"{line}\n" for line in plain_lines(section)) for section in sections), nl=False)


def plain_lines(section: Section) -> list[str]:
    """A section as lines of text."""
    lines = [section.title, *(f"{INDENT}{line}" for line in section.lines)]
    if section.table:
        lines += [f"{INDENT}{line}" for line in _plain_table(section.table)]
    for warning in section.warnings:
        lines += wrap(printable(warning), _WIDTH, initial_indent=f"{INDENT}! ", subsequent_indent=f"{INDENT}  ")
    return [printable(line) for line in lines]


def _plain_table(table: Table) -> list[str]:
    """Columns as wide as needed, the last one wrapped to the rest of the line."""
    rows = [table.headers, *table.rows]
    widths, offset = table.widths, table.offset
    left = max(_WIDTH - len(INDENT) - offset, _NARROWEST)
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if column in table.right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=False))
        ]
        first, *rest = wrap(row[-1], left, break_long_words=False, break_on_hyphens=False) or [""]
        lines.append(GAP.join([*cells, first]).rstrip())
        lines += [" " * offset + line for line in rest]
    return lines


def _rich_table(table: Table, width: int) -> RichTable:
    """Names stay unbroken and the last column wraps; if that is too wide, every cell folds."""
    from rich.table import Table as RichTable  # noqa: PLC0415 -- rich, only where it shows
    from rich.text import Text  # noqa: PLC0415

    shown = RichTable(box=None, pad_edge=False, padding=(0, len(GAP), 0, 0), header_style="bold")
    fits = table.offset + _NARROWEST + len(INDENT) <= width
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
    """Sections for a terminal width, separated by blank lines; names are text, never markup."""
    from rich.padding import Padding  # noqa: PLC0415 -- rich, only where it shows
    from rich.text import Text  # noqa: PLC0415

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
    """Print sections with rich."""
    from rich.console import Console  # noqa: PLC0415 -- rich, only where it shows

    console = console or Console(highlight=False, soft_wrap=False)
    for each in drawn(sections, console.width):
        console.print(each)
