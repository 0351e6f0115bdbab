"""``gangctl get``: the gangs of a namespace, a cluster or files."""

from __future__ import annotations

from typing import Any

import click

from gangctl.cli import options
from gangctl.cli.gangs import asking
from gangctl.cli.gangs.views import LEGEND, WIDE_HEADERS, gang_entry, headers_of
from gangctl.cli.names import ObjectName
from gangctl.cli.output import Listing
from gangctl.readiness.result import GangPhase


class PhaseChoice(click.ParamType[GangPhase]):
    """A phase by its name, or in lower case as in metrics."""

    name = "phase"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> GangPhase:
        """The phase; a usage error names all phases."""
        found = next((phase for phase in GangPhase if str(value).lower() == phase.label), None)
        if found is None:
            self.fail(f'"{value}" is no phase; there are {", ".join(GangPhase)}', param, ctx)
        return found

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:  # noqa: ARG002
        """Their names."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 -- only while completing

        return [
            CompletionItem(phase.value, help=phase.sentence)
            for phase in GangPhase
            if phase.label.startswith(incomplete.lower())
        ]


@click.command("get")
@click.argument("names", nargs=-1, metavar="[NAME]...", type=asking.GANG_NAME)
@asking.places
@options.workers
@options.selector("JobSets")
@click.option(
    "--phase",
    "phases",
    multiple=True,
    metavar="PHASE",
    type=PhaseChoice(),
    help="Only gangs in this phase, such as Ready or Unschedulable. Can be repeated.",
)
@click.option("-w", "--watch", is_flag=True, help="Go on printing what changes, until Ctrl-C.")
@asking.files
@options.listing("table", "wide", "json", "yaml", "name")
@options.colour
def get(
    *,
    names: tuple[ObjectName, ...],
    phases: tuple[GangPhase, ...],
    watch: bool,
    listing: Listing,
    **flags: Any,
) -> None:
    """List gangs: phase, pods that are ready, and why others are not.

    A gang is a JobSet that asks for one. READY counts the pods that are ready of those that
    should exist now; REASON is the most likely cause where it is not ready. "gangctl why"
    says more about one.

    \b
    Examples:
      gangctl get -A
      gangctl get -n team-a --phase Unschedulable --phase PartiallyPlaced
      gangctl get train -o json
      gangctl get --watch
      kubectl get jobsets,jobs,pods,podgroups,events -A -o yaml | gangctl get -f -
    """  # noqa: D301 -- \b keeps the lines of a paragraph apart
    wanted = asking.asked(names, **flags)
    chosen = frozenset(phases)
    if watch:
        if wanted.offline:
            raise click.UsageError("files do not change: --watch needs a cluster")
        if wanted.workers:
            raise click.UsageError("--watch follows one cluster: leave --worker out, or watch in its --context")
        if listing.sort_by:
            raise click.UsageError("--sort-by needs all gangs, and a watch prints one at a time")
        if listing.form == "json" or "=" in listing.form:
            raise click.UsageError("--watch prints a table, -o wide, -o yaml or -o name")
        from gangctl.cli.gangs.following import print_changes  # noqa: PLC0415 -- only with --watch

        print_changes(wanted, chosen, listing)
        return
    found = asking.find(wanted)
    now = wanted.now()
    states = [found.where(key).readiness(key, now) for key in found.keys]
    shown = [each for each in states if each is not None and (not chosen or each.phase in chosen)]
    headers = headers_of(shown)
    listing.print(
        headers,
        [gang_entry(each, now, headers) for each in shown],
        wide=WIDE_HEADERS,
        nothing=wanted.nothing("gangs"),
        legend=LEGEND,
        listed=not names,
    )
