"""``gangctl convert``: the same gang in another notation, and gangs of other schedulers as gangctl's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import click

from gangctl.api.documents import Document
from gangctl.api.scheduling import generation_of_minor
from gangctl.cli import options
from gangctl.cli.inputs import read_documents, where
from gangctl.cli.manifests import Problems, is_jobset, other_schedulers, require_jobsets
from gangctl.cli.messages import note
from gangctl.cli.output import print_answer
from gangctl.gang.convert import Conversion, Notation, Object
from gangctl.gang.convert import convert as convert_jobset
from gangctl.gang.convert import replace_exclusive_topology as replace_topology
from gangctl.migration.draft import NAMES, System
from gangctl.migration.migrate import migrate


def _convert(
    documents: Sequence[Document], notation: Notation, place: Callable[[Object], Conversion] | None
) -> list[dict[str, Any]]:
    """The objects with converted JobSets; InvalidInputError if one cannot be converted."""
    require_jobsets(documents, is_jobset)
    problems = Problems()
    objects: list[dict[str, Any]] = []
    notes: list[str] = []
    for document in documents:
        if not is_jobset(document):
            objects.append(document.value)
            continue
        conversion = Conversion(document.value) if place is None else place(document.value)
        if not conversion.errors:
            conversion = convert_jobset(conversion.value, notation)
        if not problems.add(document, conversion.errors):
            objects.append(conversion.value)
        notes += other_schedulers(document)
    problems.raise_if_any()
    for text in notes:
        note(text)
    return objects


def _migrate(documents: Sequence[Document], system: System, queue: str) -> list[dict[str, Any]]:
    """The objects without parts for another scheduler; InvalidInputError if one cannot be converted."""
    migration = migrate([document.value for document in documents], system, queue=queue)
    problems = Problems()
    for position, document in enumerate(documents):
        problems.add(document, [problem.error for problem in migration.problems if problem.position == position])
    # First, because it says what to write in the place of another kind.
    problems.raise_if_any()
    require_jobsets(documents, is_jobset)
    for remark in migration.notes:
        note(f"{where(documents[remark.position], remark.path)}: {remark.text}")
    if not migration.converted:
        note(f"no JobSet of the input has anything for {NAMES[system].title}")
    return [value for value in migration.values if value is not None]


@click.command()
@options.files
@options.output("yaml", "json")
@click.option(
    "--to", "notation", required=True, type=click.Choice([str(n) for n in Notation]), help="Notation to write."
)
@click.option(
    "--from",
    "scheduler",
    type=click.Choice([str(system) for system in System]),
    help="Scheduler whose gangs become gangctl's; with --to annotations.",
)
@click.option(
    "--queue",
    metavar="NAME",
    callback=options.name_of("a LocalQueue", options.LABEL),
    help="LocalQueue of Kueue to put the JobSets into that come --from another scheduler.",
)
@click.option(
    "--replace-exclusive-topology",
    is_flag=True,
    help="Write exclusive placement, which deadlocks with a gang, as pod affinity.",
)
@click.option(
    "--kube",
    type=click.Choice(options.KUBERNETES),
    help="With --replace-exclusive-topology: from 1.36 on, option topologyKey is written, too.",
)
def convert(
    *,
    filenames: tuple[str, ...],
    form: str,
    notation: str,
    scheduler: str | None,
    queue: str | None,
    replace_exclusive_topology: bool,
    kube: str | None,
) -> None:
    """Write a gang configuration in another notation.

    \b
    annotations  gangctl.dev/gang-mode, which every JobSet CRD keeps
    gangconfig   gangConfig.gangMode (KEP-1068), in files and where a CRD keeps it
    scheduling   spec.scheduling (KEP-969), JobSet's own gang scheduling

    All three are read. What the target has no word for is refused; everything else in
    the JobSets, and every other object of the input, stays as it is.

    With --from, JobSets that are gangs of Volcano, KAI or coscheduling become gangs of
    gangctl: what only that scheduler reads is removed, its PodGroups are dropped, notes
    say what was left out. The reverse is not supported.

    With --replace-exclusive-topology, the annotation alpha.jobset.sigs.k8s.io/exclusive-topology
    of gangs becomes pod affinity: all pods of a Job in one domain, and no other Job there.
    """  # noqa: D301 -- \b keeps the lines of a paragraph apart
    if scheduler is not None and notation != Notation.ANNOTATIONS:
        raise click.UsageError(f"--from writes annotations: take --to {Notation.ANNOTATIONS}, and convert the result")
    if queue is not None and scheduler is None:
        raise click.UsageError("--queue belongs to --from; the label of Kueue is kueue.x-k8s.io/queue-name")
    if kube is not None and not replace_exclusive_topology:
        raise click.UsageError("--kube belongs to --replace-exclusive-topology")
    if scheduler is not None and replace_exclusive_topology:
        raise click.UsageError("--replace-exclusive-topology and --from: take one after the other")
    documents = read_documents(filenames)
    place = None
    if replace_exclusive_topology:
        place = partial(replace_topology, generation=generation_of_minor(kube) if kube else None)
    if scheduler is None:
        print_answer(form, _convert(documents, Notation(notation), place))
    else:
        print_answer(form, _migrate(documents, System(scheduler), queue or ""))
