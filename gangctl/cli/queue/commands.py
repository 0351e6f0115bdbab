"""Commands about queues: ``gangctl queue list`` and ``describe``, of a cluster or of files instead of one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime

import click

from gangctl.cli import options
from gangctl.cli.inputs import DEFAULT_NAMESPACE
from gangctl.cli.messages import note
from gangctl.cli.names import NameArgument, ObjectName, ObjectNotFoundError, name_argument
from gangctl.cli.options import F
from gangctl.cli.output import Listing, print_answer
from gangctl.cli.quantities import with_quantities
from gangctl.cli.queue.report import (
    HEADERS,
    LIST_LEGEND,
    LOCAL_HEADERS,
    WIDE_HEADERS,
    QueueDescription,
    QueueReport,
    describe_sections,
    list_entry,
)
from gangctl.cli.queue.view import JobSets, View
from gangctl.cli.queuefiles import check_alone, read_stock
from gangctl.client.client import Client
from gangctl.cluster.stock import Stock
from gangctl.kueue.names import KUEUE_NAMESPACE


def queue_files(command: F) -> F:
    """``--queues``: files instead of a cluster."""
    return options.paths(
        "--queues",
        "queue_files",
        about="Read Kueue's objects from files instead of a cluster. Can be repeated.",
    )(command)


@dataclass(slots=True)
class QueueObjects:
    """The objects; ``home`` is the selected namespace."""

    stock: Stock
    home: str
    jobsets: JobSets = field(default_factory=JobSets)
    """Unknown if they may not be read, or if files are the source."""


def read(
    files: tuple[str, ...],
    cluster: options.ClusterFlags,
    namespace: str | None,
    *,
    everywhere: bool = False,
    kueue_namespace: str = KUEUE_NAMESPACE,
    more: Callable[[Client, QueueObjects], Awaitable[None]] | None = None,
) -> QueueObjects:
    """Read files or a cluster, in a namespace or the context's; ``more`` reads other objects from a cluster."""
    if files:
        check_alone(cluster)
        options.no_cluster_is_asked()
        return QueueObjects(read_stock(files, namespace), namespace or DEFAULT_NAMESPACE)
    from gangctl.cli.cluster import ask_cluster  # noqa: PLC0415 -- half a second that files do without
    from gangctl.cli.kueuecluster import read_kueue  # noqa: PLC0415

    async def ask(client: Client, own_namespace: str) -> QueueObjects:
        home = namespace or own_namespace
        objects = QueueObjects(
            await read_kueue(client, None if everywhere else [home], kueue_namespace=kueue_namespace), home
        )
        if more is not None:
            await more(client, objects)
        return objects

    return ask_cluster(cluster, ask)


@click.command("list")
@options.namespace_of("Namespace of the LocalQueues. Default: the context's; of files, all.")
@click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="LocalQueues of all namespaces.")
@click.option("--cluster-queues", is_flag=True, help="List ClusterQueues instead of LocalQueues.")
@options.selector("queues")
@queue_files
@options.listing("table", "wide", "json", "yaml", "name")
@options.cluster
@options.colour
def command(
    *,
    namespace: str | None,
    everywhere: bool,
    cluster_queues: bool,
    selector: str | None,
    queue_files: tuple[str, ...],
    listing: Listing,
    cluster: options.ClusterFlags,
) -> None:
    """List queues: state, how much waits, and quota in use.

    A queue is active, stopped (stopPolicy), missing (its ClusterQueue does not exist) or
    inactive, with the reason. PENDING and ADMITTED count the Workloads that hold no quota, and
    those that do. -o wide adds OLDEST, the age of the oldest pending one, and QUOTA-USED, what
    the ClusterQueue uses of its own quota: FLAVOR/RESOURCE=USED/NOMINAL. "gangctl queue
    describe" says what is free.

    \b
    Examples:
      gangctl queue list -A
      gangctl queue list --cluster-queues -o json
      gangctl queue list --queues dump.yaml
    """  # noqa: D301 -- \b keeps the lines of a paragraph apart
    if namespace is not None and (everywhere or cluster_queues):
        raise click.UsageError("--namespace excludes --all-namespaces and --cluster-queues")
    # A ClusterQueue has Workloads from LocalQueues of all namespaces; files have no namespace of a context.
    everywhere |= cluster_queues or (bool(queue_files) and namespace is None)
    objects = read(queue_files, cluster, namespace, everywhere=everywhere)
    now = objects.stock.now()
    reports = _reports(objects.stock, now, None if everywhere else objects.home, cluster_queues=cluster_queues)
    if selector:
        reports = [report for report in reports if options.selected(selector, objects.stock.raw[_key(report)])]
    for fact in dict.fromkeys(fact for report in reports for fact in report["unknown"]):
        note(f"not known: {fact}")
    kind = "ClusterQueues" if cluster_queues else "LocalQueues"
    listing.print(
        HEADERS if cluster_queues else (*LOCAL_HEADERS, *HEADERS),
        [list_entry(report, now, local=not cluster_queues) for report in reports],
        wide=WIDE_HEADERS,
        nothing=f"No {kind} found{'' if everywhere else f' in namespace {objects.home}'}.",
        legend=LIST_LEGEND,
    )


