"""``gangctl pathways status``: how a PathwaysJob stands in a cluster, and how to reach its proxy."""

from __future__ import annotations

import click

from gangctl.cli import options
from gangctl.cli.names import GANGS, NameArgument, ObjectName
from gangctl.cli.output import answer_no, print_answer


def _complete(ctx: click.Context, incomplete: str) -> list[str]:
    """Names of PathwaysJobs of the cluster that the flags so far point at; none where it does not answer at once."""
    from gangctl.cli.cluster import names_of  # noqa: PLC0415 -- only while completing
    from gangctl.controllers.pathways.plan import PATHWAYS_JOBS  # noqa: PLC0415

    return names_of(ctx, PATHWAYS_JOBS, incomplete)


@click.command()
@click.argument("name", type=NameArgument(*GANGS, complete=_complete))
@click.option(
    "-n",
    "--namespace",
    metavar="NAMESPACE",
    callback=options.check_namespace,
    help="Namespace of the PathwaysJob. Default: the context's.",
)
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
    from gangctl.cli.pathways.jobstatus import job_status, report_of, section_of  # noqa: PLC0415

    job = job_status(look_up(name.name, namespace, cluster))
    named = {"kubeconfig": cluster.kubeconfig, "context": cluster.context}
    flags = [f"--{key}={value}" for key, value in named.items() if value]
    print_answer(form, [report_of(job, flags)], lambda: [section_of(job, flags)])
    if job.failed:
        answer_no()
