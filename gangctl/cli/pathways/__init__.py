"""``gangctl pathways``: its verbs."""

from __future__ import annotations

from typing import Final

import click

from gangctl.cli.program import Commands, LazyGroup

VERBS: Final[Commands] = {
    "render": ("gangctl.cli.pathways.commands", "Print the JobSet that a PathwaysJob, or flags, become."),
    "validate": ("gangctl.cli.pathways.commands", "Say what is wrong with a PathwaysJob."),
    "why": ("gangctl.cli.pathways.commands", "Say of each field of the JobSet where it came from."),
    "accelerators": ("gangctl.cli.pathways.accelerators", "List TPU types, or say what a name stands for."),
    "status": ("gangctl.cli.pathways.commands", "Show a PathwaysJob in a cluster, and how to reach its proxy."),
}


@click.group(cls=LazyGroup, table=VERBS)
def pathways() -> None:
    """Turn a PathwaysJob into a JobSet, and say why it looks like that.

    All but status is offline, unless --kubeconfig or --context is given. What is rendered can be
    applied to any cluster with JobSet, with gangctl or without.

    \b
    Examples:
      gangctl pathways render -f examples/pathways/01-batch.yaml
      gangctl pathways accelerators v5p-128
    """  # noqa: D301 -- \b keeps the lines of a paragraph apart
