"""``gangctl pathways render``: the JobSet that a PathwaysJob, or flags, become."""

from __future__ import annotations

from typing import Any

import click

from gangctl.cli import options
from gangctl.cli.messages import note
from gangctl.cli.output import answer_no, print_answer
from gangctl.cli.pathways import flags


@click.command()
@flags.source
@options.output("yaml", "json", "name")
@flags.target
@flags.fail_on_warnings
@options.cluster
def render(
    *,
    form: str,
    fail_on_warnings: bool,
    cluster: options.ClusterFlags,
    **given: Any,
) -> None:
    """Print the JobSet that a PathwaysJob, or flags, become.

    With -f every PathwaysJob of the files is translated: the user's pod stays as it is, but for
    the environment that JAX needs. With flags in its place the user's container is made, too:
    the command runs in a wrapper that hands SIGTERM on, so that a checkpoint is written. The
    profile xpk has the conventions of AI-Hypercomputer/xpk, without a gang; gang, the default, has
    gangctl's own. What is good to know goes to stderr.

    With --kubeconfig or --context the cluster is asked whether it has gangs, and whether any node
    that takes the head is large enough for it. Nothing is written.

    \b
    Examples:
      gangctl pathways render -f pathwaysjob.yaml | kubectl apply -f -
      gangctl pathways render --workload train --tpu-type v5p-8 --num-slices 2 \\
        --docker-image IMAGE --command 'python train.py' --pathways-gcs-location gs://BUCKET/DIR
      gangctl pathways render --workload notebook --headless --tpu-type v6e-16 \\
        --pathways-gcs-location gs://BUCKET/DIR --profile xpk
    """  # noqa: D301 -- \b keeps the lines of a paragraph apart
    from gangctl.cli.pathways.subjects import refuse, refuse_nameless, say_notices  # noqa: PLC0415 -- --help does without
    from gangctl.pathways.draft import head_requests_in_words  # noqa: PLC0415

    subjects = flags.wanted(given).subjects(flags.facts_of(cluster))
    refuse(subjects)
    refuse_nameless(subjects)
    warned = say_notices(subjects)
    for subject in subjects:
        note(f"{subject.title}: the head's pod requests {head_requests_in_words(subject.rendering.head_requests)}")
    if warned and fail_on_warnings:
        answer_no()
    jobsets = [subject.rendering.jobset for subject in subjects]
    print_answer(form, jobsets)
