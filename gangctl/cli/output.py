"""Printing answers: documents for programs, tables for people."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any, Final

import click

from gangctl.api.emit import to_json, to_yaml
from gangctl.cli.messages import printable


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
INDENT: Final = "  "
GAP: Final = "  "
NARROWEST: Final = 12


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under headers; every cell is plain text."""

    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[int] = frozenset()
    """Columns of numbers."""

    @property
    def widths(self) -> tuple[int, ...]:
        """What every column but the last needs."""
        columns = range(len(self.headers) - 1)
        return tuple(max(len(row[column]) for row in (self.headers, *self.rows)) for column in columns)

    @property
    def offset(self) -> int:
        """Where the last column begins."""
        return sum(width + len(GAP) for width in self.widths)


@dataclass(frozen=True, slots=True)
class Section:
    """What a person reads about one object: a title, lines, perhaps a table, and warnings."""

    title: str
    lines: tuple[str, ...] = ()
    table: Table | None = None
    warnings: tuple[str, ...] = ()


def wants_colour(*, no_color: bool) -> bool:
    """Whether stdout is a terminal of somebody who did not say no to colours."""
    return not no_color and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and sys.stdout.isatty()


def print_sections(sections: Sequence[Section], *, no_color: bool) -> None:
    """Print for a person: in colours and fitted to the width on a terminal, else plain text that scripts can cut."""
    if wants_colour(no_color=no_color):
        from gangctl.cli.terminal import print_on_terminal  # noqa: PLC0415 -- rich, only where it shows

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
    """Columns as wide as they need to be, the last one wrapped to what is left of the line."""
    rows = [table.headers, *table.rows]
    widths, offset = table.widths, table.offset
    left = max(_WIDTH - len(INDENT) - offset, NARROWEST)
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
