"""``gangctl get --watch``: print each gang again when it changes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Final

import click

from gangctl.api.emit import to_yaml
from gangctl.api.objects import Key
from gangctl.cli.gangs.asking import Asking, live
from gangctl.cli.gangs.cluster import Reader
from gangctl.cli.gangs.views import HEADERS, gang_row
from gangctl.cli.gangs.watching import Watch
from gangctl.cli.messages import printable
from gangctl.cli.output import GAP, print_names
from gangctl.readiness.phases import GangPhase
from gangctl.readiness.report import gang_object
from gangctl.readiness.result import Readiness

GONE: Final = "(deleted)"
_WIDTHS: Final = (12, 20, 16, 7, 18, 12, 6)
"""Minimum widths of columns, for later rows; the last column needs none."""


def print_changes(asking: Asking, phases: Collection[GangPhase], form: str) -> None:
    """Print gangs until Ctrl-C; with ``phases`` only while they are in, or leave, one of these."""

    async def follow(reader: Reader, _keys: list[Key]) -> None:
        printer = _Printer(form)
        watch = Watch(reader)
        async with aclosing(watch.turns()) as turns:
            async for changes in turns:
                shown = [
                    (before, after)
                    for _, before, after in changes
                    if _differs(before, after) and (not phases or _in(before, phases) or _in(after, phases))
                ]
                printer.show(shown)

    live(asking, follow, watching=True)


def _in(gang: Readiness | None, phases: Collection[GangPhase]) -> bool:
    return gang is not None and gang.phase in phases


def _differs(before: Readiness | None, after: Readiness | None) -> bool:
    """Whether the output differs."""
    if before is None or after is None:
        return before is not after
    return _cells(before) != _cells(after)


def _cells(gang: Readiness) -> tuple[str, ...]:
    return gang_row(gang, 0)[:6]


class _Printer:
    """One row, document or name at a time."""

    def __init__(self, form: str) -> None:
        self._form = form
        self._widths: Sequence[int] = ()
        self._documents = 0

    def show(self, changes: Sequence[tuple[Readiness | None, Readiness | None]]) -> None:
        now = datetime.now(UTC).timestamp()
        if self._form == "table":
            self._rows([self._row(before, after, now) for before, after in changes])
            return
        for _, after in changes:
            if after is None:
                continue
            if self._form == "name":
                print_names([gang_object(after)])
            else:
                click.echo(("---\n" if self._documents else "") + to_yaml([gang_object(after)]), nl=False)
                self._documents += 1

    def _row(self, before: Readiness | None, after: Readiness | None, now: float) -> tuple[str, ...]:
        if after is not None:
            return gang_row(after, now)
        assert before is not None  # noqa: S101 -- a change has one of the two
        row = gang_row(before, now)
        return (*row[:2], GONE, "-", "-", *row[5:])

    def _rows(self, rows: Sequence[tuple[str, ...]]) -> None:
        if not self._widths:
            columns = range(len(_WIDTHS))
            self._widths = [max(_WIDTHS[at], *(len(row[at]) for row in (HEADERS, *rows))) for at in columns]
            rows = [HEADERS, *rows]
        for row in rows:
            cells = [cell.ljust(width) for cell, width in zip(row, self._widths, strict=False)]
            click.echo(printable(GAP.join([*cells, row[-1]])).rstrip())
