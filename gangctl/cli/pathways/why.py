"""``gangctl pathways why``: where each field of the JobSet comes from."""

from __future__ import annotations

from typing import Any

import click

from gangctl.cli import options
from gangctl.cli.output import print_answer
from gangctl.cli.pathways import flags
from gangctl.errors import InputError


@click.command()
@flags.source
@click.option(
    "--field",
    "prefixes",
    multiple=True,
    metavar="PATH",
    help="Only this field of the JobSet and what is in it, such as spec.replicatedJobs[0]. Can be repeated.",
)
@options.output("table", "json", "yaml")
@flags.target
@options.cluster
@options.colour
def why(
    *,
    prefixes: tuple[str, ...],
    form: str,
    cluster: options.ClusterFlags,
    **given: Any,
) -> None:
    """Say of each field of the JobSet where it came from.

    A field of the PathwaysJob, a flag, an option, a default of the API, the table of accelerators,
    or a rule of gangctl, and why. What is asked is the same as of "render". "-o json" has the whole
    values, and the line where a person wrote them.

    \b
    Examples:
      gangctl pathways why -f pathwaysjob.yaml
      gangctl pathways why -f pathwaysjob.yaml --field spec.replicatedJobs[1]
      gangctl pathways why --workload train --tpu-type v5p-8 --docker-image IMAGE \\
        --command 'python train.py' --pathways-gcs-location gs://BUCKET/DIR -o json
    """  # noqa: D301 -- \b keeps the lines of a paragraph apart
    from gangctl.cli.pathways import provenance  # noqa: PLC0415 -- --help does without
    from gangctl.cli.pathways.subjects import refuse, say_notices  # noqa: PLC0415

    subjects = flags.wanted(given).subjects(flags.facts_of(cluster))
    refuse(subjects)
    say_notices(subjects)
    found = [(subject, provenance.fields_of(subject, prefixes)) for subject in subjects]
    if not any(fields for _, fields in found):
        hint = "without --field all are shown; replicatedJobs[0] is the head, replicatedJobs[1] the workers"
        raise InputError(f"--field: the JobSet has nothing at {' or '.join(prefixes)}", hint=hint)
    print_answer(
        form,
        [provenance.origins_data(*one) for one in found],
        lambda: [each for one in found for each in provenance.origins_sections(*one)],
    )
