"""Sources of ``gangctl queue``: a cluster, or files instead of one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import click

from gangctl.cli import options
from gangctl.cli.kueuesnapshot import DEFAULT_NAMESPACE, Stock, read_stock
from gangctl.cli.options import F
from gangctl.cli.queue.jobsets import JobSets
from gangctl.client.client import Client
from gangctl.kueue.names import KUEUE_NAMESPACE


def queue_files(command: F) -> F:
    """``--queues``: files instead of a cluster."""
    return options.paths(
        "--queues",
        "queue_files",
        about="Read Kueue's objects from files instead of a cluster. Can be repeated.",
    )(command)


@dataclass(slots=True)
class Found:
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
    more: Callable[[Client, Found], Awaitable[None]] | None = None,
) -> Found:
    """Read files or a cluster, in a namespace or the context's; ``more`` reads other objects from a cluster."""
    if files:
        if cluster.given:
            raise click.UsageError("--queues stands in for a cluster: leave it out, or --kubeconfig and --context")
        return Found(read_stock(files), namespace or DEFAULT_NAMESPACE)
    from gangctl.cli.cluster import ask_cluster  # noqa: PLC0415 -- half a second that files do without
    from gangctl.cli.kueuecluster import read_kueue  # noqa: PLC0415

    async def ask(client: Client, own_namespace: str) -> Found:
        home = namespace or own_namespace
        found = Found(await read_kueue(client, None if everywhere else [home], kueue_namespace=kueue_namespace), home)
        if more is not None:
            await more(client, found)
        return found

    return ask_cluster(cluster, ask)
