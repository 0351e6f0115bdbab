"""``gangctl queue``: its verbs."""

from __future__ import annotations

from typing import Final

import click

from gangctl.cli.program import Commands, LazyGroup

VERBS: Final[Commands] = {
    "list": ("gangctl.cli.queue.commands", "List queues: state, what waits, quota in use."),
    "describe": ("gangctl.cli.queue.commands", "Show the gangs of a queue in the order of their admission."),
}


@click.group(cls=LazyGroup, table=VERBS)
def queue() -> None:
    """Show what waits in a queue, and what it waits for.

    The queues are those of Kueue. JobSets are shown as gangs, by their names; what else waits
    in the same queue is shown as what it is. Nothing is written.

    \b
    Examples:
      gangctl queue list -A
      gangctl queue describe research -n research
    """  # noqa: D301 -- \b keeps the lines of a paragraph apart
