"""``gangctl queue describe``: the gangs of a queue in the order of their admission."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from gangctl.cli import options
from gangctl.cli.names import NameArgument, ObjectName, ObjectNotFoundError
from gangctl.cli.output import print_answer
from gangctl.cli.quantities import with_quantities
from gangctl.cli.queue import flags
from gangctl.cli.queue.report import QueueDescription
from gangctl.cli.queue.sections import describe_sections
from gangctl.cli.queue.view import View
from gangctl.client.client import Client


@click.command("describe")
@click.argument("name", type=NameArgument("LocalQueue", "ClusterQueue"))
@click.option("-n", "--namespace", metavar="NAMESPACE", help="Namespace of the LocalQueue. Default: the context's.")
@click.option("--cluster-queue", is_flag=True, help="NAME is a ClusterQueue, as with clusterqueue/NAME.")
@flags.queue_files
@options.kueue_namespace
@options.output("table", "json", "yaml", "name")
@options.cluster
@options.colour
def describe(
    *,
    name: ObjectName,
    namespace: str | None,
    cluster_queue: bool,
    queue_files: tuple[str, ...],
    kueue_namespace: str,
    form: str,
    cluster: options.ClusterFlags,
) -> None:
    """Show what is in a queue, in the order of admission.

    First what holds quota, then what waits, in the order in which Kueue tries it: POSITION counts
    everything in the ClusterQueue, also what came through other LocalQueues. Below it, what
    does not get on by itself, and what helps. In the table of quota, BORROWABLE is the most
    that could ever be borrowed, FREE what could be had now, borrowing included. "-o name"
    prints the JobSets and other jobs.

    \b
    Examples:
      gangctl queue describe research -n team-a
      gangctl queue describe research --cluster-queue -o json
    """  # noqa: D301 -- \b keeps the lines of a paragraph apart
    cluster_queue |= name.kind == "ClusterQueue"
    if cluster_queue and namespace is not None:
        raise click.UsageError("--namespace is about LocalQueues: leave it out for a ClusterQueue")

    async def more(client: Client, found: flags.Found) -> None:
        from gangctl.cli.kueuecluster import read_other_doors  # noqa: PLC0415 -- needs the client, as files do not
        from gangctl.cli.queue.jobsets import read_jobsets  # noqa: PLC0415

        if not cluster_queue:
            await read_other_doors(client, found.stock, found.home)
        found.jobsets = await read_jobsets(client, found.stock, None if cluster_queue else found.home)

    found = flags.read(
        queue_files, cluster, namespace, everywhere=cluster_queue, kueue_namespace=kueue_namespace, more=more
    )
    now = datetime.now(UTC)
    report = _report(found, name.name, now, cluster_queue=cluster_queue)
    names = (
        {"apiVersion": each["apiVersion"], "kind": each["kind"], "metadata": {"name": each["name"]}}
        for each in report["members"]
    )
    print_answer(form, [with_quantities(report, QueueDescription)], lambda: describe_sections(report, now), names)


def _report(found: flags.Found, name: str, now: datetime, *, cluster_queue: bool) -> QueueDescription:
    """The queue of that name; ObjectNotFoundError when there is none."""
    view = View(found.stock, now, found.jobsets)
    if cluster_queue:
        known = found.stock.cluster_queues()
        if name not in known:
            hint = "gangctl queue list --cluster-queues lists them"
            raise ObjectNotFoundError("ClusterQueue", name, others=known, hint=hint)
        return view.describe_cluster_queue(known[name])
    door = view.local_queues.get((found.home, name))
    if door is None:
        others = [each.name for each in found.stock.local_queues(found.home)]
        hint = "gangctl queue list -A lists them"
        raise ObjectNotFoundError("LocalQueue", name, found.home, others=others, hint=hint)
    return view.describe_local_queue(door)
