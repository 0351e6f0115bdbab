"""Commands about PathwaysJobs: ``gangctl pathways render``, ``status``, ``validate`` and ``why``."""

from __future__ import annotations

from typing import Any

import click

from gangctl.cli import options
from gangctl.cli.messages import note
from gangctl.cli.names import GANGS, NameArgument, ObjectName, name_argument
from gangctl.cli.output import answer_no, print_answer
from gangctl.cli.pathways import flags
from gangctl.errors import InputError


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

    With -f every PathwaysJob of the files is translated: the user's pod stays as it is, except
    for the environment that JAX needs. With flags instead of a file, the user's container is
    made, too: its command runs in a wrapper that forwards SIGTERM, so that a checkpoint is
    written. The profile xpk has the conventions of AI-Hypercomputer/xpk, without a gang; gang,
    the default, has gangctl's own. Notes go to stderr.

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

    wanted = flags.wanted(given)
    subjects = wanted.subjects(flags.facts_of(cluster, wanted.namespace))
    refuse(subjects)
    refuse_nameless(subjects)
    warned = say_notices(subjects)
    for subject in subjects:
        note(f"{subject.title}: the head's pod requests {head_requests_in_words(subject.rendering.head_requests)}")
    if warned and fail_on_warnings:
        answer_no()
    jobsets = [subject.rendering.jobset for subject in subjects]
    print_answer(form, jobsets)


def _complete(ctx: click.Context, incomplete: str) -> list[str]:
    """Names of PathwaysJobs of the cluster that the flags so far point at; none where it does not answer at once."""
    from gangctl.cli.cluster import names_of  # noqa: PLC0415 -- only while completing
    from gangctl.controllers.pathways.plan import PATHWAYS_JOBS  # noqa: PLC0415

    return names_of(ctx, PATHWAYS_JOBS, incomplete)


@click.command()
@name_argument(NameArgument(*GANGS, complete=_complete))
@options.namespace_of("Namespace of the PathwaysJob. Default: the context's.")
@options.output("table", "json", "yaml")
@options.cluster
@options.colour
def status(*, name: ObjectName, namespace: str | None, form: str, cluster: options.ClusterFlags) -> None:
    """Show a PathwaysJob in a cluster, and how to reach its proxy.

    Says the phase and why, how many slices are ready, how often it was started again, and the
    address of its proxy. For a headless one it prints the kubectl command that brings the proxy
    to this machine. Where no controller writes a status, it follows from the JobSet, so that this
    works for what "gangctl pathways render" printed, too.

    Exit code 0, 1 when it has failed or does not exist, 3 when the cluster
    cannot be reached or does not serve PathwaysJobs.

    \b
    Examples:
      gangctl pathways status train -n research
      gangctl pathways status notebook --context production -o json
    """  # noqa: D301 -- \b keeps the lines of a paragraph apart
    from gangctl.cli.pathways.cluster import look_up  # noqa: PLC0415 -- half a second that --help does without
    from gangctl.cli.pathways.report import status_report, status_section  # noqa: PLC0415
    from gangctl.pathways.status import PathwaysPhase  # noqa: PLC0415

    seen = look_up(name.name, namespace, cluster)
    named = {"kubeconfig": cluster.kubeconfig, "context": cluster.context}
    report = status_report(seen, [f"--{key}={value}" for key, value in named.items() if value])
    print_answer(form, [report], lambda: [status_section(seen, report)])
    if report["phase"] == PathwaysPhase.FAILED:
        answer_no()


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
    from gangctl.cli.pathways import validation  # noqa: PLC0415
    from gangctl.cli.pathways.subjects import refuse  # noqa: PLC0415
    from gangctl.cli.queuefiles import check_alone, check_stdin, read_stock  # noqa: PLC0415 -- --help does without

    if queue_files:
        check_alone(cluster)
    if not cluster.given:
        options.no_cluster_is_asked()
        if not queue_files:
            options.refuse_given("local_queue", "needs queues: --queues, --kubeconfig or --context")
    check_stdin(given["filenames"], queue_files)
    wanted = flags.wanted(given)
    around = flags.facts_of(cluster, wanted.namespace, namespaces=wanted.namespaces, kueue_namespace=kueue_namespace)
    subjects = wanted.subjects(around)
    stock = around.stock if around is not None else read_stock(queue_files, wanted.namespace) if queue_files else None
    home = around.namespace if around is not None else "default"
    fits = [(subject, validation.fit_of(subject, stock, local_queue, home)) for subject in subjects]
    print_answer(
        form,
        [validation.validation_data(*one) for one in fits],
        lambda: [
            validation_section
            for one in fits
            if not one[0].problems
            for validation_section in validation.validation_sections(*one)
        ],
    )
    refuse(subjects)
    warned = any(notice.is_warning for subject in subjects for notice in subject.notices)
    never = any(fit is not None and fit["verdict"] == "never" for _, fit in fits)
    if never or (warned and fail_on_warnings):
        answer_no()


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

    wanted = flags.wanted(given)
    subjects = wanted.subjects(flags.facts_of(cluster, wanted.namespace))
    refuse(subjects)
    say_notices(subjects)
    origins = [(subject, provenance.fields_of(subject, prefixes)) for subject in subjects]
    if not any(fields for _, fields in origins):
        hint = "without --field all are shown; replicatedJobs[0] is the head, replicatedJobs[1] the workers"
        raise InputError(f"--field: the JobSet has nothing at {' or '.join(prefixes)}", hint=hint)
    print_answer(
        form,
        [provenance.origins_data(*one) for one in origins],
        lambda: [origins_section for one in origins for origins_section in provenance.origins_sections(*one)],
    )
