"""``gangctl sandbox``: a simulated cluster for experiments."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import click

from gangctl.cli.demo import until_interrupted
from gangctl.cli.options import KUBERNETES, RELEASED
from gangctl.errors import plural

CAPACITY: Final = {"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": "8"}
"""Of each node; on three of them the first example of the README has what it asks for."""

_OWN: Final = re.compile(r"cpu|memory|pods|ephemeral-storage|hugepages-[0-9]+[KMG]i")
_EXTENDED: Final = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_FRACTIONS: Final = frozenset({"cpu"})
"""Resources of which a node may have parts; of bytes, pods and devices it has whole numbers."""


def _shown(capacity: Mapping[str, str]) -> str:
    return ",".join(f"{name}={amount}" for name, amount in capacity.items())


def read_capacity(ctx: click.Context, param: click.Parameter, value: str) -> dict[str, str]:  # noqa: ARG001
    """The capacity of a node: what ``NAME=AMOUNT,...`` says, laid over :data:`CAPACITY`."""
    given: dict[str, str] = {}
    for part in value.split(",") if value else ():
        name, equals, amount = part.partition("=")
        if not equals:
            raise click.BadParameter(f'"{part}" is not NAME=AMOUNT, such as nvidia.com/gpu=8')
        if name in given:
            raise click.BadParameter(f'"{name}" is named twice')
        given[name] = _amount(name, amount)
    return {**CAPACITY, **given}


def _amount(name: str, amount: str) -> str:
    from gangctl.api.quantity import parse_quantity  # noqa: PLC0415 -- only with the option

    if not _OWN.fullmatch(name) and not _EXTENDED.fullmatch(name):
        raise click.BadParameter(
            f'"{name}" is not a resource of a node: cpu, memory, pods, ephemeral-storage, hugepages-SIZE, '
            "or DOMAIN/NAME, such as nvidia.com/gpu"
        )
    try:
        quantity = parse_quantity(amount)
    except ValueError as error:
        raise click.BadParameter(f"{name}: {error}") from error
    if quantity < 0 or (name not in _FRACTIONS and quantity.denominator != 1):
        kind = "an amount of at least 0" if name in _FRACTIONS else "a whole number of at least 0"
        raise click.BadParameter(f'{name}: "{amount}" is not {kind}')
    return amount


@click.command()
@click.option(
    "--kube",
    type=click.Choice(KUBERNETES),
    default=RELEASED,
    show_default=True,
    help="Kubernetes minor to simulate.",
)
@click.option(
    "--kubeconfig-out",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Where to write the kubeconfig, which goes away at the end. Default: a temporary file.",
)
@click.option("--nodes", type=click.IntRange(0, 1000), default=3, show_default=True, help="Number of nodes.")
@click.option(
    "--capacity",
    metavar="NAME=AMOUNT,...",
    default="",
    callback=read_capacity,
    help=f"What each node has. Resources that are not named have their default: {_shown(CAPACITY)}.",
)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port of the API server. Default: a free one.")
@click.argument("program", nargs=-1, metavar="[-- PROGRAM...]")
@click.pass_context
def sandbox(  # noqa: PLR0917 -- one for each option
    ctx: click.Context,
    kube: str,
    kubeconfig_out: str | None,
    nodes: int,
    capacity: Mapping[str, str],
    port: int,
    program: tuple[str, ...],
) -> None:
    """Run a simulated cluster until Ctrl-C, or while PROGRAM runs.

    An API server with simulated controllers for JobSet, Jobs, a scheduler that knows gangs, and
    kubelets, in memory and on loopback only. kubectl works with it, and so does "gangctl
    controller". Pods run until they are deleted, containers never.

    The scheduler knows gangs, priorities, requests, host ports, taints, node selectors and node
    affinity. It preempts nothing, and ignores topology, volumes and affinity to other pods. Evictions
    need no PodDisruptionBudget. To try these, make a cluster of real Kubernetes with simulated nodes.

    PROGRAM, such as a shell, has the cluster in KUBECONFIG, and its exit code is that of this command.
    """
    from gangctl.demo.simulated import simulate  # noqa: PLC0415 -- a second that --help need not wait for

    with TemporaryDirectory(prefix="gangctl-sandbox-") as directory:
        file = Path(kubeconfig_out).absolute() if kubeconfig_out is not None else Path(directory, "kubeconfig")

        def ready(url: str) -> None:
            click.echo(f"# A simulated Kubernetes {kube} with JobSet at {url}.")
            click.echo(
                f"# {plural(nodes, 'node')} of {_shown(capacity)}. Pods run until they are deleted, containers never."
            )
            click.echo(f"# The cluster, and all that is in it, ends with {program[0] if program else 'Ctrl-C'}.")
            if not program:
                click.echo(f"export KUBECONFIG={file}")

        try:
            ctx.exit(until_interrupted(simulate(kube, file, nodes, capacity, ready, port=port, program=program)))
        except KeyboardInterrupt:
            # Ctrl-C is the normal end where there is no program, not a failure.
            if program:
                raise
