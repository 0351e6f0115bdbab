"""``gangctl queue list``: the queues of a namespace or a cluster."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from gangctl.cli import options
from gangctl.cli.kueuesnapshot import Stock
from gangctl.cli.output import Listing
from gangctl.cli.queue import flags
from gangctl.cli.queue.report import QueueReport
from gangctl.cli.queue.sections import LIST_LEGEND, WIDE_HEADERS, list_entry, list_headers
from gangctl.cli.queue.view import View


@click.command("list")
@click.option("-n", "--namespace", metavar="NAMESPACE", help="Namespace of the LocalQueues. Default: the context's.")
@click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="LocalQueues of all namespaces.")
@click.option("--cluster-queues", is_flag=True, help="List ClusterQueues instead of LocalQueues.")
@options.selector("queues")
@flags.queue_files
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
    those that do. QUOTA-USED of -o wide is what the ClusterQueue uses of its own quota:
    FLAVOR/RESOURCE=USED/NOMINAL. "gangctl queue describe" says what is free.

    \b
    Examples:
      gangctl queue list -A
      gangctl queue list --cluster-queues -o json
      gangctl queue list --queues dump.yaml
    """  # noqa: D301 -- \b keeps the lines of a paragraph apart
    if namespace is not None and (everywhere or cluster_queues):
        raise click.UsageError("--namespace excludes --all-namespaces and --cluster-queues")
    everywhere |= cluster_queues
    found = flags.read(queue_files, cluster, namespace, everywhere=everywhere)
    reports = _reports(found.stock, None if everywhere else found.home, cluster_queues=cluster_queues)
    if selector:
        reports = [each for each in reports if options.selected(selector, found.stock.queues[_key(each)])]
    kind = "ClusterQueues" if cluster_queues else "LocalQueues"
    listing.print(
        list_headers(local=not cluster_queues),
        [list_entry(each, local=not cluster_queues) for each in reports],
        wide=WIDE_HEADERS,
        nothing=f"No {kind} found{'' if everywhere else f' in namespace {found.home}'}.",
        legend=LIST_LEGEND,
    )


def _key(report: QueueReport) -> tuple[str, str, str]:
    return report["queue"], report["metadata"]["namespace"], report["metadata"]["name"]


def _reports(stock: Stock, namespace: str | None, *, cluster_queues: bool) -> list[QueueReport]:
    view = View(stock, datetime.now(UTC))
    if cluster_queues:
        return [view.of_cluster_queue(queue) for queue in stock.cluster_queues().values()]
    return [view.of_local_queue(door) for door in stock.local_queues(namespace)]
