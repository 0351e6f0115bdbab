"""Commands about gangs: ``gangctl get``, ``describe``, ``why``, ``wait`` and ``top``."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Final

import click

from gangctl.cli import options
from gangctl.cli.gangs import asking
from gangctl.cli.names import ObjectName, group_name, name_argument, names_argument
from gangctl.cli.output import TABLE, Listing, ListItem, Section, answer_no, print_answer

if TYPE_CHECKING:
    from gangctl.api.objects import Key
    from gangctl.cli.gangs.cluster import ScopeReader
    from gangctl.cli.gangs.state import GangState
    from gangctl.readiness.result import GangPhase


class PhaseChoice(click.ParamType["GangPhase"]):
    """A phase by its name, or in lower case as in metrics."""

    name = "phase"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> GangPhase:
        """The phase; a usage error names all phases."""
        from gangctl.readiness.result import GangPhase  # noqa: PLC0415 -- --help does without

        choice = next((phase for phase in GangPhase if str(value).lower() == phase.label), None)
        if choice is None:
            self.fail(f'"{value}" is no phase; there are {", ".join(GangPhase)}', param, ctx)
        return choice

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:  # noqa: ARG002
        """Their names."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 -- only while completing

        from gangctl.readiness.result import GangPhase  # noqa: PLC0415 -- --help does without

        return [
            CompletionItem(phase.value, help=phase.sentence)
            for phase in GangPhase
            if phase.label.startswith(incomplete.lower())
        ]


