"""``gangctl get --watch``: print each gang again when it changes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Final

import click

from gangctl.api.emit import to_yaml
from gangctl.api.objects import Key
from gangctl.cli.formats import TABLE, WIDE
from gangctl.cli.gangs.asking import Asking, live
from gangctl.cli.gangs.cluster import Reader
from gangctl.cli.gangs.views import WIDE_HEADERS, gang_row, headers_of
from gangctl.cli.gangs.watching import Watch
from gangctl.cli.output import Listing, Table, print_names, row_line
from gangctl.readiness.report import gang_object
from gangctl.readiness.result import GangPhase, Readiness

GONE: Final = "(deleted)"
_WIDTHS: Final[Mapping[str, int]] = {
    "NAMESPACE": 15,
    "NAME": 23,
    "PHASE": 19,
    "READY": 10,
    "REASON": 21,
    "QUEUE": 15,
    "SINCE": 9,
    "AGE": 9,
    "CLUSTER": 16,
    "CLUSTERQUEUE": 16,
    "RESTARTS": 11,
    "GROUPS": 9,
}
"""Minimum widths of columns with the gap behind them, for later rows."""


def print_changes(asking: Asking, phases: Collection[GangPhase], listing: Listing) -> None:
    """Print gangs until Ctrl-C; with ``phases`` only while they are in, or leave, one of these."""

    async def follow(reader: Reader, _keys: list[Key]) -> None:
        printer = _Printer(listing)
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

    def __init__(self, listing: Listing) -> None:
        self._form = listing.form
        self._headers = listing.headers
        self._columns: tuple[str, ...] = ()
        """Those of the first gangs, without the columns of ``-o wide``: rows that come later have no others."""
        self._widths: Sequence[int] = ()
        self._documents = 0

    def show(self, changes: Sequence[tuple[Readiness | None, Readiness | None]]) -> None:
        now = datetime.now(UTC).timestamp()
        self._columns = self._columns or headers_of(after for _, after in changes if after is not None)
        if self._form in {TABLE, WIDE}:
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
            return gang_row(after, now, self._columns)
        assert before is not None  # noqa: S101 -- a change has one of the two
        row = gang_row(before, now, self._columns)
        return (*row[:2], GONE, "", "", *row[5:])

    def _rows(self, rows: Sequence[tuple[str, ...]]) -> None:
        header = (*self._columns, *WIDE_HEADERS) if self._form == WIDE else self._columns
        if not self._widths:
            known = Table(header, tuple(row[: len(header)] for row in rows))
            self._widths = [max(width, _WIDTHS[name]) for name, width in zip(header, known.widths, strict=False)]
            rows = [header, *rows] if self._headers else rows
        for row in rows:
            click.echo(row_line(row[: len(header)], self._widths))
