"""Completion of the flags and arguments of ``gangctl pathways``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def complete_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """Names of PathwaysJobs of the cluster that the flags so far point at; none where it does not answer at once."""
    from gangctl.cli.gangs.completing import names_of  # noqa: PLC0415 -- only while completing
    from gangctl.controllers.pathways.copies import PATHWAYS_JOBS  # noqa: PLC0415

    return names_of(ctx, PATHWAYS_JOBS, incomplete)


def complete_accelerators(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of TPU types."""
    from gangctl.cli.pathways.accelerators import complete_name  # noqa: PLC0415 -- only while completing

    return complete_name(ctx, param, incomplete)
