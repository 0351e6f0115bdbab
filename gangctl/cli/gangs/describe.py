"""``gangctl describe``: one gang as a tree, its nodes, why it is not ready, and its events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gangctl.cli import options
from gangctl.cli.gangs import asking
from gangctl.cli.names import ObjectName, group_name
from gangctl.cli.output import print_answer

if TYPE_CHECKING:
    from gangctl.api.objects import Key
    from gangctl.cli.gangs.cluster import Reader


@click.command("describe")
@click.argument("name", type=asking.GANG_NAME)
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

    async def more(reader: Reader, keys: list[Key]) -> None:
        await reader.look_closely(keys)
        for key in keys:
            await reader.read_events(key)

    wanted = asking.asked((name,), **flags)
    found = asking.find(wanted, more)
    now = wanted.now()
    key = asking.one_of(found)
    described = describe(found.where(key), key, group or "", now)
    print_answer(form, [described.as_object()], lambda: description_sections(described, now))
