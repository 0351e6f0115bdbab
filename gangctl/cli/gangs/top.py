"""``gangctl top``: running and waiting gangs; on a terminal it updates continuously."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from gangctl.cli import options
from gangctl.cli.formats import TABLE
from gangctl.cli.gangs import asking
from gangctl.cli.output import print_answer


@click.command("top")
@asking.places
@options.selector("JobSets")
@click.option("--once", is_flag=True, help="Print it once, also on a terminal.")
@asking.files
@options.output("table", "json", "yaml")
@options.no_headers
@options.colour
def top(*, once: bool, form: str, no_headers: bool, **flags: Any) -> None:
    """Show what runs and what waits, by queue: trouble first.

    On a terminal the view stays and follows the cluster, until Ctrl-C; elsewhere, with --once
    and with -f, it is printed once. READY counts the pods that are ready of those that should
    exist now, STRANDED those that hold nodes while their gang is short of its minimum. OLDEST is
    how long the oldest gang that is not ready has been in its phase, REQUESTED what all pods of
    gangs that are not over ask for. The second table has the gangs that are not ready.

    \b
    Examples:
      gangctl top -A
      gangctl top -n team-a --once -o json
      gangctl top -f dump.yaml
    """  # noqa: D301 -- \b keeps the lines of a paragraph apart
    from gangctl.cli.gangs.summary import (  # noqa: PLC0415 -- --help does without
        Summary,
        seen,
        summarise,
        summary_sections,
    )
    from gangctl.cli.quantities import with_quantities  # noqa: PLC0415

    wanted = asking.asked(**flags)
    if form == TABLE and not once and not wanted.offline and _on_terminal():
        from gangctl.cli.gangs.dashboard import show  # noqa: PLC0415 -- rich, only where it shows

        show(wanted)
        return
    found = asking.find(wanted)
    now = wanted.now()
    gangs = (found.state.readiness(key, now) for key in found.keys)
    summary = summarise(seen(found.state, gang) for gang in gangs if gang is not None)
    if form == TABLE and not summary["gangs"]:
        click.echo(wanted.nothing("gangs"), err=True)
    print_answer(
        form, [with_quantities(summary, Summary)], lambda: summary_sections(summary, now), headers=not no_headers
    )


def _on_terminal() -> bool:
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
