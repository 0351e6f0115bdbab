"""Where the verbs of ``gangctl queue`` read from: a cluster, or files that stand in for one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import click

from gangctl.cli import options
from gangctl.cli.kueuesnapshot import DEFAULT_NAMESPACE, Stock, read_stock
from gangctl.cli.queue.jobsets import JobSets
from gangctl.client.client import Client
from gangctl.kueue.names import KUEUE_NAMESPACE

F = TypeVar("F", bound=Callable[..., Any])


def queue_files(command: F) -> F:
    """``--queues``: files instead of a cluster."""
    return options.paths(
        "--queues",
        "queue_files",
        about="Read Kueue's objects from files instead of a cluster. Can be repeated.",
    )(command)


@dataclass(frozen=True, slots=True)
class Place:
    """Which namespace was asked for: None is the context's."""

    namespace: str | None
    everywhere: bool = False


@dataclass(slots=True)
class Found:
    """What there is; ``home`` is the namespace asked for."""

    stock: Stock
    home: str
    jobsets: JobSets = field(default_factory=JobSets)
    """None are known where they may not be read, or files were."""


More = Callable[[Client, Found], Awaitable[None]]


async def nothing_more(_client: Client, _found: Found) -> None:
    """Nothing but Kueue's objects is read."""


def read(
    files: tuple[str, ...],
    cluster: options.ClusterFlags,
    place: Place,
    *,
    namespace_of_kueue: str = KUEUE_NAMESPACE,
    more: More = nothing_more,
) -> Found:
    """Read files or a cluster; ``more`` adds what else is wanted of a cluster."""
    if files:
        if cluster.given:
            raise click.UsageError("--queues stands in for a cluster: leave it out, or --kubeconfig and --context")
        return Found(read_stock(files), place.namespace or DEFAULT_NAMESPACE)
    from gangctl.cli.cluster import ask_cluster  # noqa: PLC0415 -- half a second that files do without
    from gangctl.cli.kueuecluster import read_kueue  # noqa: PLC0415

    async def ask(client: Client, own_namespace: str) -> Found:
        home = place.namespace or own_namespace
        stock = await read_kueue(client, None if place.everywhere else [home], kueue_namespace=namespace_of_kueue)
        found = Found(stock, home)
        await more(client, found)
        return found

    return ask_cluster(cluster, ask)
