"""``gangctl convert``: the same gang in another notation."""

from __future__ import annotations

from typing import Any

import click

from gangctl.cli import options
from gangctl.cli.inputs import read_documents
from gangctl.cli.manifests import Problems, describe_others, is_jobset
from gangctl.cli.output import print_objects
from gangctl.gang.convert import Notation
from gangctl.gang.convert import convert as convert_jobset


@click.command()
@options.files
@options.output("yaml", "json")
@click.option(
    "--to", "notation", required=True, type=click.Choice([str(n) for n in Notation]), help="Notation to write."
)
def convert(*, filenames: tuple[str, ...], form: str, notation: str) -> None:
    """Write a gang configuration in another notation.

    \b
    annotations  gangctl.dev/gang-mode, which every JobSet CRD keeps
    gangconfig   gangConfig.gangMode (KEP-1068), in files and where a CRD keeps it
    scheduling   spec.scheduling (KEP-969), JobSet's own gang scheduling

    All three are read. What the target has no word for is refused; everything else in
    the JobSets, and every other object of the input, stays as it is.
    """  # noqa: D301 -- \b keeps the lines of a paragraph apart
    documents = read_documents(filenames)
    describe_others(documents)
    problems = Problems()
    objects: list[dict[str, Any]] = []
    for document in documents:
        if not is_jobset(document):
            objects.append(document.value)
            continue
        conversion = convert_jobset(document.value, Notation(notation))
        if not problems.add(document, conversion.errors):
            objects.append(conversion.value)
    problems.raise_if_any()
    print_objects(objects, form)
