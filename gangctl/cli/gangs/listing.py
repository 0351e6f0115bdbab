"""``gangctl get``: the gangs of a namespace, a cluster or files."""

from __future__ import annotations

from typing import Any

import click

from gangctl.cli import options
from gangctl.cli.gangs import asking
from gangctl.cli.gangs.views import gang_table, gang_titles
from gangctl.cli.output import Section, print_answer
from gangctl.readiness.phases import GangPhase
from gangctl.readiness.report import gang_object


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
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=asking.complete_names)
@asking.places
@asking.selector
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
@options.output("table", "json", "yaml", "name")
@options.colour
def command(
    *,
    names: tuple[str, ...],
    phases: tuple[GangPhase, ...],
    watch: bool,
    form: str,
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
        if form == "json":
            raise click.UsageError("a watch has no end, and JSON is one document: -o yaml is a stream")
        from gangctl.cli.gangs.following import print_changes  # noqa: PLC0415 -- only with --watch

        print_changes(wanted, chosen, form)
        return
    found = asking.find(wanted)
    now = wanted.now()
    states = [found.state.readiness(key, now) for key in found.keys]
    shown = [each for each in states if each is not None and (not chosen or each.phase in chosen)]
    print_answer(
        form,
        [gang_object(each) for each in shown],
        lambda: [Section(gang_titles(shown), table=gang_table(shown, now) if shown else None)],
    )
