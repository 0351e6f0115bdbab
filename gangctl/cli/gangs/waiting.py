"""``gangctl wait``: wait until gangs reach a goal, with progress messages."""

from __future__ import annotations

import re
from typing import Any, Final

import click

from gangctl.cli import options
from gangctl.cli.gangs import asking
from gangctl.cli.names import ObjectName

_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)([smh])")
_TEN_MINUTES: Final = "10m"

GOALS: Final = ("scheduled", "ready", "finished")


def seconds_of(ctx: click.Context, param: click.Parameter, value: str) -> float:
    """A time like 90s, 10m or 1h30m; 0 needs no unit."""
    parts = _DURATION.findall(value)
    if value != "0" and (not parts or "".join(number + unit for number, unit in parts) != value):
        raise click.BadParameter(f'"{value}" is no time such as 90s, 10m or 1h30m', ctx, param)
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


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
    callback=seconds_of,
    help="How long: 90s, 1h30m.",
)
@click.option(
    "--fail-fast", is_flag=True, help="Give up on what only a person can repair, such as a gang that never fits."
)
@options.output("table", "json", "yaml", "name")
@options.colour
def command(
    *,
    names: tuple[ObjectName, ...],
    goal: str,
    timeout: float,
    fail_fast: bool,
    form: str,
    **flags: Any,
) -> None:
    """Wait until gangs are scheduled, ready or finished.

    Each step is told on stderr: the phase, how many pods are ready, and why they are not. The
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
