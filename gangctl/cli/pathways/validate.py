"""``gangctl pathways validate``: everything that is wrong with PathwaysJobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gangctl.cli import options
from gangctl.cli.output import answer_no, print_answer
from gangctl.cli.pathways import flags

if TYPE_CHECKING:
    from gangctl.cli.kueuesnapshot import Stock
    from gangctl.cli.pathways.cluster import ClusterFacts


@click.command()
@flags.source
@options.paths(
    "--queues",
    "queue_files",
    about="Kueue's objects instead of those of a cluster: whether a queue can ever hold head and workers. Can be "
    "repeated.",
)
@click.option("--local-queue", metavar="NAME", help="LocalQueue to ask about, instead of the one that the label names.")
@options.kueue_namespace
@options.output("table", "json", "yaml")
@flags.target
@flags.fail_on_warnings
@options.cluster
@options.colour
def validate(
    *,
    queue_files: tuple[str, ...],
    local_queue: str | None,
    kueue_namespace: str,
    form: str,
    fail_on_warnings: bool,
    cluster: options.ClusterFlags,
    **given: Any,
) -> None:
    """Say what is wrong with a PathwaysJob.

    Every problem of every document is reported as "FILE:LINE:COLUMN: field: what is allowed (Reason)",
    those of the JobSet at the fields of the PathwaysJob that they come from. With --queues,
    --kubeconfig or --context it is also asked whether the queue can ever hold the head's cpu and
    memory and the workers, as "gangctl fit" does, and in a cluster whether any node is large enough
    for the head.

    Exit code 0, 1 when it can never be admitted (with --fail-on-warnings: when there is a warning),
    2 when something is wrong, 3 when the cluster cannot be reached.

    \b
    Examples:
      gangctl pathways validate -f pathwaysjobs/
      gangctl pathways validate -f pathwaysjob.yaml --queues queues.yaml
      gangctl pathways validate -f pathwaysjob.yaml --context production -o json
    """  # noqa: D301 -- \b keeps the lines of a paragraph apart
    from gangctl.cli.pathways import validation  # noqa: PLC0415 -- --help does without
    from gangctl.cli.pathways.subjects import refuse  # noqa: PLC0415

    if queue_files and cluster.given:
        raise click.UsageError("--queues stands in for a cluster: leave it out, or --kubeconfig and --context")
    if "-" in queue_files and "-" in given["filenames"]:
        raise click.UsageError("stdin can be only one of -f and --queues")
    wanted = flags.wanted(given)
    around = flags.facts_of(cluster, namespaces=wanted.namespaces, kueue_namespace=kueue_namespace)
    subjects = wanted.subjects(around)
    stock = _stock(queue_files, around)
    home = around.namespace if around is not None else "default"
    found = [validation.validated(subject, stock, local_queue, home) for subject in subjects]
    print_answer(
        form,
        [each.as_object() for each in found],
        lambda: [section for each in found if not each.subject.problems for section in each.sections()],
    )
    refuse(subjects)
    warned = any(notice.is_warning for subject in subjects for notice in subject.notices)
    if any(each.never for each in found) or (warned and fail_on_warnings):
        answer_no()


def _stock(queue_files: tuple[str, ...], around: ClusterFacts | None) -> Stock | None:
    """The queues to ask; None where none are known."""
    from gangctl.cli.kueuesnapshot import read_stock  # noqa: PLC0415 -- --help does without

    if around is not None:
        return around.stock
    return read_stock(queue_files) if queue_files else None
