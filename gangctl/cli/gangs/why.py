"""``gangctl why``: why a gang is not running, in order of likelihood, with evidence."""

from __future__ import annotations

from typing import Any

import click

from gangctl.cli import options
from gangctl.cli.gangs import asking
from gangctl.cli.names import ObjectName
from gangctl.cli.output import answer_no, print_answer


@click.command("why")
@click.argument("name", type=asking.GANG_NAME)
@asking.of_namespace
@options.workers
@asking.files
@options.output("table", "json", "yaml")
@options.colour
def why(*, name: ObjectName, form: str, **flags: Any) -> None:
    """Say why a gang is not running, most likely cause first.

    Each cause comes with what shows it, what to do about it, and the next command to run.
    Nothing is written. Where you may create Jobs, a dry run checks whether the API server
    keeps the group that pods name.

    Exit code 0 when it runs, gets on or has finished well, 1 when something blocks it or it
    has failed, 2 for bad input, 3 when the cluster cannot be reached.

    \b
    Examples:
      gangctl why train
      gangctl why train -n team-a -o json
      gangctl why train -f dump.yaml
    """  # noqa: D301 -- \b keeps the lines of a paragraph apart
    from gangctl.cli.gangs.views import explanation, is_no  # noqa: PLC0415 -- --help does without
    from gangctl.readiness.report import gang_object  # noqa: PLC0415

    wanted = asking.asked((name,), **flags)
    found = asking.find(wanted, lambda reader, keys: reader.look_closely(keys))
    key = asking.one_of(found)
    now = wanted.now()
    state = found.where(key)
    gang = state.readiness(key, now)
    assert gang is not None  # noqa: S101 -- it was found a moment ago
    print_answer(form, [gang_object(gang)], lambda: explanation(gang, state.outcome(key), now))
    if is_no(gang):
        answer_no()