def _key(report: QueueReport) -> tuple[str, str, str]:
    return report["queue"], report["metadata"]["namespace"], report["metadata"]["name"]


def _reports(stock: Stock, now: datetime, namespace: str | None, *, cluster_queues: bool) -> list[QueueReport]:
    view = View(stock, now)
    if cluster_queues:
        return [view.of_cluster_queue(queue) for queue in stock.cluster_queues_by_name().values()]
    return [view.of_local_queue(door) for door in stock.local_queues_in(namespace)]


@click.command("describe")
@name_argument(NameArgument("LocalQueue", "ClusterQueue"))
@options.namespace_of("Namespace of the LocalQueue. Default: the context's; of files, default.")
@click.option("--cluster-queue", is_flag=True, help="NAME is a ClusterQueue, as with clusterqueue/NAME.")
@queue_files
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
    needs a change, and which. In the table of quota, BORROWABLE is the most
    that could ever be borrowed, FREE what is available now, borrowing included. "-o name"
    prints the JobSets and other jobs.

    \b
    Examples:
      gangctl queue describe research -n team-a
      gangctl queue describe research --cluster-queue -o json
    """  # noqa: D301 -- \b keeps the lines of a paragraph apart
    cluster_queue |= name.kind == "ClusterQueue"
    if cluster_queue and namespace is not None:
        raise click.UsageError("--namespace is about LocalQueues: leave it out for a ClusterQueue")

    async def more(client: Client, objects: QueueObjects) -> None:
        from gangctl.cli.queue.view import read_jobsets  # noqa: PLC0415 -- needs the client, as files do not

        objects.jobsets = await read_jobsets(client, objects.stock, None if cluster_queue else objects.home)

    objects = read(
        queue_files, cluster, namespace, everywhere=cluster_queue, kueue_namespace=kueue_namespace, more=more
    )
    now = objects.stock.now()
    report = _report(objects, name.name, now, cluster_queue=cluster_queue)
    names = (
        {"apiVersion": member["apiVersion"], "kind": member["kind"], "metadata": {"name": member["name"]}}
        for member in report["members"]
    )
    print_answer(form, [with_quantities(report, QueueDescription)], lambda: describe_sections(report, now), names)


def _report(found: QueueObjects, name: str, now: datetime, *, cluster_queue: bool) -> QueueDescription:
    """The queue of that name; ObjectNotFoundError when there is none."""
    view = View(found.stock, now, found.jobsets)
    if cluster_queue:
        known = found.stock.cluster_queues_by_name()
        if name not in known:
            hint = "gangctl queue list --cluster-queues lists them"
            raise ObjectNotFoundError("ClusterQueue", name, others=known, hint=hint)
        return view.describe(view.of_cluster_queue(known[name]))
    door = found.stock.local_queue(found.home, name)
    if door is None:
        others = [local_queue.name for local_queue in found.stock.local_queues_in(found.home)]
        hint = "gangctl queue list -A lists them"
        raise ObjectNotFoundError("LocalQueue", name, found.home, others=others, hint=hint)
    return view.describe(view.of_local_queue(door))
