"""``gangctl sandbox``: a simulated cluster to try things on."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from gangctl.cli.demo import until_interrupted
from gangctl.cli.options import KUBERNETES


@click.command()
@click.option(
    "--kube",
    type=click.Choice(KUBERNETES),
    default=KUBERNETES[-1],
    show_default=True,
    help="Kubernetes minor to simulate.",
)
@click.option(
    "--kubeconfig-out",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Where to write the kubeconfig, which goes away at the end. Default: a temporary file.",
)
@click.option(
    "--nodes", type=click.IntRange(0, 1000), default=2, show_default=True, help="Nodes, of 4 CPUs and 16 GiB each."
)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port of the API server. Default: a free one.")
def sandbox(kube: str, kubeconfig_out: str | None, nodes: int, port: int) -> None:
    """Run a simulated cluster until Ctrl-C.

    An API server with simulated controllers for JobSet, Jobs, a scheduler that knows gangs, and
    kubelets, in memory and on loopback only. kubectl works with it, and so does "gangctl
    controller". Pods run until they are deleted, containers never.
    """
    from gangctl.demo.standing import Standing, stand  # noqa: PLC0415 -- a second that --help need not wait for

    with TemporaryDirectory(prefix="gangctl-sandbox-") as directory:
        file = Path(kubeconfig_out) if kubeconfig_out is not None else Path(directory, "kubeconfig")

        def ready(url: str) -> None:
            click.echo(f"# A simulated Kubernetes {kube} with JobSet at {url}: {nodes} nodes, no real cluster, no")
            click.echo("# containers. Pods run until they are deleted. Ctrl-C ends it, and all that is in it.")
            click.echo(f"export KUBECONFIG={file.absolute()}")

        # Ctrl-C is how it ends, not how it fails.
        with suppress(KeyboardInterrupt):
            until_interrupted(stand(Standing(kube, file, nodes, port), ready))