@click.command("get")
@names_argument("names", asking.GANG_NAME, "[NAME]...")
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
    should exist now; REASON is the most likely cause where it is not ready, or why it is no gang.
    "gangctl why" explains it.

    \b
    Examples:
      gangctl get -A
      gangctl get -n team-a --phase Unschedulable --phase PartiallyPlaced
      gangctl get train -o json
      gangctl get --watch
      kubectl get jobsets,jobs,pods,podgroups.scheduling.k8s.io,events -A -o yaml | gangctl get -f -
    """  # noqa: D301 -- \b keeps the lines of a paragraph apart
    from gangctl.cli.gangs.views import (  # noqa: PLC0415 -- --help does without
        LEGEND,
        WIDE_HEADERS,
        gang_row,
        headers_of,
    )
    from gangctl.readiness.report import gang_object  # noqa: PLC0415

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
        from gangctl.cli.gangs.watching import print_changes  # noqa: PLC0415 -- only with --watch

        print_changes(wanted, chosen, listing)
        return
    selection = asking.find(wanted)
    now = selection.state.now()
    states = [selection.where(key).readiness(key, now) for key in selection.keys]
    shown = [state for state in states if state is not None and (not chosen or state.phase in chosen)]
    headers = headers_of(shown)
    listing.print(
        headers,
        [ListItem(gang_object(gang), gang_row(gang, now, headers)) for gang in shown],
        wide=WIDE_HEADERS,
        nothing=selection.nothing,
        legend=LEGEND,
        listed=not names,
    )


@click.command("describe")
@name_argument(asking.GANG_NAME)
@asking.of_namespace
@options.workers
@click.option(
    "--group", metavar="NAME", callback=group_name, help="Only this group of the JobSet, by its name or its template's."
)
@asking.files
@options.output("table", "json", "yaml")
@options.colour
def describe(*, name: ObjectName, group: str | None, form: str, **flags: Any) -> None:
    """Show one gang: groups, Jobs, pods, nodes, causes, events.

    Groups, Jobs and pods are drawn as a tree: what is alike is counted, a few of a kind are
    named. A group is what starts together: the JobSet, a replicated job, or each replica.
    "-o json" prints the Gang with its details.

    \b
    Examples:
      gangctl describe train
      gangctl describe train -n team-a --group workers
      gangctl describe train -f dump.yaml -o json
    """  # noqa: D301 -- \b keeps the lines of a paragraph apart
    from gangctl.cli.gangs.description import describe, description_sections  # noqa: PLC0415 -- --help does without

    async def more(reader: ScopeReader, keys: list[Key]) -> None:
        await reader.look_closely(keys)
        for key in keys:
            await reader.read_succeeded(key)
            await reader.read_events(key)

    wanted = asking.asked((name,), **flags)
    selection = asking.find(wanted, more, lambda _state, keys: keys)
    now = selection.state.now()
    key = asking.one_of_each(selection)[0]
    described = describe(selection.where(key), key, group or "", now)
    print_answer(form, [described.as_object()], lambda: description_sections(described, now))


_MOST_COMPARED: Final = 20
"""Gangs without a NAME whose pods are compared with the nodes: each is a simulation of the scheduler."""


@click.command("why")
@names_argument("names", asking.GANG_NAME, "[NAME]...")
@asking.places
@options.workers
@options.selector("JobSets")
@asking.files
@options.output("table", "json", "yaml")
@options.colour
def why(*, names: tuple[ObjectName, ...], form: str, **flags: Any) -> None:
    """Say why gangs are not running, most likely cause first.

    Each cause comes with what shows it, what to do about it, and the next command to run.
    Without NAME: the gangs that something blocks, that have failed or that are no gangs, each
    with its most likely cause. Nothing is written. Where you may create Jobs, a dry run checks
    whether the API server keeps the group that pods name.

    Exit code 0 when they run, start or have finished well, 1 when something blocks one or it
    has failed, 2 for bad input, 3 when the cluster cannot be reached.

    \b
    Examples:
      gangctl why train
      gangctl why -n team-a
      gangctl why train -n team-a -o json
      gangctl why train -f dump.yaml
    """  # noqa: D301 -- \b keeps the lines of a paragraph apart
    from gangctl.cli.gangs.explanation import explained  # noqa: PLC0415 -- --help does without
    from gangctl.cli.gangs.views import in_short, is_no, needs_attention  # noqa: PLC0415
    from gangctl.readiness.report import gang_object  # noqa: PLC0415

    wanted = asking.asked(names, **flags)

    def compared(state: GangState, keys: list[Key]) -> list[Key]:
        return keys if names else state.refused(keys)[:_MOST_COMPARED]

    async def more(reader: ScopeReader, keys: list[Key]) -> None:
        await reader.look_closely(compared(reader.state, keys))

    selection = asking.find(wanted, more, compared)
    keys = asking.one_of_each(selection) if names else selection.keys
    now = selection.state.now()
    gangs = [gang for key in keys if (gang := selection.where(key).readiness(key, now)) is not None]
    if not gangs:
        click.echo(selection.nothing, err=True)
    shown = gangs if names else [gang for gang in gangs if needs_attention(gang)]

    def sections() -> list[Section]:
        if not names:
            return in_short(shown, len(gangs), now, lambda key, command: selection.where(key).flags.on(command))
        return [section for gang in gangs for section in explained(gang, selection.where(gang.key), now)]

    print_answer(form, [gang_object(gang) for gang in shown], sections, listed=len(names) != 1)
    if any(map(is_no, gangs)):
        answer_no()


_TEN_MINUTES: Final = "10m"

GOALS: Final = ("scheduled", "ready", "finished", "suspended")


@click.command("wait")
@names_argument("names", asking.GANG_NAME, "NAME...", required=True)
@asking.of_namespace
@click.option(
    "--for",
    "goal",
    type=click.Choice(GOALS, case_sensitive=False),
    default="ready",
    show_default=True,
    help="What to wait for: all its pods have nodes, all are ready, the JobSet has succeeded, or it is suspended and "
    "has no pods.",
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
    """Wait until gangs are scheduled, ready, finished or suspended.

    Each change is printed on stderr: the phase, how many pods are ready, and why they are not.
    The cluster is watched, not polled.

    Exit code 0 when all have reached it, 1 with the cause at the timeout, or when one has failed
    permanently or is deleted, 2 for bad input, 3 when the cluster cannot be reached.

    \b
    Examples:
      gangctl wait train --timeout 30m
      gangctl wait train evaluate -n team-a --for finished --timeout 12h
      gangctl wait train --for scheduled --fail-fast
      gangctl wait train --for suspended
      kubectl wait jobset/train --for=delete
    """  # noqa: D301 -- \b keeps the lines of a paragraph apart
    from gangctl.cli.gangs.watching import wait_for_gangs  # noqa: PLC0415 -- --help does without

    wait_for_gangs(asking.asked(names, **flags), form, goal=goal, timeout=timeout, fail_fast=fail_fast)


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
    selection = asking.find(wanted)
    now = selection.state.now()
    gangs = (selection.state.readiness(key, now) for key in selection.keys)
    summary = summarise(seen(selection.state, gang) for gang in gangs if gang is not None)
    if form == TABLE and not summary["gangs"]:
        click.echo(selection.nothing, err=True)
    print_answer(
        form, [with_quantities(summary, Summary)], lambda: summary_sections(summary, now), headers=not no_headers
    )


def _on_terminal() -> bool:
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
