"""``gangctl wait``: wait until gangs reach a goal, with progress messages."""

from __future__ import annotations

from typing import Any, Final

import click

from gangctl.cli import options
from gangctl.cli.gangs import asking
from gangctl.cli.names import ObjectName

_TEN_MINUTES: Final = "10m"

GOALS: Final = ("scheduled", "ready", "finished")


@click.command("wait")
@click.argument("names", nargs=-1, required=True, metavar="NAME...", type=asking.GANG_NAME)
@asking.of_namespace
@click.option(
    "--for",
    "goal",
    type=click.Choice(GOALS),
    default="ready",
    show_default=True,
    help="What to wait for: all its pods have nodes, all are ready, or the JobSet has succeeded.",
)
@click.option(
    "--timeout",
    metavar="TIME",
    default=_TEN_MINUTES,
    show_default=True,
    callback=options.seconds_of,
    help="How long: 90s, 1h30m.",
)
@click.option(
    "--fail-fast", is_flag=True, help="Give up on what only a person can repair, such as a gang that never fits."
)
@options.output("table", "json", "yaml", "name")
@options.colour
def wait(
    *,
    names: tuple[ObjectName, ...],
    goal: str,
    timeout: float,
    fail_fast: bool,
    form: str,
    **flags: Any,
) -> None:
    """Wait until gangs are scheduled, ready or finished.

    Each step is printed on stderr: the phase, how many pods are ready, and why they are not. The
    cluster is watched, not asked again and again.

    Exit code 0 when all of them are there, 1 with the cause when the time is over, when one
    has failed for good or is deleted, 2 for bad input, 3 when the cluster cannot be reached.

    \b
    Examples:
      gangctl wait train --timeout 30m
      gangctl wait train evaluate -n team-a --for finished --timeout 12h
      gangctl wait train --for scheduled --fail-fast
    """  # noqa: D301 -- \b keeps the lines of a paragraph apart
    from gangctl.cli.gangs.waitfor import Wanted, wait_for_gangs  # noqa: PLC0415 -- --help does without

    wait_for_gangs(asking.asked(names, **flags), Wanted(goal, timeout, fail_fast=fail_fast), form)
