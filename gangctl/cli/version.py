"""``gangctl version``: which gangctl this is, and which Kubernetes the cluster runs."""

from __future__ import annotations

from typing import Any

import click

from gangctl import __version__
from gangctl.cli import options
from gangctl.cli.output import TABLE, print_answer


@click.command()
@click.option("--client", is_flag=True, help="Print the version of this program alone, without asking a cluster.")
@options.output(TABLE, "yaml", "json")
@options.cluster
def version(*, client: bool, form: str, cluster: options.ClusterFlags) -> None:
    """Print the versions of gangctl and of the cluster.

    The version of the cluster is that of its API server. Exit code 3 when it cannot be reached.

    \b
    Examples:
      gangctl version --client
      gangctl version --context production -o json
    """  # noqa: D301 -- \b keeps the lines of a paragraph apart
    report: dict[str, Any] = {"clientVersion": {"gitVersion": f"v{__version__}"}}
    if form == TABLE:
        # Before the cluster is asked, which may not answer.
        click.echo(f"Client Version: v{__version__}")
    if not client:
        report["serverVersion"] = _server(cluster)
        if form == TABLE:
            click.echo(f"Server Version: {report['serverVersion'].get('gitVersion', 'unknown')}")
    if form != TABLE:
        print_answer(form, [report])


def _server(cluster: options.ClusterFlags) -> dict[str, Any]:
    from gangctl.cli.cluster import ask_cluster  # noqa: PLC0415 -- half a second that --client does without

    return ask_cluster(cluster, lambda client, _: client.discovery.version())
